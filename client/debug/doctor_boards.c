// Boards that are connected to this machine: behind adb's server, at a USB cable.
#include <string.h>

#include "base/cleanup.h"
#include "client/debug/devices.h"
#include "client/debug/doctor.h"
#include "client/link/adb.h"
#include "client/link/usb_boards.h"

#define MAX_BOARDS 32
#define ROCKCHIP   "2207" // USB vendor

static bool tell_board(struct doctor *d, const char *check, rknnd_verdict bad,
                       const rknnd_device *board)
{
    bool usable = !*board->obstacle;
    doctor_tell(d, usable ? RKNND_CHECK_GOOD : bad, check, board->advice, "%s %s%s", board->uri,
                usable ? "can be used" : "cannot be used: ", board->obstacle);
    return usable;
}

static unsigned tell_boards(struct doctor *d, const char *check, const rknnd_device *list,
                            unsigned n)
{
    for (unsigned i = 0; i < n && i < MAX_BOARDS; i++)
        tell_board(d, check, RKNND_CHECK_NOTE, &list[i]);
    return n;
}

// ---- the one that is wanted --------------------------------------------------------------------

bool doctor_board(struct doctor *d, const struct uri *uri)
{
    rknnd_device list[MAX_BOARDS], *found = NULL;
    char wanted[300];
    unsigned n_found = 0, n = devices_find_boards(list, MAX_BOARDS);
    uri_format(uri, wanted, sizeof wanted);
    for (unsigned i = 0; i < n && i < MAX_BOARDS; i++) {
        bool any = !*uri->text && strncmp(list[i].uri, wanted, strlen(wanted)) == 0;
        if (!any && strcmp(list[i].uri, wanted) != 0)
            continue;
        found = &list[i];
        n_found++;
    }
    if (n_found == 1)
        return tell_board(d, "board", RKNND_CHECK_BAD, found);
    if (n_found == 0)
        doctor_tell(d, RKNND_CHECK_BAD, "board",
                    "is the cable in, and does rknnd run there? `rknnctl devices` lists what there "
                    "is",
                    "there is no board %s", wanted);
    else
        doctor_tell(d, RKNND_CHECK_BAD, "board",
                    "add the serial number of one of them (`rknnctl devices` lists them)",
                    "%s means any of %u boards", wanted, n_found);
    return false;
}

// ---- adb ---------------------------------------------------------------------------------------

void doctor_adb(struct doctor *d)
{
    rknnd_device list[MAX_BOARDS];
    unsigned version;
    struct error e;
    int r = adb_version(&version, &e);
    if (r == STATUS_DEVICE_UNAVAILABLE) {
        doctor_tell(d, RKNND_CHECK_SKIPPED, "adb", "", "%s; only adb: needs it", e.text);
    } else if (r < 0) {
        doctor_tell(d, RKNND_CHECK_NOTE, "adb", "set ANDROID_ADB_SERVER_PORT to adb's own port",
                    "%s", e.text);
    } else {
        doctor_tell(d, RKNND_CHECK_GOOD, "adb", "", "adb's server has version %u", version);
        tell_boards(d, "adb", list, devices_find_adb(list, MAX_BOARDS));
    }
}

// ---- USB ---------------------------------------------------------------------------------------

// A board of the maker that does not show rknnd's interface is still worth a word.
static bool tell_other(struct doctor *d, const char *sysfs, const char *device)
{
    char vendor[16], id[16] = "?", product[64] = "unnamed", serial[64] = "none";
    if (!usb_read_attribute(sysfs, device, "idVendor", vendor, sizeof vendor) ||
        strcmp(vendor, ROCKCHIP) != 0 || usb_is_board(sysfs, device))
        return false;
    usb_read_attribute(sysfs, device, "idProduct", id, sizeof id);
    usb_read_attribute(sysfs, device, "product", product, sizeof product);
    usb_read_attribute(sysfs, device, "serial", serial, sizeof serial);
    doctor_tell(d, RKNND_CHECK_NOTE, "usb",
                "for usb: enable rknnd-gadget.service and let rknnd --listen usb run there",
                "a Rockchip board without rknnd's interface, %s:%s (%s, serial %s)", vendor, id,
                product, serial);
    return true;
}

void doctor_usb(struct doctor *d, const char *sysfs)
{
    rknnd_device list[MAX_BOARDS];
    const struct dirent *entry;
    unsigned n = tell_boards(d, "usb", list, devices_find_usb(sysfs, list, MAX_BOARDS));
    cleanup(closedir_p) DIR *folder = usb_open_devices(sysfs);
    while (folder && (entry = readdir(folder)))
        n += entry->d_name[0] != '.' && tell_other(d, sysfs, entry->d_name);
    if (n == 0)
        doctor_tell(d, RKNND_CHECK_SKIPPED, "usb", "", "no board is at a USB cable");
}
