/*
 * The order of upcalls across processes (crates/runtime/src/level_order), for the model checker spin.
 *
 * One CPU, three processes with a thread each, the kernel's FIFO queue, and an environment that
 * releases jobs, kills, stops and continues at any step. The first process has upcalls of two rates,
 * so that it may come to deserve more while it waits. The handoff is that of
 * crates/ring/src/releases/handoff.rs.
 *
 * Time is left out: an entry of the table "has passed" once the environment has released it. Among
 * threads of the same priority any may be next, which is more than a FIFO queue allows. Left out as
 * well are other CPUs, recycled thread ids, turn allowances, and how the age of a vain try grows:
 * here nobody gives way twice to the same entry.
 *
 * Variables that are not needed any more are set to zero, so that states coincide.
 *
 * Checked, each broken by a mistake that can be put in, or the check could not fail:
 *  1. Whoever goes on at a yield point overlooks nobody more urgent who waits in the queue.
 *     -DWRONG: a thread that gives way lowers itself before the table says so.
 *     -DEARLY: a thread takes its handoff back before it rises.
 *  2. Once somebody has risen, no thread is left at the running level that does not run.
 *     -DUNLOWERED: whoever rises lowers nobody.
 *  3. No quantum is preempted by another upcall.
 *     -DUNRISEN: a thread works at the priority at which it waited.
 *  4. Nothing goes on for ever: as only so many jobs are released, any cycle is a livelock.
 *     -DIMPATIENT: a thread gives way until nobody presses, however often in vain.
 *  5. When all is quiet each released job has run, but for those of the dead and the stopped.
 *     -DOVERSLEPT: a thread sleeps although its release has passed meanwhile.
 *
 * A process may be left out of 1 or 2 for reasons that the documentation names: it was stopped
 * itself, or whoever had claimed its handoff was killed or stopped with it.
 *
 * -DTWO: without the second process, which leaves fewer states for kills and stops.
 */

/* The number of the property shows in what is printed when it is broken. */
#define property(number, holds) assert((holds) && number)

#ifndef JOBS
#define JOBS 2      /* of each rate */
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef STOPS
#define STOPS 1
#endif
#ifndef TROUBLES
#define TROUBLES (KILLS + STOPS)    /* kills and stops together */
#endif

#define N 3
#define NOBODY N
#define RUNNING 7
#define LOWEST 1
/* Who has the handoff of a waiting thread. */
#define HELD 0      /* it itself */
#define OFFERED 1
#define CLAIMED 2

/* Priorities at which the slow and the fast upcall of a process wait; only the first has two. */
#define SLOW(i) (i == 0 -> 2 : (i == 1 -> 3 : 5))
#define FAST 4

/* The kernel's. */
byte prio[N] = RUNNING;
bool awake[N] = true;
bool stopped[N];
bool dead[N];
byte cpu = NOBODY;

/* The shared table. */
byte waits[N];
bool waits_passed[N];
byte then[N];
bool then_passed[N];
byte handoff[N];
byte left_at[N];
bool changed[N];

/* Jobs: released and not begun. */
byte slow_pending[N];
byte fast_pending;
byte slow_left[N] = JOBS;
byte fast_left = JOBS;
/* Which release of the first process comes next, once it has asked. */
#define ANY 0
#define SLOW_FIRST 1
#define FAST_FIRST 2
byte next_release = ANY;

/* Each process's own: whose entries pressed when it gave way and are as they were, and to whose it
   gave way in vain. */
typedef row { bool tried[N]; bool vain[N] };
row by[N];

/* Seen by the properties only. */
/* Has not waited yet, stopped since it last rose, or its handoff were in dead or stopped hands. */
bool excused[N] = true;
byte inside = NOBODY; /* whose quantum runs */

#define runnable(j) (awake[j] && !stopped[j] && !dead[j])
#define above(j, p) (runnable(j) && prio[j] > p)

inline reschedule() {
    if
    :: cpu != NOBODY && runnable(cpu) && !above(0, prio[cpu]) && !above(1, prio[cpu]) &&
        !above(2, prio[cpu])
    :: else ->
        if
        :: runnable(0) && !above(1, prio[0]) && !above(2, prio[0]) -> cpu = 0
        :: runnable(1) && !above(0, prio[1]) && !above(2, prio[1]) -> cpu = 1
        :: runnable(2) && !above(0, prio[2]) && !above(1, prio[2]) -> cpu = 2
        :: !runnable(0) && !runnable(1) && !runnable(2) -> cpu = NOBODY
        fi
    fi
}

