// Clients that ask more than they read, or more than their turn. The server's loop runs in the
// test, turn by turn, so what it has done when is known.
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "server/clients/user.h"
#include "server/config/options_rows.h"
#include "server/models/model_users.h"
#include "server/net/connection.h"
#include "server/server.h"
#include "tests/integration/server/peer.h"

#define BOUND     (256u * 1024) // bytes queued for a client, and one answer more
#define TURNS_MAX 2000000       // until something that must come has come
#define OTHERS    200
#define MANY      1000
#define FIRST_ID  1000u

static uv_loop_t loop;
static struct options options;
static struct server server;
static int server_end; // of the last connection

// ---- the server, turn by turn -------------------------------------------------------------------

static void set(const char *name, const char *value)
{
    struct error e;
    if (options_set(&options, name, value, &e) < 0)
        fail_msg("%s", e.text);
}

// It has to listen; the kernel names this socket.
static void listen_nowhere(void)
{
    char uri[16];
    struct sockaddr address = {.sa_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, &address, sizeof address.sa_family), 0);
    assert_int_equal(listen(fd, 1), 0);
    snprintf(uri, sizeof uri, "fd:%d", fd);
    set("listen", uri);
}

static void start_with(const char *backend, const char *costly_percent)
{
    struct error e;
    log_set_level(LOG_SILENT);
    options_init(&options);
    set("isolation", "thread");
    set("backend", backend);
    set("costly-percent", costly_percent);
    set("rights", "*:run,see-own,see-all,kill");
    set("module-dir", MODULE_DIR);
    set("heartbeat-ms", "600000");
    set("peer-timeout-ms", "1200000");
    listen_nowhere();
    assert_int_equal(uv_loop_init(&loop), 0);
    if (server_init(&server, &loop, &options, &e) < 0)
        fail_msg("%s", e.text);
    while (server.state == SERVER_STARTING)
        uv_run(&loop, UV_RUN_ONCE);
}

static int start(void **state)
{
    (void)state;
    start_with("null:64:64", "100");
    return 0;
}

static int start_slow(void **state)
{
    (void)state;
    start_with("null:64:64", "5");
    return 0;
}

static int start_sim(void **state)
{
    (void)state;
    start_with("sim", "100");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(&server);
    while (uv_run(&loop, UV_RUN_DEFAULT))
        continue;
    server_done(&server);
    options_done(&options);
    return uv_loop_close(&loop);
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}

