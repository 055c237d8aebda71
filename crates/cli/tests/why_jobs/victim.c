/*
 * A program whose jobs are late in a way that is hard to see from outside, and that logs them itself:
 * a line "RELEASE END", in nanoseconds of CLOCK_MONOTONIC, for each job, in the file that is named.
 *
 *   victim KIND LOG
 *
 * The thread with the jobs is called "jobs".
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef long long ns;

#define MS 1000000LL
#define PERIOD (10 * MS)
#define JOBS 240
#define LATE (7 * MS)

static const char *kind;
static FILE *job_log;

static ns now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct timespec spec(ns at)
{
	return (struct timespec){ at / 1000000000LL, at % 1000000000LL };
}

static void sleep_until(ns at)
{
	struct timespec t = spec(at);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

/* Works for this much processor time. */
static void work(ns length)
{
	struct timespec t;
	ns begun, used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	begun = t.tv_sec * 1000000000LL + t.tv_nsec;
	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		used = t.tv_sec * 1000000000LL + t.tv_nsec - begun;
	} while (used < length);
}

static int is(const char *one)
{
	return !strcmp(kind, one);
}

static void has_jobs(void)
{
	pthread_setname_np(pthread_self(), "jobs");
}

static void done(ns release)
{
	fprintf(job_log, "%lld %lld\n", release, now());
}

/* A lock that another thread holds for a while, when asked. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t ask, held, later;

static void *holder(void *unused)
{
	(void)unused;
	for (;;) {
		sem_wait(&ask);
		if (is("condition-semaphore")) {
			sleep_until(now() + LATE);
			sem_post(&later);
			continue;
		}
		pthread_mutex_lock(&lock);
		sem_post(&held);
		sleep_until(now() + LATE);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void wait_for_lock(void)
{
	sem_post(&ask);
	if (is("condition-semaphore")) {
		sem_wait(&later);
		return;
	}
	sem_wait(&held);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

/* Jobs that another thread hands over. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER;
static ns queue[JOBS];
static int put, taken;

static void *worker(void *unused)
{
	(void)unused;
	has_jobs();
	for (int job = 0; job < JOBS; job++) {
		pthread_mutex_lock(&queue_lock);
		while (taken == put)
			pthread_cond_wait(&queued, &queue_lock);
		ns release = queue[taken++];
		pthread_mutex_unlock(&queue_lock);
		if (is("condition-overload")) {
			work(job % 60 >= 20 && job % 60 < 40 ? 14 * MS : 2 * MS);
		} else {
			work(MS / 2);
			if (job % 4 == 1)
				wait_for_lock();
		}
		done(release);
	}
	return NULL;
}

static void produce(void)
{
	ns due = now();
	pthread_t thread;

	pthread_create(&thread, NULL, worker, NULL);
	for (int job = 0; job < JOBS; job++) {
		sleep_until(due += PERIOD);
		pthread_mutex_lock(&queue_lock);
		queue[put++] = now();
		pthread_cond_signal(&queued);
		pthread_mutex_unlock(&queue_lock);
	}
	pthread_join(thread, NULL);
}

static void timed_wait(void)
{
	pthread_condattr_t monotonic;
	pthread_cond_t never;
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	ns due = now();

	has_jobs();
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&never, &monotonic);
	for (int job = 0; job < JOBS; job++) {
		struct timespec t = spec(due += PERIOD);

		pthread_mutex_lock(&own);
		while (pthread_cond_timedwait(&never, &own, &t) == 0)
			;
		pthread_mutex_unlock(&own);
		work(MS / 2);
		if (job % 4 == 1)
			wait_for_lock();
		done(due);
	}
}

static void __attribute__((noinline)) nap(void)
{
	if (is("poll"))
		poll(NULL, 0, LATE / MS);
	else
		usleep(LATE / 1000);
}

/* Each sleep begins when the job is done. */
static void relative(void)
{
	has_jobs();
	for (int job = 0; job < JOBS; job++) {
		ns release = now() + PERIOD;

		usleep(PERIOD / 1000);
		work(job % 2 ? MS / 2 : MS);
		if (job % 4 == 1)
			nap();
		done(release);
	}
}

static void *hog(void *unused)
{
	struct sched_param param = { .sched_priority = 50 };
	ns due = now() + 500 * MS;

	(void)unused;
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &param))
		exit(3);
	for (;; due += 1000 * MS) {
		sleep_until(due);
		work(300 * MS);
	}
	return NULL;
}

struct attr {
	unsigned size, policy;
	unsigned long long flags;
	int nice;
	unsigned priority;
	unsigned long long runtime, deadline, period;
};

static void on_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(1 % sysconf(_SC_NPROCESSORS_ONLN), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* It does each job, however late. */
static void absolute(void)
{
	ns due = now();

	has_jobs();
	for (int job = 0; job < JOBS; job++) {
		sleep_until(due += PERIOD);
		if (is("overload"))
			work(job % 60 >= 20 && job % 60 < 40 ? 14 * MS : 2 * MS);
		else if (is("throttled"))
			work(job % 60 >= 20 && job % 60 < 40 ? 5 * MS : MS / 2);
		else
			work(MS / 2);
		if ((is("usleep") || is("poll")) && job % 4 == 1)
			nap();
		done(due);
	}
}

/* Waits without a period, as the main and helper threads of runtimes do. */
static void *helper(void *unused)
{
	unsigned seed = 1;

	(void)unused;
	for (;;) {
		usleep(1000 + rand_r(&seed) % 60000);
		if (rand_r(&seed) % 4 == 0)
			poll(NULL, 0, 1 + rand_r(&seed) % 300);
		work(rand_r(&seed) % 8000000);
	}
	return NULL;
}

static void *periodic(void *unused)
{
	(void)unused;
	absolute();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 3)
		return 2;
	kind = argv[1];
	job_log = fopen(argv[2], "w");
	if (!job_log)
		return 2;
	sem_init(&ask, 0, 0);
	sem_init(&held, 0, 0);
	sem_init(&later, 0, 0);
	pthread_create(&thread, NULL, holder, NULL);
	if (is("condition-semaphore") || is("condition-mutex") ||
		   is("condition-overload")) {
		produce();
	} else if (is("timed-mutex")) {
		timed_wait();
	} else if (is("relative")) {
		relative();
	} else if (is("hogged")) {
		on_one_cpu();
		pthread_create(&thread, NULL, hog, NULL);
		absolute();
	} else if (is("throttled")) {
		struct attr attr = { sizeof(attr), 6, 0, 0, 0, 2 * MS, PERIOD, PERIOD };

		if (syscall(SYS_sched_setattr, 0, &attr, 0))
			return 3;
		absolute();
	} else if (is("helpers")) {
		pthread_create(&thread, NULL, helper, NULL);
		sleep(3);
		work(200 * MS);
		pthread_create(&thread, NULL, periodic, NULL);
		pthread_join(thread, NULL);
		work(100 * MS);
		sleep(1);
	} else if (is("spin")) {
		work(700 * MS);
	} else {
		absolute();
	}
	fclose(job_log);
	return 0;
}
