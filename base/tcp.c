// TCP sockets.
#include "base/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#define UNPACED "reno" // every kernel has it, and lets every user choose it

bool tcp_is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (address->sa_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

void tcp_prepare(int socket, const struct sockaddr *peer)
{
    if (peer->sa_family != AF_INET && peer->sa_family != AF_INET6)
        return;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (tcp_is_loopback(peer))
        setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, UNPACED, sizeof UNPACED - 1);
}

void tcp_acknowledge(int socket)
{
    setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &(int){1}, sizeof(int));
}
