// The head is taken apart where it lies: ends of lines become 0, so that all that follows are plain
// strings. That there are no others in it has been looked at before.
#include "kserve/http/head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kserve/request/request.h"

// Headers that may come once.
enum single {
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    TENSORS,
    CONTENT_ENCODING,
    HOST,
    EXPECTATION,
    N_SINGLE
};

// What of the headers matters. NULL: they have not come.
struct headers {
    const char *singles[N_SINGLE];
    const char *accepts;
    bool close, keep; // of Connection
};

static unsigned refuse(unsigned status, struct error *e, const char *words)
{
    error_set(e, STATUS_PARAM_INVALID, "%s", words);
    return status;
}

// A line feed alone ends a line for some programs and none for others, so there is no such head.
ssize_t head_size(const char *text, size_t n)
{
    const char *line = text, *end = text + n, *feed;
    while ((feed = memchr(line, '\n', (size_t)(end - line)))) {
        if (feed == text || feed[-1] != '\r')
            return -1;
        if (feed == line + 1)
            return feed + 1 - text;
        line = feed + 1;
    }
    return 0;
}

// Empty lines in front of a request mean nothing (RFC 9112, 2.2).
static void skip_empty_lines(struct talk *t)
{
    while (t->end - t->begin >= 2 && memcmp(t->buffer + t->begin, "\r\n", 2) == 0)
        t->begin += 2;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// strspn() makes a table of such a set each time, which took more than all else here.
static bool is_of_token(char c)
{
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || is_digit(c) || c == '-' || (c && strchr("!#$%&'*+.^_`|~", c));
}

// No request begins so: a client that speaks TLS would else wait for an answer that never comes,
// and we for the end of its head.
static bool is_no_request(const char *text, size_t n)
{
    bool may_be_line = n == 1 && *text == '\r';
    return n > 0 && !is_of_token(*text) && !may_be_line;
}

size_t head_wait(struct talk *t, unsigned *ret_code)
{
    *ret_code = 0;
    for (;;) {
        skip_empty_lines(t);
        const char *text = t->buffer + t->begin;
        size_t has = t->end - t->begin;
        ssize_t n = is_no_request(text, has) ? -1 : head_size(text, has);
        if (n > 0 && n <= TALK_HEAD_ROOM)
            return (size_t)n;
        if (n != 0 || has >= TALK_HEAD_ROOM) {
            *ret_code = n < 0 ? 400 : memchr(text, '\n', TALK_HEAD_ROOM) ? 431 : 414;
            return 0;
        }
        if (!talk_fill(t))
            return 0;
    }
}

// ---- the first line -----------------------------------------------------------------------------

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// An address with a 0 would end there, and no part of one has a "/" in it, which for a proxy in
// front of us does not part anything either: it stays as it was written, and nothing is there. So
// does what is no escape.
static void unescape(char *text)
{
    char *to = text;
    if (strstr(text, "%00") || strcasestr(text, "%2f"))
        return;
    for (const char *from = text; *from; from++) {
        int high = *from == '%' ? digit_of(from[1]) : -1, low = high < 0 ? -1 : digit_of(from[2]);
        if (low < 0) {
            *to++ = *from;
        } else {
            *to++ = (char)(high << 4 | low);
            from += 2;
        }
    }
    *to = 0;
}

// Of an address as proxies are asked for it, "http://HOST/PATH", too.
static char *path_of(char *target)
{
    static char nothing[] = "/";
    target[strcspn(target, "?")] = 0; // a host may be in front of that, and nothing else
    char *path = strncasecmp(target, "http://", 7) == 0 ? strchr(target + 7, '/') : target;
    if (!path)
        return nothing;
    unescape(path);
    return path;
}

static bool is_visible(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

// RFC 9110, 5.6.2. "Transfer-Encoding : chunked" is one for some, and none for others.
static bool is_token(const char *text)
{
    const char *at = text;
    while (is_of_token(*at))
        at++;
    return at > text && *at == 0;
}

static unsigned read_request_line(char *line, struct http_head *ret, struct error *e)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version)
        return refuse(400, e, "the first line is to be METHOD ADDRESS HTTP/1.1");
    *target++ = *version++ = 0;
    if (!is_token(line) || !*target || !is_visible(target))
        return refuse(400, e, "the first line has a method or an address that is none");
    bool known = strlen(version) == 8 && strncmp(version, "HTTP/", 5) == 0 && version[6] == '.' &&
                 is_digit(version[5]) && is_digit(version[7]);
    if (!known)
        return refuse(400, e, "the first line ends with no version of HTTP");
    if (version[5] != '1')
        return refuse(505, e, "HTTP/1.1 is spoken here");
    ret->method = line;
    ret->path = path_of(target);
    ret->is_1_0 = version[7] == '0';
    return 0;
}

// ---- headers ------------------------------------------------------------------------------------

// What ends lines for some is refused. Spaces behind a value stay, so that "chunked " is refused,
// too: not everybody takes them away.
static char *value_of(char *text)
{
    text += strspn(text, " \t");
    for (const char *c = text; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 127)
            return NULL;
    return text;
}

