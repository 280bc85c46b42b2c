// Sockets that are ready and wait for their turns: the loop does not look at them, and at whatever
// else is ready, again and again before it serves anybody.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/list.h"
#include "server/net/rounds.h"
#include "server/net/transport_socket.h"

#define MANY 1200 // more than libuv takes from the kernel at a time

static uv_loop_t loop;
static struct rounds rounds;
static struct rounds_line line;
static struct transport *transports[MANY];
static int others[MANY];
static unsigned n_looks, n_served, n_bytes, n_closed;

static void on_listener(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
    n_looks++;
}

// One takes as long as a turn of the loop may, so that all others wait.
static void on_ready(struct transport *w, int status, int events)
{
    char bytes[8];
    int n_fds = 0;
    (void)status;
    n_served++;
    if (events & UV_READABLE) {
        ssize_t n = w->ops->receive(w, bytes, sizeof bytes, NULL, &n_fds, 0);
        n_bytes += n > 0 ? (unsigned)n : 0;
    }
    for (uint64_t begin = uv_hrtime(); n_served == 1 && uv_hrtime() - begin < 3000000u;)
        continue;
}

static void on_closed(struct transport *w)
{
    (void)w;
    n_closed++;
}

static int start(void **state)
{
    struct rlimit limit;
    (void)state;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < 2 * MANY + 100)
        return 0;
    limit.rlim_cur = 2 * MANY + 100;
    setrlimit(RLIMIT_NOFILE, &limit);
    uv_loop_init(&loop);
    rounds_init(&rounds, &loop, 2);
    rounds_line_init(&line);
    for (int i = 0; i < MANY; i++) {
        int pair[2];
        assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(transport_socket_new(&loop, pair[0], &transports[i], NULL), 0);
        transports[i]->ready = on_ready;
        transports[i]->closed = on_closed;
        transport_line_up(transports[i], &rounds, &line);
        transports[i]->ops->watch(transports[i], UV_READABLE);
        others[i] = pair[1];
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    if (!transports[0])
        return 0;
    for (int i = 0; i < MANY; i++) {
        transport_close(transports[i]);
        close(others[i]);
    }
    rounds_close(&rounds);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_closed, MANY);
    return uv_loop_close(&loop);
}

static void ready_ones_wait_unseen(void **state)
{
    int listener[2];
    uv_poll_t poll;
    (void)state;
    if (!transports[0])
        skip();
    assert_return_code(pipe(listener), 0);
    assert_int_equal(write(listener[1], "x", 1), 1);
    uv_poll_init(&loop, &poll, listener[0]);
    uv_poll_start(&poll, UV_READABLE, on_listener);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(write(others[i], "123", 3), 3);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(n_served, 1);
    assert_in_range(n_looks, 1, 2 + MANY / 512);
    for (int i = 0; i < MANY && n_bytes < 3 * MANY; i++)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(n_bytes, 3 * MANY);

    // They are seen again after their turns.
    for (int i = 0; i < MANY; i++)
        assert_int_equal(write(others[i], "4567", 4), 4);
    for (int i = 0; i < MANY && n_bytes < 7 * MANY; i++)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(n_bytes, 7 * MANY);
    uv_close((uv_handle_t *)&poll, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    close(listener[0]);
    close(listener[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ready_ones_wait_unseen, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
