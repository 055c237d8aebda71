/*
 * A queue between two processes that do not trust each other (crates/ring/src/frames), for the model
 * checker spin: sleeping, waking, and death at each step.
 *
 * A producer, a consumer, and an environment that kills either at any step. Another consumer comes
 * in the place of the first that died. A step is one access to shared memory, or one call of the
 * kernel. Each process has a store buffer, first in, first out, of which the environment writes out
 * as much as it likes when it likes (total store order, as x86 has); a fence waits until it is
 * empty. What is in the buffer of a process that is killed still gets out. Weaker memory is loom's
 * part (crates/ring/src/frames/interleavings.rs).
 *
 * A bell is a socket: it stays rung until it is silenced, and sounds when its other end dies.
 *
 * Checked, each broken by a mistake that can be put in, or the check could not fail:
 *  1. Nobody sleeps for ever who has something to do: when all is quiet, whoever sleeps has nothing to
 *     take, or no room.
 *     -DUNFENCED: no fence between a write and the look at the other side.
 *     -DLATE: the bell is silenced after saying that one sleeps.
 *     -DDEAF: the bell does not sound at a death.
 *     -DSTALE: a sleep has no number of its own; whoever was rung for once is never rung for again.
 *  2. What is taken is what was pushed, whole and in order.
 *     -DEARLY: the index is published before the message is written.
 *     -DUNCLAIMED: a slot is released before its message is used.
 *  3. Nothing that was published is lost, and nothing that was released is taken again, whoever dies.
 *     -DSKIP: the next consumer begins after all that was published.
 *  4. No sleep is ended by more than one ring of the same process.
 *     -DREPEAT: whoever publishes rings whenever it sees that somebody sleeps.
 */

/* The number of the property shows in what is printed when it is broken. */
#define property(number, holds) assert((holds) && number)

#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef KILLS
#define KILLS 1
#endif
#define SLOTS 2

#define PRODUCER 0
#define CONSUMER 1
#define other(i) (1 - i)

/* Words of the shared memory. */
#define PUSHED 0
#define RELEASED 1
#define PRODUCERS_SLEEPS 2
#define CONSUMERS_SLEEPS 3
#define SLOT(n) (4 + (n) % SLOTS)
#define WORDS (4 + SLOTS)
byte word[WORDS];

/* The store buffers. */
#define DEPTH 4
chan buffer[2] = [DEPTH] of { byte, byte };

/* The kernel's. */
bool bell[2];       /* whoever it is named after has been rung for */
bool waits[2];      /* asleep in the kernel */
bool dead[2];
bool done[2];       /* has nothing more to do */

/* Seen by the properties only. */
byte rings[2];      /* since the sleep was announced */
byte latest;        /* the last message that was used and released, by whichever consumer */

#define store(i, at, value) buffer[i]!at,value

/* A process reads only the other's words, or its own while nothing of it is in a buffer. */
#define see(at) word[at]

#ifdef UNFENCED
#define fence(i) skip
#else
#define fence(i) (len(buffer[i]) == 0)
#endif

/* After something was published: rings for the other side once a sleep. */
inline wake(i, at, woken, seen) {
    fence(i);
    seen = see(at);
    if
#ifdef REPEAT
    :: seen % 2 == 1 ->
#else
    :: seen % 2 == 1 && seen != woken ->
#endif
        woken = seen;
        atomic {
            bell[other(i)] = true;
            if
            :: waits[other(i)] && word[at] == seen -> rings[other(i)]++
            :: else
            fi;
            property(4, rings[other(i)] <= 1)
        }
    :: else
    fi;
    seen = 0
}

/* Says that it sleeps. */
inline lie_down(i, at, sleeps) {
#ifdef STALE
    sleeps = 1;
#else
    sleeps = sleeps + 1 + sleeps % 2;
#endif
    atomic { store(i, at, sleeps); rings[i] = 0 };
    fence(i)
}

inline rise(i, at, sleeps) {
#ifdef STALE
    sleeps = 0;
#else
    sleeps++;
#endif
    store(i, at, sleeps)
}

/* Sleeps in the kernel until the bell is rung. */
inline wait(i) {
#ifdef LATE
    bell[i] = false;
#endif
    waits[i] = true;
    atomic { bell[i] -> bell[i] = false; waits[i] = false }
}

