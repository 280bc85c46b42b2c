// The PC's end of a USB link, on libusb: finds the board, claims its rknnd interface, and keeps
// several transfers under way in both directions. Used by the relay (relay.c) only.
//
//     no device ──scan: found, claimed──► greeting ──HELLO answered──► up
//         ▲                                  │ GREETING_MS pass         │ a transfer fails, or the
//         │                                  ▼                          ▼ board breaks the protocol
//         └──── no transfer under way ◄─── broken: transfers are cancelled
//
// One timer drives what is not driven by transfers: it scans every SCAN_MS while there is no
// device, ends a greeting without an answer, and releases a broken device.
//
// Everything runs on the loop's thread: libusb gives its descriptors to on_fd_added(), libuv polls
// them, and libusb handles its events without blocking. Channels end in proxies (proxy.c).
#include "server/usb/usb_host.h"

#include <libusb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/net/usb.h"
#include "server/usb/proxy.h"
#include "server/usb/usb_guard.h"
#include "server/usb/usb_link.h"

#define SCAN_MS     500  // plugging in is seen by asking
#define GREETING_MS 2000 // in which the board answers

struct transfer {
    struct usb_link_transfer base;
    struct libusb_transfer *usb;
    struct usb_host *host;
};

// A descriptor that libusb wants watched.
struct watch {
    struct list link;
    struct usb_host *host;
    int fd;
    uv_poll_t poll;
};

// Of a board.
struct interface {
    int number;
    uint8_t in, out; // endpoints
};

struct usb_host {
    struct usb_link link;
    struct proxies proxies;
    const struct usb_host_owner *calls;
    void *owner;
    char serial[128]; // wanted
    int guard;        // usb_guard.h
    struct error why; // code 0: it is up
    bool closing, link_closed, timer_closed;
    uv_timer_t timer;
    struct list watches;
    unsigned n_watches;
    libusb_context *usb;
    libusb_device_handle *device; // NULL: none is claimed
    struct interface interface;   // of it
    bool broken;                  // the device is to be let go as soon as no transfer is under way
    unsigned n_busy;
    struct transfer ins[USB_LINK_TRANSFERS], outs[USB_LINK_TRANSFERS];
    uint8_t *mapped; // blocks, while there is a device; NULL: it has none
    uint8_t blocks[2 * USB_LINK_BLOCKS][MUX_BLOCK];
};

// Records why the link is down (code 0: it is up), logs it and tells the owner, each time it
// changes and not on every scan.
static void usb_host_say(struct usb_host *u, const struct error *why)
{
    bool same = why->code == u->why.code && (why->code == 0 || strcmp(why->text, u->why.text) == 0);
    u->why = *why;
    if (same)
        return;
    if (why->code < 0)
        log_info("usb: %s", why->text);
    else
        log_info("usb: the board is connected");
    u->calls->changed(u->owner);
}

// ---- letting go ---------------------------------------------------------------------------------

// Releases the device once no transfer is under way. Never from inside a transfer's callback:
// libusb_close() would wait for that callback.
static void let_go(struct usb_host *u)
{
    if (!u->device || u->n_busy > 0)
        return;
    libusb_release_interface(u->device, u->interface.number);
    if (u->mapped)
        libusb_dev_mem_free(u->device, steal_ptr(u->mapped), sizeof u->blocks);
    libusb_close(u->device);
    u->device = NULL;
    u->broken = false;
    if (!u->closing)
        usb_guard_name(u->guard, NULL, 0); // what comes next is up to this relay
}

// Cancelled transfers still end by on_transfer().
static void usb_host_cancel(struct usb_host *u)
{
    for (size_t i = 0; i < USB_LINK_TRANSFERS; i++) {
        if (u->ins[i].base.busy)
            libusb_cancel_transfer(u->ins[i].usb);
        if (u->outs[i].base.busy)
            libusb_cancel_transfer(u->outs[i].usb);
    }
}

// Gives the device up: stops the link, which closes all channels, and cancels the transfers. The
// timer then releases it and scans again. Safe to repeat.
static void usb_host_lose(struct usb_host *u, const char *why)
{
    struct error e;
    if (u->broken)
        return;
    u->broken = true;
    error_set(&e, STATUS_DEVICE_UNAVAILABLE, "the connection to the board is gone: %s", why);
    usb_host_say(u, &e);
    usb_link_stop(&u->link);
    usb_host_cancel(u);
    uv_timer_start(&u->timer, u->timer.timer_cb, 0, SCAN_MS);
}

// ---- transfers ----------------------------------------------------------------------------------

