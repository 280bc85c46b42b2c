// STATS: who uses the device.
//
// A list of many clients takes time to make, so one snapshot answers all who asked before it was
// begun, and it is made and sent in slices, one in each turn of the loop:
//
//   STATS --> waiting --snapshot_begin()--> served --stats_fill_some()--> --stats_answer_some()-->
//                      not before next_us          a slice of clients      a slice of answers
#include "server/handle/handle_stats.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/jobs/context.h"
#include "server/jobs/job.h"
#include "server/models/store.h"
#include "server/net/delimited.h"
#include "server/options.h"
#include "server/turns.h"

// A snapshot takes time with the number of clients: at most a fifth of the loop's goes into them,
// however often they are asked for.
#define STATS_PAUSE      4             // times as long as the last one took, until the next
#define STATS_TURN_BYTES (512u * 1024) // of answers, in a turn of the loop
#define STATS_TURN       64            // clients, some of which the kernel is asked about

static int put_cores(const struct services *s, struct delimited *q, rknnd_StatsReply *m,
                     struct error *e)
{
    int r = 0;
    for (; m->n_cores < s->jobs->scheduler.n_cores && r == 0; m->n_cores++)
        r = delimited_put(q, rknnd_CoreStats_fields,
                          &(rknnd_CoreStats){s->jobs->scheduler.core_us[m->n_cores]}, e);
    return r;
}

// The connection that a session is shown by; NULL: only jobs are left of it.
static const struct connection *connection_of(const struct session *session)
{
    return list_first(&session->connections, const struct connection, in_session);
}

// For how long the client's process has been silent, and whether it is stopped. Of the connections
// of one process the one heard last counts. The kernel is asked only about silent clients, which
// are few.
static void stats_observe(const struct services *s, const struct session *session,
                          rknnd_ClientStats *m)
{
    const struct connection *c, *loudest = NULL;
    uint64_t now_ms = uv_now(s->loop);
    list_for_each (c, &session->connections, in_session)
        if (!loudest || connection_silent_ms(c, now_ms) < connection_silent_ms(loudest, now_ms))
            loudest = c;
    if (!loudest)
        return;
    m->silent_ms = connection_silent_ms(loudest, now_ms);
    m->stopped = m->silent_ms > s->options->heartbeat_ms && origin_is_stopped(&loudest->origin);
}

// One client's line. A session without connections has only jobs left, and no program or origin.
static int put_client(const struct services *s, const struct session *session, struct delimited *q,
                      struct error *e)
{
    const struct connection *c = connection_of(session);
    rknnd_ClientStats m = {
        .client = session->id,
        .connections = session->n_connections,
        .contexts = session->n_contexts,
        .waiting = session->scheduling.n_waiting,
        .running = session->scheduling.n_running,
        .done = session->jobs_done,
        .failed = session->jobs_failed,
        .core_us = session->scheduling.core_us,
        .queue_us = session->queue_us,
        .user_bytes = session->user->account.used.of[ACCOUNT_BYTES],
    };
    stats_observe(s, session, &m);
    message_set_text(m.user, session->user->name);
    if (c) {
        message_set_text(m.program, c->program);
        message_set_text(m.origin, c->origin.text);
    }
    return delimited_put(q, rknnd_ClientStats_fields, &m, e);
}

// Whether a context of the model is of a session that the client may see.
static bool is_model_visible(const struct model *model, const struct connection *viewer)
{
    struct model_use *use;
    list_for_each (use, &model->uses, in_model) {
        const struct session *its = container_of(use, struct context, use)->session;
        if (session_is_visible(its, viewer->session, &viewer->origin))
            return true;
    }
    return false;
}

// Loaded models only; others use no device. `viewer`: one who may not see all; NULL: all models.
static int put_models(const struct services *s, const struct connection *viewer,
                      struct delimited *q, rknnd_StatsReply *reply, struct error *e)
{
    const struct model *model;
    list_for_each (model, &s->store->models, link) {
        if (model->state != MODEL_LOADED || (viewer && !is_model_visible(model, viewer)))
            continue;
        rknnd_ModelStats m = {
            .contexts = model->n_uses,
            .jobs = model->n_jobs,
            .run_us = model->run_us,
            .memory_size = runner_info(model->runner)->memory_size,
            .worker = (uint32_t)runner_worker(model->runner),
            .deaths = runner_deaths(model->runner),
        };
        message_set_text(m.name, model->file.name);
        int r = delimited_put(q, rknnd_ModelStats_fields, &m, e);
        if (r < 0)
            return r;
        reply->n_models++;
    }
    return 0;
}

