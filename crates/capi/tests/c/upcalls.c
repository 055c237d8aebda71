/* Tests the life of upcalls: created, run, suspended, resumed, changed, done, closed, stopped. The
 * argument is the placement: ordinary needs no privilege. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

struct counter {
    atomic_uint jobs;
    atomic_uint commits;
    unsigned stop_after; /* 0: never */
    punctual_upcalls *own;
    atomic_int inside;
};

static uint32_t iterate(void *arg, uint64_t now_ns, uint32_t pdus)
{
    struct counter *counter = arg;
    unsigned jobs = atomic_fetch_add(&counter->jobs, 1) + 1;
    (void)now_ns;
    if (jobs == 1 && counter->own != NULL)
        atomic_store(&counter->inside, punctual_suspend(counter->own, 0));
    if (counter->stop_after != 0 && jobs % counter->stop_after == 0)
        return PUNCTUAL_DONE;
    return pdus;
}

static void commit(void *arg, uint64_t now_ns)
{
    (void)now_ns;
    atomic_fetch_add(&((struct counter *)arg)->commits, 1);
}

static void nap(void)
{
    struct timespec length = {0, 5000000};
    nanosleep(&length, NULL);
}

/* Waits until this many jobs were done, for a generous time. */
static void reaches(struct counter *counter, unsigned jobs)
{
    uint64_t until = punctual_now() + 20 * SECOND;
    while (atomic_load(&counter->jobs) < jobs) {
        CHECK(punctual_now() < until);
        nap();
    }
}

/* Waits until upcall 0 is not active. */
static void *waits(void *upcalls)
{
    static int error;
    struct punctual_waited waited = {.id = 0};
    error = punctual_wait(upcalls, &waited, 1, 60 * SECOND, NULL);
    return &error;
}

static int joined(pthread_t thread)
{
    void *error;
    CHECK(pthread_join(thread, &error) == 0);
    return *(int *)error;
}

static uint32_t activity(punctual_upcalls *upcalls, uint32_t id)
{
    uint32_t found;
    OK(punctual_activity_of(upcalls, id, &found));
    return found;
}

