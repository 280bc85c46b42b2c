// Bodies of HTTP requests as they come through a socket, and what is left for the next request.
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kserve/http/body.h"
#include "kserve/http/packing.h"

#define MOST 1000

struct wire {
    struct talk talk;
    int peer;
    struct memory memory;
    struct memory_share share;
    struct body body;
    struct error e;
};

// The peer has written `text` and nothing more will come.
static void wire_init(struct wire *w, const char *text)
{
    int ends[2];
    *w = (struct wire){
        .memory = {.most = MOST}, .share = {.of = &w->memory}, .body = {.share = &w->share}};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
    shutdown(ends[1], SHUT_WR);
    talk_init(&w->talk, ends[0]);
    w->peer = ends[1];
}

static void wire_done(struct wire *w)
{
    body_done(&w->body);
    assert_int_equal(w->memory.used, 0);
    close(w->talk.socket);
    close(w->peer);
}

static unsigned read_body(struct wire *w, const char *text, const struct http_head *h)
{
    wire_init(w, text);
    return body_read(&w->body, &w->talk, h, MOST, &w->e);
}

static void chunks_become_one_body(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"3\r\nabc\r\n0\r\n\r\n", "abc", ""},
        {"1\r\na\r\n2;x=\"y\"\r\nbc\r\n0;last\r\n\r\nnext", "abc", "next"},
        {"0\r\n\r\n", "", ""},
        {"0000000003\r\n\r\n\n\r\n0\r\nA: b\r\nC: d\r\n\r\n+", "\r\n\n", "+"},
        {"A\r\n0123456789\r\na\r\n0123456789\r\n00\r\n\r\n", "01234567890123456789", ""},
    };
    const struct http_head h = {.length = -1, .is_chunked = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wire w;
        char rest[16] = "";
        assert_int_equal(read_body(&w, cases[i][0], &h), 0);
        assert_int_equal(w.body.size, strlen(cases[i][1]));
        if (w.body.size)
            assert_memory_equal(w.body.bytes, cases[i][1], w.body.size);
        if (cases[i][2][0])
            assert_true(talk_take(&w.talk, rest, strlen(cases[i][2])));
        assert_string_equal(rest, cases[i][2]);
        assert_false(talk_fill(&w.talk));
        wire_done(&w);
    }
}

// What is cut off is nobody's to refuse: who would read the answer has gone.
static void broken_chunks_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned status;
    } cases[] = {
        {"", BODY_GONE},
        {"3\r\nab", BODY_GONE},
        {"3\r\nabc", BODY_GONE},
        {"3\r\nabc\r\n", BODY_GONE},
        {"3\r\nabc\r\n0\r\n", BODY_GONE},
        {"0\r\nA: b\r\n", BODY_GONE},
        {"3", BODY_GONE},
        {"3\nabc\r\n0\r\n\r\n", 400},
        {"3 \r\nabc\r\n0\r\n\r\n", 400},
        {" 3\r\nabc\r\n0\r\n\r\n", 400},
        {"-3\r\nabc\r\n0\r\n\r\n", 400},
        {"0x3\r\nabc\r\n0\r\n\r\n", 400},
        {"\r\nabc\r\n0\r\n\r\n", 400},
        {";x\r\nabc\r\n0\r\n\r\n", 400},
        {"3;\rx\r\nabc\r\n0\r\n\r\n", 400},
        {"3\r\nabcd\r\n0\r\n\r\n", 400},
        {"3\r\nabc\n0\r\n\r\n", 400},
        {"10000000000000003\r\nabc\r\n0\r\n\r\n", 400},
        {"0\r\nA: b\n\r\n", 400},
        {"0\r\nA\r\n\r\n", 400},
        {"0\r\nA: b\r\n folded\r\n\r\n", 400},
        {"0\r\nA: \x01\r\n\r\n", 400},
        {"3e9\r\n", 413},
        {"3\r\nabc\r\nfffffffffffffff\r\n", 413},
    };
    const struct http_head h = {.length = -1, .is_chunked = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wire w;
        unsigned got = read_body(&w, cases[i].text, &h);
        if (got != cases[i].status)
            print_error("%s", cases[i].text);
        assert_int_equal(got, cases[i].status);
        wire_done(&w);
    }
}

static void lengths_are_kept_to(void **state)
{
    (void)state;
    struct wire w;
    struct http_head h = {.length = 3};
    assert_int_equal(read_body(&w, "abcd", &h), 0);
    assert_int_equal(w.body.size, 3);
    assert_memory_equal(w.body.bytes, "abc", 3);
    assert_true(talk_fill(&w.talk));
    assert_int_equal(w.talk.buffer[w.talk.begin], 'd');
    wire_done(&w);
    h.length = 5;
    assert_int_equal(read_body(&w, "abcd", &h), BODY_GONE);
    wire_done(&w);
    h.length = MOST + 1;
    assert_int_equal(read_body(&w, "abcd", &h), 413);
    wire_done(&w);
    h.length = 0;
    assert_int_equal(read_body(&w, "abcd", &h), 0);
    assert_int_equal(w.body.size, 0);
    wire_done(&w);
}

// One that is refused gives nothing back that it has not taken.
static void all_bodies_have_so_much_memory(void **state)
{
    (void)state;
    struct wire w;
    const struct http_head h = {.length = 600};
    wire_init(&w, "x");
    w.memory.used = MOST - 599;
    assert_int_equal(body_read(&w.body, &w.talk, &h, MOST, &w.e), 503);
    assert_int_equal(w.memory.used, MOST - 599);
    w.memory.used = 0;
    wire_done(&w);
}

static void clients_that_wait_are_told(void **state)
{
    (void)state;
    static const char expected[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char got[100];
    struct wire w;
    const struct http_head h = {.length = 5, .expects = true};
    assert_int_equal(read_body(&w, "abcde", &h), 0);
    assert_int_equal(recv(w.peer, got, sizeof got, 0), sizeof expected - 1);
    assert_memory_equal(got, expected, sizeof expected - 1);
    wire_done(&w);
}

// What comes of it stays paid for, and nothing else does; where that lacks it is not begun.
static void packed_answers_are_paid_for(void **state)
{
    (void)state;
    enum { SIZE = 100000, ENOUGH = 3 * SIZE + (256 << 10) };
    static uint8_t plain[SIZE];
    for (int i = 0; i < SIZE; i++)
        plain[i] = (uint8_t)(i * 7 ^ i >> 5);
    for (uint64_t most = 0; most <= ENOUGH; most += SIZE / 2) {
        struct memory memory = {.most = most};
        struct memory_share share = {.of = &memory};
        struct packing_plain packed, again;
        int r = packing_pack(PACKING_GZIP, plain, SIZE, &share, &packed, NULL);
        assert_int_equal(r, most < (256 << 10) + SIZE ? STATUS_MALLOC_FAIL : 0);
        assert_int_equal(memory.used, r == 0 ? packed.size : 0);
        if (r < 0)
            continue;
        assert_int_equal(share.held, packed.size);
        assert_int_equal(
            packing_unpack(PACKING_GZIP, packed.bytes, packed.size, SIZE, NULL, &again, NULL), 0);
        assert_int_equal(again.size, SIZE);
        assert_memory_equal(again.bytes, plain, SIZE);
        free(again.bytes);
        free(packed.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_become_one_body),
        cmocka_unit_test(broken_chunks_are_refused),
        cmocka_unit_test(lengths_are_kept_to),
        cmocka_unit_test(all_bodies_have_so_much_memory),
        cmocka_unit_test(clients_that_wait_are_told),
        cmocka_unit_test(packed_answers_are_paid_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
