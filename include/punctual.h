/*
 * Punctual: real-time guarantees for periodic work on stock Linux. The guide is docs/c-api.md.
 *
 * - Times are in nanoseconds; instants are of CLOCK_MONOTONIC (punctual_now).
 * - Functions return PUNCTUAL_OK, or an error whose sentence punctual_last_error() gives.
 * - The first member of most structures is its size: set it to sizeof, and leave members that you do
 *   not need at zero. The program then also works with later libraries that know more members.
 * - Unless a comment says otherwise, null pointers are refused, and a call that fails leaves its
 *   results unwritten. A handle must come from this library and must not have been freed.
 * - From inside a handler (iterate, commit) only punctual_now, punctual_version, punctual_last_error
 *   and punctual_exit_status may be called; other functions return PUNCTUAL_EDEADLK.
 *
 * Made by cbindgen from crates/capi. Licensed under MIT or Apache-2.0, at your option.
 */

#ifndef PUNCTUAL_H
#define PUNCTUAL_H

#include <stddef.h>
#include <stdint.h>

/**
 * The result of `iterate` if there is nothing more to do until punctual_resume. It ends the job
 * and suspends the upcall, and so ends a punctual_wait for it.
 */
#define PUNCTUAL_DONE UINT32_MAX

/**
 * The result of a call. The numbers are stable. 0 to 3 mean the same as the exit status of the
 * `punctual` command.
 */
typedef enum punctual_error {
    /**
     * Success.
     */
    PUNCTUAL_OK = 0,
    /**
     * Not admitted. The sentence names what failed, by how much, and what would fit instead.
     */
    PUNCTUAL_EREFUSED = 1,
    /**
     * An argument is not valid, or the call is not allowed at this time.
     */
    PUNCTUAL_EINVAL = 2,
    /**
     * This host is not able to do it: a privilege or a feature is missing. The sentence says what
     * to do.
     */
    PUNCTUAL_EHOST = 3,
    /**
     * There is no such upcall, thread or process (any more).
     */
    PUNCTUAL_ENOENT = 4,
    /**
     * A handler has not returned from its iteration. Its argument must be left alone.
     */
    PUNCTUAL_ESTUCK = 5,
    /**
     * The upcalls do not run any more: the kernel took their scheduling class away, or they were
     * stopped.
     */
    PUNCTUAL_EENDED = 6,
    /**
     * Nothing happened before the time-out.
     */
    PUNCTUAL_ETIMEDOUT = 7,
    /**
     * Called from inside a handler or a notice, where the call would wait for itself.
     */
    PUNCTUAL_EDEADLK = 8,
    /**
     * A bug in this library. The handle must only be freed.
     */
    PUNCTUAL_EINTERNAL = 9,
    /**
     * The call would have to wait: there is no room, or no message.
     */
    PUNCTUAL_EAGAIN = 10,
    /**
     * The broker that carried the channel is gone. Nothing in the channel is lost; call
     * punctual_channel_rejoin.
     */
    PUNCTUAL_EGONE = 11,
} punctual_error;

/**
 * The activity of an upcall.
 */
typedef enum punctual_activity {
    /**
     * It is released, or will be after punctual_run.
     */
    PUNCTUAL_ACTIVE = 0,
    /**
     * It was suspended, or its handler returned PUNCTUAL_DONE.
     */
    PUNCTUAL_SUSPENDED = 1,
    /**
     * Its handler has not returned, and was set aside.
     */
    PUNCTUAL_CONTAINED = 2,
    /**
     * It was closed, or there never was such an upcall.
     */
    PUNCTUAL_CLOSED = 3,
} punctual_activity;

/**
 * The pattern of releases (punctual_simulation.arrivals).
 */
typedef enum punctual_arrivals {
    /**
     * PUNCTUAL_PERIODIC, or PUNCTUAL_SPORADIC with a seed.
     */
    PUNCTUAL_USUAL_ARRIVALS = 0,
    /**
     * All at the critical instant, then as densely as the contract allows.
     */
    PUNCTUAL_PERIODIC = 1,
    /**
     * With drawn gaps and jitter.
     */
    PUNCTUAL_SPORADIC = 2,
    /**
     * Piled up by the jitter, then dense, then a drawn pause.
     */
    PUNCTUAL_BURSTY = 3,
    /**
     * All at once, 1 ns after the longest quantum of any task began.
     */
    PUNCTUAL_ADVERSARIAL = 4,
} punctual_arrivals;

/**
 * The back end of a reservation.
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
    /**
     * A deferrable server, for a program: up to X in each period, whenever it wakes.
     */
    PUNCTUAL_SERVER = 2,
} punctual_backend;

/**
 * The direction of the messages of a channel (punctual_channel_request.direction).
 */
typedef enum punctual_direction {
    /**
     * The program sends.
     */
    PUNCTUAL_SEND = 0,
    /**
     * The program receives.
     */
    PUNCTUAL_RECEIVE = 1,
} punctual_direction;

/**
 * The treatment of an owner that has used its budget (punctual_reserve.enforcement).
 */
typedef enum punctual_enforcement {
    /**
     * It goes on as an ordinary program.
     */
    PUNCTUAL_SOFT = 0,
    /**
     * It waits for its next period.
     */
    PUNCTUAL_HARD = 1,
} punctual_enforcement;

/**
 * The kind of an event.
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
     * This job and the `jobs` - 1 after it are not complete at their deadlines, and go on or will
     * run.
     */
    PUNCTUAL_EVENT_OVERRUN = 4,
    /**
     * This job and the `jobs` - 1 after it will never begin.
     */
    PUNCTUAL_EVENT_SKIP = 5,
    /**
     * It had begun, and ended incomplete at a yield point.
     */
    PUNCTUAL_EVENT_ABORT = 6,
    /**
     * It did not reach its yield point in time, and its handler was set aside.
     */
    PUNCTUAL_EVENT_CONTAINED = 7,
    /**
     * A reservation's next period begins, with a full budget. Upcalls have none of these last
     * three kinds.
     */
    PUNCTUAL_EVENT_REPLENISH = 8,
    /**
     * A reservation may not run, or only as an ordinary program.
     */
    PUNCTUAL_EVENT_THROTTLE = 9,
    /**
     * A throttled reservation may run again.
     */
    PUNCTUAL_EVENT_UNTHROTTLE = 10,
} punctual_event_kind;

