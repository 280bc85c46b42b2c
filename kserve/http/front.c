#include "kserve/http/front.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/net/tcp.h"
#include "kserve/http/connections.h"
#include "kserve/http/packing.h"
#include "kserve/request/request.h"

#define CONNECTION_BYTES 32768 // twice a large head; what is more is cleared after each request
#define READ_STEP        16384
#define STACK_BYTES      (512 * 1024)
#define PACK_FROM        256 // bytes: smaller answers are not packed
#define HEADER_LENGTH    "Inference-Header-Content-Length"

struct front {
    const struct site *site;
    struct front_limits limits;
    struct MHD_Daemon *daemons[FRONT_MAX_SOCKETS];
    unsigned n_daemons;
    struct connection_watch *watch;
    _Atomic uint64_t memory; // of bodies
    atomic_bool ends;
};

// A request while it comes.
struct intake {
    struct front *front;
    uint8_t *body;
    size_t size, room;
    uint64_t charged; // of front->memory
    int64_t header;
    enum packing packing;
    bool too_large, no_memory;
    bool answered; // a refusal is on its way; what still comes is ignored
};

// ---- answering ----------------------------------------------------------------------------------

static void add_count(struct MHD_Response *m, const char *name, uint64_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    MHD_add_response_header(m, name, text);
}

