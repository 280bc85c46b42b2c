// rknnctl devices: which servers can be reached. Candidates come from three places: a server that
// was named (--server, RKNND_SERVER), the library's search of local sockets and boards, and, with
// --network, Avahi. Each candidate without an obstacle is then asked who it is. --watch lists
// candidates again and again and connects to none.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/format/table.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/network.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

#define MAX_DEVICES 64
#define WATCH_MS    1000
#define NETWORK_MS  3000 // in which servers on the network answer, at the latest

// One candidate. `obstacle` in `device` says why connecting is pointless (no rights, TLS); it is
// then not tried.
struct device {
    rknnd_device device;
    char name[64]; // under which the network knows it; "": not found there
    char chip[32]; // that it says it has, there
    int result;    // of rknnd_get_server_info(), which is asked when there is no obstacle
    rknnd_server_info info;
    struct error why; // it is not up
};

struct device_list {
    struct device items[MAX_DEVICES];
    size_t n;
};

// Where to look.
struct places {
    const char *named;       // a server; NULL: none
    bool only;               // nowhere else
    struct network *network; // NULL: not there
};

// Finds the URI in the list or appends it; NULL when the list is full.
static struct device *add_device(struct device_list *l, const char *uri)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->items[i].device.uri, uri) == 0)
            return &l->items[i];
    if (l->n == MAX_DEVICES)
        return NULL;
    struct device *d = &l->items[l->n++];
    *d = (struct device){0};
    snprintf(d->device.uri, sizeof d->device.uri, "%s", uri);
    return d;
}

// Servers that Avahi found. A board already known by its URI only gets its name and chip.
static void add_network(struct device_list *l, const struct network *network)
{
    struct network_server found[MAX_DEVICES];
    size_t n = network_list(network, found, MAX_DEVICES);
    for (size_t i = 0; i < n; i++) {
        struct device *d = add_device(l, found[i].uri);
        if (!d)
            return;
        snprintf(d->name, sizeof d->name, "%s", found[i].name);
        snprintf(d->chip, sizeof d->chip, "%s", found[i].chip);
        if (!*found[i].tls || strcmp(found[i].tls, "no") == 0)
            continue;
        snprintf(d->device.state, sizeof d->device.state, "tls");
        if (strcmp(found[i].tls, "1.3") == 0)
            continue;
        snprintf(d->device.obstacle, sizeof d->device.obstacle,
                 "it wants connections to be protected (tls=%s)", found[i].tls);
        snprintf(d->device.advice, sizeof d->device.advice, "use a newer rknnctl");
    }
}

// `usb:` and `adb:` mean the only board of their kind: its full URI, if there is exactly one. Both
// prefixes have the same length.
static const char *full_name(const char *named, const rknnd_list *found)
{
    const char *meant = NULL;
    unsigned n_meant = 0;
    for (uint32_t i = 0; found && i < found->n && strlen(named) == strlen("usb:"); i++)
        if (strncmp(rknnd_device_at(found, i)->uri, named, strlen(named)) == 0) {
            meant = rknnd_device_at(found, i)->uri;
            n_meant++;
        }
    return n_meant == 1 ? meant : named;
}

// One that was named is in the list already; its details are filled in.
static void add_found(struct device_list *l, const rknnd_device *found)
{
    struct device *d = add_device(l, found->uri);
    if (!d)
        return;
    snprintf(d->device.serial, sizeof d->device.serial, "%s", found->serial);
    snprintf(d->device.state, sizeof d->device.state, "%s", found->state);
    snprintf(d->device.obstacle, sizeof d->device.obstacle, "%s", found->obstacle);
    snprintf(d->device.advice, sizeof d->device.advice, "%s", found->advice);
}

// Collects all candidates. The server that was named comes first.
static void find_devices(struct device_list *l, const struct places *places)
{
    rknnd_list *found = NULL;
    l->n = 0;
    if (!places->only)
        rknnd_list_devices(&found);
    if (places->named && *places->named)
        add_device(l, full_name(places->named, found));
    for (uint32_t i = 0; found && i < found->n; i++)
        add_found(l, rknnd_device_at(found, i));
    rknnd_free(found);
    if (places->network)
        add_network(l, places->network);
}