// Starts a bulk transfer of a block (usb_link_ops.submit).
static bool usb_host_submit(struct usb_link *c, struct usb_link_transfer *base, size_t size)
{
    struct usb_host *u = container_of(c, struct usb_host, link);
    struct transfer *t = container_of(base, struct transfer, base);
    t->usb->buffer = base->block;
    t->usb->length = (int)size;
    int r = libusb_submit_transfer(t->usb);
    u->n_busy += r == 0;
    if (r < 0)
        usb_host_lose(u, libusb_strerror(r));
    return r == 0;
}

// A block came (usb_link_ops.take). The first one after HELLO makes the link count as up.
static void take_block(struct usb_link *c, struct bytes block)
{
    struct usb_host *u = container_of(c, struct usb_host, link);
    struct error e, none = {0};
    if (mux_receive(&c->mux, block, &e) < 0)
        usb_host_lose(u, e.text);
    else if (c->mux.state == MUX_UP && u->why.code < 0) {
        uv_timer_stop(&u->timer); // usb_host_lose() starts it again
        usb_host_say(u, &none);
    }
}

static const char *usb_host_complaint(enum libusb_transfer_status status)
{
    switch (status) {
    case LIBUSB_TRANSFER_NO_DEVICE:
        return "it was unplugged";
    case LIBUSB_TRANSFER_STALL:
        return "it refuses transfers";
    case LIBUSB_TRANSFER_CANCELLED:
        return "cancelled";
    default:
        return "a transfer failed";
    }
}

// A transfer ended, well or not. The link gets its block back in any case.
static void LIBUSB_CALL on_transfer(struct libusb_transfer *usb)
{
    struct transfer *t = usb->user_data;
    struct usb_host *u = t->host;
    u->n_busy--;
    if (usb->status != LIBUSB_TRANSFER_COMPLETED)
        usb_host_lose(u, usb_host_complaint(usb->status));
    if (usb->endpoint & LIBUSB_ENDPOINT_IN)
        usb_link_received(&u->link, &t->base, (size_t)usb->actual_length);
    else
        usb_link_sent(&u->link, &t->base);
}

static void usb_host_prepare(struct usb_host *u, struct transfer *t, uint8_t endpoint)
{
    libusb_fill_bulk_transfer(t->usb, u->device, endpoint, NULL, 0, on_transfer, t, 0);
}

// Whether processor caches are coherent with memory that devices write to. Elsewhere the kernel
// maps such memory uncached, which is slow to read.
#if defined(__x86_64__) || defined(__i386__)
#define COHERENT true
#else
#define COHERENT false
#endif

// Memory that the kernel transfers from and to without copying (usbfs mmap), if it has any for this
// device. Where it is uncached it is used for sending only, and blocks are received into ordinary
// memory.
static void map_blocks(struct usb_host *u)
{
    u->mapped = libusb_dev_mem_alloc(u->device, sizeof u->blocks);
    uint8_t(*mapped)[MUX_BLOCK] = u->mapped ? (void *)u->mapped : u->blocks;
    usb_link_use(&u->link, (COHERENT ? mapped : u->blocks) + USB_LINK_BLOCKS, mapped);
}

// Names a conversation. It need only differ from earlier ones, so the clock will do without
// entropy.
static uint64_t new_nonce(void)
{
    uint64_t nonce = 0;
    if (getrandom(&nonce, sizeof nonce, GRND_NONBLOCK) != sizeof nonce)
        nonce = uv_hrtime();
    return nonce;
}

// Begins a conversation on a device just claimed.
static void usb_host_converse(struct usb_host *u)
{
    uv_timer_start(&u->timer, u->timer.timer_cb, GREETING_MS, SCAN_MS);
    mux_start(&u->link.mux, new_nonce());
    map_blocks(u);
    for (size_t i = 0; i < USB_LINK_TRANSFERS; i++) {
        usb_host_prepare(u, &u->ins[i], u->interface.in);
        usb_host_prepare(u, &u->outs[i], u->interface.out);
    }
    usb_link_start(&u->link);
}

// ---- finding and claiming -----------------------------------------------------------------------

// rknnd's interface is recognized by its class, subclass and protocol.
static bool is_ours(const struct libusb_interface_descriptor *d)
{
    return d->bInterfaceClass == USB_CLASS && d->bInterfaceSubClass == USB_SUBCLASS &&
           d->bInterfaceProtocol == USB_PROTOCOL && d->bNumEndpoints >= 2;
}

