/* Two modems of the bare SpanDSP library, each of which receives the other's samples a block later. An
 * operation is one modem's 160 samples, received and sent. A name that ends in ".42" has SpanDSP's own
 * V.42 over the modem, connected and idle; one that ends in ".42full" always has something to send. */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <spandsp.h>

enum { BLOCK = 160, SETTLE = 50 * 60, FRAME = 128 };

struct end {
    v22bis_state_t *v22bis;
    fsk_tx_state_t *tx;
    fsk_rx_state_t *rx;
    v42_state_t *v42;
    /* Messages to send over V.42, whether there is always one more, and messages received. */
    int to_send, full, came;
    int16_t said[2][BLOCK];
};

static unsigned long heard;

static int get_bit(void *user) {
    (void)user;
    return 1;
}

static void put_bit(void *user, int bit) {
    (void)user;
    heard += (unsigned long)bit;
}

static int get_v42_bit(void *user) {
    return v42_tx_bit(((struct end *)user)->v42);
}

static void put_v42_bit(void *user, int bit) {
    /* A negative value is a status report of the modem. */
    if (bit >= 0) v42_rx_bit(((struct end *)user)->v42, bit);
}

static int get_message(void *user, uint8_t *message, int room) {
    struct end *end = user;
    if (end->full) {
        int length = room < FRAME ? room : FRAME;
        memset(message, 0x55, (size_t)length);
        return length;
    }
    if (end->to_send == 0 || room < 4) return 0;
    end->to_send--;
    memset(message, 0x55, 4);
    return 4;
}

static void put_message(void *user, const uint8_t *message, int length) {
    (void)message;
    /* A negative length is a status report. */
    ((struct end *)user)->came += length > 0;
}

static void begin(struct end *end, const char *what, int calling) {
    memset(end, 0, sizeof *end);
    get_bit_func_t get = get_bit;
    put_bit_func_t put = put_bit;
    if (strstr(what, ".42")) {
        end->to_send = 1;
        end->full = strstr(what, ".42full") != NULL;
        /* Without detecting whether the far end supports it. */
        end->v42 = v42_init(NULL, calling, 0, get_message, put_message, end);
        v42_restart(end->v42);
        get = get_v42_bit, put = put_v42_bit;
    }
    if (strncmp(what, "V22B", 4) == 0) {
        end->v22bis = v22bis_init(NULL, 2400, V22BIS_GUARD_TONE_NONE, calling, get, end, put, end);
        return;
    }
    int caller = FSK_V21CH1, answerer = FSK_V21CH2;
    if (strncmp(what, "V23C", 4) == 0) {
        caller = FSK_V23CH2, answerer = FSK_V23CH1;
    } else if (strncmp(what, "B103", 4) == 0) {
        caller = FSK_BELL103CH2, answerer = FSK_BELL103CH1;
    }
    int sends = calling ? caller : answerer, receives = calling ? answerer : caller;
    end->tx = fsk_tx_init(NULL, &preset_fsk_specs[sends], get, end);
    end->rx = fsk_rx_init(NULL, &preset_fsk_specs[receives], FSK_FRAME_MODE_ASYNC, put, end);
}

static void serve(struct end *end, const struct end *far, int turn) {
    if (end->v22bis) {
        v22bis_rx(end->v22bis, far->said[1 - turn], BLOCK);
        v22bis_tx(end->v22bis, end->said[turn], BLOCK);
    } else {
        fsk_rx(end->rx, far->said[1 - turn], BLOCK);
        fsk_tx(end->tx, end->said[turn], BLOCK);
    }
}

static void finish(struct end *end) {
    if (end->v22bis) {
        v22bis_free(end->v22bis);
    } else {
        fsk_tx_free(end->tx);
        fsk_rx_free(end->rx);
    }
    if (end->v42) v42_free(end->v42);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(void) {
    static struct end ends[2];
    char current[16] = "", what[16];
    uint64_t operations;
    int turn = 0;
    printf("ready\n");
    fflush(stdout);
    while (scanf("%15s %" SCNu64, what, &operations) == 2) {
        if (strcmp(current, what) != 0) {
            for (int i = 0; i < 2; i++) {
                if (*current) finish(&ends[i]);
                begin(&ends[i], what, i == 0);
            }
            strcpy(current, what);
            for (int k = 0; k < 2 * SETTLE; k++) {
                serve(&ends[k % 2], &ends[1 - k % 2], turn);
                if (k % 2) turn = 1 - turn;
            }
            if (ends[0].v42 && !(ends[0].came && ends[1].came)) {
                printf("%s does not connect\n", what);
                fflush(stdout);
                return 1;
            }
        }
        uint64_t from = now();
        for (uint64_t k = 0; k < operations; k++) {
            serve(&ends[k % 2], &ends[1 - k % 2], turn);
            if (k % 2) turn = 1 - turn;
        }
        printf("%" PRIu64 "\n", now() - from);
        fflush(stdout);
    }
    return heard == 1;
}
