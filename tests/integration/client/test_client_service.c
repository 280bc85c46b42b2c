// The client library against the real daemon, over unix:, tcp: and sim:, in both isolation modes.
//
// The test holds the listening sockets and hands them to the daemon (fd:N), so a connection never
// comes too early, and a daemon that is killed can be followed by another at the same address.
#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "rknnd.h"

static char folder[] = "/tmp/test-client-service-XXXXXX";
static char unix_uri[128], tcp_uri[128];
static int unix_fd, tcp_fd;
static pid_t daemon_pid;

// ---- daemons -----------------------------------------------------------------------------------

static int listen_all(void **state)
{
    (void)state;
    struct sockaddr_un u = {.sun_family = AF_UNIX};
    struct sockaddr_in t = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof t;
    if (!mkdtemp(folder))
        return -1;
    snprintf(u.sun_path, sizeof u.sun_path, "%s/sock", folder);
    unix_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    tcp_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(unix_fd, (struct sockaddr *)&u, sizeof u) < 0 || listen(unix_fd, 64) < 0 ||
        bind(tcp_fd, (struct sockaddr *)&t, sizeof t) < 0 || listen(tcp_fd, 64) < 0 ||
        getsockname(tcp_fd, (struct sockaddr *)&t, &size) < 0)
        return -1;
    snprintf(unix_uri, sizeof unix_uri, "unix:%s", u.sun_path);
    snprintf(tcp_uri, sizeof tcp_uri, "tcp:127.0.0.1:%u", ntohs(t.sin_port));
    setenv("RKNND_DAEMON", RKNND_PROGRAM, 1);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    close(unix_fd);
    close(tcp_fd);
    unlink(unix_uri + strlen("unix:"));
    return rmdir(folder);
}

static void start_daemon(const char *backend, const char *isolation)
{
    char a[20], b[20];
    snprintf(a, sizeof a, "fd:%d", unix_fd);
    snprintf(b, sizeof b, "fd:%d", tcp_fd);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("RKNN_SERVER_LOGLEVEL", "0", 0);
        execl(RKNND_PROGRAM, RKNND_PROGRAM, "--listen", a, "--listen", b, "--backend", backend,
              "--isolation", isolation, "--worker-idle", "0", (char *)NULL);
        _exit(127);
    }
    assert_cmp(daemon_pid, >, 0);
}

