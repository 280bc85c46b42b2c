// Inputs that a relay reads from the program's memory: a run that does not block need not wait for
// it, and what it has not read yet stays as it is.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/net/stream.h"
#include "fake_server.h"
#include "rknnd.h"

#define LENGTH    100000u // elements of the vector, of two bytes
#define BYTES     (2 * LENGTH)
#define PATIENCE  20 // seconds
#define UNLIMITED UINT64_MAX

static struct fake_server server;
static char model[] = "a model";
static _Atomic bool spoilt; // a vector was not the same mark throughout

static enum fake_answer check_vector(struct fake_peer *p, const struct frame_header *h,
                                     const union message_any *m)
{
    (void)m;
    for (uint32_t i = 1; h->type == MESSAGE_INFER && i < BYTES; i++)
        spoilt |= p->payload[FAKE_IMAGE_SIZE + i] != p->payload[FAKE_IMAGE_SIZE];
    return FAKE_DEFAULT;
}

// ---- the relay ----------------------------------------------------------------------------------

// It passes one connection on to the server, but of what the program sends no more than `allowed`.
static struct {
    int listener, changed; // eventfd
    pthread_t thread;
    _Atomic uint64_t allowed, passed; // bytes
    _Atomic bool ends;
} relay;

static void allow(uint64_t bytes)
{
    atomic_store(&relay.allowed, bytes);
    assert_int_equal(eventfd_write(relay.changed, 1), 0);
}

static int connect_to(const char *uri)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", uri + strlen("unix:"));
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

// False: the program has gone.
static bool pass_up(struct stream *program, int to)
{
    uint8_t bytes[1000];
    uint64_t left = relay.allowed - relay.passed;
    size_t size = left < sizeof bytes ? (size_t)left : sizeof bytes;
    ssize_t n = size > 0 ? stream_receive(program, bytes, size, NULL, NULL, 0) : -EAGAIN;
    if (n > 0) {
        relay.passed += (uint64_t)n;
        assert_int_equal(send(to, bytes, (size_t)n, MSG_NOSIGNAL), n);
    }
    return n > 0 || n == -EAGAIN;
}

// Answers are small.
static void pass_down(int from, struct stream *program)
{
    uint8_t bytes[4096];
    ssize_t n = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    struct iovec all = {bytes, (size_t)n};
    if (n > 0)
        assert_int_equal(stream_send(program, &all, 1, NULL, 0), n);
}

static void *run_relay(void *unused)
{
    struct stream program;
    eventfd_t count;
    bool lives = true;
    stream_init(&program, accept(relay.listener, NULL, NULL), true);
    int up = connect_to(server.uri);
    while (lives && !relay.ends) {
        short events = stream_events(&program, relay.allowed > relay.passed, false);
        struct pollfd p[] = {{program.fd, events, 0}, {up, POLLIN, 0}, {relay.changed, POLLIN, 0}};
        assert_cmp(poll(p, 3, PATIENCE * 1000), >, 0);
        if (p[2].revents)
            eventfd_read(relay.changed, &count);
        stream_wake(&program);
        lives = pass_up(&program, up);
        pass_down(up, &program);
    }
    stream_close(&program);
    fd_close(up);
    return unused;
}

static void listen_for_programs(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char folder[96];
    snprintf(folder, sizeof folder, "%s/rknnd", server.folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s/usb-test.sock", folder);
    relay.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(relay.listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(relay.listener, 1), 0);
    setenv("XDG_RUNTIME_DIR", server.folder, 1);
}

static int set_up(void **state)
{
    (void)state;
    alarm(PATIENCE);
    fake_server_init(&server);
    server.hook = check_vector;
    server.length = LENGTH;
    fake_server_start(&server);
    relay.changed = eventfd(0, EFD_CLOEXEC);
    relay.passed = 0;
    relay.allowed = UNLIMITED;
    relay.ends = false;
    spoilt = false;
    listen_for_programs();
    assert_int_equal(pthread_create(&relay.thread, NULL, run_relay, NULL), 0);
    return rknnd_set_server("usb:test");
}

static int tear_down(void **state)
{
    char path[128];
    (void)state;
    relay.ends = true;
    allow(UNLIMITED);
    pthread_join(relay.thread, NULL);
    fd_close(relay.listener);
    fd_close(relay.changed);
    snprintf(path, sizeof path, "%s/rknnd/usb-test.sock", server.folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/rknnd", server.folder);
    rmdir(path);
    fake_server_stop(&server);
    alarm(0);
    return 0;
}

// ---- the program --------------------------------------------------------------------------------

static void set_mark(rknn_context c, uint8_t mark)
{
    static uint8_t image[FAKE_IMAGE_SIZE], vector[BYTES];
    memset(vector, mark, sizeof vector);
    rknn_input in[] = {{.index = 0, .buf = image, .size = sizeof image, .pass_through = 1},
                       {.index = 1, .buf = vector, .size = sizeof vector, .pass_through = 1}};
    assert_int_equal(rknn_inputs_set(c, 2, in), RKNN_SUCC);
}

static uint64_t start_run(rknn_context c)
{
    rknn_run_extend run = {.non_block = 1};
    assert_int_equal(rknn_run(c, &run), RKNN_SUCC);
    return run.frame_id;
}

static uint8_t get_mark(rknn_context c, uint64_t frame)
{
    uint8_t halves[FAKE_VECTOR_SIZE] = {0};
    rknn_output out = {.index = 1, .is_prealloc = 1, .buf = halves, .size = sizeof halves};
    assert_int_equal(rknn_wait(c, &(rknn_run_extend){.frame_id = frame}), RKNN_SUCC);
    assert_int_equal(rknn_outputs_get(c, 1, &out, NULL), RKNN_SUCC);
    return halves[0];
}

// The relay stands still in the middle of a vector. The next ones are set meanwhile, and one is
// set that has no run.
static void inputs_change_while_they_are_read(void **state)
{
    rknn_context c;
    (void)state;
    assert_int_equal(rknn_init(&c, model, sizeof model, 0, NULL), RKNN_SUCC);
    set_mark(c, 1);
    assert_int_equal(get_mark(c, start_run(c)), 1);
    for (uint8_t i = 2; i < 40; i += 2) {
        set_mark(c, i);
        allow(relay.passed + BYTES * i / 40);
        uint64_t first = start_run(c);
        set_mark(c, 99);
        set_mark(c, i + 1);
        allow(UNLIMITED);
        uint64_t second = start_run(c);
        assert_int_equal(get_mark(c, first), i);
        assert_int_equal(get_mark(c, second), i + 1);
    }
    assert_int_equal(get_mark(c, start_run(c)), 39);
    assert_false(spoilt);
    rknn_destroy(c);
}

static void ends_while_they_are_read(void **state)
{
    rknn_context c;
    (void)state;
    assert_int_equal(rknn_init(&c, model, sizeof model, 0, NULL), RKNN_SUCC);
    set_mark(c, 1);
    allow(relay.passed + BYTES / 2);
    start_run(c);
    set_mark(c, 2);
    allow(UNLIMITED);
    assert_int_equal(rknn_destroy(c), RKNN_SUCC);
    assert_int_equal(server.n_runs, 1);
    assert_false(spoilt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inputs_change_while_they_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_while_they_are_read, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
