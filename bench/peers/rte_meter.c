/* DPDK's meter, asked as `bench/benches/policing` asks ours: srTCM, colour-blind (RFC 2697).
 *
 * `one N`: N PDUs of 1,000 bytes of one sender, each told the time; `turns N`: of 64 senders in turn;
 * `tsc N`: of one, reading the time-stamp counter each time; `loop N`: the loop of `one`, which asks
 * nobody. Answers with nanoseconds of processor time. */
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

static uint64_t gaps[GAPS];

static uint64_t processor_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(void)
{
	/* 1 Gbit/s in bytes a second, bursts of 50 PDUs; the same load as ours: 0.8, gaps drawn evenly. */
	struct rte_meter_srtcm_params params = {
		.cir = 125000000, .cbs = 50 * PDU, .ebs = 50 * PDU
	};
	struct rte_meter_srtcm_profile profile;
	static struct rte_meter_srtcm meters[SENDERS];
	char what[16];
	uint64_t count, seed = 88172645463325252u, now = 0;
	uint64_t hz;
	cpu_set_t cpus;
	char *eal[] = { "rte_meter", "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry",
			"-m", "16", "--lcores=0", "--log-level=1" };

	/* Its environment measures the counter's rate, and keeps this thread on one CPU: not wanted. */
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
		/* A PDU takes 8 us: on average 10 us apart, in cycles. */
		gaps[i] = (uint64_t)((double)(seed % 20000) * (double)hz / 1e9);
	}
	now = meters[SENDERS - 1].time;
	puts("ready");
	fflush(stdout);
	while (scanf("%15s %" SCNu64, what, &count) == 2) {
		uint64_t sum = 0, start = processor_time();

		if (strcmp(what, "one") == 0) {
			for (uint64_t i = 0; i < count; i++) {
				now += gaps[i % GAPS];
				sum += rte_meter_srtcm_color_blind_check(&meters[0], &profile, now,
									 PDU);
			}
		} else if (strcmp(what, "loop") == 0) {
			for (uint64_t i = 0; i < count; i++) {
				now += gaps[i % GAPS];
				__asm__ volatile("" : : "r"(now));
			}
		} else if (strcmp(what, "turns") == 0) {
			/* All of a round at the same time. */
			for (uint64_t i = 0; i < count; i++) {
				if (i % SENDERS == 0)
					now += gaps[i / SENDERS % GAPS];
				sum += rte_meter_srtcm_color_blind_check(&meters[i % SENDERS],
									 &profile, now, PDU);
			}
		} else {
			for (uint64_t i = 0; i < count; i++)
				sum += rte_meter_srtcm_color_blind_check(&meters[0], &profile,
									 rte_rdtsc(), PDU);
		}
		uint64_t taken = processor_time() - start;

		/* So that nothing is left out. */
		__asm__ volatile("" : : "r"(sum));
		printf("%" PRIu64 "\n", taken);
		fflush(stdout);
	}
	return 0;
}
