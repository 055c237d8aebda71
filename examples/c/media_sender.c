/*
 * A media sender: fifty packets a second of up to 1200 bytes, each promised to leave within 10 ms.
 *
 *   cc -std=c99 media_sender.c $(pkg-config --cflags --libs punctual)
 *   ./a.out 192.0.2.7:4000 [SECONDS [SOCKET]]
 *
 * It exits as `punctual` does: 1 refused, 2 bad usage, 3 this host cannot (no broker answers).
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <punctual.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MS UINT64_C(1000000)

/* Exits with the sentence unless all went well. */
static void need(enum punctual_error error)
{
    if (error == PUNCTUAL_OK)
        return;
    fprintf(stderr, "%s\n", punctual_last_error());
    exit(punctual_exit_status(error));
}

static void sleep_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

/* After the server's end: the next one gets the same queue, so nothing is lost. */
static void rejoin(punctual_channel *channel)
{
    enum punctual_error error = PUNCTUAL_EHOST;
    int tries;

    for (tries = 0; tries < 50 && error == PUNCTUAL_EHOST; tries++) {
        sleep_until(punctual_now() + 100 * MS);
        error = punctual_channel_rejoin(channel);
    }
    need(error);
}

int main(int argc, char **argv)
{
    unsigned packets = argc > 2 ? 50 * (unsigned)strtoul(argv[2], NULL, 10) : 250;
    struct punctual_channel_request request = {.size = sizeof request,
                                               .name = "media",
                                               .address = argc > 1 ? argv[1] : NULL,
                                               .broker = argc > 3 ? argv[3] : NULL,
                                               .spacing_ns = 20 * MS,
                                               .delay_bound_ns = 10 * MS,
                                               .max_message = 1200,
                                               .min_message = 160,
                                               .burst = 2,
                                               .direction = PUNCTUAL_SEND};
    struct punctual_channel_info info = {.size = sizeof info};
    punctual_channel *channel;
    unsigned char frame[1200] = {0};
    uint64_t start;
    unsigned i;

    need(punctual_channel_open(&request, &channel));
    need(punctual_channel_get(channel, &info));
    printf("grant %" PRIu64 ": promised within %" PRIu64 " us\n", info.grant,
           info.delay_bound_ns / 1000);
    start = punctual_now();
    for (i = 0; i < packets; i++) {
        size_t length = 160 + i * 37 % 1041;
        enum punctual_error error;

        sleep_until(start + i * 20 * MS);
        frame[0] = (unsigned char)i; /* A real one would put encoded sound here. */
        while ((error = punctual_channel_send(channel, frame, length, UINT64_MAX)) == PUNCTUAL_EGONE)
            rejoin(channel);
        need(error);
    }
    need(punctual_channel_drain(channel, 5000 * MS));
    printf("%u packets sent\n", packets);
    need(punctual_channel_close(channel));
    return 0;
}
