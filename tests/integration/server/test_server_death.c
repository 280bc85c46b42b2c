// Clients that die at every point of a session: what they held is freed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/integration/server/in_process.h"

#define STEP 7 // bytes between one death and the next

static struct in_process server;
static uint8_t model[3000];

static int start_with(const char *backend)
{
    const char *const settings[] = {"backend",    backend, "model-cache", "0",
                                    "upload-ttl", "0",     NULL};
    in_process_start(&server, settings);
    return 0;
}

static int start_quick(void **state)
{
    (void)state;
    return start_with("null:64:64");
}

static int start_slow(void **state)
{
    (void)state;
    return start_with("null:64:64,delay_us=1000");
}

static int start_large(void **state)
{
    (void)state;
    return start_with("null:64:8000000");
}

IN_PROCESS_STOP(stop, server)

// The output goes to memory of 1 MB.
static void bind_memory(struct peer *p, uint64_t context)
{
    struct peer_frame f;
    struct error e;
    peer_call(p, MESSAGE_MEMORY_CREATE, &(rknnd_MemoryCreate){.size = 1 << 20}, NULL, 0, &f, &e);
    uint64_t memory = f.m.MEMORY_CREATE_reply.memory;
    peer_frame_done(&f);
    rknnd_ContextBind bind = {.context = context,
                              .output = true,
                              .memory = memory,
                              .type = TENSOR_UINT8,
                              .layout = TENSOR_UNDEFINED};
    peer_call(p, MESSAGE_CONTEXT_BIND, &bind, NULL, 0, &f, &e);
    peer_frame_done(&f);
    peer_send(p, MESSAGE_MEMORY_FREE, &(rknnd_MemoryFree){.memory = memory}, NULL, 0);
}

// Everything that a client does, in one life.
static void live(struct peer *p)
{
    struct peer_frame f;
    struct error e;
    uint8_t hash[SHA256_SIZE], input[64] = {1};
    peer_hello(p, 0, NULL);
    peer_upload(p, model, sizeof model, 1000, hash);
    uint64_t x = peer_open(p, hash, 0).context;
    bind_memory(p, x);
    peer_call(p, MESSAGE_CONTEXT_DUP, &(rknnd_ContextDup){.context = x}, NULL, 0, &f, &e);
    uint64_t y = f.m.CONTEXT_DUP_reply.context;
    peer_frame_done(&f);
    peer_send_infer(p, x, input, sizeof input);
    peer_send_infer(p, x, input, sizeof input);
    peer_send_infer(p, y, input, sizeof input);
    peer_send(p, MESSAGE_PROFILE, &(rknnd_Profile){.context = y}, NULL, 0);
    peer_send(p, MESSAGE_CONTEXT_CLOSE, &(rknnd_ContextClose){.context = y}, NULL, 0);
    peer_send_infer(p, x, input, sizeof input);
}

// Returns true if it died on the way, false if it came to the end of its life first.
static bool live_until(size_t n_bytes, bool tcp)
{
    struct peer p;
    jmp_buf end;
    volatile bool died = true;
    if (tcp)
        peer_connect_tcp(&p, server.port);
    else
        peer_connect_unix(&p, server.path);
    p.cut_after = n_bytes;
    p.cut = &end;
    if (setjmp(end) == 0) {
        live(&p);
        died = false;
    }
    struct linger reset = {.l_onoff = tcp};
    setsockopt(p.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    peer_close(&p);
    return died;
}

static void leave_nothing_behind(void **state)
{
    struct peer watcher;
    (void)state;
    rknnd_ServerStatus before = in_process_watch(&server, &watcher);
    size_t n = 1;
    while (live_until(n, n & 1)) {
        in_process_wait_same(&watcher, &before);
        n += STEP;
    }
    assert_cmp(n, >, sizeof model);
    in_process_wait_same(&watcher, &before);
    peer_close(&watcher);
}

static void leave_nothing_behind_in_a_reply(void **state)
{
    struct peer watcher, p;
    uint8_t hash[SHA256_SIZE], input[64] = {0}, part[100000];
    (void)state;
    rknnd_ServerStatus before = in_process_watch(&server, &watcher);
    for (unsigned reads = 0; reads < 40; reads++) {
        in_process_connect(&server, &p);
        peer_upload(&p, model, sizeof model, sizeof model, hash);
        uint64_t x = peer_open(&p, hash, 0).context;
        for (int i = 0; i < 3; i++)
            peer_send_infer(&p, x, input, sizeof input);
        for (unsigned i = 0; i < reads; i++)
            assert_cmp(recv(p.fd, part, sizeof part, 0), >, 0);
        peer_close(&p);
        in_process_wait_same(&watcher, &before);
    }
    peer_close(&watcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(leave_nothing_behind, start_quick, stop),
        cmocka_unit_test_setup_teardown(leave_nothing_behind, start_slow, stop),
        cmocka_unit_test_setup_teardown(leave_nothing_behind_in_a_reply, start_large, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
