// A request in turns: its head, where its body is to lie, the body, the answer. What is refused
// before its end is known ends the connection; what is refused behind it does not.
#include "kserve/http/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kserve/infer.h"
#include "kserve/model/placement.h"
#include "kserve/request/request_kept.h"

#define PACK_FROM 256 // bytes: smaller answers are not packed
#define DATE_SIZE 40
#define HEAD_ROOM 1024 // bytes
#define SMALL     2048 // bytes: bodies that are copied behind their heads, for a cheaper call

// ---- answering ----------------------------------------------------------------------------------

static const char *reason_of(unsigned code)
{
    static const struct {
        unsigned code;
        const char *words;
    } reasons[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].code == code)
            return reasons[i].words;
    return "";
}

// Once a second and thread: strftime() is slow beside all else that a small answer takes. A clock
// that is set back is another second, too.
static const char *date_now(void)
{
    static _Thread_local time_t then;
    static _Thread_local char text[DATE_SIZE];
    time_t now = time(NULL);
    struct tm t;
    if (now != then && gmtime_r(&now, &t))
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &t);
    then = now;
    return text;
}

// What is told beside the body.
struct notes {
    const char *allow; // NULL: every method is fine
    enum packing packing;
    bool stays, is_1_0;
};

// Each part is one of few, and short: HEAD_ROOM is twice what all of them take.
static void put(char **at, const char *text)
{
    size_t n = strlen(text);
    memcpy(*at, text, n);
    *at += n;
}

static void put_number(char **at, const char *name, uint64_t number)
{
    char text[20], *digit = text + sizeof text;
    put(at, name);
    do
        *--digit = (char)('0' + number % 10);
    while (number /= 10);
    memcpy(*at, digit, (size_t)(text + sizeof text - digit));
    *at += text + sizeof text - digit;
}

static void put_named(char **at, const char *name, const char *value)
{
    put(at, name);
    put(at, value);
}

static size_t write_head(char to[HEAD_ROOM], const struct reply *r, size_t size,
                         const struct notes *n)
{
    char *at = to;
    put_number(&at, "HTTP/1.1 ", r->code);
    put_named(&at, " ", reason_of(r->code));
    put_named(&at, "\r\nDate: ", date_now());
    put_number(&at, "\r\nContent-Length: ", size);
    if (size > 0)
        put_named(&at, "\r\nContent-Type: application/", r->header ? "octet-stream" : "json");
    if (r->header)
        put_number(&at, "\r\n" HEAD_TENSORS ": ", r->header);
    if (n->packing != PACKING_NONE)
        put_named(&at, "\r\nContent-Encoding: ", packing_name(n->packing));
    if (n->allow)
        put_named(&at, "\r\nAllow: ", n->allow);
    if (r->retry_soon)
        put(&at, "\r\nRetry-After: 1");
    if (!n->stays || n->is_1_0)
        put_named(&at, "\r\nConnection: ", n->stays ? "keep-alive" : "close");
    put(&at, "\r\n\r\n");
    return (size_t)(at - to);
}

// The packed body, or nothing where that fails or there is no memory for both.
static enum packing pack_answer(struct reply *r, enum packing wanted)
{
    struct packing_plain packed;
    if (wanted == PACKING_NONE || r->size < PACK_FROM || r->no_memory ||
        packing_pack(wanted, r->body, r->size, r->share, &packed, NULL) < 0)
        return PACKING_NONE;
    r->taken += packed.room;
    reply_replace(r, packed.bytes, packed.size);
    return wanted;
}

// Head and body, in one piece or two. How many.
static int write_reply(char head[HEAD_ROOM + SMALL], const struct reply *r, const struct notes *n,
                       bool is_head, struct iovec iov[2])
{
    const struct bytes body = reply_bytes(r);
    iov[0] = (struct iovec){head, write_head(head, r, body.size, n)};
    iov[1] = (struct iovec){(void *)(uintptr_t)body.data, body.size};
    if (is_head || body.size == 0)
        return 1;
    if (body.size > SMALL)
        return 2;
    memcpy(head + iov[0].iov_len, body.data, body.size);
    iov[0].iov_len += body.size;
    return 1;
}

