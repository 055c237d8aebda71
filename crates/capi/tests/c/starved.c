/* Tests that punctual_run fails before any handler is called if a thread cannot be created. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sys/resource.h>
#include <time.h>

static volatile int calls;

static uint32_t iterate(void *arg, uint64_t now_ns, uint32_t pdus)
{
    (void)arg;
    (void)now_ns;
    calls++;
    return pdus;
}

int main(void)
{
    struct punctual_options options = {.size = sizeof options, .placement = PUNCTUAL_ORDINARY};
    struct punctual_contract contract = {.size = sizeof contract,
                                         .name = "starved",
                                         .period_ns = MS,
                                         .time_per_pdu_ns = 1000,
                                         .batch = 1,
                                         .quantum = 1};
    struct punctual_handler handler = {.size = sizeof handler, .iterate = iterate};
    struct rlimit limit, tight;
    struct timespec nap = {0, 50000000};
    punctual_upcalls *upcalls;
    uint32_t id, activity;

    OK(punctual_open(&options, &upcalls));
    OK(punctual_create(upcalls, &contract, &handler, 0, &id));
    /* The first thread that the library creates gets no stack. */
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    tight = limit;
    tight.rlim_cur = 4096;
    CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
    enum punctual_error error = punctual_run(upcalls, 0);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(error == PUNCTUAL_EHOST);
    /* The agent is the first thread to be created. */
    SAYS("look after");
    nanosleep(&nap, NULL);
    CHECK(calls == 0);
    OK(punctual_activity_of(upcalls, id, &activity));
    CHECK(activity == PUNCTUAL_CLOSED);
    CHECK(punctual_run(upcalls, 0) == PUNCTUAL_EINVAL);
    OK(punctual_free(upcalls));
    return 0;
}
