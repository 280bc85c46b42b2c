// The end of a daemon: drained, stopped, or because it could not start.
#include "server/server.h"

#include <assert.h>

#include "base/log.h"
#include "server/runner/runner_query.h"

static void on_stop_soon(uv_timer_t *timer)
{
    server_stop(container_of(timer, struct server, drain));
}

// Stops from the loop, as this is called from inside of a callback of what is to be stopped.
void server_fail_to_start(struct server *s, const struct error *e)
{
    s->failed = *e;
    uv_timer_start(&s->drain, on_stop_soon, 0, 0);
}

// Neither jobs, nor requests without an answer, nor answers that are not sent yet.
static bool is_drained(const struct server *s)
{
    const struct connection *c;
    const struct scheduler *jobs = &s->jobs.scheduler;
    if (jobs->n_waiting + jobs->n_running + jobs->n_suspended > 0)
        return false;
    list_for_each (c, &s->connections.all, link)
        if (c->requests.n > 0 || channel_backlog(&c->channel) > 0)
            return false;
    return true;
}

// The server stops from the loop, because this is called from inside of what is to be stopped.
void server_check_drained(struct server *s)
{
    if (s->state == SERVER_DRAINING && is_drained(s))
        uv_timer_start(&s->drain, on_stop_soon, 0, 0);
}

// Who has not come to the end of its TLS handshake cannot be told, nor waited for.
static void part_from_all(struct server *s)
{
    static const char reason[] = "the server is shutting down";
    struct connection *c, *after;
    list_for_each_safe (c, after, &s->connections.all, link)
        if (connection_is_unknown(c))
            connection_close(c, reason);
        else
            connection_say_goodbye(c, reason);
}

void server_drain(struct server *s)
{
    if (s->state == SERVER_STARTING)
        server_stop(s);
    if (s->state != SERVER_SERVING && s->state != SERVER_RETIRING)
        return;
    struct connection *c;
    struct error why;
    list_for_each (c, &s->connections.all, link)
        server_tell_unread(s, c);
    server_tell_left(s);
    log_info("shutting down: %u jobs to finish",
             s->jobs.scheduler.n_waiting + s->jobs.scheduler.n_running);
    s->state = SERVER_DRAINING;
    s->services.serving = false;
    error_set(&why, STATUS_DEVICE_UNAVAILABLE, "the server is shutting down");
    logbook_dismiss(&s->logbook, &why);
    upgrade_close(&s->upgrade);
    manager_tell(&s->notify.manager, "STOPPING=1\nSTATUS=Finishing what runs");
    announce_close(&s->announce);
    listeners_close(&s->listeners);
    arrivals_dismiss(&s->arrivals, "the server is shutting down");
    part_from_all(s);
    uv_timer_start(&s->drain, on_stop_soon, s->options->drain_timeout_ms, 0);
    server_check_drained(s);
}

// Jobs that the device still has are forgotten, which frees contexts that waited for them.
static void kill_jobs(struct server *s)
{
    struct context *x, *next_x;
    list_for_each_safe (x, next_x, &s->contexts.all, link_all) {
        jobs_kill(x);
        context_check_idle(x);
    }
}

// From the outside in: no new connections, then the connections with all that hangs on them, then
// what was still running, then the parts that are now unused.
void server_stop(struct server *s)
{
    struct connection *c;
    if (s->state == SERVER_STOPPED)
        return;
    s->state = SERVER_STOPPED;
    announce_close(&s->announce);
    upgrade_close(&s->upgrade);
    succession_close(&s->succession);
    reload_close(&s->reload);
    listeners_close(&s->listeners);
    arrivals_dismiss(&s->arrivals, "the server stops");
    identities_stop(&s->identities);
    while ((c = list_first(&s->connections.all, struct connection, link)))
        connection_close(c, "the server stops");
    server_close_sweep(s);
    givebacks_hurry(&s->givebacks);
    connections_close(&s->connections);
    tls_door_close(&s->tls);
    listeners_close_carriers(&s->listeners);
    kill_jobs(s);
    runner_cancel_all(&s->runner_options);
    describes_stop(&s->describes);
    shelf_pins_close(&s->pins);
    stored_list_close(&s->stored_list);
    shelf_stop(&s->shelf);
    imports_stop(&s->imports);
    creations_stop(&s->creations);
    http_close(&s->http);
    metrics_share_close(&s->metrics_share);
    readings_close(&s->readings);
    logbook_close(&s->logbook);
    uploads_close(&s->uploads);
    store_close(&s->store);
    givebacks_close(&s->givebacks);
    notify_close(&s->notify);
    uv_close((uv_handle_t *)&s->drain, NULL);
    stats_close(&s->stats);
    uv_close((uv_handle_t *)&s->jobs.timer.timer, NULL);
    uv_close((uv_handle_t *)&s->jobs.holds.timer, NULL);
    turns_close(&s->turns);
}

// If a reference was leaked, it shows here.
void server_done(struct server *s)
{
    assert(s->state == SERVER_STOPPED && s->contexts.n == 0 && s->sessions.n == 0);
    assert(list_empty(&s->users.all));
    identities_done(&s->identities);
    npu_buffers_close(&s->memories.buffers);
    tls_context_free(s->tls.context);
    trace_done(&s->trace);
    metrics_done(&s->metrics);
}
