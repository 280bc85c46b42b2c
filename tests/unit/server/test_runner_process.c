// Workers that crash, hang, are killed, and lie.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "protocol/tensor_message.h"
#include "server/runner/runner_kind.h"
#include "tests/support/fds.h"
#include "tests/support/runner_rig.h"
#include "worker/worker.h"

static int find_worker(void)
{
    int pid = rig_child(0);
    assert_cmp(pid, >, 0);
    return pid;
}

static void wait_for_deaths(struct rig *r, uint64_t n)
{
    while (r->counters.worker_deaths < n)
        uv_run(&r->loop, UV_RUN_ONCE);
}

// ---- crashes -----------------------------------------------------------------------------------

static void crash_is_survived_once(void **state)
{
    (void)state;
    struct rig r;
    struct rig_job j;
    rig_init(&r, false, "64:64,crash=3");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    for (int i = 0; i < 2; i++)
        rig_run(&r, c, 1);
    rig_submit(&r, &j, c, 3);
    rig_wait(&r, &j);
    assert_int_equal(j.job.attempts, 2);
    rig_check(&r, &j, 3);
    assert_int_equal(r.counters.worker_deaths, 1);
    assert_int_equal(r.counters.jobs_retried, 1);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

static void crash_of_one_model_is_nothing_to_another(void **state)
{
    (void)state;
    struct rig bad, good;
    struct rig_job j;
    rig_init(&bad, false, "64:64,crash=2");
    rig_init(&good, false, "64:64");
    rig_load(&bad);
    rig_load(&good);
    struct runner_context *b = rig_open(&bad), *g = rig_open(&good);
    rig_run(&bad, b, 1);
    rig_submit(&bad, &j, b, 2);
    for (uint8_t i = 0; !j.done; i++) {
        rig_run(&good, g, i);
        uv_run(&bad.loop, UV_RUN_NOWAIT);
    }
    rig_check(&bad, &j, 2);
    assert_int_equal(bad.counters.worker_deaths, 1);
    assert_int_equal(good.counters.worker_deaths, 0);
    runner_context_free(b);
    runner_context_free(g);
    rig_free(&bad);
    rig_free(&good);
    uv_run(&bad.loop, UV_RUN_DEFAULT);
    uv_run(&good.loop, UV_RUN_DEFAULT);
    assert_int_equal(bad.counters.workers + good.counters.workers, 0);
    rig_done(&good);
    rig_done(&bad);
}

static void second_crash_is_told(void **state)
{
    (void)state;
    struct rig r;
    struct rig_job j;
    rig_init(&r, false, "64:64,crash=1");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    rig_submit(&r, &j, c, 1);
    rig_wait(&r, &j);
    assert_int_equal(j.error.code, STATUS_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(j.error.text, "signal 6"));
    assert_non_null(strstr(j.error.text, "test"));
    assert_int_equal(r.counters.worker_deaths, 2);
    rig_drop(&j);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

// A model that crashes whatever it is given is not tried for ever.
static void crash_loop_ends(void **state)
{
    (void)state;
    struct rig r;
    struct rig_job j;
    rig_init(&r, false, "64:64,crash=1");
    rig_load(&r);
    struct runner_context *c = rig_open(&r), *later;
    struct error e;
    do {
        rig_submit(&r, &j, c, 1);
        rig_wait(&r, &j);
        assert_int_equal(j.error.code, STATUS_DEVICE_UNAVAILABLE);
        rig_drop(&j);
        assert_cmp(r.counters.worker_deaths, <, 100);
    } while (!strstr(j.error.text, "none is started any more"));
    assert_non_null(strstr(j.error.text, "signal 6"));
    uint64_t deaths = r.counters.worker_deaths;
    rig_submit(&r, &j, c, 1);
    assert_true(j.done); // at once
    rig_drop(&j);
    assert_int_equal(runner_context_new(r.runner, NULL, NULL, &later, &e),
                     STATUS_DEVICE_UNAVAILABLE);
    assert_int_equal(r.counters.worker_deaths, deaths);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

static void cancelled_job_is_not_run_again(void **state)
{
    (void)state;
    struct rig r;
    struct rig_job j;
    rig_init(&r, false, "64:64,crash=2,delay_us=1000");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    rig_run(&r, c, 1);
    rig_submit(&r, &j, c, 2);
    runner_job_cancel(&j.job);
    rig_drop(&j);
    wait_for_deaths(&r, 1);
    rig_run(&r, c, 3);
    assert_int_equal(r.counters.jobs_retried, 0);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

// ---- hangs -------------------------------------------------------------------------------------

static void hang_is_killed_and_survived_once(void **state)
{
    (void)state;
    struct rig r;
    struct rig_job j;
    rig_init(&r, false, "64:64,hang=2");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    rig_run(&r, c, 1);
    r.timeout_ms = 50;
    rig_submit(&r, &j, c, 2);
    j.job.timeout_ms = 0; // the second attempt has time
    rig_wait(&r, &j);
    assert_int_equal(j.job.attempts, 2);
    rig_check(&r, &j, 2);
    assert_int_equal(r.counters.worker_deaths, 1);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

static void second_hang_is_a_timeout(void **state)
{
    (void)state;
    struct rig r;
    struct rig_job j;
    rig_init(&r, false, "64:64,hang=1");
    r.timeout_ms = 50;
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    rig_submit(&r, &j, c, 2);
    rig_wait(&r, &j);
    assert_int_equal(j.error.code, STATUS_TIMEOUT);
    assert_int_equal(j.job.attempts, 2);
    rig_drop(&j);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

static void cancelled_hang_is_killed(void **state)
{
    (void)state;
    struct rig r;
    struct rig_job j, next;
    rig_init(&r, false, "64:64,hang=1");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    r.timeout_ms = 50;
    rig_submit(&r, &j, c, 2);
    rig_submit(&r, &next, c, 3);
    runner_job_cancel(&j.job);
    runner_job_cancel(&next.job);
    rig_drop(&j);
    rig_drop(&next);
    runner_context_free(c);
    wait_for_deaths(&r, 1);
    runner_context_free(rig_open(&r));
    rig_free(&r);
    rig_done(&r);
}

// ---- killed at any moment ----------------------------------------------------------------------

static void on_random_timer(uv_timer_t *timer)
{
    int pid = rig_child(0);
    if (pid > 0)
        kill(pid, SIGKILL);
    uv_close((uv_handle_t *)timer, NULL);
}

static void on_opened(void *owner, const struct error *e)
{
    if (e)
        fail_msg("%s", e->text);
    *(bool *)owner = true;
}

// One life of a runner whose worker is killed somewhere in it. Every job must succeed all the same.
static void one_life(struct rig *r, unsigned kill_after_ms)
{
    uv_timer_t timer;
    struct rig_job jobs[3];
    struct runner_context *c[3];
    bool opened[3] = {false};
    struct error e;
    uv_timer_init(&r->loop, &timer);
    uv_timer_start(&timer, on_random_timer, kill_after_ms, 0);
    rig_load(r);
    for (int i = 0; i < 3; i++)
        assert_int_equal(runner_context_new(r->runner, on_opened, &opened[i], &c[i], &e), 0);
    for (int i = 0; i < 3; i++)
        rig_wait_for(r, &opened[i]);
    for (int n = 0, after = 0; after < 2; n++) {
        after += !uv_is_active((uv_handle_t *)&timer);
        for (int i = 0; i < 3; i++)
            rig_submit(r, &jobs[i], c[i], (uint8_t)(n + i));
        for (int i = 0; i < 3; i++) {
            rig_wait(r, &jobs[i]);
            rig_check(r, &jobs[i], (uint8_t)(n + i));
        }
    }
    for (int i = 0; i < 3; i++)
        runner_context_free(c[i]);
    rig_free(r);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(r->counters.workers, 0);
    assert_int_equal(r->counters.buffers.bytes, 0);
}

static void killed_at_any_moment(void **state)
{
    (void)state;
    struct rig r;
    uint32_t random = 1;
    rig_init(&r, false, "64:64,delay_us=300");
    one_life(&r, 0);
    unsigned fds = fds_count();
    for (int i = 0; i < 150; i++) {
        random = random * 1664525u + 1013904223u;
        one_life(&r, (random >> 8) % 12);
    }
    rig_expect_fds(fds);
    print_message("%d deaths, %d jobs run again\n", (int)r.counters.worker_deaths,
                  (int)r.counters.jobs_retried);
    assert_cmp(r.counters.worker_deaths, >=, 100);
    rig_done(&r);
}

static void idle_worker_is_replaced(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, false, "64:64");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    for (uint64_t i = 1; i <= 5; i++) {
        kill(find_worker(), SIGKILL);
        wait_for_deaths(&r, i);
        rig_run(&r, c, (uint8_t)i);
    }
    assert_int_equal(r.counters.jobs_retried, 0);
    assert_int_equal(r.counters.workers, 1);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

// Thousands of contexts may be open of which nobody wants anything now.
static void idle_contexts_wait_to_be_wanted(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, false, "64:64");
    rig_load(&r);
    struct runner_context *used = rig_open(&r), *idle = rig_open(&r);
    kill(find_worker(), SIGKILL);
    wait_for_deaths(&r, 1);
    rig_run(&r, used, 1);
    assert_int_equal(used->state, CONTEXT_OPEN);
    assert_int_equal(idle->state, CONTEXT_CLOSED);
    rig_run(&r, idle, 2);
    assert_int_equal(idle->state, CONTEXT_OPEN);
    runner_context_free(used);
    runner_context_free(idle);
    rig_free(&r);
    rig_done(&r);
}

// With ever more descriptors to be had, whatever comes first fails; it does so with words, and
// leaves nothing behind.
static void out_of_descriptors(void **state)
{
    (void)state;
    struct rig r;
    struct rlimit old, low;
    static const struct runner_events none = {0};
    struct error e;
    rig_init(&r, false, "64:64");
    one_life(&r, 0); // libuv makes what it keeps
    unsigned used = fds_count(), failures = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (unsigned spare = 0; spare < 16; spare++) {
        low = (struct rlimit){used - 3 + spare, old.rlim_max}; // readdir() showed three more
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        int code = runner_new(&r.options, &r.model, &none, NULL, &r.runner, &e);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        if (code < 0) {
            failures++;
            assert_cmp(strlen(e.text), >, 10);
            r.runner = NULL;
        } else {
            rig_free(&r);
        }
        uv_run(&r.loop, UV_RUN_DEFAULT);
        rig_expect_fds(used);
    }
    assert_in_range(failures, 3, 12);
    rig_done(&r);
}

// ---- confinement -------------------------------------------------------------------------------

static void worker_is_confined(void **state)
{
    (void)state;
    struct rig r;
    char path[64], line[256];
    bool no_new_privileges = false;
    rig_init(&r, false, "64:64");
    int extra = dup(r.model.fd); // a descriptor that is not close-on-exec
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    rig_run(&r, c, 1);
    int pid = find_worker();
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        no_new_privileges |= strcmp(line, "NoNewPrivs:\t1\n") == 0;
    fclose(f);
    assert_true(no_new_privileges);
    for (int fd = 4; fd < 64; fd++) { // without the right to look, nothing is seen: fine as well
        snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    kill(pid, SIGTERM);
    kill(pid, SIGINT);
    rig_run(&r, c, 2);
    assert_int_equal(r.counters.worker_deaths, 0);
    close(extra);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

// A daemon that is killed takes its workers with it, also one that hangs in a job. This process
// adopts the orphan and so sees its end.
static void orphan(const char *options)
{
    int to_parent[2];
    assert_int_equal(pipe(to_parent), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t daemon = fork();
    if (daemon == 0) {
        struct rig r;
        struct rig_job j;
        rig_init(&r, false, options);
        rig_load(&r);
        rig_submit(&r, &j, rig_open(&r), 1);
        int pid = rig_child(0);
        ssize_t n = write(to_parent[1], &pid, sizeof pid);
        uv_run(&r.loop, UV_RUN_DEFAULT);
        _exit(n < 0);
    }
    int worker = 0;
    assert_int_equal(read(to_parent[0], &worker, sizeof worker), sizeof worker);
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
    assert_int_equal(waitpid(worker, NULL, 0), worker);
    close(to_parent[0]);
    close(to_parent[1]);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void no_orphans(void **state)
{
    (void)state;
    if (prctl(PR_SET_CHILD_SUBREAPER, 0) < 0) {
        print_message("skipped: nobody can adopt orphans here (QEMU's user mode)\n");
        skip();
    }
    orphan("64:64");
    orphan("64:64,hang=1");
}

// ---- workers that lie --------------------------------------------------------------------------

#define ROGUE "RKNND_TEST_ROGUE"

static void load_with_rogue(const char *kind, int code, const char *word)
{
    struct rig r;
    setenv(ROGUE, kind, 1);
    rig_init(&r, false, "64:64");
    if (code == STATUS_TIMEOUT)
        r.options.load_timeout_ms = 200;
    rig_start(&r);
    rig_wait_for(&r, &r.loaded);
    if (r.error.code != code || !strstr(r.error.text, word))
        fail_msg("rogue %s: %d, %s", kind, r.error.code, r.error.text);
    rig_free(&r);
    rig_done(&r);
    unsetenv(ROGUE);
}

static void rogues_do_not_load(void **state)
{
    (void)state;
    int gone = STATUS_DEVICE_UNAVAILABLE;
    load_with_rogue("exit", gone, "exit code 7");
    load_with_rogue("garbage", gone, "broke the protocol");
    load_with_rogue("close", gone, "signal 9");
    for (int i = 0; i < 20; i++) // which would end by itself if it could
        load_with_rogue("leave", gone, "signal 9");
    load_with_rogue("silent", STATUS_TIMEOUT, "200 ms");
    load_with_rogue("request", gone, "broke the protocol");
    load_with_rogue("unasked", gone, "broke the protocol");
    load_with_rogue("undecodable", gone, "broke the protocol");
    load_with_rogue("no-cores", gone, "0 cores");
    load_with_rogue("many-cores", gone, "33 cores");
    load_with_rogue("huge", gone, "broke the protocol");
    load_with_rogue("many-tensors", gone, "4000000000 inputs");
    load_with_rogue("no-tensors", gone, "broke the protocol");
    load_with_rogue("bad-tensor", gone, "broke the protocol");
    load_with_rogue("bad-limit", gone, "200 cores");
    load_with_rogue("error", STATUS_FAIL, "model ?[31m");
}

static void rogue_in_use(const char *kind)
{
    struct rig r;
    struct rig_job j;
    setenv(ROGUE, kind, 1);
    rig_init(&r, false, "64:64");
    rig_load(&r);
    rig_submit(&r, &j, rig_open(&r), 1);
    rig_wait(&r, &j);
    assert_int_equal(j.error.code, STATUS_DEVICE_UNAVAILABLE);
    assert_int_equal(j.job.attempts, 2);
    rig_drop(&j);
    runner_context_free(j.job.context);
    rig_free(&r);
    rig_done(&r);
    unsetenv(ROGUE);
}

static void rogues_are_replaced(void **state)
{
    (void)state;
    rogue_in_use("wrong-id");
    rogue_in_use("wrong-type");
    rogue_in_use("payload");
    rogue_in_use("twice");
}

struct rogue {
    int fd;
    struct frame_reader reader;
};

static void rogue_send(struct rogue *w, uint16_t type, uint8_t flags, uint32_t id,
                       const pb_msgdesc_t *fields, const void *message, const void *payload,
                       size_t size)
{
    struct iovec part = {(void *)payload, size}, iov[2];
    struct frame_queue q;
    const int *fds;
    int n_fds;
    frame_queue_init(&q);
    frame_queue_push(&q,
                     message_frame(type, flags, id, fields, message, &part, size > 0, NULL, NULL));
    int n = frame_queue_peek(&q, iov, 2, &fds, &n_fds);
    if (fd_send(w->fd, iov, n, NULL, 0) < 0)
        _exit(0);
    frame_queue_done(&q);
}

static void rogue_answer(struct rogue *w, const struct frame_header *h, const void *message,
                         const void *payload, size_t size)
{
    rogue_send(w, h->type, FRAME_REPLY, h->id, message_row(h->type)->reply, message, payload, size);
}

static void rogue_start(struct rogue *w, const struct frame_header *h, const char *kind)
{
    rknnd_Device device = {.n_cores = 3};
    rknnd_Empty empty = {0};
    uint8_t garbage[100];
    memset(garbage, 0xee, sizeof garbage);
    if (strcmp(kind, "exit") == 0)
        _exit(7);
    if (strcmp(kind, "garbage") == 0 && write(w->fd, garbage, sizeof garbage) < 0)
        _exit(1);
    if (strcmp(kind, "close") == 0)
        shutdown(w->fd, SHUT_RDWR), pause();
    if (strcmp(kind, "leave") == 0) {
        shutdown(w->fd, SHUT_WR);
        while (read(w->fd, garbage, sizeof garbage) > 0)
            continue;
        _exit(7);
    }
    if (strcmp(kind, "silent") == 0)
        pause();
    if (strcmp(kind, "request") == 0)
        rogue_send(w, h->type, 0, h->id, rknnd_Empty_fields, &empty, NULL, 0);
    if (strcmp(kind, "unasked") == 0)
        rogue_send(w, MESSAGE_WORKER_RUN, FRAME_REPLY, h->id, rknnd_InferReply_fields, &empty, NULL,
                   0);
    if (strcmp(kind, "undecodable") == 0) {
        struct frame_header f = {
            .type = h->type, .flags = FRAME_REPLY, .id = h->id, .message_size = 100};
        uint8_t head[FRAME_HEADER_SIZE];
        frame_header_write(head, &f);
        if (write(w->fd, head, sizeof head) < 0 || write(w->fd, garbage, sizeof garbage) < 0)
            _exit(1);
    }
    if (strcmp(kind, "no-cores") == 0)
        device.n_cores = 0;
    if (strcmp(kind, "many-cores") == 0)
        device.n_cores = 33;
    if (strcmp(kind, "error") == 0) {
        struct error e = {.code = -99, .text = "model \033[31m"};
        struct frame_out *f = message_error_frame(h->type, h->id, &e);
        if (write(w->fd, f->head, f->head_size) < 0)
            _exit(1);
        pause();
    }
    rogue_answer(w, h, &device, NULL, 0);
}

static void rogue_load(struct rogue *w, const struct frame_header *h, const char *kind)
{
    rknnd_ContextInfo info = {.n_inputs = 1, .n_outputs = 1, .core_limit = 1, .batch = 1};
    struct tensor_attr a = {
        .n_dims = 1, .dims = {64}, .n_elems = 64, .size = 64, .size_with_stride = 64, .scale = 1};
    a.type = TENSOR_UINT8;
    a.layout = TENSOR_UNDEFINED;
    if (strcmp(kind, "bad-tensor") == 0)
        a.size = 4000000000;
    struct tensor_io io = {.logical = a, .native = a, .native_nhwc = a};
    const struct tensor_io *list[] = {&io, &io};
    size_t size;
    uint8_t *payload = tensor_list_encode(list, 2, &size);
    if (strcmp(kind, "huge") == 0) {
        struct frame_header f = {
            .type = h->type, .flags = FRAME_REPLY, .id = h->id, .payload_size = UINT64_MAX / 2};
        uint8_t head[FRAME_HEADER_SIZE];
        frame_header_write(head, &f);
        if (write(w->fd, head, sizeof head) < 0)
            _exit(1);
        pause();
    }
    if (strcmp(kind, "many-tensors") == 0)
        info.n_inputs = 4000000000;
    if (strcmp(kind, "bad-limit") == 0)
        info.core_limit = 200;
    if (strcmp(kind, "no-tensors") == 0)
        size = 0;
    rogue_answer(w, h, &info, payload, size);
}

static void rogue_run(struct rogue *w, const struct frame_header *h, const char *kind)
{
    rknnd_InferReply reply = {.run_us = 1};
    rknnd_Empty empty = {0};
    const pb_msgdesc_t *fields = rknnd_InferReply_fields;
    if (strcmp(kind, "wrong-id") == 0)
        rogue_send(w, h->type, FRAME_REPLY, h->id + 1, fields, &reply, NULL, 0);
    if (strcmp(kind, "wrong-type") == 0)
        rogue_send(w, MESSAGE_WORKER_OPEN, FRAME_REPLY, h->id, rknnd_Empty_fields, &empty, NULL, 0);
    if (strcmp(kind, "payload") == 0)
        rogue_send(w, h->type, FRAME_REPLY, h->id, fields, &reply, "xyz", 3);
    if (strcmp(kind, "twice") == 0) {
        rogue_send(w, MESSAGE_WORKER_PROFILE, FRAME_REPLY, h->id, rknnd_ProfileReply_fields,
                   &(rknnd_ProfileReply){.n_layers = 1}, "x", 1);
        rogue_send(w, h->type, FRAME_REPLY, h->id, fields, &reply, NULL, 0);
    }
    pause();
}

static _Noreturn void rogue_main(int fd, const char *kind)
{
    struct rogue *w = calloc(1, sizeof *w);
    struct error e;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    w->fd = fd;
    frame_reader_init(&w->reader, 0);
    for (;;) {
        int event = frame_reader_next(&w->reader, &e);
        const struct frame_header *h = &w->reader.header;
        if (event == FRAME_NEED_MORE) {
            void *space;
            size_t size = frame_reader_space(&w->reader, &space);
            ssize_t n =
                fd_receive(fd, space, size, w->reader.fds, &w->reader.n_fds, FRAME_READER_FDS);
            if (n <= 0)
                _exit(0);
            frame_reader_fill(&w->reader, (size_t)n);
        } else if (h->type == MESSAGE_WORKER_START) {
            rogue_start(w, h, kind);
        } else if (h->type == MESSAGE_WORKER_LOAD) {
            rogue_load(w, h, kind);
        } else if (h->type == MESSAGE_WORKER_OPEN) {
            rogue_answer(w, h, &(rknnd_Empty){0}, NULL, 0);
        } else if (h->type == MESSAGE_WORKER_RUN) {
            rogue_run(w, h, kind);
        }
    }
}

int main(int argc, char **argv)
{
    int fd;
    const char *module_dir, *rogue = getenv(ROGUE);
    if (rig_is_worker(argc, argv, &fd, &module_dir)) {
        if (rogue)
            rogue_main(fd, rogue);
        return worker_main(fd, module_dir);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_is_survived_once),
        cmocka_unit_test(crash_of_one_model_is_nothing_to_another),
        cmocka_unit_test(second_crash_is_told),
        cmocka_unit_test(crash_loop_ends),
        cmocka_unit_test(cancelled_job_is_not_run_again),
        cmocka_unit_test(hang_is_killed_and_survived_once),
        cmocka_unit_test(second_hang_is_a_timeout),
        cmocka_unit_test(cancelled_hang_is_killed),
        cmocka_unit_test(killed_at_any_moment),
        cmocka_unit_test(idle_worker_is_replaced),
        cmocka_unit_test(idle_contexts_wait_to_be_wanted),
        cmocka_unit_test(out_of_descriptors),
        cmocka_unit_test(worker_is_confined),
        cmocka_unit_test(no_orphans),
        cmocka_unit_test(rogues_do_not_load),
        cmocka_unit_test(rogues_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
