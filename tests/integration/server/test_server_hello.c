// The beginning of a connection, and everything that a peer can do wrong on the way.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/server/in_process.h"

static struct in_process server;

IN_PROCESS_START(start, server, "heartbeat-ms", "100", "peer-timeout-ms", "1500", "max-payload",
                 "1M")
IN_PROCESS_STOP(stop, server)

static void says_who_it_is(void **state)
{
    struct peer p;
    (void)state;
    rknnd_HelloReply m = in_process_connect(&server, &p);
    assert_int_equal(m.version, 1);
    assert_string_equal(m.device.backend, "null");
    assert_int_equal(m.device.n_cores, 3);
    assert_int_equal(m.limits.payload_size, 1 << 20);
    assert_int_equal(m.limits.peer_timeout_ms, 1500);
    assert_int_equal(m.session_secret.size, HELLO_SECRET_SIZE);
    assert_int_not_equal(m.session, 0);
    peer_close(&p);
}

static void names_both_versions_when_they_do_not_fit(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    rknnd_Hello m = {.version_min = 7, .version_max = 9, .software = "future\n"};
    (void)state;
    peer_connect_unix(&p, server.path);
    assert_int_equal(peer_call(&p, MESSAGE_HELLO, &m, NULL, 0, &f, &e), STATUS_DEVICE_UNMATCH);
    assert_non_null(strstr(e.text, "7 to 9"));
    assert_non_null(strstr(e.text, "1 to 1"));
    assert_non_null(strstr(e.text, "future?"));
    assert_false(peer_receive(&p, &f));
    peer_close(&p);
}

static void wants_hello_first(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    peer_connect_tcp(&p, server.port);
    assert_int_equal(peer_call(&p, MESSAGE_SERVER_STATUS, &(rknnd_Empty){0}, NULL, 0, &f, &e),
                     STATUS_FAIL);
    assert_non_null(strstr(e.text, "HELLO"));
    assert_false(peer_receive(&p, &f));
    peer_close(&p);
}

static void closes_on_bytes_that_are_no_frames(void **state)
{
    struct peer p;
    (void)state;
    peer_connect_unix(&p, server.path);
    peer_send_raw(&p, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 36);
    peer_expect_closed(&p);
    peer_close(&p);
    in_process_connect(&server, &p);
    peer_send_raw(&p, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    peer_expect_closed(&p);
    peer_close(&p);
}

// Sends a frame after HELLO and expects to be sent away with words that contain `word`.
static void expect_sent_away(struct frame_header h, const char *word)
{
    struct peer p;
    struct peer_frame f;
    in_process_connect(&server, &p);
    peer_send_frame(&p, h, rknnd_Empty_fields, &(rknnd_Empty){0}, NULL, 0);
    while (peer_receive(&p, &f) && f.header.type != MESSAGE_GOODBYE)
        peer_frame_done(&f);
    assert_int_equal(f.header.type, MESSAGE_GOODBYE);
    assert_non_null(strstr(f.m.GOODBYE_request.reason, word));
    peer_expect_closed(&p);
    peer_close(&p);
}

static void sends_away_a_peer_that_breaks_the_rules(void **state)
{
    (void)state;
    expect_sent_away((struct frame_header){.type = MESSAGE_INFER, .payload_size = UINT64_MAX},
                     "limit");
    expect_sent_away((struct frame_header){.type = MESSAGE_INFER, .flags = FRAME_REPLY}, "reply");
}

static void drops_a_peer_with_too_long_a_message(void **state)
{
    struct peer p;
    (void)state;
    in_process_connect(&server, &p);
    peer_send_frame(&p, (struct frame_header){.type = MESSAGE_PING, .message_size = 9000},
                    rknnd_Empty_fields, &(rknnd_Empty){0}, NULL, 0);
    peer_expect_closed(&p);
    peer_close(&p);
}

// What is refused without the connection suffering.
static void refuses_and_goes_on(void **state)
{
    static const uint16_t types[] = {99, MESSAGE_HELLO, MESSAGE_WORKER_START, MESSAGE_WORKER_RUN,
                                     0xffff};
    struct peer p;
    struct peer_frame f;
    (void)state;
    in_process_connect(&server, &p);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint8_t raw[FRAME_HEADER_SIZE + 5000] = {0};
        struct frame_header h = {.type = types[i], .id = 1000, .payload_size = 5000};
        frame_header_write(raw, &h);
        peer_send_raw(&p, raw, sizeof raw);
        peer_status(&p); // answered after the refusal
    }
    peer_send_frame(&p, (struct frame_header){.type = MESSAGE_PING, .id = 7}, rknnd_Ping_fields,
                    &(rknnd_Ping){.token = 99}, NULL, 0);
    assert_true(peer_receive(&p, &f));
    assert_int_equal(f.header.id, 7);
    assert_int_equal(f.m.PING_reply.token, 99);
    peer_close(&p);
}

