// rknnd_replay: sends the recorded requests again, in the same order, and compares the answers.
//
//     recorded request  ─► handles replaced by today's ─► sent, not waited for
//     recorded answer   ─► waited for, compared with the recorded one
//
// So as many requests are under way as were then. Each recorded connection gets one of its own,
// opened with its first request. One thread; a connection's lock is taken for each call on it.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/array.h"
#include "client/fork.h"
#include "client/last_error.h"
#include "client/link/payload.h"
#include "client/link/server_selection.h"
#include "client/link/servers.h"
#include "client/model/upload.h"
#include "client/record/replay.h"
#include "client/sized.h"
#include "rknnd.h"

// ---- what belongs to what ----------------------------------------------------------------------

static struct replay_connection *find_connection(struct replay *p, uint32_t number)
{
    struct replay_connection *c;
    list_for_each (c, &p->connections, link)
        if (c->number == number)
            return c;
    return NULL;
}

// Today's connection of a recorded one, opened if there is none yet.
static int get_connection(struct replay *p, uint32_t number, struct replay_connection **ret,
                          struct error *e)
{
    struct replay_connection *c = find_connection(p, number);
    if (!c) {
        c = calloc(1, sizeof *c);
        if (!c)
            return error_no_memory(e, "a connection", sizeof *c);
        int r = selection_connect(p->uri, &c->connection, e);
        if (r < 0) {
            free(c);
            return r;
        }
        c->number = number;
        list_init(&c->requests);
        list_append(&p->connections, &c->link);
        p->result.n_connections++;
    }
    *ret = c;
    return 0;
}

// By the recorded id; today's is in request.id.
static struct replay_request *find_request(const struct replay_connection *c, uint32_t id)
{
    struct replay_request *r;
    list_for_each (r, &c->requests, link)
        if (r->id == id)
            return r;
    return NULL;
}

static void request_free(struct replay_request *r)
{
    list_remove(&r->link);
    payload_done(&r->payload);
    free(r);
}

// In this order: the connection refers to its requests.
static void connection_end(struct replay_connection *c)
{
    struct replay_request *r, *after;
    server_disconnect(c->connection);
    list_for_each_safe (r, after, &c->requests, link)
        request_free(r);
    list_remove(&c->link);
    free(c);
}

// ---- differences -------------------------------------------------------------------------------

