/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Records the kernel's events that explain late jobs: switches and wake-ups of threads, hard
 * interrupts, softirqs, timers, page faults, system calls, signals that stop. Each is one record in a
 * ring buffer that is read a few times a second; a record wakes no reader.
 *
 * Of the kernel's structures only the fields named here are used. libbpf finds their offsets when
 * it loads this (BTF).
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define FOLLOWED __attribute__((preserve_access_index))

struct cgroup {
	int level;
	struct cgroup_root *root;
} FOLLOWED;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} FOLLOWED;

/* A group of the scheduler: a control group that has the controller. */
struct task_group {
	struct cgroup_subsys_state css;
} FOLLOWED;

/* The control groups of a thread; this one is of version 2. */
struct css_set {
	struct cgroup *dfl_cgrp;
} FOLLOWED;

struct cfs_rq {
	int throttled;
	int throttle_count;
	struct task_group *tg;
} FOLLOWED;

struct sched_entity {
	u64 sum_exec_runtime;
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq;
} FOLLOWED;

/* The first word holds the signals 1 to 32, or 64. */
struct sigpending {
	struct {
		unsigned long sig[1];
	} signal;
} FOLLOWED;

struct signal_struct {
	struct sigpending shared_pending;
} FOLLOWED;

struct task_struct {
	unsigned int __state;
	int pid;
	int tgid;
	int prio;
	char comm[16];
	struct sched_entity se;
	unsigned long jobctl;
	unsigned int frozen : 1;
	struct signal_struct *signal;
	struct sigpending pending;
	struct css_set *cgroups;
} FOLLOWED;

/* Since Linux 6.18 a group's quota throttles each thread by itself. */
struct task_struct___throttled {
	_Bool throttled;
} FOLLOWED;

struct hrtimer_clock_base {
	int clockid;
} FOLLOWED;

struct hrtimer {
	s64 _softexpires;
	void *function;
	struct hrtimer_clock_base *base;
} FOLLOWED;

/* The timer of a thread that sleeps. */
struct hrtimer_sleeper {
	struct hrtimer timer;
	struct task_struct *task;
} FOLLOWED;

/* The function of such a timer. */
extern const void hrtimer_wakeup __ksym __weak;

/* The registers at the entry of a system call, by architecture. */
struct pt_regs___x86 {
	unsigned long orig_ax;
	unsigned long di;
	unsigned long si;
	unsigned long sp;
} FOLLOWED;

struct pt_regs___arm64 {
	u64 regs[31];
	u64 sp;
	u64 orig_x0;
	s32 syscallno;
} FOLLOWED;

/* The kinds of records; crates/observe/src/record.rs decodes them. */
enum kind {
	SWITCH = 1,
	WAKING = 2,
	MOVES = 3,
	LINE = 4,
	LOCAL_TIMER = 5,
	FROM_CPU = 6,
	SOFTIRQ = 7,
	FAULT = 8,
	TIMER_DUE = 9,
	GAP = 10,
	SYSTEM_CALL = 11,
	STOP_SIGNAL = 12,
	QUEUED_THROTTLED = 13,
};

struct head {
	u64 at;
	u16 cpu;
	u8 kind;
	u8 flag;
	u32 number;
	u64 value;
};

struct thread {
	u32 tid;
	s32 prio;
	char comm[16];
};

/* What tells one wait of a program from another: the first two arguments of the system call, and the
 * program's stack pointer. */
struct place {
	u64 first;
	u32 second;
	u32 stack;
};

struct switched {
	struct head head;
	struct thread prev;
	struct thread next;
	u64 next_exec_ns;
	struct place place;
};

struct woken {
	struct head head;
	struct thread waker;
};