/**
 * The execution times of jobs (punctual_simulation.exec_times).
 */
typedef enum punctual_exec_times {
    /**
     * PUNCTUAL_WORST, or PUNCTUAL_DRAWN for sporadic arrivals.
     */
    PUNCTUAL_USUAL_EXEC_TIMES = 0,
    /**
     * The wcet.
     */
    PUNCTUAL_WORST = 1,
    /**
     * Drawn, up to the wcet.
     */
    PUNCTUAL_DRAWN = 2,
} punctual_exec_times;

/**
 * Additional options (punctual_options.flags), added up.
 */
typedef enum punctual_flags {
    /**
     * Handlers that do not return are not contained: they hold up every upcall of the host.
     */
    PUNCTUAL_WITHOUT_CONTAINMENT = 1,
    /**
     * Inside a reservation, an upcall is admitted only if it is proven to be in time. Without this
     * flag the sum of the needed processor time must fit, which is necessary but not sufficient.
     */
    PUNCTUAL_PROOF_INSIDE = 2,
} punctual_flags;

/**
 * The form of messages on the network (punctual_channel_request.framing).
 */
typedef enum punctual_framing {
    /**
     * Each message is one datagram as it is, for peers without Punctual.
     */
    PUNCTUAL_DATAGRAM = 0,
    /**
     * Messages are sent in fragments with a header of 32 bytes, for peers that use channels too.
     */
    PUNCTUAL_FRAGMENTS = 1,
} punctual_framing;

/**
 * The kind of a notice.
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
     * The handler did not reach a yield point in time, and was set aside for the `count`-th time.
     */
    PUNCTUAL_NOTICE_CONTAINED = 3,
    /**
     * The handler that had been set aside returned.
     */
    PUNCTUAL_NOTICE_RETURNED = 4,
    /**
     * The upcall was contained too often, and is released no more.
     */
    PUNCTUAL_NOTICE_CLOSED = 5,
} punctual_notice_kind;

/**
 * The treatment of late jobs (punctual_contract.overrun).
 */
typedef enum punctual_overrun {
    /**
     * Every late job still runs, the oldest first.
     */
    PUNCTUAL_CATCH_UP = 0,
    /**
     * Jobs whose deadline passes before they begin are dropped. A job that has begun runs to its
     * end.
     */
    PUNCTUAL_SKIP = 1,
    /**
     * As PUNCTUAL_SKIP; in addition, a job that has begun ends at its first yield point after its
     * deadline.
     */
    PUNCTUAL_ABORT = 2,
    /**
     * Late jobs run only when no other real-time upcall wants the CPU.
     */
    PUNCTUAL_DEMOTE = 3,
    /**
     * As PUNCTUAL_CATCH_UP, with an urgent notice.
     */
    PUNCTUAL_NOTIFY = 4,
} punctual_overrun;

/**
 * The placement of the upcalls of a handle (punctual_options.placement).
 */
typedef enum punctual_placement {
    /**
     * Real-time upcalls: SCHED_FIFO, each waiting at the priority of its rate, admitted together
     * by the exact test.
     */
    PUNCTUAL_UPCALLS = 0,
    /**
     * Inside a CPU reservation (budget_ns every period_ns): SCHED_DEADLINE.
     */
    PUNCTUAL_RESERVED = 1,
    /**
     * An ordinary thread, for comparison: there is no promise at all, and everything is admitted.
     */
    PUNCTUAL_ORDINARY = 2,
} punctual_placement;

/**
 * The rule that says which messages are beyond the burst (punctual_channel_request.policing).
 */
typedef enum punctual_policing {
    /**
     * The spacing since the previous message, and the burst.
     */
    PUNCTUAL_GCRA = 0,
    /**
     * Interval credits for 2 messages, for traffic that is sensitive to jitter. They let a burst
     * of 4 pass.
     */
    PUNCTUAL_CREDITS_HIGH = 1,
    /**
     * Interval credits for 10 messages. They let a burst of 20 pass.
     */
    PUNCTUAL_CREDITS_MEDIUM = 2,
    /**
     * Interval credits for 50 messages, for traffic that is not sensitive to jitter. They let a
     * burst of 100 pass.
     */
    PUNCTUAL_CREDITS_LOW = 3,
} punctual_policing;

/**
 * The treatment of messages beyond the burst (punctual_channel_request.too_early).
 */
typedef enum punctual_too_early {
    /**
     * They wait until the contract allows them.
     */
    PUNCTUAL_WAIT = 0,
    /**
     * They are dropped, and counted.
     */
    PUNCTUAL_LOSE = 1,
} punctual_too_early;

/**
 * The answer to a question (punctual_result_code).
 */
typedef enum punctual_verdict {
    /**
     * Admitted, every promise kept, or this host is able.
     */
    PUNCTUAL_KEPT = 0,
    /**
     * Refused, or a promise was broken.
     */
    PUNCTUAL_BROKEN = 1,
    /**
     * This host is not able.
     */
    PUNCTUAL_UNABLE = 3,
    /**
     * The evidence that would decide is missing.
     */
    PUNCTUAL_NOT_JUDGEABLE = 4,
} punctual_verdict;

/**
 * A channel. Its functions may be called from any thread, and wait for each other.
 * `punctual_channel_close` must be the last. After fork(2) the child must not use it.
 */
typedef struct punctual_channel punctual_channel;

/**
 * An accepted time constraint. Only the thread that began it may use it, and must end it.
 */
typedef struct punctual_constraint punctual_constraint;