static size_t readable(const struct peer *p)
{
    static uint8_t bytes[1 << 20];
    ssize_t n = recv(p->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 ? (size_t)n : 0;
}

static void wait_readable(const struct peer *p)
{
    for (int i = 0; readable(p) == 0; i++) {
        assert_cmp(i, <, TURNS_MAX);
        turn();
    }
}

// A client, who has said HELLO, and its connection in the server. `source`: whose it is.
static struct connection *arrive_with(struct peer *p, const char *source, const rknnd_Hello *hello)
{
    int pair[2];
    struct origin origin = {.text = "flood"};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fd_unblock(pair[0]);
    server_end = pair[0];
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        server.accounts.total.of[i] = UINT64_C(1) << 40; // limits of users are not tried here
    snprintf(origin.source, sizeof origin.source, "%s", source);
    server_take(&server, pair[0], &origin);
    struct connection *c = container_of(server.connections.all.prev, struct connection, link);
    peer_init(p, pair[1]);
    peer_send(p, MESSAGE_HELLO, hello, NULL, 0);
    return c;
}

static struct connection *arrive(struct peer *p, const char *source)
{
    const rknnd_Hello m = {
        .version_min = 1, .version_max = 1, .software = "peer", .program = "flood"};
    return arrive_with(p, source, &m);
}

static struct connection *join_from(struct peer *p, const char *source)
{
    struct peer_frame f;
    struct connection *c = arrive(p, source);
    wait_readable(p);
    assert_true(peer_receive(p, &f));
    assert_int_equal(f.header.type, MESSAGE_HELLO);
    return c;
}

// One of a program that has others.
static void join_session(struct peer *p, const struct session *session)
{
    struct peer_frame f;
    rknnd_Hello m = {.version_min = 1, .version_max = 1, .session = session->id};
    m.session_secret.size = HELLO_SECRET_SIZE;
    memcpy(m.session_secret.bytes, session->secret, HELLO_SECRET_SIZE);
    arrive_with(p, "", &m);
    wait_readable(p);
    assert_true(peer_receive(p, &f));
}

static struct connection *join(struct peer *p)
{
    return join_from(p, "");
}

// Takes what has come for a client. How many answers were complete by it.
static unsigned take_any(struct peer *p, bool may_fail)
{
    struct error e;
    void *space;
    unsigned n = 0;
    for (;;) {
        int event = frame_reader_next(&p->reader, &e);
        if (event == FRAME_NEED_MORE) {
            size_t size = frame_reader_space(&p->reader, &space);
            ssize_t got = recv(p->fd, space, size, MSG_DONTWAIT);
            if (got <= 0)
                return n;
            frame_reader_fill(&p->reader, (size_t)got);
        } else if (event == FRAME_MESSAGE && p->reader.header.payload_size > 0) {
            frame_reader_payload_skip(&p->reader);
        } else {
            assert_cmp(event, >=, 0);
            assert_int_equal(p->reader.header.flags & ~(may_fail ? FRAME_ERROR : 0), FRAME_REPLY);
            n++;
        }
    }
}

// None may be an Error.
static unsigned take_answers(struct peer *p)
{
    return take_any(p, false);
}

static unsigned take_some(struct peer *p)
{
    return take_any(p, true);
}

// `n` requests in one piece, with ids from FIRST_ID on.
static void send_many(struct peer *p, uint16_t type, const void *message, unsigned n)
{
    const pb_msgdesc_t *fields = message_row(type)->request;
    size_t size = 0;
    cleanup(free_p) uint8_t *all = malloc((size_t)n * 256);
    for (unsigned i = 0; i < n; i++) {
        struct frame_out *f =
            message_frame(type, 0, FIRST_ID + i, fields, message, NULL, 0, NULL, NULL);
        assert_cmp(f->head_size, <=, 256);
        memcpy(all + size, f->head, f->head_size);
        size += f->head_size;
        frame_out_free(f);
    }
    assert_int_equal(send(p->fd, all, size, MSG_DONTWAIT), size);
}

// Takes answers until all `n` are there.
static void take_all(struct peer *p, unsigned n)
{
    for (int i = 0; n > 0; i++) {
        assert_cmp(i, <, TURNS_MAX);
        unsigned more = take_answers(p);
        assert_cmp(more, <=, n);
        n -= more;
        turn();
    }
}

static void join_others(struct peer *others, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        join(&others[i]);
}

static void close_others(struct peer *others, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        peer_close(&others[i]);
}

// ---- turns --------------------------------------------------------------------------------------

// Both have asked before the server looks. The one who asks little is answered while most of what
// the other wants is still to come, although that one reads all the time.
static void expect_turns(uint16_t type, const void *message, unsigned n)
{
    struct peer busy, other;
    unsigned first = 0;
    join(&busy);
    join(&other);
    send_many(&busy, type, message, n);
    send_many(&other, MESSAGE_PING, &(rknnd_Ping){.token = 1}, 1);
    for (int i = 0; readable(&other) == 0; i++) {
        assert_cmp(i, <, TURNS_MAX);
        turn();
        first += take_answers(&busy);
    }
    if (first > n / 4)
        fail_msg("%u of %u %s were answered first", first, n, message_row(type)->name);
    take_all(&busy, n - first);
    peer_close(&busy);
    peer_close(&other);
}

static void others_have_their_turn(void **state)
{
    struct peer others[OTHERS];
    (void)state;
    join_others(others, OTHERS);
    expect_turns(MESSAGE_PING, &(rknnd_Ping){.token = 7}, 4000);
    expect_turns(MESSAGE_STATS, &(rknnd_Empty){0}, 64);
    expect_turns(MESSAGE_TRACE, &(rknnd_Trace){.from = 1}, 64);
    expect_turns(MESSAGE_SERVER_STATUS, &(rknnd_Empty){0}, 1000);
    close_others(others, OTHERS);
}

// One user's thousand connections have all asked before another's one. The loop looks once: it has
// answered that one, and not all of the others, which would take it much longer than a turn may.
static void users_take_turns(void **state)
{
    struct peer *others = calloc(MANY, sizeof *others), polite;
    unsigned first = 0, asked = 200;
    (void)state;
    join_others(others, MANY);
    join_from(&polite, "another");
    for (unsigned i = 0; i < MANY; i++)
        send_many(&others[i], MESSAGE_SERVER_STATUS, &(rknnd_Empty){0}, asked);
    send_many(&polite, MESSAGE_PING, &(rknnd_Ping){.token = 1}, 1);
    turn();
    assert_cmp(readable(&polite), >, 0);
    for (unsigned i = 0; i < MANY; i++)
        first += take_answers(&others[i]);
    assert_cmp(first, <, asked * MANY / 4);
    peer_close(&polite);
    close_others(others, MANY);
    free(others);
}

// A list of many clients takes many turns to make. One who asks in the middle is answered before.
static void lists_are_made_in_slices(void **state)
{
    struct peer *others = calloc(MANY, sizeof *others), asks, pings;
    unsigned before = 0, until = 0;
    (void)state;
    join_others(others, MANY);
    join(&asks);
    join(&pings);
    send_many(&asks, MESSAGE_STATS, &(rknnd_Empty){0}, 1);
    turn();
    send_many(&pings, MESSAGE_PING, &(rknnd_Ping){.token = 1}, 1);
    for (; readable(&pings) == 0; before++)
        turn();
    for (until = before; readable(&asks) == 0; until++)
        turn();
    if (before > 2 || until < 10)
        fail_msg("a PING took %u turns, the list of %d clients %u", before, MANY, until);
    take_all(&asks, 1);
    peer_close(&asks);
    peer_close(&pings);
    close_others(others, MANY);
    free(others);
}

// As many as there may be: a user's models, and one line of "other" models for him.
static void fill_series(void)
{
    char user[WHO_SIZE];
    uint8_t sha256[SHA256_SIZE] = {0};
    for (unsigned i = 0; server.metrics.n_series < METRICS_MAX_SERIES; i++) {
        memcpy(sha256, &i, sizeof i);
        snprintf(user, sizeof user, "user %u", i / 100);
        assert_non_null(metrics_find(&server.metrics, "a model", sha256, user, i % 3));
    }
}

static void on_answer(uv_poll_t *poll, int status, int events)
{
    (void)poll; // that the turn ends is all
    (void)status;
    (void)events;
}

// What is long takes many turns to make, and who asks in the middle is answered before. A turn
// waits here until there is something to do, for the peer, too: an answer that was made at the end
// of a turn goes out in the next one, which would wait for nothing else.
static void expect_slices(uint16_t type, unsigned least)
{
    struct peer asks, pings;
    unsigned before = 0, until;
    uv_poll_t answer;
    join(&asks);
    join(&pings);
    assert_int_equal(uv_poll_init(&loop, &answer, asks.fd), 0);
    uv_poll_start(&answer, UV_READABLE, on_answer);
    send_many(&asks, type, &(rknnd_Empty){0}, 1);
    while (type == MESSAGE_METRICS && !server.readings.known) // then no thread is waited for
        uv_run(&loop, UV_RUN_ONCE);
    send_many(&pings, MESSAGE_PING, &(rknnd_Ping){.token = 1}, 1);
    for (; readable(&pings) == 0; before++)
        turn();
    for (until = 0; readable(&asks) == 0; until++)
        uv_run(&loop, UV_RUN_ONCE);
    if (before > 3 || until < least)
        fail_msg("a PING took %u turns, a long answer %u", before, until);
    uv_close((uv_handle_t *)&answer, NULL);
    turn();
    take_all(&asks, 1);
    peer_close(&asks);
    peer_close(&pings);
}

static void metrics_are_made_in_slices(void **state)
{
    (void)state;
    fill_series();
    expect_slices(MESSAGE_METRICS, 20);
}

static void limits_are_made_in_slices(void **state)
{
    struct peer *others = calloc(MANY, sizeof *others);
    (void)state;
    join_others(others, MANY);
    expect_slices(MESSAGE_LIMITS, 2);
    close_others(others, MANY);
    free(others);
}

// A program may have thousands of connections. Others are answered while it is being ended.
static void clients_are_ended_in_slices(void **state)
{
    struct peer *others = calloc(MANY, sizeof *others), kills, pings;
    struct connection *first = join(&others[0]);
    (void)state;
    for (unsigned i = 1; i < MANY; i++)
        join_session(&others[i], first->session);
    assert_int_equal(first->session->n_connections, MANY);
    join(&kills);
    join(&pings);
    send_many(&kills, MESSAGE_CLIENT_KILL, &(rknnd_ClientKill){.client = first->session->id}, 1);
    send_many(&pings, MESSAGE_PING, &(rknnd_Ping){.token = 1}, 1);
    wait_readable(&pings);
    assert_int_equal(readable(&kills), 0);
    take_all(&kills, 1);
    while (server.connections.n > 2)
        turn();
    peer_close(&kills);
    peer_close(&pings);
    close_others(others, MANY);
    free(others);
}

// A text of two megabytes is there once for all who have asked for it and do not read it.
static void metrics_are_shared(void **state)
{
    struct peer asks[OTHERS];
    (void)state;
    fill_series();
    join_others(asks, OTHERS);
    const struct mallinfo2 before = mallinfo2();
    for (unsigned i = 0; i < OTHERS; i++)
        send_many(&asks[i], MESSAGE_METRICS, &(rknnd_Empty){0}, 1);
    for (unsigned i = 0; i < OTHERS; i++)
        wait_readable(&asks[i]);
    const struct mallinfo2 now = mallinfo2();
    assert_cmp(now.uordblks + now.hblkhd, <=, before.uordblks + before.hblkhd + (16u << 20));
    for (unsigned i = 0; i < OTHERS; i++)
        take_all(&asks[i], 1);
    close_others(asks, OTHERS);
}

// Every client that is listed goes while the list is being made, in every one of its turns.
static void clients_go_while_they_are_listed(void **state)
{
    struct peer others[OTHERS], asks;
    (void)state;
    join_others(others, OTHERS);
    join(&asks);
    send_many(&asks, MESSAGE_STATS, &(rknnd_Empty){0}, 1);
    for (unsigned i = 0; i < OTHERS; i++) {
        peer_close(&others[OTHERS - 1 - i]);
        if (i % 50 == 0)
            turn();
    }
    take_all(&asks, 1);
    peer_close(&asks);
}

// ---- back-pressure ------------------------------------------------------------------------------

// Nothing happens for the client that joined last until it reads.
static bool is_still(const struct connection *c)
{
    const struct request *next = list_first(&c->requests.large, const struct request, turn);
    struct pollfd socket = {.fd = server_end, .events = POLLOUT};
    return (c->requests.n == 0 || (next && !next->started)) && poll(&socket, 1, 0) == 0;
}

// Asks `n` times for `size` bytes or more and reads nothing: what the server keeps is bounded, and
// all of it comes as it is read.
static void expect_bound(uint16_t type, const void *message, unsigned n, size_t size)
{
    struct peer p;
    struct connection *c = join(&p);
    assert_cmp(size * n, >, 2 * BOUND + (1u << 19)); // more than the socket takes besides
    send_many(&p, type, message, n);
    turn();
    for (int i = 0; !is_still(c); i++) {
        assert_cmp(i, <, TURNS_MAX);
        turn();
    }
    for (int i = 0; i < 1000; i++)
        turn();
    if (channel_backlog(&c->channel) > BOUND + 2 * size)
        fail_msg("%llu bytes wait for one who reads no %s of some %zu bytes",
                 (unsigned long long)channel_backlog(&c->channel), message_row(type)->name, size);
    take_all(&p, n);
    peer_close(&p);
}

static void answers_wait_for_their_reader(void **state)
{
    struct peer others[OTHERS];
    (void)state;
    join_others(others, OTHERS);
    expect_bound(MESSAGE_STATS, &(rknnd_Empty){0}, 200, 10000);
    expect_bound(MESSAGE_TRACE, &(rknnd_Trace){.from = 1}, 300, 5000);
    close_others(others, OTHERS);
}

// Thousands ask, and read nothing, beside many who are idle: nobody waits, and memory is bounded.
static void thousands_of_stats(void **state)
{
    struct peer *others = calloc(MANY, sizeof *others), floods[4], pings;
    struct connection *c = NULL;
    (void)state;
    join_others(others, MANY);
    join(&pings);
    for (unsigned i = 0; i < 4; i++)
        join(&floods[i]);
    size_t before = mallinfo2().uordblks;
    for (unsigned i = 0; i < 4; i++)
        send_many(&floods[i], MESSAGE_STATS, &(rknnd_Empty){0}, 4000);
    for (unsigned k = 0; k < 50; k++) {
        unsigned turns = 0;
        send_many(&pings, MESSAGE_PING, &(rknnd_Ping){.token = k}, 1);
        for (; readable(&pings) == 0; turns++)
            turn();
        take_all(&pings, 1);
        if (turns > 3)
            fail_msg("a PING took %u turns", turns);
    }
    for (unsigned i = 0; i < 2000; i++)
        turn();
    list_for_each (c, &server.connections.all, link)
        if (channel_backlog(&c->channel) > BOUND + 1000 * MANY)
            fail_msg("%llu bytes wait", (unsigned long long)channel_backlog(&c->channel));
    size_t more = mallinfo2().uordblks - before;
    printf("%zu bytes for 4 clients that have asked 4,000 times each\n", more);
    assert_true(more < 4u << 20 || more > SIZE_MAX / 2);
    for (unsigned i = 0; i < 4; i++)
        peer_close(&floods[i]);
    peer_close(&pings);
    close_others(others, MANY);
    free(others);
}

// ---- what costs much --------------------------------------------------------------------------

// How many messages of this cost a connection may have had handled since `began`: PROTOCOL.md's
// table, half a second's worth at once, and one that leads past it.
static unsigned allowed(uint64_t began_ms, unsigned cost_us)
{
    uint64_t us = (500 + uv_now(&loop) - began_ms) * options.costly_percent * 10;
    return (unsigned)(us / cost_us) + 1;
}

static void expect_allowed(uint16_t type, unsigned got, unsigned most)
{
    if (got > most)
        fail_msg("%u %s were answered, %u are allowed", got, message_row(type)->name, most);
}

// Asks for more than the time allows, beside one that asks for little, of the same user: what is
// too much waits, the other one does not, and all of it is answered in the end.
static void expect_wait(uint16_t type, const void *message, unsigned n, unsigned cost_us)
{
    struct peer flood, polite;
    unsigned got = 0;
    join(&flood);
    join(&polite);
    uint64_t began_ms = uv_now(&loop);
    send_many(&flood, type, message, n);
    for (unsigned k = 0; k < 50; k++) {
        unsigned turns = 0;
        send_many(&polite, MESSAGE_PING, &(rknnd_Ping){.token = k}, 1);
        for (; readable(&polite) == 0; turns++)
            turn();
        take_all(&polite, 1);
        assert_cmp(turns, <=, 3);
        got += take_some(&flood);
        expect_allowed(type, got, allowed(began_ms, cost_us));
    }
    for (unsigned i = 0; got < n; i++) {
        assert_cmp(i, <, TURNS_MAX);
        turn();
        got += take_some(&flood);
        expect_allowed(type, got, allowed(began_ms, cost_us));
    }
    peer_close(&flood);
    peer_close(&polite);
}

static void what_costs_much_waits(void **state)
{
    (void)state;
    expect_wait(MESSAGE_STATS, &(rknnd_Empty){0}, 40, 1000);
    expect_wait(MESSAGE_LIMITS, &(rknnd_Empty){0}, 40, 1000);
    expect_wait(MESSAGE_METRICS, &(rknnd_Empty){0}, 40, 1000);
    expect_wait(MESSAGE_TRACE, &(rknnd_Trace){.from = 1}, 40, 1000);
    expect_wait(MESSAGE_LOG, &(rknnd_Log){.last = 1000}, 200, 200);
    expect_wait(MESSAGE_MODEL_DESCRIBE, &(rknnd_ModelDescribe){0}, 200, 200);
    expect_wait(MESSAGE_MEMORY_FREE, &(rknnd_MemoryFree){.memory = 1}, 2000, 20);
}

// All connections of a user together have twice of what one has, however many they are.
static void many_connections_are_not_more(void **state)
{
    struct peer floods[20];
    unsigned got = 0;
    (void)state;
    join_others(floods, 20);
    uint64_t began_ms = uv_now(&loop);
    for (unsigned i = 0; i < 20; i++)
        send_many(&floods[i], MESSAGE_LIMITS, &(rknnd_Empty){0}, 10);
    for (unsigned t = 0; got < 100; t++) {
        assert_cmp(t, <, TURNS_MAX);
        turn();
        for (unsigned i = 0; i < 20; i++)
            got += take_answers(&floods[i]);
        assert_cmp(got, <=, 2 * allowed(began_ms, 1000));
    }
    close_others(floods, 20);
}

// Each is charged 50 microseconds, of a tenth of the time (twice costly-percent): what is more than
// half a second's worth is heard when that has come back. Another user's is heard at once.
static void connections_cost(void **state)
{
    unsigned n = MANY + MANY / 2;
    struct peer *floods = calloc(n, sizeof *floods), polite;
    uint64_t began_ms = uv_now(&loop);
    (void)state;
    for (unsigned i = 0; i < n; i++)
        arrive(&floods[i], "");
    join_from(&polite, "another");
    assert_int_equal(readable(&floods[n - 1]), 0);
    wait_readable(&floods[n - 1]);
    assert_cmp(uv_now(&loop) - began_ms, >=, (50 * n / 1000 - 50) * 10);
    peer_close(&polite);
    close_others(floods, n);
    free(floods);
}

// The library's digits; a description is made by a thread, and is larger than its file's name.
static void descriptions_wait_for_their_reader(void **state)
{
    rknnd_ModelDescribe m = {0};
    struct error e;
    struct model *model;
    struct stat file;
    (void)state;
    int fd = open(DIGITS_FILE, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &file), 0);
    uint8_t *data = malloc((size_t)file.st_size);
    assert_int_equal(read(fd, data, (size_t)file.st_size), file.st_size);
    assert_int_equal(sha256(data, (size_t)file.st_size, m.sha256, &e), 0);
    assert_int_equal(
        store_add(&server.store, m.sha256, fd, (uint64_t)file.st_size, "digits", &model, &e), 0);
    free(data);
    struct user *user; // whom all peers of this test are
    assert_int_equal(user_get(&server.users, &(struct origin){.text = "flood"}, NULL, &user, &e),
                     0);
    assert_int_equal(model_learn(model, user, "m", &e), 0);
    user_unref(user);
    expect_bound(MESSAGE_MODEL_DESCRIBE, &m, 120, 14000);
    model_unref(model);
}