#define NOBODY 0xffffffffu
#define NO_SYSCALL 0xffffffffu
/* How a thread left its CPU. */
#define PREEMPTED 0
#define ASLEEP 1
#define UNINTERRUPTIBLE 2
#define STOPPED 4
#define TRACED 8
#define FROZEN 16
#define THROTTLED 32
/* How a thread is woken: out of a frozen sleep, or only to be stopped or frozen. */
#define WAS_FROZEN 1
#define TO_STOP 2
/* TASK_UNINTERRUPTIBLE, __TASK_STOPPED, __TASK_TRACED and TASK_FROZEN, linux/sched.h. */
#define STATE_UNINTERRUPTIBLE 2
#define STATE_STOPPED 4
#define STATE_TRACED 8
#define STATE_FROZEN 0x8000
/* JOBCTL_STOP_PENDING and JOBCTL_TRAP_FREEZE, linux/sched/jobctl.h. */
#define STOP_PENDING (1ul << 17)
#define TRAP_FREEZE (1ul << 23)
/* SIGSTOP, and SIGTSTP, SIGTTIN, SIGTTOU; a program may handle the latter. */
#define SIGNAL_STOP 19
#define LAST_STOP 22
/* The priorities of ordinary threads begin here (MAX_RT_PRIO). */
#define ORDINARY 100
/* Groups of the scheduler above a thread whose quotas are looked at. */
#define DEEPEST 32
/* Which group's quota is used up is not known. */
#define NO_LEVEL 0xff

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} records SEC(".maps");

/* A watched thread: the starts of its present page fault and system call, or 0, and the time of
 * unreported ones. */
struct watched {
	u64 fault_begun;
	u64 faults_ns;
	u64 call_begun;
	u64 calls_ns;
	/* The number of the present system call. */
	u32 call;
	/* The number of the unreported ones; NO_SYSCALL if they differ. */
	u32 calls;
	/* The thread left its CPU in the present system call. */
	u32 has_left;
	/* What a fault and a system call take beyond the time between their programs: the way into the
	 * kernel and back, and the programs. The reader measures it. */
	u32 fault_beyond_ns;
	u32 call_beyond_ns;
	u32 spare;
};

/* The time that is reported in one record: faults and system calls come by the thousand. */
#define WORTH_TELLING_NS 50000

/* Threads whose page faults and system calls are recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct watched);
} watched SEC(".maps");

/* The state of one CPU, in a cache line of its own. */
struct of_cpu {
	/* Interrupts and softirqs that have begun and not ended. */
	s32 depth;
	/* Records lost since the last one that could be written. */
	u32 missing;
	/* All records that could not be written. */
	u64 lost;
	u64 written;
	u64 spare[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct of_cpu);
} cpus SEC(".maps");

