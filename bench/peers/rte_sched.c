/* Measures DPDK's hierarchical scheduler in the same way as `bench/benches/link_scheduler` measures
 * Punctual's queues.
 *
 * One port, one subport, 4,096 pipes (which correspond to channels), never limited by a rate: a packet
 * waits in each pipe; `hold N` takes N packets out, and queues each again in its pipe. Answers with
 * nanoseconds of processor time. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_sched.h>

#define PIPES 4096
#define BURST 32
/* A class with strict priority, so that no sharing takes place. */
#define CLASS 0
/* Bytes a second. */
#define RATE 12500000000ull

static uint64_t processor_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct rte_sched_port *make_port(void)
{
	struct rte_sched_subport_profile_params of_subport = {
		.tb_rate = RATE, .tb_size = 1000000, .tc_period = 10
	};
	struct rte_sched_pipe_params of_pipe = {
		.tb_rate = RATE, .tb_size = 1000000, .tc_period = 40, .tc_ov_weight = 1,
		.wrr_weights = { 1, 1, 1, 1 }
	};
	struct rte_sched_subport_params subport = {
		.n_pipes_per_subport_enabled = PIPES,
		.pipe_profiles = &of_pipe, .n_pipe_profiles = 1, .n_max_pipe_profiles = 1
	};
	struct rte_sched_port_params port = {
		.name = "port", .socket = 0, .rate = RATE, .mtu = 1522, .frame_overhead = 24,
		.n_subports_per_port = 1, .subport_profiles = &of_subport,
		.n_subport_profiles = 1, .n_max_subport_profiles = 1, .n_pipes_per_subport = PIPES
	};
	struct rte_sched_port *made;

	for (int class = 0; class < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; class++) {
		of_subport.tc_rate[class] = RATE;
		of_pipe.tc_rate[class] = RATE;
		subport.qsize[class] = 64;
	}
	made = rte_sched_port_config(&port);
	if (made == NULL || rte_sched_subport_config(made, 0, &subport, 0) != 0)
		return NULL;
	for (uint32_t pipe = 0; pipe < PIPES; pipe++)
		if (rte_sched_pipe_config(made, 0, pipe, 0) != 0)
			return NULL;
	return made;
}

int main(void)
{
	cpu_set_t cpus;
	char *eal[] = { "rte_sched", "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry",
			"-m", "128", "--lcores=0", "--log-level=1" };
	struct rte_mempool *pool;
	struct rte_sched_port *port;
	struct rte_mbuf *burst[BURST];
	char what[16];
	uint64_t count;

	/* Its environment pins this thread to one CPU: undo that. */
	sched_getaffinity(0, sizeof(cpus), &cpus);
	if (rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) < 0) {
		puts("DPDK's environment does not start");
		return 1;
	}
	sched_setaffinity(0, sizeof(cpus), &cpus);
	pool = rte_pktmbuf_pool_create("packets", 2 * PIPES, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	port = pool == NULL ? NULL : make_port();
	if (port == NULL) {
		puts("rte_sched refuses its parameters");
		return 1;
	}
	for (uint32_t pipe = 0; pipe < PIPES; pipe++) {
		struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);

		/* Short, so that the port's rate never makes it wait. */
		packet->pkt_len = packet->data_len = 64;
		rte_sched_port_pkt_write(port, packet, 0, pipe, CLASS, 0, RTE_COLOR_GREEN);
		if (rte_sched_port_enqueue(port, &packet, 1) != 1) {
			puts("rte_sched has no room");
			return 1;
		}
	}
	puts("ready");
	fflush(stdout);
	while (scanf("%15s %" SCNu64, what, &count) == 2) {
		uint64_t start = processor_time(), taken = 0;

		while (taken < count) {
			int n = rte_sched_port_dequeue(port, burst, BURST);

			if (n > 0 && rte_sched_port_enqueue(port, burst, n) != n) {
				puts("rte_sched lost a packet");
				return 1;
			}
			taken += n;
		}
		/* A few more than requested; the time is scaled to N. */
		double each = (double)(processor_time() - start) / (double)taken;

		printf("%.0f\n", each * (double)count);
		fflush(stdout);
	}
	return 0;
}
