// tcp:HOST:PORT, a daemon elsewhere. All addresses of the host are tried in the resolver's order.
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "client/transport/connect.h"
#include "client/transport/transports.h"

// The transport's connect(): the error has the reason and what to do about it.
static int tcp_connect(struct transport_attempt *a, struct error *e)
{
    cleanup(freeaddrinfo_p) struct addrinfo *list = NULL;
    int r = connect_look_up(a->address, &list, e);
    if (r < 0)
        return r;
    int fd = connect_addresses(list);
    return fd >= 0 ? fd
                   : error_set(e, STATUS_DEVICE_UNAVAILABLE, "cannot connect: %s; %s",
                               strerror(-fd), connect_advice(-fd));
}

// Two hops: the name, then the port. HELLO is the caller's (doctor_reach.c).
static bool tcp_diagnose(struct checks *c, const struct uri *uri)
{
    cleanup(fd_close_p) int fd = connect_check(c, uri);
    return fd >= 0;
}

const struct transport transport_tcp = {
    .uri = URI_SCHEME_TCP,
    .help = "a daemon elsewhere",
    .connect = tcp_connect,
    .diagnose = tcp_diagnose,
};
