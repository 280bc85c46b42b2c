// A daemon, as benchmarks of the service need it.
#pragma once

#include <sys/types.h>

struct bench_daemon {
    const char *program; // rknnd
    char folder[64], model[80], unix_path[80], unix_uri[96], tcp_uri[64];
    const char *const *options; // more of them, up to a NULL; NULL: none
    pid_t pid;
};

/// Ends the program with words if the library has said no.
void bench_check(int result);

/// A folder with a model and room for sockets.
void bench_daemon_init(struct bench_daemon *d, const char *program);
void bench_daemon_done(struct bench_daemon *d);

/// Starts it and waits until it answers, on both sockets. `backend` as its option.
void bench_daemon_start(struct bench_daemon *d, const char *backend, const char *isolation);
void bench_daemon_stop(struct bench_daemon *d);

/// Lets every user of the machine use its Unix socket.
void bench_daemon_let_all_in(const struct bench_daemon *d);

/// CPU time that the daemon's own process has had; its workers' is not in it.
double bench_daemon_cpu_us(const struct bench_daemon *d);
