// Which requests count as the last one of their connection once more.
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "kserve/http/repeat.h"

#define LINE "POST /v2/models/a/infer HTTP/1.1\r\nHost: a\r\n"
#define JSON "Inference-Header-Content-Length: 2\r\n"
#define BODY "{}1234"

struct peer {
    struct talk talk;
    struct repeat repeat;
};

static int set_up(void **state)
{
    struct peer *p = calloc(1, sizeof *p);
    *state = p;
    return p ? 0 : -1;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static void comes(struct talk *t, const char *text)
{
    t->begin = t->kept = 0;
    t->end = strlen(text);
    memcpy(t->buffer, text, t->end);
}

// As an exchange does it: noted, read, kept.
static void serve(struct peer *p, const char *text)
{
    struct http_head h;
    struct body b = {.size = 0};
    struct error e;
    comes(&p->talk, text);
    size_t n = (size_t)head_size(text, strlen(text));
    repeat_note(&p->repeat, text, n);
    p->talk.begin = n;
    assert_int_equal(head_read(p->talk.buffer, n, &h, &e), 0);
    assert_int_equal(body_read(&b, &p->talk, &h, 1000, &e), 0);
    repeat_keep(&p->repeat, n, &h, &b);
    body_done(&b);
}

static bool is_like(struct peer *p, const char *text)
{
    comes(&p->talk, text);
    return repeat_is(&p->repeat, &p->talk);
}

static void the_same_with_other_tensors(void **state)
{
    struct peer *p = *state;
    assert_false(is_like(p, LINE JSON "Content-Length: 6\r\n\r\n" BODY));
    serve(p, LINE JSON "Content-Length: 6\r\n\r\n" BODY);
    assert_true(is_like(p, LINE JSON "Content-Length: 6\r\n\r\n" BODY));
    assert_true(is_like(p, LINE JSON "Content-Length: 6\r\n\r\n{}abcd"));
    assert_string_equal(p->repeat.path, "/v2/models/a/infer");
    assert_int_equal(p->repeat.header, 2);
    assert_int_equal(p->repeat.body, 6);
}

static void more_less_or_another(void **state)
{
    struct peer *p = *state;
    serve(p, LINE JSON "Content-Length: 6\r\n\r\n" BODY);
    assert_false(is_like(p, LINE JSON "Content-Length: 6\r\n\r\n{}abc"));
    assert_false(is_like(p, LINE JSON "Content-Length: 6\r\n\r\n{}abcdP"));
    assert_false(is_like(p, LINE JSON "Content-Length: 7\r\n\r\n{}abcd"));
    assert_false(is_like(p, LINE JSON "content-length: 6\r\n\r\n" BODY));
    assert_false(is_like(p, LINE));
    assert_false(is_like(p, ""));
    repeat_note(&p->repeat, LINE, sizeof LINE - 1); // another one is being read
    assert_false(is_like(p, LINE JSON "Content-Length: 6\r\n\r\n" BODY));
}

// What is answered in another way, or is not whole where it is looked at.
static void not_kept(void **state)
{
    static const char *const requests[] = {
        "POST /v2/models/a/infer HTTP/1.0\r\n" JSON "Content-Length: 6\r\n\r\n" BODY,
        "PUT /v2/models/a/infer HTTP/1.1\r\nHost: a\r\n" JSON "Content-Length: 6\r\n\r\n" BODY,
        LINE JSON "Connection: close\r\nContent-Length: 6\r\n\r\n" BODY,
        LINE JSON "Content-Encoding: gzip\r\nContent-Length: 6\r\n\r\n" BODY,
        LINE JSON "Transfer-Encoding: chunked\r\n\r\n6\r\n" BODY "\r\n0\r\n\r\n",
        LINE "Content-Length: 6\r\n\r\n" BODY,
        LINE JSON "Content-Length: 0\r\n\r\n",
    };
    struct peer *p = *state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        serve(p, requests[i]);
        assert_false(is_like(p, requests[i]));
    }
}

static void heads_and_paths_that_are_long(void **state)
{
    struct peer *p = *state;
    char *text = NULL;
    for (int n = 0; n < 1200; n += 100) {
        int size = asprintf(
            &text, "POST /%0*d HTTP/1.1\r\nHost: a\r\n" JSON "Content-Length: 6\r\n\r\n" BODY,
            n % 500, 0);
        assert_true(size > 0);
        serve(p, text);
        assert_int_equal(is_like(p, text), n % 500 < REPEAT_PATH_ROOM);
        free(text);
        size = asprintf(&text, LINE "X: %0*d\r\n" JSON "Content-Length: 6\r\n\r\n" BODY, n, 0);
        assert_true(size > 0);
        serve(p, text);
        assert_int_equal(is_like(p, text), (size_t)size - 6 <= REPEAT_HEAD_ROOM);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_with_other_tensors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_less_or_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(heads_and_paths_that_are_long, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
