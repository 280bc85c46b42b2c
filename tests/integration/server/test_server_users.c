// Quotas of users. All who come over TCP are one user here, the test over the Unix socket another.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/server/in_process.h"

#define IN 100u

static struct in_process server;
static uint8_t hash[SHA256_SIZE];

static int start(const char *quota, const char *backend)
{
    const char *const settings[] = {"backend", backend, "quota", quota, NULL};
    in_process_start(&server, settings);
    return 0;
}

static int start_contexts(void **state)
{
    (void)state;
    return start("tcp:contexts=2", "null:100:250");
}

static int start_requests(void **state)
{
    (void)state;
    return start("tcp:in-flight=1", "null:100:250,delay_us=1000000");
}

static int start_bytes(void **state)
{
    (void)state;
    return start("tcp:bytes=99", "null:100:250");
}

IN_PROCESS_STOP(stop, server)

static void connect_tcp(struct peer *p)
{
    in_process_connect_tcp(&server, p);
    peer_upload(p, "model", 5, 5, hash);
}

static void connect_local(struct peer *p)
{
    in_process_connect(&server, p);
    peer_upload(p, "model", 5, 5, hash);
}

static int try_open(struct peer *p, struct error *e)
{
    rknnd_ContextOpen m = {0};
    struct peer_frame f;
    memcpy(m.sha256, hash, sizeof m.sha256);
    int r = peer_call(p, MESSAGE_CONTEXT_OPEN, &m, NULL, 0, &f, e);
    peer_frame_done(&f);
    return r;
}

static uint32_t send_infer(struct peer *p, uint64_t context)
{
    uint8_t input[IN] = {0};
    return peer_send_infer(p, context, input, sizeof input);
}

static int infer(struct peer *p, uint64_t context, struct error *e)
{
    struct peer_frame f;
    int r = peer_wait(p, send_infer(p, context), &f, e);
    peer_frame_done(&f);
    return r;
}

static void names_user_and_limit(const struct error *e, const char *what)
{
    assert_non_null(strstr(e->text, "user tcp"));
    assert_non_null(strstr(e->text, "quota tcp"));
    assert_non_null(strstr(e->text, what));
}

static void contexts_of_all_sessions_count(void **state)
{
    struct peer first, second, local;
    struct error e;
    (void)state;
    connect_tcp(&first);
    connect_tcp(&second);
    uint64_t context = peer_open(&first, hash, 0).context;
    peer_open(&second, hash, 0);
    assert_int_equal(try_open(&second, &e), STATUS_MALLOC_FAIL);
    names_user_and_limit(&e, "contexts");
    assert_int_equal(try_open(&first, &e), STATUS_MALLOC_FAIL);

    connect_local(&local);
    for (int i = 0; i < 5; i++)
        peer_open(&local, hash, 0);

    struct peer_frame f;
    assert_int_equal(
        peer_call(&first, MESSAGE_CONTEXT_CLOSE, &(rknnd_ContextClose){context}, NULL, 0, &f, &e),
        0);
    peer_frame_done(&f);
    assert_int_equal(try_open(&second, &e), 0);
    peer_close(&first);
    peer_close(&second);
    peer_close(&local);
}

static void requests_in_flight(void **state)
{
    struct peer first, second, local;
    struct peer_frame f;
    struct error e;
    (void)state;
    connect_tcp(&first);
    connect_tcp(&second);
    connect_local(&local);
    uint64_t one = peer_open(&first, hash, 0).context, two = peer_open(&second, hash, 0).context;
    uint64_t mine = peer_open(&local, hash, 0).context;
    uint32_t running = send_infer(&first, one);
    // A connection is read in order: with this answer, the run is there.
    peer_status(&first);
    assert_int_equal(infer(&second, two, &e), STATUS_DEVICE_UNAVAILABLE);
    names_user_and_limit(&e, "in flight");
    uint32_t a = send_infer(&local, mine), b = send_infer(&local, mine);
    assert_int_equal(peer_wait(&first, running, &f, &e), 0);
    peer_frame_done(&f);
    assert_int_equal(infer(&second, two, &e), 0);
    assert_int_equal(peer_wait(&local, a, &f, &e), 0);
    peer_frame_done(&f);
    assert_int_equal(peer_wait(&local, b, &f, &e), 0);
    peer_frame_done(&f);
    peer_close(&first);
    peer_close(&second);
    peer_close(&local);
}

static void bytes_of_a_user_are_limited(void **state)
{
    struct peer p, local;
    struct error e;
    (void)state;
    connect_tcp(&p);
    connect_local(&local);
    uint64_t context = peer_open(&p, hash, 0).context, mine = peer_open(&local, hash, 0).context;
    assert_int_equal(infer(&p, context, &e), STATUS_MALLOC_FAIL);
    names_user_and_limit(&e, "bytes");
    assert_int_equal(infer(&local, mine, &e), 0);
    peer_close(&p);
    peer_close(&local);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(contexts_of_all_sessions_count, start_contexts, stop),
        cmocka_unit_test_setup_teardown(requests_in_flight, start_requests, stop),
        cmocka_unit_test_setup_teardown(bytes_of_a_user_are_limited, start_bytes, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