// ---- snapshots ----------------------------------------------------------------------------------

// A request for the next snapshot.
struct stats_request {
    struct request request;
    struct list link;
};

// What is sent to everyone who has asked before it was made; it stays until it has gone.
struct stats_snapshot {
    unsigned refs;
    struct session *next; // the client that comes next (a reference); NULL: all are there
    rknnd_StatsReply m;
    struct delimited lists;
};

// Also the release() of a frame that carries it.
static void snapshot_unref(void *owner)
{
    struct stats_snapshot *n = owner;
    if (!n || --n->refs > 0)
        return;
    session_unref(n->next);
    free(n->lists.data);
    free(n);
}

// Running jobs are charged up to now, so that core times are current.
static int snapshot_begin(const struct services *s, struct stats_snapshot **ret, struct error *e)
{
    struct stats_snapshot *n = calloc(1, sizeof *n);
    if (!n)
        return error_no_memory(e, "a list of clients", sizeof *n);
    n->refs = 1;
    n->m.uptime_ms = uv_now(s->loop) - s->started_ms;
    scheduler_charge(&s->jobs->scheduler, uv_hrtime() / 1000);
    int r = put_cores(s, &n->lists, &n->m, e);
    struct session *first = list_first(&s->sessions->all, struct session, link);
    if (r < 0)
        snapshot_unref(n);
    else
        *ret = n;
    if (r == 0 && first)
        n->next = session_ref(first);
    return r;
}

static struct session *session_behind(const struct sessions *all, const struct session *session)
{
    struct list *l = session->link.next;
    return l == &all->all ? NULL : session_ref(container_of(l, struct session, link));
}

// The next clients, then, behind the last of them, the models. Clients that come meanwhile are
// behind those that are there; one that goes stays in the list while its turn is to come.
static int snapshot_fill(const struct services *s, struct stats_snapshot *n, struct error *e)
{
    int r = 0;
    for (int i = 0; r == 0 && n->next && i < STATS_TURN; i++) {
        struct session *session = n->next;
        if (session->refs > 1) { // else it is gone
            r = put_client(s, session, &n->lists, e);
            n->m.n_clients += r == 0;
        }
        n->next = session_behind(s->sessions, session);
        session_unref(session);
    }
    return r < 0 || n->next ? r : put_models(s, NULL, &n->lists, &n->m, e);
}

// For one who may not see all, there and then: of as many clients, few are his.
static int snapshot_own(const struct services *s, const struct connection *viewer,
                        struct stats_snapshot **ret, struct error *e)
{
    struct stats_snapshot *n = calloc(1, sizeof *n);
    const struct session *session;
    if (!n)
        return error_no_memory(e, "a list of clients", sizeof *n);
    n->refs = 1;
    n->m.uptime_ms = uv_now(s->loop) - s->started_ms;
    int r = put_cores(s, &n->lists, &n->m, e);
    list_for_each (session, &s->sessions->all, link) {
        if (r < 0 || !session_is_visible(session, viewer->session, &viewer->origin))
            continue;
        r = put_client(s, session, &n->lists, e);
        n->m.n_clients += r == 0;
    }
    if (r == 0)
        r = put_models(s, viewer, &n->lists, &n->m, e);
    if (r < 0)
        snapshot_unref(n);
    else
        *ret = n;
    return r;
}

static void request_free(struct stats_request *q)
{
    list_remove(&q->link);
    free(q);
}

static void on_abandoned(struct request *r)
{
    request_free(container_of(r, struct stats_request, request));
}

// Answers one who asked, with the snapshot or (n NULL) an error. New requests may arrive from
// inside; they go to `waiting`, not `served`.
static void stats_answer(struct stats_request *q, struct stats_snapshot *n, const struct error *e)
{
    struct iovec payload = {n ? n->lists.data : NULL, n ? n->lists.size : 0};
    list_remove(&q->link);
    if (n) {
        n->refs++;
        request_answer(&q->request, rknnd_StatsReply_fields, &n->m, &payload, payload.iov_len > 0,
                       snapshot_unref, n);
    } else {
        request_fail(&q->request, e);
    }
    free(q);
}

static void stats_fail(struct stats *st, const struct error *e)
{
    struct stats_request *q;
    snapshot_unref(steal_ptr(st->snapshot));
    while ((q = list_first(&st->served, struct stats_request, link)))
        stats_answer(q, NULL, e);
}

