// Requests that are answered later.
#include "server/net/request.h"

#include "base/cleanup.h"
#include "server/net/connection.h"
#include "server/server.h"

void request_begin(struct request *r, struct connection *c, const struct frame_header *h,
                   void (*abandoned)(struct request *r))
{
    *r = (struct request){.connection = c, .id = h->id, .type = h->type, .abandoned = abandoned};
    list_init(&r->turn);
    list_append(&c->requests, &r->link);
    c->n_requests++;
    connection_update_flow(c);
}

void request_when_room(struct request *r, void (*start)(struct request *r))
{
    r->start = start;
    list_append(&r->connection->large, &r->turn);
    connection_start_large(r->connection);
}

// Out of the connection's list. Returns the connection, NULL if nobody waits.
static struct connection *detach(struct request *r)
{
    struct connection *c = r->connection;
    if (c) {
        r->connection = NULL;
        list_remove(&r->link);
        list_remove(&r->turn);
        c->n_requests--;
    }
    return c;
}

// The request may be freed by now.
static void send_answer(struct connection *c, struct frame_out *f)
{
    channel_send(&c->channel, f);
    connection_update_flow(c);
    server_check_drained(c->server);
}

void request_answer(struct request *r, const pb_msgdesc_t *fields, const void *message,
                    const struct iovec *segments, int n_segments, void (*release)(void *owner),
                    void *owner)
{
    uint16_t type = r->type;
    uint32_t id = r->id;
    struct connection *c = detach(r);
    struct frame_out *f = NULL;
    if (c)
        f = message_frame(type, FRAME_REPLY, id, fields, message, segments, n_segments, release,
                          owner);
    if (!f && release)
        release(owner);
    if (c)
        send_answer(c, f);
}

void request_answer_fd(struct request *r, const pb_msgdesc_t *fields, const void *message, int fd)
{
    cleanup(fd_close_p) int file = fd;
    uint16_t type = r->type;
    uint32_t id = r->id;
    struct connection *c = detach(r);
    struct frame_out *f =
        c ? message_frame(type, FRAME_REPLY, id, fields, message, NULL, 0, NULL, NULL) : NULL;
    if (f && file >= 0)
        f->fds[f->n_fds++] = steal_fd(&file);
    if (c)
        send_answer(c, f);
}

void request_answer_part(struct request *r, const pb_msgdesc_t *fields, const void *message,
                         const struct iovec *segments, int n_segments, void (*release)(void *owner),
                         void *owner)
{
    struct connection *c = r->connection;
    struct frame_out *f = NULL;
    if (c)
        f = message_frame(r->type, FRAME_REPLY | FRAME_MORE, r->id, fields, message, segments,
                          n_segments, release, owner);
    if (!f && release)
        release(owner);
    if (c)
        send_answer(c, f);
}

void request_fail(struct request *r, const struct error *e)
{
    struct connection *c = detach(r);
    if (c)
        send_answer(c, message_error_frame(r->type, r->id, e));
}
