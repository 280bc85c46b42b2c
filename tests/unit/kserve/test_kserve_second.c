// Requests as libmicrohttpd reads them, and as we do: what we accept it accepts, too, with the same
// address and body, and the next one begins at the same place. It accepts more (bare line feeds,
// spaces in odd places), which is refused here. RKNND_ROUNDS: how many are tried; RKNND_SEED.
#include <arpa/inet.h>
#include <cmocka.h>
#include <ctype.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "kserve/http/body.h"

#define MAX_TEXT     8192
#define MAX_REQUESTS 64
#define MOST_BODY    4096

struct seen {
    char method[32], path[512];
    size_t size;
    uint64_t sum; // of the body
};

struct reading {
    unsigned n;
    struct seen all[MAX_REQUESTS];
};

static void add_bytes(struct seen *s, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->sum = (s->sum ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
    s->size += n;
}

// ---- ours ---------------------------------------------------------------------------------------

// libmicrohttpd skips it, but looks at what is behind it only when still more comes.
static bool begins_with_an_empty_line(struct talk *t)
{
    if (t->begin == t->end)
        talk_fill(t);
    return t->end - t->begin >= 2 && memcmp(t->buffer + t->begin, "\r\n", 2) == 0;
}

// Of two requests that it reads otherwise we are right by RFC 9112 (2.2; 6.3): the one behind an
// empty line, and the one behind a request that expects "100 Continue" for no body.
static bool take_one(struct talk *t, struct reading *ret)
{
    struct memory memory = {.most = 4 * MOST_BODY};
    struct memory_share share = {.of = &memory};
    struct body b = {.share = &share};
    struct http_head h;
    struct error e;
    unsigned code;
    talk_next(t);
    if (begins_with_an_empty_line(t))
        return false;
    size_t n = head_wait(t, &code);
    if (n == 0)
        return false;
    char *head = t->buffer + t->begin;
    t->kept = t->begin += n;
    code = head_read(head, n, &h, &e);
    code = code ? code : body_read(&b, t, &h, MOST_BODY, &e);
    bool differs = code == 0 && h.expects && h.length <= 0 && !h.is_chunked;
    if (code == 0 && !differs) {
        struct seen *s = &ret->all[ret->n++];
        snprintf(s->method, sizeof s->method, "%s", h.method);
        snprintf(s->path, sizeof s->path, "%s", h.path);
        add_bytes(s, b.bytes, b.size);
    }
    body_done(&b);
    return code == 0 && !differs && h.stays && ret->n < MAX_REQUESTS;
}

// The peer's end of a connection over which all has been sent.
static int send_all(const char *text, size_t size, int *ret_server)
{
    int ends[2];
    const struct timeval patience = {.tv_sec = 60};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(send(ends[1], text, size, 0), size);
    shutdown(ends[1], SHUT_WR);
    *ret_server = ends[0];
    return ends[1];
}

static void read_ours(const char *text, size_t size, struct reading *ret)
{
    static struct talk t;
    int server, peer = send_all(text, size, &server);
    ret->n = 0;
    memset(ret->all, 0, sizeof ret->all);
    talk_init(&t, server);
    while (take_one(&t, ret))
        continue;
    close(server);
    close(peer);
}

// ---- libmicrohttpd's ----------------------------------------------------------------------------

struct second {
    struct MHD_Daemon *daemon;
    bool reads_extensions; // of chunks; libmicrohttpd 1.0.1 takes the end of their line as data
    pthread_mutex_t lock;
    struct reading reading; // of the connection there is
};

#define CHUNKED "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

static const char two_chunks[] = CHUNKED "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n";
static const char more_than_chunks[] = CHUNKED "3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n";

static enum MHD_Result answer_second(struct MHD_Connection *c)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(c, 200, r);
    MHD_destroy_response(r);
    return queued;
}

static enum MHD_Result on_second(void *owner, struct MHD_Connection *c, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **state)
{
    struct second *o = owner;
    struct seen *s = *state;
    (void)version;
    if (!s) {
        s = *state = calloc(1, sizeof *s);
        assert_non_null(s);
        const char *path = strncasecmp(url, "http://", 7) == 0 ? strchr(url + 7, '/') : url;
        snprintf(s->method, sizeof s->method, "%s", method);
        snprintf(s->path, sizeof s->path, "%s", path ? path : "/");
        return MHD_YES;
    }
    if (*size > 0) {
        add_bytes(s, data, *size);
        *size = 0;
        return MHD_YES;
    }
    pthread_mutex_lock(&o->lock);
    if (o->reading.n < MAX_REQUESTS)
        o->reading.all[o->reading.n++] = *s;
    pthread_mutex_unlock(&o->lock);
    return answer_second(c);
}

