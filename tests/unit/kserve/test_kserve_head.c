// Heads of HTTP requests: RFC 9112, and what two readers would take for different things.
#include <cmocka.h>
#include <string.h>

#include "kserve/http/head.h"
#include "kserve/request/request.h"

#define GET  "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST /v2 HTTP/1.1\r\nHost: a\r\n"

// `text` lacks the empty line.
static unsigned read_bytes(char *to, const char *text, size_t n, struct http_head *h)
{
    struct error e = {0};
    memcpy(to, text, n);
    memcpy(to + n, "\r\n", 3);
    assert_int_equal(head_size(to, n + 2), n + 2);
    unsigned status = head_read(to, n + 2, h, &e);
    if (status && status != 415)
        assert_true(e.text[0] != 0 && "a refusal has words");
    return status;
}

static unsigned read_head(char *to, const char *text, struct http_head *h)
{
    return read_bytes(to, text, strlen(text), h);
}

static void heads_end_with_an_empty_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ssize_t size;
    } cases[] = {
        {"", 0},          {"GET / HTTP/1.1", 0},   {"a\r\n", 0},    {"a\r\nb\r\n\r", 0},
        {"a\r\n\r\n", 5}, {"a\r\nb\r\n\r\nxy", 8}, {"a\n", -1},     {"a\r\nb\n\n", -1},
        {"\n", -1},       {"a\r\n\r\nb\n", 5},     {"a\r\n\n", -1}, {"a\r\r\n\r\n", 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(head_size(cases[i].text, strlen(cases[i].text)), cases[i].size);
}

static void addresses_are_decoded(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/v2", "/v2"},
        {"/v2?a=b", "/v2"},
        {"/a%20b%41c", "/a bAc"},
        {"/a%20b%2fc", "/a%20b%2fc"},
        {"/v2%2Fmodels", "/v2%2Fmodels"},
        {"/%252f", "/%2f"},
        {"/%3fx?y", "/?x"},
        {"/%", "/%"},
        {"/%4", "/%4"},
        {"/%zz%41", "/%zzA"},
        {"/%00%41", "/%00%41"},
        {"http://h:1/v2", "/v2"},
        {"http://h", "/"},
        {"http://h?/x", "/"},
        {"HTTP://h/x?y", "/x"},
        {"*", "*"},
        {"/%C3%A9", "/\xc3\xa9"},
        {"/%2500", "/%00"},
        {"/a%", "/a%"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200], room[300];
        struct http_head h;
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n", cases[i][0]);
        assert_int_equal(read_head(room, text, &h), 0);
        assert_string_equal(h.path, cases[i][1]);
        assert_string_equal(h.method, "GET");
    }
}

static void what_is_told_is_read(void **state)
{
    (void)state;
    char room[500];
    struct http_head h;
    assert_int_equal(read_head(room,
                               "POST /x HTTP/1.1\r\nhOST:\ta\r\nContent-Length: 0012\r\n"
                               "inference-header-content-length:7\r\nContent-Encoding: gzip\r\n"
                               "Accept-Encoding: br, deflate\r\nExpect: 100-Continue\r\n",
                               &h),
                     0);
    assert_int_equal(h.length, 12);
    assert_int_equal(h.tensors, 7);
    assert_int_equal(h.packing, PACKING_GZIP);
    assert_int_equal(h.accepted, PACKING_DEFLATE);
    assert_true(h.expects && h.stays && !h.is_chunked && !h.is_1_0);
    assert_int_equal(read_head(room, POST "Transfer-Encoding: CHUNKED\r\n", &h), 0);
    assert_true(h.is_chunked);
    assert_int_equal(h.length, -1);
    assert_int_equal(h.tensors, REQUEST_NO_HEADER);
}

