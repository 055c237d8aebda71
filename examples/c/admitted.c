/*
 * Asks whether a contract fits on this host, runs it in virtual time if it does, and then runs a
 * program under a reservation beside it.
 *
 *   cc -std=c99 admitted.c $(pkg-config --cflags --libs punctual)
 *   ./a.out studio.toml [PROGRAM [ARGUMENT...]]
 *
 * It prints the answers as JSON, a line each, and exits as `punctual` does: 0 kept, 1 refused or
 * late, 2 bad usage or bad contract, 3 this host cannot; or as the program.
 */
#include <punctual.h>
#include <stdio.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)

/* Exits with the sentence unless all went well. */
static void need(enum punctual_error error)
{
    if (error == PUNCTUAL_OK)
        return;
    fprintf(stderr, "%s\n", punctual_last_error());
    exit(punctual_exit_status(error));
}

/* Prints the result, frees it, and exits unless its code is 0. */
static void answer(punctual_result *result)
{
    int code = punctual_result_code(result);

    printf("%s\n", punctual_result_json(result));
    need(punctual_result_free(result));
    if (code != PUNCTUAL_KEPT)
        exit(code);
}

int main(int argc, char **argv)
{
    struct punctual_declaration declaration = {.size = sizeof declaration};
    struct punctual_simulation simulation = {
        .size = sizeof simulation, .seeded = 1, .seed = 7, .until_ns = 1000 * MS};
    struct punctual_command command = {
        .size = sizeof command, .budget_ns = 2 * MS, .period_ns = 20 * MS};
    punctual_program *program;
    punctual_result *result;

    if (argc < 2) {
        fprintf(stderr, "usage: %s CONTRACT [PROGRAM [ARGUMENT...]]\n", argv[0]);
        return 2;
    }
    declaration.path = argv[1];
    need(punctual_admit(&declaration, 0, &result));
    answer(result);
    need(punctual_simulate(&declaration, &simulation, &result));
    answer(result);
    if (argc > 2) {
        command.argv = (const char *const *)&argv[2];
        need(punctual_program_start(&command, &program));
        need(punctual_program_wait(program, UINT64_MAX, &result));
        need(punctual_program_free(program));
        answer(result);
    }
    return 0;
}
