// Which servers are within reach: by what lies on this machine, without asking them.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client/adb.h"
#include "client/devices.h"
#include "client/last_error.h"
#include "client/usb.h"

#define MAX_OF_A_KIND 32

struct list_out {
    rknnd_device *items;
    uint32_t max, n;
    rknnd_device beyond; // what does not fit is only counted
};

static rknnd_device *add(struct list_out *l, const char *scheme, const char *rest)
{
    rknnd_device *d = l->n < l->max ? &l->items[l->n] : &l->beyond;
    l->n++;
    *d = (rknnd_device){0};
    snprintf(d->uri, sizeof d->uri, "%s%s", scheme, rest);
    return d;
}

static void add_sockets(struct list_out *l)
{
    char path[256];
    const char *own = getenv("XDG_RUNTIME_DIR");
    if (access("/run/rknnd/rknnd.sock", F_OK) == 0)
        add(l, "unix:", "/run/rknnd/rknnd.sock");
    snprintf(path, sizeof path, "%s/rknnd.sock", own ? own : "");
    if (own && *own && access(path, F_OK) == 0)
        add(l, "unix:", path);
}

// A board that somebody has claimed is of use only if a relay shares it.
static void add_usb(struct list_out *l)
{
    struct usb_board_info boards[MAX_OF_A_KIND];
    unsigned n = usb_list(boards, MAX_OF_A_KIND);
    for (unsigned i = 0; i < n && i < MAX_OF_A_KIND; i++) {
        const struct usb_board_info *b = &boards[i];
        rknnd_device *d = add(l, "usb:", b->serial);
        int relay = usb_connect_relay(b->serial);
        fd_close(relay);
        snprintf(d->serial, sizeof d->serial, "%s", b->serial);
        if (relay >= 0)
            continue;
        if (b->in_use)
            snprintf(d->obstacle, sizeof d->obstacle,
                     "in use by another program; end it, or share the board by rknnd --relay usb:");
        else if (!b->allowed)
            snprintf(
                d->obstacle, sizeof d->obstacle,
                "no permission for %s: install 60-rknnd.rules for udev, join the group plugdev",
                b->node);
    }
}

static void add_adb(struct list_out *l)
{
    struct adb_device boards[MAX_OF_A_KIND];
    struct error e;
    int n = adb_list(boards, MAX_OF_A_KIND, &e);
    for (int i = 0; i < n && i < MAX_OF_A_KIND; i++) {
        rknnd_device *d = add(l, "adb:", boards[i].serial);
        snprintf(d->serial, sizeof d->serial, "%s", boards[i].serial);
        if (strcmp(boards[i].state, "device") != 0)
            snprintf(d->obstacle, sizeof d->obstacle, "%s: %s", boards[i].state,
                     adb_advice(boards[i].state));
    }
}

unsigned devices_find_boards(rknnd_device *list, unsigned max)
{
    struct list_out l = {.items = list, .max = max};
    add_usb(&l);
    add_adb(&l);
    return l.n;
}

RKNN_EXPORT int rknnd_list_devices(rknnd_device *list, uint32_t max, uint32_t *n)
{
    struct error e;
    struct list_out l = {.items = list, .max = list ? max : 0};
    if (!n)
        return last_error_keep("rknnd_list_devices",
                               error_set(&e, STATUS_PARAM_INVALID, "n is NULL"), &e);
    add_sockets(&l);
    add_usb(&l);
    add_adb(&l);
    *n = l.n;
    return last_error_keep("rknnd_list_devices", 0, &e);
}
