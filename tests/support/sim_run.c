// Runs a model file on the software NPU through the device contract, for tests.
#include "tests/support/sim_run.h"

#include <errno.h>
#include <semaphore.h>
#include <sys/stat.h>

#include "base/cleanup.h"

uint8_t *sim_read_file(const char *path, size_t *ret_size, struct error *e)
{
    cleanup(fclose_p) FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) < 0) {
        error_set_errno(e, STATUS_FAIL, errno, "%s", path);
        return NULL;
    }
    cleanup(free_p) uint8_t *data = malloc((size_t)st.st_size + 1);
    if (!data || fread(data, 1, (size_t)st.st_size, f) != (size_t)st.st_size) {
        error_set(e, STATUS_FAIL, "%s: not read", path);
        return NULL;
    }
    *ret_size = (size_t)st.st_size;
    return steal_ptr(data);
}

int sim_run_init(struct sim_run *s, const char *path, struct error *e)
{
    return sim_run_init_with(s, "", path, e);
}

int sim_run_init_with(struct sim_run *s, const char *options, const char *path, struct error *e)
{
    *s = (struct sim_run){0};
    struct npu_model_source source = {.name = path};
    s->file = sim_read_file(path, &source.file.size, e);
    if (!s->file)
        return STATUS_FAIL;
    source.file.data = s->file;
    int r = npu_backend.device_open(options, &s->device, e);
    if (r == 0)
        r = npu_backend.model_load(s->device, &source, &s->model, e);
    if (r == 0)
        r = npu_backend.context_new(s->model, &s->context, e);
    if (r == 0)
        s->info = npu_backend.model_info(s->model);
    return r;
}

void sim_run_done(struct sim_run *s)
{
    npu_backend.context_free(s->context);
    npu_backend.model_free(s->model);
    npu_backend.device_free(s->device);
    free(s->file);
}

struct wait {
    sem_t done;
    int status;
};

static void note_done(struct npu_job *job, int status)
{
    struct wait *w = job->owner;
    w->status = status;
    sem_post(&w->done);
}

int sim_run_once(struct sim_run *s, const struct npu_input *inputs,
                 const struct npu_output *outputs, struct error *e)
{
    struct wait w;
    sem_init(&w.done, 0, 0);
    struct npu_job job = {.inputs = inputs,
                          .outputs = outputs,
                          .core_mask = s->core_mask ? s->core_mask : 1,
                          .collect_perf = s->collect_perf,
                          .stop = s->stop,
                          .slices = s->slices,
                          .done = note_done,
                          .owner = &w};
    int r = npu_backend.context_submit(s->context, &job, e);
    if (r == 0) {
        while (sem_wait(&w.done) < 0 && errno == EINTR)
            ;
        r = w.status;
        if (r < 0)
            *e = job.error;
    }
    s->run_us = job.run_us;
    s->estimate_ns = job.estimate_ns;
    sem_destroy(&w.done);
    return r;
}
