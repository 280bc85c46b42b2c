// Local programs that say nothing and take nothing: they may be stopped, and are kept.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/integration/server/in_process.h"

#define PEER_TIMEOUT_MS 50
#define TIMEOUTS        20u      // that are awaited
#define OUTPUT_SIZE     4194304u // more than any socket takes; "null:64:4194304"

static struct in_process server;

IN_PROCESS_START(start, server, "heartbeat-ms", "10", "peer-timeout-ms", "50", "max-connections",
                 "4", "backend", "null:64:4194304")
IN_PROCESS_STOP(stop, server)

static rknnd_StatsReply stats(struct peer *p, struct peer_frame *f)
{
    struct error e;
    if (peer_call(p, MESSAGE_STATS, &(rknnd_Empty){0}, NULL, 0, f, &e) < 0)
        fail_msg("%s", e.text);
    return f->m.STATS_reply;
}

static uint64_t uptime(struct peer *p)
{
    struct peer_frame f;
    uint64_t ms = stats(p, &f).uptime_ms;
    peer_frame_done(&f);
    return ms;
}

// By the server's clock.
static void let_timeouts_pass(struct peer *watcher)
{
    uint64_t end = uptime(watcher) + (uint64_t)TIMEOUTS * PEER_TIMEOUT_MS;
    while (uptime(watcher) < end)
        continue;
}

static rknnd_ClientStats stats_of(struct peer *watcher, uint64_t client)
{
    struct peer_frame f;
    rknnd_StatsReply m = stats(watcher, &f);
    struct bytes rest = {f.payload, (size_t)f.header.payload_size};
    rknnd_CoreStats core;
    rknnd_ClientStats c = {0};
    struct error e;
    for (uint32_t i = 0; i < m.n_cores; i++)
        assert_int_equal(message_delimited_take(rknnd_CoreStats_fields, &rest, &core, &e), 0);
    for (uint32_t i = 0; i < m.n_clients && c.client != client; i++)
        assert_int_equal(message_delimited_take(rknnd_ClientStats_fields, &rest, &c, &e), 0);
    assert_int_equal(c.client, client);
    peer_frame_done(&f);
    return c;
}

static void keeps_who_says_nothing(void **state)
{
    struct peer by_unix, by_tcp, watcher;
    (void)state;
    in_process_watch(&server, &watcher); // of four places all others are free
    uint64_t first = in_process_connect(&server, &by_unix).session;
    uint64_t second = in_process_connect_tcp(&server, &by_tcp).session;
    let_timeouts_pass(&watcher);
    assert_cmp(stats_of(&watcher, first).silent_ms, >=, TIMEOUTS * PEER_TIMEOUT_MS);
    assert_cmp(stats_of(&watcher, second).silent_ms, >=, TIMEOUTS * PEER_TIMEOUT_MS);
    assert_false(stats_of(&watcher, first).stopped); // this process runs
    peer_expect_one_ping(&by_unix);
    peer_expect_one_ping(&by_tcp);
    assert_int_equal(peer_status(&by_unix).connections, 3);
    assert_int_equal(peer_status(&by_tcp).connections, 3);
    peer_close(&by_unix);
    peer_close(&by_tcp);
    peer_close(&watcher);
}

static uint64_t ask_for_much(struct peer *p, uint64_t *ret_session, uint32_t *ret_id)
{
    static const uint8_t input[64] = {1, 2, 3};
    uint8_t sha256[SHA256_SIZE];
    *ret_session = in_process_connect(&server, p).session;
    peer_upload(p, "much", 4, 4, sha256);
    uint64_t context = peer_open(p, sha256, 0).context;
    *ret_id = peer_send_infer(p, context, input, sizeof input);
    return context;
}

static bool one_job_done(const rknnd_ServerStatus *status, const void *with)
{
    return status->jobs_done > *(const uint64_t *)with;
}

static void keeps_who_takes_nothing(void **state)
{
    struct peer p, watcher;
    struct peer_frame f;
    struct error e;
    uint64_t session;
    uint32_t id;
    (void)state;
    uint64_t before = in_process_watch(&server, &watcher).jobs_done;
    ask_for_much(&p, &session, &id);
    in_process_wait_status(&watcher, one_job_done, &before);
    let_timeouts_pass(&watcher);
    assert_int_equal(peer_wait(&p, id, &f, &e), 0);
    assert_int_equal(f.header.payload_size, OUTPUT_SIZE);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(f.payload[OUTPUT_SIZE - 64 + i], i < 3 ? i + 1 : 0);
    peer_frame_done(&f);
    peer_close(&p);
    peer_close(&watcher);
}

static void ends_who_takes_nothing_when_asked_to(void **state)
{
    struct peer p, watcher;
    struct peer_frame f;
    struct error e;
    uint64_t session;
    uint32_t id;
    (void)state;
    rknnd_ServerStatus before = in_process_watch(&server, &watcher);
    ask_for_much(&p, &session, &id);
    in_process_wait_status(&watcher, one_job_done, &before.jobs_done);
    let_timeouts_pass(&watcher);
    rknnd_ClientKill m = {.client = session};
    assert_int_equal(peer_call(&watcher, MESSAGE_CLIENT_KILL, &m, NULL, 0, &f, &e), 0);
    assert_int_equal(peer_status(&watcher).sessions, before.sessions); // at once
    in_process_wait_same(&watcher, &before);
    peer_close(&p);
    peer_close(&watcher);
}

// One who is refused with a goodbye, or let in.
static bool is_let_in(struct peer *p)
{
    struct peer_frame f;
    const rknnd_Hello m = {.version_min = PROTOCOL_VERSION_MIN,
                           .version_max = PROTOCOL_VERSION_MAX};
    peer_connect_unix(p, server.path);
    peer_send(p, MESSAGE_HELLO, &m, NULL, 0);
    bool in = peer_receive(p, &f) && f.header.type == MESSAGE_HELLO;
    peer_frame_done(&f);
    if (!in)
        peer_close(p);
    return in;
}

// Who has said nothing at all loses his place when it is needed. A server that had no processor
// for a while gives everybody his time once more.
static void makes_room_for_who_says_hello(void **state)
{
    struct peer watcher, mute, others[2];
    (void)state;
    in_process_watch(&server, &watcher); // of four places all others are free
    peer_connect_tcp(&mute, server.port);
    let_timeouts_pass(&watcher);
    char byte;
    assert_int_equal(recv(mute.fd, &byte, 1, MSG_DONTWAIT), -1); // there is room yet
    in_process_connect(&server, &others[0]);
    in_process_connect(&server, &others[1]);
    assert_int_equal(recv(mute.fd, &byte, 1, MSG_DONTWAIT), -1);
    struct peer last;
    while (!is_let_in(&last))
        let_timeouts_pass(&watcher);
    peer_expect_closed(&mute);
    assert_int_equal(peer_status(&last).connections, 4);
    peer_close(&mute);
    peer_close(&last);
    peer_close(&others[0]);
    peer_close(&others[1]);
    peer_close(&watcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_who_says_nothing),
        cmocka_unit_test(keeps_who_takes_nothing),
        cmocka_unit_test(ends_who_takes_nothing_when_asked_to),
        cmocka_unit_test(makes_room_for_who_says_hello),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
