/* Tests that invalid channels are refused with a sentence. Needs no broker. */
#include "check.h"

#define REFUSED(member, value, words)                                                              \
    request = good;                                                                                \
    request.member = (value);                                                                      \
    CHECK(punctual_channel_open(&request, &channel) == PUNCTUAL_EINVAL);                           \
    SAYS(words)

int main(void)
{
    struct punctual_channel_request good = {.size = sizeof good,
                                            .name = "media",
                                            .address = "192.0.2.7:4000",
                                            .broker = "/nonexistent/broker.sock",
                                            .spacing_ns = 20 * MS,
                                            .delay_bound_ns = 10 * MS,
                                            .max_message = 1200};
    struct punctual_channel_request request = good;
    struct punctual_channel_info info = {.size = sizeof info};
    struct punctual_received received = {.size = sizeof received};
    punctual_channel *channel = NULL;
    char bytes[8];
    uint32_t work;
    int fd;

    CHECK(punctual_channel_open(NULL, &channel) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_open(&request, NULL) == PUNCTUAL_EINVAL);
    REFUSED(size, sizeof request - 16, "sizeof(punctual_channel_request)");
    REFUSED(address, "studio:4000", "192.0.2.7:4000");
    REFUSED(address, NULL, "192.0.2.7:4000");
    REFUSED(spacing_ns, 0, "spacing");
    REFUSED(spacing_ns, UINT64_MAX, "year");
    REFUSED(max_message, 0, "largest message");
    REFUSED(min_message, 1201, "smallest message");
    REFUSED(delay_bound_ns, UINT64_MAX, "year");
    REFUSED(direction, 2, "punctual_direction");
    REFUSED(framing, 2, "punctual_framing");
    REFUSED(too_early, 2, "punctual_too_early");
    REFUSED(policing, 4, "punctual_policing");
    good.burst = 99;
    REFUSED(policing, PUNCTUAL_CREDITS_LOW, "twice 50 messages");
    good.burst = 4;
    good.direction = PUNCTUAL_RECEIVE;
    REFUSED(policing, PUNCTUAL_CREDITS_HIGH, "credits");
    good.direction = PUNCTUAL_SEND;
    good.burst = 0;
    good.policing = PUNCTUAL_CREDITS_MEDIUM;
    REFUSED(slots, 3, "slots");

    CHECK(punctual_channel_open(&good, &channel) == PUNCTUAL_EHOST);
    SAYS("/nonexistent/broker.sock");
    CHECK(channel == NULL);

    CHECK(punctual_channel_rejoin(NULL) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_get(NULL, &info) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_send(NULL, bytes, 8, 0) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_try_send(NULL, bytes, 8) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_drain(NULL, 0) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_receive(NULL, bytes, 8, 0, &received) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_try_receive(NULL, bytes, 8, &received) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_fd(NULL, &fd) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_before_poll(NULL, &work) == PUNCTUAL_EINVAL);
    CHECK(punctual_channel_after_poll(NULL) == PUNCTUAL_EINVAL);
    OK(punctual_channel_close(NULL));
    return 0;
}
