#include "base/net/manager.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/clock.h"

int manager_find(struct manager *m, struct error *e)
{
    const char *path = getenv("NOTIFY_SOCKET");
    *m = (struct manager){0};
    if (!path || !*path)
        return 0;
    if (strlen(path) >= sizeof m->socket || (path[0] != '/' && path[0] != '@'))
        return error_set(e, STATUS_PARAM_INVALID, "NOTIFY_SOCKET \"%s\" is not a socket's path",
                         path);
    strcpy(m->socket, path);
    unsetenv("NOTIFY_SOCKET");
    return 0;
}

// A datagram. A path that begins with @ is in the abstract namespace, which starts with a NUL.
void manager_tell(const struct manager *m, const char *format, ...)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[512];
    va_list args;
    if (!m->socket[0])
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t length = strlen(m->socket);
    memcpy(address.sun_path, m->socket, length);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = 0;
    cleanup(fd_close_p) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
}

void manager_tell_reloading(const struct manager *m)
{
    manager_tell(m, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_us());
}
