// A client of the adb server's "smart socket" protocol (adb's OVERVIEW.TXT and SERVICES.TXT):
//
//     request   0012host:transport-any     length in four hexadecimal digits, text
//     answer    OKAY, or FAIL with a length and a text
//
// host:transport:SERIAL chooses a board; a service requested after it (localfilesystem:PATH,
// tcp:PORT) turns the connection into a stream to the board. Everything ends by a->until, and
// the lengths that the server names are bounded.
#include "client/transport/adb_server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/net/uri.h"
#include "client/limits.h"
#include "client/transport/connect.h"

// Of a stream's socket; what kernels allow by default. The server and adbd take all that comes, and
// pay for a long queue with memory that they get from the kernel and give back with every tensor.
#define SEND_BUFFER 212992
#define HEX_DIGITS  "0123456789abcdefABCDEF"

struct adb {
    int fd;
    uint64_t until; // clock_ms()
};

// ---- the server ---------------------------------------------------------------------------------

// The server's address, from the environment variables that adb itself uses; else 127.0.0.1:5037.
static int find_server(struct uri *ret, struct error *e)
{
    const char *socket = getenv("ADB_SERVER_SOCKET"), *host = getenv("ANDROID_ADB_SERVER_ADDRESS"),
               *port = getenv("ANDROID_ADB_SERVER_PORT");
    char text[300];
    if (socket && strncmp(socket, "tcp:", 4) == 0)
        snprintf(text, sizeof text, strchr(socket + 4, ':') ? "%s" : "tcp:localhost:%s",
                 strchr(socket + 4, ':') ? socket : socket + 4);
    else
        snprintf(text, sizeof text, "tcp:%s:%s", host && *host ? host : "127.0.0.1",
                 port && *port ? port : "5037");
    int r = uri_parse(text, (const struct uri_scheme *const[]){&uri_tcp}, 1, ret, e);
    return r < 0 ? error_prefix(e, "the adb server's address in the environment") : 0;
}

static int open_server(struct adb *a, struct error *e)
{
    struct uri uri;
    int r = find_server(&uri, e);
    if (r < 0)
        return r;
    a->until = clock_ms() + LIMIT_CONNECT_MS;
    cleanup(freeaddrinfo_p) struct addrinfo *list = NULL;
    r = connect_look_up(&uri, &list, e);
    if (r < 0)
        return error_prefix(e, "the adb server");
    a->fd = connect_addresses(list);
    if (a->fd >= 0)
        return 0;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "no adb server answers at %s:%u: %s; adb start-server starts it here, "
                     "ADB_SERVER_SOCKET=tcp:HOST:PORT names one that is elsewhere",
                     uri.text, uri.port, strerror(-a->fd));
}

// ---- requests -----------------------------------------------------------------------------------

// Waits for the socket, as long as a->until. 0 or -errno.
static int adb_await(const struct adb *a, short events)
{
    struct pollfd p = {a->fd, events, 0};
    int r;
    do
        r = poll(&p, 1, clock_poll_ms(clock_ms(), a->until));
    while (r < 0 && errno == EINTR);
    return r == 0 ? -ETIMEDOUT : r < 0 ? -errno : 0;
}

// Sends or receives exactly `size` bytes. 0 or -errno; -ECONNRESET if the server hung up.
static int adb_transfer(const struct adb *a, bool out, char *text, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = out ? send(a->fd, text + done, size - done, MSG_NOSIGNAL)
                        : recv(a->fd, text + done, size - done, 0);
        if (n == 0)
            return -ECONNRESET;
        int r = 0;
        if (n > 0)
            done += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            r = adb_await(a, out ? POLLOUT : POLLIN);
        else if (errno != EINTR)
            r = -errno;
        if (r < 0)
            return r;
    }
    return 0;
}

// A length and the text behind it, cut to fit.
static int read_text(const struct adb *a, char *ret, size_t size)
{
    char digits[5] = "", drop[64];
    int r = adb_transfer(a, false, digits, 4);
    size_t length = r == 0 ? strtoul(digits, NULL, 16) : 0;
    if (r != 0 || strspn(digits, HEX_DIGITS) != 4) // strtoul() would take signs and spaces, too
        return r != 0 ? r : -EPROTO;
    size_t kept = length < size ? length : size - 1;
    r = adb_transfer(a, false, ret, kept);
    ret[r == 0 ? kept : 0] = 0;
    for (size_t left = length - kept; r == 0 && left > 0;) {
        size_t part = left < sizeof drop ? left : sizeof drop;
        r = adb_transfer(a, false, drop, part);
        left -= part;
    }
    return r;
}

