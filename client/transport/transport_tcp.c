// tcp:HOST:PORT, a daemon elsewhere. All addresses of the host are tried in the resolver's order.
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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

static void tcp_append(char *text, size_t size, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? ", " : "", word);
}

// Shows what the name resolves to: a wrong address in a hosts file is seen at once.
static void tcp_tell_addresses(struct checks *c, const struct uri *uri, const struct addrinfo *list)
{
    char all[300] = "", one[NI_MAXHOST];
    for (; list; list = list->ai_next)
        if (getnameinfo(list->ai_addr, list->ai_addrlen, one, sizeof one, NULL, 0,
                        NI_NUMERICHOST) == 0)
            tcp_append(all, sizeof all, one);
    checks_tell(c, RKNND_CHECK_GOOD, "host", "", "%s is %s", uri->text, all);
}

// Two hops: the name, then the port. HELLO is the caller's (doctor_reach.c).
static bool tcp_diagnose(struct checks *c, const struct uri *uri)
{
    struct error e;
    cleanup(freeaddrinfo_p) struct addrinfo *list = NULL;
    if (connect_look_up(uri, &list, &e) < 0) {
        checks_tell(c, RKNND_CHECK_BAD, "host",
                    "correct the name, or give the address; `getent hosts NAME` asks the same",
                    "%s", e.text);
        return false;
    }
    tcp_tell_addresses(c, uri, list);
    cleanup(fd_close_p) int fd = connect_addresses(list);
    if (fd >= 0)
        checks_tell(c, RKNND_CHECK_GOOD, "connection", "", "port %u is open", uri->port);
    else
        checks_tell(c, RKNND_CHECK_BAD, "connection", connect_advice(-fd), "port %u: %s", uri->port,
                    strerror(-fd));
    return fd >= 0;
}

const struct transport transport_tcp = {
    .uri = URI_SCHEME_TCP,
    .help = "a daemon elsewhere",
    .connect = tcp_connect,
    .diagnose = tcp_diagnose,
};
