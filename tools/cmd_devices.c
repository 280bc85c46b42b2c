// rknnctl devices: which servers can be reached.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/interrupt.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/rknnctl.h"
#include "tools/table.h"
#include "tools/terminal.h"

#define MAX_DEVICES 64
#define WATCH_MS    1000

struct device {
    rknnd_device device;
    int result; // of rknnd_get_server_info(), which is asked when there is no obstacle
    rknnd_server_info info;
    char reason[700];
};

struct device_list {
    struct device items[MAX_DEVICES];
    size_t n;
};

// A server that was named stands first; one that is found too is not listed twice.
static void find_devices(struct device_list *l, const char *named, bool only)
{
    rknnd_device found[MAX_DEVICES];
    uint32_t n = 0;
    l->n = 0;
    if (named && *named)
        snprintf(l->items[l->n++].device.uri, sizeof l->items->device.uri, "%s", named);
    if (!only)
        rknnd_list_devices(found, MAX_DEVICES, &n);
    for (uint32_t i = 0; i < n && i < MAX_DEVICES && l->n < MAX_DEVICES; i++)
        if (l->n == 0 || strcmp(found[i].uri, l->items[0].device.uri) != 0)
            l->items[l->n++].device = found[i];
}

static void probe(struct device *d)
{
    d->info = (rknnd_server_info){.struct_size = sizeof d->info};
    d->result = RKNN_ERR_DEVICE_UNAVAILABLE;
    if (*d->device.obstacle) {
        snprintf(d->reason, sizeof d->reason, "%s: %s; %s", d->device.uri, d->device.obstacle,
                 d->device.advice);
        return;
    }
    d->result = rknnd_get_server_info(d->device.uri, &d->info);
    if (d->result < 0)
        snprintf(d->reason, sizeof d->reason, "%s", rknnd_last_error());
}

static size_t probe_all(struct device_list *l)
{
    size_t n_up = 0;
    for (size_t i = 0; i < l->n; i++) {
        probe(&l->items[i]);
        n_up += l->items[i].result == RKNN_SUCC;
    }
    return n_up;
}

static const char *state(const struct device *d)
{
    if (d->result == RKNN_SUCC)
        return "up";
    return *d->device.state ? d->device.state : "down";
}

static json_t *device_json(const struct device *d)
{
    json_t *o = d->result < 0 ? json_pack("{s:s, s:i, s:s}", "uri", d->device.uri, "code",
                                          d->result, "reason", d->reason)
                              : report_server_json(&d->info);
    json_object_set_new(o, "state", json_string(state(d)));
    if (*d->device.serial)
        json_object_set_new(o, "serial", json_string(d->device.serial));
    return o;
}

static int print_json(const struct device_list *l, struct failure *f)
{
    json_t *array = json_array();
    for (size_t i = 0; i < l->n; i++)
        json_array_append_new(array, device_json(&l->items[i]));
    return report_json(array, f);
}

static void add_row(struct table *t, const struct device *d)
{
    bool up = d->result == RKNN_SUCC;
    table_cell(t, "%s", d->device.uri);
    table_cell(t, "%s", up ? d->info.chip : "-");
    if (up)
        table_cell(t, "%u", d->info.n_cores);
    else
        table_cell(t, "-");
    table_cell(t, "%s", up ? d->info.backend : "-");
    table_cell(t, "%s", up ? d->info.software : "-");
    table_cell(t, "%s", state(d));
}

static int print_text(const struct device_list *l, struct failure *f)
{
    static const struct table_column columns[] = {
        {"URI", TABLE_LEFT, TABLE_CUT_END, 0},     {"CHIP", TABLE_LEFT, TABLE_FIXED, 0},
        {"CORES", TABLE_RIGHT, TABLE_FIXED, 0},    {"BACKEND", TABLE_LEFT, TABLE_FIXED, 0},
        {"VERSION", TABLE_LEFT, TABLE_CUT_END, 0}, {"STATE", TABLE_LEFT, TABLE_FIXED, 0},
    };
    struct table t;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < l->n; i++)
        add_row(&t, &l->items[i]);
    int r = table_print(&t, stdout, "", terminal_width(stdout));
    table_done(&t);
    if (r < 0)
        return failure_no_memory(f);
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].result < 0)
            fprintf(stderr, "%s\n", l->items[i].reason);
    return 0;
}

// ---- --watch -----------------------------------------------------------------------------------

static bool has(const struct device_list *l, const struct device *d)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->items[i].device.uri, d->device.uri) == 0 &&
            strcmp(l->items[i].device.obstacle, d->device.obstacle) == 0)
            return true;
    return false;
}

static void print_changes(const struct device_list *before, const struct device_list *now)
{
    for (size_t i = 0; i < before->n; i++)
        if (!has(now, &before->items[i]))
            printf("- %s\n", before->items[i].device.uri);
    for (size_t i = 0; i < now->n; i++)
        if (!has(before, &now->items[i]))
            printf("+ %s%s%s\n", now->items[i].device.uri,
                   *now->items[i].device.obstacle ? "  " : "", now->items[i].device.obstacle);
    fflush(stdout);
}

// What there is, then what comes and goes, until Ctrl-C. Nothing is connected to.
static int watch(const char *named, bool only, struct failure *f)
{
    struct device_list *lists = calloc(2, sizeof *lists);
    if (!lists)
        return failure_no_memory(f);
    interrupt_defer();
    for (unsigned turn = 0; !interrupt_seen(); turn ^= 1) {
        find_devices(&lists[turn], named, only);
        print_changes(&lists[!turn], &lists[turn]);
        poll(NULL, 0, WATCH_MS);
    }
    free(lists);
    return 0;
}

// Where nothing was found, the library says where it has looked.
static int nobody_answers(const struct device_list *l, struct failure *f)
{
    rknnd_server_info info = {.struct_size = sizeof info};
    if (l->n == 0 && rknnd_get_server_info(NULL, &info) < 0)
        return failure_set(f, EXIT_UNREACHABLE, "%s", rknnd_last_error());
    return failure_set(f, EXIT_UNREACHABLE, "no server answers; start rknnd or give --server URI");
}

int cmd_devices(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    bool json = false, watching = false;
    const struct option_row rows[] = {
        {'j', "json", OPTION_FLAG, &json, NULL, "print JSON", 0, 0},
        {'w', "watch", OPTION_FLAG, &watching, NULL, "go on, and print what comes and goes", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] devices [--watch]",
        .summary =
            "Lists the servers within reach: RKNND_SERVER, the local sockets, boards at a USB\n"
            "cable and boards behind adb; with --server only that one. Fails (3) if none\n"
            "of them answers.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = options_parse_n(&options, argc, argv, 0, 0, &first, f);
    if (r)
        return r;
    const char *named = settings->server ? settings->server : getenv("RKNND_SERVER");
    if (watching)
        return watch(named, settings->server, f);
    struct device_list l = {0};
    find_devices(&l, named, settings->server);
    size_t n_up = probe_all(&l);
    r = json ? print_json(&l, f) : print_text(&l, f);
    if (r == 0 && n_up == 0)
        return nobody_answers(&l, f);
    return r;
}