// The packed body, or nothing where that fails.
static enum packing pack_answer(struct MHD_Connection *c, struct reply *r)
{
    enum packing p =
        packing_choose(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Accept-Encoding"));
    uint8_t *packed;
    size_t size;
    if (p == PACKING_NONE || r->size < PACK_FROM ||
        packing_pack(p, r->body, r->size, &packed, &size, NULL) < 0)
        return PACKING_NONE;
    free(r->body);
    r->body = (char *)packed;
    r->size = size;
    return p;
}

static enum MHD_Result send_reply(struct front *f, struct MHD_Connection *c, struct reply *r,
                                  const char *allow, bool close)
{
    if (r->no_memory)
        reply_fail(r, 503, "there is no memory for this answer");
    enum packing p = pack_answer(c, r);
    struct MHD_Response *m =
        MHD_create_response_from_buffer(r->size, r->body, MHD_RESPMEM_MUST_FREE);
    if (!m) {
        reply_done(r);
        return MHD_NO;
    }
    if (r->size > 0)
        MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_TYPE,
                                r->header ? "application/octet-stream" : "application/json");
    if (r->header)
        add_count(m, HEADER_LENGTH, r->header);
    if (p != PACKING_NONE)
        MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_ENCODING, packing_name(p));
    if (allow)
        MHD_add_response_header(m, MHD_HTTP_HEADER_ALLOW, allow);
    if (r->retry_soon)
        MHD_add_response_header(m, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (close || f->ends)
        MHD_add_response_header(m, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result queued = MHD_queue_response(c, r->code, m);
    MHD_destroy_response(m);
    return queued;
}

// The rest of the request is not read: where it ends may be just what is in doubt.
static enum MHD_Result refuse_request(struct intake *in, struct MHD_Connection *c, unsigned code,
                                      const char *words)
{
    struct reply r = {0};
    reply_fail(&r, code, "%s", words);
    in->answered = true;
    return send_reply(in->front, c, &r, NULL, true);
}

// ---- the head of a request ----------------------------------------------------------------------

enum { CONTENT_LENGTH, TRANSFER_ENCODING, TENSOR_HEADER, CONTENT_ENCODING, HOST, N_SINGLE_HEADERS };

// Headers that may come once. NULL: they have not come.
struct single_headers {
    const char *values[N_SINGLE_HEADERS];
    bool twice;  // one of them has
    bool broken; // one has what others take for the end of a line
};

static enum MHD_Result take_header(void *owner, enum MHD_ValueKind kind, const char *key,
                                   const char *value)
{
    static const char *const names[] = {"Content-Length", "Transfer-Encoding", HEADER_LENGTH,
                                        "Content-Encoding", "Host"};
    struct single_headers *h = owner;
    (void)kind;
    h->broken = h->broken || strchr(key, '\r') || (value && strchr(value, '\r'));
    for (unsigned i = 0; i < N_SINGLE_HEADERS; i++) {
        if (strcasecmp(key, names[i]) != 0)
            continue;
        h->twice = h->twice || h->values[i];
        h->values[i] = value ? value : "";
    }
    return MHD_YES;
}

static bool parse_length(const char *text, int64_t *ret)
{
    size_t n = strlen(text);
    if (n == 0 || n > 18 || strspn(text, "0123456789") != n)
        return false;
    *ret = strtoll(text, NULL, 10);
    return true;
}

// Takes memory for a body from what all have together.
static bool charge_memory(struct intake *in, uint64_t bytes)
{
    struct front *f = in->front;
    if (atomic_fetch_add(&f->memory, bytes) + bytes > f->limits.memory) {
        atomic_fetch_sub(&f->memory, bytes);
        return false;
    }
    in->charged += bytes;
    return true;
}

static enum MHD_Result begin_body(struct intake *in, struct MHD_Connection *c, const char *length)
{
    int64_t size = 0;
    if (length && !parse_length(length, &size))
        return refuse_request(in, c, 400, "Content-Length is no number");
    if ((uint64_t)size > in->front->limits.body)
        return refuse_request(in, c, 413, "the body is larger than this server takes (--max-body)");
    if (!charge_memory(in, (uint64_t)size))
        return refuse_request(in, c, 503, "too many large requests at once (--memory)");
    if (size && !(in->body = malloc((size_t)size)))
        return refuse_request(in, c, 503, "there is no memory for this request");
    in->room = (size_t)size;
    return MHD_YES;
}

// What two programs on the way could read in two ways is refused here.
static enum MHD_Result begin_request(struct intake *in, struct MHD_Connection *c)
{
    struct single_headers h = {.twice = false};
    struct error e;
    MHD_get_connection_values(c, MHD_HEADER_KIND, take_header, &h);
    const char *length = h.values[CONTENT_LENGTH], *transfer = h.values[TRANSFER_ENCODING];
    const char *header = h.values[TENSOR_HEADER], *packing = h.values[CONTENT_ENCODING];
    if (h.broken)
        return refuse_request(in, c, 400, "a header has a carriage return in it");
    if (h.twice)
        return refuse_request(in, c, 400, "a header that may come once comes twice");
    if (length && transfer)
        return refuse_request(in, c, 400, "Content-Length and Transfer-Encoding: one of them");
    if (transfer && strcasecmp(transfer, "chunked") != 0)
        return refuse_request(in, c, 501, "Transfer-Encoding: chunked, or none");
    if (header && !parse_length(header, &in->header))
        return refuse_request(in, c, 400, HEADER_LENGTH " is no number");
    if (packing_parse(packing, &in->packing, &e) < 0)
        return refuse_request(in, c, 415, e.text);
    return begin_body(in, c, length);
}

// ---- its body -----------------------------------------------------------------------------------

static void take_body(struct intake *in, const char *data, size_t n)
{
    if (in->too_large || in->no_memory)
        return;
    if (n > in->front->limits.body - in->size) {
        in->too_large = true;
        return;
    }
    if (in->size + n > in->room) { // chunks: nobody said how many
        size_t old = in->room;
        if (array_reserve(in->body, in->room, in->size + n, "a body", NULL) < 0 ||
            !charge_memory(in, in->room - old)) {
            in->no_memory = true;
            return;
        }
    }
    memcpy(in->body + in->size, data, n);
    in->size += n;
}

static int unpack_body(struct intake *in, struct reply *r)
{
    uint8_t *plain;
    size_t size;
    struct error e;
    if (in->packing == PACKING_NONE)
        return 0;
    int s = packing_unpack(in->packing, in->body, in->size, (size_t)in->front->limits.body, &plain,
                           &size, &e);
    if (s < 0) {
        reply_fail_with(r, &e);
        return s;
    }
    free(in->body);
    in->body = plain;
    in->room = size;
    in->size = size;
    if (!charge_memory(in, size)) {
        reply_fail(r, 503, "too many large requests at once (--memory)");
        return STATUS_MALLOC_FAIL;
    }
    return 0;
}

static struct watched *watched_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

// Of an address as proxies are asked for it, "http://HOST/PATH", too.
static const char *path_of(const char *url)
{
    const char *path = strncasecmp(url, "http://", 7) == 0 ? strchr(url + 7, '/') : url;
    return path ? path : "/";
}

static enum MHD_Result end_request(struct intake *in, struct MHD_Connection *c, const char *url,
                                   const char *method)
{
    struct front *f = in->front;
    struct reply r = {0};
    const char *allow = NULL;
    if (in->too_large)
        return refuse_request(in, c, 413, "the body is larger than this server takes (--max-body)");
    if (in->no_memory)
        return refuse_request(in, c, 503, "too many large requests at once (--memory)");
    watched_turn(f->watch, watched_of(c), TURN_WORK);
    if (unpack_body(in, &r) == 0) {
        const struct page_request q = {.method = method,
                                       .path = path_of(url),
                                       .body = in->body,
                                       .size = in->size,
                                       .header = in->header};
        pages_answer(f->site, &q, &r, &allow);
    }
    enum MHD_Result sent = send_reply(f, c, &r, allow, false);
    watched_turn(f->watch, watched_of(c), TURN_ANSWER);
    return sent;
}

static enum MHD_Result on_http_request(void *owner, struct MHD_Connection *c, const char *url,
                                       const char *method, const char *version, const char *data,
                                       size_t *size, void **state)
{
    struct intake *in = *state;
    (void)version;
    if (!watched_of(c))
        return MHD_NO;
    if (!in) {
        if (!(in = *state = calloc(1, sizeof *in)))
            return MHD_NO;
        in->front = owner;
        in->header = REQUEST_NO_HEADER;
        return begin_request(in, c);
    }
    if (*size > 0) {
        take_body(in, data, *size);
        *size = 0;
        return MHD_YES;
    }
    return in->answered ? MHD_YES : end_request(in, c, url, method);
}

static void on_completed(void *owner, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct front *f = owner;
    struct intake *in = *state;
    (void)why;
    if (in) {
        atomic_fetch_sub(&f->memory, in->charged);
        free(in->body);
        free(in);
    }
    *state = NULL;
    if (watched_of(c))
        watched_turn(f->watch, watched_of(c), TURN_ASK);
}

static void on_connection(void *owner, struct MHD_Connection *c, void **state,
                          enum MHD_ConnectionNotificationCode what)
{
    struct front *f = owner;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        int socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *state = connection_add(f->watch, socket);
    } else if (*state) {
        connection_remove(f->watch, *state);
        *state = NULL;
    }
}