/* One step of thread `i`, which only the one on the CPU can make. */
#define step(i) cpu == i ->

/* What an entry asks for, to one who runs at `level`. */
#define presses(j, level) \
    ((waits[j] > level && waits_passed[j]) || (then[j] > level && then_passed[j]))
#define pressed(i, level) \
    ((i != 0 && presses(0, level) && !by[i].vain[0]) || \
     (i != 1 && presses(1, level) && !by[i].vain[1]) || \
     (i != 2 && presses(2, level) && !by[i].vain[2]))
#define deserved(j) \
    ((then[j] > 0 && then_passed[j]) -> then[j] : waits[j])

/* How urgent the thread really is, whatever the table says. */
#define true_level(j) \
    ((j == 0 && fast_pending > 0) -> FAST : (slow_pending[j] > 0 -> SLOW(j) : 0))
#define overlooked(j, level) \
    (runnable(j) && cpu != j && !excused[j] && true_level(j) > level)

/* An entry of `j` is another than before. */
inline forget(j) {
    by[0].vain[j] = false;
    by[1].vain[j] = false;
    by[2].vain[j] = false;
    by[0].tried[j] = false;
    by[1].tried[j] = false;
    by[2].tried[j] = false
}

/* Says that `i` waits at `level`; `passed` if it does so already. */
inline publish(i, level, passed) {
    d_step {
        waits[i] = level;
        waits_passed[i] = passed;
        if
        :: i == 0 && level > 0 && level < FAST -> then[0] = FAST; then_passed[0] = (fast_pending > 0)
        :: else -> then[i] = 0; then_passed[i] = false
        fi;
        forget(i)
    }
}

inline offer(i, at) {
    handoff[i] = OFFERED;
    left_at[i] = at;
    changed[i] = false
}

/* Brings `j` to what it deserves; a step each to look, claim, set and give back. */
inline put_one_in_order(i, j) {
    atomic {
        step(i)
        if
        :: j != i && handoff[j] == OFFERED && waits[j] > 0 && left_at[j] != deserved(j) ->
            wanted = deserved(j);
            handoff[j] = CLAIMED;
            claimed = true
        :: else -> claimed = false
        fi
    };
    do
    :: claimed ->
        atomic {
            step(i)
            if
            :: !dead[j] -> prio[j] = wanted; reschedule()
            :: else
            fi
        };
        atomic {
            step(i)
            if
            :: handoff[j] == CLAIMED ->
                handoff[j] = OFFERED;
                left_at[j] = wanted;
                changed[j] = true;
                wanted = 0;
                claimed = false
            /* Its owner did not wait for us: what we set may be wrong for what it does since. */
            :: handoff[j] == OFFERED && waits[j] > 0 -> wanted = deserved(j); handoff[j] = CLAIMED
            :: else -> wanted = 0; claimed = false
            fi
        }
    :: else -> break
    od
}

#define out_of_order(i, j) \
    (j != i && handoff[j] == OFFERED && waits[j] > 0 && left_at[j] != deserved(j))

inline put_in_order(i) {
    atomic {
        step(i)
        claimed = (out_of_order(i, 0) || out_of_order(i, 1) || out_of_order(i, 2))
    };
    if
    :: claimed ->
        put_one_in_order(i, 0);
        put_one_in_order(i, 1);
        put_one_in_order(i, 2)
    :: else
    fi
}

/* First up, then the handoff: without it, and below the running level, no other thread could raise it. */
inline rise(i) {
    atomic {
        step(i)
        up = (handoff[i] == OFFERED && !changed[i] && left_at[i] == RUNNING);
        if
        :: handoff[i] == OFFERED -> came_at = left_at[i]
        :: else -> came_at = RUNNING
        fi
    };
#ifdef EARLY
    atomic { step(i) handoff[i] = HELD };
#endif
#ifndef UNRISEN
    if
    :: !up -> atomic { step(i) prio[i] = RUNNING; reschedule() }
    :: else
    fi;
#endif
    /* If they are not as they were seen, somebody has set the priority, or is about to but dead or
       stopped: nobody else can have them while we run. */
    atomic {
        step(i)
        up = (handoff[i] == OFFERED && left_at[i] == came_at);
        handoff[i] = HELD
    };
#ifndef UNRISEN
    if
    :: !up -> atomic { step(i) prio[i] = RUNNING; reschedule() }
    :: else
    fi;
#endif
    atomic { step(i) publish(i, 0, false); excused[i] = false; up = false };
#ifndef UNLOWERED
    put_in_order(i);
#endif
    atomic {
        step(i)
        property(2, i == 0 || !(awake[0] || handoff[0] == OFFERED) || prio[0] < RUNNING ||
            excused[0] || excused[i] || dead[0] || handoff[0] == HELD);
        property(2, i == 1 || !(awake[1] || handoff[1] == OFFERED) || prio[1] < RUNNING ||
            excused[1] || excused[i] || dead[1] || handoff[1] == HELD);
        property(2, i == 2 || !(awake[2] || handoff[2] == OFFERED) || prio[2] < RUNNING ||
            excused[2] || excused[i] || dead[2] || handoff[2] == HELD)
    }
}

