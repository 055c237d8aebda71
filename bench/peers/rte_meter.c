/* Measures DPDK's meter in the same way as `bench/benches/policing` measures Punctual's policers: srTCM,
 * colour-blind (RFC 2697).
 *
 * `one N`: N PDUs of one sender, each with a given time; `turns N`: of 64 senders in turn; `tsc N`: of
 * one, reading the time-stamp counter each time; `loop N` and `loops N`: the loops of `one` and of
 * `turns` without a meter; `kept N`: like `one`, with the meter in registers. Otherwise meters are in
 * memory between two calls, like Punctual's and like those of a server of many senders. Answers with
 * nanoseconds of processor time. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_meter.h>

#define PDU 1000
#define GAPS 1024
#define SENDERS 64

/* Memory that the compiler must not assume unchanged. */
#define ANYTHING_MAY_HAVE_CHANGED __asm__ volatile("" : : : "memory")

static uint64_t gaps[GAPS];
static uint32_t sizes[GAPS];
static struct rte_meter_srtcm meters[SENDERS];
static struct rte_meter_srtcm_profile profile;

static uint64_t processor_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Each returns how many PDUs are not green, so that nothing is optimised away, and advances the time. */
static __attribute__((noinline)) uint64_t one(uint64_t count, uint64_t *at)
{
	uint64_t now = *at, others = 0;

	for (uint64_t i = 0; i < count; i++) {
		now += gaps[i % GAPS];
		others += rte_meter_srtcm_color_blind_check(&meters[0], &profile, now,
							    sizes[i % GAPS]);
		ANYTHING_MAY_HAVE_CHANGED;
	}
	*at = now;
	return others;
}

static __attribute__((noinline)) uint64_t kept(uint64_t count, uint64_t *at)
{
	uint64_t now = *at, others = 0;

	for (uint64_t i = 0; i < count; i++) {
		now += gaps[i % GAPS];
		others += rte_meter_srtcm_color_blind_check(&meters[0], &profile, now,
							    sizes[i % GAPS]);
	}
	*at = now;
	return others;
}

static __attribute__((noinline)) uint64_t loop(uint64_t count, uint64_t *at)
{
	uint64_t now = *at;

	for (uint64_t i = 0; i < count; i++) {
		now += gaps[i % GAPS];
		__asm__ volatile("" : : "r"(now), "r"(sizes[i % GAPS]) : "memory");
	}
	*at = now;
	return 0;
}

/* All PDUs of a round have the same time. */
static __attribute__((noinline)) uint64_t turns(uint64_t count, uint64_t *at)
{
	uint64_t now = *at, others = 0;

	for (uint64_t i = 0; i < count / SENDERS; i++) {
		uint32_t size = sizes[i % GAPS];

		now += gaps[i % GAPS];
		for (int sender = 0; sender < SENDERS; sender++) {
			others += rte_meter_srtcm_color_blind_check(&meters[sender], &profile,
								    now, size);
			ANYTHING_MAY_HAVE_CHANGED;
		}
	}
	*at = now;
	return others;
}

static __attribute__((noinline)) uint64_t loops(uint64_t count, uint64_t *at)
{
	uint64_t now = *at;

	for (uint64_t i = 0; i < count / SENDERS; i++) {
		uint32_t size = sizes[i % GAPS];

		now += gaps[i % GAPS];
		for (int sender = 0; sender < SENDERS; sender++)
			__asm__ volatile("" : : "r"(now), "r"(size), "r"(&meters[sender])
					 : "memory");
	}
	*at = now;
	return 0;
}

static __attribute__((noinline)) uint64_t tsc(uint64_t count, uint64_t *at)
{
	uint64_t others = 0;

	for (uint64_t i = 0; i < count; i++) {
		others += rte_meter_srtcm_color_blind_check(&meters[0], &profile, rte_rdtsc(),
							    sizes[i % GAPS]);
		ANYTHING_MAY_HAVE_CHANGED;
	}
	*at = meters[0].time;
	return others;
}

static const struct {
	const char *name;
	uint64_t (*run)(uint64_t count, uint64_t *at);
} questions[] = {
	{ "one", one }, { "kept", kept }, { "loop", loop },
	{ "turns", turns }, { "loops", loops }, { "tsc", tsc },
};

int main(void)
{
	/* 1 Gbit/s in bytes a second, bursts of 50 PDUs; the same load as for Punctual: 0.8, uniform gaps. */
	struct rte_meter_srtcm_params params = {
		.cir = 125000000, .cbs = 50 * PDU, .ebs = 50 * PDU
	};
	char what[16];
	uint64_t count, seed = 88172645463325252u, now = 0;
	uint64_t hz;
	cpu_set_t cpus;
	char *eal[] = { "rte_meter", "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry",
			"-m", "16", "--lcores=0", "--log-level=1" };

	/* Its environment measures the counter's rate, but also pins this thread to one CPU: undo that. */
	sched_getaffinity(0, sizeof(cpus), &cpus);
	if (rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) < 0) {
		puts("DPDK's environment does not start");
		return 1;
	}
	sched_setaffinity(0, sizeof(cpus), &cpus);
	hz = rte_get_tsc_hz();
	if (rte_meter_srtcm_profile_config(&profile, &params) != 0) {
		puts("rte_meter refuses its parameters");
		return 1;
	}
	for (int sender = 0; sender < SENDERS; sender++)
		rte_meter_srtcm_config(&meters[sender], &profile);
	for (int i = 0; i < GAPS; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		/* A PDU takes 8 us, and they are 10 us apart on average, in cycles. */
		gaps[i] = (uint64_t)((double)(seed % 20000) * (double)hz / 1e9);
		sizes[i] = PDU;
	}
	now = meters[SENDERS - 1].time;
	puts("ready");
	fflush(stdout);
	while (scanf("%15s %" SCNu64, what, &count) == 2) {
		uint64_t taken = 0;

		for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
			if (strcmp(what, questions[i].name) != 0)
				continue;
			uint64_t start = processor_time();
			uint64_t others = questions[i].run(count, &now);

			taken = processor_time() - start;
			/* So that nothing is optimised away. */
			__asm__ volatile("" : : "r"(others));
		}
		if (taken == 0) {
			puts("no such question");
			return 1;
		}
		printf("%" PRIu64 "\n", taken);
		fflush(stdout);
	}
	return 0;
}
