/*
 * Punctual: real-time guarantees for periodic work on stock Linux. The guide is docs/c-api.md.
 *
 * - Times are nanoseconds; instants are of CLOCK_MONOTONIC (punctual_now).
 * - Functions return PUNCTUAL_OK, or an error whose sentence punctual_last_error() gives.
 * - The first member of most structures is its size: set it to sizeof, and leave what you do not
 *   need at zero. A program then goes on working with libraries that know more members.
 * - Null pointers are refused, unless it says otherwise. A handle must be one that was given, and not
 *   yet freed. What is written to is left as it was when a call fails, unless it says otherwise.
 * - From inside a handler (iterate, commit) only punctual_now, punctual_version, punctual_last_error
 *   and punctual_exit_status may be called; others say PUNCTUAL_EDEADLK.
 *
 * Made by cbindgen from crates/capi. Licensed under MIT or Apache-2.0, at your option.
 */

#ifndef PUNCTUAL_H
#define PUNCTUAL_H

#include <stddef.h>
#include <stdint.h>

/**
 * Returned by `iterate`: there is nothing more to do until punctual_resume. It ends the job and
 * suspends the upcall, and so ends a punctual_wait for it.
 */
#define PUNCTUAL_DONE UINT32_MAX

/**
 * What a call came to. The numbers are stable; 0 to 3 mean what the exit status of the `punctual`
 * command means.
 */
typedef enum punctual_error {
    /**
     * Done.
     */
    PUNCTUAL_OK = 0,
    /**
     * Admission said no. The sentence names what failed, by how much, and what would fit instead.
     */
    PUNCTUAL_EREFUSED = 1,
    /**
     * An argument that cannot be, or a call at a time when it cannot be.
     */
    PUNCTUAL_EINVAL = 2,
    /**
     * This host cannot: a privilege or a feature is missing. The sentence says what to do.
     */
    PUNCTUAL_EHOST = 3,
    /**
     * There is no such upcall, thread or process (any more).
     */
    PUNCTUAL_ENOENT = 4,
    /**
     * A handler has not come back from its iteration: its argument must be left alone.
     */
    PUNCTUAL_ESTUCK = 5,
    /**
     * The upcalls do not run any more: the kernel took their scheduling class away, or they were
     * stopped.
     */
    PUNCTUAL_EENDED = 6,
    /**
     * Nothing happened in the time given.
     */
    PUNCTUAL_ETIMEDOUT = 7,
    /**
     * Called from where it would wait for itself: inside a handler or a notice.
     */
    PUNCTUAL_EDEADLK = 8,
    /**
     * A bug in this library. Nothing more should be asked of the handle but to be freed.
     */
    PUNCTUAL_EINTERNAL = 9,
    /**
     * It would have to wait: no room, or no message.
     */
    PUNCTUAL_EAGAIN = 10,
    /**
     * The broker that carried the channel is gone: punctual_channel_rejoin. Nothing in it is lost.
     */
    PUNCTUAL_EGONE = 11,
} punctual_error;

/**
 * Whether an upcall is being released.
 */
typedef enum punctual_activity {
    /**
     * It is, or will be once all are run.
     */
    PUNCTUAL_ACTIVE = 0,
    /**
     * It was suspended, or said PUNCTUAL_DONE.
     */
    PUNCTUAL_SUSPENDED = 1,
    /**
     * Its handler has not come back, and was put aside.
     */
    PUNCTUAL_CONTAINED = 2,
    /**
     * It is gone, or was never there.
     */
    PUNCTUAL_CLOSED = 3,
} punctual_activity;

/**
 * What holds a reservation.
 */
typedef enum punctual_backend {
    /**
     * The kernel's SCHED_DEADLINE, enforced at scheduler ticks.
     */
    PUNCTUAL_KERNEL = 0,
    /**
     * A timetable that a thread of this process follows: X in every window of length Y.
     */
    PUNCTUAL_TIMETABLE = 1,
} punctual_backend;

/**
 * Which way the messages of a channel go (punctual_channel_request.direction).
 */
typedef enum punctual_direction {
    /**
     * Out.
     */
    PUNCTUAL_SEND = 0,
    /**
     * In.
     */
    PUNCTUAL_RECEIVE = 1,
} punctual_direction;

/**
 * What an owner gets beyond its budget (punctual_reserve.enforcement).
 */
typedef enum punctual_enforcement {
    /**
     * What an ordinary program gets.
     */
    PUNCTUAL_SOFT = 0,
    /**
     * Nothing: it waits for its next period.
     */
    PUNCTUAL_HARD = 1,
} punctual_enforcement;

/**
 * What an event is about.
 */
