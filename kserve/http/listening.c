#include "kserve/http/listening.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/net/tcp.h"
#include "base/net/unix_socket.h"

#define BACKLOG 256

int listening_parse(const char *text, struct uri *ret, struct error *e)
{
    static const struct uri_scheme *const schemes[] = {&uri_unix, &uri_tcp};
    return uri_parse(text, schemes, 2, ret, e);
}

static int open_unix(const char *path, struct error *e)
{
    int fd = unix_listen(path, NULL, e);
    if (fd >= 0)
        fd_refuse_passed(fd);
    return fd;
}

static int open_address(const struct addrinfo *a)
{
    cleanup(fd_close_p) int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return steal_fd(&fd);
}

static inline void freeaddrinfo_p(struct addrinfo **a)
{
    if (*a)
        freeaddrinfo(*a);
}

static int open_tcp(const struct uri *u, bool insecure, struct error *e)
{
    cleanup(freeaddrinfo_p) struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    char port[8];
    snprintf(port, sizeof port, "%u", u->port);
    int r = getaddrinfo(u->text, port, &hints, &found);
    if (r != 0)
        return error_set(e, STATUS_PARAM_INVALID, "%s: %s", u->text, gai_strerror(r));
    if (!insecure && !tcp_is_loopback(found->ai_addr))
        return error_set(e, STATUS_PARAM_INVALID,
                         "tcp:%s can be reached from other machines, by whom nobody knows: put a "
                         "proxy with TLS in front of tcp:127.0.0.1, or say --insecure",
                         u->text);
    r = open_address(found);
    return r < 0 ? error_set(e, STATUS_FAIL, "listening at %s, port %s: %s%s", u->text, port,
                             strerror(-r), tcp_listen_advice(-r))
                 : r;
}

int listening_open(const struct uri *u, bool insecure, struct unix_file *ret_file, struct error *e)
{
    *ret_file = (struct unix_file){.inode = 0};
    if (u->scheme != &uri_unix)
        return open_tcp(u, insecure, e);
    int fd = open_unix(u->text, e);
    if (fd >= 0)
        *ret_file = unix_file_at(u->text);
    return fd;
}