/* Sinks to `level` and comes back when nobody is more urgent. */
inline give_way(i, level) {
    d_step {
        step(i)
        by[i].tried[0] = (i != 0 && presses(0, level));
        by[i].tried[1] = (i != 1 && presses(1, level));
        by[i].tried[2] = (i != 2 && presses(2, level))
    };
    put_in_order(i);
#ifdef WRONG
    atomic { step(i) handoff[i] = OFFERED; left_at[i] = level; changed[i] = false;
        prio[i] = level; reschedule() };
    atomic { step(i) publish(i, level, true) };
#else
    atomic { step(i) publish(i, level, true) };
    atomic { step(i) offer(i, level) };
    atomic { step(i) prio[i] = level; reschedule() };
#endif
    /* Here the others run. */
    rise(i);
    d_step {
        step(i)
#ifndef IMPATIENT
        /* It may have been raised past some of those for whom it sank. */
        if :: by[i].tried[0] && presses(0, came_at) -> by[i].vain[0] = true :: else fi;
        if :: by[i].tried[1] && presses(1, came_at) -> by[i].vain[1] = true :: else fi;
        if :: by[i].tried[2] && presses(2, came_at) -> by[i].vain[2] = true :: else fi;
#endif
        by[i].tried[0] = false;
        by[i].tried[1] = false;
        by[i].tried[2] = false;
        came_at = 0
    }
}

/* At a yield point: whether to go on. */
inline look(i, level) {
    atomic {
        step(i)
        gives_way = pressed(i, level);
        property(1, gives_way || (!overlooked(0, level) && !overlooked(1, level) &&
            !overlooked(2, level)))
    }
}

inline yield_point(i, level) {
    look(i, level);
#ifdef IMPATIENT
    do
    :: gives_way -> gives_way = false; give_way(i, level); look(i, level)
    :: else -> break
    od
#else
    if
    :: gives_way -> gives_way = false; give_way(i, level)
    :: else
    fi
#endif
}

