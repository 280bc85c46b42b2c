// TCP sockets: low latency for small messages, and noticing a dead peer (tcp(7)). Options that a
// kernel does not know are left out silently; nothing depends on them for correctness.
#include "base/net/tcp.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>

#define UNPACED "reno" // every kernel has it, and lets every user choose it

#define MAX_PROBES 127 // TCP_KEEPCNT's largest

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 // Linux 6.15
#endif
#define RTO_MAX_MIN 1000u // ms, the least that may be chosen

bool tcp_is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (address->sa_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

// No Nagle delay: a request is one message whose reply is awaited. Over loopback, BBR's pacing
// would only slow large payloads down.
void tcp_prepare(int socket, const struct sockaddr *peer)
{
    if (peer->sa_family != AF_INET && peer->sa_family != AF_INET6)
        return;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (tcp_is_loopback(peer))
        setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, UNPACED, sizeof UNPACED - 1);
}

// Sends the delayed ACK now. The kernel forgets the setting, so this is repeated after reads.
void tcp_acknowledge(int socket)
{
    setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &(int){1}, sizeof(int));
}

// Keep-alive times are in seconds, at least 1.
static int whole_seconds(uint64_t ms)
{
    return ms > 1000 ? (int)((ms + 999) / 1000) : 1;
}

// Keep-alive probes after idle_ms without traffic, over timeout_ms. The kernel gives up later than
// tcp_is_gone() does, which decides. TCP_USER_TIMEOUT is not used: it also ends connections whose
// peer is alive but does not read.
void tcp_keep_asking(int socket, uint32_t idle_ms, uint32_t timeout_ms)
{
    int idle = whole_seconds(idle_ms), all = whole_seconds(timeout_ms);
    int interval = all / (MAX_PROBES / 2) > idle ? all / (MAX_PROBES / 2) : idle;
    int n = all / interval + 3;
    uint32_t max = timeout_ms / 4 > RTO_MAX_MIN ? timeout_ms / 4 : RTO_MAX_MIN;
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof n);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
    // Older kernels do not know it: see tcp_is_gone().
    setsockopt(socket, IPPROTO_TCP, TCP_RTO_MAX_MS, &max, sizeof max);
}

// Whether the peer has been silent too long, by counting segments (TCP_INFO). Called regularly; `a`
// remembers the last answer:
//
// heard_ms   when tcpi_segs_in last changed
// asked_ms   when two segments had gone out since: something that the peer must answer
//
// Gone: silent for timeout_ms, and asked at least a quarter of that ago. Silence alone is no sign,
// as an idle connection has nothing to answer. Old kernels without the counters: never gone.
bool tcp_is_gone(struct tcp_answers *a, int socket, uint64_t now_ms, uint32_t timeout_ms)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 ||
        size < offsetof(struct tcp_info, tcpi_segs_in) + sizeof info.tcpi_segs_in)
        return false;
    if (a->heard_ms == 0 || info.tcpi_segs_in != a->n_in)
        *a = (struct tcp_answers){
            .heard_ms = now_ms, .n_in = info.tcpi_segs_in, .n_out = info.tcpi_segs_out};
    else if (a->asked_ms == 0 && info.tcpi_segs_out - a->n_out >= 2)
        a->asked_ms = now_ms;
    return a->asked_ms > 0 && now_ms - a->asked_ms >= timeout_ms / 4 &&
           now_ms - a->heard_ms > timeout_ms;
}

const char *tcp_listen_advice(int error)
{
    return error == EADDRINUSE ? "; another program listens there: end it, or choose another port"
           : error == EADDRNOTAVAIL ? "; this machine has no such address"
           : error == EACCES        ? "; ports below 1024 are for root: choose another one"
                                    : "";
}