// Head and body leave in one call, so that they can be one segment.
static bool send_reply(struct talk *t, struct reply *r, const struct notes *n, bool is_head)
{
    char head[HEAD_ROOM + SMALL];
    struct iovec iov[2];
    bool sent = talk_send(t, iov, write_reply(head, r, n, is_head, iov));
    reply_done(r);
    return sent;
}

// The rest of the request is not read: where it ends may be just what is in doubt.
static bool refuse(struct exchange_site *s, struct guest *g, unsigned code, const char *words)
{
    struct reply r = {0};
    const struct notes n = {.allow = NULL};
    reply_fail(&r, code, "%s", words);
    watched_turn(s->watch, g->watched, TURN_ANSWER);
    if (send_reply(&g->talk, &r, &n, false)) {
        watched_turn(s->watch, g->watched, TURN_ASK);
        talk_end(&g->talk);
    }
    return false;
}

// ---- asking -------------------------------------------------------------------------------------

// What pages are asked: also before the body is there, to find a place for it.
static struct page_request page_request_of(struct guest *g, const struct http_head *h,
                                           const struct body *b)
{
    return (struct page_request){.method = h->method,
                                 .path = h->path,
                                 .body = b->bytes,
                                 .size = b->size,
                                 .header = h->tensors,
                                 .kept = &g->kept};
}

// A large tensor goes to where the daemon has it, too. Who is slow reads on into memory of its own,
// so that others have that place.
static bool find_place(struct exchange_site *s, struct guest *g, const struct http_head *h,
                       struct placement *p)
{
    const struct talk *t = &g->talk;
    size_t has = t->end - t->begin;
    if (!g->kept || h->length <= (int64_t)has || (uint64_t)h->length > s->max_body || h->expects ||
        h->packing != PACKING_NONE)
        return false;
    const struct body b = {.bytes = (const uint8_t *)t->buffer + t->begin,
                           .size = (size_t)h->length};
    const struct page_request q = page_request_of(g, h, &b);
    return pages_place(s->site, &q, has, p);
}

static unsigned read_body(struct exchange_site *s, struct guest *g, const struct http_head *h,
                          struct body *b, struct placement *p, struct error *e)
{
    unsigned status;
    if (!find_place(s, g, h, p))
        return body_read(b, &g->talk, h, s->max_body, e);
    if (body_read_to(b, &g->talk, h, p->to, &status, e))
        return 0;
    placement_end(p);
    return status ? status : body_read_on(b, &g->talk, e);
}

static void work(struct exchange_site *s, struct guest *g, const struct http_head *h,
                 struct body *b, struct placement *p, struct reply *r, const char **ret_allow)
{
    struct error e;
    unsigned code = body_unpack(b, h->packing, s->max_body, &e);
    *ret_allow = NULL;
    if (code) {
        reply_fail(r, code, "%s", e.text);
        return;
    }
    struct page_request q = page_request_of(g, h, b);
    q.placement = p->to ? p : NULL;
    pages_answer(s->site, &q, r, ret_allow);
    if (q.placement)
        placement_end(p);
    if (r->no_memory)
        reply_fail(r, 503, "there is no memory for this answer (--memory)");
}

// The turns tell `connections` whose patience is counted: nobody's while we work.
static bool answer(struct exchange_site *s, struct guest *g, const struct http_head *h,
                   struct body *b, struct placement *p)
{
    struct reply r = {.share = &g->watched->share, .seat = &g->seat};
    struct notes n = {.is_1_0 = h->is_1_0};
    watched_turn(s->watch, g->watched, TURN_WORK);
    seat_take(&g->seat);
    work(s, g, h, b, p, &r, &n.allow);
    n.packing = pack_answer(&r, h->accepted);
    seat_give(&g->seat);
    n.stays = h->stays && !s->ends;
    watched_turn(s->watch, g->watched, TURN_ANSWER);
    bool sent = send_reply(&g->talk, &r, &n, strcmp(h->method, "HEAD") == 0);
    watched_turn(s->watch, g->watched, TURN_ASK);
    if (sent && !n.stays)
        talk_end(&g->talk);
    return sent && n.stays;
}

