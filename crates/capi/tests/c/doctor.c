/* Prints what this host can promise, as JSON. */
#include "check.h"

int main(void)
{
    punctual_result *result;
    int code;
    OK(punctual_doctor(NULL, &result));
    code = punctual_result_code(result);
    CHECK(code == PUNCTUAL_KEPT || code == PUNCTUAL_UNABLE);
    CHECK((strstr(punctual_result_json(result), "\"able\":true") != NULL) == (code == 0));
    printf("%s\n", punctual_result_json(result));
    OK(punctual_result_free(result));
    return 0;
}
