// Backend "sim": runs model files on the CPU. Options: sim_options.h.
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "npu/npu.h"
#include "npu/sim/dnn.h"
#include "npu/sim/estimate_graph.h"
#include "npu/sim/fault.h"
#include "npu/sim/memo.h"
#include "npu/sim/onnx_graph.h"
#include "npu/sim/rknn_graph.h"
#include "npu/sim/sim_custom.h"
#include "npu/sim/sim_describe.h"
#include "npu/sim/sim_io.h"
#include "npu/sim/sim_layers.h"

#define ONNX_CHIP "rk3588" // that a device of any chip stands for when it runs ONNX models
#define ANY_CORES 3        // of a device that takes models of any chip: as many as the largest has

struct npu_device {
    struct sim_options options;
    struct faults faults;
    struct npu_device_info info;
};

struct npu_model {
    struct npu_device *device;
    char *name;
    const struct chip *chip;
    struct pool option_pool;
    struct load_options options;
    struct rknn_file file;
    struct graph graph;
    struct plan plan;
    struct npu_layer *layers;
    struct npu_model_info info;
    uint64_t paced_us[NPU_MAX_CORES + 1]; // of a job, by its number of cores
};

struct npu_context {
    struct npu_model *model;
    struct run run;
    uint64_t *step_us;
    struct npu_layer *layers; // of the last run that was measured
    size_t n_layers;
    struct memo memo; // in paced mode
};

// ---- device ----

static int device_open(const char *options, struct npu_device **ret, struct error *e)
{
    cleanup(free_p) struct npu_device *d = calloc(1, sizeof *d);
    if (!d)
        return error_no_memory(e, "a device", sizeof *d);
    int r = sim_options_parse(options, &d->options, e);
    if (r < 0)
        return r;
    faults_init(&d->faults, &d->options);
    const struct chip *chip = d->options.chip;
    const dnnl_version_t *v = dnnl_version();
    d->info = (struct npu_device_info){.backend = "sim",
                                       .driver_version = "none (software NPU)",
                                       .n_cores = chip ? chip->n_cores : ANY_CORES,
                                       .sram_size = chip ? chip->sram_size : 0};
    snprintf(d->info.chip, sizeof d->info.chip, "%s", chip ? chip->name : "any");
    snprintf(d->info.runtime_version, sizeof d->info.runtime_version,
             "rknnd sim %s (oneDNN %d.%d.%d, %s)", RKNND_VERSION, v->major, v->minor, v->patch,
             dnn_int8_is_exact() ? "8-bit products" : "exact sums without 8-bit products");
    *ret = steal_ptr(d);
    return 0;
}

static void device_free(struct npu_device *d)
{
    free(d);
}

static const struct npu_device_info *device_info(const struct npu_device *d)
{
    return &d->info;
}

// ---- model ----

static void model_free(struct npu_model *m)
{
    if (!m)
        return;
    plan_done(&m->plan);
    graph_done(&m->graph);
    rknn_file_done(&m->file);
    pool_done(&m->option_pool);
    free(m->name);
    free(m);
}

CLEANUP_DEFINE(struct npu_model, model_free)

static int describe_ports(struct npu_model *m, struct error *e)
{
    const struct graph *g = &m->graph;
    struct tensor_io *inputs = pool_alloc(&m->graph.pool, g->n_inputs, sizeof *inputs);
    struct tensor_io *outputs = pool_alloc(&m->graph.pool, g->n_outputs, sizeof *outputs);
    int r = inputs && outputs ? 0 : error_no_memory(e, "the model's description", 0);
    for (uint32_t i = 0; i < g->n_inputs && r == 0; i++)
        r = sim_describe_input(g, m->chip, i, &inputs[i], e);
    for (uint32_t i = 0; i < g->n_outputs && r == 0; i++)
        r = sim_describe_output(g, m->chip, i, &outputs[i], e);
    m->info.inputs = inputs;
    m->info.outputs = outputs;
    return r;
}

