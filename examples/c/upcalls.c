/*
 * Two real-time upcalls: a sender that sends eight packets every 40 ms, two at a time, until all are
 * sent, and a meter. Neither needs a lock for what they share.
 *
 *   cc -std=c99 upcalls.c $(pkg-config --cflags --libs punctual) && ./a.out [SECONDS]
 *
 * It exits as `punctual` does: 0 kept, 1 refused or late, 2 bad usage, 3 this host cannot.
 */
#include <inttypes.h>
#include <punctual.h>
#include <stdio.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)

/* Shared by both handlers: no other handler of the process runs between two yield points. */
struct link {
    unsigned to_send;
    unsigned sent;
    unsigned measured;
};

static uint32_t send_some(void *arg, uint64_t now_ns, uint32_t pdus)
{
    struct link *link = arg;
    uint32_t some = pdus < link->to_send ? pdus : link->to_send;

    (void)now_ns;
    link->to_send -= some; /* A real one would build and queue packets here. */
    link->sent += some;
    return link->to_send == 0 ? PUNCTUAL_DONE : some;
}

static uint32_t measure(void *arg, uint64_t now_ns, uint32_t pdus)
{
    struct link *link = arg;

    (void)now_ns;
    link->measured = link->sent;
    return pdus;
}

static void told(void *arg, const punctual_notice *notice)
{
    (void)arg;
    if (notice->kind == PUNCTUAL_NOTICE_OVERRUN)
        fprintf(stderr, "upcall %" PRIu32 ": %" PRIu64 " late\n", notice->id, notice->count);
}

/* Exits with the sentence unless all went well. */
static void need(enum punctual_error error)
{
    if (error == PUNCTUAL_OK)
        return;
    fprintf(stderr, "%s\n", punctual_last_error());
    exit(punctual_exit_status(error));
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;
    struct link link = {.to_send = 200 * seconds};
    struct punctual_options options = {.size = sizeof options, .on_notice = told};
    struct punctual_contract sender = {.size = sizeof sender,
                                       .name = "sender",
                                       .period_ns = 40 * MS,
                                       .time_per_pdu_ns = 250000,
                                       .batch = 8,
                                       .quantum = 2};
    struct punctual_contract meter = {.size = sizeof meter,
                                      .name = "meter",
                                      .period_ns = 20 * MS,
                                      .time_per_pdu_ns = 50000,
                                      .batch = 1,
                                      .quantum = 1,
                                      .overrun = PUNCTUAL_SKIP};
    struct punctual_handler sends = {.size = sizeof sends, .iterate = send_some, .arg = &link};
    struct punctual_handler measures = {.size = sizeof measures, .iterate = measure, .arg = &link};
    punctual_upcalls *upcalls;
    struct punctual_waited waited;
    struct punctual_stats stats = {.size = sizeof stats};
    uint32_t id, meter_id;

    need(punctual_open(&options, &upcalls));
    need(punctual_create(upcalls, &sender, &sends, 0, &id));
    need(punctual_create(upcalls, &meter, &measures, 0, &meter_id));
    need(punctual_run(upcalls, punctual_now() + 10 * MS));

    /* Until the sender has said PUNCTUAL_DONE. */
    waited.id = id;
    need(punctual_wait(upcalls, &waited, 1, 60000 * MS, NULL));
    need(punctual_stop(upcalls, NULL));
    need(punctual_get_stats(upcalls, id, &stats));
    printf("%u packets in %" PRIu64 " jobs, %" PRIu64 " of them late; the meter saw %u\n", link.sent,
           stats.jobs, stats.late, link.measured);
    printf("response time, us: p50 %" PRIu64 ", max %" PRIu64 "\n",
           stats.response_time.p50_ns / 1000, stats.response_time.max_ns / 1000);
    need(punctual_free(upcalls));
    return stats.late > 0;
}
