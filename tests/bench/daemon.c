// A daemon for benchmarks.
#include "tests/bench/daemon.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rknnd.h"
#include "tests/bench/load.h"
#include "tests/bench/plain.h"

#define MAX_ARGUMENTS 32

void bench_check(int result)
{
    if (result < 0)
        load_fail("%s", rknnd_last_error());
}

void bench_daemon_init(struct bench_daemon *d, const char *program)
{
    d->program = program;
    snprintf(d->folder, sizeof d->folder, "/tmp/bench_rpc.XXXXXX");
    if (!mkdtemp(d->folder))
        load_fail("%s: %s", d->folder, strerror(errno));
    snprintf(d->model, sizeof d->model, "%s/model", d->folder);
    snprintf(d->unix_path, sizeof d->unix_path, "%s/rknnd", d->folder);
    snprintf(d->unix_uri, sizeof d->unix_uri, "unix:%s", d->unix_path);
    FILE *model = fopen(d->model, "we");
    if (!model || fputs("for the null backend any bytes are a model\n", model) < 0 || fclose(model))
        load_fail("%s: %s", d->model, strerror(errno));
}

void bench_daemon_done(struct bench_daemon *d)
{
    unlink(d->model);
    rmdir(d->folder);
}

void bench_daemon_start(struct bench_daemon *d, const char *backend, const char *isolation)
{
    struct stat status;
    snprintf(d->tcp_uri, sizeof d->tcp_uri, "tcp:127.0.0.1:%u", plain_free_port());
    const char *argv[MAX_ARGUMENTS] = {d->program, "--listen",    d->unix_uri, "--listen",
                                       d->tcp_uri, "--backend",   backend,     "--isolation",
                                       isolation,  "--log-level", "1"};
    for (unsigned i = 0, n = 11; d->options && d->options[i] && n + 1 < MAX_ARGUMENTS; i++)
        argv[n++] = d->options[i];
    int r = posix_spawn(&d->pid, d->program, NULL, NULL, (char **)(uintptr_t)argv, environ);
    if (r)
        load_fail("%s: %s", d->program, strerror(r));
    while (stat(d->unix_path, &status) < 0) {
        if (waitpid(d->pid, NULL, WNOHANG) != 0)
            load_fail("%s did not start", d->program);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    bench_check(rknnd_set_server(d->tcp_uri)); // the second listener: both are there
    for (int i = 0; i < 200; i++) {
        uint64_t ns;
        if (rknnd_ping(d->tcp_uri, 1, &ns) == 0)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    load_fail("%s", rknnd_last_error());
}

void bench_daemon_let_all_in(const struct bench_daemon *d)
{
    if (chmod(d->folder, 0755) < 0 || chmod(d->unix_path, 0666) < 0)
        load_fail("%s: %s", d->folder, strerror(errno));
}

double bench_daemon_cpu_us(const struct bench_daemon *d)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(d->pid, &clock) || clock_gettime(clock, &t) < 0)
        load_fail("the CPU time of %s is not known", d->program);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void bench_daemon_stop(struct bench_daemon *d)
{
    kill(d->pid, SIGTERM);
    waitpid(d->pid, NULL, 0);
}