/**
 * A program that was started under a reservation. Its functions may be called from any thread.
 * punctual_program_free must be the last. After fork(2) the child must not use it.
 */
typedef struct punctual_program punctual_program;

/**
 * A reservation, which stands until it is released. A thread's reservation may be used by that
 * thread only, which must release it before it ends. A process's may be used by any thread.
 */
typedef struct punctual_reservation punctual_reservation;

/**
 * The handle that gives reservations. Any thread may use it at any time.
 */
typedef struct punctual_reservations punctual_reservations;

/**
 * The result of a question or of a program. It is the caller's, who frees it with
 * punctual_result_free. Any thread may read it until then.
 */
typedef struct punctual_result punctual_result;

/**
 * The upcalls of a process: created, run, and stopped together.
 */
typedef struct punctual_upcalls punctual_upcalls;

/**
 * An event that the owner of an upcall may want to act on. Its layout does not change.
 */
typedef struct punctual_notice {
    /**
     * The time at which it was noticed (CLOCK_MONOTONIC).
     */
    uint64_t at_ns;
    /**
     * The count of its kind, or 1 if the kind has none.
     */
    uint64_t count;
    /**
     * The number of the upcall.
     */
    uint32_t id;
    /**
     * A punctual_notice_kind.
     */
    uint32_t kind;
} punctual_notice;

/**
 * Called for each notice, on an ordinary thread of the library: at once for PUNCTUAL_NOTIFY and
 * containment, within 50 ms for others. It may call every function except punctual_stop and
 * punctual_free. It must return, and neither throw nor longjmp.
 */
typedef void (*punctual_on_notice)(void *arg, const struct punctual_notice *notice);

/**
 * Options for the upcalls of a handle. All zero but the size is a good choice.
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
     * For PUNCTUAL_RESERVED: the processor time in each period.
     */
    uint64_t budget_ns;
    /**
     * For PUNCTUAL_RESERVED: the period.
     */
    uint64_t period_ns;
    /**
     * The time that an iteration may take beyond its quantum before it is contained; 0: 1 ms.
     */
    uint64_t grace_ns;
    /**
     * The time that admission charges for a switch between two upcalls, twice a job; 0: nothing.
     */
    uint64_t context_switch_ns;
    /**
     * The number of containments after which an upcall is closed; 0: 3.
     */
    uint32_t most_containments;
    /**
     * The number of upcalls that may be created while others run; 0: 64.
     */
    uint32_t room;
    /**
     * Called for each notice; null: notices wait for punctual_notices.
     */
    punctual_on_notice on_notice;
    /**
     * Passed to on_notice.
     */
    void *on_notice_arg;
} punctual_options;

/**
 * The contract of a real-time upcall: what it is promised, and what it promises.
 */
typedef struct punctual_contract {
    /**
     * sizeof(punctual_contract).
     */
    size_t size;
    /**
     * A name for people, which appears in refusals. It is copied; null: "".
     */
    const char *name;
    /**
     * The time between two releases, which is also the relative deadline of each job.
     */
    uint64_t period_ns;
    /**
     * The most processor time that one PDU (packet, sample, frame) takes.
     */
    uint64_t time_per_pdu_ns;
    /**
     * The number of PDUs processed each period.
     */
    uint32_t batch;
    /**
     * The most PDUs that each call of `iterate` processes, between two yield points.
     */
    uint32_t quantum;
    /**
     * A punctual_overrun.
     */
    uint32_t overrun;
    /**
     * Must be zero.
     */
    uint32_t reserved;
} punctual_contract;

/**
 * Processes up to `pdus` PDUs with the input available at `now_ns`, and returns how many it
 * processed. Zero ends the job; PUNCTUAL_DONE ends it and suspends the upcall. No other handler of
 * the process runs between a call and its return, so handlers need no locks between them.
 *
 * It runs on a real-time thread of the library, never on two at once. It must not wait for other
 * threads, and neither throw nor longjmp.
 */
typedef uint32_t (*punctual_iterate)(void *arg, uint64_t now_ns, uint32_t pdus);

/**
 * The work of the last `iterate` was finished at `now_ns`: its output takes effect. Called after
 * each `iterate`, before any other handler runs. The same rules hold.
 */
typedef void (*punctual_commit)(void *arg, uint64_t now_ns);

/**
 * The code of an upcall. The object at `arg` must stay until the upcall is closed, or all are
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
     * Passed to both functions.
     */
    void *arg;
} punctual_handler;

/**
 * The contract of a best-effort (virtual-time) upcall, which gets a share of what real-time work
 * leaves.
 */
typedef struct punctual_best_effort {
    /**
     * sizeof(punctual_best_effort).
     */
    size_t size;
    /**
     * A name for people. It is copied; null: "".
     */
    const char *name;
    /**
     * The most processor time that one PDU takes.
     */
    uint64_t time_per_pdu_ns;
    /**
     * The time after which `iterate` is called again when it had nothing to do.
     */
    uint64_t poll_ns;
    /**
     * The weight, 1 to 100. The share among best-effort upcalls is proportional to it.
     */
    uint32_t weight;
    /**
     * The most PDUs that each call of `iterate` processes.
     */
    uint32_t quantum;
} punctual_best_effort;

/**
 * The result of stopping upcalls.
 */
typedef struct punctual_stopped {
    /**
     * sizeof(punctual_stopped).
     */
    size_t size;
    /**
     * The processor time of all upcalls together.
     */
    uint64_t exec_time_ns;
    /**
     * Events that were lost before they were counted.
     */
    uint64_t events_lost;
    /**
     * Jobs that were released and not complete.
     */
    uint64_t unfinished;
    /**
     * Handlers that have not returned. Their arguments must be left alone for ever, and the
     * library must stay loaded. punctual_activity_of gives PUNCTUAL_CONTAINED for these upcalls.
     */
    uint64_t stuck;
} punctual_stopped;

/**
 * An upcall that punctual_wait waits for.
 */
