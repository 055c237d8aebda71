/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Takes a CPU's time periodically in a hard interrupt (a perf software clock) or in a softirq (a
 * bpf_timer), to show the effect on programs that run there.
 *
 * It ends by itself: after `until_ns` nothing is burnt and no timer is armed, even if the process
 * that loaded it has died.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

typedef __u32 u32;
typedef __u64 u64;

/* BPF_F_TIMER_ABS (Linux 6.1) and BPF_F_TIMER_CPU_PIN (Linux 6.7), linux/bpf.h. */
#define TIMER_ABSOLUTE 1
#define TIMER_PINNED 2
#define CLOCK_MONOTONIC 1

/* The most iterations of bpf_loop(7); each reads the clock. */
#define MOST_TURNS (1 << 23)

struct plan {
	u64 burn_ns;
	u64 period_ns;
	u64 until_ns;
	/* The effect so far. */
	u64 times;
	u64 burnt_ns;
	/* The kernel's result of `arm`. */
	u64 refused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct plan);
} plans SEC(".maps");

/* The timer has a map of its own, because a map that user space maps cannot hold a timer. */
struct alarm {
	struct bpf_timer timer;
	u64 due;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

static long is_over(u32 turn, u64 *end)
{
	return bpf_ktime_get_ns() >= *end;
}

/* Burns once; returns 0 if the time is over. */
static __always_inline int burn(struct plan *plan)
{
	u64 begun = bpf_ktime_get_ns();
	u64 end = begun + plan->burn_ns;

	if (begun >= plan->until_ns)
		return 0;
	bpf_loop(MOST_TURNS, is_over, &end, 0);
	plan->times++;
	plan->burnt_ns += bpf_ktime_get_ns() - begun;
	return 1;
}

SEC("perf_event")
int in_interrupt(void *ctx)
{
	u32 zero = 0;
	struct plan *plan = bpf_map_lookup_elem(&plans, &zero);

	if (plan)
		burn(plan);
	return 0;
}

static int in_softirq(void *map, u32 *key, struct alarm *alarm)
{
	u32 zero = 0;
	struct plan *plan = bpf_map_lookup_elem(&plans, &zero);

	if (!plan || !burn(plan))
		return 0;
	alarm->due += plan->period_ns;
	bpf_timer_start(&alarm->timer, alarm->due, TIMER_ABSOLUTE | TIMER_PINNED);
	return 0;
}

/* Arms the timer; must run on the CPU to be burnt. */
SEC("syscall")
int arm(void *ctx)
{
	u32 zero = 0;
	struct plan *plan = bpf_map_lookup_elem(&plans, &zero);
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &zero);
	long refused;

	if (!plan || !alarm)
		return 1;
	alarm->due = bpf_ktime_get_ns() + plan->period_ns;
	refused = bpf_timer_init(&alarm->timer, &alarms, CLOCK_MONOTONIC);
	if (!refused)
		refused = bpf_timer_set_callback(&alarm->timer, in_softirq);
	if (!refused)
		refused = bpf_timer_start(&alarm->timer, alarm->due, TIMER_ABSOLUTE | TIMER_PINNED);
	plan->refused = refused;
	return refused ? 1 : 0;
}

/* Only GPL programs may call the timer's functions. All of this is also licensed under MIT. */
char terms[] SEC("license") = "Dual MIT/GPL";
