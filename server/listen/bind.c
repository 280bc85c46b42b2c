// Makes listening sockets, Unix and TCP. Used at the start, before the loop runs, so it may block.
#include "server/listen/bind.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/net/tcp.h"
#include "base/net/unix_socket.h"

#define BACKLOG 1024

// ---- Unix ---------------------------------------------------------------------------------------

int bind_unix(const char *path, const char *group, bind_taker *take, void *owner, struct error *e)
{
    char name[sizeof((struct sockaddr_un *)0)->sun_path + 8];
    int fd = unix_listen(path, group, e);
    if (fd < 0)
        return fd;
    snprintf(name, sizeof name, "unix:%s", path);
    return take(owner, fd, name, path, e);
}

// ---- TCP ----------------------------------------------------------------------------------------

// The address as it turned out, with the port that the system chose for 0.
static void name_socket(int fd, char *name, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char host[64] = "?", port[8] = "?";
    if (getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(name, size, address.ss_family == AF_INET6 ? "tcp:[%s]:%s" : "tcp:%s:%s", host, port);
}

bool bind_is_public(int fd, char *uri, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0 ||
        (address.ss_family != AF_INET && address.ss_family != AF_INET6) ||
        tcp_is_loopback((struct sockaddr *)&address))
        return false;
    name_socket(fd, uri, size);
    return true;
}

// IPv6 sockets take IPv6 only, because the host's IPv4 addresses have sockets of their own.
static int bind_address(const struct addrinfo *a, const char *what, bind_taker *take, void *owner,
                        struct error *e)
{
    char name[128];
    int yes = 1;
    cleanup(fd_close_p) int fd =
        socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", what);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        int error = errno;
        return error_set(e, STATUS_FAIL, "%s: %s%s", what, strerror(error),
                         tcp_listen_advice(error));
    }
    name_socket(fd, name, sizeof name);
    return take(owner, steal_fd(&fd), name, NULL, e);
}

int bind_refuse_public(const char *what, const char *advice, struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID, "%s can be reached from other machines, %s", what,
                     advice);
}

// All addresses of the host, which freeaddrinfo() frees, are checked before the first one is bound.
static int find_addresses(const struct uri *uri, const char *what, const char *advice,
                          struct addrinfo **ret, struct error *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all;
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)uri->port);
    int r = getaddrinfo(uri->text, port, &hints, &all);
    if (r != 0)
        return error_set(e, STATUS_PARAM_INVALID, "%s: %s", what, gai_strerror(r));
    for (const struct addrinfo *a = all; a; a = a->ai_next)
        if (advice && !tcp_is_loopback(a->ai_addr)) {
            freeaddrinfo(all);
            return bind_refuse_public(what, advice, e);
        }
    *ret = all;
    return 0;
}

int bind_check_tcp(const struct uri *uri, const char *advice, struct error *e)
{
    struct addrinfo *all = NULL;
    char what[320];
    uri_format(uri, what, sizeof what);
    int r = find_addresses(uri, what, advice, &all, e);
    if (r == 0)
        freeaddrinfo(all);
    return r;
}

static int bind_addresses(const struct addrinfo *all, const char *what, bind_taker *take,
                          void *owner, struct error *e)
{
    for (const struct addrinfo *a = all; a; a = a->ai_next) {
        int r = bind_address(a, what, take, owner, e);
        if (r < 0)
            return r;
    }
    return 0;
}

int bind_tcp(const struct uri *uri, const char *advice, bind_taker *take, void *owner,
             struct error *e)
{
    struct addrinfo *all = NULL;
    char what[320];
    uri_format(uri, what, sizeof what);
    int r = find_addresses(uri, what, advice, &all, e);
    if (r < 0)
        return r;
    r = bind_addresses(all, what, take, owner, e);
    freeaddrinfo(all);
    return r;
}