typedef struct punctual_waited {
    /**
     * Its number, set by the program.
     */
    uint32_t id;
    /**
     * A punctual_activity, set by punctual_wait.
     */
    uint32_t activity;
} punctual_waited;

/**
 * Something that happened to a job. Its layout does not change.
 */
typedef struct punctual_event {
    /**
     * The time of the event (CLOCK_MONOTONIC).
     */
    uint64_t at_ns;
    /**
     * The release of the job.
     */
    uint64_t release_ns;
    /**
     * The index of the job of its upcall, from 0.
     */
    uint64_t job;
    /**
     * The number of jobs that the event concerns.
     */
    uint64_t jobs;
    /**
     * The number of the upcall.
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
     * The number of times.
     */
    uint64_t count;
    /**
     * The median: half of the times are at most this.
     */
    uint64_t p50_ns;
    /**
     * 99 of 100 times are at most this.
     */
    uint64_t p99_ns;
    /**
     * The exact longest time.
     */
    uint64_t max_ns;
} punctual_times;

/**
 * The statistics of the jobs of an upcall.
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
     * Jobs whose handler was set aside.
     */
    uint64_t contained;
    /**
     * The number of times that a job gave way.
     */
    uint64_t gave_way;
    /**
     * Jobs that were released and not complete when all were stopped.
     */
    uint64_t unfinished;
    /**
     * The greatest tardiness of a complete job.
     */
    uint64_t max_tardiness_ns;
    /**
     * The times from a job's release to its first instruction.
     */
    struct punctual_times wakeup_latency;
    /**
     * The times from a job's release to its completion.
     */
    struct punctual_times response_time;
    /**
     * Events of all upcalls that were lost so far before they were counted. If not zero, these
     * statistics have gaps.
     */
    uint64_t events_lost;
} punctual_stats;

/**
 * Options for timetables. If all but the size is zero: this thread's CPUs, the last first; 100 us
 * a switch; what real-time throttling leaves of each CPU, less 2 %.
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
     * The number of CPUs; 0: this thread's.
     */
    size_t cpu_count;
    /**
     * The time that is lost at the start of each slot; 0: the value in host_profile, or else 100
     * us, an assumption.
     */
    uint64_t context_switch_ns;
    /**
     * The most that all slots of a CPU may take, in millionths of it; 0: what real-time throttling
     * leaves, less 2 %.
     */
    uint32_t most_ppm;
    /**
     * Must be zero.
     */
    uint32_t reserved;
    /**
     * Since version 2. The path of a file of `punctual calibrate` on this host. The loss at the
     * start of a slot is taken from it, if it was measured; null: none. A file of another host is
     * refused.
     */
    const char *host_profile;
} punctual_reservation_options;

/**
 * A request for a reservation of X every Y.
 */
typedef struct punctual_reserve {
    /**
     * sizeof(punctual_reserve).
     */
    size_t size;
    /**
     * X: the processor time in each period.
     */
    uint64_t budget_ns;
    /**
     * Y: the period.
     */
    uint64_t period_ns;
    /**
     * A punctual_enforcement.
     */
    uint32_t enforcement;
    /**
     * Not zero: the budget is enforced exactly, while SCHED_DEADLINE alone enforces it to within a
     * tick or two.
     */
    uint32_t exact;
} punctual_reserve;

/**
 * The state of a reservation. Unknown values are all ones.
 */
typedef struct punctual_reservation_info {
    /**
     * sizeof(punctual_reservation_info).
     */
    size_t size;
    /**
     * X: the processor time in each period.
     */
    uint64_t budget_ns;
    /**
     * Y: the period.
     */
    uint64_t period_ns;
    /**
     * The processor time used: by a thread since its period began, by a process since it was
     * admitted.
     */
    uint64_t used_ns;
    /**
     * For a thread: the rest of this period's budget.
     */
    uint64_t left_ns;
    /**
     * For a timetable: the start of the first promised window (CLOCK_MONOTONIC).
     */
    uint64_t since_ns;
    /**
     * For a timetable: the number of slots given so far.
     */
    uint64_t slots;
    /**
     * For a timetable: the number of times that the kernel refused to start or stop the owner. Not
     * zero means that the promise is broken, because this process lost its rights, or the owner's
     * control group was removed.
     */
    uint64_t failures;
    /**
     * A punctual_backend.
     */
    uint32_t backend;
    /**
     * For a timetable: the number of its CPU. SCHED_DEADLINE may use every CPU.
     */
    uint32_t cpu;
} punctual_reservation_info;

/**
 * The outcome of a time constraint.
 */
typedef struct punctual_used {
    /**
     * sizeof(punctual_used).
     */
    size_t size;
    /**
     * The processor time that the thread used since the constraint began.
     */
    uint64_t used_ns;
    /**
     * The estimate of the request.
     */
    uint64_t estimate_ns;
    /**
     * 1 if it ended by its deadline, else 0.
     */
    uint32_t in_time;
    /**
     * Must be zero.
     */
    uint32_t reserved;
} punctual_used;

/**
 * A request for a channel. In any time T it sends or receives at most burst + T / spacing_ns
 * messages.
 */
typedef struct punctual_channel_request {
    /**
     * sizeof(punctual_channel_request).
     */
    size_t size;
    /**
     * A name for people.
     */
    const char *name;
    /**
     * The address to send to or to listen on: "192.0.2.7:4000", "[2001:db8::7]:4000".
     */
    const char *address;
    /**
     * The path of the broker's socket; null: the default.
     */
    const char *broker;
    /**
     * The average time between two messages.
     */
    uint64_t spacing_ns;
    /**
     * The bound on the time from the arrival of a message, as the contract counts it, to the end
     * of its transmission; 0: best effort, without any promise.
     */
    uint64_t delay_bound_ns;
    /**
     * The most bytes of a message.
     */
    uint32_t max_message;
    /**
     * The least bytes of a message; 0: 1.
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
     * The number of the channel in the headers of fragments, on which sender and receiver agree.
     */
    uint32_t number;
    /**
     * The number of messages that fit between program and server, a power of two; 0: enough for
     * two bursts.
     */
    uint32_t slots;
    /**
     * A punctual_policing. With credits the burst must be at least the one that they let pass; 0:
     * that one.
     */
    uint32_t policing;
} punctual_channel_request;