// Goes on with the snapshot, for whoever had asked when it was begun. The next one is begun after
// STATS_PAUSE times the time that this one takes.
static void stats_fill_some(struct stats *st)
{
    struct error e;
    uint64_t began_ns = turns_cpu_ns();
    int r = 0;
    if (!st->snapshot) {
        list_move(&st->served, &st->waiting);
        st->took_us = 0;
        r = snapshot_begin(st->services, &st->snapshot, &e);
    }
    if (r == 0)
        r = snapshot_fill(st->services, st->snapshot, &e);
    if (r < 0)
        stats_fail(st, &e);
    st->took_us += (turns_cpu_ns() - began_ns) / 1000;
    st->next_us = uv_hrtime() / 1000 + STATS_PAUSE * st->took_us;
    st->filled = r < 0 || !st->snapshot->next;
}

// Returns what it is worth of a turn's bytes. A list of one's own is few bytes, but takes a look at
// all clients.
static size_t stats_answer_one(struct stats *st, struct stats_request *q)
{
    const struct connection *viewer = q->request.connection;
    struct stats_snapshot *own = NULL;
    struct error e;
    size_t size = st->snapshot->lists.size + FRAME_HEADER_SIZE;
    if (viewer->rights & RIGHT_SEE_ALL)
        stats_answer(q, st->snapshot, NULL);
    else if (snapshot_own(st->services, viewer, &own, &e) < 0)
        stats_answer(q, NULL, &e);
    else
        stats_answer(q, own, NULL);
    snapshot_unref(own);
    return size;
}

// Answers as many as one turn of the loop allows; on_turn() continues.
static void stats_answer_some(struct stats *st)
{
    struct stats_request *q;
    for (size_t sent = 0; sent < STATS_TURN_BYTES;) {
        q = list_first(&st->served, struct stats_request, link);
        if (!q)
            break;
        sent += stats_answer_one(st, q);
    }
}

static void stats_schedule(struct stats *st);

static void forget_snapshot(struct stats *st)
{
    if (!list_empty(&st->served))
        return;
    snapshot_unref(steal_ptr(st->snapshot));
    st->filled = false;
}

// One turn: a slice of the snapshot, or of the answers. All who were to be answered may have gone
// meanwhile, hence the check at both ends.
static void on_turn(uv_timer_t *timer)
{
    struct stats *st = container_of(timer, struct stats, timer);
    turns_mark(timer->loop, "answers to STATS");
    forget_snapshot(st);
    if (!st->filled && (st->snapshot || !list_empty(&st->waiting)))
        stats_fill_some(st);
    if (st->filled)
        stats_answer_some(st);
    forget_snapshot(st);
    stats_schedule(st);
}

// In the next turn while answers are due (a timer of 0 ms would come in this one); else when the
// next snapshot may be made.
static void stats_schedule(struct stats *st)
{
    uint64_t now_us = uv_hrtime() / 1000;
    if (uv_is_active((uv_handle_t *)&st->timer) ||
        (list_empty(&st->served) && list_empty(&st->waiting)))
        return;
    bool wait = list_empty(&st->served) && st->next_us > now_us;
    uv_timer_start(&st->timer, on_turn, wait ? (st->next_us - now_us) / 1000 : 1, 0);
}

static void wait_for_snapshot(struct request *r)
{
    struct stats_request *q = container_of(r, struct stats_request, request);
    struct stats *st = r->connection->services->stats;
    list_append(&st->waiting, &q->link);
    stats_schedule(st);
}

int handle_stats(struct connection *c, const struct frame_header *h, const union message_any *any,
                 struct error *e)
{
    struct stats_request *q = calloc(1, sizeof *q);
    (void)any;
    if (!q)
        return error_no_memory(e, "a request", sizeof *q);
    list_init(&q->link);
    request_begin(&q->request, &c->requests, h, on_abandoned);
    request_when_room(&q->request, wait_for_snapshot);
    return 0;
}

void stats_init(struct stats *st, const struct services *services)
{
    st->services = services;
    list_init(&st->waiting);
    list_init(&st->served);
    uv_timer_init(services->loop, &st->timer);
}

void stats_close(struct stats *st)
{
    snapshot_unref(steal_ptr(st->snapshot));
    uv_close((uv_handle_t *)&st->timer, NULL);
}
