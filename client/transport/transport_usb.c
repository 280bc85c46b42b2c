// usb:[SERIAL], a board at a USB cable. Programs do not speak USB: a relay (rknnd --relay) claims
// the board and gives each program a socket. It is the one that runs on this machine already, or
// one that this process starts.
#include "client/transport/transport_usb.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/net/usb.h"
#include "client/limits.h"
#include "client/transport/transports.h"
#include "client/transport/usb_boards.h"

#define ROCKCHIP "2207" // USB vendor

// ---- connecting ---------------------------------------------------------------------------------

// Several boards and no serial number: the error lists them.
static int usb_several(const struct usb_board_info *boards, unsigned n, struct error *e)
{
    char names[300] = "";
    for (unsigned i = 0; i < n && i < USB_MAX_BOARDS; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, " usb:%s%s", boards[i].serial,
                 boards[i].in_use ? " (in use)" : "");
    }
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "%u boards are connected; choose one of%s", n,
                     names);
}

// Fills in the serial number of the only board. With none the address stays as it is, and
// connecting says that there is no board.
static int usb_resolve(struct uri *address, struct error *e)
{
    struct usb_board_info boards[USB_MAX_BOARDS];
    if (*address->text)
        return 0;
    unsigned n = usb_list(USB_SYSFS, boards, USB_MAX_BOARDS);
    if (n > 1)
        return usb_several(boards, n, e);
    if (n == 1)
        snprintf(address->text, sizeof address->text, "%s", boards[0].serial);
    return 0;
}

// Connects to the relay that has the board, or starts one.
static int usb_connect(struct transport_attempt *a, struct error *e)
{
    struct uri board = *a->address;
    int r = usb_resolve(&board, e);
    if (r < 0)
        return r;
    a->shares_memory = true;
    int relay = usb_connect_relay(board.text);
    if (relay >= 0)
        return relay;
    // Silent: the relay may outlive this program while others use it, and whoever reads the
    // program's standard error to its end would wait for the relay.
    struct spawn_command command = {.option = "--relay", .silent = true};
    r = spawn_set_value(&command, e, "usb:%s", board.text);
    if (r < 0)
        return r;
    a->spawned = true;
    a->hello_ms = LIMIT_START_MS;
    return spawn_connect(a->daemon, &command, &a->ticket, e);
}

// A relay that had been running may be ending: another is started. One that was started just now
// ends without a word if another was first; that one has the well-known socket or will have it
// soon, so it is looked for again for as long as connecting may take.
static bool usb_retry(struct transport_attempt *a, struct error *e)
{
    (void)e;
    if (a->spawned && !a->ticket.fresh)
        return true;
    a->wait_ms = LIMIT_RELAY_MS;
    return clock_ms() < a->began_ms + LIMIT_CONNECT_MS;
}

// ---- searching ----------------------------------------------------------------------------------

// Finds out whether the board can be used. One that a program has claimed is of use only if a relay
// shares it. Returns true for a board in use without a relay: it may be a relay that is ending.
static bool usb_judge(rknnd_device *d, const struct usb_board_info *b)
{
    int relay = usb_connect_relay(b->serial);
    if (relay >= 0) {
        fd_close(relay);
    } else if (b->closed == EACCES) {
        device_list_hinder(d, "denied", "no permission for its device node ", b->node);
        usb_advise_access(b->node, d->advice, sizeof d->advice);
    } else if (b->closed) {
        device_list_hinder(d, "no node", "there is no device node ", b->node);
        device_list_advise(
            d, "in a container, pass /dev/bus/usb into it; else udev has to make the node");
    } else if (relay == -EACCES) {
        device_list_hinder(d, "in use", "a relay has it, whose socket is closed to this user", "");
        device_list_advise(d, "join the socket's group, or start the relay with --socket-group");
    } else if (b->in_use) {
        device_list_hinder(d, "in use", "another program uses it, by ", b->node);
        device_list_advise(d, "end that, or share the board by rknnd --relay usb:");
        return true;
    }
    return false;
}