static void replay_differs(struct replay *p, const struct recorded *f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Counts a difference; only the first one is described.
static void replay_differs(struct replay *p, const struct recorded *f, const char *format, ...)
{
    char what[160];
    va_list args;
    if (p->result.n_different++ > 0)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(p->result.difference, sizeof p->result.difference,
             "the answer to %s number %" PRIu64 " (connection %u, %.3f s from the start): %s",
             message_row(f->header.type)->name, p->n_of_type[f->header.type % REPLAY_TYPES],
             f->connection, (double)f->time_us / 1e6, what);
}

// Bit for bit; the first difference is described.
static void compare_payload(struct replay *p, const struct recorded *f, const struct payload *now)
{
    size_t at = 0;
    if (now->size != f->payload.size) {
        replay_differs(p, f, "%zu bytes, recorded are %zu", now->size, f->payload.size);
        return;
    }
    while (at < now->size && now->data[at] == f->payload.data[at])
        at++;
    if (at < now->size)
        replay_differs(p, f, "byte %zu of %zu is 0x%02x, recorded is 0x%02x", at, now->size,
                       now->data[at], f->payload.data[at]);
}

// 1: both are well, so payloads can be compared; 0: at least one has failed; negative: the
// recording is malformed.
static int compare_status(struct replay *p, const struct recorded *f,
                          const struct replay_request *r, struct error *e)
{
    rknnd_Error recorded = {.code = 0};
    if (f->header.flags & FRAME_ERROR) {
        int s = message_decode(rknnd_Error_fields, f->message, &recorded, e);
        if (s < 0)
            return s;
    }
    int now = r->request.done ? r->request.status : 0;
    if (r->raced && (now == STATUS_CTX_INVALID || recorded.code == STATUS_CTX_INVALID))
        return 0;
    if (now != recorded.code)
        replay_differs(p, f, "%s (%d%s%.100s), recorded is %s (%d)", status_text(now), now,
                       now < 0 ? ": " : "", now < 0 ? r->request.error.text : "",
                       status_text(recorded.code), recorded.code);
    return now == 0 && recorded.code == 0;
}

// ---- answers -----------------------------------------------------------------------------------

// Pairs the handle of the recorded answer with today's.
static int note_handle(struct replay *p, const struct recorded *f, const struct replay_request *r,
                       struct error *e)
{
    union message_any m;
    int s = message_decode(message_row(f->header.type)->reply, f->message, &m, e);
    if (s < 0)
        return s;
    switch (f->header.type) {
    case MESSAGE_CONTEXT_OPEN:
    case MESSAGE_CONTEXT_DUP:
        return handles_add(&p->contexts, m.CONTEXT_OPEN_reply.context,
                           r->reply.CONTEXT_OPEN_reply.context, e);
    case MESSAGE_MEMORY_CREATE:
        return handles_add(&p->memories, m.MEMORY_CREATE_reply.memory,
                           r->reply.MEMORY_CREATE_reply.memory, e);
    default:
        return 0;
    }
}

// A failed request is a result to compare; only a lost connection ends the replay.
static int wait_answer(struct replay_connection *c, struct replay_request *r, bool part,
                       struct error *e)
{
    struct error of_request;
    pthread_mutex_lock(&c->connection->lock);
    if (part)
        connection_wait_part(c->connection, &r->request, CLOCK_FOREVER, &of_request);
    else
        connection_wait(c->connection, &r->request, CLOCK_FOREVER, &of_request);
    bool lost = c->connection->lost;
    if (lost)
        *e = c->connection->why;
    pthread_mutex_unlock(&c->connection->lock);
    return lost ? e->code : 0;
}

// A recorded answer, or a part of one, in the recorded order.
static int take_answer(struct replay *p, const struct recorded *f, struct error *e)
{
    struct replay_connection *c = find_connection(p, f->connection);
    struct replay_request *r = c ? find_request(c, f->header.id) : NULL;
    bool part = f->header.flags & FRAME_MORE;
    if (!r)
        return error_set(e, STATUS_PARAM_INVALID, "an answer to request %u, which is not there",
                         f->header.id);
    int s = wait_answer(c, r, part, e);
    if (s < 0)
        return s;
    p->result.n_answers++;
    s = compare_status(p, f, r, e);
    if (s > 0)
        compare_payload(p, f, &r->payload);
    if (s > 0 && !part)
        s = note_handle(p, f, r, e);
    if (part && !r->request.done) {
        payload_done(&r->payload);
        r->request.part = false;
    } else if (!part) {
        request_free(r);
    }
    return s < 0 ? s : 0;
}

// ---- requests ----------------------------------------------------------------------------------

// The model is a range of the recording's own file.
static int replay_upload(struct replay *p, struct replay_connection *c,
                         const uint8_t sha256[MODEL_SHA256_SIZE], struct error *e)
{
    struct model m = {.fd = -1};
    uint64_t held = 0;
    const struct recorded_part *part = models_find(p, sha256);
    if (!part)
        return error_set(e, STATUS_PARAM_INVALID, "the recording has not the model of a context");
    int r = model_from_file(&m, p->path, part->offset, part->size, e);
    if (r == 0) {
        pthread_mutex_lock(&c->connection->lock);
        r = upload_model(c->connection, &m, &held, e);
        pthread_mutex_unlock(&c->connection->lock);
    }
    model_done(&m);
    return r;
}

// Sends a request; its struct stays in the connection's list until its answer is recorded.
static int replay_ask(struct replay *p, struct replay_connection *c, const struct recorded *f,
                      const union message_any *m, struct error *e)
{
    struct iovec payload = {(void *)f->payload.data, f->payload.size};
    struct replay_request *r = calloc(1, sizeof *r);
    if (!r)
        return error_no_memory(e, "a request", sizeof *r);
    r->id = f->header.id;
    r->payload.limit = SIZE_MAX - 1;
    r->request = (struct request){.type = f->header.type,
                                  .reply = &r->reply,
                                  .payload = payload_take,
                                  .owner = &r->payload,
                                  .in_parts = f->header.type == MESSAGE_INFER};
    list_append(&c->requests, &r->link);
    p->result.n_requests++;
    p->result.n_runs += f->header.type == MESSAGE_INFER;
    p->n_of_type[f->header.type % REPLAY_TYPES]++;
    pthread_mutex_lock(&c->connection->lock);
    int s = connection_send(c->connection, &r->request, m, &payload, payload.iov_len > 0, e);
    pthread_mutex_unlock(&c->connection->lock);
    return s;
}

// Tells the server what a node of the program's computed, as it was recorded.
static void replay_tell(struct replay_connection *c, const struct recorded *f, rknnd_CustomDone *m)
{
    struct iovec payload = {(void *)f->payload.data, f->payload.size};
    const struct replay_request *r = find_request(c, m->request);
    m->request = r ? r->request.id : 0;
    pthread_mutex_lock(&c->connection->lock);
    connection_tell(c->connection, MESSAGE_CUSTOM_DONE, m, &payload, payload.iov_len > 0);
    pthread_mutex_unlock(&c->connection->lock);
}

// Whether requests under way are answered or refused when their context closes is chance, so
// neither counts as a difference.
static void note_race(const struct replay_connection *c)
{
    struct replay_request *r;
    list_for_each (r, &c->requests, link)
        r->raced = true;
}

// ---- runs with operators of the program --------------------------------------------------------

static int replay_frame(struct replay *p, const struct recorded *f, struct error *e);

// Frames that replay_converse() took before their turn are known by their offset in the file.
static size_t place_of(const struct replay *p, const struct recorded *f)
{
    return (size_t)(f->message.data - p->recording.file.data);
}

// Whether the frame was played before its turn; it is forgotten then, as each frame comes once.
static bool was_ahead(struct replay *p, size_t place)
{
    for (size_t i = 0; i < p->n_ahead; i++)
        if (p->ahead[i] == place) {
            p->ahead[i] = p->ahead[--p->n_ahead];
            return true;
        }
    return false;
}

static int note_ahead(struct replay *p, size_t place, struct error *e)
{
    int r = array_reserve(p->ahead, p->room_ahead, p->n_ahead + 1, "a replay", e);
    if (r == 0)
        p->ahead[p->n_ahead++] = place;
    return r;
}

// Whether the run calls operators of the program.
static bool computes_here(const rknnd_Infer *m)
{
    for (size_t i = 0; i < m->custom_nodes.size; i++)
        if (m->custom_nodes.bytes[i])
            return true;
    return false;
}

// Whether the frame is of the conversation that the run's request began.
static bool is_of_run(const struct recorded *f, const struct recorded *run)
{
    union message_any m;
    if (f->connection != run->connection)
        return false;
    if (f->header.flags & FRAME_REPLY)
        return f->header.id == run->header.id;
    return f->header.type == MESSAGE_CUSTOM_DONE &&
           message_decode(message_row(f->header.type)->request, f->message, &m, NULL) == 0 &&
           m.CUSTOM_DONE_request.request == run->header.id;
}

static bool ends_runs(const struct recorded *f, const struct recorded *run)
{
    return f->connection == run->connection &&
           (f->header.type == MESSAGE_CONTEXT_CLOSE || f->header.type == MESSAGE_GOODBYE);
}

// A run with operators of the program holds cores while it waits for them. In another order than
// the recorded one such runs would wait for each other, so each is played to its end (or that of
// its context) before the next.
static int replay_converse(struct replay *p, const struct recorded *run, struct error *e)
{
    struct recording rest = p->recording;
    struct recorded f;
    int r;
    while ((r = recording_next(&rest, &f, e)) > 0) {
        if (ends_runs(&f, run))
            return 0;
        if (!is_of_run(&f, run))
            continue;
        bool last = (f.header.flags & FRAME_REPLY) && !(f.header.flags & FRAME_MORE);
        r = note_ahead(p, place_of(p, &f), e);
        if (r == 0)
            r = replay_frame(p, &f, e);
        if (r < 0 || last)
            return r;
    }
    return r;
}

// ---- frames ------------------------------------------------------------------------------------

// CUSTOM_DONE and GOODBYE have no answer; the rest is sent and kept.
static int make_request(struct replay *p, const struct recorded *f, struct error *e)
{
    struct replay_connection *c;
    union message_any m;
    int r = message_decode(message_row(f->header.type)->request, f->message, &m, e);
    if (r == 0 && f->header.type == MESSAGE_GOODBYE) {
        c = find_connection(p, f->connection);
        if (c)
            connection_end(c);
        return 0;
    }
    if (r == 0)
        r = get_connection(p, f->connection, &c, e);
    if (r != 0)
        return r;
    if (f->header.type == MESSAGE_CUSTOM_DONE) {
        replay_tell(c, f, &m.CUSTOM_DONE_request);
        return 0;
    }
    if (f->header.type == MESSAGE_CONTEXT_OPEN)
        r = replay_upload(p, c, m.CONTEXT_OPEN_request.sha256, e);
    if (f->header.type == MESSAGE_CONTEXT_CLOSE)
        note_race(c);
    replay_translate(p, f->header.type, &m);
    if (r == 0)
        r = replay_ask(p, c, f, &m, e);
    return r == 0 && f->header.type == MESSAGE_INFER && computes_here(&m.INFER_request)
               ? replay_converse(p, f, e)
               : r;
}

// ---- all of it ---------------------------------------------------------------------------------

static int replay_frame(struct replay *p, const struct recorded *f, struct error *e)
{
    if (f->connection == 0 && f->header.type == MESSAGE_MODEL_CHUNK)
        return models_add(p, f, e);
    if (f->connection == 0 || !recording_has(f->header.type))
        return error_set(e, STATUS_PARAM_INVALID, "a frame of type %u is not replayed",
                         f->header.type);
    return f->header.flags & FRAME_REPLY ? take_answer(p, f, e) : make_request(p, f, e);
}

// Plays frame by frame to the file's end.
static int replay_all(struct replay *p, rknnd_progress *progress, void *user, struct error *e)
{
    struct recorded f;
    uint64_t start = clock_us();
    int r;
    while ((r = recording_next(&p->recording, &f, e)) > 0) {
        size_t at = place_of(p, &f);
        r = was_ahead(p, at) ? 0 : replay_frame(p, &f, e);
        if (r < 0)
            return error_prefix(e, "frame at byte %zu", at);
        p->result.recorded_us = f.time_us;
        if (progress)
            progress(user, p->recording.at, p->recording.file.size);
    }
    p->result.replayed_us = clock_us() - start;
    p->result.cut = p->recording.cut;
    return r;
}

// Private and read-only. A file that is truncated meanwhile ends the process (SIGBUS). O_NONBLOCK:
// a pipe would wait for somebody who writes to it.
static int map_recording(const char *path, struct bytes *ret, struct error *e)
{
    struct stat st;
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return error_set(e, STATUS_PARAM_INVALID, "%s: the file is no recording of rknnd", path);
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "%s", path);
    *ret = (struct bytes){map, (size_t)st.st_size};
    return 0;
}