// The endpoint addresses are read from the descriptor: gadget controllers assign their own.
static struct interface read_interface(const struct libusb_interface_descriptor *d)
{
    struct interface ret = {.number = d->bInterfaceNumber};
    for (int i = 0; i < d->bNumEndpoints; i++) {
        uint8_t address = d->endpoint[i].bEndpointAddress;
        if (address & LIBUSB_ENDPOINT_IN)
            ret.in = address;
        else
            ret.out = address;
    }
    return ret;
}

// Whether the device has rknnd's interface in its active configuration; reading descriptors needs
// no permission.
static bool find_interface(libusb_device *device, struct interface *ret)
{
    struct libusb_config_descriptor *config;
    bool found = false;
    if (libusb_get_active_config_descriptor(device, &config) < 0)
        return false; // not configured
    for (int i = 0; i < config->bNumInterfaces && !found; i++) {
        const struct libusb_interface *all = &config->interface[i];
        found = all->num_altsetting > 0 && is_ours(all->altsetting);
        if (found)
            *ret = read_interface(all->altsetting);
    }
    libusb_free_config_descriptor(config);
    return found;
}

static void name_node(libusb_device *device, char ret[48])
{
    snprintf(ret, 48, "/dev/bus/usb/%03u/%03u", libusb_get_bus_number(device),
             libusb_get_device_address(device));
}

// Puts a libusb error of opening or claiming into words that say what to do.
static int usb_host_refused(int r, libusb_device *device, struct error *e)
{
    char node[48], advice[160];
    name_node(device, node);
    if (r == LIBUSB_ERROR_ACCESS) {
        usb_advise_access(node, advice, sizeof advice);
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "no permission for the board's device node %s; %s", node, advice);
    }
    if (r == LIBUSB_ERROR_BUSY)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "another program uses the board at %s; end it, or share the board by one "
                         "rknnd --relay usb:",
                         node);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "the board at %s: %s", node, libusb_strerror(r));
}

// Claims the interface and sets its alternate setting at once: the board sees that as a new owner
// of the link and drops what the earlier one left behind.
static int usb_host_claim(libusb_device_handle *handle, int interface, struct error *e)
{
    int r = libusb_claim_interface(handle, interface);
    if (r == 0 && (r = libusb_set_interface_alt_setting(handle, interface, 0)) < 0)
        libusb_release_interface(handle, interface);
    return r < 0 ? usb_host_refused(r, libusb_get_device(handle), e) : 0;
}

static void read_serial(libusb_device *device, libusb_device_handle *handle, char *ret, int size)
{
    struct libusb_device_descriptor d;
    *ret = 0;
    if (libusb_get_device_descriptor(device, &d) == 0 && d.iSerialNumber)
        if (libusb_get_string_descriptor_ascii(handle, d.iSerialNumber, (unsigned char *)ret,
                                               size) < 0)
            *ret = 0;
}

// What one scan has found: all boards, how many match the wanted serial number, and the first of
// these.
struct census {
    unsigned n, n_wanted;
    char serials[200];
    libusb_device_handle *handle; // of the first wanted one
    struct interface interface;   // its
    char serial[128];
    struct error why;
};

// Counts one device in. A board that cannot be opened counts as present; why is kept in
// census->why.
static void usb_host_count(const struct usb_host *u, struct census *census, libusb_device *device)
{
    libusb_device_handle *handle;
    struct interface interface;
    char serial[128];
    if (!find_interface(device, &interface))
        return;
    census->n++;
    int r = libusb_open(device, &handle);
    if (r < 0) {
        usb_host_refused(r, device, &census->why);
        return;
    }
    read_serial(device, handle, serial, sizeof serial);
    size_t used = strlen(census->serials);
    snprintf(census->serials + used, sizeof census->serials - used, " usb:%s", serial);
    bool wanted = !*u->serial || strcmp(serial, u->serial) == 0;
    census->n_wanted += wanted;
    if (wanted && census->n_wanted == 1) {
        census->handle = handle;
        census->interface = interface;
        memcpy(census->serial, serial, sizeof serial);
    } else {
        libusb_close(handle);
    }
}

// 0 if exactly one board is meant and could be opened, else the best reason why not.
static int usb_host_judge(const struct usb_host *u, const struct census *census, struct error *e)
{
    unsigned n_meant = *u->serial ? census->n_wanted : census->n;
    if (n_meant > 1)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "%u boards are connected; choose one of%s",
                         n_meant, census->serials);
    if (census->n_wanted == 1)
        return 0;
    if (census->why.code < 0) {
        *e = census->why;
        return e->code;
    }
    if (census->n > 0)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "no board has the serial number %s; there is%s", u->serial,
                         census->serials);
    return error_set(
        e, STATUS_DEVICE_UNAVAILABLE,
        "no board is connected by USB (is the cable in, and does rknnd --listen usb run "
        "there?)");
}

