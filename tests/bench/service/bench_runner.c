// Round trips of a 64-byte job through a runner, in a worker process and on a thread, as ratios to
// a ping-pong of 64 bytes between two processes over a socket pair. Prints one line for each.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "tests/support/runner_rig.h"
#include "worker/worker.h"

#define ROUNDS 11
#define TRIPS  5000

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

// ---- the plain ping-pong -----------------------------------------------------------------------

static pid_t start_echo(int *ret_fd)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = fork();
    assert_cmp(pid, >=, 0);
    if (pid == 0) {
        char bytes[64];
        ssize_t n;
        close(ends[0]);
        while ((n = read(ends[1], bytes, sizeof bytes)) > 0)
            if (write(ends[1], bytes, (size_t)n) != n)
                break;
        _exit(0);
    }
    close(ends[1]);
    *ret_fd = ends[0];
    return pid;
}

static double measure_echo(int fd)
{
    char bytes[64] = {0};
    double start = now_us();
    for (int i = 0; i < TRIPS; i++) {
        assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
        assert_int_equal(read(fd, bytes, sizeof bytes), sizeof bytes);
    }
    return (now_us() - start) / TRIPS;
}

// ---- a runner
// ------------------------------------------------------------------------------------

struct subject {
    const char *name;
    struct rig rig;
    struct runner_context *context;
    struct rig_job job;
    double us[ROUNDS];
};

static void start_subject(struct subject *s, bool threads, const char *options)
{
    rig_init(&s->rig, threads, options);
    rig_load(&s->rig);
    s->context = rig_open(&s->rig);
    rig_submit(&s->rig, &s->job, s->context, 1);
    rig_wait(&s->rig, &s->job);
}

static double measure_host(struct subject *s)
{
    double start = now_us();
    for (int i = 0; i < TRIPS; i++) {
        s->job.done = false;
        runner_submit(&s->job.job);
        while (!s->job.done)
            uv_run(&s->rig.loop, UV_RUN_ONCE);
        assert_int_equal(s->job.error.code, 0);
    }
    return (now_us() - start) / TRIPS;
}

static void end_subject(struct subject *s)
{
    rig_drop(&s->job);
    runner_context_free(s->context);
    rig_free(&s->rig);
    uv_run(&s->rig.loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->rig.loop);
    fd_close(s->rig.model.fd);
}

// ---- the table ---------------------------------------------------------------------------------

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, compare);
    return values[ROUNDS / 2];
}

static void measure(void **state)
{
    static struct subject subjects[] = {{.name = "worker process"},
                                        {.name = "worker process, threads"},
                                        {.name = "loop thread"},
                                        {.name = "other thread"}};
    const size_t n = sizeof subjects / sizeof *subjects;
    double echo_us[ROUNDS];
    int fd;
    (void)state;
    pid_t pid = start_echo(&fd);
    start_subject(&subjects[0], false, "64:64");
    start_subject(&subjects[1], false, "64:64,hang=1000000000");
    start_subject(&subjects[2], true, "64:64");
    start_subject(&subjects[3], true, "64:64,hang=1000000000");
    for (int i = 0; i < ROUNDS; i++) { // interleaved, so that all see the same machine
        echo_us[i] = measure_echo(fd);
        for (size_t k = 0; k < n; k++)
            subjects[k].us[i] = measure_host(&subjects[k]);
    }
    double echo = median(echo_us);
    printf("%-26s %8.2f us  ratio 1.00\n", "socket pair ping-pong", echo);
    for (size_t k = 0; k < n; k++) {
        double us = median(subjects[k].us);
        printf("%-26s %8.2f us  ratio %.2f\n", subjects[k].name, us, us / echo);
        end_subject(&subjects[k]);
    }
    close(fd);
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    int fd;
    const char *module_dir;
    if (rig_is_worker(argc, argv, &fd, &module_dir))
        return worker_main(fd, module_dir);
    const struct CMUnitTest tests[] = {cmocka_unit_test(measure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
