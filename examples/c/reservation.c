/*
 * A thread with a CPU reservation that works once a period and looks at what is left, and a time
 * constraint: may I have 3 ms before a deadline, yes or no?
 *
 *   cc -std=c99 reservation.c $(pkg-config --cflags --libs punctual) && ./a.out [SECONDS]
 *
 * It exits as `punctual` does: 0 kept, 1 refused or late, 2 bad usage, 3 this host cannot.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <punctual.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MS UINT64_C(1000000)

/* So much processor time, whatever it takes. */
static void work(uint64_t ns)
{
    struct timespec from, now;
    uint64_t done;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        done = (uint64_t)(now.tv_sec - from.tv_sec) * 1000 * MS + (uint64_t)now.tv_nsec -
               (uint64_t)from.tv_nsec;
    } while (done < ns);
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
    uint64_t seconds = argc > 1 ? strtoul(argv[1], NULL, 10) : 2;
    struct punctual_reserve reserve = {.size = sizeof reserve,
                                       .budget_ns = 2 * MS,
                                       .period_ns = 10 * MS,
                                       .enforcement = PUNCTUAL_HARD};
    struct punctual_reservation_info info = {.size = sizeof info};
    struct punctual_used used = {.size = sizeof used};
    punctual_reservations *reservations;
    punctual_reservation *own;
    punctual_constraint *constraint;
    uint64_t until = punctual_now() + seconds * 1000 * MS;
    unsigned periods = 0, over = 0;

    need(punctual_reservations_open(NULL, &reservations));
    need(punctual_reserve_thread(reservations, &reserve, &own));
    printf("%s\n", punctual_reservation_because(own));
    do {
        need(punctual_reservation_next(own, NULL));
        work(MS);
        need(punctual_reservation_get(own, &info));
        periods++;
        over += info.left_ns == 0;
    } while (punctual_now() < until);
    printf("%u periods, in %u of them nothing was left\n", periods, over);
    need(punctual_reservation_release(own));

    need(punctual_constraint_begin(reservations, 0, 3 * MS, punctual_now() + 100 * MS, &constraint));
    work(2 * MS);
    need(punctual_constraint_end(constraint, &used));
    printf("used %" PRIu64 " of %" PRIu64 " us, %s\n", used.used_ns / 1000, used.estimate_ns / 1000,
           used.in_time ? "in time" : "late");
    need(punctual_reservations_free(reservations));
    return !used.in_time;
}