static void refuses_what_cannot_be_decoded(void **state)
{
    static const uint8_t rubbish[] = {0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f};
    uint8_t raw[FRAME_HEADER_SIZE + sizeof rubbish];
    struct frame_header h = {.type = MESSAGE_CONTEXT_OPEN, .id = 5, .message_size = sizeof rubbish};
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    in_process_connect(&server, &p);
    frame_header_write(raw, &h);
    memcpy(raw + FRAME_HEADER_SIZE, rubbish, sizeof rubbish);
    peer_send_raw(&p, raw, sizeof raw);
    assert_int_equal(peer_wait(&p, 5, &f, &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, "CONTEXT_OPEN"));
    peer_status(&p);
    peer_close(&p);
}

static void takes_nothing_new_after_goodbye(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    in_process_connect(&server, &p);
    peer_send(&p, MESSAGE_GOODBYE, &(rknnd_Goodbye){0}, NULL, 0);
    assert_int_equal(peer_call(&p, MESSAGE_SERVER_STATUS, &(rknnd_Empty){0}, NULL, 0, &f, &e),
                     STATUS_FAIL);
    peer_close(&p);
}

static bool one_session(const rknnd_ServerStatus *status, const void *with)
{
    (void)with;
    return status->sessions == 1 && status->connections == 2;
}

static void joins_a_session_by_its_secret_only(void **state)
{
    struct peer a, b, c;
    (void)state;
    rknnd_HelloReply m = in_process_connect(&server, &a);
    peer_connect_unix(&b, server.path);
    rknnd_HelloReply joined = peer_hello(&b, m.session, m.session_secret.bytes);
    assert_int_equal(joined.session, m.session);
    in_process_wait_status(&b, one_session, NULL);
    uint8_t wrong[HELLO_SECRET_SIZE];
    memcpy(wrong, m.session_secret.bytes, sizeof wrong);
    wrong[sizeof wrong - 1] ^= 1;
    peer_connect_unix(&c, server.path);
    rknnd_HelloReply other = peer_hello(&c, m.session, wrong);
    assert_int_not_equal(other.session, m.session);
    assert_memory_not_equal(other.session_secret.bytes, m.session_secret.bytes, HELLO_SECRET_SIZE);
    peer_close(&a);
    peer_close(&b);
    peer_close(&c);
}

static void forgets_a_session_with_its_last_connection(void **state)
{
    struct peer a, b, watcher;
    (void)state;
    rknnd_ServerStatus before = in_process_watch(&server, &watcher);
    rknnd_HelloReply m = in_process_connect(&server, &a);
    peer_close(&a);
    in_process_wait_same(&watcher, &before);
    peer_connect_unix(&b, server.path);
    rknnd_HelloReply late = peer_hello(&b, m.session, m.session_secret.bytes);
    assert_int_not_equal(late.session, m.session);
    peer_close(&b);
    peer_close(&watcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_who_it_is),
        cmocka_unit_test(names_both_versions_when_they_do_not_fit),
        cmocka_unit_test(wants_hello_first),
        cmocka_unit_test(closes_on_bytes_that_are_no_frames),
        cmocka_unit_test(sends_away_a_peer_that_breaks_the_rules),
        cmocka_unit_test(drops_a_peer_with_too_long_a_message),
        cmocka_unit_test(refuses_and_goes_on),
        cmocka_unit_test(refuses_what_cannot_be_decoded),
        cmocka_unit_test(takes_nothing_new_after_goodbye),
        cmocka_unit_test(joins_a_session_by_its_secret_only),
        cmocka_unit_test(forgets_a_session_with_its_last_connection),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
