// rknnd_read_log, rknnd_set_log_level: the server's log lines, by their numbers.
//
//     LOG {from, last, wait} ─►  ◄─ {first, end, n_lines} and the lines
//
// `next` is the number of the line wanted next; lines that the server has dropped before it was
// asked are reported as `lost`. Callbacks run in the thread of the call, without the connection's
// lock.
#include "base/text/text.h"
#include "client/debug/numbered.h"
#include "client/last_error.h"
#include "client/limits.h"
#include "client/link/one_shot.h"
#include "client/link/payload.h"
#include "rknnd.h"

#define LOOK_UP_MS                                                                                 \
    250 // how often a program that waits for lines is asked whether it still wants to

struct reading {
    struct connection *connection;
    rknnd_log_callback *callback;
    void *user;
    bool ended;    // by the callback
    uint64_t next; // number of the line that is wanted; 0: the last ones
};

// The program may take its time: meanwhile the connection is free for heartbeats.
static void server_log_show(struct reading *g, const rknnd_log_line *line)
{
    pthread_mutex_unlock(&g->connection->lock);
    g->ended = g->callback(g->user, line) != 0;
    pthread_mutex_lock(&g->connection->lock);
}

static int show_next(struct reading *g, struct bytes *rest, uint64_t lost, struct error *e)
{
    rknnd_LogLine m;
    int r = message_delimited_take(rknnd_LogLine_fields, rest, &m, e);
    if (r < 0)
        return r;
    text_make_printable(m.text);
    rknnd_log_line line = {.struct_size = sizeof line,
                           .level = m.level,
                           .number = g->next,
                           .time_us = m.time_us,
                           .lost = lost,
                           .text = m.text};
    server_log_show(g, &line);
    g->next++;
    return 0;
}

// The gap between the line wanted and the first that came is told with that first line.
static int show_all(struct reading *g, const rknnd_LogReply *m, struct bytes rest, struct error *e)
{
    uint64_t lost = g->next ? m->first - g->next : 0;
    int r = numbered_check(&(struct numbered){m->first, m->end, m->n_lines}, g->next, "lines", e);
    if (r < 0)
        return r;
    g->next = m->first;
    for (uint32_t i = 0; i < m->n_lines && r == 0 && !g->ended; i++)
        r = show_next(g, &rest, i == 0 ? lost : 0, e);
    return r;
}

// The request is on the stack: its answer is waited for.
static void server_log_cancel(struct reading *g, struct request *request)
{
    struct error ignored;
    connection_tell(g->connection, MESSAGE_CANCEL, &(rknnd_Cancel){request->id}, NULL, 0);
    connection_wait(g->connection, request, CLOCK_FOREVER, &ignored);
}

// With `wait` the server answers when there is a line, which may take for ever; a call of the
// callback without a line lets the program end it.
static int wait_for_lines(struct reading *g, struct request *request, struct error *e)
{
    for (;;) {
        int r = connection_wait(g->connection, request, clock_ms() + LOOK_UP_MS, e);
        if (request->done)
            return r;
        server_log_show(g, NULL);
        if (g->ended) {
            server_log_cancel(g, request);
            return 0;
        }
    }
}

// One request. *ret_end: whether there are no more lines for now.
static int read_some(struct reading *g, uint32_t last, bool wait, bool *ret_end, struct error *e)
{
    struct payload lines = {.limit = LIMIT_LIST_BYTES};
    rknnd_LogReply reply = rknnd_LogReply_init_zero;
    struct request request = {
        .type = MESSAGE_LOG, .reply = &reply, .payload = payload_take, .owner = &lines};
    rknnd_Log m = {.from = g->next, .last = last, .wait = wait};
    int r = connection_send(g->connection, &request, &m, NULL, 0, e);
    if (r == 0)
        r = wait_for_lines(g, &request, e);
    if (r == 0 && !g->ended)
        r = show_all(g, &reply, (struct bytes){lines.data, lines.size}, e);
    *ret_end = g->next >= reply.end;
    payload_done(&lines);
    return r;
}

RKNN_EXPORT int rknnd_read_log(const char *uri, uint32_t last, int follow,
                               rknnd_log_callback *callback, void *user)
{
    struct error e;
    cleanup(one_shot_end_p) struct connection *c = NULL;
    bool end = false;
    int r = callback ? one_shot_begin(uri, &c, &e)
                     : error_set(&e, STATUS_PARAM_INVALID, "callback is NULL");
    struct reading g = {.connection = c, .callback = callback, .user = user};
    if (r == 0)
        r = read_some(&g, last, false, &end, &e);
    while (r == 0 && !g.ended && (follow || !end))
        r = read_some(&g, 0, follow, &end, &e);
    return last_error_keep("rknnd_read_log", r, &e);
}

RKNN_EXPORT int rknnd_set_log_level(const char *uri, uint32_t level)
{
    struct error e;
    struct request request = {.type = MESSAGE_LOG_LEVEL};
    int r = one_shot_call(uri, &request, &(rknnd_LogLevel){level}, &e);
    return last_error_keep("rknnd_set_log_level", r, &e);
}
