/* Shared by the test programs. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <punctual.h>

/* Exits with 1 unless `condition` holds. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition,                    \
                    punctual_last_error());                                                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call) CHECK((call) == PUNCTUAL_OK)

/* Exits with 3, which skips the test, if the host is not able or all is reserved by others. */
#define OK_OR_SKIP(call)                                                                           \
    do {                                                                                           \
        enum punctual_error error_ = (call);                                                       \
        if (error_ == PUNCTUAL_EHOST ||                                                            \
            (error_ == PUNCTUAL_EREFUSED &&                                                        \
             strstr(punctual_last_error(), "no processor bandwidth is left") != NULL)) {           \
            printf("skipped: %s\n", punctual_last_error());                                        \
            exit(3);                                                                               \
        }                                                                                          \
        CHECK(error_ == PUNCTUAL_OK);                                                              \
    } while (0)

/* Checks that the last error contains these words. */
#define SAYS(words) CHECK(strstr(punctual_last_error(), (words)) != NULL)

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

#endif
