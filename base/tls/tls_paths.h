// Where keys lie unless somebody says otherwise.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/// Of this process's user: $XDG_CONFIG_HOME/rknnd/tls.psk, or ~/.config/rknnd/tls.psk. False: he
/// has no such folder, or its name does not fit.
static inline bool tls_keys_path(char *ret, size_t size)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (config && *config == '/')
        n = snprintf(ret, size, "%s/rknnd/tls.psk", config);
    else if (home && *home == '/')
        n = snprintf(ret, size, "%s/.config/rknnd/tls.psk", home);
    return n > 0 && (size_t)n < size;
}