int main(int argc, char **argv)
{
    static struct counter fast, slow, rest;
    struct punctual_options options = {.size = sizeof options};
    struct punctual_contract contract = {.size = sizeof contract,
                                         .name = "fast",
                                         .period_ns = 10 * MS,
                                         .time_per_pdu_ns = 100000,
                                         .batch = 2,
                                         .quantum = 1};
    struct punctual_best_effort polite = {.size = sizeof polite,
                                          .name = "rest",
                                          .time_per_pdu_ns = 10000,
                                          .poll_ns = 10 * MS,
                                          .weight = 1,
                                          .quantum = 1};
    struct punctual_handler handler = {.size = sizeof handler, .iterate = iterate, .commit = commit};
    punctual_upcalls *upcalls;
    uint32_t a, b, c = 0, late;
    size_t inactive, count;
    uint64_t lost;

    options.placement = argc > 1 && strcmp(argv[1], "upcalls") == 0    ? PUNCTUAL_UPCALLS
                        : argc > 1 && strcmp(argv[1], "reserved") == 0 ? PUNCTUAL_RESERVED
                                                                       : PUNCTUAL_ORDINARY;
    if (options.placement == PUNCTUAL_RESERVED) {
        options.budget_ns = 3 * MS;
        options.period_ns = 10 * MS;
    }
    OK(punctual_open(&options, &upcalls));
    fast.own = upcalls;
    handler.arg = &fast;
    OK(punctual_create(upcalls, &contract, &handler, 0, &a));
    contract.name = "slow";
    contract.period_ns = 20 * MS;
    contract.overrun = PUNCTUAL_SKIP;
    slow.stop_after = 3;
    handler.arg = &slow;
    OK(punctual_create(upcalls, &contract, &handler, 0, &b));
    CHECK(a == 0 && b == 1);
    CHECK(punctual_suspend(upcalls, a) == PUNCTUAL_EINVAL);
    SAYS("punctual_run");
    rest.stop_after = 50;
    handler.arg = &rest;
    if (options.placement == PUNCTUAL_RESERVED) {
        CHECK(punctual_create_best_effort(upcalls, &polite, &handler, &c) == PUNCTUAL_EINVAL);
        SAYS("reservation");
    } else {
        OK(punctual_create_best_effort(upcalls, &polite, &handler, &c));
    }
    OK_OR_SKIP(punctual_run(upcalls, 0));
    CHECK(punctual_run(upcalls, 0) == PUNCTUAL_EINVAL);

    /* The slow handler returns PUNCTUAL_DONE, which ends a wait for both. */
    struct punctual_waited both[] = {{.id = a}, {.id = b}};
    OK(punctual_wait(upcalls, both, 2, 20 * SECOND, &inactive));
    CHECK(inactive == 1);
    CHECK(both[0].activity == PUNCTUAL_ACTIVE && both[1].activity == PUNCTUAL_SUSPENDED);
    unsigned done = atomic_load(&slow.jobs);
    CHECK(done == 3);
    reaches(&fast, atomic_load(&fast.jobs) + 20);
    CHECK(atomic_load(&slow.jobs) == done);
    CHECK(atomic_load(&fast.inside) == PUNCTUAL_EDEADLK);
    OK(punctual_resume(upcalls, b));
    reaches(&slow, done + 3);

    /* Another thread waits while this one suspends and resumes the upcall. */
    pthread_t waiting;
    CHECK(pthread_create(&waiting, NULL, waits, upcalls) == 0);
    nap();
    OK(punctual_suspend(upcalls, a));
    CHECK(joined(waiting) == PUNCTUAL_OK);
    CHECK(activity(upcalls, a) == PUNCTUAL_SUSPENDED);
    unsigned before = atomic_load(&fast.jobs);
    for (int naps = 0; naps < 20; naps++)
        nap();
    CHECK(atomic_load(&fast.jobs) == before);
    OK(punctual_resume(upcalls, a));
    CHECK(activity(upcalls, a) == PUNCTUAL_ACTIVE);
    reaches(&fast, before + 4);
    CHECK(punctual_wait(upcalls, both, 1, 0, &inactive) == PUNCTUAL_ETIMEDOUT && inactive == 0);

    /* Creates one more while they run, changes its period, and closes it. */
    static struct counter more;
    contract.name = "more";
    handler.arg = &more;
    OK(punctual_create(upcalls, &contract, &handler, punctual_now() + 5 * MS, &late));
    reaches(&more, 2);
    contract.period_ns = 5 * MS;
    OK(punctual_change(upcalls, late, &contract));
    reaches(&more, atomic_load(&more.jobs) + 10);
    OK(punctual_close(upcalls, late));
    before = atomic_load(&more.jobs);
    CHECK(activity(upcalls, late) == PUNCTUAL_CLOSED);
    CHECK(punctual_close(upcalls, late) == PUNCTUAL_ENOENT);
    CHECK(punctual_change(upcalls, late, &contract) == PUNCTUAL_ENOENT);
    reaches(&fast, atomic_load(&fast.jobs) + 10);
    CHECK(atomic_load(&more.jobs) == before);

    /* Its statistics stay until they are forgotten. */
    struct punctual_stats stats = {.size = sizeof stats};
    OK(punctual_get_stats(upcalls, late, &stats));
    CHECK(stats.jobs >= 1);
    CHECK(punctual_forget(upcalls, a) == PUNCTUAL_EINVAL);
    SAYS("punctual_close");
    OK(punctual_forget(upcalls, late));
    CHECK(punctual_get_stats(upcalls, late, &stats) == PUNCTUAL_ENOENT);
    CHECK(punctual_forget(upcalls, late) == PUNCTUAL_ENOENT);
    CHECK(activity(upcalls, late) == PUNCTUAL_CLOSED);
    /* Numbers only grow, and other upcalls keep their statistics. */
    for (int times = 0; times < 5; times++) {
        uint32_t last = late;
        OK(punctual_create(upcalls, &contract, &handler, 0, &late));
        CHECK(late > last);
        OK(punctual_close(upcalls, late));
        OK(punctual_forget(upcalls, late));
    }
    OK(punctual_get_stats(upcalls, a, &stats));
    CHECK(stats.jobs > 10 && stats.events_lost == 0);

    if (options.placement != PUNCTUAL_RESERVED) {
        struct punctual_waited resting = {.id = c};
        OK(punctual_wait(upcalls, &resting, 1, 20 * SECOND, NULL));
        CHECK(resting.activity == PUNCTUAL_SUSPENDED && atomic_load(&rest.jobs) == rest.stop_after);
        CHECK(punctual_change(upcalls, c, &contract) == PUNCTUAL_EINVAL);
    }

    /* The events. */
    struct punctual_event events[16];
    OK(punctual_drain(upcalls, events, 16, &count, &lost));
    CHECK(count == 16 && lost == 0);
    /* On a busy host the first job may be late and skipped before any starts. */
    size_t starts = 0;
    for (size_t one = 0; one < count; one++) {
        CHECK(events[one].at_ns >= events[one].release_ns && events[one].jobs >= 1);
        starts += events[one].kind == PUNCTUAL_EVENT_START;
    }
    CHECK(starts >= 1);
    struct punctual_notice notices[4];
    OK(punctual_notices(upcalls, notices, 4, &count, NULL));
    struct punctual_stopped stopped = {.size = sizeof stopped};
    CHECK(pthread_create(&waiting, NULL, waits, upcalls) == 0);
    nap();
    uint64_t since = punctual_now();
    OK(punctual_stop(upcalls, &stopped));
    int error = joined(waiting);
    CHECK(error == PUNCTUAL_OK || error == PUNCTUAL_EENDED);
    CHECK(punctual_now() - since < 60 * SECOND);
    CHECK(stopped.stuck == 0 && stopped.exec_time_ns > 0 && stopped.events_lost == 0);
    CHECK(punctual_stop(upcalls, NULL) == PUNCTUAL_EINVAL);
    CHECK(punctual_suspend(upcalls, a) == PUNCTUAL_EENDED);
    CHECK(activity(upcalls, a) == PUNCTUAL_CLOSED);
    OK(punctual_get_stats(upcalls, a, &stats));
    /* Each iteration was committed and counted, two for each job. */
    CHECK(atomic_load(&fast.jobs) == atomic_load(&fast.commits));
    CHECK(stats.jobs > 10 && stats.jobs <= atomic_load(&fast.jobs));
    CHECK(stats.response_time.count == stats.jobs);
    CHECK(stats.response_time.max_ns >= stats.response_time.p50_ns);
    CHECK(punctual_get_stats(upcalls, 77, &stats) == PUNCTUAL_ENOENT);
    OK(punctual_forget(upcalls, a));
    CHECK(punctual_get_stats(upcalls, a, &stats) == PUNCTUAL_ENOENT);
    OK(punctual_get_stats(upcalls, b, &stats));
    OK(punctual_free(upcalls));
    return 0;
}
