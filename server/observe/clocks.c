// Frequencies of CPUs, memory and devices, from sysfs.
//
//   ROOT/devices/system/cpu/cpufreq/policyN/scaling_cur_freq   kHz
//   ROOT/class/devfreq/NAME/cur_freq                           Hz
//
// Runs on a thread of libuv; touches nothing but its arguments. Files that are missing or malformed
// count as 0, and entries without a frequency are left out.
#include "server/observe/clocks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/line.h"

#define PATH_SIZE 512
#define HZ_MAX    UINT64_C(1000000000000)

// The first line of FOLDER/NAME/KEY. False: there is none.
static bool read_text(const char *folder, const char *name, const char *key, char *ret, size_t size)
{
    char path[PATH_SIZE];
    if (snprintf(path, sizeof path, "%s/%s/%s", folder, name, key) >= (int)sizeof path)
        return false;
    return line_read(path, ret, size);
}

// A decimal number in units of `unit` Hz; 0 if there is none or it cannot be a frequency.
static uint64_t read_number(const char *folder, const char *name, const char *key, uint64_t unit)
{
    char text[32], *end;
    if (!read_text(folder, name, key, text, sizeof text) || !isdigit((unsigned char)*text))
        return 0;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    return errno || *end || n > HZ_MAX / unit ? 0 : n * unit;
}

static void read_governor(const char *folder, const char *name, const char *key, rknnd_Clock *c)
{
    char text[64];
    if (!read_text(folder, name, key, text, sizeof text))
        return;
    message_set_text(c->governor, text);
}

// Turns "0 1 2 3" into "cpu0-3" and "0 2" into "cpu0,2": the CPUs that share this clock.
static void name_cpus(const char *list, rknnd_Clock *c)
{
    size_t used = (size_t)snprintf(c->name, sizeof c->name, "cpu");
    const char *separator = "";
    char *end;
    for (const char *at = list; used < sizeof c->name; at = end) {
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end == at)
            return;
        for (char *next; strtoul(end, &next, 10) == last + 1 && next != end; end = next)
            last++;
        int n = snprintf(c->name + used, sizeof c->name - used,
                         last > first ? "%s%lu-%lu" : "%s%lu", separator, first, last);
        used += n > 0 ? (size_t)n : 0;
        separator = ",";
    }
}

static bool read_cpu(const char *folder, const char *name, rknnd_Clock *c)
{
    char cpus[1024];
    c->hz = read_number(folder, name, "scaling_cur_freq", 1000);
    c->max_hz = read_number(folder, name, "cpuinfo_max_freq", 1000);
    read_governor(folder, name, "scaling_governor", c);
    message_set_text(c->domain, "CPU");
    if (read_text(folder, name, "related_cpus", cpus, sizeof cpus))
        name_cpus(cpus, c);
    else
        message_set_text(c->name, name);
    return c->hz > 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

// As Rockchip's kernels name them: "fdab0000.npu", "fb000000.gpu", and "dmc" for the memory.
static const char *domain_of(const char *name)
{
    return ends_with(name, ".npu")    ? "NPU"
           : ends_with(name, ".gpu")  ? "GPU"
           : strcmp(name, "dmc") == 0 ? "DDR"
                                      : "";
}

static bool read_device(const char *folder, const char *name, rknnd_Clock *c)
{
    c->hz = read_number(folder, name, "cur_freq", 1);
    c->max_hz = read_number(folder, name, "max_freq", 1);
    read_governor(folder, name, "governor", c);
    message_set_text(c->domain, domain_of(name));
    message_set_text(c->name, name);
    return c->hz > 0;
}

static int is_entry(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

// Appends to the list what read_one() finds in the folder; `n` is how many it has. Returns the new
// number.
static size_t read_all(const char *root, const char *below,
                       bool (*read_one)(const char *folder, const char *name, rknnd_Clock *c),
                       rknnd_Clock *list, size_t n)
{
    char folder[PATH_SIZE];
    struct dirent **entries;
    if (snprintf(folder, sizeof folder, "%s/%s", root, below) >= (int)sizeof folder)
        return n;
    int n_entries = scandir(folder, &entries, is_entry, versionsort);
    for (int i = 0; i < n_entries; i++) {
        if (n < CLOCKS_MAX) {
            list[n] = (rknnd_Clock){0};
            n += read_one(folder, entries[i]->d_name, &list[n]);
        }
        free(entries[i]);
    }
    if (n_entries >= 0)
        free(entries);
    return n;
}

size_t clocks_read(const char *root, rknnd_Clock *list)
{
    size_t n = read_all(root, "devices/system/cpu/cpufreq", read_cpu, list, 0);
    return read_all(root, "class/devfreq", read_device, list, n);
}