typedef enum punctual_event_kind {
    /**
     * The job's first instruction ran.
     */
    PUNCTUAL_EVENT_START = 0,
    /**
     * It gave way at a yield point.
     */
    PUNCTUAL_EVENT_GIVE_WAY = 1,
    /**
     * It got the CPU back.
     */
    PUNCTUAL_EVENT_RESUME = 2,
    /**
     * It is complete.
     */
    PUNCTUAL_EVENT_COMPLETE = 3,
    /**
     * It and the `jobs` - 1 after it are not complete at their deadlines, and go on or will run.
     */
    PUNCTUAL_EVENT_OVERRUN = 4,
    /**
     * It and the `jobs` - 1 after it will never begin.
     */
    PUNCTUAL_EVENT_SKIP = 5,
    /**
     * It had begun, and ended incomplete at a yield point.
     */
    PUNCTUAL_EVENT_ABORT = 6,
    /**
     * It did not come to its yield point in time, and was put aside.
     */
    PUNCTUAL_EVENT_CONTAINED = 7,
    /**
     * Of a reservation: its next period begins, with a whole budget. Upcalls have none of these three.
     */
    PUNCTUAL_EVENT_REPLENISH = 8,
    /**
     * Of a reservation: it may not run, or only as an ordinary program.
     */
    PUNCTUAL_EVENT_THROTTLE = 9,
    /**
     * Of a reservation that was throttled: it may run.
     */
    PUNCTUAL_EVENT_UNTHROTTLE = 10,
} punctual_event_kind;

/**
 * What may be asked for beside (punctual_options.flags), added up.
 */
typedef enum punctual_flags {
    /**
     * Handlers that do not come back are not contained: they hold up every upcall of the host.
     */
    PUNCTUAL_WITHOUT_CONTAINMENT = 1,
    /**
     * Inside a reservation, only what is proven to be in time is admitted. Without it the sum of
     * what is needed must fit: necessary, and not sufficient.
     */
    PUNCTUAL_PROOF_INSIDE = 2,
} punctual_flags;

/**
 * How messages become datagrams (punctual_channel_request.framing).
 */
typedef enum punctual_framing {
    /**
     * Each is a datagram as it is, for peers that know nothing of Punctual.
     */
    PUNCTUAL_DATAGRAM = 0,
    /**
     * In pieces with a header of 32 bytes, for peers that are channels too.
     */
    PUNCTUAL_FRAGMENTS = 1,
} punctual_framing;

/**
 * What a notice is about.
 */
typedef enum punctual_notice_kind {
    /**
     * `count` jobs were not complete at their deadlines, and go on or will still run.
     */
    PUNCTUAL_NOTICE_OVERRUN = 0,
    /**
     * `count` jobs were dropped before they began.
     */
    PUNCTUAL_NOTICE_SKIPPED = 1,
    /**
     * A job was ended at a yield point before it was complete.
     */
    PUNCTUAL_NOTICE_ABORTED = 2,
    /**
     * The handler did not come to a yield point in time, and was put aside for the `count`-th time.
     */
    PUNCTUAL_NOTICE_CONTAINED = 3,
    /**
     * The handler that had been put aside came back.
     */
    PUNCTUAL_NOTICE_RETURNED = 4,
    /**
     * It was contained too often, and is released no more.
     */
    PUNCTUAL_NOTICE_CLOSED = 5,
} punctual_notice_kind;

/**
 * What becomes of jobs that are late (punctual_contract.overrun).
 */
typedef enum punctual_overrun {
    /**
     * Every late job still runs, the oldest first.
     */
    PUNCTUAL_CATCH_UP = 0,
    /**
     * Jobs whose deadline has passed before they began are dropped. One that has begun goes on.
     */
    PUNCTUAL_SKIP = 1,
    /**
     * As PUNCTUAL_SKIP; and a job that has begun ends at its first yield point after its deadline.
     */
    PUNCTUAL_ABORT = 2,
    /**
     * Late jobs run only when no other real-time upcall wants the CPU.
     */
    PUNCTUAL_DEMOTE = 3,
    /**
     * As PUNCTUAL_CATCH_UP, and the notice of it is urgent.
     */
    PUNCTUAL_NOTIFY = 4,
} punctual_overrun;

/**
 * Under what the upcalls of a handle run (punctual_options.placement).
 */
typedef enum punctual_placement {
    /**
     * Real-time upcalls: SCHED_FIFO, each waiting at the priority of its rate, admitted together by
     * the exact test.
     */
    PUNCTUAL_UPCALLS = 0,
    /**
     * Inside a CPU reservation (budget_ns every period_ns): SCHED_DEADLINE.
     */
    PUNCTUAL_RESERVED = 1,
    /**
     * An ordinary thread: no promise at all, everything is admitted. There to be compared with.
     */
    PUNCTUAL_ORDINARY = 2,
} punctual_placement;

/**
 * What decides that a message is beyond the burst (punctual_channel_request.policing).
 */
typedef enum punctual_policing {
    /**
     * The spacing since the message before it, and the burst.
     */
    PUNCTUAL_GCRA = 0,
    /**
     * Interval credits for 2 messages: for what minds jitter. They let a burst of 4 pass.
     */
    PUNCTUAL_CREDITS_HIGH = 1,
    /**
     * Interval credits for 10 messages. They let a burst of 20 pass.
     */
    PUNCTUAL_CREDITS_MEDIUM = 2,
    /**
     * Interval credits for 50 messages: for what does not mind. They let a burst of 100 pass.
     */
    PUNCTUAL_CREDITS_LOW = 3,
} punctual_policing;

