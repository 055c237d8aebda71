/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Records the kernel's events that explain late jobs: switches and wake-ups of threads, hard
 * interrupts, softirqs, timers, page faults. Each is one record in a ring buffer that is read a few
 * times a second; a record wakes no reader.
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

struct sched_entity {
	u64 sum_exec_runtime;
} FOLLOWED;

struct task_struct {
	int pid;
	int prio;
	char comm[16];
	struct sched_entity se;
} FOLLOWED;

struct hrtimer_clock_base {
	int clockid;
} FOLLOWED;

struct hrtimer {
	s64 _softexpires;
	struct hrtimer_clock_base *base;
} FOLLOWED;

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
#define PREEMPTED 0
#define ASLEEP 1
#define UNINTERRUPTIBLE 2
/* TASK_UNINTERRUPTIBLE, linux/sched.h. */
#define STATE_UNINTERRUPTIBLE 2

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} records SEC(".maps");

/* The page faults of a thread: the start of the present one, and the time of unreported ones. */
struct faults {
	u64 begun;
	u64 took_ns;
};

/* The time that is reported in one record: faults come by the thousand. */
#define WORTH_TELLING_NS 50000

/* Threads whose page faults are recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct faults);
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

SEC("tp_btf/sched_switch")
int BPF_PROG(switches, int preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct of_cpu *cpu = here();
	struct switched *record;
	u8 left = PREEMPTED;
	u32 call = NO_SYSCALL;

	if (!cpu)
		return 0;
	/* No switch happens in an interrupt, so entries without a seen exit are dropped. */
	cpu->depth = 0;
	if (!preempt && prev_state) {
		left = ASLEEP | (prev_state & STATE_UNINTERRUPTIBLE ? UNINTERRUPTIBLE : 0);
		call = syscall_of(prev);
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

SEC("tp_btf/sched_waking")
int BPF_PROG(wakes, struct task_struct *task)
{
	struct of_cpu *cpu = here();
	struct woken *record;

	if (!cpu)
		return 0;
	record = room(cpu, sizeof(*record));
	if (!record)
		return 0;
	fill(&record->head, WAKING, 0, task->pid, 0);
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

/* A timer of CLOCK_MONOTONIC (1) is late by the time since its due time. */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(expires, struct hrtimer *timer)
{
	struct of_cpu *cpu = here();

	if (cpu && timer->base->clockid == 1)
		tell(cpu, TIMER_DUE, 0, 0, timer->_softexpires);
	return 0;
}

static __always_inline struct faults *mine(u32 *tid)
{
	*tid = (u32)bpf_get_current_pid_tgid();
	return bpf_map_lookup_elem(&watched, tid);
}

static __always_inline int fault_begins(void)
{
	u32 tid;
	struct faults *faults = mine(&tid);

	if (faults)
		faults->begun = bpf_ktime_get_ns();
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
	struct faults *faults = mine(&tid);

	if (!cpu || !faults || !faults->begun)
		return 0;
	faults->took_ns += bpf_ktime_get_ns() - faults->begun;
	faults->begun = 0;
	if (faults->took_ns >= WORTH_TELLING_NS) {
		tell(cpu, FAULT, 0, tid, faults->took_ns);
		faults->took_ns = 0;
	}
	return 0;
}

/* Some functions used here are for GPL programs only. All of this is also licensed under MIT. */
char terms[] SEC("license") = "Dual MIT/GPL";
