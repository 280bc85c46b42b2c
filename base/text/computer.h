// What computes for a backend that is no chip's.
#pragma once

#include <string.h>

/// Whose times a server's are that has no device's (RKNND_TIMING_MACHINE): the emulator's, which is
/// a backend of its own and one way of "open", or the software NPU's. `backend`: as the server
/// says.
static inline const char *computer_name(const char *backend)
{
    return strcmp(backend, "emu") == 0 || strcmp(backend, "open") == 0 ? "emulator"
                                                                       : "software NPU";
}
