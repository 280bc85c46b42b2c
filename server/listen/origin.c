// What the kernel says about the program at the other end of a connection.
#include "server/listen/origin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

// From /proc/PID/stat: "PID (name) S ...", where S is the state; T is stopped by a signal, t by a
// debugger. The name may contain anything, also brackets, hence the search for the last one.
bool origin_is_stopped(const struct origin *o)
{
    char path[32], stat[128];
    if (!o->local || o->pid <= 0)
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)o->pid);
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? fd : read(fd, stat, sizeof stat - 1);
    if (n <= 0)
        return false; // it is not to be seen from here, or has ended
    stat[n] = 0;
    const char *name_end = strrchr(stat, ')');
    return name_end && strlen(name_end) > 2 && strchr("Tt", name_end[2]);
}

// By the user id that the kernel reported when the connection was made.
bool origin_is_operator(const struct origin *o)
{
    return o->local && (o->uid == 0 || o->uid == geteuid());
}
