// The server's log over a connection: what was logged, what is logged next, what was missed, and
// who may change how much it is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "tests/integration/server/in_process.h"

static struct in_process server;
static struct peer peer;

static int start(void **state)
{
    (void)state;
    in_process_start(&server, NULL);
    in_process_connect(&server, &peer);
    log_set_level(LOG_INFO);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    peer_close(&peer);
    in_process_stop(&server);
    return 0;
}

// Asks; the answer's lines are in f->payload.
static rknnd_LogReply ask(rknnd_Log m, struct peer_frame *f)
{
    struct error e;
    if (peer_call(&peer, MESSAGE_LOG, &m, NULL, 0, f, &e) < 0)
        fail_msg("%s", e.text);
    return f->m.LOG_reply;
}

static rknnd_LogLine take(struct bytes *rest)
{
    rknnd_LogLine line;
    assert_int_equal(message_delimited_take(rknnd_LogLine_fields, rest, &line, NULL), 0);
    return line;
}

static struct bytes lines_of(const struct peer_frame *f)
{
    return (struct bytes){f->payload, f->header.payload_size};
}

static void the_last_lines_come_in_order(void **state)
{
    (void)state;
    struct peer_frame f;
    for (int i = 0; i < 5; i++)
        log_warn("line %d\nof five", i);
    rknnd_LogReply m = ask((rknnd_Log){.last = 2}, &f);
    struct bytes rest = lines_of(&f);
    assert_int_equal(m.n_lines, 2);
    assert_int_equal(m.first + 2, m.end);
    assert_int_equal(m.level, LOG_INFO);
    rknnd_LogLine line = take(&rest);
    assert_string_equal(line.text, "line 3 of five");
    assert_int_equal(line.level, LOG_WARN);
    assert_string_equal(take(&rest).text, "line 4 of five");
    assert_int_equal(rest.size, 0);
    peer_frame_done(&f);
}

static void waiting_brings_the_next_line(void **state)
{
    (void)state;
    struct peer_frame f;
    struct error e;
    uint64_t end = ask((rknnd_Log){0}, &f).end;
    peer_frame_done(&f);
    rknnd_Log m = {.from = end, .wait = true};
    uint32_t id = peer_send(&peer, MESSAGE_LOG, &m, NULL, 0);
    peer_status(&peer); // the server has read both
    log_info("news");
    assert_int_equal(peer_wait(&peer, id, &f, &e), 0);
    struct bytes rest = lines_of(&f);
    assert_int_equal(f.m.LOG_reply.first, end);
    assert_string_equal(take(&rest).text, "news");
    peer_frame_done(&f);
}

// It does not hold the server up, nor does the server hold more than its ring for it.
static void who_is_slow_sees_what_he_missed(void **state)
{
    (void)state;
    struct peer_frame f;
    uint64_t end = ask((rknnd_Log){0}, &f).end, read = 0;
    peer_frame_done(&f);
    for (int i = 0; i < 20000; i++)
        log_info("one of very many lines, number %d", i);
    rknnd_LogReply m = ask((rknnd_Log){.from = end, .wait = true}, &f);
    assert_cmp(m.first, >, end);
    assert_int_equal(m.end, end + 20000);
    for (uint64_t next = m.first; next < m.end; next += m.n_lines) {
        peer_frame_done(&f);
        m = ask((rknnd_Log){.from = next}, &f);
        assert_int_equal(m.first, next);
        assert_cmp(m.n_lines, >, 0);
        read += m.n_lines;
    }
    assert_cmp(read, >, 1000);
    assert_cmp(read, <, 20000);
    peer_frame_done(&f);
}

static void cancelled_and_lost_readers_are_forgotten(void **state)
{
    (void)state;
    struct peer_frame f;
    struct error e;
    struct peer other;
    uint64_t end = ask((rknnd_Log){0}, &f).end;
    peer_frame_done(&f);
    rknnd_Log m = {.from = end, .wait = true};
    in_process_connect(&server, &other);
    peer_send(&other, MESSAGE_LOG, &m, NULL, 0);
    peer_close(&other);
    uint32_t id = peer_send(&peer, MESSAGE_LOG, &m, NULL, 0);
    peer_send(&peer, MESSAGE_CANCEL, &(rknnd_Cancel){id}, NULL, 0);
    assert_int_equal(peer_wait(&peer, id, &f, &e), STATUS_FAIL);
    peer_frame_done(&f);
    log_info("for nobody");
    peer_status(&peer);
}

static void a_server_that_shuts_down_dismisses_readers(void **state)
{
    (void)state;
    struct peer_frame f;
    struct error e;
    rknnd_Log m = {.from = ask((rknnd_Log){0}, &f).end, .wait = true};
    peer_frame_done(&f);
    log_set_level(LOG_ERROR); // its own words about the end would be the answer
    uint32_t id = peer_send(&peer, MESSAGE_LOG, &m, NULL, 0);
    peer_status(&peer);
    in_process_drain(&server);
    assert_int_equal(peer_wait(&peer, id, &f, &e), STATUS_DEVICE_UNAVAILABLE);
    peer_frame_done(&f);
    in_process_join(&server);
    peer_close(&peer);
}

static int set_level(struct peer *p, uint32_t level, struct error *e)
{
    struct peer_frame f;
    int r = peer_call(p, MESSAGE_LOG_LEVEL, &(rknnd_LogLevel){level}, NULL, 0, &f, e);
    peer_frame_done(&f);
    return r;
}

static void the_level_is_set_by_the_server_s_own_user(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(set_level(&peer, LOG_DEBUG, &e), 0);
    assert_int_equal(log_level_now(), LOG_DEBUG);
    assert_int_equal(set_level(&peer, LOG_TRACE + 1, &e), STATUS_PARAM_INVALID);
    assert_int_equal(log_level_now(), LOG_DEBUG);
}

static void the_level_is_not_set_from_the_network(void **state)
{
    (void)state;
    struct error e;
    struct peer tcp;
    in_process_connect_tcp(&server, &tcp);
    assert_int_equal(set_level(&tcp, LOG_DEBUG, &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, "\"debug\""));
    assert_int_equal(log_level_now(), LOG_INFO);
    peer_close(&tcp);
}

static void lines_to_come_cannot_be_asked_for_by_number(void **state)
{
    (void)state;
    struct peer_frame f;
    struct error e;
    rknnd_Log m = {.from = UINT64_MAX, .wait = true};
    assert_int_equal(peer_call(&peer, MESSAGE_LOG, &m, NULL, 0, &f, &e), STATUS_PARAM_INVALID);
    peer_frame_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_lines_come_in_order, start, stop),
        cmocka_unit_test_setup_teardown(waiting_brings_the_next_line, start, stop),
        cmocka_unit_test_setup_teardown(who_is_slow_sees_what_he_missed, start, stop),
        cmocka_unit_test_setup_teardown(cancelled_and_lost_readers_are_forgotten, start, stop),
        cmocka_unit_test_setup(a_server_that_shuts_down_dismisses_readers, start),
        cmocka_unit_test_setup_teardown(the_level_is_set_by_the_server_s_own_user, start, stop),
        cmocka_unit_test_setup_teardown(the_level_is_not_set_from_the_network, start, stop),
        cmocka_unit_test_setup_teardown(lines_to_come_cannot_be_asked_for_by_number, start, stop),
    };
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(quiet, STDERR_FILENO);
    fd_close(quiet);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
