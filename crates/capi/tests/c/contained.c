/* Tests that a handler that does not return is contained, its owner gets a notice, and a wait ends. */
#include "check.h"

#include <stdatomic.h>

static atomic_int let_go, contained, from_notice;
static punctual_upcalls *upcalls;

static uint32_t runaway(void *arg, uint64_t now_ns, uint32_t pdus)
{
    (void)arg;
    (void)now_ns;
    while (!atomic_load(&let_go))
        ;
    return pdus;
}

static void told(void *arg, const punctual_notice *notice)
{
    CHECK(arg == &contained);
    if (notice->kind == PUNCTUAL_NOTICE_CONTAINED) {
        atomic_store(&from_notice, punctual_stop(upcalls, NULL));
        atomic_fetch_add(&contained, 1);
    }
}

int main(void)
{
    struct punctual_options options = {
        .size = sizeof options, .on_notice = told, .on_notice_arg = &contained};
    struct punctual_contract contract = {.size = sizeof contract,
                                         .name = "runaway",
                                         .period_ns = 50 * MS,
                                         .time_per_pdu_ns = MS,
                                         .batch = 1,
                                         .quantum = 1};
    struct punctual_handler handler = {.size = sizeof handler, .iterate = runaway};
    struct punctual_waited waited = {.id = 0};
    struct punctual_stopped stopped = {.size = sizeof stopped};
    struct punctual_stats stats = {.size = sizeof stats};
    uint32_t id;

    OK(punctual_open(&options, &upcalls));
    OK(punctual_create(upcalls, &contract, &handler, 0, &id));
    OK_OR_SKIP(punctual_run(upcalls, 0));
    enum punctual_error error = punctual_wait(upcalls, &waited, 1, 5 * SECOND, NULL);
    enum punctual_error forgotten = punctual_forget(upcalls, id);
    /* In any case no handler spins longer than this. */
    atomic_store(&let_go, 1);
    CHECK(error == PUNCTUAL_OK);
    CHECK(waited.activity == PUNCTUAL_CONTAINED);
    CHECK(forgotten == PUNCTUAL_ESTUCK);
    OK(punctual_stop(upcalls, &stopped));
    CHECK(stopped.stuck == 0);
    CHECK(atomic_load(&contained) >= 1);
    CHECK(atomic_load(&from_notice) == PUNCTUAL_EDEADLK);
    OK(punctual_get_stats(upcalls, id, &stats));
    CHECK(stats.contained >= 1 && stats.late >= 1);
    OK(punctual_free(upcalls));
    return 0;
}