static __always_inline struct of_cpu *here(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline void fill(struct head *head, u8 kind, u8 flag, u32 number, u64 value)
{
	head->at = bpf_ktime_get_ns();
	head->cpu = bpf_get_smp_processor_id();
	head->kind = kind;
	head->flag = flag;
	head->number = number;
	head->value = value;
}

/* Reserves a record; after a loss, writes a record of the loss first. */
static __always_inline void *room(struct of_cpu *cpu, u64 bytes)
{
	void *record;

	if (cpu->missing) {
		struct head *gap = bpf_ringbuf_reserve(&records, sizeof(*gap), 0);

		if (!gap) {
			cpu->missing++;
			cpu->lost++;
			return 0;
		}
		fill(gap, GAP, 0, cpu->missing, 0);
		bpf_ringbuf_submit(gap, BPF_RB_NO_WAKEUP);
		cpu->missing = 0;
	}
	record = bpf_ringbuf_reserve(&records, bytes, 0);
	if (record) {
		cpu->written++;
	} else {
		cpu->missing++;
		cpu->lost++;
	}
	return record;
}

static __always_inline void tell(struct of_cpu *cpu, u8 kind, u8 flag, u32 number, u64 value)
{
	struct head *head = room(cpu, sizeof(*head));

	if (!head)
		return;
	fill(head, kind, flag, number, value);
	bpf_ringbuf_submit(head, BPF_RB_NO_WAKEUP);
}

static __always_inline void name(struct thread *to, struct task_struct *task)
{
	to->tid = task->pid;
	to->prio = task->prio;
	bpf_core_read(to->comm, sizeof(to->comm), &task->comm);
}

static __always_inline u32 syscall_of(struct task_struct *task)
{
	struct pt_regs *at = (struct pt_regs *)bpf_task_pt_regs(task);
	struct pt_regs___x86 *x86 = (void *)at;
	struct pt_regs___arm64 *arm64 = (void *)at;
	s64 number = -1;

	if (bpf_core_field_exists(x86->orig_ax))
		number = (s64)BPF_CORE_READ(x86, orig_ax);
	else if (bpf_core_field_exists(arm64->syscallno))
		number = BPF_CORE_READ(arm64, syscallno);
	return number < 0 || number > 0xffff ? NO_SYSCALL : (u32)number;
}

static __always_inline void place_of(struct place *place, struct task_struct *task)
{
	struct pt_regs *at = (struct pt_regs *)bpf_task_pt_regs(task);
	struct pt_regs___x86 *x86 = (void *)at;
	struct pt_regs___arm64 *arm64 = (void *)at;

	if (bpf_core_field_exists(x86->orig_ax)) {
		place->first = BPF_CORE_READ(x86, di);
		place->second = BPF_CORE_READ(x86, si);
		place->stack = BPF_CORE_READ(x86, sp);
	} else if (bpf_core_field_exists(arm64->syscallno)) {
		place->first = BPF_CORE_READ(arm64, orig_x0);
		place->second = BPF_CORE_READ(arm64, regs[1]);
		place->stack = BPF_CORE_READ(arm64, sp);
	}
}

/* Tells of a system call of a watched thread that ends or is left now: by itself if it took long or
 * the thread left its CPU in it, else together with other short ones. A time that is told by itself
 * ends now; flag is 1 then. */
static __always_inline void call_ends(struct of_cpu *cpu, struct watched *thread, u32 tid)
{
	u64 took = bpf_ktime_get_ns() - thread->call_begun;

	if (thread->has_left || took >= WORTH_TELLING_NS) {
		tell(cpu, SYSTEM_CALL, 1, tid, took << 16 | (thread->call & 0xffff));
		return;
	}
	if (!thread->calls_ns)
		thread->calls = thread->call;
	else if (thread->calls != thread->call)
		thread->calls = NO_SYSCALL;
	thread->calls_ns += took + thread->call_beyond_ns;
	if (thread->calls_ns >= WORTH_TELLING_NS) {
		tell(cpu, SYSTEM_CALL, 0, tid, thread->calls_ns << 16 | (thread->calls & 0xffff));
		thread->calls_ns = 0;
	}
}

/* The number of control groups from a thread's own, 0, up to the one whose quota is used up. The
 * scheduler has no group for a control group of version 2 without the controller: its threads are
 * in the next group above that has it. So the control groups are counted, not the scheduler's. */
static __always_inline u32 level_of_quota(struct task_struct *task)
{
	struct sched_entity *entity = &task->se;
	struct cgroup *own, *group;
	int level;
	u32 up;

	for (up = 0; up < DEEPEST; up++) {
		struct cfs_rq *queue = BPF_CORE_READ(entity, cfs_rq);

		if (queue && BPF_CORE_READ_BITFIELD_PROBED(queue, throttled)) {
			group = BPF_CORE_READ(queue, tg, css.cgroup);
			own = BPF_CORE_READ(task, cgroups, dfl_cgrp);
			/* In version 1 each group has the controller. */
			if (BPF_CORE_READ(group, root) != BPF_CORE_READ(own, root))
				own = BPF_CORE_READ(task, se.cfs_rq, tg, css.cgroup);
			level = BPF_CORE_READ(own, level) - BPF_CORE_READ(group, level);
			return level < 0 || level > NO_LEVEL ? NO_LEVEL : level;
		}
		entity = BPF_CORE_READ(entity, parent);
		if (!entity)
			break;
	}
	return NO_LEVEL;
}

static __always_inline int is_throttled(struct task_struct *task)
{
	struct task_struct___throttled *one = (void *)task;

	if (task->prio < ORDINARY || !bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(task->se.cfs_rq->throttled))
		return 0;
	if (bpf_core_field_exists(one->throttled))
		return BPF_CORE_READ(one, throttled);
	return BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switches, int preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct of_cpu *cpu = here();
	struct switched *record;
	struct watched *thread;
	u8 left = PREEMPTED;
	u32 call = NO_SYSCALL;
	u32 tid = prev->pid;

	if (!cpu)
		return 0;
	/* No switch happens in an interrupt, so entries without a seen exit are dropped. */
	cpu->depth = 0;
	if (preempt || !prev_state) {
		if (is_throttled(prev)) {
			left = THROTTLED;
			call = level_of_quota(prev);
		}
	} else if (prev_state & STATE_STOPPED) {
		left = STOPPED;
		call = prev->tgid;
	} else if (prev_state & STATE_TRACED) {
		left = TRACED;
	} else if (prev_state & STATE_FROZEN || BPF_CORE_READ_BITFIELD(prev, frozen)) {
		left = FROZEN;
	} else {
		left = ASLEEP | (prev_state & STATE_UNINTERRUPTIBLE ? UNINTERRUPTIBLE : 0);
		call = syscall_of(prev);
	}
	thread = bpf_map_lookup_elem(&watched, &tid);
	if (thread && thread->call_begun) {
		call_ends(cpu, thread, tid);
		thread->call_begun = bpf_ktime_get_ns();
		thread->has_left = 1;
	}
	record = room(cpu, sizeof(*record));
	if (!record)
		return 0;
	fill(&record->head, SWITCH, left, call, prev->se.sum_exec_runtime);
	name(&record->prev, prev);
	name(&record->next, next);
	record->next_exec_ns = next->se.sum_exec_runtime;
	__builtin_memset(&record->place, 0, sizeof(record->place));
	if (call != NO_SYSCALL)
		place_of(&record->place, prev);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Whether a signal to stop or the freezer wakes a thread. */
static __always_inline int is_to_stop(struct task_struct *task)
{
	unsigned long pending;

	if (task->jobctl & (STOP_PENDING | TRAP_FREEZE))
		return 1;
	pending = task->pending.signal.sig[0] | task->signal->shared_pending.signal.sig[0];
	return pending >> (SIGNAL_STOP - 1) & 1;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(wakes, struct task_struct *task)
{
	struct of_cpu *cpu = here();
	struct woken *record;
	u8 how = 0;

	if (!cpu)
		return 0;
	record = room(cpu, sizeof(*record));
	if (!record)
		return 0;
	if (task->__state & STATE_FROZEN)
		how = WAS_FROZEN;
	else if (is_to_stop(task))
		how = TO_STOP;
	fill(&record->head, WAKING, how, task->pid, 0);
	if (cpu->depth > 0) {
		record->waker.tid = NOBODY;
		record->waker.prio = 0;
		__builtin_memset(record->waker.comm, 0, sizeof(record->waker.comm));
	} else {
		name(&record->waker, bpf_get_current_task_btf());
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Before Linux 6.18 a quota throttles whole queues, and a thread may be woken onto such a queue.
 * Later kernels let it run until it leaves the kernel, and then throttle it by itself. */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(is_queued, struct task_struct *task)
{
	struct task_struct___throttled *one = (void *)task;
	struct of_cpu *cpu = here();
	u32 tid;

	if (!cpu || bpf_core_field_exists(one->throttled) || !is_throttled(task))
		return 0;
	tid = task->pid;
	if (bpf_map_lookup_elem(&watched, &tid))
		tell(cpu, QUEUED_THROTTLED, 0, tid, level_of_quota(task));
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(moves, struct task_struct *task, int to)
{
	struct of_cpu *cpu = here();

	if (cpu)
		tell(cpu, MOVES, 0, task->pid, to);
	return 0;
}

static __always_inline void above(u8 kind, u8 enter, u32 number)
{
	struct of_cpu *cpu = here();

	if (!cpu)
		return;
	if (enter)
		cpu->depth++;
	else if (cpu->depth > 0)
		cpu->depth--;
	tell(cpu, kind, enter, number, 0);
}

#define PAIR(tracepoint, kind)                                                                     \
	SEC("tp_btf/" #tracepoint "_entry")                                                        \
	int BPF_PROG(tracepoint##_begins, u32 number)                                              \
	{                                                                                          \
		above(kind, 1, number);                                                            \
		return 0;                                                                          \
	}                                                                                          \
	SEC("tp_btf/" #tracepoint "_exit")                                                         \
	int BPF_PROG(tracepoint##_ends, u32 number)                                                \
	{                                                                                          \
		above(kind, 0, number);                                                            \
		return 0;                                                                          \
	}

PAIR(irq_handler, LINE)
PAIR(softirq, SOFTIRQ)
PAIR(local_timer, LOCAL_TIMER)
PAIR(reschedule, FROM_CPU)
PAIR(call_function, FROM_CPU)
PAIR(call_function_single, FROM_CPU)

/* A timer of CLOCK_MONOTONIC (1) is late by the time since its due time. The number is that of the
 * thread that sleeps for it, or 0 if that is not known. */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(expires, struct hrtimer *timer)
{
	struct hrtimer_sleeper *sleeper = (void *)timer;
	struct of_cpu *cpu = here();
	u32 tid = 0;

	if (!cpu || timer->base->clockid != 1)
		return 0;
	if (&hrtimer_wakeup && BPF_CORE_READ(timer, function) == &hrtimer_wakeup)
		tid = BPF_CORE_READ(sleeper, task, pid);
	tell(cpu, TIMER_DUE, 0, tid, timer->_softexpires);
	return 0;
}

/* The signal comes from the present thread, or from an interrupt above it. */
SEC("tp_btf/signal_generate")
int BPF_PROG(signalled, int signal, void *info, struct task_struct *task)
{
	struct of_cpu *cpu = here();
	struct woken *record;

	if (!cpu || signal < SIGNAL_STOP || signal > LAST_STOP)
		return 0;
	record = room(cpu, sizeof(*record));
	if (!record)
		return 0;
	fill(&record->head, STOP_SIGNAL, 0, task->tgid, 0);
	name(&record->waker, bpf_get_current_task_btf());
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline struct watched *mine(u32 *tid)
{
	*tid = (u32)bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&watched, tid);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(call_begins, void *registers, long number)
{
	u32 tid;
	struct watched *thread = mine(&tid);

	if (thread) {
		thread->call = number;
		thread->has_left = 0;
		thread->call_begun = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call_is_over)
{
	struct of_cpu *cpu = here();
	u32 tid;
	struct watched *thread = mine(&tid);

	if (!cpu || !thread || !thread->call_begun)
		return 0;
	call_ends(cpu, thread, tid);
	thread->call_begun = 0;
	return 0;
}

static __always_inline int fault_begins(void)
{
	u32 tid;
	struct watched *thread = mine(&tid);

	if (thread)
		thread->fault_begun = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(program_faults)
{
	return fault_begins();
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(kernel_faults)
{
	return fault_begins();
}

/* Runs on a thread's software events PERF_COUNT_SW_PAGE_FAULTS_MIN and _MAJ, which count a fault
 * when the page is in place. */
SEC("perf_event")
int fault_ends(void *ctx)
{
	struct of_cpu *cpu = here();
	u32 tid;
	struct watched *thread = mine(&tid);

	if (!cpu || !thread || !thread->fault_begun)
		return 0;
	thread->faults_ns += bpf_ktime_get_ns() - thread->fault_begun + thread->fault_beyond_ns;
	thread->fault_begun = 0;
	if (thread->faults_ns >= WORTH_TELLING_NS) {
		tell(cpu, FAULT, 0, tid, thread->faults_ns);
		thread->faults_ns = 0;
	}
	return 0;
}

/* Some functions used here are for GPL programs only. All of this is also licensed under MIT. */
char terms[] SEC("license") = "Dual MIT/GPL";