int main(void)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max; // both ends of each connection are here
    setrlimit(RLIMIT_NOFILE, &files);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(others_have_their_turn, start, stop),
        cmocka_unit_test_setup_teardown(users_take_turns, start, stop),
        cmocka_unit_test_setup_teardown(lists_are_made_in_slices, start, stop),
        cmocka_unit_test_setup_teardown(metrics_are_made_in_slices, start, stop),
        cmocka_unit_test_setup_teardown(limits_are_made_in_slices, start, stop),
        cmocka_unit_test_setup_teardown(clients_are_ended_in_slices, start, stop),
        cmocka_unit_test_setup_teardown(metrics_are_shared, start, stop),
        cmocka_unit_test_setup_teardown(clients_go_while_they_are_listed, start, stop),
        cmocka_unit_test_setup_teardown(thousands_of_stats, start, stop),
        cmocka_unit_test_setup_teardown(answers_wait_for_their_reader, start, stop),
        cmocka_unit_test_setup_teardown(what_costs_much_waits, start_slow, stop),
        cmocka_unit_test_setup_teardown(many_connections_are_not_more, start_slow, stop),
        cmocka_unit_test_setup_teardown(connections_cost, start_slow, stop),
        cmocka_unit_test_setup_teardown(descriptions_wait_for_their_reader, start_sim, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
