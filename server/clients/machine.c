// The limits of control groups are those of the process's group and of all above it. Version 2 has
// one tree, version 1 one for each controller; /proc/self/cgroup has a line for each tree:
//
//   0::/system.slice/rknnd.service
//   4:memory:/system.slice/rknnd.service
#include "server/clients/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/file/line.h"

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// A number in a file; "max", or no file: no limit.
static uint64_t read_limit(const char *folder, const char *name)
{
    char path[4200], text[32], *end;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return UINT64_MAX;
    if (!line_read(path, text, sizeof text))
        return UINT64_MAX;
    uint64_t n = strtoull(text, &end, 10);
    return end > text ? n : UINT64_MAX;
}

// `folder` is cut to `root` step by step.
static void read_groups(char *folder, size_t root, const char *memory, const char *pids,
                        struct machine *m)
{
    for (;;) {
        if (memory)
            m->memory = lower(m->memory, read_limit(folder, memory));
        if (pids)
            m->threads = lower(m->threads, read_limit(folder, pids));
        char *last = strrchr(folder + root, '/');
        if (!last)
            return;
        *last = 0;
    }
}

// One line of /proc/self/cgroup, which it changes.
static void read_tree(const char *sysfs, char *line, struct machine *m)
{
    char folder[4096];
    line[strcspn(line, "\n")] = 0;
    strsep(&line, ":");
    const char *controllers = strsep(&line, ":");
    if (!line)
        return;
    bool v2 = !*controllers, memory = strcmp(controllers, "memory") == 0;
    if (!v2 && !memory && strcmp(controllers, "pids") != 0)
        return;
    int root =
        snprintf(folder, sizeof folder, "%s/fs/cgroup%s%s", sysfs, v2 ? "" : "/", controllers);
    int n = snprintf(folder + root, sizeof folder - (size_t)root, "%s", line);
    if ((size_t)root + (size_t)n >= sizeof folder)
        return;
    read_groups(folder, (size_t)root,
                v2       ? "memory.max"
                : memory ? "memory.limit_in_bytes"
                         : NULL,
                v2       ? "pids.max"
                : memory ? NULL
                         : "pids.max",
                m);
}

// What clients make a process hold by a descriptor it mostly has mapped as well, and a worker has
// that of its model's mapped, too. A process without a mapping left has no memory for anybody.
static uint64_t most_mapped(void)
{
    uint64_t mappings = read_limit("/proc/sys/vm", "max_map_count");
    return mappings < UINT64_MAX ? mappings / 4 * 3 : UINT64_MAX;
}

// RLIM_INFINITY is the largest number. Root is not bound by RLIMIT_NPROC.
void machine_read(const char *sysfs, struct machine *ret)
{
    struct rlimit files, tasks;
    char line[4096];
    *ret = (struct machine){
        .memory = uv_get_total_memory(), .descriptors = UINT64_MAX, .threads = UINT64_MAX};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        ret->descriptors = files.rlim_cur;
    ret->descriptors = lower(ret->descriptors, most_mapped());
    if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &tasks) == 0)
        ret->threads = tasks.rlim_cur;
    cleanup(fclose_p) FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && strlen(sysfs) < 2048 && fgets(line, sizeof line, f))
        read_tree(sysfs, line, ret);
}
