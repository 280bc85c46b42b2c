// Which servers are within reach: by what lies on this machine, without asking them.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/net/usb.h"
#include "client/debug/devices.h"
#include "client/last_error.h"
#include "client/limits.h"
#include "client/link/adb.h"
#include "client/link/server_selection.h"
#include "client/link/usb_boards.h"
#include "client/sized.h"
#include "protocol/message.h"

#define MAX_ADB_BOARDS 32
#define ROOM           64 // for devices, at first

struct list_out {
    rknnd_device *items;
    uint32_t max, n;
    rknnd_device beyond; // what does not fit is only counted
};

static rknnd_device *add(struct list_out *l, const char *scheme, const char *rest,
                         const char *serial)
{
    rknnd_device *d = l->n < l->max ? &l->items[l->n] : &l->beyond;
    l->n++;
    *d = (rknnd_device){.struct_size = sizeof *d};
    snprintf(d->uri, sizeof d->uri, "%s%s", scheme, rest);
    snprintf(d->serial, sizeof d->serial, "%s", serial);
    message_make_printable(d->uri);
    message_make_printable(d->serial);
    return d;
}

static void add_sockets(struct list_out *l)
{
    struct server_selection local;
    selection_local(&local);
    for (unsigned i = 0; i < local.n_uris; i++)
        if (access(local.uris[i] + strlen("unix:"), F_OK) == 0)
            add(l, local.uris[i], "", "");
}

static void hinder(rknnd_device *d, const char *state, const char *obstacle, const char *detail)
{
    snprintf(d->state, sizeof d->state, "%s", state);
    snprintf(d->obstacle, sizeof d->obstacle, "%s%s", obstacle, detail);
    message_make_printable(d->obstacle);
}

static void advise(rknnd_device *d, const char *advice)
{
    snprintf(d->advice, sizeof d->advice, "%s", advice);
}

// A board that somebody has claimed is of use only if a relay shares it. Returns whether it is not
// shared.
static bool judge_usb(rknnd_device *d, const struct usb_board_info *b)
{
    int relay = usb_connect_relay(b->serial);
    if (relay >= 0) {
        fd_close(relay);
    } else if (b->closed == EACCES) {
        hinder(d, "denied", "no permission for its device node ", b->node);
        usb_advise_access(b->node, d->advice, sizeof d->advice);
    } else if (b->closed) {
        hinder(d, "no node", "there is no device node ", b->node);
        advise(d, "in a container, pass /dev/bus/usb into it; else udev has to make the node");
    } else if (relay == -EACCES) {
        hinder(d, "in use", "a relay has it, whose socket is closed to this user", "");
        advise(d, "join the socket's group, or start the relay with --socket-group");
    } else if (b->in_use) {
        hinder(d, "in use", "another program uses it, by ", b->node);
        advise(d, "end that, or share the board by rknnd --relay usb:");
        return true;
    }
    return false;
}

static bool add_usb_once(struct list_out *l, const char *sysfs)
{
    struct usb_board_info boards[USB_MAX_BOARDS];
    unsigned n = usb_list(sysfs, boards, USB_MAX_BOARDS);
    bool unshared = false;
    for (unsigned i = 0; i < n && i < USB_MAX_BOARDS; i++)
        unshared |= judge_usb(add(l, "usb:", boards[i].serial, boards[i].serial), &boards[i]);
    return unshared;
}

// A relay that ends, with the last program that it was for, has its board a moment longer than its
// socket; so what is in use is looked at again.
static void add_usb(struct list_out *l, const char *sysfs)
{
    uint32_t before = l->n;
    uint64_t until = clock_ms() + LIMIT_RELAY_END_MS;
    while (add_usb_once(l, sysfs) && clock_ms() < until) {
        l->n = before;
        poll(NULL, 0, LIMIT_RELAY_END_MS / 20);
    }
}

// A state as adb says it may go on with an explanation in brackets.
static void judge_adb(rknnd_device *d, const char *said)
{
    char state[sizeof d->state];
    if (strcmp(said, "device") == 0)
        return;
    snprintf(state, sizeof state, "%.*s", (int)strcspn(said, ";("), said);
    hinder(d, state, "adb says: ", said);
    advise(d, adb_advice(said));
}

static void add_adb(struct list_out *l)
{
    struct adb_device boards[MAX_ADB_BOARDS];
    struct error e;
    int n = adb_list(boards, MAX_ADB_BOARDS, &e);
    for (int i = 0; i < n && i < MAX_ADB_BOARDS; i++)
        judge_adb(add(l, "adb:", boards[i].serial, boards[i].serial), boards[i].state);
}

unsigned devices_find_usb(const char *sysfs, rknnd_device *list, unsigned max)
{
    struct list_out l = {.items = list, .max = max};
    add_usb(&l, sysfs);
    return l.n;
}

unsigned devices_find_adb(rknnd_device *list, unsigned max)
{
    struct list_out l = {.items = list, .max = max};
    add_adb(&l);
    return l.n;
}

unsigned devices_find_boards(rknnd_device *list, unsigned max)
{
    struct list_out l = {.items = list, .max = max};
    add_usb(&l, USB_SYSFS);
    add_adb(&l);
    return l.n;
}

static uint32_t find_all(rknnd_device *list, uint32_t max)
{
    struct list_out l = {.items = list, .max = max};
    add_sockets(&l);
    add_usb(&l, USB_SYSFS);
    add_adb(&l);
    return l.n;
}

static int list_devices(rknnd_list **ret, struct error *e)
{
    for (uint32_t room = ROOM;;) {
        cleanup(free_p) rknnd_list *list = sized_list_new(room, sizeof(rknnd_device), 0, NULL);
        if (!list)
            return error_no_memory(e, "a list of devices", room * sizeof(rknnd_device));
        uint32_t n = find_all((rknnd_device *)(list + 1), room);
        if (n <= room) {
            list->n = n;
            *ret = steal_ptr(list);
            return 0;
        }
        room = n;
    }
}

RKNN_EXPORT int rknnd_list_devices(rknnd_list **devices)
{
    struct error e;
    int r = devices ? list_devices(devices, &e)
                    : error_set(&e, STATUS_PARAM_INVALID, "devices is NULL");
    return last_error_keep("rknnd_list_devices", r, &e);
}
