// rknnd as a program: options, sockets, signals, the service manager, many connections.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "tests/integration/server/daemon.h"
#include "tests/integration/server/in_process.h"

static struct daemon_child d;
static char uri[128];

static int setup(void **state)
{
    (void)state;
    daemon_init(&d);
    snprintf(uri, sizeof uri, "unix:%s", d.path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    daemon_done(&d);
    return 0;
}

#define START(...) daemon_start(&d, (const char *const[]){__VA_ARGS__, NULL}, -1, false)

static void end_well(void)
{
    kill(d.pid, SIGTERM);
    assert_int_equal(daemon_wait(&d, NULL, 0), 0);
}

static void serves_and_ends_at_sigterm(void **state)
{
    struct peer p;
    struct peer_frame f;
    uint8_t hash[SHA256_SIZE];
    (void)state;
    START("--listen", uri, "--isolation", "thread");
    daemon_wait_for(&d, "READY=1");
    peer_connect_unix(&p, d.path);
    assert_string_equal(peer_hello(&p, 0, NULL).device.backend, "null");
    peer_upload(&p, "model", 5, 5, hash);
    peer_open(&p, hash, 0);
    kill(d.pid, SIGTERM);
    daemon_wait_for(&d, "STOPPING=1");
    assert_true(peer_receive(&p, &f));
    assert_int_equal(f.header.type, MESSAGE_GOODBYE);
    peer_expect_closed(&p);
    peer_close(&p);
    assert_int_equal(daemon_wait(&d, NULL, 0), 0);
}

static bool no_workers(const rknnd_ServerStatus *status, const void *with)
{
    (void)with;
    return status->workers == 0 && status->buffer_bytes == 0;
}

// The second job aborts the first worker; its successor counts anew.
static void runs_models_in_processes(void **state)
{
    struct peer p, watcher;
    struct peer_frame f;
    struct error e;
    uint8_t hash[SHA256_SIZE], input[64];
    (void)state;
    START("--listen", uri, "--backend", "null:64:64,crash=2", "--worker-idle", "0");
    daemon_wait_for(&d, "READY=1");
    peer_connect_unix(&watcher, d.path);
    peer_hello(&watcher, 0, NULL);
    in_process_wait_status(&watcher, no_workers, NULL); // the one that was asked for the device
    peer_connect_unix(&p, d.path);
    peer_hello(&p, 0, NULL);
    peer_upload(&p, "model", 5, 5, hash);
    uint64_t x = peer_open(&p, hash, 0).context;
    assert_int_equal(peer_status(&p).workers, 1);
    for (unsigned i = 1; i <= 2; i++) {
        memset(input, (int)i, sizeof input);
        assert_int_equal(peer_wait(&p, peer_send_infer(&p, x, input, sizeof input), &f, &e), 0);
        assert_memory_equal(f.payload, input, sizeof input);
        assert_int_equal(f.m.INFER_reply.attempts, i);
        peer_frame_done(&f);
    }
    assert_int_equal(peer_status(&p).worker_deaths, 1);
    assert_int_equal(peer_status(&p).jobs_retried, 1);
    peer_close(&p);
    in_process_wait_status(&watcher, no_workers, NULL);
    peer_close(&watcher);
    end_well();
}

static void ends_at_once_at_the_second_signal(void **state)
{
    struct peer p;
    uint8_t hash[SHA256_SIZE], input[64] = {0};
    (void)state;
    START("--listen", uri, "--backend", "null:64:64,delay_us=2000000", "--isolation", "thread");
    daemon_wait_for(&d, "READY=1");
    peer_connect_unix(&p, d.path);
    peer_hello(&p, 0, NULL);
    peer_upload(&p, "model", 5, 5, hash);
    peer_send_infer(&p, peer_open(&p, hash, 0).context, input, sizeof input);
    while (peer_status(&p).jobs_running == 0)
        continue;
    kill(d.pid, SIGINT);
    daemon_wait_for(&d, "STOPPING=1");
    kill(d.pid, SIGINT);
    peer_expect_closed(&p);
    peer_close(&p);
    assert_int_equal(daemon_wait(&d, NULL, 0), 0);
}

static void takes_sockets_of_the_service_manager(void **state)
{
    struct peer p;
    uint16_t port;
    (void)state;
    int fd = peer_listen_tcp(&port);
    daemon_start(&d, (const char *const[]){"--isolation", "thread", NULL}, fd, true);
    close(fd);
    peer_connect_tcp(&p, port); // before it is ready: it waits
    peer_hello(&p, 0, NULL);
    daemon_wait_for(&d, "READY=1");
    peer_close(&p);
    end_well();
}

static void their_group_is_the_service_managers(void **state)
{
    char errors[1024];
    uint16_t port;
    (void)state;
    int fd = peer_listen_tcp(&port);
    daemon_start(&d, (const char *const[]){"--socket-group", "root", NULL}, fd, true);
    close(fd);
    assert_int_equal(daemon_wait(&d, errors, sizeof errors), 2);
    assert_non_null(strstr(errors, "socket-group root"));
}

static void tells_the_watchdog(void **state)
{
    (void)state;
    setenv("WATCHDOG_USEC", "100000", 1);
    START("--listen", uri, "--isolation", "thread");
    unsetenv("WATCHDOG_USEC");
    daemon_wait_for(&d, "WATCHDOG=1");
    daemon_wait_for(&d, "WATCHDOG=1");
    end_well();
}

static void adopts_connections_and_ends_with_its_parent(void **state)
{
    int control[2], pair[2];
    struct peer p;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control), 0);
    daemon_start(&d, (const char *const[]){"--adopt", "3", "--isolation", "thread", NULL},
                 control[1], false);
    close(control[1]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(fd_send(control[0], &(struct iovec){"x", 1}, 1, &pair[1], 1), 1);
        close(pair[1]);
        peer_init(&p, pair[0]);
        peer_hello(&p, 0, NULL);
        if (i < 2)
            peer_close(&p);
    }
    close(control[0]);
    peer_expect_closed(&p);
    peer_close(&p);
    assert_int_equal(daemon_wait(&d, NULL, 0), 0);
}

