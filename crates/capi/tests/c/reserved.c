/* Tests reservations of a thread, by both back ends, and of a process, and a time constraint. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void work(uint64_t ns)
{
    struct timespec from, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((uint64_t)(now.tv_sec - from.tv_sec) * SECOND + (uint64_t)now.tv_nsec <
           (uint64_t)from.tv_nsec + ns);
}

static void *releases(void *reservation)
{
    static int error;
    error = punctual_reservation_release(reservation);
    return &error;
}

static void of_thread(punctual_reservations *given, uint32_t enforcement, uint32_t backend)
{
    struct punctual_reserve reserve = {.size = sizeof reserve,
                                       .budget_ns = 5 * MS,
                                       .period_ns = 50 * MS,
                                       .enforcement = enforcement};
    struct punctual_reservation_info info = {.size = sizeof info};
    punctual_reservation *own;
    pthread_t other;
    void *error;
    uint64_t start, next;

    OK_OR_SKIP(punctual_reserve_thread(given, &reserve, &own));
    CHECK(punctual_reservation_because(own)[0] != '\0');
    OK(punctual_reservation_next(own, &start));
    work(MS);
    OK(punctual_reservation_get(own, &info));
    /* Without SCHED_DEADLINE a timetable is used. */
    CHECK(info.backend == backend || info.backend == PUNCTUAL_TIMETABLE);
    CHECK(info.budget_ns == 5 * MS && info.period_ns == 50 * MS);
    CHECK(info.used_ns >= MS && info.left_ns < 5 * MS);
    if (info.backend == PUNCTUAL_TIMETABLE) {
        CHECK(info.cpu != UINT32_MAX && info.since_ns > 0 && info.since_ns <= punctual_now());
        CHECK(info.slots >= 1 && info.slots != UINT64_MAX && info.failures == 0);
    } else {
        CHECK(info.cpu == UINT32_MAX && info.since_ns == UINT64_MAX);
        CHECK(info.slots == UINT64_MAX && info.failures == UINT64_MAX);
    }
    OK(punctual_reservation_change(own, 4 * MS, 40 * MS));
    OK(punctual_reservation_next(own, &next));
    CHECK(next > start && (next - start) % (10 * MS) == 0);
    CHECK(punctual_reservation_change(own, 3, 2) == PUNCTUAL_EINVAL);
    OK(punctual_reservation_get(own, &info));
    CHECK(info.budget_ns == 4 * MS);
    /* Another thread cannot release it. */
    CHECK(pthread_create(&other, NULL, releases, own) == 0);
    CHECK(pthread_join(other, &error) == 0);
    CHECK(*(int *)error == PUNCTUAL_EINVAL);
    OK(punctual_reservation_release(own));
}

static void of_process(punctual_reservations *given)
{
    struct punctual_reserve reserve = {.size = sizeof reserve,
                                       .budget_ns = 5 * MS,
                                       .period_ns = 50 * MS,
                                       .enforcement = PUNCTUAL_HARD};
    struct punctual_reservation_info info = {.size = sizeof info};
    punctual_reservation *held;
    uint64_t until = punctual_now() + 10 * SECOND;

    CHECK(punctual_reserve_process(given, getpid(), &reserve, &held) == PUNCTUAL_EINVAL);
    CHECK(punctual_reserve_process(given, 0, &reserve, &held) == PUNCTUAL_EINVAL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(20);
        for (;;)
            ;
    }
    enum punctual_error error = punctual_reserve_process(given, child, &reserve, &held);
    if (error == PUNCTUAL_OK) {
        do {
            struct timespec nap = {0, 10000000};
            nanosleep(&nap, NULL);
            error = punctual_reservation_get(held, &info);
        } while (error == PUNCTUAL_OK && info.slots < 5 && punctual_now() < until);
        if (error == PUNCTUAL_OK)
            error = punctual_reservation_change(held, 4 * MS, 40 * MS);
        if (error == PUNCTUAL_OK)
            error = punctual_reservation_release(held);
    } else if (error == PUNCTUAL_EHOST) {
        printf("a process is not held here: %s\n", punctual_last_error());
        info.slots = 5;
        info.failures = 0;
        error = PUNCTUAL_OK;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(error == PUNCTUAL_OK);
    CHECK(info.slots >= 5 && info.failures == 0);
    CHECK(punctual_reserve_process(given, child, &reserve, &held) != PUNCTUAL_OK);
}

int main(void)
{
    punctual_reservations *given;
    punctual_reservation *own;
    punctual_constraint *constraint;
    struct punctual_used used = {.size = sizeof used};
    struct punctual_reserve much = {
        .size = sizeof much, .budget_ns = 999 * MS / 10, .period_ns = 100 * MS};

    OK_OR_SKIP(punctual_reservations_open(NULL, &given));
    of_thread(given, PUNCTUAL_SOFT, PUNCTUAL_TIMETABLE);
    of_thread(given, PUNCTUAL_HARD, PUNCTUAL_KERNEL);
    CHECK(punctual_reserve_thread(given, &much, &own) == PUNCTUAL_EREFUSED);
    SAYS("would");
    printf("%s\n", punctual_last_error());

    uint64_t now = punctual_now();
    OK(punctual_constraint_begin(given, 0, 2 * MS, now + 500 * MS, &constraint));
    work(MS);
    OK(punctual_constraint_end(constraint, &used));
    CHECK(used.used_ns >= MS && used.estimate_ns == 2 * MS);
    now = punctual_now();
    CHECK(punctual_constraint_begin(given, 0, 10 * MS, now + 9 * MS, &constraint) ==
          PUNCTUAL_EREFUSED);
    SAYS("at most");
    printf("%s\n", punctual_last_error());
    CHECK(punctual_constraint_begin(given, 0, 0, now + SECOND, &constraint) == PUNCTUAL_EINVAL);

    of_process(given);
    OK(punctual_reservations_free(given));
    return 0;
}