static bool usb_list_once(struct device_list *l, const char *sysfs)
{
    struct usb_board_info boards[USB_MAX_BOARDS];
    unsigned n = usb_list(sysfs, boards, USB_MAX_BOARDS);
    bool unshared = false;
    for (unsigned i = 0; i < n && i < USB_MAX_BOARDS; i++)
        unshared |= usb_judge(
            device_list_add(l, transport_usb.uri.name, boards[i].serial, boards[i].serial),
            &boards[i]);
    return unshared;
}

// A relay that ends has its board a moment longer than its socket, so boards in use are looked at
// again for up to LIMIT_RELAY_END_MS.
static void usb_list_below(struct device_list *l, const char *sysfs)
{
    uint32_t before = l->n;
    uint64_t until = clock_ms() + LIMIT_RELAY_END_MS;
    while (usb_list_once(l, sysfs) && clock_ms() < until) {
        l->n = before;
        poll(NULL, 0, LIMIT_RELAY_END_MS / 20);
    }
}

static void usb_list_boards(struct device_list *l)
{
    usb_list_below(l, USB_SYSFS);
}

// ---- diagnosing ---------------------------------------------------------------------------------

static bool usb_diagnose(struct checks *c, const struct uri *address)
{
    rknnd_device items[CHECKS_MAX_BOARDS];
    struct device_list l = {.items = items, .max = CHECKS_MAX_BOARDS};
    usb_list_boards(&l);
    return checks_find_board(c, &l, address);
}

// Mentions a Rockchip board without rknnd's interface: it is what the user sees plugged in.
static bool usb_tell_other(struct checks *c, const char *sysfs, const char *device)
{
    char vendor[16], id[16] = "?", product[64] = "unnamed", serial[64] = "none";
    if (!usb_read_attribute(sysfs, device, "idVendor", vendor, sizeof vendor) ||
        strcmp(vendor, ROCKCHIP) != 0 || usb_is_board(sysfs, device))
        return false;
    usb_read_attribute(sysfs, device, "idProduct", id, sizeof id);
    usb_read_attribute(sysfs, device, "product", product, sizeof product);
    usb_read_attribute(sysfs, device, "serial", serial, sizeof serial);
    checks_tell(c, RKNND_CHECK_NOTE, "usb",
                "for usb: enable rknnd-gadget.service and let rknnd --listen usb run there",
                "a Rockchip board without rknnd's interface, %s:%s (%s, serial %s)", vendor, id,
                product, serial);
    return true;
}

void transport_usb_survey(struct checks *c, const char *sysfs)
{
    rknnd_device items[CHECKS_MAX_BOARDS];
    struct device_list l = {.items = items, .max = CHECKS_MAX_BOARDS};
    const struct dirent *entry;
    usb_list_below(&l, sysfs);
    checks_tell_boards(c, "usb", &l);
    unsigned n = l.n;
    cleanup(closedir_p) DIR *folder = usb_open_devices(sysfs);
    while (folder && (entry = readdir(folder)))
        n += entry->d_name[0] != '.' && usb_tell_other(c, sysfs, entry->d_name);
    if (n == 0)
        checks_tell(c, RKNND_CHECK_SKIPPED, "usb", "", "no board is at a USB cable");
}

static void usb_survey(struct checks *c)
{
    transport_usb_survey(c, USB_SYSFS);
}

const struct transport transport_usb = {
    .uri = {.name = "usb:", .syntax = "[SERIAL]", .parse = uri_parse_name},
    .help = "a board at a USB cable",
    .boards = true,
    .resolve = usb_resolve,
    .connect = usb_connect,
    .retry = usb_retry,
    .list = usb_list_boards,
    .diagnose = usb_diagnose,
    .survey = usb_survey,
};
