// Runs that nobody needs any more: past their limit, cancelled, or their client has gone. Each
// takes a minute if it is not stopped, more than the tests' patience.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/server/in_process.h"

#define SIZE 64u

static struct in_process server;

IN_PROCESS_START(start, server, "backend", "null:64:64,delay_us=60000000", "job-timeout-ms",
                 "120000")
IN_PROCESS_STOP(stop, server)

static uint64_t another_context(struct peer *p)
{
    uint8_t hash[SHA256_SIZE];
    assert_int_equal(sha256("model", 5, hash, NULL), 0);
    return peer_open(p, hash, 0).context;
}

static uint64_t open_context(struct peer *p)
{
    uint8_t hash[SHA256_SIZE];
    return in_process_open(&server, p, "model", hash).context;
}

static uint32_t send_run(struct peer *p, uint64_t context, uint32_t timeout_ms)
{
    static const uint8_t input[SIZE];
    rknnd_Infer m = {.context = context,
                     .timeout_ms = timeout_ms,
                     .inputs_count = 1,
                     .inputs = {{.size = SIZE, .converted = true}}};
    return peer_send(p, MESSAGE_INFER, &m, input, SIZE);
}

struct load {
    unsigned running, waiting;
};

static bool has_load(const rknnd_ServerStatus *status, const void *with)
{
    const struct load *l = with;
    return status->jobs_running == l->running && status->jobs_waiting == l->waiting;
}

static void expect_load(struct peer *p, unsigned running, unsigned waiting)
{
    in_process_wait_status(p, has_load, &(struct load){running, waiting});
}

static void expect_error(struct peer *p, uint32_t id, int code, const char *words)
{
    struct peer_frame f;
    struct error e;
    assert_int_equal(peer_wait(p, id, &f, &e), code);
    assert_non_null(strstr(e.text, words));
}

static void limits_end_runs(void **state)
{
    struct peer p, watcher;
    (void)state;
    in_process_connect(&server, &watcher);
    uint64_t x = open_context(&p);
    uint32_t forever = send_run(&p, x, 0);
    uint32_t waits = send_run(&p, x, 30); // its context is busy
    expect_error(&p, waits, STATUS_TIMEOUT, "30 ms");
    expect_load(&watcher, 1, 0);
    peer_send(&p, MESSAGE_CANCEL, &(rknnd_Cancel){.request = forever}, NULL, 0);
    expect_error(&p, forever, STATUS_FAIL, "cancelled");
    expect_load(&watcher, 0, 0);
    uint32_t runs = send_run(&p, x, 30);
    expect_error(&p, runs, STATUS_TIMEOUT, "30 ms");
    expect_load(&watcher, 0, 0);
    peer_close(&p);
    peer_close(&watcher);
}

// One waits for the context, three run, one waits for a core; and what another client has is its.
static void a_client_that_goes_takes_its_runs_along(void **state)
{
    struct peer p, other, watcher;
    uint64_t x[4];
    (void)state;
    rknnd_ServerStatus before = in_process_watch(&server, &watcher);
    x[0] = open_context(&p);
    for (int i = 1; i < 4; i++)
        x[i] = another_context(&p);
    for (int i = 0; i < 4; i++)
        send_run(&p, x[i], 0);
    send_run(&p, x[0], 0);
    expect_load(&watcher, 3, 2);
    uint32_t left = send_run(&other, open_context(&other), 0);
    expect_load(&watcher, 3, 3);
    peer_close(&p);
    expect_load(&watcher, 1, 0);
    peer_send(&other, MESSAGE_CANCEL, &(rknnd_Cancel){.request = left}, NULL, 0);
    expect_error(&other, left, STATUS_FAIL, "cancelled");
    peer_close(&other);
    in_process_wait_same(&watcher, &before);
    peer_close(&watcher);
}

// A run for all cores has cores kept for it; when it goes, another run takes them at once.
static void what_made_others_wait_makes_room(void **state)
{
    struct peer p, watcher;
    static const uint8_t input[SIZE];
    (void)state;
    in_process_connect(&server, &watcher);
    uint64_t x = open_context(&p);
    uint64_t all = another_context(&p), next = another_context(&p);
    uint32_t running = send_run(&p, x, 0);
    rknnd_Infer m = {.context = all,
                     .core_mask = 7,
                     .inputs_count = 1,
                     .inputs = {{.size = SIZE, .converted = true}}};
    uint32_t gang = peer_send(&p, MESSAGE_INFER, &m, input, SIZE);
    expect_load(&watcher, 1, 1);
    for (int i = 0; i < 50; i++) { // each is a look at the scheduler; after a while cores are kept
        uint32_t id = send_run(&p, next, 1);
        expect_error(&p, id, STATUS_TIMEOUT, "1 ms");
    }
    send_run(&p, next, 0);
    expect_load(&watcher, 1, 2);
    peer_send(&p, MESSAGE_CANCEL, &(rknnd_Cancel){.request = gang}, NULL, 0);
    expect_error(&p, gang, STATUS_FAIL, "cancelled");
    expect_load(&watcher, 2, 0);
    peer_send(&p, MESSAGE_CANCEL, &(rknnd_Cancel){.request = running}, NULL, 0);
    expect_error(&p, running, STATUS_FAIL, "cancelled");
    peer_close(&p);
    peer_close(&watcher);
}

// Software may just be slow where an NPU that takes as long hangs; who gives a limit has it.
static void how_long_runs_may_take(void **state)
{
    (void)state;
    static const struct {
        const char *backend, *given;
        uint32_t ms;
    } table[] = {{"null:64:64", "0", 30000}, {"sim", "0", 600000}, {"sim", "7000", 7000}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        in_process_start(&server, (const char *const[]){"backend", table[i].backend,
                                                        "job-timeout-ms", table[i].given, NULL});
        struct peer p;
        in_process_connect(&server, &p); // the device is known
        peer_close(&p);
        in_process_stop(&server);
        assert_int_equal(server.server.runner_options.job_timeout_ms, table[i].ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(limits_end_runs, start, stop),
        cmocka_unit_test_setup_teardown(a_client_that_goes_takes_its_runs_along, start, stop),
        cmocka_unit_test_setup_teardown(what_made_others_wait_makes_room, start, stop),
        cmocka_unit_test(how_long_runs_may_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