static void on_second_done(void *owner, struct MHD_Connection *c, void **state,
                           enum MHD_RequestTerminationCode why)
{
    (void)owner, (void)c, (void)why;
    free(*state);
    *state = NULL;
}

// Not MHD_http_unescape(), whose versions differ in what is no escape ("%%41").
static size_t unescape_second(void *owner, struct MHD_Connection *c, char *text)
{
    (void)owner, (void)c;
    char *to = text;
    if (strstr(text, "%00") || strcasestr(text, "%2f"))
        return strlen(text);
    for (const char *from = text; *from; from++) {
        char digits[3] = {0};
        bool is_escape =
            *from == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]);
        if (is_escape)
            memcpy(digits, from + 1, 2);
        *to++ = is_escape ? (char)strtoul(digits, NULL, 16) : *from;
        from += is_escape ? 2 : 0;
    }
    *to = 0;
    return (size_t)(to - text);
}

static void read_second(struct second *o, const char *text, size_t size, struct reading *ret)
{
    char dropped[4096];
    const struct sockaddr_in nobody = {.sin_family = AF_INET};
    int server, peer = send_all(text, size, &server);
    pthread_mutex_lock(&o->lock);
    o->reading.n = 0;
    pthread_mutex_unlock(&o->lock);
    assert_int_equal(
        MHD_add_connection(o->daemon, server, (const struct sockaddr *)&nobody, sizeof nobody),
        MHD_YES);
    ssize_t n;
    while ((n = recv(peer, dropped, sizeof dropped, 0)) > 0)
        continue;
    assert_true(n == 0 || errno == ECONNRESET);
    close(peer);
    pthread_mutex_lock(&o->lock);
    *ret = o->reading;
    pthread_mutex_unlock(&o->lock);
}

static int start_second(void **state)
{
    static struct second o = {.lock = PTHREAD_MUTEX_INITIALIZER};
    o.daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC, 0, NULL, NULL,
        on_second, &o, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED, on_second_done,
        &o, MHD_OPTION_UNESCAPE_CALLBACK, unescape_second, &o, MHD_OPTION_END);
    *state = &o;
    if (!o.daemon)
        return -1;
    struct reading r;
    read_second(&o, more_than_chunks, sizeof more_than_chunks - 1, &r);
    o.reads_extensions = r.n == 1 && r.all[0].size == 3;
    return 0;
}

static int stop_second(void **state)
{
    struct second *o = *state;
    MHD_stop_daemon(o->daemon);
    return 0;
}

// ---- requests -----------------------------------------------------------------------------------

static const char *const plain[] = {
    more_than_chunks, // first: where its reader does not know extensions, this one is left out
    two_chunks,
    "GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD /v2/models/a%20b?x=%41 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    "POST /v2/models/a/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST /x HTTP/1.1\r\nhost:a\r\ncontent-length:0\r\nConnection: keep-alive\r\n\r\n",
    "GET http://a:80/v2/%zz%4 HTTP/1.1\r\nHost: a\r\nX:\ty \r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n\r\n",
    "DELETE /a/b/c?d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nGET",
    "GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
};
#define N_PLAIN (sizeof plain / sizeof *plain)

static const char *const bits[] = {" ",
                                   "\t",
                                   "\r",
                                   "\n",
                                   "\r\n",
                                   "\r\n\r\n",
                                   ":",
                                   ";",
                                   ",",
                                   "0",
                                   "5",
                                   "-1",
                                   "+5",
                                   "0x5",
                                   "chunked",
                                   "Content-Length: 5\r\n",
                                   "Content-Length: 3\r\n",
                                   "Transfer-Encoding: chunked\r\n",
                                   "Host: b\r\n",
                                   "Connection: close\r\n",
                                   "HTTP/1.0",
                                   "HTTP/1.1",
                                   "?",
                                   "%41",
                                   "%0d%0a",
                                   "#",
                                   "\"",
                                   "\v",
                                   "\x7f",
                                   "\x80",
                                   "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                                   "0\r\n\r\n",
                                   "identity",
                                   "Expect: 100-continue\r\n"};