// Trailers are held to what headers are, though nobody here reads them: else a request could be
// hidden in them from who is stricter.
bool head_is_field(char *line)
{
    char *colon = strchr(line, ':');
    if (!colon || !value_of(colon + 1))
        return false;
    *colon = 0;
    return is_token(line);
}

// A list with commas; spaces around its elements do not belong to them.
static void take_connection(struct headers *h, const char *value)
{
    while (*value) {
        value += strspn(value, " \t,");
        size_t n = strcspn(value, ","), all = n;
        while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'))
            n--;
        h->close |= n == 5 && strncasecmp(value, "close", n) == 0;
        h->keep |= n == 10 && strncasecmp(value, "keep-alive", n) == 0;
        value += all;
    }
}

#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

// All names are looked at, those that mean nothing here as well: who is in front of us may know
// them.
static unsigned take_header(struct headers *h, char *line, struct error *e)
{
    static const struct {
        const char *name;
        size_t size;
    } names[] = {NAME("Content-Length"), NAME("Transfer-Encoding"),
                 NAME(HEAD_TENSORS),     NAME("Content-Encoding"),
                 NAME("Host"),           NAME("Expect")};
    char *colon = strchr(line, ':'), *value = colon ? value_of(colon + 1) : NULL;
    size_t size = colon ? (size_t)(colon - line) : 0;
    if (colon)
        *colon = 0;
    if (!colon || !is_token(line))
        return refuse(400, e, "a header has a name that is none");
    if (!value)
        return refuse(400, e, "a header has a character in it that no header has");
    for (unsigned i = 0; i < N_SINGLE; i++) {
        if (size != names[i].size || strcasecmp(line, names[i].name) != 0)
            continue;
        if (h->singles[i])
            return refuse(400, e, "a header that may come once comes twice");
        h->singles[i] = value;
    }
    if (size == sizeof "Connection" - 1 && strcasecmp(line, "Connection") == 0)
        take_connection(h, value);
    else if (!h->accepts && strcasecmp(line, "Accept-Encoding") == 0)
        h->accepts = value;
    return 0;
}

// -1 stays where the header has not come.
// Eighteen digits are a number that fits; more are a peer that tries how they are counted.
static bool parse_length(const char *text, int64_t *ret)
{
    size_t n = text ? strlen(text) : 0;
    if (!text)
        return true;
    if (n == 0 || n > 18 || strspn(text, "0123456789") != n)
        return false;
    *ret = strtoll(text, NULL, 10);
    return true;
}

// What only all headers together tell. The order says which of several faults is told.
static unsigned check_headers(const struct headers *h, struct http_head *ret, struct error *e)
{
    const char *transfer = h->singles[TRANSFER_ENCODING], *expects = h->singles[EXPECTATION];
    if (!h->singles[HOST] && !ret->is_1_0)
        return refuse(400, e, "there is no Host");
    if (transfer && h->singles[CONTENT_LENGTH])
        return refuse(400, e, "Content-Length and Transfer-Encoding: one of them");
    if (transfer && ret->is_1_0)
        return refuse(400, e, "HTTP/1.0 has no Transfer-Encoding");
    if (transfer && strcasecmp(transfer, "chunked") != 0)
        return refuse(501, e, "Transfer-Encoding: chunked, or none");
    if (expects && strcasecmp(expects, "100-continue") != 0)
        return refuse(417, e, "Expect: 100-continue, or nothing");
    if (!parse_length(h->singles[CONTENT_LENGTH], &ret->length))
        return refuse(400, e, "Content-Length is no number");
    if (!parse_length(h->singles[TENSORS], &ret->tensors))
        return refuse(400, e, HEAD_TENSORS " is no number");
    ret->is_chunked = transfer;
    ret->expects = expects && !ret->is_1_0;
    ret->stays = !h->close && (!ret->is_1_0 || h->keep);
    ret->accepted = packing_choose(h->accepts);
    return packing_parse(h->singles[CONTENT_ENCODING], &ret->packing, e) < 0 ? 415 : 0;
}

// The line at *next without its end; *next is the one behind it.
static char *take_line(char **next)
{
    char *line = *next, *feed = strchr(line, '\n');
    feed[-1] = 0;
    *next = feed + 1;
    return line;
}

unsigned head_read(char *text, size_t n, struct http_head *ret, struct error *e)
{
    struct headers h = {.accepts = NULL};
    char *next = text;
    *ret = (struct http_head){.length = -1, .tensors = REQUEST_NO_HEADER};
    text[n - 1] = 0;
    if (strlen(text) != n - 1)
        return refuse(400, e, "there is a 0 in the head");
    text[n - 1] = '\n';
    unsigned status = read_request_line(take_line(&next), ret, e);
    while (status == 0 && next < text + n - 2)
        status = take_header(&h, take_line(&next), e);
    return status ? status : check_headers(&h, ret, e);
}