/**
 * The state of a channel.
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
     * The promised bound on the time from the arrival of a message, as the contract counts it, to
     * the end of its transmission. 0: none, because the channel is best effort.
     */
    uint64_t delay_bound_ns;
    /**
     * For best effort: its share in bits a second when it was last opened or rejoined. 0: the
     * channel has a promise.
     */
    uint64_t share_bps;
    /**
     * For a channel that sends: the number of messages that were sent and have not left yet.
     */
    uint64_t unreleased;
    /**
     * The most bytes of a message.
     */
    uint32_t max_message;
    /**
     * The number of messages that fit between program and server.
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
     * Its length in bytes.
     */
    uint64_t bytes;
    /**
     * Its number, counted from the channel's first message without gaps.
     */
    uint64_t number;
    /**
     * The time at which it arrived at this host (CLOCK_MONOTONIC).
     */
    uint64_t arrived_ns;
} punctual_received;

/**
 * A contract as the command reads it (docs/contract.md), and the host on which it is to run.
 * Exactly one of path and text is given.
 */
typedef struct punctual_declaration {
    /**
     * sizeof(punctual_declaration).
     */
    size_t size;
    /**
     * The path of a file in TOML, or of rt-app's JSON (.json); "-" reads standard input. At most 8
     * MiB.
     */
    const char *path;
    /**
     * The contract itself, in TOML, or rt-app's JSON if it begins with a brace. At most 8 MiB.
     */
    const char *text;
    /**
     * The costs of this host: the path of a file of `punctual calibrate`, or "ideal" for free
     * switches. Null: $PUNCTUAL_HOST_PROFILE, else what was measured here, else ideal.
     */
    const char *host_profile;
} punctual_declaration;

/**
 * The conditions of a run in virtual time. All zero but the size: ten seconds without draws.
 */
typedef struct punctual_simulation {
    /**
     * sizeof(punctual_simulation).
     */
    size_t size;
    /**
     * The virtual time after which nothing is released; 0: ten seconds.
     */
    uint64_t until_ns;
    /**
     * The seed of all draws, if seeded is not zero. The same seed gives the same run.
     */
    uint64_t seed;
    /**
     * Not zero: there is a seed.
     */
    uint32_t seeded;
    /**
     * A punctual_arrivals.
     */
    uint32_t arrivals;
    /**
     * A punctual_exec_times.
     */
    uint32_t exec_times;
    /**
     * Must be zero.
     */
    uint32_t reserved;
    /**
     * The cost of each switch to a job. If all three costs are 0, those of the host profile hold.
     */
    uint64_t switch_ns;
    /**
     * The cost of refilling the caches after a switch.
     */
    uint64_t cache_ns;
    /**
     * The cost of a release that finds the CPU idle.
     */
    uint64_t wake_up_ns;
} punctual_simulation;

/**
 * A program to run under a reservation of X every Y.
 */
typedef struct punctual_command {
    /**
     * sizeof(punctual_command).
     */
    size_t size;
    /**
     * The program, found by PATH if it has no slash, and its arguments, up to a null pointer.
     */
    const char *const *argv;
    /**
     * Its working directory; null: that of this process.
     */
    const char *directory;
    /**
     * The path of the socket of the broker, which is asked if this process has no privilege; null:
     * the default; "": none is asked.
     */
    const char *broker;
    /**
     * X: the processor time in each period.
     */
    uint64_t budget_ns;
    /**
     * Y: the period.
     */
    uint64_t period_ns;
    /**
     * Not zero: the program waits for its next period when its budget is used up. Zero: this host
     * chooses; by a server or a timetable the program goes on as an ordinary one.
     */
    uint32_t hard;
    /**
     * Must be zero.
     */
    uint32_t reserved;
} punctual_command;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of this library, such as "0.1.0". Must not be freed.
 */
const char *punctual_version(void);

/**
 * Returns the time in nanoseconds of CLOCK_MONOTONIC.
 */
uint64_t punctual_now(void);

/**
 * Returns the sentence of the last call of this thread that failed. It contains the numbers, in
 * UTF-8, without a newline or another control character; it is empty if no call failed. It is
 * valid until the next call of this thread that fails.
 */
const char *punctual_last_error(void);

/**
 * Returns the exit status that the `punctual` command would have for this error: 0 kept, 1 refused
 * or broken promise, 2 bad usage, 3 this host is not able to. For programs whose exit status
 * should match the command's.
 */
int punctual_exit_status(int error);

/**
 * Opens a handle for upcalls, without any yet. `options` may be null: real-time upcalls with all
 * defaults. A process may have several handles; each is admitted by itself.
 *
 * All functions with the handle may be called from any thread at any time, except that
 * punctual_free must be the last.
 */
enum punctual_error punctual_open(const struct punctual_options *options,
                                  struct punctual_upcalls **upcalls);

/**
 * Admits an upcall in addition to those created before, and writes its number to `id`: 0 for the
 * first. (`rts_creat`)
 *
 * Before punctual_run, its first release is the start given there, and `first_release_ns` must be
 * 0. After, it is `first_release_ns` (CLOCK_MONOTONIC), but not before now.
 *
 * Returns PUNCTUAL_EREFUSED if all upcalls together would not be in time. The sentence names the
 * test that failed, the shortfall, and changes, each of which would make it fit.
 */
enum punctual_error punctual_create(struct punctual_upcalls *upcalls,
                                    const struct punctual_contract *contract,
                                    const struct punctual_handler *handler,
                                    uint64_t first_release_ns,
                                    uint32_t *id);

/**
 * Adds a best-effort upcall, and writes its number to `id`. It runs when no real-time upcall of
 * the handle wants the CPU, as an ordinary thread of the host. For PUNCTUAL_UPCALLS with
 * containment, and PUNCTUAL_ORDINARY. Its contract cannot be changed.
 */
