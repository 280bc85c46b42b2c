#include "base/file/find_daemon.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_there(char *path, const char *folder, size_t n, const char *name)
{
    return (size_t)snprintf(path, PATH_MAX, "%.*s/%s", (int)n, folder, name) < PATH_MAX &&
           access(path, X_OK) == 0;
}

// The daemon is in bin, programs beside it, the library in lib/rknnd/client or
// lib/ARCHITECTURE/rknnd/client; build trees have the same layout.
static bool find_in_installation(const char *beside, char *path)
{
    static const char *const ways[] = {"rknnd", "../../../bin/rknnd", "../../../../bin/rknnd"};
    const char *slash = beside ? strrchr(beside, '/') : NULL;
    for (size_t i = 0; slash && i < sizeof ways / sizeof *ways; i++)
        if (is_there(path, beside, (size_t)(slash - beside), ways[i]))
            return true;
    return false;
}

static bool find_in_path(char *path)
{
    const char *folders = getenv("PATH");
    for (const char *p = folders, *end; p && *p; p = *end ? end + 1 : end) {
        end = strchrnul(p, ':');
        if (end > p && is_there(path, p, (size_t)(end - p), "rknnd"))
            return true;
    }
    return false;
}

int find_daemon(const char *beside, char *ret, struct error *e)
{
    const char *named = getenv("RKNND_DAEMON");
    if (named && *named) {
        if ((size_t)snprintf(ret, PATH_MAX, "%s", named) < PATH_MAX)
            return 0;
        return error_set(e, STATUS_PARAM_INVALID, "RKNND_DAEMON is too long for a path");
    }
    if (find_in_installation(beside, ret) || find_in_path(ret))
        return 0;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "the program rknnd is neither in the installation of what starts it nor in "
                     "PATH; install it or name it in RKNND_DAEMON");
}