/**
 * What becomes of messages beyond the burst (punctual_channel_request.too_early).
 */
typedef enum punctual_too_early {
    /**
     * They wait until the contract allows them.
     */
    PUNCTUAL_WAIT = 0,
    /**
     * They are lost, and counted.
     */
    PUNCTUAL_LOSE = 1,
} punctual_too_early;

/**
 * A channel. Its calls may be made by any thread, and wait for each other; `punctual_channel_close` is
 * the last. After fork(2) a child must not use it.
 */
typedef struct punctual_channel punctual_channel;

/**
 * An accepted time constraint. Used only by the thread that began it, which must end it.
 */
typedef struct punctual_constraint punctual_constraint;

/**
 * A reservation that stands until it is released. One of a thread may be used by that thread only,
 * which must release it before it ends; one of a process by any thread.
 */
typedef struct punctual_reservation punctual_reservation;

/**
 * What gives reservations. May be used by any thread at any time.
 */
typedef struct punctual_reservations punctual_reservations;

/**
 * The upcalls of a process: created, run, and stopped together.
 */
typedef struct punctual_upcalls punctual_upcalls;

/**
 * Something that the owner of an upcall may want to act on. Its layout does not change.
 */
typedef struct punctual_notice {
    /**
     * When it was noticed (CLOCK_MONOTONIC).
     */
    uint64_t at_ns;
    /**
     * What it counts; 1 where nothing is counted.
     */
    uint64_t count;
    /**
     * Which upcall.
     */
    uint32_t id;
    /**
     * A punctual_notice_kind.
     */
    uint32_t kind;
} punctual_notice;

/**
 * Called for each notice, on an ordinary thread of the library: at once for PUNCTUAL_NOTIFY and
 * containment, within 50 ms for others. It may call everything but punctual_stop and punctual_free.
 * It must return, and neither throw nor longjmp.
 */
typedef void (*punctual_on_notice)(void *arg, const struct punctual_notice *notice);

/**
 * How the upcalls of a handle are to run. All zero but the size is a good choice.
 */
typedef struct punctual_options {
    /**
     * sizeof(punctual_options).
     */
    size_t size;
    /**
     * A punctual_placement.
     */
    uint32_t placement;
    /**
     * punctual_flags, added up.
     */
    uint32_t flags;
    /**
     * Of PUNCTUAL_RESERVED: processor time in each period.
     */
    uint64_t budget_ns;
    /**
     * Of PUNCTUAL_RESERVED.
     */
    uint64_t period_ns;
    /**
     * So much longer than its quantum an iteration may take before it is contained; 0: 1 ms.
     */
    uint64_t grace_ns;
    /**
     * What admission charges for a switch between two upcalls, twice a job; 0: nothing.
     */
    uint64_t context_switch_ns;
    /**
     * An upcall is closed when it is contained for so many times; 0: 3.
     */
    uint32_t most_containments;
    /**
     * Upcalls that may be created while others run; 0: 64.
     */
    uint32_t room;
    /**
     * Called for each notice; null: they wait for punctual_notices.
     */
    punctual_on_notice on_notice;
    /**
     * Passed to it.
     */
    void *on_notice_arg;
} punctual_options;

/**
 * What a real-time upcall is promised, and promises.
 */
typedef struct punctual_contract {
    /**
     * sizeof(punctual_contract).
     */
    size_t size;
    /**
     * What people call it: it stands in refusals. Copied; null: "".
     */
    const char *name;
    /**
     * The time between two releases; also the relative deadline of each job.
     */
    uint64_t period_ns;
    /**
     * The most processor time that one PDU (packet, sample, frame) takes.
     */
    uint64_t time_per_pdu_ns;
    /**
     * PDUs processed each period.
     */
    uint32_t batch;
    /**
     * PDUs processed in each call of `iterate`, at most: between two yield points.
     */
    uint32_t quantum;
    /**
     * A punctual_overrun.
     */
    uint32_t overrun;
    /**
     * Zero.
     */
    uint32_t reserved;
} punctual_contract;

/**
 * Processes up to `pdus` PDUs with the input there is at `now_ns`; returns how many it processed.
 * Zero ends the job; PUNCTUAL_DONE ends it and suspends the upcall. No other handler of the process
 * runs between a call and its return, so handlers need no locks among each other.
 *
 * It runs on a real-time thread of the library, never on two at once: it must not wait for other
 * threads, and neither throw nor longjmp.
 */
typedef uint32_t (*punctual_iterate)(void *arg, uint64_t now_ns, uint32_t pdus);

/**
 * The work of the last `iterate` was finished at `now_ns`: what it produced takes effect. Called
 * after each `iterate`, before any other handler runs. The same rules hold.
 */
typedef void (*punctual_commit)(void *arg, uint64_t now_ns);