active [N] proctype upcalls() {
    byte i = _pid;
    byte wanted, level, quanta, came_at;
    bool claimed, up, gives_way, stays;

    do
    :: atomic {
            step(i)
            if
            :: i == 0 && fast_pending > 0 -> level = FAST; quanta = 1
            :: !(i == 0 && fast_pending > 0) && slow_pending[i] > 0 -> level = SLOW(i); quanta = 2
            :: else ->
                /* Nothing to do. What comes next is known: the nearer of what is left. */
                quanta = 0;
                if
                :: i == 0 && fast_left > 0 -> level = FAST; next_release = FAST_FIRST
                :: i == 0 && slow_left[0] > 0 -> level = SLOW(0); next_release = SLOW_FIRST
                :: i != 0 && slow_left[i] > 0 -> level = SLOW(i)
                :: slow_left[i] == 0 && !(i == 0 && fast_left > 0) -> level = 0
                fi
            fi
        };
        if
        :: quanta > 0 ->
            if
            :: handoff[i] != HELD -> rise(i); came_at = 0
            :: else
            fi;
            /* While it waited something more urgent of its own may have been released. */
            atomic {
                step(i)
                if
                :: i == 0 && level < FAST && fast_pending > 0 -> level = FAST; quanta = 1
                :: else
                fi
            };
            yield_point(i, level);
            atomic {
                step(i)
                if
                :: i == 0 && level < FAST && fast_pending > 0 -> level = FAST; quanta = 1
                :: else
                fi;
                if
                :: level == FAST -> fast_pending--
                :: else -> slow_pending[i]--
                fi
            };
            do
            :: quanta > 0 ->
                atomic {
                    step(i)
                    property(3, inside == NOBODY || inside == i || excused[inside] || dead[inside]);
                    inside = i
                };
                atomic { step(i) inside = NOBODY; quanta-- };
                if
                :: quanta > 0 -> yield_point(i, level)
                :: else
                fi
            :: else -> break
            od
        :: else ->
            if
            :: handoff[i] != HELD -> rise(i); came_at = 0
            :: else
            fi;
            put_in_order(i);
            atomic {
                step(i)
                /* Also if nobody more urgent is released at about the same time. */
                if
                :: level > 0 && prio[i] == RUNNING -> stays = true
                :: level == 0 || prio[i] != RUNNING || !pressed(i, level) -> stays = false
                fi
            };
            atomic {
                step(i)
                if
                :: level == FAST -> publish(i, level, (fast_pending > 0))
                :: else -> publish(i, level, (slow_pending[i] > 0))
                fi;
                if
                :: level == 0 -> level = LOWEST
                :: else
                fi;
                excused[i] = false
            };
            if
            :: stays -> atomic { step(i) offer(i, RUNNING); stays = false }
            :: else ->
                atomic { step(i) offer(i, level) };
                atomic { step(i) prio[i] = level; reschedule() }
            fi;
            /* A sleep whose end has passed ends at once. */
            atomic {
                step(i)
                if
#ifdef OVERSLEPT
                :: true ->
#else
                :: slow_pending[i] == 0 && !(i == 0 && fast_pending > 0) ->
#endif
                    awake[i] = false;
                    level = 0;
                    reschedule()
                :: else
                fi
            }
        fi
    od
}

inline release_slow(j) {
    slow_left[j] > 0 && !dead[j] && !(j == 0 && next_release == FAST_FIRST) ->
        slow_left[j]--;
        slow_pending[j]++;
        if :: j == 0 -> next_release = ANY :: else fi;
        if
        :: waits[j] == SLOW(j) -> waits_passed[j] = true
        :: else
        fi;
        awake[j] = true;
        reschedule()
}

/* Also of a sleeping thread that is claimed by one who will not run: it looks after itself. */
inline excuse_those_claimed() {
    if :: handoff[0] == CLAIMED -> excused[0] = true :: else fi;
    if :: handoff[1] == CLAIMED -> excused[1] = true :: else fi;
    if :: handoff[2] == CLAIMED -> excused[2] = true :: else fi
}

active proctype environment() {
    byte kills = KILLS, stops = STOPS, troubles = TROUBLES;

    atomic {
        cpu == NOBODY ->
#ifdef TWO
        dead[1] = true;
        slow_left[1] = 0;
#endif
        reschedule()
    };
    do
    :: atomic { release_slow(0) }
    :: atomic { release_slow(1) }
    :: atomic { release_slow(2) }
    :: atomic {
            fast_left > 0 && !dead[0] && next_release != SLOW_FIRST ->
                next_release = ANY;
                fast_left--;
                fast_pending++;
                if :: waits[0] == FAST -> waits_passed[0] = true :: else fi;
                if :: then[0] == FAST -> then_passed[0] = true; forget(0) :: else fi;
                awake[0] = true;
                reschedule()
        }
    :: atomic {
            kills > 0 && troubles > 0 ->
                kills--;
                troubles--;
                if
                :: dead[0] = true
                :: dead[1] = true
                :: dead[2] = true
                fi;
                excuse_those_claimed();
                reschedule()
        }
    :: atomic {
            stops > 0 && troubles > 0 ->
                stops--;
                troubles--;
                if
                :: stopped[0] = true; excused[0] = true
                :: stopped[1] = true; excused[1] = true
                :: stopped[2] = true; excused[2] = true
                fi;
                excuse_those_claimed();
                reschedule()
        }
    :: atomic {
            stopped[0] || stopped[1] || stopped[2] ->
                stopped[0] = false;
                stopped[1] = false;
                stopped[2] = false;
                reschedule()
        }
    :: timeout -> break
    od;
    /* Of the first process, what was not released was left out because it is dead. */
    property(5, slow_left[0] == 0 || dead[0]);
    property(5, (fast_pending == 0 && slow_pending[0] == 0) || dead[0] || stopped[0]);
    property(5, slow_pending[1] == 0 || dead[1] || stopped[1]);
    property(5, slow_pending[2] == 0 || dead[2] || stopped[2])
}
