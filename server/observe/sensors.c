// Temperatures, power, energy and cooling, from sysfs.
//
//   ROOT/class/thermal/thermal_zoneN/{type,temp,trip_point_M_type,trip_point_M_temp}
//   ROOT/class/thermal/cooling_deviceN/{type,cur_state,max_state}
//   ROOT/class/hwmon/hwmonN/{name,tempM_input,tempM_label,tempM_crit,powerM_input,powerM_average,…}
//   ROOT/class/powercap/NAME/{name,energy_uj,max_energy_range_uj,constraint_0_power_limit_uw}
//
// Runs on a thread of libuv; touches nothing but its arguments. Files that are missing or malformed
// are no reading: a sensor is absent then, and not 0.
#include "server/observe/sensors.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/line.h"
#include "base/text/text.h"

#define PATH_SIZE     512
#define KEY_SIZE      48
#define CHANNELS      64 // of a chip, and trip points of a zone, are looked at
#define MILLIKELVIN_0 (-273150)

struct sensor_list {
    const char *root;
    rknnd_Sensor *of;
    size_t n;
};

// A file of the entry that is looked at: FOLDER/KEY, where the key may have a number in it.
__attribute__((format(printf, 4, 5))) static bool sensor_text(const char *folder, char *ret,
                                                              size_t size, const char *key, ...)
{
    char path[PATH_SIZE], name[KEY_SIZE];
    va_list arguments;
    va_start(arguments, key);
    int n = vsnprintf(name, sizeof name, key, arguments);
    va_end(arguments);
    if (n >= (int)sizeof name ||
        snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    return line_read(path, ret, size);
}

// A whole number, which may be negative. False: the text is none.
static bool sensor_parse(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text || *end || isspace((unsigned char)*text))
        return false;
    *ret = n;
    return true;
}

#define sensor_number(folder, ret, ...)                                                            \
    ({                                                                                             \
        char text_[32];                                                                            \
        sensor_text((folder), text_, sizeof text_, __VA_ARGS__) && sensor_parse(text_, (ret));     \
    })

// Two readings with one name would be one series to whoever collects them.
static void sensor_name(const struct sensor_list *l, rknnd_Sensor *s, const char *name)
{
    char wanted[sizeof s->name];
    message_set_text(wanted, name);
    text_make_printable(wanted);
    message_set_text(s->name, wanted);
    unsigned more = 1;
    for (size_t i = 0; i < l->n; i++)
        if (l->of[i].kind == s->kind && strcmp(l->of[i].name, s->name) == 0) {
            snprintf(s->name, sizeof s->name, "%.*s #%u", (int)sizeof s->name - 8, wanted, ++more);
            message_set_text(s->name, s->name);
            i = (size_t)-1; // that one may be there, too
        }
}

static void sensor_add(struct sensor_list *l, enum sensor_kind kind, const char *name,
                       int64_t value, int64_t limit)
{
    if (l->n == SENSORS_MAX || value < (kind == SENSOR_TEMPERATURE ? MILLIKELVIN_0 : 0))
        return;
    rknnd_Sensor s = {.kind = kind, .value = value, .limit = limit > 0 ? limit : 0};
    sensor_name(l, &s, *name ? name : "unnamed");
    l->of[l->n++] = s;
}

// ---- thermal ------------------------------------------------------------------------------------

static int64_t sensor_critical(const char *folder)
{
    char type[32];
    int64_t at;
    for (int i = 0; i < CHANNELS; i++) {
        if (!sensor_text(folder, type, sizeof type, "trip_point_%d_type", i))
            return 0;
        if (strcmp(type, "critical") == 0 && sensor_number(folder, &at, "trip_point_%d_temp", i))
            return at;
    }
    return 0;
}

static void sensor_zone(struct sensor_list *l, const char *folder)
{
    char type[64] = "";
    int64_t value;
    if (!sensor_number(folder, &value, "temp"))
        return;
    sensor_text(folder, type, sizeof type, "type");
    sensor_add(l, SENSOR_TEMPERATURE, type, value, sensor_critical(folder));
}

static void sensor_cooling(struct sensor_list *l, const char *folder)
{
    char type[64] = "";
    int64_t value, most = 0;
    if (!sensor_number(folder, &value, "cur_state"))
        return;
    sensor_text(folder, type, sizeof type, "type");
    sensor_number(folder, &most, "max_state");
    sensor_add(l, SENSOR_COOLING, type, value, most);
}