/**
 * The code of an upcall. What `arg` points to must stay until the upcall is closed, or all are
 * stopped, and its handler is not stuck (PUNCTUAL_ESTUCK, punctual_stopped.stuck).
 */
typedef struct punctual_handler {
    /**
     * sizeof(punctual_handler).
     */
    size_t size;
    /**
     * Must not be null.
     */
    punctual_iterate iterate;
    /**
     * May be null.
     */
    punctual_commit commit;
    /**
     * Passed to both.
     */
    void *arg;
} punctual_handler;

/**
 * What a best-effort (virtual-time) upcall asks for: a share of what real-time work leaves.
 */
typedef struct punctual_best_effort {
    /**
     * sizeof(punctual_best_effort).
     */
    size_t size;
    /**
     * What people call it. Copied; null: "".
     */
    const char *name;
    /**
     * The most processor time that one PDU takes.
     */
    uint64_t time_per_pdu_ns;
    /**
     * When `iterate` had nothing to do, it is asked again after this.
     */
    uint64_t poll_ns;
    /**
     * Its share among best-effort upcalls is proportional to this: 1 to 100.
     */
    uint32_t weight;
    /**
     * PDUs processed in each call of `iterate`, at most.
     */
    uint32_t quantum;
} punctual_best_effort;

/**
 * What is left of upcalls that ran.
 */
typedef struct punctual_stopped {
    /**
     * sizeof(punctual_stopped).
     */
    size_t size;
    /**
     * Processor time that all took together.
     */
    uint64_t exec_time_ns;
    /**
     * Events lost before they were counted.
     */
    uint64_t events_lost;
    /**
     * Jobs that were released and not complete.
     */
    uint64_t unfinished;
    /**
     * Handlers that have not come back. Their arguments must be left alone for ever, and the library
     * must stay loaded; punctual_activity says PUNCTUAL_CONTAINED for those upcalls.
     */
    uint64_t stuck;
} punctual_stopped;

/**
 * One upcall that punctual_wait waits for.
 */
typedef struct punctual_waited {
    /**
     * Which; set by the program.
     */
    uint32_t id;
    /**
     * A punctual_activity; set by punctual_wait.
     */
    uint32_t activity;
} punctual_waited;

/**
 * Something that happened to a job. Its layout does not change.
 */
typedef struct punctual_event {
    /**
     * When (CLOCK_MONOTONIC).
     */
    uint64_t at_ns;
    /**
     * When the job was released.
     */
    uint64_t release_ns;
    /**
     * Which job of its upcall, from 0.
     */
    uint64_t job;
    /**
     * How many jobs it is about.
     */
    uint64_t jobs;
    /**
     * Which upcall.
     */
    uint32_t id;
    /**
     * A punctual_event_kind.
     */
    uint32_t kind;
} punctual_event;

/**
 * A distribution of times; all zero if nothing was counted. Its layout does not change.
 */
typedef struct punctual_times {
    /**
     * How many were counted.
     */
    uint64_t count;
    /**
     * Half of them are at most this.
     */
    uint64_t p50_ns;
    /**
     * 99 of 100 are at most this.
     */
    uint64_t p99_ns;
    /**
     * The longest, exactly.
     */
    uint64_t max_ns;
} punctual_times;

/**
 * What the jobs of an upcall amounted to.
 */
typedef struct punctual_stats {
    /**
     * sizeof(punctual_stats).
     */
    size_t size;
    /**
     * Jobs that are complete.
     */
    uint64_t jobs;
    /**
     * Jobs that completed after their deadline, or were unfinished, skipped or aborted when it had
     * passed, or were contained.
     */
    uint64_t late;
    /**
     * Jobs that were not complete at their deadline, and went on or still ran.
     */
    uint64_t overruns;
    /**
     * Jobs that never began.
     */
    uint64_t skipped;
    /**
     * Jobs that were ended incomplete at a yield point.
     */
    uint64_t aborted;
    /**
     * Jobs whose handler was put aside.
     */
    uint64_t contained;
    /**
     * How often a job gave way.
     */
    uint64_t gave_way;
    /**
     * Jobs released and not complete when all were stopped.
     */
    uint64_t unfinished;
    /**
     * The longest that a job completed after its deadline.
     */
    uint64_t max_tardiness_ns;
    /**
     * From a job's release to its first instruction.
     */
    struct punctual_times wakeup_latency;
    /**
     * From a job's release to its completion.
     */
    struct punctual_times response_time;
    /**
     * Events of all upcalls that were lost before they were counted, so far: if not zero, these
     * statistics have gaps.
     */
    uint64_t events_lost;
} punctual_stats;

/**
 * How timetables are built. All zero but the size: this thread's CPUs, the last first; 100 us a
 * switch; what real-time throttling leaves of each CPU, less 2 %.
 */
