/* Tests that a refusal has the counter-offer in its sentence. Needs no privilege. */
#include "check.h"

static uint32_t iterate(void *arg, uint64_t now_ns, uint32_t pdus)
{
    (void)arg;
    (void)now_ns;
    return pdus;
}

int main(void)
{
    struct punctual_contract contract = {.size = sizeof contract,
                                         .name = "half",
                                         .period_ns = 40 * MS,
                                         .time_per_pdu_ns = 5 * MS,
                                         .batch = 4,
                                         .quantum = 1};
    struct punctual_handler handler = {.size = sizeof handler, .iterate = iterate};
    punctual_upcalls *upcalls;
    uint32_t id = 4711;

    OK(punctual_open(NULL, &upcalls));
    OK(punctual_create(upcalls, &contract, &handler, 0, &id));
    CHECK(id == 0);
    contract.name = "too much";
    contract.batch = 7;
    id = 4711;
    CHECK(punctual_create(upcalls, &contract, &handler, 0, &id) == PUNCTUAL_EREFUSED);
    CHECK(id == 4711);
    SAYS("refused by the");
    SAYS("\"too much\"");
    printf("%s\n", punctual_last_error());
    /* The sentence is one line, whatever the name. */
    contract.name = "too\nmuch\033";
    CHECK(punctual_create(upcalls, &contract, &handler, 0, &id) == PUNCTUAL_EREFUSED);
    CHECK(strpbrk(punctual_last_error(), "\n\033") == NULL);
    CHECK(punctual_exit_status(PUNCTUAL_EREFUSED) == 1);
    /* The refusal changed nothing: an upcall that fits beside the first is admitted. */
    contract.batch = 2;
    OK(punctual_create(upcalls, &contract, &handler, 0, &id));
    CHECK(id == 1);
    OK(punctual_free(upcalls));

    struct punctual_options options = {.size = sizeof options,
                                       .placement = PUNCTUAL_RESERVED,
                                       .budget_ns = 2 * MS,
                                       .period_ns = 8 * MS};
    OK(punctual_open(&options, &upcalls));
    contract.batch = 4;
    CHECK(punctual_create(upcalls, &contract, &handler, 0, &id) == PUNCTUAL_EREFUSED);
    SAYS("50.0 % of a CPU");
    OK(punctual_free(upcalls));
    return 0;
}
