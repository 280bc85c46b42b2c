// USB boards as the kernel's sysfs shows them, and the sockets of their relays. Reading sysfs needs
// no permission and no libusb, so programs can list boards that they may not open.
//
//     SYSFS/bus/usb/devices/1-2        a device: busnum, devnum, serial, idVendor ...
//     SYSFS/bus/usb/devices/1-2:1.0    its interface: bInterfaceClass ..., driver -> in use
#include "client/transport/usb_boards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/line.h"
#include "base/net/usb.h"
#include "client/transport/connect.h"

// ---- the kernel's files -------------------------------------------------------------------------

bool usb_read_attribute(const char *sysfs, const char *device, const char *name, char *ret,
                        size_t size)
{
    char path[600];
    snprintf(path, sizeof path, "%.256s/bus/usb/devices/%.255s/%s", sysfs, device, name);
    return line_read(path, ret, size);
}

DIR *usb_open_devices(const char *sysfs)
{
    char path[300];
    snprintf(path, sizeof path, "%.256s/bus/usb/devices", sysfs);
    return opendir(path);
}

// Interface attributes are hexadecimal.
static bool attribute_is(const char *sysfs, const char *interface, const char *name,
                         unsigned wanted)
{
    char text[32], *end;
    return usb_read_attribute(sysfs, interface, name, text, sizeof text) &&
           strtoul(text, &end, 16) == wanted && end > text && !*end;
}

static bool is_ours(const char *sysfs, const char *interface)
{
    return attribute_is(sysfs, interface, "bInterfaceClass", USB_CLASS) &&
           attribute_is(sysfs, interface, "bInterfaceSubClass", USB_SUBCLASS) &&
           attribute_is(sysfs, interface, "bInterfaceProtocol", USB_PROTOCOL);
}

bool usb_is_board(const char *sysfs, const char *device)
{
    cleanup(closedir_p) DIR *folder = usb_open_devices(sysfs);
    const struct dirent *entry;
    size_t n = strlen(device);
    while (folder && (entry = readdir(folder)))
        if (strncmp(entry->d_name, device, n) == 0 && entry->d_name[n] == ':' &&
            is_ours(sysfs, entry->d_name))
            return true;
    return false;
}

// Fills in a board from its interface's name: "1-2:1.0" is interface 0 of device "1-2". False: it
// has just been unplugged.
static bool usb_describe(const char *sysfs, const char *interface, struct usb_board_info *ret)
{
    char device[64], bus[16], number[16], path[600];
    snprintf(device, sizeof device, "%.*s", (int)strcspn(interface, ":"), interface);
    *ret = (struct usb_board_info){0};
    if (!usb_read_attribute(sysfs, device, "busnum", bus, sizeof bus) ||
        !usb_read_attribute(sysfs, device, "devnum", number, sizeof number))
        return false;
    usb_read_attribute(sysfs, device, "serial", ret->serial, sizeof ret->serial);
    snprintf(ret->node, sizeof ret->node, "/dev/bus/usb/%03lu/%03lu", strtoul(bus, NULL, 10),
             strtoul(number, NULL, 10));
    snprintf(path, sizeof path, "%.256s/bus/usb/devices/%.255s/driver", sysfs, interface);
    // usbfs binds a driver (named "usbfs") to an interface that a program has claimed.
    ret->in_use = access(path, F_OK) == 0;
    if (faccessat(AT_FDCWD, ret->node, R_OK | W_OK, AT_EACCESS) < 0)
        ret->closed = errno;
    return true;
}

// Boards without a serial number are told apart by their node.
static int usb_compare(const void *a, const void *b)
{
    const struct usb_board_info *x = a, *y = b;
    int order = strcmp(x->serial, y->serial);
    return order ? order : strcmp(x->node, y->node);
}

unsigned usb_list(const char *sysfs, struct usb_board_info *ret, unsigned max)
{
    cleanup(closedir_p) DIR *folder = usb_open_devices(sysfs);
    const struct dirent *entry;
    struct usb_board_info board;
    unsigned n = 0;
    while (folder && (entry = readdir(folder))) {
        if (!strchr(entry->d_name, ':') || !is_ours(sysfs, entry->d_name) ||
            !usb_describe(sysfs, entry->d_name, &board))
            continue;
        if (n < max)
            ret[n] = board;
        n++;
    }
    if (max > 0)
        qsort(ret, n < max ? n : max, sizeof *ret, usb_compare);
    return n;
}

// ---- relays -------------------------------------------------------------------------------------

static int try_relay(const char *runtime, const char *serial)
{
    char uri[256];
    if ((size_t)usb_relay_uri(runtime, serial, uri, sizeof uri) >= sizeof uri)
        return -ENAMETOOLONG;
    return connect_file(uri + strlen(uri_unix.name));
}

// The user's own relay first: where the service manager's has the board, there is no other
// (relay.c, give_way()).
int usb_connect_relay(const char *serial)
{
    const char *own = getenv("XDG_RUNTIME_DIR");
    int fd = own && *own ? try_relay(own, serial) : -ENOENT;
    return fd < 0 ? try_relay("/run", serial) : fd;
}