typedef struct punctual_reservation_options {
    /**
     * sizeof(punctual_reservation_options).
     */
    size_t size;
    /**
     * The CPUs that may be used, in this order.
     */
    const uint32_t *cpus;
    /**
     * How many; 0: this thread's.
     */
    size_t cpu_count;
    /**
     * What is lost at the start of each slot; 0: what host_profile says, or else 100 us, an assumption.
     */
    uint64_t context_switch_ns;
    /**
     * The most that all slots of a CPU may take, in millionths of it; 0: as above.
     */
    uint32_t most_ppm;
    /**
     * Zero.
     */
    uint32_t reserved;
    /**
     * Since version 2. A file of `punctual calibrate` on this host, from which the loss at the start of
     * a slot is taken, where it was measured; null: none. One of another host is refused.
     */
    const char *host_profile;
} punctual_reservation_options;

/**
 * X every Y.
 */
typedef struct punctual_reserve {
    /**
     * sizeof(punctual_reserve).
     */
    size_t size;
    /**
     * X: processor time in each period.
     */
    uint64_t budget_ns;
    /**
     * Y.
     */
    uint64_t period_ns;
    /**
     * A punctual_enforcement.
     */
    uint32_t enforcement;
    /**
     * Not zero: held to its budget exactly, which SCHED_DEADLINE alone is to within a tick or two.
     */
    uint32_t exact;
} punctual_reserve;

/**
 * How a reservation stands. What is not known is all ones.
 */
typedef struct punctual_reservation_info {
    /**
     * sizeof(punctual_reservation_info).
     */
    size_t size;
    /**
     * X.
     */
    uint64_t budget_ns;
    /**
     * Y.
     */
    uint64_t period_ns;
    /**
     * Processor time used: by a thread since its period began, by a process since it was admitted.
     */
    uint64_t used_ns;
    /**
     * Of a thread: what is left of this period's budget.
     */
    uint64_t left_ns;
    /**
     * By timetable: where the first window that is promised starts (CLOCK_MONOTONIC).
     */
    uint64_t since_ns;
    /**
     * By timetable: slots given so far.
     */
    uint64_t slots;
    /**
     * By timetable: how often the kernel refused to start or stop the owner. Not zero means that
     * the promise is broken: somebody took our rights, or its control group, away.
     */
    uint64_t failures;
    /**
     * A punctual_backend.
     */
    uint32_t backend;
    /**
     * By timetable: the CPU whose timetable it is in. SCHED_DEADLINE may use every CPU.
     */
    uint32_t cpu;
} punctual_reservation_info;

/**
 * What a time constraint came to.
 */
typedef struct punctual_used {
    /**
     * sizeof(punctual_used).
     */
    size_t size;
    /**
     * Processor time that the thread used since the constraint began.
     */
    uint64_t used_ns;
    /**
     * What was estimated.
     */
    uint64_t estimate_ns;
    /**
     * Whether it ended by its deadline: 1 or 0.
     */
    uint32_t in_time;
    /**
     * Zero.
     */
    uint32_t reserved;
} punctual_used;

/**
 * A channel, as it is asked for. In any time T at most burst + T / spacing_ns messages.
 */
typedef struct punctual_channel_request {
    /**
     * sizeof(punctual_channel_request).
     */
    size_t size;
    /**
     * What people call it.
     */
    const char *name;
    /**
     * Where messages go, or where they are listened for: "192.0.2.7:4000", "[2001:db8::7]:4000".
     */
    const char *address;
    /**
     * Where the broker listens; null: where it does unless configured.
     */
    const char *broker;
    /**
     * Between two messages, over time.
     */
    uint64_t spacing_ns;
    /**
     * From the moment at which a message counts as arrived to the end of its transmission; 0: best
     * effort, which is promised nothing.
     */
    uint64_t delay_bound_ns;
    /**
     * The most bytes of a message.
     */
    uint32_t max_message;
    /**
     * The least; 0: 1.
     */
    uint32_t min_message;
    /**
     * The most messages at once; 0: 1.
     */
    uint32_t burst;
    /**
     * A punctual_direction.
     */
    uint32_t direction;
    /**
     * A punctual_framing.
     */
    uint32_t framing;
    /**
     * A punctual_too_early.
     */
    uint32_t too_early;
    /**
     * By which sender and receiver know the channel, in the headers of fragments.
     */
    uint32_t number;
    /**
     * Messages that can lie between program and server, a power of two; 0: enough for two bursts.
     */
    uint32_t slots;
    /**
     * A punctual_policing. With credits the burst is at least the one that they let pass; 0: that one.
     */
    uint32_t policing;
} punctual_channel_request;

/**
 * How a channel stands.
 */
typedef struct punctual_channel_info {
    /**
     * sizeof(punctual_channel_info).
     */
    size_t size;
    /**
     * The number of the grant, as `punctual status` shows it.
     */
    uint64_t grant;
    /**
     * What is promised: from the moment at which a message counts as arrived to the end of its
     * transmission. 0: nothing, as it is best effort.
     */
    uint64_t delay_bound_ns;
    /**
     * Of best effort: bits a second that it had when it was opened or rejoined last. 0: promised.
     */
    uint64_t share_bps;
    /**
     * Of a channel that sends: messages that were sent and have not left yet.
     */
    uint64_t unreleased;
    /**
     * The most bytes of a message.
     */
    uint32_t max_message;
    /**
     * Messages that can lie between program and server.
     */
    uint32_t slots;
} punctual_channel_info;

