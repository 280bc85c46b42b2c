// Servers that die, lie, or fall silent at any point: every call ends, with the right code, and so
// does the next one.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_server.h"
#include "rknnd.h"
#include "tests/support/fds.h"

static struct fake_server server;
static char model[] = "a model";

static int set_up(void **state)
{
    (void)state;
    return rknnd_set_server(fake_server_begin(&server));
}

static int tear_down(void **state)
{
    (void)state;
    fake_server_stop(&server);
    return 0;
}

static rknn_context open_context(void)
{
    rknn_context c = 0;
    int r = rknn_init(&c, model, sizeof model, RKNN_FLAG_COLLECT_PERF_MASK, NULL);
    if (r != RKNN_SUCC)
        fail_msg("rknn_init: %d: %s", r, rknnd_last_error());
    return c;
}

static int set_inputs(rknn_context c)
{
    static uint8_t bytes[12];
    rknn_input in[] = {{.index = 0, .buf = bytes, .size = 12, .pass_through = 1},
                       {.index = 1, .buf = bytes, .size = 8, .pass_through = 1}};
    return rknn_inputs_set(c, 2, in);
}

// Everything that asks the server something, until the first failure.
static int use_server(rknn_context *ret)
{
    rknn_perf_detail detail;
    rknn_context dup;
    int r = rknn_init(ret, model, sizeof model, RKNN_FLAG_COLLECT_PERF_MASK, NULL);
    if (r == 0)
        r = set_inputs(*ret);
    if (r == 0)
        r = rknn_run(*ret, NULL);
    if (r == 0)
        r = rknn_query(*ret, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail);
    if (r == 0 && (r = rknn_dup_context(ret, &dup)) == 0)
        rknn_destroy(dup);
    return r;
}

static const uint16_t requests[] = {MESSAGE_HELLO,        MESSAGE_MODEL_OFFER, MESSAGE_MODEL_CHUNK,
                                    MESSAGE_CONTEXT_OPEN, MESSAGE_INFER,       MESSAGE_PROFILE,
                                    MESSAGE_CONTEXT_DUP};
#define N_REQUESTS (sizeof requests / sizeof *requests)

// ---- dying ------------------------------------------------------------------------------------

static uint16_t deadly;

static enum fake_answer die(struct fake_peer *p, const struct frame_header *h,
                            const union message_any *m)
{
    (void)p, (void)m;
    return h->type == deadly ? FAKE_HANG_UP : FAKE_DEFAULT;
}

static void forget_model(void)
{
    pthread_mutex_lock(&server.lock);
    server.model_complete = false;
    server.model_received = 0;
    pthread_mutex_unlock(&server.lock);
}

static void death_at_each_request(void **state)
{
    (void)state;
    server.hook = die;
    for (size_t i = 0; i < N_REQUESTS; i++) {
        rknn_context c = 0;
        forget_model();
        deadly = requests[i];
        int r = use_server(&c);
        if (r != RKNN_ERR_DEVICE_UNAVAILABLE)
            fail_msg("%s: %d, %s", message_row(deadly)->name, r, rknnd_last_error());
        rknn_destroy(c);
    }
}

