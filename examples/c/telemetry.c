/*
 * Telemetry: a publisher of readings ten times a second, and who receives them in an event loop, each by
 * a channel.
 *
 *   cc -std=c99 telemetry.c $(pkg-config --cflags --libs punctual)
 *   ./a.out receive 127.0.0.1:4001 [SECONDS [SOCKET]] &
 *   ./a.out publish 127.0.0.1:4001 [SECONDS [SOCKET]]
 *
 * It exits as `punctual` does: 1 refused, 2 bad usage, 3 this host cannot (no broker answers).
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <poll.h>
#include <punctual.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define READING 64

/* Exits with the sentence unless all went well. */
static void need(enum punctual_error error)
{
    if (error == PUNCTUAL_OK)
        return;
    fprintf(stderr, "%s\n", punctual_last_error());
    exit(punctual_exit_status(error));
}

static void publish(punctual_channel *channel, unsigned seconds)
{
    unsigned char reading[READING] = {0};
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 100 * 1000000};
    unsigned i;

    for (i = 0; i < 10 * seconds; i++) {
        reading[0] = (unsigned char)i; /* A real one would put what it measured here. */
        need(punctual_channel_send(channel, reading, sizeof reading, 1000 * MS));
        nanosleep(&pause, NULL);
    }
    need(punctual_channel_drain(channel, 1000 * MS));
    printf("%u readings published\n", 10 * seconds);
}

/* Takes what there is. */
static void drain(punctual_channel *channel, unsigned *count, uint64_t *longest)
{
    struct punctual_received received = {.size = sizeof received};
    unsigned char reading[READING];
    enum punctual_error error;

    while ((error = punctual_channel_try_receive(channel, reading, sizeof reading, &received)) ==
           PUNCTUAL_OK) {
        uint64_t lay = punctual_now() - received.arrived_ns;

        *longest = lay > *longest ? lay : *longest;
        ++*count;
    }
    if (error != PUNCTUAL_EAGAIN)
        need(error);
}

static void receive(punctual_channel *channel, unsigned seconds)
{
    uint64_t until = punctual_now() + 1000 * MS * seconds, longest = 0;
    struct pollfd bell = {.events = POLLIN};
    unsigned count = 0;

    need(punctual_channel_fd(channel, &bell.fd));
    printf("ready\n");
    fflush(stdout);
    while (punctual_now() < until) {
        uint32_t work;

        need(punctual_channel_before_poll(channel, &work));
        poll(&bell, 1, work ? 0 : 100);
        need(punctual_channel_after_poll(channel));
        drain(channel, &count, &longest);
    }
    printf("%u readings received; the longest lay here for %" PRIu64 " us\n", count,
           longest / 1000);
}

int main(int argc, char **argv)
{
    int receives = argc > 1 && strcmp(argv[1], "receive") == 0;
    unsigned seconds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 5;
    struct punctual_channel_request request = {
        .size = sizeof request,
        .name = "telemetry",
        .address = argc > 2 ? argv[2] : NULL,
        .broker = argc > 4 ? argv[4] : NULL,
        .spacing_ns = 100 * MS,
        .delay_bound_ns = 20 * MS,
        .max_message = READING,
        .min_message = READING,
        .direction = receives ? PUNCTUAL_RECEIVE : PUNCTUAL_SEND};
    punctual_channel *channel;

    if (!receives && (argc < 2 || strcmp(argv[1], "publish") != 0)) {
        fprintf(stderr, "usage: telemetry publish|receive ADDRESS:PORT [SECONDS [SOCKET]]\n");
        return 2;
    }
    need(punctual_channel_open(&request, &channel));
    if (receives)
        receive(channel, seconds);
    else
        publish(channel, seconds);
    need(punctual_channel_close(channel));
    return 0;
}
