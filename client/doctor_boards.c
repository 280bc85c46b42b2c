// Boards that are connected to this machine: adb's server, USB.
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "client/adb.h"
#include "client/connect.h"
#include "client/doctor.h"
#include "client/usb.h"

#define ADB_ANSWER_MS 1000
#define ROCKCHIP      "2207" // USB vendor

// ---- adb ---------------------------------------------------------------------------------------

void doctor_adb(struct doctor *d, uint16_t port)
{
    unsigned version;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct addrinfo a = {
        .ai_family = AF_INET, .ai_addr = (struct sockaddr *)&address, .ai_addrlen = sizeof address};
    cleanup(fd_close_p) int fd = connect_address(&a);
    if (fd < 0)
        doctor_tell(d, RKNND_CHECK_SKIPPED, "adb", "",
                    "no adb server on port %u (`adb start-server` starts one; only adb: needs it)",
                    port);
    else if (adb_ask_version(fd, clock_ms() + ADB_ANSWER_MS, &version))
        doctor_tell(d, RKNND_CHECK_GOOD, "adb", "", "adb's server on port %u has version %u", port,
                    version);
    else
        doctor_tell(d, RKNND_CHECK_NOTE, "adb", "set ANDROID_ADB_SERVER_PORT to adb's own port",
                    "what listens on port %u does not answer as adb's server", port);
}

// ---- USB ---------------------------------------------------------------------------------------

static bool tell_board(struct doctor *d, const char *sysfs, const char *device)
{
    char vendor[16], id[16] = "?", product[64] = "unnamed", serial[64] = "none";
    if (!usb_read_attribute(sysfs, device, "idVendor", vendor, sizeof vendor) ||
        strcmp(vendor, ROCKCHIP) != 0)
        return false;
    usb_read_attribute(sysfs, device, "idProduct", id, sizeof id);
    usb_read_attribute(sysfs, device, "product", product, sizeof product);
    usb_read_attribute(sysfs, device, "serial", serial, sizeof serial);
    doctor_tell(d, RKNND_CHECK_NOTE, "usb", "", "a Rockchip board, %s:%s (%s, serial %s)", vendor,
                id, product, serial);
    return true;
}

void doctor_usb(struct doctor *d, const char *sysfs)
{
    unsigned n = 0;
    struct dirent *entry;
    cleanup(closedir_p) DIR *folder = usb_open_devices(sysfs);
    while (folder && (entry = readdir(folder)))
        n += entry->d_name[0] != '.' && tell_board(d, sysfs, entry->d_name);
    if (n == 0)
        doctor_tell(d, RKNND_CHECK_SKIPPED, "usb", "", "no Rockchip board on USB");
}
