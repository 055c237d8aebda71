/* A process with an upcall every five milliseconds. Says how many jobs there were for each line that it
 * reads, and stops at the end of them. */
#include <stdatomic.h>
#include <stdio.h>

#include <punctual.h>

static uint32_t iterate(void *jobs, uint64_t now_ns, uint32_t pdus)
{
    (void)now_ns;
    atomic_fetch_add((atomic_uint *)jobs, 1);
    return pdus;
}

static int failed(void)
{
    printf("> %s\n", punctual_last_error());
    return 1;
}

int main(void)
{
    static atomic_uint jobs;
    struct punctual_options options = {.size = sizeof options, .placement = PUNCTUAL_UPCALLS};
    struct punctual_contract contract = {.size = sizeof contract,
                                         .name = "u",
                                         .period_ns = 5000000,
                                         .time_per_pdu_ns = 100000,
                                         .batch = 2,
                                         .quantum = 1};
    struct punctual_handler handler = {.size = sizeof handler, .iterate = iterate, .arg = &jobs};
    punctual_upcalls *upcalls;
    uint32_t id;
    char line[64];

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (punctual_open(&options, &upcalls) != PUNCTUAL_OK ||
        punctual_create(upcalls, &contract, &handler, 0, &id) != PUNCTUAL_OK ||
        punctual_run(upcalls, 0) != PUNCTUAL_OK)
        return failed();
    puts("> ready");
    while (fgets(line, sizeof line, stdin) != NULL)
        printf("> %u\n", atomic_load(&jobs));
    if (punctual_free(upcalls) != PUNCTUAL_OK)
        return failed();
    return 0;
}