static void stop_daemon(int number)
{
    int status;
    kill(daemon_pid, number);
    assert_int_equal(waitpid(daemon_pid, &status, 0), daemon_pid);
    if (number == SIGTERM) {
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void check(int r, const char *call)
{
    if (r != RKNN_SUCC)
        fail_msg("%s: %d: %s", call, r, rknnd_last_error());
}
#define CHECK(call) check((call), #call)

// ---- with the backend that repeats its input ---------------------------------------------------

static char model[] = "any bytes will do";

static void set_bytes(rknn_context c, uint8_t first)
{
    uint8_t bytes[64];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(first + i);
    rknn_input in = {.buf = bytes, .size = sizeof bytes, .type = RKNN_TENSOR_UINT8};
    CHECK(rknn_inputs_set(c, 1, &in));
}

static void expect_bytes(rknn_context c, uint8_t first)
{
    uint8_t bytes[64];
    rknn_output out = {.is_prealloc = 1, .buf = bytes, .size = sizeof bytes};
    CHECK(rknn_outputs_get(c, 1, &out, NULL));
    for (unsigned i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], (uint8_t)(first + i));
}

static void *run_many(void *arg)
{
    rknn_context c, d;
    CHECK(rknn_init(&c, model, sizeof model, 0, NULL));
    CHECK(rknn_dup_context(&c, &d));
    for (unsigned i = 0; i < 100; i++) {
        rknn_context x = i % 2 ? c : d;
        uint8_t mark = (uint8_t)(i * 3 + (uintptr_t)arg);
        set_bytes(x, mark);
        CHECK(rknn_run(x, NULL));
        expect_bytes(x, mark);
    }
    CHECK(rknn_destroy(c));
    CHECK(rknn_destroy(d));
    return NULL;
}

static void expect_nothing_left(const char *uri)
{
    rknnd_server_status s = {.struct_size = sizeof s};
    CHECK(rknnd_get_server_status(uri, &s));
    assert_int_equal(s.contexts, 0);
    assert_int_equal(s.jobs_running + s.jobs_waiting, 0);
    assert_int_equal(s.connections, 1); // the asking one
}

static void run_threads(const char *isolation)
{
    const char *uris[] = {unix_uri, tcp_uri};
    start_daemon("null:64:64", isolation);
    for (int u = 0; u < 2; u++) {
        pthread_t threads[8];
        CHECK(rknnd_set_server(uris[u]));
        for (uintptr_t i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, run_many, (void *)(i * 30));
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        expect_nothing_left(uris[u]);
    }
    stop_daemon(SIGTERM);
}

static void programs_of_many_threads(void **state)
{
    (void)state;
    run_threads("thread");
    run_threads("process");
}

static void worker_dies(void **state)
{
    (void)state;
    rknn_context c;
    rknnd_run_info info = {.struct_size = sizeof info};
    start_daemon("null:64:64,crash=3", "process");
    CHECK(rknnd_set_server(unix_uri));
    CHECK(rknn_init(&c, model, sizeof model, 0, NULL));
    for (uint8_t i = 0; i < 3; i++) {
        set_bytes(c, i);
        CHECK(rknn_run(c, NULL));
        expect_bytes(c, i);
        CHECK(rknnd_get_run_info(c, &info));
        assert_int_equal(info.attempts, i == 2 ? 2 : 1);
    }
    CHECK(rknn_destroy(c));
    stop_daemon(SIGTERM);
}

static rknn_tensor_mem *bind_memory(rknn_context c, rknn_query_cmd query)
{
    rknn_tensor_attr a = {0};
    CHECK(rknn_query(c, query, &a, sizeof a));
    rknn_tensor_mem *m = rknn_create_mem(c, a.size_with_stride);
    assert_non_null(m);
    CHECK(rknn_set_io_mem(c, m, &a));
    return m;
}

// The worker that follows one that died knows the memory, too.
static void run_in_memory(const char *uri)
{
    rknn_context c;
    rknnd_run_info info = {.struct_size = sizeof info};
    start_daemon("null:5000:5000,crash=3", "process");
    CHECK(rknnd_set_server(uri));
    CHECK(rknn_init(&c, model, sizeof model, 0, NULL));
    rknn_tensor_mem *in = bind_memory(c, RKNN_QUERY_NATIVE_INPUT_ATTR);
    rknn_tensor_mem *out = bind_memory(c, RKNN_QUERY_NATIVE_OUTPUT_ATTR);
    for (int i = 0; i < 4; i++) {
        memset((uint8_t *)in->virt_addr + i * 1000, 'a' + i, 500);
        CHECK(rknn_run(c, NULL));
        assert_memory_equal(out->virt_addr, in->virt_addr, 5000);
        CHECK(rknnd_get_run_info(c, &info));
        assert_int_equal(info.attempts, i == 2 ? 2 : 1);
    }
    CHECK(rknn_destroy_mem(c, in));
    CHECK(rknn_destroy(c));
    CHECK(rknn_destroy_mem(c, out));
    stop_daemon(SIGTERM);
}

static void worker_dies_with_memory(void **state)
{
    (void)state;
    run_in_memory(unix_uri);
    run_in_memory(tcp_uri);
}

static void daemon_dies(void **state)
{
    (void)state;
    rknn_context c;
    rknn_run_extend run = {.non_block = 1};
    start_daemon("null:64:64,hang=1", "process");
    CHECK(rknnd_set_server(unix_uri));
    CHECK(rknn_init(&c, model, sizeof model, 0, NULL));
    set_bytes(c, 1);
    CHECK(rknn_run(c, &run));
    stop_daemon(SIGKILL);
    assert_int_equal(rknn_wait(c, &run), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    CHECK(rknn_destroy(c));
    start_daemon("null:64:64", "process");
    run_many(NULL);
    stop_daemon(SIGTERM);
}

static void kill_once(void *user, uint64_t done, uint64_t total)
{
    bool *killed = user;
    if (*killed || done < total / 3 || done > total * 2 / 3)
        return;
    *killed = true;
    stop_daemon(SIGKILL);
    start_daemon("null:64:64", "thread");
}

static void daemon_dies_during_upload(void **state)
{
    (void)state;
    rknn_context c;
    bool killed = false;
    char path[100];
    cleanup(free_p) char *bytes = malloc(1 << 20);
    snprintf(path, sizeof path, "%s/model", folder);
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 64; i++) {
        memset(bytes, i, 1 << 20);
        fwrite(bytes, 1, 1 << 20, f);
    }
    fclose(f);
    start_daemon("null:64:64", "thread");
    CHECK(rknnd_set_server(tcp_uri));
    rknnd_set_progress(kill_once, &killed);
    CHECK(rknn_init(&c, path, 0, 0, NULL));
    rknnd_set_progress(NULL, NULL);
    assert_true(killed);
    set_bytes(c, 9);
    CHECK(rknn_run(c, NULL));
    expect_bytes(c, 9);
    CHECK(rknn_destroy(c));
    unlink(path);
    stop_daemon(SIGTERM);
}

// ---- with the software NPU ---------------------------------------------------------------------

static const char *shared(void)
{
    const char *named = getenv("RKNND_SHARED");
    const char *path = named ? named : RKNND_SOURCE "/../shared";
    return access(path, R_OK) == 0 ? path : NULL;
}

// The data of a .npy file, malloc'ed.
static void *read_npy(const char *name, int i, const char *kind, size_t *ret_size)
{
    char path[300];
    uint8_t head[10] = {0};
    snprintf(path, sizeof path, "%s/models/golden/%s.%s%d.npy", shared(), name, kind, i);
    FILE *f = fopen(path, "r");
    if (!f || fread(head, 1, 10, f) != 10)
        fail_msg("%s", path);
    long at = 10 + head[8] + head[9] * 256;
    fseek(f, 0, SEEK_END);
    *ret_size = (size_t)(ftell(f) - at);
    fseek(f, at, SEEK_SET);
    void *data = malloc(*ret_size);
    assert_int_equal(fread(data, 1, *ret_size, f), *ret_size);
    fclose(f);
    return data;
}

static void set_stored_inputs(rknn_context c, const char *name, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        rknn_tensor_attr a = {.index = i};
        size_t size;
        cleanup(free_p) void *data = read_npy(name, (int)i, "in", &size);
        CHECK(rknn_query(c, RKNN_QUERY_INPUT_ATTR, &a, sizeof a));
        rknn_input in = {.index = i,
                         .buf = data,
                         .size = (uint32_t)size,
                         .type = size == a.n_elems ? RKNN_TENSOR_UINT8 : RKNN_TENSOR_FLOAT32,
                         .fmt = RKNN_TENSOR_NHWC};
        CHECK(rknn_inputs_set(c, 1, &in));
    }
}