// ---- life ---------------------------------------------------------------------------------------

// An address with a 0 would end there: it stays as it was written, and nothing is there.
static size_t unescape_address(void *owner, struct MHD_Connection *c, char *text)
{
    (void)owner, (void)c;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

static int front_listen(struct front *f, int socket, struct error *e)
{
    // As many again may come at once: for each, one that was there is told to end, and has yet to.
    unsigned most = 2 * f->limits.connections;
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
            MHD_USE_ITC,
        0, NULL, NULL, on_http_request, f, MHD_OPTION_LISTEN_SOCKET, socket,
        MHD_OPTION_CONNECTION_LIMIT, most, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)READ_STEP,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, f, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        f, MHD_OPTION_UNESCAPE_CALLBACK, unescape_address, f, MHD_OPTION_END);
    if (!d)
        return error_set(e, STATUS_FAIL, "libmicrohttpd does not start");
    f->daemons[f->n_daemons++] = d;
    return 0;
}

int front_start(const struct site *site, const struct front_limits *limits, const int *sockets,
                unsigned n_sockets, struct front **ret, struct error *e)
{
    struct front *f = calloc(1, sizeof *f);
    if (!f)
        return error_no_memory(e, "a server", sizeof *f);
    f->site = site;
    f->limits = *limits;
    f->watch = connection_watch_new(limits->request_s, limits->connections);
    int r = f->watch ? 0 : error_no_memory(e, "a thread", 0);
    for (unsigned i = 0; i < n_sockets && r == 0; i++)
        r = front_listen(f, sockets[i], e);
    if (r < 0)
        front_stop(f, 0);
    else
        *ret = f;
    return r;
}

void front_stop(struct front *f, uint32_t patience_s)
{
    f->ends = true;
    for (unsigned i = 0; i < f->n_daemons; i++)
        MHD_quiesce_daemon(f->daemons[i]);
    if (f->watch)
        connection_wait_idle(f->watch, patience_s);
    for (unsigned i = 0; i < f->n_daemons; i++)
        MHD_stop_daemon(f->daemons[i]);
    if (f->watch)
        connection_watch_free(f->watch);
    free(f);
}
