// rknnctl devices: which servers can be reached.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/options.h"
#include "tools/report.h"
#include "tools/rknnctl.h"
#include "tools/table.h"
#include "tools/terminal.h"

#define MAX_DEVICES 4

// The library tries these two when nothing else is said (rknnd-client.7).
#define SYSTEM_URI "unix:/run/rknnd/rknnd.sock"

struct device {
    char uri[256];
    int result; // of rknnd_get_server_info()
    rknnd_server_info info;
    char reason[480];
};

struct device_list {
    struct device items[MAX_DEVICES];
    size_t n;
};

static void add(struct device_list *l, const char *prefix, const char *uri, const char *suffix)
{
    struct device *d = &l->items[l->n];
    if (!uri || !*uri)
        return;
    snprintf(d->uri, sizeof d->uri, "%s%s%s", prefix, uri, suffix);
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->items[i].uri, d->uri) == 0)
            return;
    l->n++;
}

static void probe(struct device *d)
{
    d->info = (rknnd_server_info){.struct_size = sizeof d->info};
    d->result = rknnd_get_server_info(d->uri, &d->info);
    if (d->result < 0)
        snprintf(d->reason, sizeof d->reason, "%s", rknnd_last_error());
}

static json_t *device_json(const struct device *d)
{
    if (d->result < 0)
        return json_pack("{s:s, s:s, s:i, s:s}", "uri", d->uri, "state", "down", "code", d->result,
                         "reason", d->reason);
    json_t *o = report_server_json(&d->info);
    json_object_set_new(o, "state", json_string("up"));
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
    table_cell(t, "%s", d->uri);
    table_cell(t, "%s", up ? d->info.chip : "-");
    if (up)
        table_cell(t, "%u", d->info.n_cores);
    else
        table_cell(t, "-");
    table_cell(t, "%s", up ? d->info.backend : "-");
    table_cell(t, "%s", up ? d->info.software : "-");
    table_cell(t, "%s", up ? "up" : "down");
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

static void find_devices(struct device_list *l, const struct settings *settings)
{
    if (settings->server) {
        add(l, "", settings->server, "");
        return;
    }
    add(l, "", getenv("RKNND_SERVER"), "");
    add(l, "", SYSTEM_URI, "");
    add(l, "unix:", getenv("XDG_RUNTIME_DIR"), "/rknnd.sock");
}

int cmd_devices(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    bool json = false;
    const struct option_row rows[] = {
        {'j', "json", OPTION_FLAG, &json, NULL, "print JSON", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] devices",
        .summary = "Lists the servers that a program here would find: RKNND_SERVER and the local\n"
                   "sockets; with --server only that one. Fails (3) if none of them answers.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = options_parse_n(&options, argc, argv, 0, 0, &first, f);
    if (r)
        return r;
    struct device_list l = {0};
    size_t n_up = 0;
    find_devices(&l, settings);
    for (size_t i = 0; i < l.n; i++) {
        probe(&l.items[i]);
        n_up += l.items[i].result == RKNN_SUCC;
    }
    r = json ? print_json(&l, f) : print_text(&l, f);
    if (r == 0 && n_up == 0)
        return failure_set(f, EXIT_UNREACHABLE,
                           "no server answers; start rknnd or give --server URI");
    return r;
}
