#include "kserve/http/listening.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/net/tcp.h"

#define BACKLOG 256

int listening_parse(const char *text, struct uri *ret, struct error *e)
{
    static const struct uri_scheme *const schemes[] = {&uri_unix, &uri_tcp};
    return uri_parse(text, schemes, 2, ret, e);
}

// A socket file that nobody answers at is left over.
static int open_unix(const char *path, struct error *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    cleanup(fd_close_p) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return error_set(e, STATUS_PARAM_INVALID, "another server listens at %s", path);
    struct stat s;
    if (lstat(path, &s) == 0 && S_ISSOCK(s.st_mode))
        unlink(path);
    fd_close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || chmod(path, 0660) < 0 ||
        listen(fd, BACKLOG) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "listening at %s", path);
    fd_refuse_passed(fd);
    return steal_fd(&fd);
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
    return r < 0 ? error_set_errno(e, STATUS_FAIL, -r, "listening at %s, port %s", u->text, port)
                 : r;
}

int listening_open(const struct uri *u, bool insecure, struct error *e)
{
    return u->scheme == &uri_unix ? open_unix(u->text, e) : open_tcp(u, insecure, e);
}
