// A bare pair of USB ends.
#include "tests/bench/usb/bare_usb.h"

#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <libusb.h>
#include <linux/usb/functionfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "server/usb/usb_descriptors.h"
#include "server/usb/usb_link.h"
#include "tests/bench/load.h"

#define WARM_UP 0.2 // of the time that is measured, before it

// ---- the board's end ----------------------------------------------------------------------------

struct board {
    int control, in, out;
    io_context_t io;
    struct iocb transfers[2 * USB_LINK_TRANSFERS];
    uint8_t blocks[2 * USB_LINK_TRANSFERS][MUX_BLOCK];
};

static int open_file(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        load_fail("%s: %s", path, strerror(errno));
    return fd;
}

static void describe(const struct board *b)
{
    struct error e;
    if (usb_descriptors_give(b->control, &e) < 0)
        load_fail("%s", e.text);
}

static void wait_for_pc(const struct board *b)
{
    struct usb_functionfs_event event;
    do
        if (read(b->control, &event, sizeof event) != (ssize_t)sizeof event)
            load_fail("events: %s", strerror(errno));
    while (event.type != FUNCTIONFS_ENABLE);
}

static void submit(struct board *b, struct iocb *io)
{
    int r = io_submit(b->io, 1, &io);
    if (r != 1)
        load_fail("a transfer: %s", strerror(-r));
}

static void submit_all(struct board *b)
{
    for (unsigned i = 0; i < 2 * USB_LINK_TRANSFERS; i++) {
        if (i < USB_LINK_TRANSFERS)
            io_prep_pread(&b->transfers[i], b->out, b->blocks[i], MUX_BLOCK, 0);
        else
            io_prep_pwrite(&b->transfers[i], b->in, b->blocks[i], MUX_BLOCK, 0);
        submit(b, &b->transfers[i]);
    }
}

void bare_usb_serve(const char *folder)
{
    struct board *b = calloc(1, sizeof *b);
    if (!b || io_setup(2 * USB_LINK_TRANSFERS, &b->io) < 0)
        load_fail("no memory");
    b->control = open_file(folder, "ep0");
    describe(b);
    b->in = open_file(folder, "ep1");
    b->out = open_file(folder, "ep2");
    wait_for_pc(b);
    submit_all(b);
    for (;;) {
        struct io_event done;
        if (io_getevents(b->io, 1, 1, &done, NULL) == 1) {
            if ((long)done.res < 0)
                load_fail("a transfer: %s", strerror(-(int)(long)done.res));
            submit(b, done.obj);
        }
    }
}

// ---- the PC's end -------------------------------------------------------------------------------

struct bare_usb {
    libusb_context *usb;
    libusb_device_handle *device;
    uint8_t in, out;
    struct libusb_transfer *transfers[USB_LINK_TRANSFERS];
    uint8_t blocks[USB_LINK_TRANSFERS][MUX_BLOCK];
    unsigned n_busy;
    bool ends;
    uint64_t bytes;
};

static void usb_check(int r, const char *what)
{
    if (r < 0)
        load_fail("%s: %s", what, libusb_strerror(r));
}

static bool has_serial(libusb_device_handle *device, const char *serial)
{
    struct libusb_device_descriptor d;
    unsigned char found[128];
    return libusb_get_device_descriptor(libusb_get_device(device), &d) == 0 && d.iSerialNumber &&
           libusb_get_string_descriptor_ascii(device, d.iSerialNumber, found, sizeof found) >= 0 &&
           strcmp((char *)found, serial) == 0;
}

static libusb_device_handle *find(libusb_context *usb, const char *serial)
{
    libusb_device **list;
    libusb_device_handle *found = NULL, *device;
    ssize_t n = libusb_get_device_list(usb, &list);
    for (ssize_t i = 0; i < n && !found; i++) {
        if (libusb_open(list[i], &device) < 0)
            continue;
        if (has_serial(device, serial))
            found = device;
        else
            libusb_close(device);
    }
    if (n >= 0)
        libusb_free_device_list(list, 1);
    return found;
}

static void note_endpoints(struct bare_usb *b)
{
    struct libusb_config_descriptor *config;
    usb_check(libusb_get_active_config_descriptor(libusb_get_device(b->device), &config), "USB");
    const struct libusb_interface_descriptor *d = config->interface[0].altsetting;
    for (int i = 0; i < d->bNumEndpoints; i++) {
        uint8_t address = d->endpoint[i].bEndpointAddress;
        *(address & LIBUSB_ENDPOINT_IN ? &b->in : &b->out) = address;
    }
    libusb_free_config_descriptor(config);
}

struct bare_usb *bare_usb_open(const char *serial)
{
    struct bare_usb *b = calloc(1, sizeof *b);
    if (!b)
        load_fail("no memory");
    usb_check(libusb_init(&b->usb), "USB");
    b->device = find(b->usb, serial);
    if (!b->device)
        load_fail("there is no gadget with the serial number %s", serial);
    note_endpoints(b);
    usb_check(libusb_claim_interface(b->device, 0), "the bare interface");
    for (unsigned i = 0; i < USB_LINK_TRANSFERS; i++)
        if (!(b->transfers[i] = libusb_alloc_transfer(0)))
            load_fail("no memory");
    return b;
}

void bare_usb_close(struct bare_usb *b)
{
    for (unsigned i = 0; i < USB_LINK_TRANSFERS; i++)
        libusb_free_transfer(b->transfers[i]);
    libusb_release_interface(b->device, 0);
    libusb_close(b->device);
    libusb_exit(b->usb);
    free(b);
}

static void LIBUSB_CALL on_transfer(struct libusb_transfer *t)
{
    struct bare_usb *b = t->user_data;
    b->bytes += (unsigned)t->actual_length;
    if (!b->ends && t->status == LIBUSB_TRANSFER_COMPLETED)
        usb_check(libusb_submit_transfer(t), "a transfer");
    else if (b->ends)
        b->n_busy--;
    else
        load_fail("a transfer ended with %d", t->status);
}

static void handle_until(struct bare_usb *b, uint64_t until)
{
    while (clock_us() < until)
        usb_check(libusb_handle_events_timeout(b->usb, &(struct timeval){0, 10000}), "USB");
}

static void end_transfers(struct bare_usb *b)
{
    b->ends = true;
    for (unsigned i = 0; i < USB_LINK_TRANSFERS; i++)
        libusb_cancel_transfer(b->transfers[i]);
    while (b->n_busy > 0)
        usb_check(libusb_handle_events(b->usb), "USB");
    b->ends = false;
}

double bare_usb_rate(struct bare_usb *b, bool up, double seconds)
{
    for (unsigned i = 0; i < USB_LINK_TRANSFERS; i++, b->n_busy++) {
        libusb_fill_bulk_transfer(b->transfers[i], b->device, up ? b->out : b->in, b->blocks[i],
                                  MUX_BLOCK, on_transfer, b, 0);
        usb_check(libusb_submit_transfer(b->transfers[i]), "a transfer");
    }
    handle_until(b, clock_us() + (uint64_t)(seconds * WARM_UP * 1e6));
    uint64_t begin = clock_us();
    b->bytes = 0;
    handle_until(b, begin + (uint64_t)(seconds * 1e6));
    double rate = (double)b->bytes * 1e6 / (double)(clock_us() - begin);
    end_transfers(b);
    return rate;
}
