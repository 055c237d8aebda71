/* Runs programs under reservations. Without an argument, only passes bad arguments, which needs no
 * privilege. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static const struct punctual_command RESERVED = {
    .size = sizeof(struct punctual_command), .budget_ns = 2 * MS, .period_ns = 20 * MS};

static punctual_program *program = NULL;
static punctual_result *result = NULL;

static enum punctual_error start(const char *const *argv)
{
    struct punctual_command command = RESERVED;
    command.argv = argv;
    return punctual_program_start(&command, &program);
}

static enum punctual_error shell(const char *script, const char *argument)
{
    const char *argv[] = {"sh", "-c", script, "sh", argument, NULL};
    return start(argv);
}

static void ends(int code, const char *words)
{
    OK(punctual_program_wait(program, 60 * SECOND, &result));
    CHECK(punctual_result_code(result) == code);
    CHECK(strstr(punctual_result_json(result), words) != NULL);
    printf("%s\n", punctual_result_json(result));
    OK(punctual_result_free(result));
    result = NULL;
}

static void bad_arguments(void)
{
    const char *argv[] = {"true", NULL}, *none[] = {NULL}, *empty[] = {"", NULL};
    struct punctual_command command = RESERVED;
    int32_t pid;
#define INVALID(call, words)                                                                       \
    CHECK((call) == PUNCTUAL_EINVAL);                                                              \
    SAYS(words)
#define BAD(member, value, words)                                                                  \
    command = RESERVED;                                                                            \
    command.argv = argv;                                                                           \
    command.member = (value);                                                                      \
    INVALID(punctual_program_start(&command, &program), words)
    BAD(size, 8, "sizeof(punctual_command)");
    BAD(argv, NULL, "argv");
    BAD(argv, none, "no program");
    BAD(argv, empty, "no program");
    BAD(budget_ns, 0, "the reservation cannot be");
    BAD(budget_ns, 21 * MS, "the reservation cannot be");
    BAD(period_ns, UINT64_MAX, "year");
    BAD(reserved, 1, "reserved");
    INVALID(punctual_program_start(NULL, &program), "null");
    command = RESERVED;
    command.argv = argv;
    INVALID(punctual_program_start(&command, NULL), "program");
    INVALID(punctual_program_pid(NULL, &pid), "program is null");
    INVALID(punctual_program_signal(NULL, SIGTERM), "program is null");
    INVALID(punctual_program_wait(NULL, 0, &result), "program is null");
    OK(punctual_program_free(NULL));
    CHECK(program == NULL && result == NULL);
}

static void *start_and_end(void *unused)
{
    (void)unused;
    OK(shell("sleep 0.2; exit 7", ""));
    return NULL;
}

int main(int count, char **arguments)
{
    const char *sleeps[] = {"sleep", "60", NULL}, *missing[] = {"/nonexistent/\xff", NULL};
    struct timespec none = {0, 0};
    struct punctual_command command = RESERVED;
    pthread_t thread;
    sigset_t terms;
    int32_t pid;
    (void)arguments;

    bad_arguments();
    if (count == 1)
        return 0;

    /* A signal for this process is taken by its own threads, and not passed on. */
    sigemptyset(&terms);
    sigaddset(&terms, SIGTERM);
    CHECK(pthread_sigmask(SIG_BLOCK, &terms, NULL) == 0);
    OK_OR_SKIP(start(sleeps));
    OK(punctual_program_pid(program, &pid));
    CHECK(pid > 0 && kill(pid, 0) == 0);
    CHECK(punctual_program_wait(program, 0, &result) == PUNCTUAL_ETIMEDOUT);
    CHECK(punctual_program_wait(program, 1, NULL) == PUNCTUAL_EINVAL);
    CHECK(punctual_program_pid(program, NULL) == PUNCTUAL_EINVAL);
    CHECK(punctual_program_signal(program, 4711) == PUNCTUAL_EINVAL);
    CHECK(punctual_program_signal(program, 0) == PUNCTUAL_EINVAL);
    CHECK(kill(getpid(), SIGTERM) == 0);
    CHECK(punctual_program_wait(program, 50 * MS, &result) == PUNCTUAL_ETIMEDOUT);
    CHECK(sigtimedwait(&terms, NULL, &none) == SIGTERM);
    OK(punctual_program_signal(program, SIGTERM));
    ends(128 + SIGTERM, "\"signal\":15");
    ends(128 + SIGTERM, "\"budget_ns\":2000000");
    CHECK(punctual_program_signal(program, SIGTERM) == PUNCTUAL_ENOENT);
    OK(punctual_program_free(program));

    /* A program outlives the thread that started it, and gets its arguments as they are. */
    CHECK(pthread_create(&thread, NULL, start_and_end, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    ends(7, "\"exit_code\":7");
    OK(punctual_program_free(program));
    OK(shell("test \"$1\" = \"$(printf '\\377')\"", "\xff"));
    ends(0, "\"exit_code\":0");
    OK(punctual_program_free(program));

    /* A program that still runs is killed with its handle. */
    OK(start(sleeps));
    OK(punctual_program_pid(program, &pid));
    OK(punctual_program_free(program));
    CHECK(kill(pid, 0) == -1 && errno == ESRCH);

    /* Where the kernel keeps no exit states, there is no account. */
    signal(SIGCHLD, SIG_IGN);
    OK(shell("sleep 0.2; exit 3", ""));
    CHECK(punctual_program_wait(program, 60 * SECOND, &result) == PUNCTUAL_EHOST);
    SAYS("cannot wait for the programs");
    OK(punctual_program_free(program));
    signal(SIGCHLD, SIG_DFL);

    program = NULL;
    CHECK(start(missing) == PUNCTUAL_EINVAL);
    SAYS("cannot run \"/nonexistent/");
    command.argv = sleeps;
    command.directory = "/nonexistent";
    CHECK(punctual_program_start(&command, &program) == PUNCTUAL_EINVAL);
    SAYS("/nonexistent is no directory");
    command.directory = NULL;
    command.budget_ns = command.period_ns;
    CHECK(punctual_program_start(&command, &program) == PUNCTUAL_EREFUSED);
    CHECK(program == NULL);
    return 0;
}