static void context_of_a_dead_server(void **state)
{
    (void)state;
    rknn_context c = open_context(), dup;
    rknn_input_output_num n;
    rknn_output out = {.buf = NULL};
    assert_int_equal(set_inputs(c), RKNN_SUCC);
    fake_server_stop(&server);
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(rknnd_last_error(), server.uri));
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(rknn_wait(c, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(set_inputs(c), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n),
                     RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(rknn_outputs_get(c, 1, &out, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(rknn_dup_context(&c, &dup), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(rknn_destroy(c), RKNN_SUCC);
    fake_server_start(&server); // and another one is started
    assert_int_equal(rknnd_set_server(server.uri), RKNN_SUCC);
    rknn_destroy(open_context());
}

static enum fake_answer say_goodbye(struct fake_peer *p, const struct frame_header *h,
                                    const union message_any *m)
{
    rknnd_Goodbye bye = {.reason = "going down for\nmaintenance"};
    if (h->type == MESSAGE_INFER) {
        fake_send(p, MESSAGE_GOODBYE, 0, 1, rknnd_Goodbye_fields, &bye, NULL, 0);
        fake_answer(p, h, m);
        return FAKE_DONE;
    }
    return FAKE_DEFAULT;
}

// What is running ends well; nothing new is begun, and the reason is told.
static void goodbye_of_the_server(void **state)
{
    (void)state;
    server.hook = say_goodbye;
    rknn_context c = open_context();
    assert_int_equal(set_inputs(c), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(rknnd_last_error(), "going down for?maintenance"));
    rknn_destroy(c);
}

// ---- lying -------------------------------------------------------------------------------------

static enum lie {
    LIE_GARBAGE,
    LIE_WRONG_ID,
    LIE_WRONG_TYPE,
    LIE_BAD_MESSAGE,
    LIE_NO_PAYLOAD,
    LIE_HUGE_PAYLOAD,
    LIE_ERROR_WITH_PAYLOAD,
    LIE_UNKNOWN_FLAGS,
    LIE_REQUEST,
    LIE_EMPTY,
    N_LIES
} lie;
static uint16_t about;

static void send_header(struct fake_peer *p, struct frame_header h, const void *tail, size_t size)
{
    uint8_t bytes[FRAME_HEADER_SIZE + 64];
    frame_header_write(bytes, &h);
    memcpy(bytes + FRAME_HEADER_SIZE, tail, size);
    fake_send_raw(p, bytes, FRAME_HEADER_SIZE + size);
}

static void tell(struct fake_peer *p, const struct frame_header *h)
{
    static const char junk[64] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    struct frame_header f = {.type = h->type, .flags = FRAME_REPLY, .id = h->id};
    switch (lie) {
    case LIE_GARBAGE:
        fake_send_raw(p, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 47);
        break;
    case LIE_WRONG_ID:
        f.id += 1000;
        send_header(p, f, "", 0);
        break;
    case LIE_WRONG_TYPE:
        f.type = h->type == MESSAGE_INFER ? MESSAGE_PROFILE : MESSAGE_INFER;
        send_header(p, f, "", 0);
        break;
    case LIE_BAD_MESSAGE:
        f.message_size = 12;
        send_header(p, f, junk, 12);
        break;
    case LIE_NO_PAYLOAD: // sizes that promise something which does not come
        f.payload_size = 1;
        send_header(p, f, "", 0);
        break;
    case LIE_HUGE_PAYLOAD:
        f.payload_size = UINT64_MAX;
        send_header(p, f, "", 0);
        break;
    case LIE_ERROR_WITH_PAYLOAD:
        f.flags |= FRAME_ERROR;
        f.payload_size = 8;
        send_header(p, f, junk, 8);
        break;
    case LIE_UNKNOWN_FLAGS:
        f.flags = 0x80;
        send_header(p, f, "", 0);
        break;
    case LIE_REQUEST:
        f.flags = 0;
        send_header(p, f, "", 0);
        break;
    case LIE_EMPTY: // decodes, but has nothing in it
        send_header(p, f, "", 0);
        break;
    case N_LIES:
        break;
    }
}

static enum fake_answer tell_lies(struct fake_peer *p, const struct frame_header *h,
                                  const union message_any *m)
{
    (void)m;
    if (h->type != about)
        return FAKE_DEFAULT;
    tell(p, h);
    return FAKE_HANG_UP;
}

static void lies_about_each_request(void **state)
{
    (void)state;
    server.hook = tell_lies;
    for (size_t i = 0; i < N_REQUESTS; i++) {
        for (lie = 0; lie < N_LIES; lie++) {
            rknn_context c = 0;
            forget_model();
            about = requests[i];
            int r = use_server(&c);
            int expected = RKNN_ERR_DEVICE_UNAVAILABLE;
            if (lie == LIE_EMPTY && about == MESSAGE_PROFILE)
                expected = RKNN_SUCC; // no layers
            if (lie == LIE_EMPTY && about == MESSAGE_HELLO)
                expected = RKNN_ERR_DEVICE_UNMATCH; // protocol version 0
            if (r != expected)
                fail_msg("%s, lie %d: %d, %s", message_row(about)->name, (int)lie, r,
                         rknnd_last_error());
            rknn_destroy(c);
        }
    }
}

static rknnd_ContextInfo told_info;

static enum fake_answer tell_info(struct fake_peer *p, const struct frame_header *h,
                                  const union message_any *m)
{
    static const uint8_t list[3] = {2, 0xff, 0xff};
    (void)m;
    if (h->type != MESSAGE_CONTEXT_OPEN)
        return FAKE_DEFAULT;
    fake_send(p, h->type, FRAME_REPLY, h->id, rknnd_ContextInfo_fields, &told_info, list, 3);
    return FAKE_DONE;
}

static void impossible_models(void **state)
{
    (void)state;
    static const rknnd_ContextInfo infos[] = {
        {.n_inputs = UINT32_MAX, .n_outputs = 2},
        {.n_inputs = 1000000, .n_outputs = 1},
        {.n_inputs = 1, .n_outputs = 1},
        {.n_inputs = 0, .n_outputs = 0},
    };
    server.hook = tell_info;
    for (size_t i = 0; i < sizeof infos / sizeof *infos; i++) {
        rknn_context c;
        told_info = infos[i];
        assert_int_equal(rknn_init(&c, model, sizeof model, 0, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    }
}

static enum fake_answer refuse_version(struct fake_peer *p, const struct frame_header *h,
                                       const union message_any *m)
{
    (void)m;
    fake_fail(p, h, STATUS_DEVICE_UNMATCH, "versions 1 to 1 and 7 to 9");
    return FAKE_DONE;
}

static void refused_version(void **state)
{
    (void)state;
    rknn_context c;
    server.hook = refuse_version;
    assert_int_equal(rknn_init(&c, model, sizeof model, 0, NULL), RKNN_ERR_DEVICE_UNMATCH);
    assert_non_null(strstr(rknnd_last_error(), "versions 1 to 1 and 7 to 9"));
}

// ---- silence -----------------------------------------------------------------------------------

static enum fake_answer ping_when_idle(struct fake_peer *p, const struct frame_header *h,
                                       const union message_any *m)
{
    rknnd_Ping ping = {.token = 7};
    if (h->type != MESSAGE_CONTEXT_OPEN)
        return FAKE_DEFAULT;
    fake_answer(p, h, m);
    fake_send(p, MESSAGE_PING, 0, 1, rknnd_Ping_fields, &ping, NULL, 0);
    return FAKE_DONE;
}

// While the program does something else, its contexts answer the server and call on it.
static void idle_context_stays_alive(void **state)
{
    (void)state;
    server.heartbeat_ms = 40;
    server.peer_timeout_ms = 10000;
    server.hook = ping_when_idle;
    rknn_context c = open_context(), d = open_context();
    fake_wait(&server, &server.n_pongs, 2);
    fake_wait(&server, &server.n_pings, 6);
    assert_int_equal(set_inputs(c), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    rknn_destroy(c);
    rknn_destroy(d);
}

static enum fake_answer fall_silent(struct fake_peer *p, const struct frame_header *h,
                                    const union message_any *m)
{
    (void)p, (void)m;
    return h->type == deadly || h->type == MESSAGE_PING ? FAKE_DONE : FAKE_DEFAULT;
}

// A call that waits for a server which neither answers nor shows any sign of life.
static void silent_server(void **state)
{
    (void)state;
    server.heartbeat_ms = 40;
    server.peer_timeout_ms = 200;
    deadly = MESSAGE_INFER;
    server.hook = fall_silent;
    rknn_context c = open_context();
    assert_int_equal(set_inputs(c), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(rknnd_last_error(), "silent"));
    rknn_destroy(c);
}

static enum fake_answer only_pings(struct fake_peer *p, const struct frame_header *h,
                                   const union message_any *m)
{
    (void)p, (void)m;
    if (h->type != MESSAGE_INFER)
        return FAKE_DEFAULT;
    while (atomic_load(&server.n_pings) < 20) { // one thread: serves the pings from in here
        uint8_t head[FRAME_HEADER_SIZE], body[FRAME_MESSAGE_MAX];
        struct frame_header ping;
        union message_any message;
        struct error e;
        if (recv(p->fd, head, sizeof head, MSG_WAITALL) != sizeof head ||
            frame_header_read(head, &ping, &e) < 0 || ping.type != MESSAGE_PING ||
            recv(p->fd, body, ping.message_size, MSG_WAITALL) != (ssize_t)ping.message_size ||
            message_decode(rknnd_Ping_fields, (struct bytes){body, ping.message_size}, &message,
                           &e) < 0)
            return FAKE_HANG_UP;
        fake_answer(p, &ping, &message);
    }
    return FAKE_DEFAULT;
}

// A run may take many times the silence that is allowed, as long as the server is alive.
static void long_run(void **state)
{
    (void)state;
    server.heartbeat_ms = 20;
    server.peer_timeout_ms = 5000;
    server.hook = only_pings;
    rknn_context c = open_context();
    assert_int_equal(set_inputs(c), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    rknn_destroy(c);
}

// ---- fork --------------------------------------------------------------------------------------

static int in_child(rknn_context inherited)
{
    rknn_context own;
    if (rknn_run(inherited, NULL) != RKNN_ERR_DEVICE_UNAVAILABLE)
        return 1;
    if (!strstr(rknnd_last_error(), "fork"))
        return 2;
    if (rknn_init(&own, model, sizeof model, 0, NULL) != RKNN_SUCC)
        return 3;
    if (set_inputs(own) != RKNN_SUCC || rknn_run(own, NULL) != RKNN_SUCC)
        return 4;
    if (rknn_destroy(own) != RKNN_SUCC || rknn_destroy(inherited) != RKNN_SUCC)
        return 5;
    return 0;
}

static void child_of_a_fork(void **state)
{
    (void)state;
    rknn_context c = open_context();
    assert_int_equal(set_inputs(c), RKNN_SUCC);
    pid_t child = fork();
    if (child == 0)
        _exit(in_child(c));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(server.n_sessions, 2); // the child is a process of its own
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    rknn_destroy(c);
}

static void nothing_is_left(void **state)
{
    (void)state;
    unsigned before = fds_count();
    for (int i = 0; i < 10; i++) {
        rknn_context c, d;
        assert_int_equal(use_server(&c), RKNN_SUCC);
        assert_int_equal(rknn_dup_context(&c, &d), RKNN_SUCC);
        rknn_destroy(c);
        rknn_destroy(d);
    }
    while (atomic_load(&server.n_open) > 0)
        sched_yield();
    assert_int_equal(fds_count(), before);
    assert_int_equal(server.n_goodbyes, server.n_connections);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(death_at_each_request),
        TEST(context_of_a_dead_server),
        TEST(goodbye_of_the_server),
        TEST(lies_about_each_request),
        TEST(impossible_models),
        TEST(refused_version),
        TEST(idle_context_stays_alive),
        TEST(silent_server),
        TEST(long_run),
        TEST(child_of_a_fork),
        TEST(nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