// Connects and asks; an obstacle counts as unreachable without an attempt.
static void probe_server(struct device *d)
{
    d->info = (rknnd_server_info){.struct_size = sizeof d->info};
    d->result = RKNN_ERR_DEVICE_UNAVAILABLE;
    if (*d->device.obstacle) {
        error_set(&d->why, STATUS_DEVICE_UNAVAILABLE, "%s: %s; %s", d->device.uri,
                  d->device.obstacle, d->device.advice);
        return;
    }
    d->result = rknnd_get_server_info(d->device.uri, &d->info);
    if (d->result < 0)
        rknn_error_set(&d->why, d->result, "%s", "");
}

static void *probe_in_thread(void *d)
{
    probe_server(d);
    return NULL;
}

// All at once: whoever announces many that never answer makes nobody wait for one after the other.
static size_t probe_all(struct device_list *l)
{
    pthread_t threads[MAX_DEVICES];
    bool started[MAX_DEVICES];
    size_t n_up = 0;
    for (size_t i = 0; i < l->n; i++) {
        started[i] = pthread_create(&threads[i], NULL, probe_in_thread, &l->items[i]) == 0;
        if (!started[i])
            probe_server(&l->items[i]);
    }
    for (size_t i = 0; i < l->n; i++) {
        if (started[i])
            pthread_join(threads[i], NULL);
        n_up += l->items[i].result == RKNN_SUCC;
    }
    return n_up;
}

static const char *state_name(const struct device *d)
{
    if (d->result == RKNN_SUCC)
        return "up";
    return *d->device.state ? d->device.state : "down";
}

// A server that answers is described; another one has a code and a reason.
static json_t *device_json(const struct device *d)
{
    json_t *o = d->result < 0 ? json_pack("{s:s, s:i, s:s}", "uri", d->device.uri, "code",
                                          d->result, "reason", d->why.text)
                              : print_server_json(&d->info);
    json_object_set_new(o, "state", json_string(state_name(d)));
    if (*d->device.serial)
        json_object_set_new(o, "serial", json_string(d->device.serial));
    if (*d->name)
        json_object_set_new(o, "name", json_string(d->name));
    return o;
}

static int devices_print_json(const struct device_list *l, struct error *e)
{
    json_t *array = json_array();
    for (size_t i = 0; i < l->n; i++)
        json_array_append_new(array, device_json(&l->items[i]));
    return print_json(array, e);
}

static const char *or_dash(const char *text)
{
    return *text ? text : "-";
}

static void add_row(struct table *t, const struct device *d, bool with_name)
{
    bool up = d->result == RKNN_SUCC;
    if (with_name)
        table_cell(t, "%s", or_dash(d->name));
    table_cell(t, "%s", d->device.uri);
    table_cell(t, "%s", or_dash(up ? d->info.chip : d->chip));
    if (up)
        table_cell(t, "%u", d->info.n_cores);
    else
        table_cell(t, "-");
    table_cell(t, "%s", up ? d->info.backend : "-");
    table_cell(t, "%s", up ? d->info.software : "-");
    table_cell(t, "%s", state_name(d));
}

// The NAME column only with --network. Reasons go to standard error, so that the table can be
// piped.
static int print_table(const struct device_list *l, bool with_name, bool csv, struct error *e)
{
    static const struct table_column columns[] = {
        {"NAME", TABLE_LEFT, TABLE_CUT_END, 0},  {"URI", TABLE_LEFT, TABLE_CUT_END, 0},
        {"CHIP", TABLE_LEFT, TABLE_FIXED, 0},    {"CORES", TABLE_RIGHT, TABLE_FIXED, 0},
        {"BACKEND", TABLE_LEFT, TABLE_FIXED, 0}, {"VERSION", TABLE_LEFT, TABLE_CUT_END, 0},
        {"STATE", TABLE_LEFT, TABLE_FIXED, 0},
    };
    struct table t;
    size_t first = with_name ? 0 : 1;
    table_init(&t, columns + first, sizeof columns / sizeof *columns - first);
    for (size_t i = 0; i < l->n; i++)
        add_row(&t, &l->items[i], with_name);
    int r = csv ? table_csv(&t, stdout) : table_print(&t, stdout, "", terminal_width(stdout));
    table_done(&t);
    if (r < 0)
        return error_no_memory(e, "a list of devices", 0);
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].result < 0)
            fprintf(stderr, "%s\n", l->items[i].why.text);
    return 0;
}

// ---- --watch -----------------------------------------------------------------------------------