// ---- hwmon --------------------------------------------------------------------------------------

// "ina226 vdd_npu", or "ina226 power1" where the chip has no label.
static void sensor_channel_name(const char *folder, const char *channel, char *ret, size_t size)
{
    char chip[32] = "hwmon", label[32] = "";
    sensor_text(folder, chip, sizeof chip, "name");
    sensor_text(folder, label, sizeof label, "%s_label", channel);
    snprintf(ret, size, "%s %s", chip, *label ? label : channel);
}

// Thermal zones have a chip of hwmon too, which the kernel makes: it is a link in the zone's
// folder.
static bool sensor_is_of_zone(const char *folder)
{
    char type[64], path[PATH_SIZE];
    return snprintf(path, sizeof path, "%s/device", folder) < (int)sizeof path &&
           sensor_text(path, type, sizeof type, "type") &&
           sensor_text(path, type, sizeof type, "temp");
}

static void sensor_chip(struct sensor_list *l, const char *folder)
{
    char channel[16], name[80];
    int64_t value, limit;
    for (int i = 1; i < CHANNELS && !sensor_is_of_zone(folder); i++) {
        limit = 0;
        snprintf(channel, sizeof channel, "temp%d", i);
        sensor_channel_name(folder, channel, name, sizeof name);
        sensor_number(folder, &limit, "temp%d_crit", i);
        if (sensor_number(folder, &value, "temp%d_input", i))
            sensor_add(l, SENSOR_TEMPERATURE, name, value, limit);
    }
    for (int i = 1; i < CHANNELS; i++) {
        limit = 0;
        snprintf(channel, sizeof channel, "power%d", i);
        sensor_channel_name(folder, channel, name, sizeof name);
        sensor_number(folder, &limit, "power%d_cap", i);
        if (sensor_number(folder, &value, "power%d_input", i) ||
            sensor_number(folder, &value, "power%d_average", i))
            sensor_add(l, SENSOR_POWER, name, value, limit);
    }
}

// ---- powercap -----------------------------------------------------------------------------------

// Kernels let root alone read these counters (they tell of what others compute).
static void sensor_cap(struct sensor_list *l, const char *folder)
{
    char name[64] = "";
    int64_t value, limit = 0;
    sensor_text(folder, name, sizeof name, "name");
    if (sensor_number(folder, &value, "energy_uj")) {
        sensor_number(folder, &limit, "max_energy_range_uj");
        sensor_add(l, SENSOR_ENERGY, name, value, limit);
    }
    limit = 0;
    if (sensor_number(folder, &value, "power_uw")) {
        sensor_number(folder, &limit, "constraint_0_power_limit_uw");
        sensor_add(l, SENSOR_POWER, name, value, limit);
    }
}

// ---- folders ------------------------------------------------------------------------------------

static int sensor_is_entry(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static void sensor_each(struct sensor_list *l, const char *below, const char *start,
                        void (*look)(struct sensor_list *l, const char *folder))
{
    char folder[PATH_SIZE];
    struct dirent **entries;
    snprintf(folder, sizeof folder, "%s/class/%s", l->root, below);
    int n = scandir(folder, &entries, sensor_is_entry, versionsort);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (strncmp(name, start, strlen(start)) == 0 &&
            snprintf(folder, sizeof folder, "%s/class/%s/%s", l->root, below, name) <
                (int)sizeof folder)
            look(l, folder);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

static int sensor_by_kind(const void *a, const void *b)
{
    const rknnd_Sensor *x = a, *y = b;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind)
                              : strcmp(x->name, y->name);
}

size_t sensors_read(const char *root, rknnd_Sensor *list)
{
    struct sensor_list l = {.root = root, .of = list};
    sensor_each(&l, "thermal", "thermal_zone", sensor_zone);
    sensor_each(&l, "thermal", "cooling_device", sensor_cooling);
    sensor_each(&l, "hwmon", "hwmon", sensor_chip);
    sensor_each(&l, "powercap", "", sensor_cap);
    qsort(list, l.n, sizeof *list, sensor_by_kind);
    return l.n;
}
