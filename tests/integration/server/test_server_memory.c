// Memory that is being made: limits, cancelled requests, clients and servers that go meanwhile.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/server/in_process.h"

#define SIZE (1u << 20)

static struct in_process server;
static struct peer peer;
static rknnd_ServerStatus before;

static int start(void **state)
{
    const char *const settings[] = {"backend",    "null:100:250", "quota", "tcp:bytes=4M",
                                    "max-memory", "3M",           NULL};
    (void)state;
    in_process_start(&server, settings);
    in_process_connect_tcp(&server, &peer);
    before = peer_status(&peer);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    peer_close(&peer);
    in_process_stop(&server);
    return 0;
}

static int stop_server_first(void **state)
{
    (void)state;
    in_process_stop(&server);
    peer_close(&peer);
    return 0;
}

static uint32_t send_create(uint64_t size)
{
    return peer_send(&peer, MESSAGE_MEMORY_CREATE, &(rknnd_MemoryCreate){.size = size}, NULL, 0);
}

static int create(uint64_t size, uint64_t *ret, struct error *e)
{
    struct peer_frame f;
    int r = peer_wait(&peer, send_create(size), &f, e);
    if (r == 0)
        *ret = f.m.MEMORY_CREATE_reply.memory;
    peer_frame_done(&f);
    return r;
}

static void free_memory(uint64_t memory)
{
    struct peer_frame f;
    assert_int_equal(
        peer_call(&peer, MESSAGE_MEMORY_FREE, &(rknnd_MemoryFree){memory}, NULL, 0, &f, NULL), 0);
    peer_frame_done(&f);
}

static void expect_nothing_held(void)
{
    uint64_t all[3], more;
    struct error e;
    assert_int_equal(peer_status(&peer).memory_bytes, before.memory_bytes);
    for (int i = 0; i < 3; i++)
        assert_int_equal(create(SIZE, &all[i], NULL), 0);
    assert_int_equal(create(1, &more, &e), STATUS_MALLOC_FAIL);
    assert_non_null(strstr(e.text, "max-memory"));
    for (int i = 0; i < 3; i++)
        free_memory(all[i]);
    assert_int_equal(peer_status(&peer).memory_bytes, before.memory_bytes);
}

static void what_is_being_made_counts(void **state)
{
    uint64_t made[5];
    int n = 0;
    (void)state;
    for (int i = 0; i < 5; i++)
        send_create(SIZE);
    for (int i = 0; i < 5; i++) { // in any order
        struct peer_frame f;
        assert_true(peer_receive(&peer, &f));
        if (!(f.header.flags & FRAME_ERROR))
            made[n++] = f.m.MEMORY_CREATE_reply.memory;
        peer_frame_done(&f);
    }
    assert_int_equal(n, 3);
    while (n > 0)
        free_memory(made[--n]);
    expect_nothing_held();
}

static void cancelled(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct peer_frame f;
        uint32_t id = send_create(SIZE);
        peer_send(&peer, MESSAGE_CANCEL, &(rknnd_Cancel){id}, NULL, 0);
        if (peer_wait(&peer, id, &f, NULL) == 0)
            free_memory(f.m.MEMORY_CREATE_reply.memory);
        peer_frame_done(&f);
    }
    expect_nothing_held();
}

static void the_client_goes(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 3; k++)
            send_create(SIZE);
        peer_close(&peer);
        in_process_connect_tcp(&server, &peer);
    }
    in_process_wait_same(&peer, &before);
    expect_nothing_held();
}

static void the_server_goes(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++)
        send_create(SIZE);
}

static void nonsense(void **state)
{
    uint64_t memory;
    struct error e;
    (void)state;
    assert_int_equal(create(0, &memory, &e), STATUS_PARAM_INVALID);
    assert_int_equal(create(UINT64_MAX, &memory, &e), STATUS_MALLOC_FAIL);
    expect_nothing_held();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_being_made_counts, start, stop),
        cmocka_unit_test_setup_teardown(cancelled, start, stop),
        cmocka_unit_test_setup_teardown(the_client_goes, start, stop),
        cmocka_unit_test_setup_teardown(the_server_goes, start, stop_server_first),
        cmocka_unit_test_setup_teardown(nonsense, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
