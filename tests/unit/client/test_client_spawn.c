// sim: URIs: a daemon of one's own, started, shared, replaced and ended without the program
// noticing.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "rknnd.h"

static char model[] = "a model";
static char folder[] = "/tmp/test-client-spawn-XXXXXX";
static char fifo_path[64];
static int fifo;
static volatile sig_atomic_t n_sigchld;

static void count_sigchld(int number)
{
    (void)number;
    n_sigchld++;
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(fifo_path, sizeof fifo_path, "%s/fifo", folder);
    if (mkfifo(fifo_path, 0600) < 0)
        return -1;
    setenv("FAKE_DAEMON_FIFO", fifo_path, 1);
    setenv("RKNND_DAEMON", FAKE_DAEMON, 1);
    signal(SIGCHLD, count_sigchld);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(fifo_path);
    return rmdir(folder);
}

static int open_fifo(void **state)
{
    (void)state;
    fifo = open(fifo_path, O_RDONLY | O_NONBLOCK); // not close-on-exec, on purpose
    return fifo < 0;
}

static int close_fifo(void **state)
{
    (void)state;
    return close(fifo);
}

// The next line about a daemon; "" at its end.
static void read_report(char *line, size_t size)
{
    struct pollfd p = {fifo, POLLIN, 0};
    size_t n = 0;
    while (poll(&p, 1, 60000) == 1) {
        ssize_t got = read(fifo, line + n, 1);
        if (got == 0 || (got == 1 && line[n] == '\n'))
            break;
        n += got == 1 && n + 1 < size;
    }
    line[n] = 0;
}

static rknn_context open_context(void)
{
    rknn_context c = 0;
    int r = rknn_init(&c, model, sizeof model, 0, NULL);
    if (r != RKNN_SUCC)
        fail_msg("rknn_init: %d: %s", r, rknnd_last_error());
    return c;
}

static void private_daemon(void **state)
{
    (void)state;
    char line[1000], *bar;
    assert_int_equal(rknnd_set_server("sim:rk3576"), RKNN_SUCC);
    rknn_context a = open_context(), b = open_context();
    read_report(line, sizeof line);
    bar = strchr(line, '|');
    assert_non_null(bar);
    assert_non_null(strstr(line, " --backend sim:rk3576 --adopt 3 "));
    assert_string_equal(bar, "| 0 1 2 3"); // and not the FIFO, which is open here
    assert_int_equal(rknn_destroy(a), RKNN_SUCC);
    rknn_context c = open_context(); // in the same daemon
    assert_int_equal(rknn_destroy(b), RKNN_SUCC);
    assert_int_equal(rknn_destroy(c), RKNN_SUCC);
    read_report(line, sizeof line);
    assert_string_equal(line, ""); // it has ended, and there was no other

    assert_int_equal(n_sigchld, 0);
    assert_int_equal(waitpid(-1, NULL, 0), -1);
    assert_int_equal(errno, ECHILD);
}

static void killed_daemon_is_replaced(void **state)
{
    (void)state;
    char line[1000];
    rknn_input_output_num n;
    rknn_context c;
    assert_int_equal(rknnd_set_server("sim:"), RKNN_SUCC);
    rknn_context a = open_context();
    read_report(line, sizeof line);
    assert_int_equal(kill(atoi(line), SIGKILL), 0);
    read_report(line, sizeof line);
    assert_string_equal(line, "");
    rknn_context b = open_context();
    assert_int_equal(rknn_query(b, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n), RKNN_SUCC);
    assert_int_equal(rknn_dup_context(&a, &c), RKNN_ERR_DEVICE_UNAVAILABLE);
    rknn_destroy(a);
    rknn_destroy(b);
}

// The library's: the pair of a connection is made when the daemon that was started has ended.
static int pairs_before_it_ends = -1; // -1: as they come

int socketpair(int domain, int type, int protocol, int fds[2])
{
    char line[1000] = "-";
    if (pairs_before_it_ends == 0)
        while (*line)
            read_report(line, sizeof line);
    if (pairs_before_it_ends >= 0)
        pairs_before_it_ends--;
    return (int)syscall(SYS_socketpair, domain, type, protocol, fds);
}

static void last_words_are_told_however_soon_it_ended(void **state)
{
    (void)state;
    rknn_context c = 0;
    assert_int_equal(rknnd_set_server("sim:wordy"), RKNN_SUCC);
    pairs_before_it_ends = 1;
    assert_cmp(rknn_init(&c, model, sizeof model, 0, NULL), ==, RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_cmp(pairs_before_it_ends, ==, -1);
    assert_non_null(strstr(rknnd_last_error(), "cannot start: there is no chip \"wordy\""));
}

static void daemon_that_does_not_start(void **state)
{
    (void)state;
    rknn_context c;
    assert_int_equal(rknnd_set_server("sim:broken"), RKNN_SUCC);
    assert_int_equal(rknn_init(&c, model, sizeof model, 0, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(rknnd_last_error(), "RKNN_SERVER_LOGLEVEL"));
    setenv("RKNND_DAEMON", "/no/such/rknnd", 1);
    assert_int_equal(rknn_init(&c, model, sizeof model, 0, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(rknnd_last_error(), "/no/such/rknnd"));
    setenv("RKNND_DAEMON", FAKE_DAEMON, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fifo, close_fifo)

// As the library starts daemons (client/transport/spawn.c).
static bool clones_without_signal(void)
{
    pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (child == 0)
        syscall(SYS_exit_group, 0);
    return child < 0 ? errno != EINVAL : waitpid(child, NULL, (int)__WCLONE) == child;
}

int main(void)
{
    if (!clones_without_signal()) {
        printf("skipped: no processes without a signal at their end here (QEMU's user mode)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        TEST(private_daemon),
        TEST(killed_daemon_is_replaced),
        TEST(daemon_that_does_not_start),
        TEST(last_words_are_told_however_soon_it_ended),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
