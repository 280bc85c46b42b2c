// Connecting sockets.
#include "client/link/connect.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/net/tcp.h"
#include "base/who.h"
#include "client/limits.h"
#include "client/link/adb.h"

// Waits for a connect() that is in progress. 0 or an errno.
static int await_connected(int fd, uint64_t until)
{
    struct pollfd p = {fd, POLLOUT, 0};
    int r, error;
    socklen_t size = sizeof error;
    do
        r = poll(&p, 1, clock_poll_ms(clock_ms(), until));
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return ETIMEDOUT;
    if (r < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return errno;
    return error;
}

// Returns an fd or -errno.
static int connect_socket(int family, const struct sockaddr *address, socklen_t size)
{
    cleanup(fd_close_p) int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    tcp_prepare(fd, address);
    uint64_t until = clock_ms() + LIMIT_CONNECT_MS;
    while (connect(fd, address, size) < 0) {
        // A Unix socket whose queue is full says EAGAIN and cannot be waited for.
        if (errno == EAGAIN && clock_ms() < until)
            poll(NULL, 0, 10);
        else if (errno == EINPROGRESS || errno == EINTR) {
            int error = await_connected(fd, until);
            return error ? -error : steal_fd(&fd);
        } else
            return -errno;
    }
    return steal_fd(&fd);
}

int connect_file(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return -ENAMETOOLONG;
    memcpy(a.sun_path, path, strlen(path));
    return connect_socket(AF_UNIX, (struct sockaddr *)&a, sizeof a);
}

static int denied(const char *path, struct error *e)
{
    char advice[200] = "this user may not write to it, or not enter a folder above it";
    struct stat st;
    if (stat(path, &st) == 0 && st.st_gid != 0 && (st.st_mode & S_IWGRP))
        who_join(st.st_gid, advice, sizeof advice);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "permission denied; %s", advice);
}

static int connect_unix(const char *path, struct error *e)
{
    int fd = connect_file(path);
    if (fd >= 0)
        return fd;
    switch (-fd) {
    case ENOENT:
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "no such socket; is rknnd running?");
    case ECONNREFUSED:
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "nobody listens on this socket; is rknnd running?");
    case EACCES:
        return denied(path, e);
    default:
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, -fd, "cannot connect");
    }
}

int connect_look_up(const struct uri *uri, struct addrinfo **ret, struct error *e)
{
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    snprintf(service, sizeof service, "%u", uri->port);
    int r = getaddrinfo(uri->text, service, &hints, ret);
    return r == 0 ? 0
                  : error_set(e, STATUS_DEVICE_UNAVAILABLE, "host \"%.100s\" is not known: %s",
                              uri->text, gai_strerror(r));
}

int connect_addresses(const struct addrinfo *list)
{
    int fd = -EADDRNOTAVAIL;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connect_socket(a->ai_family, a->ai_addr, a->ai_addrlen);
    return fd;
}

const char *connect_advice(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return "start rknnd there with --listen tcp:ADDRESS:PORT, or correct the port";
    case ETIMEDOUT:
        return "is that machine on? A firewall may drop connections to this port: open it";
    case EHOSTUNREACH:
    case ENETUNREACH:
        return "check the network of both machines: there is no route";
    case EMFILE:
        return "close some of the program's files, or raise the limit (ulimit -n)";
    default:
        return "check address and port";
    }
}

static int connect_tcp(const struct uri *uri, struct error *e)
{
    cleanup(freeaddrinfo_p) struct addrinfo *list = NULL;
    int r = connect_look_up(uri, &list, e);
    if (r < 0)
        return r;
    int fd = connect_addresses(list);
    return fd >= 0 ? fd
                   : error_set(e, STATUS_DEVICE_UNAVAILABLE, "cannot connect: %s; %s",
                               strerror(-fd), connect_advice(-fd));
}

int connect_to(const struct uri *uri, struct error *e)
{
    switch (uri->kind) {
    case URI_UNIX:
        return connect_unix(uri->text, e);
    case URI_TCP:
        return connect_tcp(uri, e);
    case URI_ADB:
        return adb_connect(uri->text, e);
    default:
        return error_set(e, STATUS_PARAM_INVALID, "not a server that a program can connect to");
    }
}
