// Boards that are connected to this machine: adb's server, USB.
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "client/connect.h"
#include "client/doctor.h"

#define ADB_ANSWER_MS 1000
#define ROCKCHIP      "2207" // USB vendor

// ---- adb ---------------------------------------------------------------------------------------

// Reads `size` bytes; false when they do not come in time.
static bool read_all(int fd, char *to, size_t size, uint64_t until)
{
    while (size > 0) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, clock_poll_ms(clock_ms(), until)) <= 0)
            return false;
        ssize_t n = recv(fd, to, size, 0);
        if (n <= 0)
            return false;
        to += n;
        size -= (size_t)n;
    }
    return true;
}

// adb's OVERVIEW: "000C" and "host:version"; the answer is OKAY, a length and the number in
// hexadecimal.
static bool ask_version(int fd, unsigned *ret)
{
    static const char request[] = "000chost:version";
    uint64_t until = clock_ms() + ADB_ANSWER_MS;
    char answer[13] = "";
    return send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == sizeof request - 1 &&
           read_all(fd, answer, 12, until) && sscanf(answer, "OKAY0004%4x", ret) == 1;
}

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
    else if (ask_version(fd, &version))
        doctor_tell(d, RKNND_CHECK_GOOD, "adb", "", "adb's server on port %u has version %u", port,
                    version);
    else
        doctor_tell(d, RKNND_CHECK_NOTE, "adb", "set ANDROID_ADB_SERVER_PORT to adb's own port",
                    "what listens on port %u does not answer as adb's server", port);
}

// ---- USB ---------------------------------------------------------------------------------------

static bool read_line(const char *folder, const char *device, const char *name, char *ret,
                      size_t size)
{
    char path[600];
    snprintf(path, sizeof path, "%.256s/bus/usb/devices/%.255s/%s", folder, device, name);
    cleanup(fclose_p) FILE *file = fopen(path, "re");
    if (!file || !fgets(ret, (int)size, file))
        return false;
    ret[strcspn(ret, "\n")] = 0;
    return true;
}

static bool tell_board(struct doctor *d, const char *sysfs, const char *device)
{
    char vendor[16], id[16] = "?", product[64] = "unnamed", serial[64] = "none";
    if (!read_line(sysfs, device, "idVendor", vendor, sizeof vendor) ||
        strcmp(vendor, ROCKCHIP) != 0)
        return false;
    read_line(sysfs, device, "idProduct", id, sizeof id);
    read_line(sysfs, device, "product", product, sizeof product);
    read_line(sysfs, device, "serial", serial, sizeof serial);
    doctor_tell(d, RKNND_CHECK_NOTE, "usb", "", "a Rockchip board, %s:%s (%s, serial %s)", vendor,
                id, product, serial);
    return true;
}

static void closedir_p(DIR **folder)
{
    if (*folder)
        closedir(*folder);
}

void doctor_usb(struct doctor *d, const char *sysfs)
{
    char path[300];
    unsigned n = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "%.256s/bus/usb/devices", sysfs);
    cleanup(closedir_p) DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder)))
        n += entry->d_name[0] != '.' && tell_board(d, sysfs, entry->d_name);
    if (n == 0)
        doctor_tell(d, RKNND_CHECK_SKIPPED, "usb", "", "no Rockchip board on USB");
}
