// What the kernel says of the program at the other end.
#include "server/listen/origin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

// The state is the first word behind the program's name, which may hold anything.
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

bool origin_is_operator(const struct origin *o)
{
    return o->local && (o->uid == 0 || o->uid == geteuid());
}