// Sends one request and reads OKAY or FAIL. Returns 0 or a status; what a FAIL says becomes the
// error's words unchanged.
static int adb_request(const struct adb *a, const char *text, struct error *e)
{
    char message[300], answer[5] = "", said[300] = "";
    snprintf(message, sizeof message, "%04x%s", (unsigned)strlen(text), text);
    int r = adb_transfer(a, true, message, strlen(message));
    if (r == 0)
        r = adb_transfer(a, false, answer, 4);
    if (r == 0 && strcmp(answer, "OKAY") == 0)
        return 0;
    if (r == 0)
        r = strcmp(answer, "FAIL") == 0 ? read_text(a, said, sizeof said) : -EPROTO;
    if (r == 0)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "%s",
                         *said ? said : "the adb server refuses, and does not say why");
    return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, -r, "the adb server");
}

// ---- boards -------------------------------------------------------------------------------------

// What to do about a state or an answer of adb, by a part of its text. The first match counts.
static const struct {
    const char *said, *advice;
} advices[] = {
    {"more than one", "name one: adb:SERIAL (adb devices lists them)"},
    {"no devices", "no board is connected to adb (adb devices; for a network board: adb connect)"},
    {"not found", "adb devices lists the boards that there are"},
    {"unauthorized", "the board has to accept this computer's key: confirm it there, or put "
                     "~/.android/adbkey.pub into its /adb_keys"},
    {"offline", "reconnect it (adb reconnect), or plug it in again"},
    {"no permissions", "adb may not open the USB device: install its udev rules, then adb "
                       "kill-server as the user who started it"},
    {"authorizing", "try again in a moment"},
};

const char *adb_advice(const char *said)
{
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
        if (strstr(said, advices[i].said))
            return advices[i].advice;
    return "adb devices shows the board's state";
}

static int choose_board(const struct adb *a, const char *serial, struct error *e)
{
    char text[200];
    snprintf(text, sizeof text, *serial ? "host:transport:%s" : "host:transport-any", serial);
    int r = adb_request(a, text, e);
    if (r == 0)
        return 0;
    struct error said = *e;
    return error_set(e, r, "adb: %s; %s", said.text, adb_advice(said.text));
}

// Tries one way to reach rknnd on the board. A refused service ends the connection, so each is
// tried on a new one. *chosen: the board was there, and only the service was refused.
static int try_service(const char *serial, const char *service, bool *chosen, struct error *e)
{
    struct adb a;
    int r = open_server(&a, e);
    if (r < 0)
        return r;
    cleanup(fd_close_p) int fd = a.fd;
    r = choose_board(&a, serial, e);
    *chosen = r == 0;
    if (r == 0)
        r = adb_request(&a, service, e);
    if (r == 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){SEND_BUFFER}, sizeof(int));
    return r < 0 ? r : steal_fd(&fd);
}

// The board's Unix socket first; the TCP port for daemons that listen there only.
int adb_connect(const char *serial, struct error *e)
{
    static const char *const services[] = {"localfilesystem:" URI_SYSTEM_SOCKET, "tcp:8910"};
    if (strlen(serial) >= sizeof((struct adb_device *)0)->serial)
        return error_set(e, STATUS_PARAM_INVALID, "the serial number is too long");
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        bool chosen = false;
        int fd = try_service(serial, services[i], &chosen, e);
        if (fd >= 0 || !chosen)
            return fd;
    }
    struct error said = *e;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "the board answers, but rknnd does not (tried %s and %s there: %s); start "
                     "rknnd on it",
                     services[0], services[1], said.text);
}

// The list is one line per board: SERIAL, a tab, STATE. Cuts `text` into lines. Returns how many.
static int parse_devices(char *text, struct adb_device *ret, int max)
{
    int n = 0;
    char *rest, *line;
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *tab = strchr(line, '\t');
        if (!tab)
            continue;
        if (n < max) {
            snprintf(ret[n].serial, sizeof ret[n].serial, "%.*s", (int)(tab - line), line);
            snprintf(ret[n].state, sizeof ret[n].state, "%s", tab + 1);
        }
        n++;
    }
    return n;
}

int adb_version(unsigned *ret, struct error *e)
{
    struct adb a;
    char text[8], *end = text;
    int r = open_server(&a, e);
    if (r < 0)
        return r;
    unsigned long version = 0;
    if (adb_request(&a, "host:version", NULL) == 0 && read_text(&a, text, sizeof text) == 0)
        version = strtoul(text, &end, 16);
    fd_close(a.fd);
    if (end != text + 4 || *end)
        return error_set(e, STATUS_FAIL, "what is there does not answer as adb's server");
    *ret = (unsigned)version;
    return 0;
}

static int ask_devices(const struct adb *a, struct adb_device *ret, int max, struct error *e)
{
    char text[8192];
    int r = adb_request(a, "host:devices", e);
    if (r < 0)
        return r;
    r = read_text(a, text, sizeof text);
    if (r < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, -r, "the adb server");
    return parse_devices(text, ret, max);
}

int adb_list(struct adb_device *ret, int max, struct error *e)
{
    struct adb a;
    int r = open_server(&a, e);
    if (r < 0)
        return r;
    r = ask_devices(&a, ret, max, e);
    fd_close(a.fd);
    return r;
}
