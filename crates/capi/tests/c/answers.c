/* Asks about contracts and a trace file, and passes what is no contract and no trace. Needs no
 * privilege. Arguments: a contract that is refused, a trace with a late job, the same without its
 * end. Prints the answers as JSON, one a line. */
#include "check.h"

#define INVALID(call, words)                                                                       \
    do {                                                                                           \
        CHECK((call) == PUNCTUAL_EINVAL);                                                          \
        SAYS(words);                                                                               \
        CHECK(strpbrk(punctual_last_error(), "\n\033") == NULL);                                   \
        CHECK(result == NULL);                                                                     \
    } while (0)

static punctual_result *result = NULL;

/* Prints the result, and frees it. */
static void print(int code)
{
    CHECK(punctual_result_code(result) == code);
    printf("%s\n", punctual_result_json(result));
    OK(punctual_result_free(result));
    result = NULL;
}

static enum punctual_error admit(const char *text)
{
    struct punctual_declaration declared = {
        .size = sizeof declared, .text = text, .host_profile = "ideal"};
    return punctual_admit(&declared, 0, &result);
}

/* Returns a text of `count` times `part`. */
static char *many(const char *part, size_t count)
{
    size_t length = strlen(part), at;
    char *text = malloc(length * count + 1);
    CHECK(text != NULL);
    for (at = 0; at < count; at++)
        memcpy(text + at * length, part, length);
    text[length * count] = '\0';
    return text;
}

int main(int count, char **arguments)
{
    static const char *const HOSTILE[] = {"[", "{\"a\":", "[[task]]\n", "a.", "\xff", "[[", "'", "\""};
    const char *good = "[[task]]\nname = 'mixer'\nperiod = '10ms'\nwcet = '2ms'\n";
    struct punctual_declaration declared = {
        .size = sizeof declared, .text = good, .host_profile = "ideal"};
    struct punctual_simulation simulation = {.size = sizeof simulation, .until_ns = SECOND};
    char *first;
    size_t at;
    CHECK(count == 4);

    /* The answers. */
    OK(punctual_admit(&declared, 1, &result));
    print(PUNCTUAL_KEPT);
    OK(punctual_simulate(&declared, &simulation, &result));
    print(PUNCTUAL_KEPT);
    declared.text = NULL;
    declared.path = arguments[1];
    OK(punctual_admit(&declared, 0, &result));
    print(PUNCTUAL_BROKEN);
    OK(punctual_simulate(&declared, NULL, &result)); /* Refused, and no job is late all the same. */
    print(PUNCTUAL_BROKEN);
    OK(punctual_why(arguments[2], &result));
    print(PUNCTUAL_BROKEN);
    OK(punctual_why(arguments[3], &result));
    print(PUNCTUAL_BROKEN);

    /* A seed replays the run. */
    simulation.seeded = 1;
    simulation.seed = UINT64_MAX;
    declared.path = NULL;
    declared.text = good;
    OK(punctual_simulate(&declared, &simulation, &result));
    first = many(punctual_result_json(result), 1);
    CHECK(strstr(first, "\"arrivals\":\"sporadic\"") != NULL);
    OK(punctual_result_free(result));
    OK(punctual_simulate(&declared, &simulation, &result));
    CHECK(strcmp(first, punctual_result_json(result)) == 0);
    OK(punctual_result_free(result));
    free(first);
    result = NULL;

    /* Contracts that are none, with the position. */
    INVALID(admit("[[task]]\nname = 7\n"), "contract:2:8: ");
    INVALID(admit("[[task]]\nname = 'a\033[31m'\nperiod = '1ms'\nwcet = '2ms'\n"), "contract:");
    INVALID(admit("[[task]]\n# \xff\xfe\n"), "contract:2:");
    INVALID(admit(" {\"tasks\": 7}"), "contract:1:");
    for (at = 0; at < sizeof HOSTILE / sizeof *HOSTILE; at++) {
        char *text = many(HOSTILE[at], 100000);
        INVALID(admit(text), "contract:");
        free(text);
    }
    first = many("#", (8 << 20) + 1);
    INVALID(admit(first), "8 MiB");
    free(first);

    /* Arguments that are none. */
    INVALID(punctual_admit(NULL, 0, &result), "null");
    INVALID(punctual_admit(&declared, 0, NULL), "result");
    INVALID(punctual_simulate(NULL, NULL, &result), "null");
    INVALID(punctual_simulate(&declared, NULL, NULL), "result");
    declared.path = arguments[1];
    INVALID(punctual_admit(&declared, 0, &result), "not both");
    declared.text = declared.path = NULL;
    INVALID(punctual_admit(&declared, 0, &result), "a path or a text");
    declared.path = "/nonexistent/studio.toml";
    INVALID(punctual_admit(&declared, 0, &result), "/nonexistent/studio.toml: ");
    declared.path = "/dev/zero";
    INVALID(punctual_admit(&declared, 0, &result), "8 MiB");
    declared.path = "/";
    INVALID(punctual_simulate(&declared, NULL, &result), "/: ");
    declared.path = arguments[1];
    declared.host_profile = "/dev/zero";
    INVALID(punctual_admit(&declared, 0, &result), "KiB");
    declared.host_profile = "\xff\033";
    INVALID(punctual_admit(&declared, 0, &result), "no such host profile");
    declared.host_profile = "ideal";
    declared.size = 8;
    INVALID(punctual_admit(&declared, 0, &result), "sizeof(punctual_declaration)");
    declared.size = sizeof declared;
#define BAD(member, value, words)                                                                  \
    simulation.member = (value);                                                                   \
    INVALID(punctual_simulate(&declared, &simulation, &result), words);                            \
    simulation.member = 0
    BAD(arrivals, 5, "punctual_arrivals");
    BAD(exec_times, 3, "punctual_exec_times");
    BAD(reserved, 1, "reserved");
    BAD(until_ns, UINT64_MAX, "year");
    BAD(until_ns, 364 * 86400 * SECOND, "or simulate 1000000s");
    BAD(wake_up_ns, UINT64_MAX, "year");
    BAD(size, 8, "sizeof(punctual_simulation)");

    /* Traces that are none. */
    INVALID(punctual_why(NULL, &result), "trace is null");
    INVALID(punctual_why(arguments[2], NULL), "result");
    INVALID(punctual_why("/dev/null", &result), "/dev/null: ");
    INVALID(punctual_why("/", &result), "/: ");
    INVALID(punctual_why("/nonexistent/\xff", &result), "/nonexistent/");
    INVALID(punctual_why(arguments[1], &result), arguments[1]);

    INVALID(punctual_doctor("\xff", &result), "UTF-8");
    INVALID(punctual_doctor(NULL, NULL), "result");
    CHECK(punctual_result_code(NULL) == -1);
    CHECK(punctual_result_json(NULL) == NULL);
    OK(punctual_result_free(NULL));
    return 0;
}
