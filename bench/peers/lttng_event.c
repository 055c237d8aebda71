/* Records events with LTTng's user-space tracer, for `bench/benches/trace_event.rs`.
 *
 * `event N`: records N events, stamped by the tracer itself, and answers with nanoseconds of processor
 * time. The caller starts a session that takes them; without one the answer is "no session takes the
 * events". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_event.h"

static uint64_t processor_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(void)
{
	char what[16];
	uint64_t count;

	/* The library registers with the session daemon in a thread of its own. */
	for (int tries = 0; tries < 50 && !lttng_ust_tracepoint_enabled(punctual_bench, event); tries++)
		usleep(100000);
	if (!lttng_ust_tracepoint_enabled(punctual_bench, event)) {
		puts("no session takes the events");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (scanf("%15s %" SCNu64, what, &count) == 2) {
		uint64_t start = processor_time();

		for (uint64_t i = 0; i < count; i++)
			lttng_ust_tracepoint(punctual_bench, event, i, i, 7, 0);
		printf("%" PRIu64 "\n", processor_time() - start);
		fflush(stdout);
	}
	return 0;
}