// Asks the owner, claims the board, and tells the guard which board to look after. From now on only
// this serial number is looked for.
static int take_board(struct usb_host *u, struct census *census, struct error *e)
{
    char node[48];
    int r = u->calls->found(u->owner, census->serial, e);
    if (r == 0)
        r = usb_host_claim(census->handle, census->interface.number, e);
    if (r < 0)
        return r;
    memcpy(u->serial, census->serial, sizeof u->serial);
    u->interface = census->interface;
    u->device = steal_ptr(census->handle);
    name_node(libusb_get_device(u->device), node);
    usb_guard_name(u->guard, node, u->interface.number);
    return 0;
}

// Looks at all USB devices once. Scanning is how plugging in is noticed.
static void usb_host_scan(struct usb_host *u)
{
    struct census census = {0};
    struct error e;
    libusb_device **list;
    ssize_t n = libusb_get_device_list(u->usb, &list);
    for (ssize_t i = 0; i < n; i++)
        usb_host_count(u, &census, list[i]);
    int r = usb_host_judge(u, &census, &e);
    if (r == 0)
        r = take_board(u, &census, &e);
    if (census.handle)
        libusb_close(census.handle);
    if (n >= 0)
        libusb_free_device_list(list, 1);
    if (r == 0)
        usb_host_converse(u);
    else
        usb_host_say(u, &e);
}

static void on_timer(uv_timer_t *timer)
{
    struct usb_host *u = container_of(timer, struct usb_host, timer);
    if (u->broken)
        let_go(u);
    else if (!u->device)
        usb_host_scan(u);
    else if (u->link.mux.state != MUX_UP)
        usb_host_lose(u, "it does not answer");
}

// ---- libusb's descriptors -----------------------------------------------------------------------

// One call handles all of libusb's descriptors, so which of them is ready does not matter.
static void on_usb(uv_poll_t *poll, int status, int events)
{
    struct watch *w = container_of(poll, struct watch, poll);
    (void)status;
    (void)events;
    libusb_handle_events_timeout_completed(w->host->usb, &(struct timeval){0, 0}, NULL);
}

// libusb wants a descriptor polled, now or from inside of its calls.
static void LIBUSB_CALL on_fd_added(int fd, short events, void *data)
{
    struct usb_host *u = data;
    struct watch *w = calloc(1, sizeof *w);
    if (!w || uv_poll_init(u->proxies.loop, &w->poll, fd) < 0) {
        log_error("usb: a descriptor cannot be watched");
        free(w);
        return;
    }
    w->host = u;
    w->fd = fd;
    list_append(&u->watches, &w->link);
    u->n_watches++;
    uv_poll_start(&w->poll,
                  (events & POLLIN ? UV_READABLE : 0) | (events & POLLOUT ? UV_WRITABLE : 0),
                  on_usb);
}

// Frees it when its last handle has closed and its last proxy is gone.
static void check_closed(struct usb_host *u)
{
    if (u->link_closed && u->timer_closed && u->n_watches == 0 && u->proxies.n == 0) {
        fd_close(u->guard); // the board hears of programs that were still connected
        free(u);
    }
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct watch *w = container_of((uv_poll_t *)handle, struct watch, poll);
    struct usb_host *u = w->host;
    free(w);
    u->n_watches--;
    if (u->closing)
        check_closed(u);
}

static void LIBUSB_CALL on_fd_removed(int fd, void *data)
{
    struct usb_host *u = data;
    struct watch *w, *after;
    list_for_each_safe (w, after, &u->watches, link) {
        if (w->fd != fd)
            continue;
        list_remove(&w->link);
        uv_poll_stop(&w->poll);
        uv_close((uv_handle_t *)&w->poll, on_watch_closed);
    }
}

static void watch_all(struct usb_host *u)
{
    const struct libusb_pollfd **all = libusb_get_pollfds(u->usb);
    for (size_t i = 0; all && all[i]; i++)
        on_fd_added(all[i]->fd, all[i]->events, u);
    libusb_free_pollfds(all);
    libusb_set_pollfd_notifiers(u->usb, on_fd_added, on_fd_removed, u);
}

// ---- life ---------------------------------------------------------------------------------------

bool usb_host_is_up(const struct usb_host *u)
{
    return u->link.mux.state == MUX_UP;
}

const struct error *usb_host_why(const struct usb_host *u)
{
    return &u->why;
}

