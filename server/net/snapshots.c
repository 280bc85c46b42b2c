// Who asks waits, until all who wait are served by one snapshot:
//
//   snapshots_get()   --> waiting   not before next_us, and until what it is made of is there
//   snapshots_begin() --> served
//   make_some()                     slices of the snapshot
//   tell_some()                     slices of the answers
#include "server/net/snapshots.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "server/turns.h"

#define SNAPSHOTS_PAUSE      4             // times as long as the last one took, until the next
#define SNAPSHOTS_TURN_BYTES (512u * 1024) // of answers, in a turn of the loop

static void snapshot_unref(void *owner)
{
    struct snapshot *n = owner;
    if (!n || --n->refs > 0)
        return;
    free(n->data);
    free(n);
}

void snapshot_answer(struct snapshot *n, struct request *r, const pb_msgdesc_t *fields,
                     const void *message)
{
    const struct iovec payload = {n->data, n->size};
    n->refs++;
    request_answer(r, fields, message, &payload, n->size > 0, snapshot_unref, n);
}

// Out of the list first: who is told may ask again, for the next one.
static void snapshots_tell(struct snapshot_asker *a, struct snapshot *n, const struct error *e)
{
    list_remove(&a->link);
    a->told(a, n, e);
}

static int snapshots_end(struct snapshots *all, struct error *e)
{
    struct snapshot *n = calloc(1, sizeof *n), made = {.refs = 1};
    int r = all->ops->end(all, &made.data, &made.size, e);
    all->making = false;
    if (r == 0 && n) {
        *n = made;
        all->now = n;
        return 0;
    }
    if (r == 0)
        r = error_no_memory(e, "a list", sizeof *n);
    free(made.data);
    free(n);
    return r;
}

// Nobody is served by what there is; it stays with the frames that carry it.
static void snapshots_drop(struct snapshots *all)
{
    struct error e;
    if (all->making)
        snapshots_end(all, &e);
    snapshot_unref(steal_ptr(all->now));
}

// For those who have waited for this one; who comes now has the next one begun.
static void snapshots_fail(struct snapshots *all, const struct error *e)
{
    struct snapshot_asker *a;
    snapshots_drop(all);
    while ((a = list_first(&all->served, struct snapshot_asker, link)))
        snapshots_tell(a, NULL, e);
}

// What it has taken so far, and so how long the next one has to wait.
static void snapshots_count(struct snapshots *all, uint64_t began_ns)
{
    all->took_us += (turns_cpu_ns() - began_ns) / 1000;
    all->next_us = uv_hrtime() / 1000 + SNAPSHOTS_PAUSE * all->took_us;
}

static void make_some(struct snapshots *all)
{
    struct error e;
    uint64_t began_ns = turns_cpu_ns();
    int r = all->ops->more(all, &e);
    if (r == 0)
        r = snapshots_end(all, &e);
    snapshots_count(all, began_ns);
    if (r < 0)
        snapshots_fail(all, &e);
}

// One of two megabytes goes to one of them in a turn, a short one to some hundred.
static void tell_some(struct snapshots *all)
{
    struct snapshot_asker *a;
    for (size_t sent = 0; sent < SNAPSHOTS_TURN_BYTES; sent += all->now->size + FRAME_HEADER_SIZE) {
        a = list_first(&all->served, struct snapshot_asker, link);
        if (!a)
            break;
        snapshots_tell(a, all->now, NULL);
    }
}

static void snapshots_schedule(struct snapshots *all);

// All who were to be served may have gone before the turn, or have been told in it.
static void drop_unwanted(struct snapshots *all)
{
    if (list_empty(&all->served))
        snapshots_drop(all);
}

static void on_turn(uv_timer_t *timer)
{
    struct snapshots *all = container_of(timer, struct snapshots, timer);
    turns_mark(timer->loop, all->ops->part);
    drop_unwanted(all);
    if (!all->now && !all->making && !all->preparing && !list_empty(&all->waiting)) {
        all->preparing = true;
        all->ops->prepare(all);
    }
    if (all->making)
        make_some(all);
    if (all->now)
        tell_some(all);
    drop_unwanted(all);
    snapshots_schedule(all);
}

// In the next turn while there is something to do (a timer of 0 ms would come in this one); else
// when the next snapshot may be begun.
static void snapshots_schedule(struct snapshots *all)
{
    uint64_t now_us = uv_hrtime() / 1000;
    if (uv_is_active((uv_handle_t *)&all->timer) || uv_is_closing((uv_handle_t *)&all->timer))
        return;
    if (all->now || all->making)
        uv_timer_start(&all->timer, on_turn, 1, 0);
    else if (!all->preparing && !list_empty(&all->waiting))
        uv_timer_start(&all->timer, on_turn,
                       1 + (all->next_us > now_us ? (all->next_us - now_us) / 1000 : 0), 0);
}

void snapshots_begin(struct snapshots *all)
{
    struct error e;
    turns_mark(all->timer.loop, all->ops->part);
    uint64_t began_ns = turns_cpu_ns();
    all->preparing = false;
    list_move(&all->served, &all->waiting);
    all->took_us = 0;
    int r = all->ops->begin(all, &e);
    all->making = r == 0;
    snapshots_count(all, began_ns);
    if (r < 0)
        snapshots_fail(all, &e);
    snapshots_schedule(all);
}

void snapshots_get(struct snapshots *all, struct snapshot_asker *a)
{
    list_append(&all->waiting, &a->link);
    snapshots_schedule(all);
}

void snapshots_init(struct snapshots *all, const struct snapshots_ops *ops, uv_loop_t *loop)
{
    all->ops = ops;
    list_init(&all->waiting);
    list_init(&all->served);
    uv_timer_init(loop, &all->timer);
}

void snapshots_close(struct snapshots *all)
{
    if (uv_is_closing((uv_handle_t *)&all->timer))
        return;
    snapshots_drop(all);
    uv_close((uv_handle_t *)&all->timer, NULL);
}

// ---- messages -----------------------------------------------------------------------------------

// Freed when it is answered or abandoned.
struct snapshot_request {
    struct request request;
    struct snapshot_asker asker;
    struct snapshots *of;
};

static void on_abandoned(struct request *request)
{
    struct snapshot_request *r = container_of(request, struct snapshot_request, request);
    list_remove(&r->asker.link);
    free(r);
}

static void on_told(struct snapshot_asker *a, struct snapshot *n, const struct error *e)
{
    struct snapshot_request *r = container_of(a, struct snapshot_request, asker);
    if (n)
        r->of->ops->answer(r->of, &r->request, n);
    else
        request_fail(&r->request, e);
    free(r);
}

static void on_room(struct request *request)
{
    struct snapshot_request *r = container_of(request, struct snapshot_request, request);
    snapshots_get(r->of, &r->asker);
}

int snapshots_ask(struct snapshots *all, struct requests *requests, const struct frame_header *h,
                  struct error *e)
{
    struct snapshot_request *r = calloc(1, sizeof *r);
    if (!r)
        return error_no_memory(e, "a request", sizeof *r);
    r->of = all;
    r->asker.told = on_told;
    list_init(&r->asker.link);
    request_begin(&r->request, requests, h, on_abandoned);
    request_when_room(&r->request, on_room);
    return 0;
}
