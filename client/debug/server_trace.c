// rknnd_read_events: the server's ring of trace events, polled every LOOK_MS, part by part. As in
// server_log.c, events are numbered, and a gap is reported as `lost`. The connection's lock is held
// for the request only, not for the callback.
#include "base/text/text.h"
#include "client/debug/numbered.h"
#include "client/fork.h"
#include "client/last_error.h"
#include "client/limits.h"
#include "client/link/payload.h"
#include "client/link/server_selection.h"
#include "client/link/servers.h"
#include "client/sized.h"
#include "rknnd.h"

#define LOOK_MS 100 // between looks at what happens

struct reading {
    struct connection *connection;
    rknnd_events_callback *callback;
    void *user;
    bool ended;    // by the callback
    uint64_t next; // number of the event that is wanted; 0: the oldest
};

// Each event has at least a byte, so that what is allocated for a part is bounded by what came.
static int server_trace_check(const struct reading *g, const rknnd_TraceReply *m, size_t size,
                              struct error *e)
{
    if (m->n_events > size)
        return error_set(e, STATUS_FAIL, "the server reports %u events in %zu bytes", m->n_events,
                         size);
    return numbered_check(&(struct numbered){m->first, m->end, m->n_events}, g->next, "events", e);
}

static int take_event(struct bytes *rest, rknnd_event *ret, struct error *e)
{
    rknnd_TraceEvent m;
    int r = message_delimited_take(rknnd_TraceEvent_fields, rest, &m, e);
    if (r < 0)
        return r;
    *ret = (rknnd_event){.struct_size = sizeof *ret,
                         .time_us = m.time_us,
                         .client = m.client,
                         .id = m.id,
                         .value = m.value,
                         .kind = m.kind,
                         .cores = m.cores};
    message_set_text(ret->text, m.text);
    text_make_printable(ret->text);
    return 0;
}

// Gives a part to the program, as one list that is valid during the callback.
static int server_trace_show(struct reading *g, const rknnd_TraceReply *m, struct bytes rest,
                             struct error *e)
{
    size_t size = (m->n_events + 1) * sizeof(rknnd_event);
    cleanup(free_p) rknnd_event *events = malloc(size);
    if (!events)
        return error_no_memory(e, "events", size);
    for (uint32_t i = 0; i < m->n_events; i++) {
        int r = take_event(&rest, &events[i], e);
        if (r < 0)
            return r;
    }
    const rknnd_list list = sized_list(events, m->n_events, sizeof *events);
    rknnd_events part = {.struct_size = sizeof part,
                         .first = m->first,
                         .lost = g->next ? m->first - g->next : 0,
                         .now_us = m->now_us,
                         .events = &list};
    g->ended = g->callback(g->user, &part) != 0;
    g->next = m->first + m->n_events;
    return 0;
}

// One request and its callback. *ret_end: there are no more events for now.
static int read_part(struct reading *g, bool *ret_end, struct error *e)
{
    struct payload list = {.limit = LIMIT_LIST_BYTES};
    rknnd_TraceReply reply;
    struct request request = {
        .type = MESSAGE_TRACE, .reply = &reply, .payload = payload_take, .owner = &list};
    pthread_mutex_lock(&g->connection->lock);
    int r = connection_call(g->connection, &request, &(rknnd_Trace){g->next}, e);
    pthread_mutex_unlock(&g->connection->lock);
    if (r == 0)
        r = server_trace_check(g, &reply, list.size, e);
    if (r == 0)
        r = server_trace_show(g, &reply, (struct bytes){list.data, list.size}, e);
    *ret_end = r == 0 && g->next >= reply.end;
    payload_done(&list);
    return r;
}

RKNN_EXPORT int rknnd_read_events(const char *uri, int follow, rknnd_events_callback *callback,
                                  void *user)
{
    struct error e;
    cleanup(server_disconnect_p) struct connection *c = NULL;
    bool end = false;
    fork_prepare();
    int r = callback ? selection_connect(uri, &c, &e)
                     : error_set(&e, STATUS_PARAM_INVALID, "callback is NULL");
    struct reading g = {.connection = c, .callback = callback, .user = user};
    while (r == 0 && !g.ended && (follow || !end)) {
        if (end)
            clock_sleep_until(clock_us() + 1000 * LOOK_MS);
        r = read_part(&g, &end, &e);
    }
    return last_error_keep("rknnd_read_events", r, &e);
}