static int fill_info(struct npu_model *m, struct error *e)
{
    const struct graph *g = &m->graph;
    int r = describe_ports(m, e);
    if (r == 0)
        r = sim_layers(g, m->chip, &m->graph.pool, &m->layers, e);
    if (r < 0)
        return r;
    for (uint32_t n = 1; n <= NPU_MAX_CORES; n++)
        m->paced_us[n] = estimate_graph_us(g, m->chip, n);
    struct estimate_memory memory;
    r = estimate_memory(g, m->chip, &memory, e);
    if (r < 0)
        return r;
    m->info.n_inputs = g->n_inputs;
    m->info.n_outputs = g->n_outputs;
    m->info.weight_size = m->file.weight_size ? m->file.weight_size : memory.weight_size;
    m->info.internal_size = m->file.internal_size ? m->file.internal_size : m->plan.arena_size;
    m->info.memory_size = m->file.pool.total + g->pool.total + m->plan.pool.total;
    m->info.core_limit = m->chip->n_cores;
    m->info.batch = 1;
    m->info.custom_string = m->file.custom_string ? m->file.custom_string : "";
    return 0;
}

int sim_find_chip(const struct chip *wanted, const struct rknn_file *f, const struct chip **ret,
                  struct error *e)
{
    const struct chip *chip = chip_find(f->chip);
    if (!chip)
        return error_set(e, STATUS_TARGET_PLATFORM_UNMATCH,
                         "the model is for \"%s\"; known chips are %s", f->chip, chip_names());
    if (wanted && strcmp(wanted->target, chip->target) != 0)
        return error_set(e, STATUS_TARGET_PLATFORM_UNMATCH,
                         "the model is for %s, this device is %s: convert it for %s, or use a "
                         "device of the model's chip",
                         chip->name, wanted->name, wanted->name);
    *ret = wanted ? wanted : chip;
    return 0;
}

// ONNX files are for no chip: every device runs them.
static int load_onnx(struct npu_device *d, struct npu_model *m, struct bytes file, struct error *e)
{
    m->chip = d->options.chip ? d->options.chip : chip_find(ONNX_CHIP);
    if (m->options.n_rows > 1)
        return error_set(e, STATUS_MODEL_INVALID,
                         "an ONNX model takes one shape for each input in this version of rknnd");
    return onnx_graph(&m->graph, file, &m->options, 0, e);
}

static int load_rknn(struct npu_device *d, struct npu_model *m, struct bytes file, struct error *e)
{
    if (m->options.n_shapes)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the load options give shapes, and those of a .rknn file are fixed");
    int r = rknn_file_open(&m->file, file, e);
    if (r == 0)
        r = sim_find_chip(d->options.chip, &m->file, &m->chip, e);
    if (r == 0)
        r = rknn_graph(&m->graph, &m->file, m->chip, e);
    return r;
}

static int load(struct npu_device *d, struct npu_model *m, const struct npu_model_source *source,
                struct error *e)
{
    struct bytes file = source->file;
    int r = load_options_parse(&m->options, &m->option_pool, source->options, e);
    if (r == 0)
        r = onnx_is_model(file) ? load_onnx(d, m, file, e) : load_rknn(d, m, file, e);
    if (r == 0)
        r = sim_custom_nodes(&m->graph, &m->info.custom, &m->info.n_custom, e);
    if (r == 0)
        r = plan_init(&m->plan, &m->graph, e);
    return r < 0 ? r : fill_info(m, e);
}

static int model_load(struct npu_device *d, const struct npu_model_source *source,
                      struct npu_model **ret, struct error *e)
{
    cleanup(model_free_p) struct npu_model *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a model", sizeof *m);
    m->device = d;
    m->name = strdup(source->name);
    int r = m->name ? load(d, m, source, e) : error_no_memory(e, "a model", sizeof *m);
    if (r < 0)
        return r;
    *ret = steal_ptr(m);
    return 0;
}

static const struct npu_model_info *model_info(const struct npu_model *m)
{
    return &m->info;
}

static int model_describe(struct npu_device *d, const struct npu_model_source *source, char **ret,
                          struct error *e)
{
    return onnx_is_model(source->file) ? onnx_describe(source->file, source->options, ret, e)
                                       : sim_describe(d->options.chip, source->file, ret, e);
}

// ---- context ----

static void context_free(struct npu_context *c)
{
    if (!c)
        return;
    run_done(&c->run);
    memo_done(&c->memo);
    free(c->step_us);
    free(c->layers);
    free(c);
}

