// The default sockets of daemons on this machine: root's, then the user's own. The server chooses
// the same ones (server.c).
#include "client/transport/local_sockets.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/net/uri.h"

void local_sockets_find(struct local_sockets *ret)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    size_t size = sizeof ret->uris[0];
    ret->n = 0;
    snprintf(ret->uris[ret->n++], size, "unix:%s", URI_SYSTEM_SOCKET);
    if (runtime && *runtime &&
        (size_t)snprintf(ret->uris[1], size, "unix:%s/rknnd.sock", runtime) < size)
        ret->n++;
}
