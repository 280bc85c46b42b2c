// adb:[SERIAL], a board behind the adb server of this machine. The protocol is in adb_server.c;
// here is what the table of transports needs.
#include <stdio.h>
#include <string.h>

#include "client/transport/adb_server.h"
#include "client/transport/transports.h"

static int adb_connect_board(struct transport_attempt *a, struct error *e)
{
    return adb_connect(a->address->text, e);
}

// Marks a board that cannot be used: any state but "device". adb may add an explanation in brackets
// to a state; `state` gets the bare word, `obstacle` all of it.
static void adb_judge(rknnd_device *d, const char *said)
{
    char state[sizeof d->state];
    if (strcmp(said, "device") == 0)
        return;
    snprintf(state, sizeof state, "%.*s", (int)strcspn(said, ";("), said);
    device_list_hinder(d, state, "adb says: ", said);
    device_list_advise(d, adb_advice(said));
}

static void adb_list_boards(struct device_list *l)
{
    struct adb_device boards[CHECKS_MAX_BOARDS];
    struct error e;
    int n = adb_list(boards, CHECKS_MAX_BOARDS, &e);
    for (int i = 0; i < n && i < CHECKS_MAX_BOARDS; i++)
        adb_judge(device_list_add(l, transport_adb.uri.name, boards[i].serial, boards[i].serial),
                  boards[i].state);
}

static bool adb_diagnose(struct checks *c, const struct uri *address)
{
    rknnd_device items[CHECKS_MAX_BOARDS];
    struct device_list l = {.items = items, .max = CHECKS_MAX_BOARDS};
    adb_list_boards(&l);
    return checks_find_board(c, &l, address);
}

// Whether adb's server runs at all, and its boards. Without it only adb: is of no use, so that is
// no fault.
static void adb_survey(struct checks *c)
{
    rknnd_device items[CHECKS_MAX_BOARDS];
    struct device_list l = {.items = items, .max = CHECKS_MAX_BOARDS};
    unsigned version;
    struct error e;
    int r = adb_version(&version, &e);
    if (r == STATUS_DEVICE_UNAVAILABLE) {
        checks_tell(c, RKNND_CHECK_SKIPPED, "adb", "", "%s; only adb: needs it", e.text);
    } else if (r < 0) {
        checks_tell(c, RKNND_CHECK_NOTE, "adb", "set ANDROID_ADB_SERVER_PORT to adb's own port",
                    "%s", e.text);
    } else {
        checks_tell(c, RKNND_CHECK_GOOD, "adb", "", "adb's server has version %u", version);
        adb_list_boards(&l);
        checks_tell_boards(c, "adb", &l);
    }
}

const struct transport transport_adb = {
    .uri = {.name = "adb:", .syntax = "[SERIAL]", .parse = uri_parse_name},
    .help = "a board that the running adb server knows",
    .boards = true,
    .connect = adb_connect_board,
    .list = adb_list_boards,
    .diagnose = adb_diagnose,
    .survey = adb_survey,
};