static void replay_done(struct replay *p)
{
    while (!list_empty(&p->connections))
        connection_end(list_first(&p->connections, struct replay_connection, link));
    free(p->models);
    free(p->ahead);
    free(p->contexts.pairs);
    free(p->memories.pairs);
}

static int replay_file(struct replay *p, rknnd_progress *progress, void *user, struct error *e)
{
    struct bytes file;
    int r = map_recording(p->path, &file, e);
    if (r < 0)
        return r;
    r = recording_open(&p->recording, file, e);
    if (r == 0)
        r = replay_all(p, progress, user, e);
    replay_done(p);
    munmap((void *)(uintptr_t)file.data, file.size);
    return r < 0 ? error_prefix(e, "%s", p->path) : 0;
}

RKNN_EXPORT int rknnd_replay(const char *uri, const char *path, rknnd_progress *progress,
                             void *user, rknnd_replay_result *result)
{
    struct error e;
    struct replay p = {.uri = uri, .path = path};
    int r = path && result ? 0 : error_set(&e, STATUS_PARAM_INVALID, "path or result is NULL");
    list_init(&p.connections);
    if (r == 0) {
        fork_prepare();
        r = replay_file(&p, progress, user, &e);
    }
    if (r == 0)
        r = sized_give(result, &p.result, sizeof p.result, &e);
    return last_error_keep("rknnd_replay", r, &e);
}
