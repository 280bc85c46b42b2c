// Bytes: sockets, frames, and their parts.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/stateful/world.h"

#define READS 8

void client_connect(struct client *c)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(c, 0, sizeof *c);
    strncpy(address.sun_path, world.path, sizeof address.sun_path - 1);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0)
        wrong("no connection: %s", strerror(errno));
    fd_unblock(c->fd);
    frame_queue_init(&c->out);
    frame_reader_init(&c->reader, 1u << 30);
}

void client_close(struct client *c)
{
    if (c->fd < 0)
        return;
    c->fd = fd_close(c->fd);
    frame_queue_done(&c->out);
    frame_reader_done(&c->reader);
    free(c->payload);
    c->payload = NULL;
}

static void client_lost(struct client *c, const char *how)
{
    if (!c->may_end)
        wrong("the server has closed a connection that was in order: %s", how);
    client_close(c);
}

// Now and then a frame's end comes later, with the next one.
void client_push(struct client *c, struct frame_out *f)
{
    if (!f)
        abort();
    world.said++;
    frame_queue_push(&c->out, f);
    c->held_back = chance(50) ? below(60) : 0;
    client_flush(c);
}

void client_flush(struct client *c)
{
    struct iovec iov[16];
    const int *fds;
    int n_fds, n;
    while (c->fd >= 0 && c->out.bytes > c->held_back &&
           (n = frame_queue_peek(&c->out, iov, 16, &fds, &n_fds)) > 0) {
        size_t may = (size_t)(c->out.bytes - c->held_back);
        for (int i = 0; i < n; i++) {
            iov[i].iov_len = iov[i].iov_len < may ? iov[i].iov_len : may;
            may -= iov[i].iov_len;
        }
        ssize_t sent = fd_send(c->fd, iov, n, fds, n_fds);
        if (sent == -EAGAIN)
            return;
        if (sent < 0)
            client_lost(c, strerror((int)-sent));
        else
            frame_queue_sent(&c->out, (size_t)sent);
    }
}

static void deliver(struct client *c)
{
    struct error e;
    int event;
    while (c->fd >= 0 && (event = frame_reader_next(&c->reader, &e)) != FRAME_NEED_MORE) {
        if (event < 0)
            wrong("the server sends nonsense: %s", e.text);
        struct frame_header h = c->reader.header;
        static uint8_t message[FRAME_MESSAGE_MAX];
        if (event == FRAME_MESSAGE) {
            memcpy(message, frame_reader_message(&c->reader).data, h.message_size);
            if (h.payload_size > 0) {
                struct iovec room = {malloc(h.message_size + h.payload_size),
                                     h.message_size + h.payload_size};
                if (!room.iov_base)
                    abort();
                c->payload = room.iov_base;
                memcpy(c->payload, message, h.message_size);
                room = (struct iovec){c->payload + h.message_size, h.payload_size};
                frame_reader_payload_into(&c->reader, &room, 1);
                continue;
            }
            client_take(c, &h, (struct bytes){message, h.message_size}, (struct bytes){0});
            continue;
        }
        uint8_t *both = c->payload;
        c->payload = NULL;
        client_take(c, &h, (struct bytes){both, h.message_size},
                    (struct bytes){both + h.message_size, h.payload_size});
        free(both);
    }
}

void client_receive(struct client *c)
{
    for (int i = 0; i < READS && c->fd >= 0; i++) {
        void *space;
        size_t size = frame_reader_space(&c->reader, &space);
        ssize_t n =
            fd_receive(c->fd, space, size, c->reader.fds, &c->reader.n_fds, FRAME_READER_FDS);
        if (n == -EAGAIN)
            return;
        if (n <= 0) {
            client_lost(c, n == 0 ? "end of stream" : strerror((int)-n));
            return;
        }
        frame_reader_fill(&c->reader, (size_t)n);
        deliver(c);
    }
}
