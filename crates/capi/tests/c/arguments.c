/* Tests that bad arguments are refused with a sentence. Needs no privilege. */
#include "check.h"

static uint32_t iterate(void *arg, uint64_t now_ns, uint32_t pdus)
{
    (void)arg;
    (void)now_ns;
    return pdus;
}

#define INVALID(call) CHECK((call) == PUNCTUAL_EINVAL)

int main(void)
{
    const struct punctual_contract good = {.size = sizeof good,
                                           .name = "good",
                                           .period_ns = 40 * MS,
                                           .time_per_pdu_ns = MS,
                                           .batch = 4,
                                           .quantum = 1};
    struct punctual_contract contract = good;
    struct punctual_handler handler = {.size = sizeof handler, .iterate = iterate};
    struct punctual_options options = {.size = sizeof options};
    struct punctual_waited waited = {.id = 0};
    struct punctual_stats stats = {.size = sizeof stats};
    struct punctual_event events[1];
    punctual_upcalls *upcalls = NULL;
    uint32_t id, activity;
    size_t count;

    CHECK(strcmp(punctual_last_error(), "") == 0);
    CHECK(strchr(punctual_version(), '.') != NULL);
    CHECK(punctual_now() > 0 && punctual_now() <= punctual_now());

    INVALID(punctual_open(NULL, NULL));
    options.size = 0;
    INVALID(punctual_open(&options, &upcalls));
    SAYS("sizeof(punctual_options)");
    options.size = sizeof options;
    options.placement = 9;
    INVALID(punctual_open(&options, &upcalls));
    options.placement = PUNCTUAL_ORDINARY;
    options.budget_ns = 1;
    INVALID(punctual_open(&options, &upcalls));
    options.placement = PUNCTUAL_RESERVED;
    INVALID(punctual_open(&options, &upcalls));
    options.period_ns = UINT64_MAX;
    INVALID(punctual_open(&options, &upcalls));
    SAYS("year");
    options.budget_ns = options.period_ns = 0;
    options.placement = PUNCTUAL_ORDINARY;
    options.flags = 64;
    INVALID(punctual_open(&options, &upcalls));
    options.flags = 0;
    options.room = UINT32_MAX;
    INVALID(punctual_open(&options, &upcalls));
    CHECK(upcalls == NULL);

    /* A program for a later library, which knows more members. */
    struct {
        struct punctual_options known;
        uint64_t more;
    } longer = {.known = {.size = sizeof longer, .placement = PUNCTUAL_ORDINARY}, .more = 1};
    INVALID(punctual_open(&longer.known, &upcalls));
    SAYS("update libpunctual");
    longer.more = 0;
    OK(punctual_open(&longer.known, &upcalls));

    INVALID(punctual_create(NULL, &contract, &handler, 0, &id));
    INVALID(punctual_create(upcalls, NULL, &handler, 0, &id));
    INVALID(punctual_create(upcalls, &contract, NULL, 0, &id));
    INVALID(punctual_create(upcalls, &contract, &handler, 0, NULL));
    INVALID(punctual_create(upcalls, &contract, &handler, 1, &id));
    SAYS("first_release_ns");
    handler.iterate = NULL;
    INVALID(punctual_create(upcalls, &contract, &handler, 0, &id));
    SAYS("iterate");
    handler.iterate = iterate;
#define BAD(member, value)                                                                         \
    contract = good;                                                                               \
    contract.member = (value);                                                                     \
    INVALID(punctual_create(upcalls, &contract, &handler, 0, &id))
    BAD(period_ns, 0);
    BAD(period_ns, UINT64_MAX);
    BAD(time_per_pdu_ns, 0);
    BAD(time_per_pdu_ns, UINT64_MAX);
    BAD(batch, 0);
    BAD(quantum, 0);
    BAD(quantum, 5);
    BAD(overrun, 5);
    BAD(reserved, 1);
    BAD(size, SIZE_MAX);
    BAD(size, sizeof contract - 8);

    struct punctual_best_effort polite = {.size = sizeof polite, .quantum = 1, .poll_ns = 1};
    INVALID(punctual_create_best_effort(upcalls, &polite, &handler, &id));
    SAYS("weight");
    polite.weight = 1;
    polite.time_per_pdu_ns = UINT64_MAX;
    INVALID(punctual_create_best_effort(upcalls, &polite, &handler, &id));

    INVALID(punctual_run(NULL, 0));
    INVALID(punctual_run(upcalls, UINT64_MAX));
    SAYS("year");
    INVALID(punctual_resume(NULL, 0));
    INVALID(punctual_close(upcalls, 0));
    INVALID(punctual_stop(upcalls, NULL));
    INVALID(punctual_wait(upcalls, &waited, 0, 0, NULL));
    INVALID(punctual_wait(upcalls, NULL, 1, 0, NULL));
    INVALID(punctual_wait(upcalls, &waited, SIZE_MAX, 0, NULL));
    INVALID(punctual_activity_of(upcalls, 0, NULL));
    OK(punctual_activity_of(upcalls, 12, &activity));
    CHECK(activity == PUNCTUAL_CLOSED);
    INVALID(punctual_drain(upcalls, NULL, 1, &count, NULL));
    INVALID(punctual_drain(upcalls, events, 1, NULL, NULL));
    OK(punctual_drain(upcalls, NULL, 0, &count, NULL));
    CHECK(count == 0);
    INVALID(punctual_get_stats(upcalls, 0, NULL));
    stats.size = 8;
    INVALID(punctual_get_stats(upcalls, 0, &stats));
    stats.size = sizeof stats;
    CHECK(punctual_get_stats(upcalls, 0, &stats) == PUNCTUAL_ENOENT);
    INVALID(punctual_forget(NULL, 0));
    CHECK(punctual_forget(upcalls, 0) == PUNCTUAL_ENOENT);
    OK(punctual_free(upcalls));
    OK(punctual_free(NULL));

    struct punctual_reserve reserve = {.size = sizeof reserve, .budget_ns = 1, .period_ns = 2};
    punctual_reservation *reservation;
    INVALID(punctual_reservations_open(NULL, NULL));
    INVALID(punctual_reserve_thread(NULL, &reserve, &reservation));
    INVALID(punctual_reserve_process(NULL, 1, &reserve, &reservation));
    INVALID(punctual_reservation_get(NULL, NULL));
    INVALID(punctual_reservation_next(NULL, NULL));
    INVALID(punctual_reservation_change(NULL, 1, 2));
    INVALID(punctual_constraint_begin(NULL, 0, 1, 2, NULL));
    INVALID(punctual_constraint_end(NULL, NULL));
    CHECK(punctual_reservation_because(NULL) == NULL);
    OK(punctual_reservation_release(NULL));
    OK(punctual_reservations_free(NULL));
    return 0;
}
