/* Two modems of SpanDSP, what the one says heard by the other a block later: the bare library. An
 * operation is one modem's 160 samples, heard and said. */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <spandsp.h>

enum { BLOCK = 160, SETTLE = 50 * 12 };

struct end {
    v22bis_state_t *v22bis;
    fsk_tx_state_t *tx;
    fsk_rx_state_t *rx;
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

static void begin(struct end *end, const char *what, int calling) {
    memset(end, 0, sizeof *end);
    if (strcmp(what, "V22B") == 0) {
        end->v22bis = v22bis_init(NULL, 2400, V22BIS_GUARD_TONE_NONE, calling, get_bit, NULL, put_bit, NULL);
        return;
    }
    int caller = FSK_V21CH1, answerer = FSK_V21CH2;
    if (strcmp(what, "V23C") == 0) {
        caller = FSK_V23CH2, answerer = FSK_V23CH1;
    } else if (strcmp(what, "B103") == 0) {
        caller = FSK_BELL103CH2, answerer = FSK_BELL103CH1;
    }
    int sends = calling ? caller : answerer, receives = calling ? answerer : caller;
    end->tx = fsk_tx_init(NULL, &preset_fsk_specs[sends], get_bit, NULL);
    end->rx = fsk_rx_init(NULL, &preset_fsk_specs[receives], FSK_FRAME_MODE_ASYNC, put_bit, NULL);
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