enum punctual_error punctual_create_best_effort(struct punctual_upcalls *upcalls,
                                                const struct punctual_best_effort *contract,
                                                const struct punctual_handler *handler,
                                                uint32_t *id);

/**
 * Starts all upcalls, each first released at `start_ns` (CLOCK_MONOTONIC), but not before now.
 * (`rts_run` for all; for a suspended one use punctual_resume.)
 *
 * Returns PUNCTUAL_EHOST if the threads do not get the scheduling classes they need, and
 * PUNCTUAL_EREFUSED if the kernel has no bandwidth left for the reservation. Then no upcall runs,
 * and the handle can only be freed.
 */
enum punctual_error punctual_run(struct punctual_upcalls *upcalls, uint64_t start_ns);

/**
 * Stops all upcalls at the next yield point and waits for it. For handlers that were contained it
 * waits up to two seconds more. `stopped` may be null. Statistics, events and notices stay until
 * the handle is freed.
 *
 * Returns PUNCTUAL_EHOST if the kernel had taken the scheduling class away while they ran; they
 * are stopped all the same. Returns PUNCTUAL_EDEADLK from inside a notice.
 */
enum punctual_error punctual_stop(struct punctual_upcalls *upcalls,
                                  struct punctual_stopped *stopped);

/**
 * Stops the upcalls if they run, and frees the handle, which must not be used again. Does nothing
 * for a null pointer.
 *
 * Returns the errors of punctual_stop; the handle is freed all the same, except after
 * PUNCTUAL_EDEADLK. To learn whether handlers are stuck, stop first.
 */
enum punctual_error punctual_free(struct punctual_upcalls *upcalls);

/**
 * Stops the releases of an upcall until punctual_resume. Jobs that were released and are not
 * complete are dropped. The upcall stays admitted. (`rts_suspend`)
 *
 * This call, like every other request, waits for the end of the current turn.
 */
enum punctual_error punctual_suspend(struct punctual_upcalls *upcalls, uint32_t id);

/**
 * Releases an upcall again that was suspended or returned PUNCTUAL_DONE, from the next instant of
 * its old phase on. (`rts_run`)
 */
enum punctual_error punctual_resume(struct punctual_upcalls *upcalls, uint32_t id);

/**
 * Changes the contract of an upcall while it runs, if all promises hold with the new one;
 * otherwise nothing changes. With the same period the phase stays. With another, its first release
 * is at the end of the current one.
 */
enum punctual_error punctual_change(struct punctual_upcalls *upcalls,
                                    uint32_t id,
                                    const struct punctual_contract *contract);

/**
 * Closes an upcall: jobs that were released and are not complete are dropped, its handler is
 * called no more, and its number is never used again. (`rts_close`) Its statistics stay until
 * punctual_forget.
 *
 * Returns PUNCTUAL_ESTUCK if its handler has not returned: the upcall is closed, but its argument
 * must be left alone.
 */
enum punctual_error punctual_close(struct punctual_upcalls *upcalls, uint32_t id);

/**
 * Waits until at least one of these upcalls is not active (suspended, done, contained or closed),
 * for at most `timeout_ns`; UINT64_MAX waits for ever, 0 does not wait. (`rts_sleep`)
 *
 * `waited` has `count` members, at least one. The program sets the `id` of each, and the call sets
 * the `activity` of each, also when it returns PUNCTUAL_ETIMEDOUT because all are active.
 * `inactive` receives the number of those that are not active, and may be null. Several threads
 * may wait.
 *
 * Returns PUNCTUAL_EENDED if they are being stopped, or the kernel took the scheduling class away.
 */
enum punctual_error punctual_wait(struct punctual_upcalls *upcalls,
                                  struct punctual_waited *waited,
                                  size_t count,
                                  uint64_t timeout_ns,
                                  size_t *inactive);

/**
 * Writes the activity of an upcall, a punctual_activity. An unknown upcall counts as closed.
 */
enum punctual_error punctual_activity_of(struct punctual_upcalls *upcalls,
                                         uint32_t id,
                                         uint32_t *activity);

/**
 * Takes the oldest notices, at most `capacity` of them, and writes their number to `count`. None
 * wait if there is a function for them (punctual_options.on_notice). `lost`, which may be null,
 * receives the number lost since the last call because 4096 waited already.
 */
enum punctual_error punctual_notices(struct punctual_upcalls *upcalls,
                                     struct punctual_notice *notices,
                                     size_t capacity,
                                     size_t *count,
                                     uint64_t *lost);

/**
 * Takes the oldest events, at most `capacity` of them, and writes their number to `count`. `lost`,
 * which may be null, receives the number lost since the last call because 65536 waited already;
 * statistics include those.
 */
enum punctual_error punctual_drain(struct punctual_upcalls *upcalls,
                                   struct punctual_event *events,
                                   size_t capacity,
                                   size_t *count,
                                   uint64_t *lost);

/**
 * Writes the statistics of an upcall so far. They are available after it was closed, until
 * punctual_forget.
 */
enum punctual_error punctual_get_stats(struct punctual_upcalls *upcalls,
                                       uint32_t id,
                                       struct punctual_stats *stats);

/**
 * Frees the statistics of a closed upcall (half a megabyte); punctual_get_stats then returns
 * PUNCTUAL_ENOENT. Without this call they stay until punctual_free, so a program that goes on
 * creating and closing upcalls should call it for each. Events that wait for punctual_drain stay.
 *
 * Returns PUNCTUAL_EINVAL if the upcall is not closed, PUNCTUAL_ESTUCK if it is contained and was
 * not closed, and PUNCTUAL_ENOENT if there never was such an upcall, or it was forgotten already.
 */
enum punctual_error punctual_forget(struct punctual_upcalls *upcalls, uint32_t id);

