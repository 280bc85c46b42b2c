// STATS: who uses the device. A list of many clients takes time to make, so it is made in slices,
// and the same for all who may see everybody.
#include "server/handle/handle_stats.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/jobs/context.h"
#include "server/jobs/job.h"
#include "server/models/model_users.h"
#include "server/models/store.h"

#define STATS_TURN 64 // clients in a slice, some of which the kernel is asked about

static int put_cores(const struct services *s, struct stats_list *n, struct error *e)
{
    uint32_t *done = &n->m.n_cores;
    int r = 0;
    for (; *done < s->jobs->scheduler.n_cores && r == 0; ++*done)
        r = delimited_put(&n->lines, rknnd_CoreStats_fields,
                          &(rknnd_CoreStats){s->jobs->scheduler.core_us[*done]}, e);
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
static int put_client(const struct services *s, const struct session *session, struct stats_list *n,
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
    int r = delimited_put(&n->lines, rknnd_ClientStats_fields, &m, e);
    n->m.n_clients += r == 0;
    return r;
}

// What of a model's use the client may see: that by contexts of sessions that it may see. Contexts
// of others are not to show, nor when they run.
static void count_own(const struct model *model, const struct connection *viewer,
                      rknnd_ModelStats *ret)
{
    struct model_use *use;
    list_for_each (use, &model->uses, in_model) {
        const struct session *its = container_of(use, struct context, use)->session;
        if (!session_is_visible(its, viewer->session, &viewer->origin))
            continue;
        ret->contexts++;
        ret->jobs += use->n_jobs;
        ret->run_us += use->run_us;
    }
}

static void count_uses(const struct model *model, rknnd_ModelStats *ret)
{
    ret->contexts = model->n_uses;
    ret->jobs = model->n_jobs;
    ret->run_us = model->run_us;
}

// Loaded models only; others use no device. `viewer`: one who may not see all; NULL: all models.
static int put_models(const struct services *s, const struct connection *viewer,
                      struct stats_list *n, struct error *e)
{
    const struct model *model;
    list_for_each (model, &s->store->models, link) {
        if (model->state != MODEL_LOADED)
            continue;
        rknnd_ModelStats m = {
            .memory_size = runner_info(model->runner)->memory_size,
            .worker = (uint32_t)runner_worker(model->runner),
            .deaths = runner_deaths(model->runner),
        };
        if (viewer)
            count_own(model, viewer, &m);
        else
            count_uses(model, &m);
        if (viewer && m.contexts == 0)
            continue;
        message_set_text(m.name, viewer ? model_name_for(model, viewer->user) : model->file.name);
        int r = delimited_put(&n->lines, rknnd_ModelStats_fields, &m, e);
        if (r < 0)
            return r;
        n->m.n_models++;
    }
    return 0;
}

// ---- lists --------------------------------------------------------------------------------------

// On success there is something to be freed.
static int list_begin(const struct services *s, struct stats_list *n, struct error *e)
{
    *n = (struct stats_list){.m.uptime_ms = uv_now(s->loop) - s->started_ms};
    int r = put_cores(s, n, e);
    if (r < 0)
        free(n->lines.data);
    return r;
}

static struct stats *stats_of(struct snapshots *all)
{
    return container_of(all, struct stats, all);
}

// Running jobs are charged up to now, so that core times are current.
static int stats_begin(struct snapshots *all, struct error *e)
{
    struct stats *st = stats_of(all);
    const struct services *s = st->services;
    scheduler_charge(&s->jobs->scheduler, uv_hrtime() / 1000);
    int r = list_begin(s, &st->list, e);
    struct session *first = list_first(&s->sessions->all, struct session, link);
    if (r == 0 && first)
        st->next = session_ref(first);
    return r;
}

static struct session *session_behind(const struct sessions *all, const struct session *session)
{
    struct list *l = session->link.next;
    return l == &all->all ? NULL : session_ref(container_of(l, struct session, link));
}

// The next clients, then, behind the last of them, the models. Clients that come meanwhile are
// behind those that are there; one that goes stays in the list while its turn is to come.
static int stats_more(struct snapshots *all, struct error *e)
{
    struct stats *st = stats_of(all);
    int r = 0;
    for (int i = 0; r == 0 && st->next && i < STATS_TURN; i++) {
        struct session *session = st->next;
        if (session->refs > 1) // else it is gone
            r = put_client(st->services, session, &st->list, e);
        st->next = session_behind(st->services->sessions, session);
        session_unref(session);
    }
    if (r == 0 && st->next)
        return 1;
    return r < 0 ? r : put_models(st->services, NULL, &st->list, e);
}

static int stats_end(struct snapshots *all, void **data, size_t *size, struct error *e)
{
    struct stats *st = stats_of(all);
    (void)e;
    session_unref(steal_ptr(st->next));
    *size = st->list.lines.size;
    *data = steal_ptr(st->list.lines.data);
    return 0;
}

// For one who may not see all, there and then: of as many clients, few are his.
static int list_own(const struct services *s, const struct connection *viewer, struct stats_list *n,
                    struct error *e)
{
    const struct session *session;
    int r = list_begin(s, n, e);
    if (r < 0)
        return r;
    list_for_each (session, &s->sessions->all, link)
        if (r == 0 && session_is_visible(session, viewer->session, &viewer->origin))
            r = put_client(s, session, n, e);
    if (r == 0)
        r = put_models(s, viewer, n, e);
    if (r < 0)
        free(n->lines.data);
    return r;
}

static void answer_own(struct request *r)
{
    const struct connection *viewer = r->connection;
    struct stats_list own;
    struct error e;
    if (list_own(viewer->services, viewer, &own, &e) < 0) {
        request_fail(r, &e);
        return;
    }
    struct iovec payload = {own.lines.data, own.lines.size};
    request_answer(r, rknnd_StatsReply_fields, &own.m, &payload, payload.iov_len > 0, free,
                   own.lines.data);
}

static void stats_answer(struct snapshots *all, struct request *r, struct snapshot *n)
{
    if (r->connection->rights & RIGHT_SEE_ALL)
        snapshot_answer(n, r, rknnd_StatsReply_fields, &stats_of(all)->list.m);
    else
        answer_own(r);
}

int handle_stats(struct connection *c, const struct frame_header *h, const union message_any *any,
                 struct error *e)
{
    (void)any;
    return snapshots_ask(&c->services->stats->all, &c->requests, h, e);
}

void stats_init(struct stats *st, const struct services *services)
{
    static const struct snapshots_ops ops = {.part = "answers to STATS",
                                             .prepare = snapshots_begin,
                                             .begin = stats_begin,
                                             .more = stats_more,
                                             .end = stats_end,
                                             .answer = stats_answer};
    st->services = services;
    snapshots_init(&st->all, &ops, services->loop);
}

void stats_close(struct stats *st)
{
    snapshots_close(&st->all);
}
