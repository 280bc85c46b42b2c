// STATS and CLIENT_KILL: who uses the device, and the way to end one of them.
#include <stdlib.h>

#include "base/log.h"
#include "server/handle.h"
#include "server/sequence.h"
#include "server/server.h"
#include "server/session.h"

static int put_cores(const struct server *s, struct sequence *q, rknnd_StatsReply *m,
                     struct error *e)
{
    int r = 0;
    for (; m->n_cores < s->sched.n_cores && r == 0; m->n_cores++)
        r = sequence_put(q, rknnd_CoreStats_fields,
                         &(rknnd_CoreStats){s->sched.core_us[m->n_cores]}, e);
    return r;
}

// The connection that a session is shown by; NULL: only jobs are left of it.
static const struct connection *connection_of(const struct server *s, const struct session *session)
{
    const struct connection *c;
    list_for_each (c, &s->connections, link)
        if (c->session == session)
            return c;
    return NULL;
}

static int put_client(const struct server *s, const struct session *session, struct sequence *q,
                      struct error *e)
{
    const struct connection *c = connection_of(s, session);
    rknnd_ClientStats m = {
        .client = session->id,
        .connections = session->n_connections,
        .contexts = session->n_contexts,
        .waiting = session->sched.n_waiting,
        .running = session->sched.n_running,
        .done = session->jobs_done,
        .failed = session->jobs_failed,
        .core_us = session->sched.core_us,
        .queue_us = session->queue_us,
        .user_bytes = session->user->bytes,
    };
    message_set_text(m.user, session->user->name);
    if (c) {
        message_set_text(m.program, c->program);
        message_set_text(m.origin, c->origin.text);
    }
    return sequence_put(q, rknnd_ClientStats_fields, &m, e);
}

static int put_clients(const struct server *s, struct sequence *q, rknnd_StatsReply *m,
                       struct error *e)
{
    const struct session *session;
    list_for_each (session, &s->sessions, link) {
        int r = put_client(s, session, q, e);
        if (r < 0)
            return r;
        m->n_clients++;
    }
    return 0;
}

static int put_models(const struct server *s, struct sequence *q, rknnd_StatsReply *reply,
                      struct error *e)
{
    const struct model *model;
    list_for_each (model, &s->store.models, link) {
        if (model->state != MODEL_LOADED)
            continue;
        rknnd_ModelStats m = {
            .contexts = model->n_uses,
            .jobs = model->n_jobs,
            .run_us = model->run_us,
            .memory_size = host_info(model->host)->memory_size,
            .worker = (uint32_t)host_worker(model->host),
            .deaths = host_deaths(model->host),
        };
        message_set_text(m.name, model->file.name);
        int r = sequence_put(q, rknnd_ModelStats_fields, &m, e);
        if (r < 0)
            return r;
        reply->n_models++;
    }
    return 0;
}

int handle_stats(struct connection *c, const struct frame_header *h, const union message_any *any,
                 struct error *e)
{
    struct server *s = c->server;
    struct sequence q = {0};
    rknnd_StatsReply m = {.uptime_ms = uv_now(s->loop) - s->started_ms};
    (void)any;
    sched_charge(&s->sched, uv_hrtime() / 1000);
    int r = put_cores(s, &q, &m, e);
    if (r == 0)
        r = put_clients(s, &q, &m, e);
    if (r == 0)
        r = put_models(s, &q, &m, e);
    if (r < 0) {
        free(q.data);
        return r;
    }
    struct iovec payload = {q.data, q.size};
    channel_send(&c->channel, message_frame(h->type, FRAME_REPLY, h->id, rknnd_StatsReply_fields,
                                            &m, &payload, 1, free, q.data));
    return 0;
}

// ---- ending a client ----------------------------------------------------------------------------

static struct session *find(struct server *s, uint64_t id)
{
    struct session *session;
    list_for_each (session, &s->sessions, link)
        if (session->id == id && session->n_connections > 0)
            return session;
    return NULL;
}

static bool may_kill(const struct connection *c, const struct session *session)
{
    const struct user *victim = session->user;
    const struct origin *o = &c->origin;
    return origin_is_operator(o) || (o->local && victim->local && victim->uid == o->uid);
}

int handle_client_kill(struct connection *c, const struct frame_header *h,
                       const union message_any *any, struct error *e)
{
    struct server *s = c->server;
    uint64_t id = any->CLIENT_KILL_request.client;
    struct session *session = find(s, id);
    struct connection *victim, *after;
    if (!session)
        return error_set(e, STATUS_PARAM_INVALID, "there is no client %llu",
                         (unsigned long long)id);
    if (session == c->session)
        return error_set(e, STATUS_PARAM_INVALID, "client %llu is the one who asks",
                         (unsigned long long)id);
    if (!may_kill(c, session))
        return error_set(e, STATUS_FAIL,
                         "client %llu is of user %s: only he, root and the service's own user may "
                         "end it, on this machine",
                         (unsigned long long)id, session->user->name);
    log_info("client %llu is ended by c%u (%s)", (unsigned long long)id, c->number, c->origin.text);
    session_ref(session);
    list_for_each_safe (victim, after, &s->connections, link)
        if (victim->session == session)
            connection_leave(victim, "ended by rknnctl kill");
    session_unref(session);
    connection_reply(c, h, rknnd_Empty_fields, &(rknnd_Empty){0});
    return 0;
}
