// Exit codes, from statuses. `rknnctl help` lists them.
#include "tools/ui/exit_code.h"

#include "base/status.h"

enum exit_code exit_code_of(int status)
{
    switch (status) {
    case STATUS_OK:
        return EXIT_OK;
    case STATUS_PARAM_INVALID: // what was typed: a server's URI, shapes, cores
        return EXIT_USAGE;
    case STATUS_DEVICE_UNAVAILABLE:
        return EXIT_UNREACHABLE;
    case STATUS_MODEL_INVALID:
    case STATUS_PRE_COMPILE_MODEL:
    case STATUS_OPTIMIZATION_LEVEL:
    case STATUS_TARGET_PLATFORM_UNMATCH:
        return EXIT_MODEL;
    case STATUS_INPUT_INVALID:
        return EXIT_INPUT;
    default:
        return EXIT_RUNTIME;
    }
}
