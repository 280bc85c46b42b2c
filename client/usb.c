// USB boards and their relays.
#include "client/usb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/usb.h"
#include "client/connect.h"

#define SYSFS "/sys"

bool usb_read_attribute(const char *sysfs, const char *device, const char *name, char *ret,
                        size_t size)
{
    char path[600];
    snprintf(path, sizeof path, "%.256s/bus/usb/devices/%.255s/%s", sysfs, device, name);
    cleanup(fclose_p) FILE *f = fopen(path, "re");
    if (!f || !fgets(ret, (int)size, f))
        return false;
    ret[strcspn(ret, "\n")] = 0;
    return true;
}

DIR *usb_open_devices(const char *sysfs)
{
    char path[300];
    snprintf(path, sizeof path, "%.256s/bus/usb/devices", sysfs);
    return opendir(path);
}

static bool attribute_is(const char *interface, const char *name, unsigned wanted)
{
    char text[32], *end;
    return usb_read_attribute(SYSFS, interface, name, text, sizeof text) &&
           strtoul(text, &end, 16) == wanted && end > text && !*end;
}

static bool is_ours(const char *interface)
{
    return attribute_is(interface, "bInterfaceClass", USB_CLASS) &&
           attribute_is(interface, "bInterfaceSubClass", USB_SUBCLASS) &&
           attribute_is(interface, "bInterfaceProtocol", USB_PROTOCOL);
}

// `interface` is "1-2:1.0", of the device "1-2".
static void describe(const char *interface, struct usb_board_info *ret)
{
    char device[64], bus[16] = "0", number[16] = "0", path[512];
    snprintf(device, sizeof device, "%.*s", (int)strcspn(interface, ":"), interface);
    *ret = (struct usb_board_info){0};
    usb_read_attribute(SYSFS, device, "serial", ret->serial, sizeof ret->serial);
    usb_read_attribute(SYSFS, device, "busnum", bus, sizeof bus);
    usb_read_attribute(SYSFS, device, "devnum", number, sizeof number);
    snprintf(ret->node, sizeof ret->node, "/dev/bus/usb/%03d/%03d", atoi(bus), atoi(number));
    snprintf(path, sizeof path, SYSFS "/bus/usb/devices/%s/driver", interface);
    ret->in_use = access(path, F_OK) == 0;
    ret->allowed = access(ret->node, R_OK | W_OK) == 0;
}

unsigned usb_list(struct usb_board_info *ret, unsigned max)
{
    cleanup(closedir_p) DIR *folder = usb_open_devices(SYSFS);
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

static int try_relay(const char *runtime, const char *serial)
{
    char text[256];
    struct uri uri;
    struct error e;
    if ((size_t)usb_relay_uri(runtime, serial, text, sizeof text) >= sizeof text ||
        uri_parse(text, &uri, &e) < 0)
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