/**
 * Finds out what this host can do (which takes some milliseconds), and starts a small guard
 * process that cleans up if this process is killed. `options` may be null.
 */
enum punctual_error punctual_reservations_open(const struct punctual_reservation_options *options,
                                               struct punctual_reservations **reservations);

/**
 * Frees the handle. Reservations and time constraints stand until they are released or ended. Does
 * nothing for a null pointer.
 */
enum punctual_error punctual_reservations_free(struct punctual_reservations *reservations);

/**
 * Reserves for the calling thread: by SCHED_DEADLINE if that can do what is requested, else by
 * timetable. Returns PUNCTUAL_EREFUSED, with a counter-offer in the sentence, if it does not fit.
 */
enum punctual_error punctual_reserve_thread(struct punctual_reservations *reservations,
                                            const struct punctual_reserve *reserve,
                                            struct punctual_reservation **reservation);

/**
 * Reserves by timetable for a process that already runs, with all threads and children that it has
 * or will create. It runs on one CPU only as long as the reservation stands. Returns
 * PUNCTUAL_EREFUSED, with a counter-offer in the sentence, if it does not fit.
 */
enum punctual_error punctual_reserve_process(struct punctual_reservations *reservations,
                                             int32_t pid,
                                             const struct punctual_reserve *reserve,
                                             struct punctual_reservation **reservation);

/**
 * Writes the state of a reservation to `info`: the time used and left, and the back end.
 */
enum punctual_error punctual_reservation_get(struct punctual_reservation *reservation,
                                             struct punctual_reservation_info *info);

/**
 * Returns the reason for the reservation's back end, in words. It is valid until the reservation
 * is released. Returns null for null.
 */
const char *punctual_reservation_because(struct punctual_reservation *reservation);

/**
 * Sleeps until the next period of the calling thread's reservation begins, on a grid that does not
 * drift. Writes the beginning of the period to `start_ns`, which may be null.
 */
enum punctual_error punctual_reservation_next(struct punctual_reservation *reservation,
                                              uint64_t *start_ns);

/**
 * Changes the budget and the period of a reservation. If the change is refused, the reservation
 * stays as it is. May wait for some periods.
 */
enum punctual_error punctual_reservation_change(struct punctual_reservation *reservation,
                                                uint64_t budget_ns,
                                                uint64_t period_ns);

/**
 * Releases a reservation: its owner becomes an ordinary thread or process again. The handle must
 * not be used again, unless the call was refused because the reservation is another thread's. Does
 * nothing for a null pointer.
 */
enum punctual_error punctual_reservation_release(struct punctual_reservation *reservation);

/**
 * Requests a time constraint: `estimate_ns` of processor time for the calling thread between
 * `start_ns` and `deadline_ns` (CLOCK_MONOTONIC, or now if that is later), in addition to all that
 * is reserved and was accepted before. Call it before the work begins. The thread stays on one CPU
 * until the constraint ends.
 *
 * Returns PUNCTUAL_EREFUSED, with the largest estimate that would fit and the earliest deadline in
 * the sentence, if it is refused.
 */
enum punctual_error punctual_constraint_begin(struct punctual_reservations *reservations,
                                              uint64_t start_ns,
                                              uint64_t estimate_ns,
                                              uint64_t deadline_ns,
                                              struct punctual_constraint **constraint);

/**
 * Ends a time constraint and frees it. The rest of its time becomes available to others. `used`
 * may be null.
 */
enum punctual_error punctual_constraint_end(struct punctual_constraint *constraint,
                                            struct punctual_used *used);

/**
 * Requests a channel from the broker. Returns PUNCTUAL_EREFUSED, with a counter-offer in the
 * sentence, if it is not admitted, and PUNCTUAL_EHOST if no broker answers.
 */
enum punctual_error punctual_channel_open(const struct punctual_channel_request *request,
                                          struct punctual_channel **channel);

/**
 * Rejoins the channel after PUNCTUAL_EGONE: connects to the next broker and continues there, with
 * everything that was in the queue. Returns PUNCTUAL_EHOST while there is no broker; then try
 * again within the broker's grace period. Returns PUNCTUAL_EENDED if the broker has revoked the
 * channel.
 */
enum punctual_error punctual_channel_rejoin(struct punctual_channel *channel);

/**
 * Writes the state of a channel to `info`.
 */
enum punctual_error punctual_channel_get(struct punctual_channel *channel,
                                         struct punctual_channel_info *info);

/**
 * Gives a channel back to the broker, and frees it in any case. Messages that were sent and have
 * not left are lost; call `punctual_channel_drain` before to avoid that. Does nothing for a null
 * pointer.
 */
enum punctual_error punctual_channel_close(struct punctual_channel *channel);

/**
 * Sends a copy of `length` bytes. Waits for room, for at most `timeout_ns` (UINT64_MAX: without a
 * limit). Returns PUNCTUAL_ETIMEDOUT if there was none in time, and PUNCTUAL_EGONE if the server
 * is gone (`punctual_channel_rejoin`). If an error is returned, the message was not sent.
 */
enum punctual_error punctual_channel_send(struct punctual_channel *channel,
                                          const void *bytes,
                                          size_t length,
                                          uint64_t timeout_ns);

/**
 * Sends a message if there is room. Returns PUNCTUAL_EAGAIN if there is none.
 */
enum punctual_error punctual_channel_try_send(struct punctual_channel *channel,
                                              const void *bytes,
                                              size_t length);

/**
 * Waits until all messages that were sent have left, for at most `timeout_ns`.
 */
enum punctual_error punctual_channel_drain(struct punctual_channel *channel, uint64_t timeout_ns);

/**
 * Copies the next message to `into`, which has room for `length` bytes. Waits for a message, for
 * at most `timeout_ns` (UINT64_MAX: without a limit). If the message is longer than `length`,
 * returns PUNCTUAL_EINVAL, but writes `received`, and the message stays the next one. Returns
 * PUNCTUAL_EGONE if the server is gone and no message is left.
 */
