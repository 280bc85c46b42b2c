#include "kserve/peer_key.h"

#include <netinet/in.h>
#include <string.h>

#include "base/net/tcp.h"

enum kind { KIND_CONNECTION = 1, KIND_IPV4, KIND_IPV6, KIND_USER };

static struct seat_key make_key(enum kind kind, const void *bytes, size_t n)
{
    struct seat_key key = {{(uint8_t)kind}};
    memcpy(key.bytes + 1, bytes, n);
    return key;
}

struct seat_key peer_key(int socket, const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    struct ucred user;
    socklen_t size = sizeof user;
    bool is_v4 = address->sa_family == AF_INET, is_v6 = address->sa_family == AF_INET6;
    bool is_mapped = is_v6 && IN6_IS_ADDR_V4MAPPED(v6);
    if ((is_v4 || (is_v6 && !is_mapped)) && !tcp_is_loopback(address))
        return is_v4 ? make_key(KIND_IPV4, &v4->sin_addr, 4) : make_key(KIND_IPV6, v6, 8);
    if (is_mapped && v6->s6_addr[12] != IN_LOOPBACKNET)
        return make_key(KIND_IPV4, v6->s6_addr + 12, 4);
    if (!is_v4 && !is_v6 && getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &user, &size) == 0)
        return make_key(KIND_USER, &user.uid, sizeof user.uid);
    return make_key(KIND_CONNECTION, &socket, sizeof socket);
}
