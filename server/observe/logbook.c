// The log's last lines and their readers.
//
// Lines come from any thread (log_watcher), under `lock`; the loop is woken by uv_async_t, which
// merges many lines into one wake-up. Readers are requests of the loop's thread.
#include "server/observe/logbook.h"

#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "server/net/delimited.h"
#include "server/turns.h"

#define RING_SIZE   (256u * 1024)
#define ANSWER_SIZE (32u * 1024) // about; the reader asks again

// Somebody who waits for a line.
struct reader {
    struct request request;
    struct logbook *book;
    struct list link;
    uint64_t from;
    struct account *account; // that is charged; NULL: it does not wait
};

static void reader_free(struct reader *r)
{
    if (r->account)
        account_refund(r->account, ACCOUNT_FOLLOWERS, 1);
    list_remove(&r->link);
    free(r);
}

// ---- lines come --------------------------------------------------------------------------------

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

// From any thread that logs. The ring has a fixed size, so nothing is allocated here.
static void logbook_take(struct log_watcher *w, enum log_level level, const char *text)
{
    struct logbook *b = container_of(w, struct logbook, watcher);
    pthread_mutex_lock(&b->lock);
    log_ring_put(&b->ring, level, now_us(), text);
    pthread_mutex_unlock(&b->lock);
    uv_async_send(&b->news);
}

// ---- lines go ----------------------------------------------------------------------------------

// Lines from number `from` on, or from the oldest that is still there; up to about ANSWER_SIZE
// bytes.
static int collect_locked(const struct log_ring *ring, uint64_t from, rknnd_LogReply *m,
                          struct delimited *lines, struct error *e)
{
    struct log_ring_cursor cursor = log_ring_seek(ring, from);
    struct log_ring_line line;
    rknnd_LogLine out = rknnd_LogLine_init_zero;
    int r = 0;
    *m = (rknnd_LogReply){
        .first = cursor.number, .end = ring->next, .level = (uint32_t)log_level_now()};
    for (; r == 0 && lines->size < ANSWER_SIZE && log_ring_read(ring, &cursor, &line);
         m->n_lines++) {
        out.time_us = line.time_us;
        out.level = (uint32_t)line.level;
        message_set_text(out.text, line.text);
        r = delimited_put(lines, rknnd_LogLine_fields, &out, e);
    }
    return r;
}

// The lock is held while lines are copied, not while they are sent.
static void logbook_answer(struct logbook *b, struct request *request, uint64_t from)
{
    struct delimited lines = {0};
    rknnd_LogReply m;
    struct error e;
    pthread_mutex_lock(&b->lock);
    int r = collect_locked(&b->ring, from, &m, &lines, &e);
    pthread_mutex_unlock(&b->lock);
    if (r < 0) {
        free(lines.data);
        request_fail(request, &e);
        return;
    }
    struct iovec payload = {lines.data, lines.size};
    request_answer(request, rknnd_LogReply_fields, &m, &payload, lines.size > 0, free, lines.data);
}

static uint64_t end_of(struct logbook *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t end = b->ring.next;
    pthread_mutex_unlock(&b->lock);
    return end;
}

static void answer_reader(struct request *request)
{
    struct reader *r = container_of(request, struct reader, request);
    logbook_answer(r->book, request, r->from);
    reader_free(r);
}

// On the loop, once for many lines. Readers whose line has come are answered in their connections'
// turns, when these have room, since there may be thousands; they are in no list until then.
static void on_news(uv_async_t *news)
{
    struct logbook *b = container_of(news, struct logbook, news);
    struct reader *r, *after;
    turns_mark(news->loop, "readers of the log");
    uint64_t end = list_empty(&b->waiting) ? 0 : end_of(b);
    list_for_each_safe (r, after, &b->waiting, link)
        if (end > r->from) {
            list_remove(&r->link);
            request_in_turn(&r->request, answer_reader);
        }
}

static void on_abandoned(struct request *request)
{
    reader_free(container_of(request, struct reader, request));
}

static int reader_no_memory(struct account *charged, struct error *e)
{
    if (charged)
        account_refund(charged, ACCOUNT_FOLLOWERS, 1);
    return error_no_memory(e, "a request", sizeof(struct reader));
}

// `from` 0 means the last m->last lines. One who wants to wait and has seen all is put into
// `waiting`.
int logbook_read(struct logbook *b, struct requests *requests, const struct frame_header *h,
                 const rknnd_Log *m, struct account *account, struct error *e)
{
    uint64_t end = end_of(b);
    uint64_t from = m->from ? m->from : end - (m->last < end ? m->last : end);
    if (from > end)
        return error_set(e, STATUS_PARAM_INVALID, "the log has not come to line %llu, but to %llu",
                         (unsigned long long)from, (unsigned long long)end);
    bool waits = m->wait && from == end;
    int status = waits ? account_charge(account, ACCOUNT_FOLLOWERS, 1, e) : 0;
    struct reader *r = status < 0 ? NULL : calloc(1, sizeof *r);
    if (!r)
        return status < 0 ? status : reader_no_memory(waits ? account : NULL, e);
    r->account = waits ? account : NULL;
    r->book = b;
    r->from = from;
    list_init(&r->link);
    request_begin(&r->request, requests, h, on_abandoned);
    if (waits) {
        list_append(&b->waiting, &r->link);
        return 0;
    }
    request_when_room(&r->request, answer_reader);
    return 0;
}

// ---- life --------------------------------------------------------------------------------------

int logbook_init(struct logbook *b, uv_loop_t *loop, struct error *e)
{
    *b = (struct logbook){.watcher.take = logbook_take};
    int r = log_ring_init(&b->ring, RING_SIZE, e);
    if (r < 0)
        return r;
    r = uv_async_init(loop, &b->news, on_news);
    if (r < 0) {
        log_ring_done(&b->ring);
        return error_set(e, STATUS_FAIL, "the log cannot be kept: %s", uv_strerror(r));
    }
    list_init(&b->waiting);
    pthread_mutex_init(&b->lock, NULL);
    log_watch(&b->watcher);
    b->open = true;
    return 0;
}

void logbook_dismiss(struct logbook *b, const struct error *why)
{
    struct reader *r;
    while (b->open && (r = list_first(&b->waiting, struct reader, link))) {
        request_fail(&r->request, why);
        reader_free(r);
    }
}

void logbook_close(struct logbook *b)
{
    if (!b->open)
        return;
    b->open = false;
    log_unwatch(&b->watcher);
    uv_close((uv_handle_t *)&b->news, NULL);
    log_ring_done(&b->ring);
    pthread_mutex_destroy(&b->lock);
}
