// A runner on a loop of its own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/support/fds.h"
#include "tests/support/runner_rig.h"

static int parent_of(int pid)
{
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *name_end = strrchr(text, ')');
    if (name_end)
        sscanf(name_end, ") %*c %d", &parent);
    return parent;
}

int rig_child(unsigned n)
{
    int child = 0;
    struct dirent *entry;
    DIR *d = opendir("/proc");
    assert_non_null(d);
    while (!child && (entry = readdir(d))) {
        int pid = atoi(entry->d_name);
        if (pid > 0 && parent_of(pid) == getpid() && n-- == 0)
            child = pid;
    }
    closedir(d);
    return child;
}

void rig_init(struct rig *r, bool threads, const char *options)
{
    struct error e;
    *r = (struct rig){.n_fds = fds_count(), .model = {.fd = -1, .size = 5000, .name = "test"}};
    buffer_totals_init(&r->counters.buffers, UINT32_MAX, UINT64_MAX);
    list_init(&r->counters.queries);
    list_init(&r->counters.processes);
    assert_int_equal(uv_loop_init(&r->loop), 0);
    r->model.fd = fd_memory("test-model", r->model.size, &e);
    assert_cmp(r->model.fd, >=, 0);
    snprintf(r->backend_options, sizeof r->backend_options, "%s", options);
    r->options = (struct runner_options){.loop = &r->loop,
                                         .threads = threads,
                                         .backend = "null",
                                         .backend_options = r->backend_options,
                                         .module_dir = MODULE_DIR,
                                         .plugin_dir = "",
                                         .load_timeout_ms = 60000,
                                         .job_timeout_ms = 60000,
                                         .counters = &r->counters,
                                         .trace = &r->trace};
}

static void fail_on_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    fail_msg("a %s handle is left", uv_handle_type_name(handle->type));
}

// Workers' sockets are closed on a thread (base/net/discard.h).
void rig_expect_fds(unsigned max)
{
    for (int i = 0; i < 10000 && fds_count() > max; i++)
        usleep(1000);
    assert_cmp(fds_count(), <=, max);
}

void rig_done(struct rig *r)
{
    assert_null(r->runner);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_walk(&r->loop, fail_on_handle, NULL);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    fd_close(r->model.fd);
    assert_int_equal(r->counters.workers, 0);
    assert_int_equal(r->counters.buffers.bytes, 0);
    assert_true(list_empty(&r->counters.queries));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // no child, dead or alive
    // libuv keeps a pipe for signals, made with the first loop that watches a child.
    rig_expect_fds(r->n_fds + 2);
}

static void on_loaded(void *owner, const struct error *e)
{
    struct rig *r = owner;
    assert_false(r->loaded);
    r->loaded = true;
    if (e)
        r->error = *e;
}

static const struct runner_events events = {.on_loaded = on_loaded};

void rig_start(struct rig *r)
{
    struct error e;
    r->loaded = false;
    r->error.code = 0;
    if (runner_new(&r->options, &r->model, &events, r, &r->runner, &e) < 0)
        fail_msg("%s", e.text);
}

void rig_load(struct rig *r)
{
    rig_start(r);
    rig_wait_for(r, &r->loaded);
    if (r->error.code < 0)
        fail_msg("%s", r->error.text);
}

void rig_free(struct rig *r)
{
    runner_free(r->runner);
    r->runner = NULL;
}

void rig_wait_for(struct rig *r, const bool *flag)
{
    while (!*flag)
        if (!uv_run(&r->loop, UV_RUN_ONCE) && !*flag)
            fail_msg("nothing is left to wait for");
}

struct opening {
    bool done;
    struct error error;
};

static void on_opened(void *owner, const struct error *e)
{
    struct opening *o = owner;
    o->done = true;
    if (e)
        o->error = *e;
}

struct runner_context *rig_open(struct rig *r)
{
    struct opening o = {0};
    struct error e;
    struct runner_context *c;
    if (runner_context_new(r->runner, on_opened, &o, &c, &e) < 0)
        fail_msg("%s", e.text);
    rig_wait_for(r, &o.done);
    if (o.error.code < 0)
        fail_msg("%s", o.error.text);
    return c;
}

static void on_done(struct runner_job *job, const struct error *e)
{
    struct rig_job *j = container_of(job, struct rig_job, job);
    j->order = j->rig->n_done++;
    assert_false(j->done);
    j->done = true;
    if (e)
        j->error = *e;
}

void rig_submit(struct rig *r, struct rig_job *j, struct runner_context *c, uint8_t fill)
{
    struct error e;
    const struct model_info *info = runner_info(r->runner);
    uint32_t size = (uint32_t)info->tensors[0].logical.size;
    uint32_t out_size = (uint32_t)info->tensors[1].logical.size;
    struct buffer *b;
    if (buffer_get(runner_buffers(r->runner), size, out_size, &b, &e) < 0)
        fail_msg("%s", e.text);
    memset(b->input, fill, size);
    memset(b->output, (uint8_t)~fill, out_size);
    *j =
        (struct rig_job){.rig = r, .input = {.data = b->input, .size = size, .type = TENSOR_UINT8}};
    j->job = (struct runner_job){.context = c,
                                 .buffer = b,
                                 .inputs = &j->input,
                                 .core_mask = 1,
                                 .timeout_ms = r->timeout_ms,
                                 .collect_perf = r->collect_perf,
                                 .done = on_done};
    runner_submit(&j->job);
}

void rig_wait(struct rig *r, struct rig_job *j)
{
    rig_wait_for(r, &j->done);
}

void rig_drop(struct rig_job *j)
{
    buffer_unref(j->job.buffer);
    j->job.buffer = NULL;
}

void rig_check(struct rig *r, struct rig_job *j, uint8_t fill)
{
    assert_true(j->done);
    if (j->error.code < 0)
        fail_msg("%s", j->error.text);
    uint64_t size = runner_info(r->runner)->tensors[1].logical.size;
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(j->job.buffer->output[i], fill);
    rig_drop(j);
}

void rig_run(struct rig *r, struct runner_context *c, uint8_t fill)
{
    struct rig_job j;
    rig_submit(r, &j, c, fill);
    rig_wait(r, &j);
    rig_check(r, &j, fill);
}

bool rig_is_worker(int argc, char **argv, int *ret_fd, const char **ret_module_dir)
{
    if (argc != 5 || strcmp(argv[1], "--worker") != 0 || strcmp(argv[3], "--module-dir") != 0)
        return false;
    *ret_fd = atoi(argv[2]);
    *ret_module_dir = argv[4];
    return true;
}