/**
 * A message that was received.
 */
typedef struct punctual_received {
    /**
     * sizeof(punctual_received).
     */
    size_t size;
    /**
     * How many bytes it has.
     */
    uint64_t bytes;
    /**
     * Which message, counted from the channel's first: none is missing in between.
     */
    uint64_t number;
    /**
     * When it had come to this host (CLOCK_MONOTONIC).
     */
    uint64_t arrived_ns;
} punctual_received;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of this library, as "0.1.0". Never freed.
 */
const char *punctual_version(void);

/**
 * The time: nanoseconds of CLOCK_MONOTONIC.
 */
uint64_t punctual_now(void);

/**
 * What the last call of this thread that failed had to say: a sentence with the numbers, in UTF-8,
 * without a newline or another control character; empty if none failed. Valid until the next call of
 * this thread that fails.
 */
const char *punctual_last_error(void);

/**
 * The exit status that the `punctual` command would have for this error: 0 kept, 1 refused or broken
 * promise, 2 bad usage, 3 this host cannot. For programs that want to be scripted alike.
 */
int punctual_exit_status(int error);

/**
 * Opens a handle for upcalls: none yet, and none runs. `options` may be null: real-time upcalls with
 * all defaults. A process may have several handles; each is admitted by itself.
 *
 * All functions with the handle may be called from any thread at any time, but punctual_free, which
 * must be the last.
 */
enum punctual_error punctual_open(const struct punctual_options *options,
                                  struct punctual_upcalls **upcalls);

/**
 * Admits an upcall beside those created before, and gives its number: 0 for the first. (`rts_creat`)
 *
 * Before punctual_run, its first release is the start given there, and `first_release_ns` must be 0.
 * After, it is `first_release_ns` (CLOCK_MONOTONIC), or now if that is earlier.
 *
 * PUNCTUAL_EREFUSED if all together would not be in time: the sentence names the test that failed,
 * the shortfall, and changes with each of which it would be admitted.
 */
enum punctual_error punctual_create(struct punctual_upcalls *upcalls,
                                    const struct punctual_contract *contract,
                                    const struct punctual_handler *handler,
                                    uint64_t first_release_ns,
                                    uint32_t *id);

/**
 * Adds a best-effort upcall: it runs when no real-time upcall of the handle wants the CPU, as an
 * ordinary thread of the host. Gives its number. For PUNCTUAL_UPCALLS with containment, and
 * PUNCTUAL_ORDINARY. Its contract cannot be changed.
 */
enum punctual_error punctual_create_best_effort(struct punctual_upcalls *upcalls,
                                                const struct punctual_best_effort *contract,
                                                const struct punctual_handler *handler,
                                                uint32_t *id);

/**
 * Starts all upcalls, each first released at `start_ns` (CLOCK_MONOTONIC), or now if that is
 * earlier. (`rts_run`, for all; for one that was suspended it is punctual_resume.)
 *
 * PUNCTUAL_EHOST if the threads do not get the scheduling classes they need, PUNCTUAL_EREFUSED if the
 * kernel has no bandwidth left for the reservation; then none runs, and the handle can only be freed.
 */
enum punctual_error punctual_run(struct punctual_upcalls *upcalls,
                                 uint64_t start_ns);

/**
 * Stops all upcalls at the next yield point and waits for it. For handlers that were contained it
 * waits up to two seconds more. `stopped` may be null. Statistics, events and notices stay until the
 * handle is freed.
 *
 * PUNCTUAL_EHOST if the kernel had taken the scheduling class away while they ran; they are stopped
 * all the same. PUNCTUAL_EDEADLK from inside a notice.
 */
enum punctual_error punctual_stop(struct punctual_upcalls *upcalls,
                                  struct punctual_stopped *stopped);

/**
 * Stops the upcalls if they run, and frees the handle, which must not be used again. Null is let
 * pass.
 *
 * What punctual_stop would say is said here too; the handle is freed all the same, but for
 * PUNCTUAL_EDEADLK. To learn whether handlers are stuck, stop first.
 */
enum punctual_error punctual_free(struct punctual_upcalls *upcalls);

/**
 * Releases an upcall no more until punctual_resume; what was released and is not complete is
 * dropped. Its promise stays admitted. (`rts_suspend`)
 *
 * This, and every other order, waits for the end of the turn that runs.
 */
enum punctual_error punctual_suspend(struct punctual_upcalls *upcalls, uint32_t id);

/**
 * Releases an upcall again that was suspended or said PUNCTUAL_DONE, from the next instant on at
 * which it would have been released anyway. (`rts_run`)
 */
enum punctual_error punctual_resume(struct punctual_upcalls *upcalls, uint32_t id);

/**
 * Changes the contract of an upcall while it runs, if everything holds with the new one; else
 * nothing changes. With the same period the phase stays; with another, its first release is at the
 * end of the current one.
 */
