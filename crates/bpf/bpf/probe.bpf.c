/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * The programs that test the loader: a count in a hard interrupt, a count in a softirq, a record of
 * every switch of one thread.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* BPF_F_TIMER_ABS (Linux 6.1) and BPF_F_TIMER_CPU_PIN (Linux 6.7), linux/bpf.h. */
#define TIMER_ABSOLUTE 1
#define TIMER_PINNED 2
#define CLOCK_MONOTONIC 1

struct alarm {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

struct counts {
	/* Counts, each with the CPU that counted last. */
	__u32 interrupts;
	__u32 interrupt_cpu;
	__u32 softirqs;
	__u32 softirq_cpu;
	/* The kernel's result of `arm`. */
	__s64 armed;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 12);
} switches SEC(".maps");

SEC("perf_event")
int interrupt(void *ctx)
{
	__u32 zero = 0;
	struct counts *count = bpf_map_lookup_elem(&counts, &zero);

	if (!count)
		return 0;
	count->interrupt_cpu = bpf_get_smp_processor_id();
	__sync_fetch_and_add(&count->interrupts, 1);
	return 0;
}

static int expired(void *map, __u32 *key, struct alarm *alarm)
{
	__u32 zero = 0;
	struct counts *count = bpf_map_lookup_elem(&counts, &zero);

	if (!count)
		return 0;
	count->softirq_cpu = bpf_get_smp_processor_id();
	__sync_fetch_and_add(&count->softirqs, 1);
	return 0;
}

SEC("syscall")
int arm(void *ctx)
{
	__u32 zero = 0;
	struct counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &zero);
	long done;

	if (!count || !alarm)
		return 1;
	done = bpf_timer_init(&alarm->timer, &alarms, CLOCK_MONOTONIC);
	if (!done)
		done = bpf_timer_set_callback(&alarm->timer, expired);
	if (!done)
		done = bpf_timer_start(&alarm->timer, bpf_ktime_get_ns() + 1000000,
				       TIMER_ABSOLUTE | TIMER_PINNED);
	count->armed = done;
	return done ? 1 : 0;
}

/* A tracepoint whose arguments are not read, so that it is the same in every kernel. */
SEC("raw_tracepoint/sched_switch")
int switched(void *ctx)
{
	__u64 now = bpf_ktime_get_ns();

	bpf_ringbuf_output(&switches, &now, sizeof(now), 0);
	return 0;
}

/* Only GPL programs may call the timer's functions. All of this is also licensed under MIT. */
char terms[] SEC("license") = "Dual MIT/GPL";
