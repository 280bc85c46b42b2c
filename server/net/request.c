// Requests that are answered later.
//
//   request_begin() ---> waiting ---> request_answer(), request_fail(): `connection` becomes NULL
//                           |
//                           +-------> requests_abandon(), or CANCEL: abandoned() is called
//
// A request is embedded in the work behind it, which outlives it as often as not: a job continues
// until the device has finished, although its client has gone. So every answer looks at
// `connection` first, and drops what nobody waits for.
#include "server/net/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void requests_init(struct requests *all, const struct requests_ops *ops,
                   struct connection *connection, struct channel *channel)
{
    *all = (struct requests){.ops = ops, .connection = connection, .channel = channel};
    list_init(&all->all);
    list_init(&all->large);
}

struct request *requests_find(struct requests *all, uint32_t id)
{
    struct request *r;
    list_for_each (r, &all->all, link)
        if (r->id == id)
            return r;
    return NULL;
}

// Takes the request out of its lists, so that it counts as answered. Returns the lists; NULL if
// nobody waits for it any more.
static struct requests *request_detach(struct request *r)
{
    if (!r->connection)
        return NULL;
    r->connection = NULL;
    list_remove(&r->link);
    list_remove(&r->turn);
    r->all->n--;
    return r->all;
}

// Detached first, because abandoned() may free the request.
void requests_abandon(struct requests *all)
{
    struct request *r;
    while ((r = list_first(&all->all, struct request, link))) {
        request_detach(r);
        if (r->abandoned)
            r->abandoned(r);
    }
}

// ---- large answers -----------------------------------------------------------------------------

bool requests_have_room(const struct requests *all)
{
    return all->ops->has_room(all);
}

bool requests_have_large(const struct requests *all)
{
    const struct request *r = list_first(&all->large, const struct request, turn);
    return r && !r->started && all->ops->has_room(all);
}

// One large answer is made at a time. start() may answer at once; the next one is begun in another
// turn, which changed() brings about.
void requests_start_large(struct requests *all)
{
    if (!requests_have_large(all))
        return;
    struct request *r = list_first(&all->large, struct request, turn);
    r->started = true;
    all->ops->spend(all, r->type);
    r->start(r);
}

// ---- one request -------------------------------------------------------------------------------

void request_begin(struct request *r, struct requests *all, const struct frame_header *h,
                   void (*abandoned)(struct request *r))
{
    *r = (struct request){.all = all,
                          .connection = all->connection,
                          .id = h->id,
                          .type = h->type,
                          .abandoned = abandoned};
    list_init(&r->turn);
    list_append(&all->all, &r->link);
    all->n++;
    all->ops->changed(all);
}

static void free_abandoned(struct request *r)
{
    free(r);
}

void *request_new(struct requests *all, const struct frame_header *h, size_t size, struct error *e)
{
    struct request *r = calloc(1, size);
    if (r)
        request_begin(r, all, h, free_abandoned);
    else
        error_no_memory(e, "a request", size);
    return r;
}

void request_when_room(struct request *r, void (*start)(struct request *r))
{
    r->start = start;
    list_append(&r->all->large, &r->turn);
    requests_start_large(r->all);
}

void request_in_turn(struct request *r, void (*start)(struct request *r))
{
    r->start = start;
    list_append(&r->all->large, &r->turn);
    r->all->ops->changed(r->all);
}

// It stays the first one of `large`.
void request_continue(struct request *r)
{
    r->started = false;
    r->all->ops->changed(r->all);
}

// The request itself may be freed by now: only the list is used.
static void request_send(struct requests *all, struct frame_out *f)
{
    channel_send(all->channel, f);
    all->ops->changed(all);
}

// `r` is not used once it is detached: release(), here or later, may free it.
void request_answer(struct request *r, const pb_msgdesc_t *fields, const void *message,
                    const struct iovec *segments, int n_segments, void (*release)(void *owner),
                    void *owner)
{
    uint16_t type = r->type;
    uint32_t id = r->id;
    struct requests *all = request_detach(r);
    struct frame_out *f = NULL;
    if (all)
        f = message_frame(type, FRAME_REPLY, id, fields, message, segments, n_segments, release,
                          owner);
    if (!f && release)
        release(owner);
    if (all)
        request_send(all, f);
}

void request_answer_copy(struct request *r, const pb_msgdesc_t *fields, const void *message,
                         struct bytes payload, const char *what)
{
    struct iovec copy = {malloc(payload.size + 1), payload.size};
    struct error e;
    if (!copy.iov_base) {
        error_no_memory(&e, what, payload.size);
        request_fail(r, &e);
        return;
    }
    if (payload.size > 0)
        memcpy(copy.iov_base, payload.data, payload.size);
    request_answer(r, fields, message, &copy, 1, free, copy.iov_base);
}

// The frame owns the descriptor; without a frame it is closed here.
void request_answer_fd(struct request *r, const pb_msgdesc_t *fields, const void *message, int fd)
{
    cleanup(fd_close_p) int file = fd;
    uint16_t type = r->type;
    uint32_t id = r->id;
    struct requests *all = request_detach(r);
    struct frame_out *f =
        all ? message_frame(type, FRAME_REPLY, id, fields, message, NULL, 0, NULL, NULL) : NULL;
    if (f && file >= 0)
        f->fds[f->n_fds++] = steal_fd(&file);
    if (all)
        request_send(all, f);
}

// The request stays: its last answer comes from request_answer() or request_fail().
void request_answer_part(struct request *r, const pb_msgdesc_t *fields, const void *message,
                         const struct iovec *segments, int n_segments, void (*release)(void *owner),
                         void *owner)
{
    struct requests *all = r->connection ? r->all : NULL;
    struct frame_out *f = NULL;
    if (all)
        f = message_frame(r->type, FRAME_REPLY | FRAME_MORE, r->id, fields, message, segments,
                          n_segments, release, owner);
    if (!f && release)
        release(owner);
    if (all)
        request_send(all, f);
}

void request_fail(struct request *r, const struct error *e)
{
    struct requests *all = request_detach(r);
    if (!all)
        return;
    all->ops->failed(all, e->code);
    request_send(all, message_error_frame(r->type, r->id, e));
}
