/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The driver of a bank of lines in a hard interrupt and in a softirq.
 *
 * `interrupt` runs on a perf software clock, whose hrtimer expires in hard interrupt context;
 * `softirq` runs when a bpf_timer expires. Both serve all lines and write one record.
 *
 * The kernel checks that this is safe. We ensure that it ends soon: lines × passes bound it.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/*
 * Checks whether the kernel allows the loop to continue: the instruction may_goto jumps when its
 * budget of some millions is used up. It is written as bytes, because compilers before clang 19 do
 * not know it: code 0xe5, no registers, 16 bits of distance in instructions from the next one,
 * 32 of zero. The assembler of clang 14 cannot emit a 16-bit difference: hence the odd sizes.
 */
#define LINE_MAY_LOOP                                                                              \
	({                                                                                         \
		__label__ enough, decided;                                                         \
		int more = 1;                                                                      \
		asm volatile goto(".byte 0xe5, 0\n"                                                \
				  ".long (%l[enough] - . - 6) / 8 & 0xffff\n"                      \
				  ".short 0"                                                       \
				  :                                                                \
				  :                                                                \
				  :                                                                \
				  : enough);                                                       \
		goto decided;                                                                      \
	enough:                                                                                    \
		more = 0;                                                                          \
	decided:                                                                                   \
		more;                                                                              \
	})

/* Global, so that the kernel checks it once, separately. */
#define LINE_PART __attribute__((noinline))

#include "../core/line.h"

/* BPF_F_TIMER_ABS (Linux 6.1) and BPF_F_TIMER_CPU_PIN (Linux 6.7), linux/bpf.h. */
#define TIMER_ABSOLUTE 1
#define TIMER_PINNED 2
#define CLOCK_MONOTONIC 1
/* EBUSY, errno(3). */
#define BUSY 16

/* The timer has a map of its own: a map that user space can mmap cannot hold it. */
struct alarm {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct line);
} lines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct recording);
} recordings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RECORDS);
	__type(key, u32);
	__type(value, struct record);
} records SEC(".maps");

struct round {
	struct recording *recording;
	u64 position;
	u32 passes;
};

static int serve_one(u32 at, struct round *round)
{
	struct line *line = bpf_map_lookup_elem(&lines, &at);

	if (!line)
		return 1;
	line_serve(line, round->recording, round->position, round->passes);
	return 0;
}

static __always_inline void serve(struct control *control, u64 due)
{
	u32 zero = 0, at = control->services & (RECORDS - 1);
	struct record *record = bpf_map_lookup_elem(&records, &at);
	struct round round;

	round.recording = bpf_map_lookup_elem(&recordings, &zero);
	if (!record || !round.recording)
		return;
	record->due = due;
	record->begin = bpf_ktime_get_ns();
	round.position = line_position(control->start, record->begin);
	round.passes = record->passes = control->passes;
	record->lines = control->lines;
	bpf_loop(record->lines, serve_one, &round, 0);
	record->end = bpf_ktime_get_ns();
	/* A full barrier: a reader that sees the count sees the record. */
	__sync_fetch_and_add(&control->services, 1);
}

SEC("perf_event")
int interrupt(void *ctx)
{
	u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&controls, &zero);

	if (control && !control->stop)
		serve(control, 0);
	return 0;
}

static int softirq(void *map, u32 *key, struct alarm *alarm)
{
	u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&controls, &zero);
	u64 due;
	long refused;

	if (!control || control->stop)
		return 0;
	due = control->due;
	/* Armed before the work, at an absolute time: neither lateness nor the work shifts the grid. */
	control->due = due + control->period;
	refused = bpf_timer_start(&alarm->timer, control->due, TIMER_ABSOLUTE | TIMER_PINNED);
	if (refused)
		control->refused = refused;
	serve(control, due);
	return 0;
}

/* Arms the timer on the CPU that runs this, for `control->due`. */
SEC("syscall")
int start_softirq(void *ctx)
{
	u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&controls, &zero);
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &zero);
	long done;

	if (!control || !alarm)
		return 1;
	done = bpf_timer_init(&alarm->timer, &alarms, CLOCK_MONOTONIC);
	/* A timer left by an earlier call works as well. */
	if (!done || done == -BUSY)
		done = bpf_timer_set_callback(&alarm->timer, softirq);
	if (!done)
		done = bpf_timer_start(&alarm->timer, control->due, TIMER_ABSOLUTE | TIMER_PINNED);
	control->started = done;
	return done ? 1 : 0;
}

/* Runs one service at `control->position`, for comparisons. */
SEC("syscall")
int serve_once(void *ctx)
{
	u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&controls, &zero);
	struct round round;

	round.recording = bpf_map_lookup_elem(&recordings, &zero);
	if (!control || !round.recording)
		return 1;
	round.position = control->position;
	round.passes = control->passes;
	bpf_loop(control->lines, serve_one, &round, 0);
	control->services++;
	return 0;
}

/* Only GPL-compatible programs may call the timer's functions; MIT is available as well. */
char terms[] SEC("license") = "Dual MIT/GPL";