bool exchange(struct exchange_site *s, struct guest *g)
{
    struct talk *t = &g->talk;
    struct http_head h;
    struct body b = {.share = &g->watched->share};
    struct placement p = {.to = NULL};
    struct error e;
    unsigned code;
    talk_next(t);
    size_t n = head_wait(t, &code);
    if (n == 0)
        return code ? refuse(s, g, code, "the head is too large, or no head of a request") : false;
    char *head = t->buffer + t->begin;
    repeat_note(&g->repeat, head, n);
    t->begin += n;
    t->kept = t->begin;
    code = head_read(head, n, &h, &e);
    if (code == 0)
        code = read_body(s, g, &h, &b, &p, &e);
    bool goes_on = code == 0           ? answer(s, g, &h, &b, &p)
                   : code == BODY_GONE ? false
                                       : refuse(s, g, code, e.text);
    if (goes_on && request_kept_has(g->kept, h.tensors))
        repeat_keep(&g->repeat, n, &h, &b);
    body_done(&b);
    return goes_on;
}

// ---- what is asked as the last time ------------------------------------------------------------

bool exchange_begin(struct exchange_site *s, struct guest *g)
{
    struct talk *t = &g->talk;
    const struct repeat *r = &g->repeat;
    talk_next(t);
    if (!talk_fill_now(t) || s->ends || !repeat_is(r, t))
        return false;
    const struct page_request q = {.method = "POST",
                                   .path = r->path,
                                   .body = (const uint8_t *)t->buffer + t->begin + r->head,
                                   .size = r->body,
                                   .header = r->header,
                                   .kept = &g->kept};
    if (!pages_begin(s->site, &q, &g->run))
        return false;
    watched_turn(s->watch, g->watched, TURN_WORK);
    t->begin = t->end;
    return true;
}

// False: the peer has gone, or there is no memory for what it does not take now.
static bool send_soon(struct guest *g, struct reply *r, const struct notes *n)
{
    char head[HEAD_ROOM + SMALL];
    struct iovec pieces[2], *iov = pieces;
    int left = write_reply(head, r, n, false, iov);
    if (!talk_send_now(&g->talk, &iov, &left))
        return false;
    for (int i = 0; i < left; i++)
        g->rest.size += iov[i].iov_len;
    if (left == 0)
        return true;
    uint8_t *to = g->rest.bytes = malloc(g->rest.size);
    for (int i = 0; to && i < left; i++) {
        memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
    return to;
}

bool exchange_end(struct exchange_site *s, struct guest *g)
{
    struct reply r = {.code = 200, .share = &g->watched->share};
    infer_end(&g->run, g->kept, &r);
    if (r.no_memory)
        reply_fail(&r, 503, "there is no memory for this answer (--memory)");
    const struct notes n = {.packing = pack_answer(&r, g->repeat.accepted), .stays = true};
    watched_turn(s->watch, g->watched, TURN_ANSWER);
    bool sent = send_soon(g, &r, &n);
    reply_done(&r);
    if (sent && !g->rest.bytes)
        watched_turn(s->watch, g->watched, TURN_ASK);
    return sent;
}

bool exchange_send_rest(struct exchange_site *s, struct guest *g)
{
    struct iovec iov = {g->rest.bytes, g->rest.size};
    bool sent = g->rest.size == 0 || talk_send(&g->talk, &iov, 1);
    free(g->rest.bytes);
    g->rest = (struct reply_rest){0};
    watched_turn(s->watch, g->watched, TURN_ASK);
    return sent;
}
