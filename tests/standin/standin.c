// Contexts and runs of the stand-in.
#include "tests/standin/standin.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

// What `strings` finds in such a library (SDK guide 2.2.3).
__attribute__((used)) static const char version[] =
    STANDIN_NAME " version: " STANDIN_VERSION " (standin)";

static void drop(struct standin_model *m)
{
    if (!m || atomic_fetch_sub(&m->refs, 1) > 1)
        return;
    npu_backend.model_free(m->model);
    npu_backend.device_free(m->device);
    free(m->file);
    free(m);
}

// "STANDIN", load options, a zero byte: what is behind it has these options.
static struct npu_model_source read_source(struct bytes file)
{
    static const char magic[] = "STANDIN\n";
    struct npu_model_source s = {.file = file, .name = ""};
    if (bytes_start_with(file, magic)) {
        s.options = (const char *)file.data + strlen(magic);
        size_t head = strlen(magic) + strlen(s.options) + 1;
        s.file = (struct bytes){file.data + head, file.size - head};
    }
    return s;
}

static struct standin_model *load(const void *file, uint32_t size, struct error *e)
{
    const char *options = getenv("RKNN_STANDIN");
    struct standin_model *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->refs = 1;
    m->file = malloc(size);
    if (!m->file || npu_backend.device_open(options ? options : "rk3588", &m->device, e) < 0)
        goto failed;
    memcpy(m->file, file, size);
    struct npu_model_source source = read_source((struct bytes){m->file, size});
    if (npu_backend.model_load(m->device, &source, &m->model, e) < 0)
        goto failed;
    m->info = npu_backend.model_info(m->model);
    return m;
failed:
    if (m->device)
        npu_backend.device_free(m->device);
    free(m->file);
    free(m);
    return NULL;
}

// Takes the reference to the model in any case.
static int open_context(struct standin_model *m, uint32_t flags, rknn_context *ret)
{
    struct standin *s = calloc(1, sizeof *s);
    size_t n = (size_t)m->info->n_inputs + m->info->n_outputs;
    struct error e = {.code = STATUS_MALLOC_FAIL};
    *s = (struct standin){.model = m, .flags = flags};
    standin_dump_init(&s->dump);
    s->inputs = calloc(m->info->n_inputs, sizeof *s->inputs);
    s->outputs = calloc(m->info->n_outputs, sizeof *s->outputs);
    s->tensors = calloc(n, sizeof *s->tensors);
    if (npu_backend.context_new(m->model, &s->context, &e) < 0) {
        rknn_destroy((rknn_context)(uintptr_t)s);
        return e.code;
    }
    *ret = (rknn_context)(uintptr_t)s;
    return RKNN_SUCC;
}

int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag,
              rknn_init_extend *extend)
{
    const char *code = getenv("RKNN_STANDIN_CODE");
    struct error e = {.code = STATUS_MALLOC_FAIL};
    (void)extend;
    if (code)
        return atoi(code);
    struct standin_model *m = load(model, size, &e);
    if (!m)
        fprintf(stderr, "E RKNN: %s\n", e.text);
    return m ? open_context(m, flag, context) : e.code;
}

int rknn_dup_context(rknn_context *in, rknn_context *out)
{
    struct standin *s = standin_of(*in);
    if (s->model->info->n_shape_sets > 1)
        return RKNN_ERR_FAIL;
    atomic_fetch_add(&s->model->refs, 1);
    return open_context(s->model, s->flags, out);
}

int rknn_destroy(rknn_context c)
{
    struct standin *s = standin_of(c);
    const struct npu_model_info *info = s->model->info;
    for (uint32_t i = 0; i < info->n_inputs + info->n_outputs; i++)
        free(s->tensors[i].data);
    if (s->context)
        npu_backend.context_free(s->context);
    free(s->inputs);
    free(s->outputs);
    free(s->tensors);
    free(s->perf);
    drop(s->model);
    free(s);
    return RKNN_SUCC;
}

// One core, or the first ones together.
int rknn_set_core_mask(rknn_context c, rknn_core_mask mask)
{
    struct standin *s = standin_of(c);
    const struct npu_device_info *d = npu_backend.device_info(s->model->device);
    uint32_t bits = (uint32_t)mask;
    if (bits >> d->n_cores || d->n_cores == 1 || ((bits & (bits - 1)) && (bits & (bits + 1))))
        return RKNN_ERR_PARAM_INVALID;
    s->core_mask = bits;
    return RKNN_SUCC;
}

int rknn_set_batch_core_num(rknn_context c, int core_num)
{
    struct standin *s = standin_of(c);
    const struct npu_device_info *d = npu_backend.device_info(s->model->device);
    if (d->n_cores == 1 || core_num < 1 || (uint32_t)core_num > d->n_cores)
        return RKNN_ERR_PARAM_INVALID;
    s->batch_cores = (uint32_t)core_num;
    return RKNN_SUCC;
}

static void note_done(struct npu_job *job, int status)
{
    *(int *)job->owner = status;
}

int rknn_run(rknn_context c, rknn_run_extend *extend)
{
    struct standin *s = standin_of(c);
    int status = standin_gather(s);
    (void)extend;
    if (status < 0)
        return status;
    struct npu_job job = {.inputs = s->inputs,
                          .outputs = s->outputs,
                          .shape_set = s->shape_set,
                          .core_mask = s->batch_cores > 1 ? (1u << s->batch_cores) - 1
                                       : s->core_mask     ? s->core_mask
                                                          : 1,
                          .divide_batch = s->batch_cores > 1,
                          .collect_perf = s->flags & RKNN_FLAG_COLLECT_PERF_MASK,
                          .tap = s->dump.folder ? &s->dump.npu : NULL,
                          .done = note_done,
                          .owner = &status};
    int r = npu_backend.context_submit(s->context, &job, &job.error);
    s->run_us = job.run_us;
    if (r < 0 || status < 0)
        fprintf(stderr, "E RKNN: %s\n", job.error.text);
    return r < 0 ? r : status;
}
