// A backend with its device and one model.
//
//   npu-NAME.so --dlopen--> backend --device_open--> device --model_load--> model --> contexts
//                                                                 |
//                                              file, mapped read-only: backends may point into it
//
// Closing goes the other way. One thread at a time opens, loads and closes; runs follow the
// threading rules of npu.h. Used by worker processes and, with --isolation=thread, by the daemon.
#include "worker/loaded_backend.h"

#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

int loaded_backend_open_module(struct loaded_backend *loaded, const char *module_dir,
                               const char *backend, struct error *e)
{
    assert(!loaded->backend);
    int r = npu_module_open(&loaded->module, module_dir, backend, e);
    if (r == 0)
        loaded->backend = loaded->module.backend;
    return r;
}

// Core masks are 32 bits wide, hence the bound on cores. On failure the caller closes what is open.
int loaded_backend_open_device(struct loaded_backend *loaded, const char *options, struct error *e)
{
    int r = loaded->backend->device_open(options, &loaded->device, e);
    if (r < 0)
        return r;
    uint32_t n_cores = loaded->backend->device_info(loaded->device)->n_cores;
    if (n_cores == 0 || n_cores > 32)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "backend %s: a device with %u cores",
                         loaded->backend->name, n_cores);
    return 0;
}

int loaded_backend_open(struct loaded_backend *loaded, const char *module_dir, const char *backend,
                        const char *options, struct error *e)
{
    int r = loaded_backend_open_module(loaded, module_dir, backend, e);
    return r < 0 ? r : loaded_backend_open_device(loaded, options, e);
}

// Maps a model file. Its size is checked against the file, since reading a mapping beyond the
// file's end raises SIGBUS.
static int map_file(struct loaded_backend *loaded, const struct model_file *f, struct error *e)
{
    struct stat st;
    uint64_t size = f->size;
    assert(!loaded->file);
    if (fstat(f->fd, &st) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "model %s", f->name);
    if (size == 0 || size > SIZE_MAX || st.st_size < 0 || size > (uint64_t)st.st_size)
        return error_set(e, STATUS_MODEL_INVALID, "model %s: %llu bytes of a file that has %lld",
                         f->name, (unsigned long long)size, (long long)st.st_size);
    void *file = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, f->fd, 0);
    if (file == MAP_FAILED)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "model %s: %llu bytes", f->name,
                               (unsigned long long)size);
    loaded->file = file;
    loaded->file_size = (size_t)size;
    return 0;
}

static void unmap_file(struct loaded_backend *loaded)
{
    if (loaded->file)
        munmap(loaded->file, loaded->file_size);
    loaded->file = NULL;
}

static struct npu_model_source source_of(const struct loaded_backend *loaded,
                                         const struct model_file *f)
{
    return (struct npu_model_source){
        .file = {loaded->file, loaded->file_size}, .name = f->name, .options = f->options};
}

// No backend knows how much a message holds.
static int check_ends(struct loaded_backend *loaded, struct error *e)
{
    const struct npu_model_info *info = loaded->backend->model_info(loaded->model);
    if (info->n_inputs <= NPU_MAX_ENDS && info->n_outputs <= NPU_MAX_ENDS)
        return 0;
    error_set(e, STATUS_MODEL_INVALID, "%u inputs and %u outputs; a run can have %u of each",
              info->n_inputs, info->n_outputs, NPU_MAX_ENDS);
    loaded->backend->model_free(loaded->model);
    loaded->model = NULL;
    return STATUS_MODEL_INVALID;
}

int loaded_backend_load(struct loaded_backend *loaded, const struct model_file *file,
                        struct error *e)
{
    int r = map_file(loaded, file, e);
    if (r < 0)
        return r;
    struct npu_model_source source = source_of(loaded, file);
    r = loaded->backend->model_load(loaded->device, &source, &loaded->model, e);
    if (r == 0)
        r = check_ends(loaded, e);
    // Loading has repacked the weights into the backend's own memory. Pages of the file are dropped
    // and are read again if the backend touches them.
    madvise(loaded->file, loaded->file_size, MADV_DONTNEED);
    return r;
}

