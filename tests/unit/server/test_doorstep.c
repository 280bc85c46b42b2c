// Connections whose HELLO is looked at: it stays in the socket, comes in parts, or never; and one
// that waits takes no turns of the loop.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "server/upgrade/doorstep.h"

#define MANY 300

struct rig {
    uv_loop_t loop;
    struct doorstep door;
    int n, n_said, last;
    rknnd_Hello hello;
    uint8_t bytes[512]; // a HELLO
    size_t size;
};

static void decide(struct doorstep *d, int fd, const struct origin *origin,
                   const rknnd_Hello *hello)
{
    struct rig *t = container_of(d, struct rig, door);
    assert_string_equal(origin->text, "test");
    t->n++;
    if (hello) {
        t->n_said++;
        t->hello = *hello;
    }
    fd_close(t->last);
    t->last = fd;
}

static int set_up(void **state)
{
    static struct rig t;
    rknnd_Hello hello = {.version_max = 1, .session = 77};
    t = (struct rig){.last = -1};
    struct frame_out *f =
        message_frame(MESSAGE_HELLO, 0, 1, rknnd_Hello_fields, &hello, NULL, 0, NULL, NULL);
    if (!f || f->head_size > sizeof t.bytes)
        return -1;
    t.size = f->head_size;
    memcpy(t.bytes, f->head, t.size);
    frame_out_free(f);
    uv_loop_init(&t.loop);
    doorstep_init(&t.door, &t.loop);
    t.door.decide = decide;
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *t = *state;
    doorstep_close(&t->door);
    fd_close(t->last);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&t->loop);
}

// Returns the other end of a connection that waits.
static int arrive(struct rig *t)
{
    const struct origin origin = {.text = "test"};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    doorstep_wait(&t->door, ends[0], &origin);
    return ends[1];
}

static void say(int fd, const void *data, size_t size)
{
    assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
}

static void whole_hello(void **state)
{
    struct rig *t = *state;
    uint8_t left[sizeof t->bytes];
    cleanup(fd_close_p) int fd = arrive(t);
    say(fd, t->bytes, t->size);
    while (t->n == 0)
        uv_run(&t->loop, UV_RUN_ONCE);
    assert_int_equal(t->n_said, 1);
    assert_int_equal(t->hello.session, 77);
    assert_int_equal(recv(t->last, left, sizeof left, 0), t->size); // all is there to be read
    assert_memory_equal(left, t->bytes, t->size);
}

static void in_parts(void **state)
{
    struct rig *t = *state;
    cleanup(fd_close_p) int fd = arrive(t);
    for (size_t i = 0; i < t->size; i++) {
        assert_int_equal(t->n, 0);
        say(fd, t->bytes + i, 1);
        uv_run(&t->loop, UV_RUN_NOWAIT);
    }
    while (t->n == 0)
        uv_run(&t->loop, UV_RUN_ONCE);
    assert_int_equal(t->hello.session, 77);
}

// What is no HELLO, or will never be one, is decided at once.
static void no_hello(void **state)
{
    struct rig *t = *state;
    cleanup(fd_close_p) int fd = arrive(t), half = arrive(t);
    fd_close(arrive(t));
    say(fd, "GET / HTTP/1.1\r\nHost: somebody.example\r\n\r\n", 42);
    say(half, t->bytes, t->size / 2);
    assert_int_equal(shutdown(half, SHUT_WR), 0);
    for (int turns = 0; turns < 3; turns++)
        uv_run(&t->loop, UV_RUN_NOWAIT);
    assert_int_equal(t->n, 3);
    assert_int_equal(t->n_said, 0);
}

// Those who say half of a HELLO and then nothing are let in when their time is over. Until then
// the loop sleeps: it turns for the bytes, and for the timer.
static void half_a_hello_takes_no_turns(void **state)
{
    struct rig *t = *state;
    cleanup(fd_close_p) int first = arrive(t), second = arrive(t);
    int turns = 0;
    say(first, t->bytes, t->size / 2);
    say(second, t->bytes, t->size / 2);
    for (; t->n < 2; turns++)
        uv_run(&t->loop, UV_RUN_ONCE);
    assert_cmp(turns, <=, 8);
    assert_int_equal(t->n_said, 0);
}

static void more_than_there_is_room_for(void **state)
{
    struct rig *t = *state;
    int fds[MANY], at_once;
    for (int i = 0; i < MANY; i++)
        fds[i] = arrive(t);
    at_once = t->n;
    assert_cmp(at_once, >, 0);
    for (int i = 0; i < MANY - at_once; i++)
        say(fds[i], t->bytes, t->size);
    while (t->n < MANY)
        uv_run(&t->loop, UV_RUN_ONCE);
    assert_int_equal(t->n_said, MANY - at_once);
    for (int i = 0; i < MANY; i++)
        fd_close(fds[i]);
}

// Those that still wait are closed with it.
static void closed_while_they_wait(void **state)
{
    struct rig *t = *state;
    char byte;
    cleanup(fd_close_p) int fd = arrive(t), half = arrive(t);
    say(half, t->bytes, t->size / 2);
    uv_run(&t->loop, UV_RUN_NOWAIT);
    doorstep_close(&t->door);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    assert_int_equal(t->n, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole_hello),
        TEST(in_parts),
        TEST(no_hello),
        TEST(half_a_hello_takes_no_turns),
        TEST(more_than_there_is_room_for),
        TEST(closed_while_they_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