enum punctual_error punctual_channel_receive(struct punctual_channel *channel,
                                             void *into,
                                             size_t length,
                                             uint64_t timeout_ns,
                                             struct punctual_received *received);

/**
 * Copies the next message if there is one. Returns PUNCTUAL_EAGAIN if there is none.
 */
enum punctual_error punctual_channel_try_receive(struct punctual_channel *channel,
                                                 void *into,
                                                 size_t length,
                                                 struct punctual_received *received);

/**
 * Writes the file descriptor to poll for reading, between `punctual_channel_before_poll` and
 * `punctual_channel_after_poll`. It changes with `punctual_channel_rejoin`.
 */
enum punctual_error punctual_channel_fd(struct punctual_channel *channel, int *fd);

/**
 * Announces that the program is going to poll. Sets `work` to a value other than 0 if there is
 * already room, or a message; then do not sleep. Without this call the server does not wake the
 * program.
 */
enum punctual_error punctual_channel_before_poll(struct punctual_channel *channel, uint32_t *work);

/**
 * Announces that the program has polled, with any result. Afterwards send or receive until
 * PUNCTUAL_EAGAIN.
 */
enum punctual_error punctual_channel_after_poll(struct punctual_channel *channel);

/**
 * Returns the exit code that the command would have: a punctual_verdict, or for a program its own
 * exit code, 128 + the signal if one killed it. Returns -1 for null.
 */
int punctual_result_code(const struct punctual_result *result);

/**
 * Returns the result as JSON in UTF-8, with the keys that the command prints with --json. It is
 * valid until the result is freed. Returns null for null.
 */
const char *punctual_result_json(const struct punctual_result *result);

/**
 * Frees a result. Does nothing for a null pointer.
 */
enum punctual_error punctual_result_free(struct punctual_result *result);

/**
 * Tests whether a contract fits on a host, like `punctual admit`. Nothing is reserved. If `explain`
 * is not zero, the result says how streams were derived and how far each number could grow, which
 * takes several times as long. The code of the result is PUNCTUAL_KEPT if the contract is
 * admitted. It is PUNCTUAL_BROKEN if it is refused; the result then has the failed test, the
 * numbers and counter-offers. Returns PUNCTUAL_EINVAL, with file, line and column in the sentence,
 * if the contract is not valid.
 */
enum punctual_error punctual_admit(const struct punctual_declaration *declaration,
                                   uint32_t explain,
                                   struct punctual_result **result);

/**
 * Runs a contract under its own policy in virtual time, like `punctual simulate`. `simulation` may
 * be null. The code of the result is PUNCTUAL_KEPT if the contract is admitted and nothing with a
 * promise was late, else PUNCTUAL_BROKEN. A refused contract runs all the same if it can, on one
 * CPU; if not, the call returns PUNCTUAL_EREFUSED. Returns PUNCTUAL_EINVAL, with file, line and
 * column in the sentence, if the contract is not valid, and also if the run would take too long.
 */
enum punctual_error punctual_simulate(const struct punctual_declaration *declaration,
                                      const struct punctual_simulation *simulation,
                                      struct punctual_result **result);

/**
 * Judges the trace file at `trace` (docs/trace.md), like `punctual why FILE`. The JSON is a line
 * for each late job with its causes, and a last one with the verdict on each subject. The code of
 * the result is PUNCTUAL_KEPT if no promise was broken, PUNCTUAL_BROKEN if one was, and
 * PUNCTUAL_NOT_JUDGEABLE if something is missing in the file. Returns PUNCTUAL_EINVAL if the file
 * cannot be read or is no trace.
 */
enum punctual_error punctual_why(const char *trace, struct punctual_result **result);

/**
 * Tries out which promises this host can keep, like `punctual doctor`, which takes a second or
 * two and all free real-time bandwidth for some milliseconds of it. XDP is tried on the network
 * interface `interface` too, which some drivers reset for that; null: on none. The code of the
 * result is PUNCTUAL_KEPT if this host can keep promises, else PUNCTUAL_UNABLE.
 */
enum punctual_error punctual_doctor(const char *interface, struct punctual_result **result);

/**
 * Starts a program under a reservation, like `punctual run --reserve`: by a server or a timetable,
 * with all that the program starts, or else by SCHED_DEADLINE, its first thread alone. With the
 * first two the memory of this process is locked while the program runs, if it may be. The program is killed
 * when this process ends. Returns PUNCTUAL_EREFUSED, with a counter-offer in the sentence, if the
 * reservation does not fit, PUNCTUAL_EINVAL if the program cannot be executed, and PUNCTUAL_EHOST
 * if nothing here can hold it.
 */
enum punctual_error punctual_program_start(const struct punctual_command *command,
                                           struct punctual_program **program);

/**
 * Writes the id of the program's first process to `pid`. The kernel may give the id to another
 * process once the program has ended; punctual_program_signal never reaches another one.
 */
enum punctual_error punctual_program_pid(struct punctual_program *program, int32_t *pid);

/**
 * Sends a signal (signal(7)) to the program's first process. Returns PUNCTUAL_ENOENT if it has
 * ended, and PUNCTUAL_EHOST if it runs as another user.
 */
enum punctual_error punctual_program_signal(struct punctual_program *program, int signal);

/**
 * Waits for the end of the program, for at most `timeout_ns` (UINT64_MAX: without a limit), and
 * writes its result: the code is its exit code, and the JSON its account, as `punctual run --json`
 * prints it. May be called again, for another result. Returns PUNCTUAL_ETIMEDOUT if the program
 * still runs.
 */
enum punctual_error punctual_program_wait(struct punctual_program *program,
                                          uint64_t timeout_ns,
                                          struct punctual_result **result);

/**
 * Kills the program if it has not ended (SIGKILL, to its first process), waits for its end, and
 * frees the handle. Processes that it leaves behind go on as ordinary ones. Does nothing for a
 * null pointer.
 */
enum punctual_error punctual_program_free(struct punctual_program *program);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PUNCTUAL_H */
