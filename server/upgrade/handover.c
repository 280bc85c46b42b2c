// Each packet is one whole struct, so that a receiver never has half of one. The first member is
// the version, and is looked at before the size: a newer rknnd's packets may be longer, and the
// words are to be about versions then, and not about rubbish.
#include "server/upgrade/handover.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/fd.h"

int handover_copy(char *field, size_t size, const char *text, const char *what, struct error *e)
{
    size_t n = strlen(text);
    if (n >= size)
        return error_set(e, STATUS_FAIL, "%s is too long to be handed over (%zu bytes)", what, n);
    memcpy(field, text, n + 1);
    return 0;
}

int handover_send(int socket, const struct handover_packet *p, int fd, struct error *e)
{
    struct handover_packet out = *p;
    const struct iovec iov = {&out, sizeof out};
    out.version = HANDOVER_VERSION;
    ssize_t n = fd_send(socket, &iov, 1, &fd, fd >= 0);
    if (n == sizeof out)
        return 0;
    bool gone = n == -EPIPE || n == -ECONNRESET;
    return error_set_errno(e, gone ? STATUS_DEVICE_UNAVAILABLE : STATUS_FAIL, (int)-n,
                           "the other rknnd");
}

static bool ends(const char *text, size_t size)
{
    return memchr(text, 0, size);
}

// Another version's packet may have another size, but begins as this one's does.
static int check(const struct handover_packet *p, size_t n, struct error *e)
{
    if (n < sizeof p->version || p->version != HANDOVER_VERSION)
        return error_set(e, STATUS_DEVICE_UNMATCH,
                         "the other rknnd hands over in another way (version %u, here it is %d): "
                         "restart instead",
                         n < sizeof p->version ? 0 : p->version, HANDOVER_VERSION);
    if (n != sizeof *p || p->kind == 0 || p->kind >= HANDOVER_KINDS ||
        !ends(p->name, sizeof p->name) || !ends(p->address, sizeof p->address) ||
        !ends(p->path, sizeof p->path))
        return error_set(e, STATUS_FAIL, "the other rknnd sent what is no packet (kind %u)",
                         n >= sizeof p->version + sizeof p->kind ? p->kind : 0);
    return 0;
}

int handover_receive(int socket, struct handover_packet *ret, int *ret_fd, struct error *e)
{
    struct {
        struct handover_packet packet;
        char beyond; // of one that is longer
    } in = {0};
    int n_fds = 0;
    *ret_fd = -1;
    ssize_t n = fd_receive(socket, &in, sizeof in, ret_fd, &n_fds, 1);
    *ret = in.packet;
    if (n == -EAGAIN || n == -EINTR)
        return HANDOVER_NOTHING;
    int r;
    if (n > 0)
        r = check(ret, (size_t)n, e);
    else if (n == 0 || n == -ECONNRESET)
        r = error_set(e, STATUS_DEVICE_UNAVAILABLE, "the other rknnd has ended");
    else
        r = error_set_errno(e, STATUS_FAIL, (int)-n, "the other rknnd");
    if (r < 0)
        *ret_fd = fd_close(*ret_fd);
    return r;
}
