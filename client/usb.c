// USB boards and their relays.
#include "client/usb.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client/connect.h"

#define DEVICES "/sys/bus/usb/devices"
#define CLASS   "ff" // the interface's numbers: PROTOCOL.md, "USB"
#define SUB     "52"
#define NUMBER  "01"

static void closedir_p(DIR **d)
{
    if (*d)
        closedir(*d);
}

// The text of an attribute, without its end of line. False: there is none.
static bool read_attribute(const char *device, const char *name, char *ret, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, DEVICES "/%s/%s", device, name);
    cleanup(fclose_p) FILE *f = fopen(path, "re");
    if (!f || !fgets(ret, (int)size, f))
        return false;
    ret[strcspn(ret, "\n")] = 0;
    return true;
}

static bool attribute_is(const char *device, const char *name, const char *wanted)
{
    char text[32];
    return read_attribute(device, name, text, sizeof text) && strcmp(text, wanted) == 0;
}

static bool is_ours(const char *interface)
{
    return attribute_is(interface, "bInterfaceClass", CLASS) &&
           attribute_is(interface, "bInterfaceSubClass", SUB) &&
           attribute_is(interface, "bInterfaceProtocol", NUMBER);
}

// `interface` is "1-2:1.0", of the device "1-2".
static void describe(const char *interface, struct usb_board_info *ret)
{
    char device[64], bus[16] = "0", number[16] = "0", path[512];
    snprintf(device, sizeof device, "%.*s", (int)strcspn(interface, ":"), interface);
    *ret = (struct usb_board_info){0};
    read_attribute(device, "serial", ret->serial, sizeof ret->serial);
    read_attribute(device, "busnum", bus, sizeof bus);
    read_attribute(device, "devnum", number, sizeof number);
    snprintf(ret->node, sizeof ret->node, "/dev/bus/usb/%03d/%03d", atoi(bus), atoi(number));
    snprintf(path, sizeof path, DEVICES "/%s/driver", interface);
    ret->in_use = access(path, F_OK) == 0;
    ret->allowed = access(ret->node, R_OK | W_OK) == 0;
}

unsigned usb_list(struct usb_board_info *ret, unsigned max)
{
    cleanup(closedir_p) DIR *folder = opendir(DEVICES);
    const struct dirent *entry;
    unsigned n = 0;
    while (folder && (entry = readdir(folder))) {
        if (!strchr(entry->d_name, ':') || !is_ours(entry->d_name))
            continue;
        if (n < max)
            describe(entry->d_name, &ret[n]);
        n++;
    }
    return n;
}

static int try_relay(const char *folder, const char *serial)
{
    struct uri uri = {.kind = URI_UNIX};
    struct error e;
    if ((size_t)snprintf(uri.text, sizeof uri.text, "%s/rknnd/usb%s%s.sock", folder,
                         *serial ? "-" : "", serial) >= sizeof uri.text)
        return -1;
    return connect_to(&uri, &e);
}

static int try_relays(const char *serial)
{
    const char *own = getenv("XDG_RUNTIME_DIR");
    int fd = try_relay("/run", serial);
    return fd < 0 && own && *own ? try_relay(own, serial) : fd;
}

int usb_connect_relay(const char *serial)
{
    struct usb_board_info only;
    int fd = try_relays(serial);
    if (fd < 0 && !*serial && usb_list(&only, 1) == 1 && *only.serial)
        fd = try_relays(only.serial);
    return fd;
}