active proctype producer() {
    byte pushed, released, woken, sleeps, seen;

    {
    do
    :: pushed == MESSAGES -> break
    :: pushed < MESSAGES && pushed - released == SLOTS ->
        released = see(RELEASED);
        if
        :: pushed - released == SLOTS ->
            lie_down(PRODUCER, PRODUCERS_SLEEPS, sleeps);
            released = see(RELEASED);
            if
            :: pushed - released == SLOTS && !dead[CONSUMER] -> wait(PRODUCER)
            /* Its bell says that nobody is there: it waits for another consumer. */
            :: pushed - released == SLOTS && dead[CONSUMER] -> !dead[CONSUMER]
            :: else
            fi;
            rise(PRODUCER, PRODUCERS_SLEEPS, sleeps)
        :: else
        fi
    :: pushed < MESSAGES && pushed - released < SLOTS ->
#ifdef EARLY
        store(PRODUCER, PUSHED, pushed + 1);
        store(PRODUCER, SLOT(pushed), pushed + 1);
#else
        store(PRODUCER, SLOT(pushed), pushed + 1);
        store(PRODUCER, PUSHED, pushed + 1);
#endif
        pushed++;
        wake(PRODUCER, CONSUMERS_SLEEPS, woken, seen)
    od;
    done[PRODUCER] = true
    } unless { atomic { dead[PRODUCER] ->
        pushed = 0; released = 0; woken = 0; sleeps = 0; seen = 0 } }
}

/* Also the one that comes in the place of a dead one. */
active proctype consumer() {
    bool another = true;
    byte taken, released, pushed, message, woken, sleeps, seen;

attach:
    {

    /* What its predecessor had written has got out. */
    atomic {
        len(buffer[CONSUMER]) == 0 ->
        released = see(RELEASED);
        sleeps = see(CONSUMERS_SLEEPS)
    };
    if
    :: sleeps % 2 == 1 -> rise(CONSUMER, CONSUMERS_SLEEPS, sleeps)
    :: else
    fi;
    taken = released;
#ifdef SKIP
    taken = see(PUSHED);
#endif
    pushed = taken;
    do
    :: taken == MESSAGES -> break
    :: taken < MESSAGES && taken == pushed ->
        pushed = see(PUSHED);
        if
        :: taken == pushed ->
            lie_down(CONSUMER, CONSUMERS_SLEEPS, sleeps);
            pushed = see(PUSHED);
            if
            :: taken == pushed && !dead[PRODUCER] -> wait(CONSUMER)
            :: taken == pushed && dead[PRODUCER] ->
                /* The bell's end is heard, and what was published before it is there to be seen. */
                len(buffer[PRODUCER]) == 0;
                pushed = see(PUSHED);
                if
                :: taken == pushed -> break
                :: else
                fi
            :: else
            fi;
            rise(CONSUMER, CONSUMERS_SLEEPS, sleeps)
        :: else
        fi
    :: taken < MESSAGES && taken != pushed ->
        property(3, taken == latest);
#ifdef UNCLAIMED
        atomic { store(CONSUMER, RELEASED, taken + 1); latest = taken + 1 };
        wake(CONSUMER, PRODUCERS_SLEEPS, woken, seen);
        atomic { message = see(SLOT(taken)); property(2, message == taken + 1); message = 0 };
        taken++
#else
        atomic { message = see(SLOT(taken)); property(2, message == taken + 1); message = 0 };
        taken++;
        atomic { store(CONSUMER, RELEASED, taken); latest = taken };
        wake(CONSUMER, PRODUCERS_SLEEPS, woken, seen)
#endif
    od;
    done[CONSUMER] = true;
    goto ends
    } unless { atomic { dead[CONSUMER] ->
        taken = 0; released = 0; pushed = 0; message = 0; woken = 0; sleeps = 0; seen = 0 } };
    atomic {
        another ->
        another = false;
        dead[CONSUMER] = false;
        bell[CONSUMER] = false;
        rings[CONSUMER] = 0;
        /* It does not know for whom its predecessor rang. */
        rings[PRODUCER] = 0
    };
    goto attach;
ends:
    skip
}

/* Writes out what is in the buffers, and kills. */
active proctype environment() {
    byte kills = KILLS, at, value;

    do
    :: atomic { buffer[PRODUCER]?at,value -> word[at] = value; at = 0; value = 0 }
    :: atomic { buffer[CONSUMER]?at,value -> word[at] = value; at = 0; value = 0 }
    :: atomic {
            kills > 0 && !dead[PRODUCER] && !done[PRODUCER] ->
                kills--;
                dead[PRODUCER] = true;
                waits[PRODUCER] = false;
#ifndef DEAF
                bell[CONSUMER] = true
#endif
        }
    :: atomic {
            kills > 0 && !dead[CONSUMER] && !done[CONSUMER] ->
                kills--;
                dead[CONSUMER] = true;
                waits[CONSUMER] = false;
#ifndef DEAF
                bell[PRODUCER] = true
#endif
        }
    :: timeout -> break
    od;
    /* Nothing happens any more. */
    property(1, !waits[CONSUMER] || word[PUSHED] == word[RELEASED]);
    property(1, !waits[PRODUCER] || word[PUSHED] - word[RELEASED] == SLOTS);
    /* Whoever was killed or not: all that was published has been taken, unless no consumer lives. */
    property(3, dead[CONSUMER] || latest == word[PUSHED]);
    property(3, dead[CONSUMER] || dead[PRODUCER] || latest == MESSAGES)
}
