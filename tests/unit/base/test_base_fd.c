// File descriptors that are passed arrive, close-on-exec, and none is ever left open by accident.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "tests/support/fds.h"

static int pair[2], memory[FD_MAX_PASSED];

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < FD_MAX_PASSED; i++)
        memory[i] = fd_memory("test", (uint64_t)i + 1, NULL);
    return socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < FD_MAX_PASSED; i++)
        fd_close(memory[i]);
    fd_close(pair[0]);
    fd_close(pair[1]);
    return 0;
}

static void send_all(void)
{
    const struct iovec parts[2] = {{"he", 2}, {"llo", 3}};
    assert_int_equal(fd_send(pair[0], parts, 2, memory, FD_MAX_PASSED), 5);
}

static void fds_arrive_with_the_first_byte(void **state)
{
    (void)state;
    int fds[FD_MAX_PASSED + 1] = {-1}, n = 1;
    char text[8];
    send_all();
    assert_int_equal(fd_receive(pair[1], text, 2, fds, &n, FD_MAX_PASSED + 1), 2);
    assert_memory_equal(text, "he", 2);
    assert_int_equal(n, FD_MAX_PASSED + 1);
    for (int i = 1; i <= FD_MAX_PASSED; i++) {
        struct stat st;
        assert_int_equal(fstat(fds[i], &st), 0);
        assert_int_equal(st.st_size, i);
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        fd_close(fds[i]);
    }
    assert_int_equal(fd_receive(pair[1], text, sizeof text, fds, &n, FD_MAX_PASSED + 1), 3);
    assert_int_equal(n, FD_MAX_PASSED + 1);
}

static void fds_that_do_not_fit_are_closed(void **state)
{
    (void)state;
    int fds[FD_MAX_PASSED], before = (int)fds_count();
    char text[8];
    for (int room = 0; room <= 1; room++) {
        int n = 0;
        send_all();
        assert_int_equal(fd_receive(pair[1], text, sizeof text, fds, &n, room), 5);
        assert_int_equal(n, room);
        assert_int_equal(fds_count(), before + room);
        for (int i = 0; i < n; i++)
            fd_close(fds[i]);
    }
}

// As far as the limit allows they arrive; a -1 stands for the others, whose number is not known.
static void fds_beyond_the_limit_are_lost_and_said_to_be(void **state)
{
    (void)state;
    struct rlimit before, few;
    char text[8];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int room = 0; room < FD_MAX_PASSED; room++) {
        int fds[FD_MAX_PASSED + 1], n = 0;
        int next = fcntl(pair[1], F_DUPFD_CLOEXEC, 0); // the lowest that is free
        few = (struct rlimit){(rlim_t)next + (rlim_t)room, before.rlim_max};
        fd_close(next);
        send_all();
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        ssize_t got = fd_receive(pair[1], text, sizeof text, fds, &n, FD_MAX_PASSED + 1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(got, 5);
        assert_int_equal(n, room + 1);
        assert_int_equal(fds[room], -1);
        for (int i = 0; i < room; i++)
            fd_close(fds[i]);
    }
}

// A peer that is not ours may pass more than we ever do.
static void a_flood_of_fds_is_closed(void **state)
{
    (void)state;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * 100)];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(sizeof(int) * 100)}};
    struct iovec one = {"x", 1};
    struct msghdr m = {.msg_iov = &one,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control.space};
    for (int i = 0; i < 100; i++)
        memcpy(CMSG_DATA(&control.header) + (size_t)i * sizeof(int), &memory[0], sizeof(int));
    int fds[2], n = 0, before = (int)fds_count();
    char text[8];
    assert_int_equal(sendmsg(pair[0], &m, 0), 1);
    assert_int_equal(fd_receive(pair[1], text, sizeof text, fds, &n, 2), 1);
    assert_int_equal(n, 2);
    assert_int_equal(fds_count(), before + 2);
    fd_close(fds[0]);
    fd_close(fds[1]);
}

static void ends_are_told_apart(void **state)
{
    (void)state;
    char text[8];
    int n = 0;
    assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fd_receive(pair[1], text, sizeof text, NULL, &n, 0), -EAGAIN);
    pair[0] = fd_close(pair[0]);
    assert_int_equal(fd_receive(pair[1], text, sizeof text, NULL, &n, 0), 0);
    assert_int_equal(fd_send(pair[1], &(struct iovec){"x", 1}, 1, NULL, 0), -EPIPE); // no signal
}

static void closing_keeps_errno(void **state)
{
    (void)state;
    errno = EINTR;
    assert_int_equal(fd_close(1000000), -1);
    assert_int_equal(errno, EINTR);
}

static void impossible_memory_is_an_error(void **state)
{
    (void)state;
    struct error e = {0};
    unsigned before = fds_count();
    assert_int_equal(fd_memory("huge", UINT64_MAX, &e), STATUS_MALLOC_FAIL);
    assert_non_null(strstr(e.text, "18446744073709551615 bytes"));
    assert_int_equal(fds_count(), before);
}

static void expect_no_size(int fd)
{
    struct error e;
    uint64_t size = 7;
    assert_int_equal(fd_size(fd, &size, &e), STATUS_PARAM_INVALID);
    assert_int_equal(size, 7);
    fd_close(fd);
}

static void sizes_are_of_what_can_be_mapped(void **state)
{
    (void)state;
    uint64_t size = 0;
    int sized = fd_memory("sized", 12345, NULL);
    assert_int_equal(lseek(sized, 99, SEEK_SET), 99);
    assert_int_equal(fd_size(sized, &size, NULL), 0);
    assert_int_equal(size, 12345);
    assert_int_equal(lseek(sized, 0, SEEK_CUR), 99); // the owner's place in it
    fd_close(sized);
    expect_no_size(fd_memory("empty", 0, NULL));
    expect_no_size(socket(AF_UNIX, SOCK_STREAM, 0));
    expect_no_size(eventfd(0, 0));
    expect_no_size(open("/tmp", O_RDONLY));
    expect_no_size(open("/dev/zero", O_RDWR));
    expect_no_size(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fds_arrive_with_the_first_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fds_that_do_not_fit_are_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fds_beyond_the_limit_are_lost_and_said_to_be, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_flood_of_fds_is_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_are_told_apart, set_up, tear_down),
        cmocka_unit_test(closing_keeps_errno),
        cmocka_unit_test(impossible_memory_is_an_error),
        cmocka_unit_test(sizes_are_of_what_can_be_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