static void replaces_a_dead_socket_and_respects_a_live_one(void **state)
{
    struct daemon_child second;
    char errors[4096];
    struct peer p;
    (void)state;
    START("--listen", uri, "--isolation", "thread");
    daemon_wait_for(&d, "READY=1");
    kill(d.pid, SIGKILL);
    assert_int_equal(daemon_wait(&d, NULL, 0), -SIGKILL);
    START("--listen", uri, "--isolation", "thread");
    daemon_wait_for(&d, "READY=1");
    daemon_init(&second);
    daemon_start(&second, (const char *const[]){"--listen", uri, NULL}, -1, false);
    assert_int_equal(daemon_wait(&second, errors, sizeof errors), 1);
    assert_non_null(strstr(errors, "another server"));
    daemon_done(&second);
    peer_connect_unix(&p, d.path);
    peer_hello(&p, 0, NULL);
    peer_close(&p);
    struct stat st;
    assert_int_equal(stat(d.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    end_well();
}

static void expect_usage_error(int code, const char *word, const char *const *arguments)
{
    char errors[4096];
    daemon_start(&d, arguments, -1, false);
    int got = daemon_wait(&d, errors, sizeof errors);
    if (got != code || !strstr(errors, word))
        fail_msg("%s %s: exit code %d, \"%s\"", arguments[0], arguments[1], got, errors);
}

#define USAGE_ERROR(code, word, ...)                                                               \
    expect_usage_error(code, word, (const char *const[]){__VA_ARGS__, NULL, NULL})

static void says_what_is_wrong_with_options(void **state)
{
    (void)state;
    USAGE_ERROR(2, "--colour", "--colour", "blue");
    USAGE_ERROR(2, "--listen", "--listen");
    USAGE_ERROR(2, "thread", "--isolation", "none");
    USAGE_ERROR(2, "max-contexts", "--max-contexts", "many");
    USAGE_ERROR(2, "peer-timeout-ms", "--peer-timeout-ms", "50");
    USAGE_ERROR(2, "stray", "stray");
    USAGE_ERROR(2, "carrier:pigeon", "--listen", "carrier:pigeon");
    USAGE_ERROR(1, "rknnd-gadget", "--listen", "usb:/nowhere");
    USAGE_ERROR(2, "usb:[SERIAL]", "--relay", "tcp:board");
    USAGE_ERROR(2, "--insecure", "--listen", "tcp:0.0.0.0:8910");
    USAGE_ERROR(2, "/nowhere/rknnd.conf", "--config", "/nowhere/rknnd.conf");
    USAGE_ERROR(1, "quantum", "--backend", "quantum", "--listen", uri);
    USAGE_ERROR(1, "/nowhere", "--listen", "unix:/nowhere/socket");
    USAGE_ERROR(2, "nonsense", "--backend", "null:nonsense", "--listen", uri);
}

static void reads_a_configuration(void **state)
{
    char path[128], errors[4096];
    (void)state;
    snprintf(path, sizeof path, "%s/conf", d.folder);
    FILE *f = fopen(path, "w");
    fprintf(f, "# a comment\n\nlisten = %s\nisolation=thread\n  max-contexts =  7\n", uri);
    fclose(f);
    START("--config", path, "--max-contexts", "9");
    daemon_wait_for(&d, "READY=1");
    struct peer p;
    peer_connect_unix(&p, d.path);
    assert_int_equal(peer_hello(&p, 0, NULL).limits.contexts, 9);
    peer_close(&p);
    end_well();
    f = fopen(path, "a");
    fprintf(f, "wings = 2\n");
    fclose(f);
    START("--config", path);
    assert_int_equal(daemon_wait(&d, errors, sizeof errors), 2);
    assert_non_null(strstr(errors, "conf:6"));
    assert_non_null(strstr(errors, "wings"));
    unlink(path);
}

static unsigned long resident_kb(void)
{
    char path[64], line[256];
    unsigned long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)d.pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        sscanf(line, "VmRSS: %lu kB", &kb);
    fclose(f);
    return kb;
}

static bool is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

#define N_IDLE 1000

static void holds_a_thousand_idle_connections(void **state)
{
    struct rlimit limit;
    static struct peer peers[N_IDLE];
    (void)state;
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t before = limit.rlim_cur;
    if (limit.rlim_max < N_IDLE + 100)
        skip();
    // The daemon starts with the usual limit and must raise it by itself.
    START("--listen", uri, "--peer-timeout-ms", "60000", "--heartbeat-ms", "20000");
    daemon_wait_for(&d, "READY=1");
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    unsigned long idle = resident_kb();
    for (int i = 0; i < N_IDLE; i++) {
        peer_connect_unix(&peers[i], d.path);
        peer_hello(&peers[i], 0, NULL);
    }
    assert_int_equal(peer_status(&peers[0]).connections, N_IDLE);
    unsigned long full = resident_kb();
    printf("idle: %lu KiB, each of %d connections: %.1f KiB\n", idle, N_IDLE,
           (double)(full - idle) / N_IDLE);
    if (!is_sanitized()) {
        assert_in_range(idle, 1, 10 * 1024);
        assert_in_range(full - idle, 1, 32 * N_IDLE);
    }
    for (int i = 0; i < N_IDLE; i++)
        peer_close(&peers[i]);
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    end_well();
}

static void refuses_more_connections_than_allowed(void **state)
{
    struct peer a, b;
    struct peer_frame f;
    (void)state;
    START("--listen", uri, "--isolation", "thread", "--max-connections", "1");
    daemon_wait_for(&d, "READY=1");
    peer_connect_unix(&a, d.path);
    peer_hello(&a, 0, NULL);
    peer_connect_unix(&b, d.path);
    assert_true(peer_receive(&b, &f));
    assert_int_equal(f.header.type, MESSAGE_GOODBYE);
    assert_non_null(strstr(f.m.GOODBYE_request.reason, "max-connections"));
    peer_expect_closed(&b);
    peer_close(&a);
    peer_close(&b);
    end_well();
}

// With no descriptors left the daemon waits, and goes on when there are some again.
static void survives_a_lack_of_descriptors(void **state)
{
    struct peer peers[40];
    (void)state;
    START("--listen", uri, "--isolation", "thread");
    daemon_wait_for(&d, "READY=1");
    peer_connect_unix(&peers[0], d.path);
    peer_hello(&peers[0], 0, NULL);
    struct rlimit few = {32, 32}, before;
    assert_int_equal(prlimit(d.pid, RLIMIT_NOFILE, &few, &before), 0);
    for (int i = 1; i < 40; i++)
        peer_connect_unix(&peers[i], d.path); // into the backlog
    peer_status(&peers[0]);
    for (int i = 1; i < 35; i++)
        peer_close(&peers[i]);
    peer_hello(&peers[39], 0, NULL);
    for (int i = 35; i < 40; i++)
        peer_close(&peers[i]);
    peer_close(&peers[0]);
    end_well();
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(serves_and_ends_at_sigterm),
        TEST(runs_models_in_processes),
        TEST(ends_at_once_at_the_second_signal),
        TEST(takes_sockets_of_the_service_manager),
        TEST(their_group_is_the_service_managers),
        TEST(tells_the_watchdog),
        TEST(adopts_connections_and_ends_with_its_parent),
        TEST(replaces_a_dead_socket_and_respects_a_live_one),
        TEST(says_what_is_wrong_with_options),
        TEST(reads_a_configuration),
        TEST(holds_a_thousand_idle_connections),
        TEST(refuses_more_connections_than_allowed),
        TEST(survives_a_lack_of_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