CLEANUP_DEFINE(struct npu_context, context_free)

static int context_new(struct npu_model *m, struct npu_context **ret, struct error *e)
{
    cleanup(context_free_p) struct npu_context *c = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(e, "a context", sizeof *c);
    size_t n = (size_t)m->plan.n_steps + 1;
    c->model = m;
    c->step_us = calloc(n, sizeof *c->step_us);
    c->layers = calloc(n, sizeof *c->layers);
    if (!c->step_us || !c->layers)
        return error_no_memory(e, "a context", n * sizeof *c->layers);
    int r = run_init(&c->run, &m->plan, e);
    if (r < 0)
        return r;
    *ret = steal_ptr(c);
    return 0;
}

static void note_layers(struct npu_context *c, const struct npu_job *job)
{
    c->n_layers = c->model->plan.n_steps;
    for (size_t i = 0; i < c->n_layers; i++) {
        c->layers[i] = c->model->layers[i];
        c->layers[i].time_us = c->step_us[i];
    }
    estimate_shares(&c->model->graph, c->model->chip, job->core_mask, c->layers);
}

static int run_job(struct npu_context *c, struct npu_job *job, struct error *e)
{
    const struct npu_model_info *info = &c->model->info;
    int r = 0;
    for (uint32_t i = 0; i < info->n_inputs && r == 0; i++)
        r = sim_put_input(&c->run, i, &info->inputs[i], &job->inputs[i], e);
    uint64_t start = clock_us();
    c->run.step_us = job->collect_perf ? c->step_us : NULL;
    c->run.tap = job->tap;
    c->run.custom = job->custom;
    if (r == 0)
        r = run_steps(&c->run, e);
    job->run_us = clock_us() - start;
    for (uint32_t i = 0; i < info->n_outputs && r == 0; i++)
        r = sim_get_output(&c->run, i, &info->outputs[i], &job->outputs[i], e);
    return r;
}

// Takes the time that the chip would take. What is measured or looked into is computed, and what
// others have a part in.
static int run_paced(struct npu_context *c, struct npu_job *job, struct error *e)
{
    const struct npu_model *m = c->model;
    uint64_t start = clock_us(), n_cores = (uint64_t)__builtin_popcount(job->core_mask);
    double us = (double)m->paced_us[n_cores < NPU_MAX_CORES ? n_cores : NPU_MAX_CORES] /
                m->device->options.speed;
    int r = 0;
    if (job->collect_perf || job->tap || job->custom || !memo_answer(&c->memo, job)) {
        r = run_job(c, job, e);
        if (r == 0 && !job->custom)
            memo_keep(&c->memo, job, m->info.n_inputs, m->info.n_outputs);
    }
    clock_sleep_until(start + (uint64_t)us);
    job->run_us = clock_us() - start;
    return r;
}

static int run_with_faults(struct npu_context *c, struct npu_job *job, struct error *e)
{
    struct npu_model *m = c->model;
    enum sim_fault fault = faults_next(&m->device->faults, m->name);
    int r = fault_before(fault, e);
    if (r == 0)
        r = m->device->options.paced ? run_paced(c, job, e) : run_job(c, job, e);
    if (r == 0)
        fault_after(fault, job->outputs, m->info.n_outputs);
    return r;
}

static int context_submit(struct npu_context *c, struct npu_job *job, struct error *e)
{
    (void)e;
    c->n_layers = 0;
    int r = run_with_faults(c, job, &job->error);
    if (r == 0 && job->collect_perf)
        note_layers(c, job);
    job->done(job, r);
    return 0;
}

static const struct npu_layer *context_layers(const struct npu_context *c, size_t *ret_n)
{
    *ret_n = c->n_layers;
    return c->layers;
}

__attribute__((visibility("default"))) const struct npu_backend npu_backend = {
    .name = "sim",
    .device_open = device_open,
    .device_free = device_free,
    .device_info = device_info,
    .model_load = model_load,
    .model_free = model_free,
    .model_info = model_info,
    .model_describe = model_describe,
    .context_new = context_new,
    .context_free = context_free,
    .context_submit = context_submit,
    .context_layers = context_layers,
};
