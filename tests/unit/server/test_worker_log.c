// What a worker prints becomes lines of the log with its name; too much of it does not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "server/runner/worker_log.h"

struct seen {
    struct log_watcher watcher;
    unsigned n;
    enum log_level level[1000];
    char text[1000][LOG_RING_TEXT];
};

struct rig {
    uv_loop_t loop;
    struct worker_log log;
    int far_end, saved_stderr;
    bool closed;
    struct seen seen;
};

static void take(struct log_watcher *w, enum log_level level, const char *text)
{
    struct seen *s = container_of(w, struct seen, watcher);
    assert_cmp(s->n, <, 1000);
    s->level[s->n] = level;
    snprintf(s->text[s->n++], LOG_RING_TEXT, "%s", text);
}

static int set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    struct error e;
    r->saved_stderr = dup(STDERR_FILENO);
    r->seen.watcher.take = take;
    assert_non_null(freopen("/dev/null", "w", stderr));
    assert_int_equal(uv_loop_init(&r->loop), 0);
    if (worker_log_init(&r->log, &r->loop, &r->far_end, &e) < 0)
        fail_msg("%s", e.text);
    worker_log_set_name(&r->log, "worker 42 (a.rknn)");
    log_set_level(LOG_DEBUG);
    log_watch(&r->seen.watcher);
    *state = r;
    return 0;
}

static void on_closed(struct worker_log *l)
{
    container_of(l, struct rig, log)->closed = true;
}

static void close_log(struct rig *r)
{
    worker_log_close(&r->log, on_closed);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_true(r->closed);
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    log_unwatch(&r->seen.watcher);
    dup2(r->saved_stderr, STDERR_FILENO);
    fd_close(r->saved_stderr);
    fd_close(r->far_end);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    free(r);
    return 0;
}

static void say(struct rig *r, const char *text)
{
    assert_int_equal(write(r->far_end, text, strlen(text)), strlen(text));
}

static void expect(const struct rig *r, unsigned i, enum log_level level, const char *text)
{
    assert_cmp(i, <, r->seen.n);
    assert_int_equal(r->seen.level[i], level);
    assert_string_equal(r->seen.text[i], text);
}

static void lines_bring_their_level(void **state)
{
    struct rig *r = *state;
    say(r, "\1gone wrong\n\4a detail\n\5too much\nprinted by a plu");
    uv_run(&r->loop, UV_RUN_NOWAIT);
    say(r, "gin\n\nE RKNN: of the runtime\nI RKNN: and more\nERKNN: else\n\x06no level\n\377\n");
    say(r, "without an end");
    close_log(r);
    static const struct {
        enum log_level level;
        const char *text;
    } expected[] = {{LOG_ERROR, "gone wrong"},         {LOG_DEBUG, "a detail"},
                    {LOG_WARN, "printed by a plugin"}, {LOG_ERROR, "E RKNN: of the runtime"},
                    {LOG_INFO, "I RKNN: and more"},    {LOG_WARN, "ERKNN: else"},
                    {LOG_WARN, "?no level"},           {LOG_WARN, "?"},
                    {LOG_WARN, "without an end"}};
    size_t n = sizeof expected / sizeof *expected;
    assert_int_equal(r->seen.n, n);
    for (unsigned i = 0; i < n; i++) {
        char text[100];
        snprintf(text, sizeof text, "worker 42 (a.rknn): %s", expected[i].text);
        expect(r, i, expected[i].level, text);
    }
}

static void long_lines_are_cut(void **state)
{
    struct rig *r = *state;
    char text[5000];
    memset(text, 'x', sizeof text - 2);
    memcpy(text + sizeof text - 2, "\n", 2);
    say(r, text);
    say(r, "next\n");
    close_log(r);
    assert_int_equal(r->seen.n, 2);
    assert_cmp(strlen(r->seen.text[0]), >, 900);
    expect(r, 1, LOG_WARN, "worker 42 (a.rknn): next");
}

// Line i says that others are left out, and how many; else it is one of them.
static bool is_held(const struct rig *r, unsigned i, unsigned long *left_out, unsigned long *logged)
{
    static const char words[] = "worker 42 (a.rknn) says more than 200 lines in a second: ";
    bool held = strncmp(r->seen.text[i], words, strlen(words)) == 0;
    if (held)
        *left_out += strtoul(r->seen.text[i] + strlen(words), NULL, 10);
    else
        expect(r, i, LOG_WARN, "worker 42 (a.rknn): chat");
    *logged += !held;
    return held;
}

// It says what it can until it has been held twice: the pipe is full most of the time.
static void a_chatty_worker_is_held(void **state)
{
    struct rig *r = *state;
    unsigned long written = 0, left_out = 0, logged = 0, n_held = 0;
    unsigned i = 0;
    assert_int_equal(fcntl(r->far_end, F_SETFL, O_WRONLY | O_NONBLOCK), 0);
    while (n_held < 2) {
        while (write(r->far_end, "\2chat\n", 6) == 6)
            written++;
        uv_run(&r->loop, UV_RUN_ONCE);
        for (; i < r->seen.n; i++)
            n_held += is_held(r, i, &left_out, &logged);
    }
    close_log(r);
    for (; i < r->seen.n; i++)
        n_held += is_held(r, i, &left_out, &logged);
    assert_cmp(logged, >=, 2ul * WORKER_LOG_LINES);
    assert_cmp(logged, <=, (n_held + 1) * WORKER_LOG_LINES);
    assert_int_equal(logged + left_out, written);
}

// Bytes without an end count, too.
static void an_endless_line_is_held(void **state)
{
    struct rig *r = *state;
    char text[4096] = {0};
    memset(text, 'x', sizeof text);
    unsigned before = r->log.budget;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(write(r->far_end, text, sizeof text), sizeof text);
        uv_run(&r->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(r->log.budget, before - 8);
    assert_int_equal(r->seen.n, 0);
    close_log(r);
    assert_int_equal(r->seen.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_bring_their_level, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_lines_are_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chatty_worker_is_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_endless_line_is_held, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