static void expect_reference_outputs(rknn_context c, const char *name, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        rknn_tensor_attr a = {.index = i};
        rknn_output out = {.index = i, .want_float = 1};
        size_t size;
        cleanup(free_p) float *expected = read_npy(name, (int)i, "out", &size);
        CHECK(rknn_query(c, RKNN_QUERY_OUTPUT_ATTR, &a, sizeof a));
        CHECK(rknn_outputs_get(c, 1, &out, NULL));
        assert_int_equal(out.size, size);
        for (uint32_t k = 0; k < a.n_elems; k++)
            if (!(fabsf(((float *)out.buf)[k] - expected[k]) <= a.scale * 1.001f))
                fail_msg("%s, output %u, element %u: %g, expected %g, step %g", name, i, k,
                         (double)((float *)out.buf)[k], (double)expected[k], (double)a.scale);
        CHECK(rknn_outputs_release(c, 1, &out));
    }
}

static const char *const demos[] = {
    "multiple_input_demo.rk3562", "multiple_input_demo.rk3566_rk3568", "multiple_input_demo.rk3576",
    "multiple_input_demo.rk3588", "multiple_input_demo.rv1126b"};

static void run_demos(const char *uri)
{
    CHECK(rknnd_set_server(uri));
    for (size_t i = 0; i < sizeof demos / sizeof *demos; i++) {
        char path[300];
        rknn_context c;
        rknn_input_output_num n;
        snprintf(path, sizeof path, "%s/models/rknn/%s.rknn", shared(), demos[i]);
        CHECK(rknn_init(&c, path, 0, 0, NULL));
        CHECK(rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n));
        set_stored_inputs(c, demos[i], n.n_input);
        CHECK(rknn_run(c, NULL));
        expect_reference_outputs(c, demos[i], n.n_output);
        CHECK(rknn_destroy(c));
    }
}

static void real_models(void **state)
{
    (void)state;
    const char *modes[] = {"thread", "process"};
    if (!shared()) {
        print_message("no shared models: set RKNND_SHARED\n");
        skip();
    }
    for (int i = 0; i < 2; i++) {
        start_daemon("sim", modes[i]);
        run_demos(unix_uri);
        run_demos(tcp_uri);
        stop_daemon(SIGTERM);
    }
    run_demos("sim:");
}

static void refused_models(void **state)
{
    (void)state;
    rknn_context c;
    char path[300];
    CHECK(rknnd_set_server("sim:rk3588"));
    assert_int_equal(rknn_init(&c, model, sizeof model, 0, NULL), RKNN_ERR_MODEL_INVALID);
    assert_int_equal(rknn_init(&c, (char[]){"CYPTRKNN encrypted"}, 18, 0, NULL),
                     RKNN_ERR_MODEL_INVALID);
    assert_non_null(strstr(rknnd_last_error(), "encrypted"));
    if (!shared())
        return;
    snprintf(path, sizeof path, "%s/models/rknn/%s.rknn", shared(), "multiple_input_demo.rk3576");
    assert_int_equal(rknn_init(&c, path, 0, 0, NULL), RKNN_ERR_TARGET_PLATFORM_UNMATCH);
    assert_non_null(strstr(rknnd_last_error(), "rk3588"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_of_many_threads),
        cmocka_unit_test(worker_dies),
        cmocka_unit_test(worker_dies_with_memory),
        cmocka_unit_test(daemon_dies),
        cmocka_unit_test(daemon_dies_during_upload),
        cmocka_unit_test(real_models),
        cmocka_unit_test(refused_models),
    };
    return cmocka_run_group_tests(tests, listen_all, close_all);
}