enum punctual_error punctual_change(struct punctual_upcalls *upcalls,
                                    uint32_t id,
                                    const struct punctual_contract *contract);

/**
 * Lets an upcall go: what was released and is not complete is dropped, its handler is called no
 * more, its number is never given again. (`rts_close`) Its statistics stay until punctual_forget.
 *
 * PUNCTUAL_ESTUCK: it is closed, but its handler has not come back, and its argument must be left
 * alone.
 */
enum punctual_error punctual_close(struct punctual_upcalls *upcalls, uint32_t id);

/**
 * Waits until at least one of these upcalls is not active (suspended, done, contained or closed),
 * but not longer than `timeout_ns`; UINT64_MAX waits for ever, 0 looks. (`rts_sleep`)
 *
 * `waited` has `count` members, at least one: the program sets the `id` of each, the call sets the
 * `activity` of each, also when it returns PUNCTUAL_ETIMEDOUT because all are active. `inactive` is
 * how many are not, and may be null. Several threads may wait.
 *
 * PUNCTUAL_EENDED if they are being stopped, or the kernel took the scheduling class away.
 */
enum punctual_error punctual_wait(struct punctual_upcalls *upcalls,
                                  struct punctual_waited *waited,
                                  size_t count,
                                  uint64_t timeout_ns,
                                  size_t *inactive);

/**
 * Whether an upcall is being released: a punctual_activity. One that there never was is closed.
 */
enum punctual_error punctual_activity_of(struct punctual_upcalls *upcalls,
                                         uint32_t id,
                                         uint32_t *activity);

/**
 * Takes out the oldest notices, at most `capacity` of them; `count` is how many. None wait if they
 * are told (punctual_options.on_notice). `lost`, which may be null, is how many have been lost since
 * the last call because 4096 waited already.
 */
enum punctual_error punctual_notices(struct punctual_upcalls *upcalls,
                                     struct punctual_notice *notices,
                                     size_t capacity,
                                     size_t *count,
                                     uint64_t *lost);

/**
 * Takes out the oldest events, at most `capacity` of them; `count` is how many. `lost`, which may be
 * null, is how many have been lost since the last call because 65536 waited already; statistics do
 * not miss those.
 */
enum punctual_error punctual_drain(struct punctual_upcalls *upcalls,
                                   struct punctual_event *events,
                                   size_t capacity,
                                   size_t *count,
                                   uint64_t *lost);

/**
 * What the jobs of an upcall amounted to so far, also of one that was closed, until punctual_forget.
 */
enum punctual_error punctual_get_stats(struct punctual_upcalls *upcalls,
                                       uint32_t id,
                                       struct punctual_stats *stats);

/**
 * Frees the statistics of an upcall that is closed (half a megabyte), which punctual_get_stats then
 * does not know any more (PUNCTUAL_ENOENT). Without it they stay until punctual_free: a program that
 * goes on creating and closing upcalls calls it for each. Events that wait for punctual_drain stay.
 *
 * PUNCTUAL_EINVAL if the upcall is not closed, PUNCTUAL_ESTUCK if it is contained and was not closed,
 * PUNCTUAL_ENOENT if there never was such an upcall, or it was forgotten already.
 */
enum punctual_error punctual_forget(struct punctual_upcalls *upcalls,
                                    uint32_t id);

/**
 * Finds out what this host can do (some milliseconds), and starts a small guard process that puts
 * back what is left behind if this one is killed. `options` may be null.
 */
enum punctual_error punctual_reservations_open(const struct punctual_reservation_options *options,
                                               struct punctual_reservations **reservations);

/**
 * Frees the handle. Reservations and time constraints that were given stand until they are released
 * or ended. Null is let pass.
 */
enum punctual_error punctual_reservations_free(struct punctual_reservations *reservations);

/**
 * Reserves for the calling thread: by SCHED_DEADLINE where that does what is asked, else by
 * timetable. PUNCTUAL_EREFUSED with what would fit.
 */
enum punctual_error punctual_reserve_thread(struct punctual_reservations *reservations,
                                            const struct punctual_reserve *reserve,
                                            struct punctual_reservation **reservation);

/**
 * Reserves for a process that runs already, with all threads and children that it has or makes, by
 * timetable: it runs on one CPU only as long as it is held. PUNCTUAL_EREFUSED with what would fit.
 */
enum punctual_error punctual_reserve_process(struct punctual_reservations *reservations,
                                             int32_t pid,
                                             const struct punctual_reserve *reserve,
                                             struct punctual_reservation **reservation);

/**
 * How a reservation stands: used, left, and by what it is held.
 */
enum punctual_error punctual_reservation_get(struct punctual_reservation *reservation,
                                             struct punctual_reservation_info *info);

/**
 * Why a reservation is held by what it is, in words. Valid until it is released; null for null.
 */
const char *punctual_reservation_because(struct punctual_reservation *reservation);

