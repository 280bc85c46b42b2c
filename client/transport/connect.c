// Connecting stream sockets, bounded in time: LIMIT_CONNECT_MS for each address. Used by the
// transports and by their diagnosis, in the thread of the call. The sockets are non-blocking from
// the start, so that connect() can be given up.
#include "client/transport/connect.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/net/tcp.h"
#include "client/limits.h"
#include "client/wait_end.h"

// Waits for a connect() that is in progress; its result is SO_ERROR (connect(2)). 0 or an errno.
static int await_connected(int fd, uint64_t until)
{
    struct pollfd p = {fd, POLLOUT, 0};
    int r, error;
    socklen_t size = sizeof error;
    do {
        uint64_t now = clock_ms();
        r = poll(&p, 1, clock_poll_ms(now, interrupt_before(now, until)));
        if (r > 0 || (r < 0 && errno != EINTR))
            break;
        if (interrupt_asked())
            return EINTR;
    } while (clock_ms() < until);
    if (r == 0 || (r < 0 && errno == EINTR))
        return ETIMEDOUT;
    if (r < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return errno;
    return error;
}

// Returns a connected socket or -errno. An interrupted connect() goes on in the kernel, so EINTR is
// waited for like EINPROGRESS.
static int connect_socket(int family, const struct sockaddr *address, socklen_t size)
{
    cleanup(fd_close_p) int fd =
        fd_above_standard(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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

// The kernel takes up to 108 bytes without a terminating 0 (unix(7)); one is kept for it here.
int connect_file(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return -ENAMETOOLONG;
    memcpy(a.sun_path, path, strlen(path));
    return connect_socket(AF_UNIX, (struct sockaddr *)&a, sizeof a);
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
    for (const struct addrinfo *a = list; a && fd < 0 && fd != -EINTR; a = a->ai_next)
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

// ---- telling a person ---------------------------------------------------------------------------

static void append_word(char *text, size_t size, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? ", " : "", word);
}

// Shows what the name resolves to: a wrong address in a hosts file is seen at once.
static void tell_addresses(struct checks *c, const struct uri *uri, const struct addrinfo *list)
{
    char all[300] = "", one[NI_MAXHOST];
    for (; list; list = list->ai_next)
        if (getnameinfo(list->ai_addr, list->ai_addrlen, one, sizeof one, NULL, 0,
                        NI_NUMERICHOST) == 0)
            append_word(all, sizeof all, one);
    checks_tell(c, RKNND_CHECK_GOOD, "host", "", "%s is %s", uri->text, all);
}

// The hops up to a connection.
int connect_check(struct checks *c, const struct uri *uri)
{
    struct error e;
    cleanup(freeaddrinfo_p) struct addrinfo *list = NULL;
    if (connect_look_up(uri, &list, &e) < 0) {
        checks_tell(c, RKNND_CHECK_BAD, "host",
                    "correct the name, or give the address; `getent hosts NAME` asks the same",
                    "%s", e.text);
        return e.code;
    }
    tell_addresses(c, uri, list);
    int fd = connect_addresses(list);
    if (fd >= 0)
        checks_tell(c, RKNND_CHECK_GOOD, "connection", "", "port %u is open", uri->port);
    else
        checks_tell(c, RKNND_CHECK_BAD, "connection", connect_advice(-fd), "port %u: %s", uri->port,
                    strerror(-fd));
    return fd;
}