// A board whose obstacle changes is gone and new: its line is printed again.
static bool has_device(const struct device_list *l, const struct device *d)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->items[i].device.uri, d->device.uri) == 0 &&
            strcmp(l->items[i].device.obstacle, d->device.obstacle) == 0)
            return true;
    return false;
}

static void print_new(const struct device *d)
{
    const char *const more[] = {d->name, d->chip, d->device.obstacle};
    printf("+ %s", d->device.uri);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (*more[i])
            printf("  %s", more[i]);
    printf("\n");
}

// "- URI" for what is gone, "+ URI name chip obstacle" for what is new.
static void print_changes(const struct device_list *before, const struct device_list *now)
{
    for (size_t i = 0; i < before->n; i++)
        if (!has_device(now, &before->items[i]))
            printf("- %s\n", before->items[i].device.uri);
    for (size_t i = 0; i < now->n; i++)
        if (!has_device(before, &now->items[i]))
            print_new(&now->items[i]);
    fflush(stdout);
}

// Avahi's callbacks run only inside network_wait(): with --network, waiting is what finds servers.
static int pause_watching(const struct places *places, struct error *e)
{
    if (places->network)
        return network_wait(places->network, WATCH_MS, false, e);
    poll(NULL, 0, WATCH_MS);
    return 0;
}

// Two lists take turns: the last look and this one. The first look compares with an empty list.
// Nothing is connected to.
static int watch_devices(const struct places *places, struct error *e)
{
    int r = 0;
    struct device_list *lists = calloc(2, sizeof *lists);
    if (!lists)
        return error_no_memory(e, "a list of devices", 0);
    interrupt_defer();
    for (unsigned turn = 0; r == 0 && !interrupt_seen(); turn ^= 1) {
        find_devices(&lists[turn], places);
        print_changes(&lists[!turn], &lists[turn]);
        r = pause_watching(places, e);
    }
    free(lists);
    return r;
}

// Nothing found: the library's own failure says where it looked. One candidate with a malformed
// URI: that is the user's mistake.
static int nobody_answers(const struct device_list *l, struct error *e)
{
    rknnd_server_info info = {.struct_size = sizeof info};
    int r = l->n == 0 ? rknnd_get_server_info(NULL, &info) : 0;
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    if (l->n == 1 && l->items[0].why.code == STATUS_PARAM_INVALID)
        return error_set(e, STATUS_PARAM_INVALID, "%s", l->items[0].why.text);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "no server answers; start rknnd or give --server URI");
}

static int list_devices(const struct places *places, bool json, bool csv, struct error *e)
{
    struct device_list l = {0};
    find_devices(&l, places);
    size_t n_up = probe_all(&l);
    int r = json ? devices_print_json(&l, e) : print_table(&l, places->network, csv, e);
    if (r == 0 && n_up == 0)
        return nobody_answers(&l, e);
    return r;
}

int cmd_devices(const struct settings *settings, int argc, char **argv, struct error *e)
{
    bool json = false, csv = false, watching = false, network = false;
    const struct option_row rows[] = {
        OPTIONS_JSON(&json),
        OPTIONS_CSV(&csv),
        {0, "watch", OPTION_FLAG, &watching, NULL, "go on, and print what comes and goes", 0, 0,
         NULL},
        {0, "network", OPTION_FLAG, &network, NULL,
         "also servers that announce themselves (through Avahi)", 0, 0, NULL},
    };
    const struct cmd_options options = {
        .usage = "devices [--watch] [--network]",
        .summary =
            "Lists the servers within reach: RKNND_SERVER, the local sockets, boards at a USB\n"
            "cable and boards behind adb; with --server only that one. Fails (3) if none\n"
            "of them answers.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    struct places places = {0};
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 0, &first, e);
    places.named = settings->server ? settings->server : getenv("RKNND_SERVER");
    places.only = settings->server;
    if (r == 0)
        r = cmd_options_check_form(json, csv, e);
    if (r == 0 && network && settings->server)
        r = error_set(e, STATUS_PARAM_INVALID, "--server means one server, --network many");
    if (r == 0 && network)
        r = network_open(&places.network, e);
    if (r == 0 && network)
        r = network_wait(places.network, NETWORK_MS, true, e);
    if (r == 0)
        r = watching ? watch_devices(&places, e) : list_devices(&places, json, csv, e);
    network_close(places.network);
    return r;
}