/**
 * Sleeps until the next period of the calling thread's reservation begins, on a grid that does not
 * drift. `start_ns`, which may be null, is when it began.
 */
enum punctual_error punctual_reservation_next(struct punctual_reservation *reservation,
                                              uint64_t *start_ns);

/**
 * Another X every Y. If it is refused, it stays as it is. May wait for some periods.
 */
enum punctual_error punctual_reservation_change(struct punctual_reservation *reservation,
                                                uint64_t budget_ns,
                                                uint64_t period_ns);

/**
 * Gives a reservation back: its owner is an ordinary thread or process again. The handle must not be
 * used again, unless it was refused (another thread's). Null is let pass.
 */
enum punctual_error punctual_reservation_release(struct punctual_reservation *reservation);

/**
 * May the calling thread have `estimate_ns` of processor time between `start_ns` and `deadline_ns`
 * (CLOCK_MONOTONIC, or now if that is later), beside all that is reserved and was accepted before?
 * Asked before the work is begun; the thread stays on one CPU until it ends.
 *
 * PUNCTUAL_EREFUSED with the largest estimate that would fit, and the earliest deadline.
 */
enum punctual_error punctual_constraint_begin(struct punctual_reservations *reservations,
                                              uint64_t start_ns,
                                              uint64_t estimate_ns,
                                              uint64_t deadline_ns,
                                              struct punctual_constraint **constraint);

/**
 * Ends a time constraint and frees it; the rest of its time is everybody's. `used` may be null.
 */
enum punctual_error punctual_constraint_end(struct punctual_constraint *constraint,
                                            struct punctual_used *used);

/**
 * Asks the broker for a channel. PUNCTUAL_EREFUSED with what would fit; PUNCTUAL_EHOST where no broker
 * answers.
 */
enum punctual_error punctual_channel_open(const struct punctual_channel_request *request,
                                          struct punctual_channel **channel);

/**
 * After PUNCTUAL_EGONE: looks for the next broker and goes on there, with all that was in the queue.
 * PUNCTUAL_EHOST while there is none: try again within the broker's grace period. PUNCTUAL_EENDED if
 * the channel was taken back.
 */
enum punctual_error punctual_channel_rejoin(struct punctual_channel *channel);

/**
 * How a channel stands.
 */
enum punctual_error punctual_channel_get(struct punctual_channel *channel,
                                         struct punctual_channel_info *info);

/**
 * Gives a channel back, and frees it in any case. What was sent and has not left is lost:
 * `punctual_channel_drain` first. Null is let pass.
 */
enum punctual_error punctual_channel_close(struct punctual_channel *channel);

/**
 * Sends a copy of `length` bytes; waits for room, `timeout_ns` at the longest (UINT64_MAX: without a
 * limit). PUNCTUAL_ETIMEDOUT if none came; PUNCTUAL_EGONE if the server is gone
 * (`punctual_channel_rejoin`). A message for which an error is returned was not sent.
 */
enum punctual_error punctual_channel_send(struct punctual_channel *channel,
                                          const void *bytes,
                                          size_t length,
                                          uint64_t timeout_ns);

/**
 * Sends if there is room. PUNCTUAL_EAGAIN if there is none.
 */
enum punctual_error punctual_channel_try_send(struct punctual_channel *channel,
                                              const void *bytes,
                                              size_t length);

/**
 * Waits until all that was sent has left, `timeout_ns` at the longest.
 */
enum punctual_error punctual_channel_drain(struct punctual_channel *channel, uint64_t timeout_ns);

/**
 * Copies the next message to `into`, where there are `length` bytes; waits for one, `timeout_ns` at the
 * longest (UINT64_MAX: without a limit). If it is longer than that: PUNCTUAL_EINVAL, `received` is
 * written all the same, and it stays the next one. PUNCTUAL_EGONE if the server is gone and no message
 * is left.
 */
enum punctual_error punctual_channel_receive(struct punctual_channel *channel,
                                             void *into,
                                             size_t length,
                                             uint64_t timeout_ns,
                                             struct punctual_received *received);

/**
 * Copies the next message if there is one. PUNCTUAL_EAGAIN if there is none.
 */
enum punctual_error punctual_channel_try_receive(struct punctual_channel *channel,
                                                 void *into,
                                                 size_t length,
                                                 struct punctual_received *received);

/**
 * What to poll for reading, between `punctual_channel_before_poll` and `punctual_channel_after_poll`.
 * It is another one after `punctual_channel_rejoin`.
 */
enum punctual_error punctual_channel_fd(struct punctual_channel *channel,
                                        int *fd);

/**
 * Says that the program is going to poll. `work` is not 0 if there is room, or a message: then do not
 * sleep. Without this call the server does not ring.
 */
enum punctual_error punctual_channel_before_poll(struct punctual_channel *channel,
                                                 uint32_t *work);

/**
 * Says that the program has polled, however that ended. Then send or receive until PUNCTUAL_EAGAIN.
 */
enum punctual_error punctual_channel_after_poll(struct punctual_channel *channel);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PUNCTUAL_H */