#define N_BITS (sizeof bits / sizeof *bits)

static unsigned draw(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525U + 1013904223U;
    return (*seed >> 8) % n;
}

static size_t replace(char *text, size_t size, size_t at, size_t cut, const char *with, size_t n)
{
    cut = cut < size - at ? cut : size - at;
    if (size - cut + n > MAX_TEXT)
        return size;
    memmove(text + at + n, text + at + cut, size - at - cut);
    memcpy(text + at, with, n);
    return size - cut + n;
}

// A few plain requests one behind the other, with a few things that are wrong, or only odd.
static size_t make_text(char *text, unsigned *seed, bool extensions)
{
    size_t size = 0;
    for (unsigned n = 1 + draw(seed, 3); n > 0; n--) {
        const char *next = plain[!extensions + draw(seed, N_PLAIN - !extensions)];
        size = replace(text, size, size, 0, next, strlen(next));
    }
    for (unsigned n = draw(seed, 4); n > 0; n--) {
        size_t at = draw(seed, (unsigned)size), cut = draw(seed, 2) ? 0 : 1 + draw(seed, 3);
        const char *bit = bits[draw(seed, N_BITS)];
        char byte = (char)draw(seed, 256);
        bool is_byte = draw(seed, 4) == 0;
        if (!extensions && (is_byte ? byte : *bit) == ';')
            continue;
        size = replace(text, size, at, cut, is_byte ? &byte : bit, is_byte ? 1 : strlen(bit));
    }
    return size;
}

static void show(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        print_error(text[i] >= ' ' && text[i] <= '~' ? "%c" : "\\x%02x", (unsigned char)text[i]);
    print_error("\n");
}

// We may stop earlier than it, for we refuse more; up to there both have to have read the same.
static bool is_prefix(const struct reading *ours, const struct reading *theirs)
{
    if (ours->n > theirs->n)
        return false;
    for (unsigned i = 0; i < ours->n; i++) {
        const struct seen *a = &ours->all[i], *b = &theirs->all[i];
        if (strcmp(a->method, b->method) != 0 || strcmp(a->path, b->path) != 0 ||
            a->size != b->size || a->sum != b->sum)
            return false;
    }
    return true;
}

// Nobody may refuse these: each of them behind each.
static void plain_ones_are_read_by_both(void **state)
{
    const struct second *o = *state;
    struct reading ours, theirs;
    for (size_t i = !o->reads_extensions; i < N_PLAIN; i++)
        for (size_t k = !o->reads_extensions; k < N_PLAIN; k++) {
            char text[MAX_TEXT];
            size_t size = (size_t)snprintf(text, sizeof text, "%s%s", plain[i], plain[k]);
            read_ours(text, size, &ours);
            read_second(*state, text, size, &theirs);
            if (ours.n != 2 || !is_prefix(&ours, &theirs))
                show(text, size);
            assert_int_equal(ours.n, 2);
            assert_int_equal(theirs.n, 2);
            assert_true(is_prefix(&ours, &theirs));
        }
}

static void what_we_accept_it_accepts(void **state)
{
    const char *rounds = getenv("RKNND_ROUNDS"), *seeds = getenv("RKNND_SEED");
    unsigned n = rounds ? (unsigned)atoi(rounds) : 3000, seed = seeds ? (unsigned)atoi(seeds) : 1;
    const struct second *o = *state;
    unsigned long accepted = 0, of = 0;
    struct reading ours, theirs;
    for (unsigned i = 0; i < n; i++) {
        char text[MAX_TEXT];
        size_t size = make_text(text, &seed, o->reads_extensions);
        read_ours(text, size, &ours);
        read_second(*state, text, size, &theirs);
        accepted += ours.n;
        of += theirs.n;
        if (!is_prefix(&ours, &theirs)) {
            print_error("of %u and %u requests in round %u:\n", ours.n, theirs.n, i);
            show(text, size);
        }
        assert_true(is_prefix(&ours, &theirs));
    }
    print_message("%lu requests accepted, by libmicrohttpd %lu\n", accepted, of);
    assert_true(accepted > n / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_ones_are_read_by_both),
        cmocka_unit_test(what_we_accept_it_accepts),
    };
    return cmocka_run_group_tests(tests, start_second, stop_second);
}
