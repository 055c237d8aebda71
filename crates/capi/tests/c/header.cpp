// Compiles the header with a C++ compiler, and calls a function.
#include <punctual.h>

#include <cstring>

int main()
{
    punctual_options options = {};
    options.size = sizeof options;
    options.placement = PUNCTUAL_ORDINARY;
    punctual_upcalls *upcalls = nullptr;
    if (punctual_open(&options, &upcalls) != PUNCTUAL_OK)
        return punctual_exit_status(PUNCTUAL_EINTERNAL);
    if (punctual_resume(upcalls, 0) != PUNCTUAL_EINVAL || std::strlen(punctual_last_error()) == 0)
        return 1;
    return punctual_exit_status(punctual_free(upcalls));
}