// For each shape set: its inputs, then its outputs. n_shape_sets is 0 for a model
// with fixed shapes, which has one shape set.
const struct tensor_io **loaded_backend_tensors(const struct npu_model_info *m, size_t *ret_n)
{
    size_t per_set = (size_t)m->n_inputs + m->n_outputs,
           n = per_set * (m->n_shape_sets ? m->n_shape_sets : 1);
    const struct tensor_io **list = calloc(n + 1, sizeof *list);
    for (size_t i = 0; list && i < n; i++) {
        size_t shape_set = i / per_set, k = i % per_set;
        list[i] = k < m->n_inputs ? &m->inputs[shape_set * m->n_inputs + k]
                                  : &m->outputs[shape_set * m->n_outputs + k - m->n_inputs];
    }
    *ret_n = n;
    return list;
}

void loaded_backend_model_message(const struct npu_model_info *m, rknnd_ContextInfo *ret)
{
    *ret = (rknnd_ContextInfo){
        .n_inputs = m->n_inputs,
        .n_outputs = m->n_outputs,
        .n_shape_sets = m->n_shape_sets,
        .native_attrs = m->native_attrs,
        .no_custom = m->no_custom,
        .weight_size = m->weight_size,
        .internal_size = m->internal_size,
        .memory_size = m->memory_size,
        .context_size = m->context_size,
        .core_limit = m->core_limit,
        .batch = m->batch,
        .n_custom = m->n_custom,
        .estimate_assumed = m->estimate_assumed,
        .n_unestimated = m->n_unestimated,
    };
    message_set_text(ret->custom_string, m->custom_string);
    message_set_text(ret->estimate_chip, m->estimate_chip ? m->estimate_chip : "");
}

// Describes a file without loading it; the mapping is not needed afterwards, because the JSON is a
// copy.
int loaded_backend_describe(struct loaded_backend *loaded, const struct model_file *file,
                            char **ret, struct error *e)
{
    int r = map_file(loaded, file, e);
    if (r < 0)
        return r;
    struct npu_model_source source = source_of(loaded, file);
    r = loaded->backend->model_describe(loaded->device, &source, ret, e);
    unmap_file(loaded);
    return r;
}

// ---- several samples ----

struct sample_end {
    sem_t ended;
    int status;
};

static void on_sample_done(struct npu_job *job, int status)
{
    struct sample_end *end = job->owner;
    end->status = status;
    sem_post(&end->ended);
}

// One run. It has ended when the backend has both called done() and returned.
static int sample_run(const struct npu_backend *backend, struct npu_context *context,
                      struct npu_job *job, struct error *e)
{
    struct sample_end *end = job->owner;
    int r = job->stop && atomic_load(job->stop) ? error_set(e, STATUS_FAIL, "the run was ended")
                                                : backend->context_submit(context, job, e);
    if (r < 0)
        return r;
    while (sem_wait(&end->ended) < 0)
        continue;
    if (end->status < 0)
        *e = job->error;
    return end->status;
}

int loaded_backend_run_samples(const struct loaded_backend *loaded, struct npu_context *context,
                               struct npu_job *job, struct npu_input *inputs,
                               struct npu_output *outputs, uint32_t n, struct error *e)
{
    const struct npu_model_info *info = loaded->backend->model_info(loaded->model);
    struct sample_end end;
    uint64_t run_us = 0, estimate_ns = 0;
    int r = 0;
    sem_init(&end.ended, 0, 0);
    job->done = on_sample_done;
    job->owner = &end;
    for (uint32_t at = 0; at < n && r == 0; at++) {
        for (uint32_t i = 0; i < info->n_inputs && at; i++)
            inputs[i].data = (const char *)inputs[i].data + inputs[i].size;
        for (uint32_t i = 0; i < info->n_outputs && at; i++)
            outputs[i].data = (char *)outputs[i].data + outputs[i].size;
        r = sample_run(loaded->backend, context, job, e);
        run_us += job->run_us;
        estimate_ns += job->estimate_ns;
    }
    sem_destroy(&end.ended);
    job->run_us = run_us;
    job->estimate_ns = estimate_ns;
    return r;
}

// The module goes last: model and device are freed by its code.
void loaded_backend_close(struct loaded_backend *loaded)
{
    if (loaded->backend) {
        loaded->backend->model_free(loaded->model);
        loaded->backend->device_free(loaded->device);
    }
    unmap_file(loaded);
    npu_module_close(&loaded->module);
    *loaded = (struct loaded_backend){0};
}