static void connections_stay_as_asked(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool stays;
    } cases[] = {
        {GET, true},
        {GET "Connection: close\r\n", false},
        {GET "Connection: foo, Close ,bar\r\n", false},
        {GET "Connection: closed\r\n", true},
        {GET "Connection: x close\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: : keep-alive\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: x ,\tkeep-alive \r\n", true},
        {GET "Connection: keep-alive\r\nConnection: close\r\n", false},
        {"GET / HTTP/1.0\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n", false},
        {"GET / HTTP/1.9\r\nHost: a\r\n", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char room[300];
        struct http_head h;
        assert_int_equal(read_head(room, cases[i].text, &h), 0);
        assert_int_equal(h.stays, cases[i].stays);
    }
}

// Each of these is one thing for some reader on the way and another for the next.
static void what_is_in_doubt_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {
        {"GET /\r\nHost: a\r\n", 400},
        {"GET  / HTTP/1.1\r\nHost: a\r\n", 400},
        {"GET / HTTP/1.1 \r\nHost: a\r\n", 400},
        {"GET\t/ HTTP/1.1\r\nHost: a\r\n", 400},
        {" GET / HTTP/1.1\r\nHost: a\r\n", 400},
        {"G@T / HTTP/1.1\r\nHost: a\r\n", 400},
        {"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n", 400},
        {"GET / HTTP/11\r\nHost: a\r\n", 400},
        {"GET / http/1.1\r\nHost: a\r\n", 400},
        {"GET / HTTP/1.1.1\r\nHost: a\r\n", 400},
        {"GET / HTTP/1..\r\nHost: a\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: a\r\n", 505},
        {"PRI * HTTP/2.0\r\n", 505},
        {"GET / HTTP/1.1\r\n", 400}, // no Host
        {GET "Host: b\r\n", 400},
        {GET "X\r\n", 400},
        {GET ": x\r\n", 400},
        {GET "X : y\r\n", 400},
        {GET " folded\r\n", 400},
        {GET "X: y\r\n\tfolded\r\n", 400},
        {GET "X: a\rb\r\n", 400},
        {GET "X: a\x01\r\n", 400},
        {GET "X: a\x7f\r\n", 400},
        {POST "Content-Length: 1\r\nContent-Length: 1\r\n", 400},
        {POST "Content-Length: 1, 1\r\n", 400},
        {POST "Content-Length: 1 \r\n", 400},
        {POST "Content-Length:\r\n", 400},
        {POST "Content-Length: +1\r\n", 400},
        {POST "Content-Length: 0x1\r\n", 400},
        {POST "Content-Length: 9999999999999999999\r\n", 400},
        {POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400},
        {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
        {POST "Transfer-Encoding: gzip, chunked\r\n", 501},
        {POST "Transfer-Encoding: chunked \r\n", 501},
        {POST "Transfer-Encoding:\r\n", 501},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", 400},
        {POST "Content-Encoding: br\r\n", 415},
        {POST "Expect: 200-maybe\r\n", 417},
        {POST HEAD_TENSORS ": -1\r\n", 400},
        {POST HEAD_TENSORS ": 1\r\n" HEAD_TENSORS ": 1\r\n", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char room[300];
        struct http_head h;
        unsigned got = read_head(room, cases[i].text, &h);
        if (got != cases[i].status)
            print_error("%s", cases[i].text);
        assert_int_equal(got, cases[i].status);
    }
}

static void a_zero_is_refused_wherever_it_is(void **state)
{
    (void)state;
    static const char text[] = GET "X: y\r\n";
    for (size_t i = 0; i < sizeof text - 1; i++) {
        char broken[sizeof text], room[sizeof text + 2];
        struct http_head h;
        memcpy(broken, text, sizeof text);
        if (broken[i] == '\r' || broken[i] == '\n')
            continue; // then it is no line's end
        broken[i] = 0;
        assert_int_equal(read_bytes(room, broken, sizeof text - 1, &h), 400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_end_with_an_empty_line),
        cmocka_unit_test(addresses_are_decoded),
        cmocka_unit_test(what_is_told_is_read),
        cmocka_unit_test(connections_stay_as_asked),
        cmocka_unit_test(what_is_in_doubt_is_refused),
        cmocka_unit_test(a_zero_is_refused_wherever_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
