// A lane: one context of the runtime, with what is set in it. The runtime keeps cores, shapes and
// bound memory per context, so these are remembered here and only set when they change; after a
// failed call the value is unknown and is set again. One thread at a time (lanes.c sees to that).
#include "npu/rknnrt/lanes/lane.h"

#include <stdlib.h>

#include "base/clock.h"
#include "npu/rknnrt/rknnrt_query.h"
#include "npu/rknnrt/shape_sets.h"

int lane_init(struct lane *l, const struct runtime *r, struct bytes file, uint32_t flags,
              const struct npu_model_info *info, struct error *e)
{
    rknn_context context = 0;
    if (file.size > UINT32_MAX)
        return error_set(e, STATUS_MODEL_INVALID,
                         "the model has %zu bytes, rknn_init takes less than 4 GB", file.size);
    int code = r->init(&context, (void *)file.data, (uint32_t)file.size, flags, NULL);
    if (code != RKNN_SUCC)
        return runtime_failed(r, "rknn_init", code, e);
    *l = (struct lane){.runtime = r,
                       .info = info,
                       .context = context,
                       .memory = r->small,
                       .shape_set = UINT32_MAX};
    return 0;
}

int lane_dup(struct lane *l, const struct lane *of, struct error *e)
{
    const struct runtime *r = of->runtime;
    rknn_context context = 0, source = of->context;
    int code = r->dup_context(&source, &context);
    if (code != RKNN_SUCC)
        return runtime_failed(r, "rknn_dup_context", code, e);
    *l = (struct lane){.runtime = r,
                       .info = of->info,
                       .context = context,
                       .memory = r->small,
                       .shape_set = UINT32_MAX};
    return 0;
}

// Allocates the arrays on the first run: before, the numbers of tensors are not known, since they
// are queried from the context itself.
static int prepare(struct lane *l, struct error *e)
{
    const struct npu_model_info *m = l->info;
    size_t n = (size_t)m->n_inputs + m->n_outputs;
    if (!l->inputs)
        l->inputs = calloc(m->n_inputs, sizeof *l->inputs);
    if (!l->outputs)
        l->outputs = calloc(m->n_outputs, sizeof *l->outputs);
    if (!l->scratch)
        l->scratch = calloc(n, sizeof *l->scratch);
    if (!l->memories)
        l->memories = calloc(n, sizeof *l->memories);
    return l->inputs && l->outputs && l->scratch && l->memories
               ? 0
               : error_no_memory(e, "a context", n * sizeof *l->memories);
}

// Memory is given back before the context to which it belongs.
void lane_done(struct lane *l)
{
    if (!l->runtime)
        return;
    size_t n = (size_t)l->info->n_inputs + l->info->n_outputs;
    for (uint32_t i = 0; l->memories && i < n; i++)
        lane_memory_drop(l, i);
    l->runtime->destroy(l->context);
    for (size_t i = 0; l->scratch && i < n; i++)
        free((void *)l->scratch[i].data);
    free(l->inputs);
    free(l->outputs);
    free(l->scratch);
    free(l->memories);
    *l = (struct lane){0};
}

// Grows and never shrinks; the old contents are lost.
uint8_t *lane_room(struct lane *l, uint32_t i, size_t size, struct error *e)
{
    struct bytes *s = &l->scratch[i];
    if (size > s->size) {
        free((void *)s->data);
        *s = (struct bytes){malloc(size), size};
        if (!s->data) {
            s->size = 0;
            error_no_memory(e, "a tensor", size);
        }
    }
    return (uint8_t *)s->data;
}

// Divides the batch of later runs among n cores, which the runtime chooses, so the core mask is
// unknown afterwards. A lane that never did so is not touched: old runtimes lack the function.
static int set_batch_cores(struct lane *l, uint32_t n, struct error *e)
{
    const struct runtime *r = l->runtime;
    if (n == l->batch_cores || (n == 1 && !l->batch_cores))
        return 0;
    if (!r->set_batch_core_num)
        return runtime_lacks(r, "rknn_set_batch_core_num", e);
    int code = r->set_batch_core_num(l->context, (int)n);
    if (code != RKNN_SUCC)
        return runtime_failed(r, "rknn_set_batch_core_num", code, e);
    l->batch_cores = n;
    l->core_mask = 0;
    return 0;
}

// A single core by mask, or as many as the mask has bits for a batch that is divided.
static int set_cores(struct lane *l, const struct npu_job *job, uint32_t cores, struct error *e)
{
    uint32_t n = job->divide_batch && cores ? (uint32_t)__builtin_popcount(cores) : 1;
    int s = set_batch_cores(l, n, e);
    if (s < 0 || n > 1 || !cores || cores == l->core_mask)
        return s;
    int code = l->runtime->set_core_mask(l->context, (rknn_core_mask)cores);
    if (code != RKNN_SUCC)
        return runtime_failed(l->runtime, "rknn_set_core_mask", code, e);
    l->core_mask = cores;
    return 0;
}

// Selects one of the model's shape sets. Models with fixed shapes have one.
static int choose_shape_set(struct lane *l, uint32_t shape_set, struct error *e)
{
    if (shape_set >= l->info->n_shape_sets)
        return error_set(e, STATUS_INPUT_INVALID, "shapes %u of %u", shape_set,
                         l->info->n_shape_sets);
    if (l->info->n_shape_sets == 1 || shape_set == l->shape_set)
        return 0;
    int s = shape_sets_choose(l->runtime, l->context, l->info, shape_set, e);
    l->shape_set = s == 0 ? shape_set : UINT32_MAX;
    return s;
}

// The time of the NPU alone, as the runtime measured it, in microseconds; else the time of the
// call.
static uint64_t run_time(const struct lane *l, uint64_t measured_us)
{
    rknn_perf_run perf = {0};
    int code = l->runtime->query(l->context, RKNN_QUERY_PERF_RUN, &perf, sizeof perf);
    return code == RKNN_SUCC && perf.run_duration > 0 ? (uint64_t)perf.run_duration : measured_us;
}

void lane_forget(struct lane *l, const void *user)
{
    for (uint32_t i = 0; l->memories && i < l->info->n_inputs + l->info->n_outputs; i++)
        if (l->memories[i].user && (!user || l->memories[i].user == user))
            lane_memory_drop(l, i);
}

// Blocks until the NPU is done. Buffers of outputs must be bound before the run where memory is
// used; rknn_outputs_get() takes them after it.
int lane_run(struct lane *l, struct npu_job *job, const void *user, uint32_t cores, struct error *e)
{
    int s = prepare(l, e);
    l->user = user;
    if (s == 0)
        s = set_cores(l, job, cores, e);
    if (s == 0)
        s = choose_shape_set(l, job->shape_set, e);
    if (s == 0)
        s = l->memory ? lane_memory_put(l, job, e) : lane_io_put(l, job, e);
    if (s == 0 && l->memory)
        s = lane_memory_bind_outputs(l, job, e);
    if (s < 0)
        return s;
    uint64_t begin = clock_us();
    int code = l->runtime->run(l->context, NULL);
    if (code != RKNN_SUCC)
        return runtime_failed(l->runtime, "rknn_run", code, e);
    job->run_us = run_time(l, clock_us() - begin);
    return l->memory ? lane_memory_get(l, job, e) : lane_io_get(l, job, e);
}