int usb_host_connect(struct usb_host *u, int fd, struct error *e)
{
    return proxy_open(&u->proxies, &u->link.mux, fd, e);
}

unsigned usb_host_connections(const struct usb_host *u)
{
    return u->proxies.n;
}

static void free_transfers(struct usb_host *u)
{
    for (size_t i = 0; i < USB_LINK_TRANSFERS; i++) {
        libusb_free_transfer(u->ins[i].usb);
        libusb_free_transfer(u->outs[i].usb);
    }
}

static bool make_transfers(struct usb_host *u)
{
    bool all = true;
    for (size_t i = 0; i < USB_LINK_TRANSFERS; i++) {
        u->ins[i].host = u->outs[i].host = u;
        u->ins[i].usb = libusb_alloc_transfer(0);
        u->outs[i].usb = libusb_alloc_transfer(0);
        all &= u->ins[i].usb && u->outs[i].usb;
    }
    return all;
}

static int init_usb(struct usb_host *u, struct error *e)
{
    int r = libusb_init(&u->usb);
    if (r < 0)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "USB: %s", libusb_strerror(r));
    if (make_transfers(u))
        return 0;
    free_transfers(u);
    libusb_exit(u->usb);
    return error_no_memory(e, "USB transfers", 0);
}

// Boards open no channels.
static const struct mux_ops mux_ops = {
    .pull = proxy_pull, .push = proxy_push, .closed = proxy_closed, .wake = usb_link_wake};

static void on_usb_link_closed(struct usb_link *c);

static const struct usb_link_ops usb_link_ops = {
    .submit = usb_host_submit, .take = take_block, .closed = on_usb_link_closed};

// The guard is started before anything else: a failure later closes its pipe, which ends it.
int usb_host_new(struct usb_host **ret, uv_loop_t *loop, const char *serial,
                 const struct usb_host_owner *calls, void *owner, struct error *e)
{
    cleanup(free_p) struct usb_host *u = calloc(1, sizeof *u);
    if (!u)
        return error_no_memory(e, "the USB device", sizeof *u);
    if ((size_t)snprintf(u->serial, sizeof u->serial, "%s", serial) >= sizeof u->serial)
        return error_set(e, STATUS_PARAM_INVALID, "the serial number is too long");
    u->calls = calls;
    u->owner = owner;
    list_init(&u->watches);
    error_set(&u->why, STATUS_DEVICE_UNAVAILABLE, "the board has not been looked for yet");
    int r = usb_guard_start(&u->guard, e);
    if (r < 0)
        return r;
    r = init_usb(u, e);
    if (r < 0) {
        fd_close(u->guard);
        return r;
    }
    usb_link_init(&u->link, loop, true, &mux_ops, &usb_link_ops);
    for (size_t i = 0; i < USB_LINK_TRANSFERS; i++) {
        u->link.receiving[i] = &u->ins[i].base;
        u->link.sending[i] = &u->outs[i].base;
    }
    proxies_init(&u->proxies, loop);
    uv_timer_init(loop, &u->timer);
    uv_timer_start(&u->timer, on_timer, 0, SCAN_MS);
    watch_all(u);
    *ret = steal_ptr(u);
    return 0;
}

static void on_proxies_gone(struct proxies *p)
{
    check_closed(container_of(p, struct usb_host, proxies));
}

static void on_usb_link_closed(struct usb_link *c)
{
    struct usb_host *u = container_of(c, struct usb_host, link);
    u->link_closed = true;
    check_closed(u);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct usb_host *u = container_of((uv_timer_t *)handle, struct usb_host, timer);
    u->timer_closed = true;
    check_closed(u);
}

// Blocks for the moment in which cancelled transfers end: libusb must not be closed before.
static void wait_for_transfers(struct usb_host *u)
{
    u->broken = true;
    usb_host_cancel(u);
    while (u->n_busy > 0)
        libusb_handle_events_timeout_completed(u->usb, &(struct timeval){0, 100000}, NULL);
    let_go(u);
}

// Order: no new transfers, then none under way, then the handles; libusb_exit() last, which removes
// every watch.
void usb_host_close(struct usb_host *u)
{
    if (!u)
        return;
    u->closing = true;
    if (u->proxies.n == 0)
        usb_guard_name(u->guard, NULL, 0);
    usb_link_stop(&u->link);
    wait_for_transfers(u);
    uv_close((uv_handle_t *)&u->timer, on_timer_closed);
    usb_link_close(&u->link);
    u->proxies.idle = on_proxies_gone;
    proxies_close(&u->proxies);
    free_transfers(u);
    libusb_exit(u->usb); // tells of every descriptor that it is no longer to be watched
}
