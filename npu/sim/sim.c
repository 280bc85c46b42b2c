// Backend "sim": the table npu.h asks for, for a software NPU that runs model files on the CPU.
// Options: sim_options.h.
//
// device    options, fault counters, what rknn_query says of the hardware
//   model   one shape set per choice of input shapes, or one matrix product; shared by contexts
//     context   per shape set an arena and layer times (sim_use), made when the set is first run
//
// A job runs synchronously on the thread that submits it. A context takes one job at a time;
// contexts of one model may run on several threads, since a model changes after loading only under
// its shape sets' locks.
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "npu/batch.h"
#include "npu/model/onnx/onnx_graph.h"
#include "npu/model/rknn/rknn_chip.h"
#include "npu/pace.h"
#include "npu/sim/cost/estimate_pace.h"
#include "npu/sim/describe/describe.h"
#include "npu/sim/exec/dnn.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/fault.h"
#include "npu/sim/matmul/product.h"
#include "npu/sim/sim_custom.h"
#include "npu/sim/sim_executor.h"
#include "npu/sim/sim_io.h"
#include "npu/sim/sim_rknn.h"
#include "npu/sim/sim_shape_set.h"
#include "npu/sim/sim_tap.h"

#define USES_KEPT 4           // of the largest, that a context has at once
#define IDLE_SIZE (64u << 20) // bytes of plans that no context uses; or as many plans as a context
#define ANY_CORES 3 // a device without a chip takes any model: as many cores as the largest chip

struct npu_device {
    struct sim_options options;
    struct faults faults;
    struct npu_device_info info;
};

// A graph for each shape set, or a matrix product. `device` is borrowed and outlives the model.
struct npu_model {
    struct npu_device *device;
    char *name;
    const struct chip *chip;
    struct pool pool; // of what follows
    struct load_options options;
    struct rknn_file file;
    struct graph_programs *programs; // NULL: every node is understood
    struct sim_shape_set *shape_sets;
    struct product *product; // NULL: a graph
    struct npu_model_info info;
    uint64_t uses_size; // bytes of the uses that a context may have
    uint64_t idle_size; // and of plans that no context uses
};

// `model` is borrowed and outlives the context. The layers that `layers` points to belong to `uses`
// or `product` and are overwritten by the next run.
struct npu_context {
    struct npu_model *model;
    struct sim_use *uses;           // of each set of shapes
    struct product_state *product;  // NULL: a graph
    const struct npu_layer *layers; // of the last run, if it was measured
    void *internal;                 // context_set_internal()
    size_t internal_size;
    size_t n_layers;
    uint64_t n_runs;
};

// ---- device ----

// The device's description. Without a chip, clock and SRAM size stay 0 (unknown), and the runtime
// version names oneDNN and whether its int8 products are exact on this CPU, because results can
// depend on both.
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
    d->info =
        (struct npu_device_info){.backend = "sim",
                                 .driver_version = "none (software NPU)",
                                 .n_cores = chip ? chip->n_cores : ANY_CORES,
                                 .sram_size = chip ? chip->sram_size : 0,
                                 .clock_hz = chip ? chip->mhz * UINT64_C(1000000) : 0,
                                 .timing = d->options.paced ? NPU_TIMING_PACED : NPU_TIMING_MACHINE,
                                 .replaces = true,
                                 .slices = true};
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

// Accepts a half-loaded model: shape sets that were never filled are still zeroed.
static void model_free(struct npu_model *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; m->shape_sets && i < m->info.n_shape_sets; i++)
        sim_shape_set_done(&m->shape_sets[i]);
    program_free(m->programs);
    rknn_file_done(&m->file);
    pool_done(&m->pool);
    free(m->product);
    free(m->name);
    free(m);
}

CLEANUP_DEFINE(struct npu_model, model_free)

// ONNX files and matrix products are compiled for no chip: they run on every device, and without a
// chip the estimates assume the default one and say so.
static void take_any_chip(struct npu_model *m)
{
    const struct chip *chip = m->device->options.chip;
    m->chip = chip ? chip : chip_default();
    m->info.estimate_assumed = !chip;
}

static int load_onnx(struct npu_model *m, struct bytes file, uint32_t index, struct graph *ret,
                     struct error *e)
{
    take_any_chip(m);
    return onnx_graph(ret, file, &m->options, index, &sim_executor, e);
}

// Tables of n_shape_sets shape sets x n_inputs (n_outputs), shape set after shape set. Shape sets
// differ in dimensions only, so the first one tells how many inputs and outputs there are.
static int make_tables(struct npu_model *m, const struct graph *g, struct error *e)
{
    size_t n = m->info.n_shape_sets;
    m->info.n_inputs = g->n_inputs;
    m->info.n_outputs = g->n_outputs;
    m->info.inputs = pool_alloc(&m->pool, n * g->n_inputs, sizeof *m->info.inputs);
    m->info.outputs = pool_alloc(&m->pool, n * g->n_outputs, sizeof *m->info.outputs);
    m->shape_sets = pool_alloc(&m->pool, n, sizeof *m->shape_sets);
    return m->info.inputs && m->info.outputs && m->shape_sets
               ? 0
               : error_no_memory(e, "the model's description", 0);
}

// A shape set that is being loaded.
struct shape_set_load {
    struct npu_model *m;
    uint32_t index;
};

// Takes over the graph and checks that it can be run. Only the first set keeps its plan, others are
// planned when a context first uses them (sim_use_begin).
static int take_shape_set(void *user, struct graph *g, struct error *e)
{
    const struct shape_set_load *load = user;
    struct npu_model *m = load->m;
    struct npu_model_info *info = &m->info;
    uint32_t index = load->index;
    int r = index == 0 ? make_tables(m, g, e) : 0;
    if (r == 0 && info->n_shape_sets == 1) // a node's description has one shape
        r = sim_custom_nodes(g, &info->custom, &info->n_custom, e);
    if (r < 0) {
        graph_done(g);
        return r;
    }
    return sim_shape_set_init(&m->shape_sets[index], g, m->chip, index == 0,
                              (struct tensor_io *)info->inputs + (size_t)index * info->n_inputs,
                              (struct tensor_io *)info->outputs + (size_t)index * info->n_outputs,
                              e);
}

// The emulator is hundreds of times slower than the executor: who waits is told why.
static void say_programs(const struct npu_model *m)
{
    const struct plan *plan = &m->shape_sets[0].plan;
    const struct step *first;
    uint32_t n = sim_rknn_count(plan, &first);
    if (n)
        log_warn("model %s: %u of %u nodes are computed by their own register programs on the "
                 "emulator, which is slow; the first: %s",
                 m->name, n, plan->n_steps, first->unread);
}

// The file stays open in the model, because the graph's weights point into it.
static int load_rknn(struct npu_model *m, struct bytes file, struct error *e)
{
    if (m->options.n_shapes)
        return error_set(e, STATUS_PARAM_INVALID,
                         "shapes can be chosen (rknnctl --shape, rknnd_set_load_options) for ONNX "
                         "models only: a .rknn file has those that it was converted with");
    struct shape_set_load set = {.m = m};
    int r = rknn_file_open(&m->file, file, e);
    if (r == 0)
        r = rknn_find_chip(m->device->options.chip, &m->file, &m->chip, e);
    const struct sim_rknn load = {.file = &m->file,
                                  .chip = m->chip,
                                  .by_program = m->device->options.programs,
                                  .strict = m->device->options.strict,
                                  .take = take_shape_set,
                                  .user = &set};
    if (r == 0)
        r = sim_rknn_load(&load, &m->programs, e);
    if (r == 0)
        say_programs(m);
    return r;
}

// Reads the file once more in shapes `index`.
static int load_shape_set(struct npu_model *m, struct bytes file, uint32_t index, struct error *e)
{
    struct graph g;
    if (!onnx_is_model(file))
        return load_rknn(m, file, e);
    int r = load_onnx(m, file, index, &g, e);
    return r < 0 ? r : take_shape_set(&(struct shape_set_load){m, index}, &g, e);
}

// A context pays for one plan beside the first, which is the model's: of several that it uses
// others are likely to use some, too. Sizes in bytes. A .rknn file states its own weight and
// internal sizes; otherwise weights are those of the first shape set, and internal memory the
// largest arena of all sets, as a context may run in any of them.
static void fill_info(struct npu_model *m)
{
    struct npu_model_info *info = &m->info;
    const struct sim_shape_set *first = &m->shape_sets[0];
    uint64_t arena = 0, graphs = 0, use = 0, uses = 0, plan = 0;
    for (uint32_t i = 0; i < info->n_shape_sets; i++) {
        const struct sim_shape_set *set = &m->shape_sets[i];
        arena = set->arena_size > arena ? set->arena_size : arena;
        graphs += set->graph.pool.total;
        use = set->use_size > use ? set->use_size : use;
        uses += set->use_size;
        plan = i > 0 && set->plan_size > plan ? set->plan_size : plan;
    }
    m->uses_size = uses < USES_KEPT * use ? uses : USES_KEPT * use;
    m->idle_size = USES_KEPT * plan > IDLE_SIZE ? USES_KEPT * plan : IDLE_SIZE;
    info->context_size = m->uses_size + plan;
    info->weight_size = m->file.weight_size ? m->file.weight_size : first->memory.weight_size;
    info->internal_size = m->file.internal_size ? m->file.internal_size : arena;
    info->memory_size =
        m->file.pool.total + graphs + first->plan.pool.total + program_size(m->programs);
    info->core_limit = m->chip->n_cores;
    info->batch = npu_batch(info);
    info->native_attrs = m->chip->small;
    info->custom_string = m->file.custom_string ? m->file.custom_string : "";
    info->estimate_chip = m->chip->name;
    info->n_unestimated = first->n_unestimated;
}

static int load_product(struct npu_model *m, struct bytes file, struct error *e)
{
    take_any_chip(m);
    m->product = malloc(sizeof *m->product);
    if (!m->product)
        return error_no_memory(e, "a matmul", sizeof *m->product);
    int r = product_init(m->product, m->chip, file, e);
    if (r == 0) {
        product_info(m->product, &m->info);
        m->info.context_size = product_state_size(m->product);
    }
    m->info.estimate_chip = m->chip->name;
    return r;
}

// The kind of file is recognised by its content: a matmul description, else ONNX or .rknn. The
// number of shape sets comes from a client's options and is bounded before tables are allocated.
static int model_load_file(struct npu_model *m, const struct npu_model_source *source,
                           struct error *e)
{
    if (matmul_model_is(source->file))
        return load_product(m, source->file, e);
    int r = load_options_parse(&m->options, &m->pool, source->options, e);
    m->info.n_shape_sets = m->options.n_shape_sets;
    if (r == 0 && m->info.n_shape_sets > NPU_MAX_SHAPE_SETS)
        r = error_set(e, STATUS_PARAM_INVALID, "%u shapes of an input; %u are possible",
                      m->info.n_shape_sets, NPU_MAX_SHAPE_SETS);
    for (uint32_t i = 0; i < m->info.n_shape_sets && r == 0; i++)
        r = load_shape_set(m, source->file, i, e);
    if (r == 0)
        fill_info(m);
    return r;
}

static int model_load(struct npu_device *d, const struct npu_model_source *source,
                      struct npu_model **ret, struct error *e)
{
    cleanup(model_free_p) struct npu_model *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a model", sizeof *m);
    m->device = d;
    m->name = strdup(source->name);
    int r = m->name ? model_load_file(m, source, e) : error_no_memory(e, "a model", sizeof *m);
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
    if (matmul_model_is(source->file))
        return product_describe(source->file, ret, e);
    return onnx_is_model(source->file) ? describe_onnx(source->file, source->options, ret, e)
                                       : describe_rknn(&d->options, source->file, ret, e);
}

// ---- context ----

static void trim_plans(struct npu_model *m)
{
    sim_shape_sets_trim(m->shape_sets, m->info.n_shape_sets, m->idle_size);
}

static void context_free(struct npu_context *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; c->uses && i < c->model->info.n_shape_sets; i++)
        sim_use_done(&c->uses[i]);
    if (c->uses && c->model->shape_sets)
        trim_plans(c->model);
    product_state_free(c->product);
    free(c->uses);
    free(c);
}

CLEANUP_DEFINE(struct npu_context, context_free)

// A context holds no more than its model's uses_size. True: there was a use to give up.
static bool end_oldest_use(struct npu_context *c)
{
    struct sim_use *oldest = NULL;
    for (uint32_t i = 0; i < c->model->info.n_shape_sets; i++) {
        struct sim_use *use = &c->uses[i];
        if (use->run.plan && (!oldest || use->last_run < oldest->last_run))
            oldest = use;
    }
    if (oldest)
        sim_use_done(oldest);
    return oldest;
}

static uint64_t held_size(const struct npu_context *c)
{
    uint64_t held = 0;
    for (uint32_t i = 0; i < c->model->info.n_shape_sets; i++)
        held += c->uses[i].run.plan ? c->model->shape_sets[i].use_size : 0;
    return held;
}

static int use_begin(struct npu_context *c, uint32_t shape_set, struct error *e)
{
    struct sim_use *use = &c->uses[shape_set];
    struct sim_shape_set *set = &c->model->shape_sets[shape_set];
    use->last_run = ++c->n_runs;
    if (use->run.plan)
        return 0;
    while (held_size(c) + set->use_size > c->model->uses_size && end_oldest_use(c))
        continue;
    trim_plans(c->model);
    return sim_use_begin(use, set, e);
}

// Only the first shape set gets its memory here; a model may have many sets of which a program uses
// one.
static int context_new(struct npu_model *m, struct npu_context **ret, struct error *e)
{
    cleanup(context_free_p) struct npu_context *c = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(e, "a context", sizeof *c);
    c->model = m;
    c->uses = calloc(m->info.n_shape_sets, sizeof *c->uses);
    if (!c->uses)
        return error_no_memory(e, "a context", m->info.n_shape_sets * sizeof *c->uses);
    int r = m->product ? product_state_new(m->product, &c->product, e) : use_begin(c, 0, e);
    if (r < 0)
        return r;
    *ret = steal_ptr(c);
    return 0;
}

// Inputs of the batch that core i computes: batch / n_cores, the remainder going one each to the
// first cores.
static uint32_t batch_part(const struct npu_model_info *info, uint32_t n_cores, uint32_t i)
{
    return info->batch / n_cores + (i < info->batch % n_cores);
}

// Per layer, how many inputs of a divided batch each core of the mask computes: every core runs all
// layers, on its own part of the batch.
static void share_batch(const struct npu_context *c, uint32_t core_mask, struct npu_layer *layers)
{
    uint32_t n_cores = (uint32_t)__builtin_popcount(core_mask);
    for (size_t i = 0; i < c->n_layers; i++) {
        layers[i].core_mask = core_mask;
        for (uint32_t core = 0, k = 0; core < NPU_MAX_CORES; core++)
            layers[i].core_work[core] =
                core_mask >> core & 1 ? batch_part(&c->model->info, n_cores, k++) : 0;
    }
}

// A paced run measures only the whole job. Each layer gets the share of run_us that the estimate
// gives it: time_us = run_us * estimate_ns / sum of estimate_ns. Rounding the running sum instead
// of each share makes the times add up to run_us exactly.
static void share_time(const struct npu_context *c, const struct npu_job *job,
                       struct npu_layer *layers)
{
    uint64_t sum = 0, so_far = 0, us = 0;
    for (size_t i = 0; i < c->n_layers; i++)
        sum += layers[i].estimate_ns;
    for (size_t i = 0; i < c->n_layers && sum; i++) {
        so_far += layers[i].estimate_ns;
        uint64_t end = (uint64_t)((double)job->run_us * (double)so_far / (double)sum + 0.5);
        layers[i].time_us = end - us;
        us = end;
    }
}

// Fills the profile of the last run (rknn_query PERF_DETAIL): static facts from the shape set,
// measured times from the run, work per core and the time on the chip from the cost model.
static void note_layers(struct npu_context *c, const struct npu_job *job)
{
    if (c->product) {
        struct npu_layer *layer = product_layer(c->product);
        layer->time_us = job->run_us;
        layer->estimate_ns = job->estimate_ns;
        c->layers = layer;
        c->n_layers = 1;
        return;
    }
    const struct sim_shape_set *set = &c->model->shape_sets[job->shape_set];
    struct sim_use *use = &c->uses[job->shape_set];
    c->n_layers = set->plan.n_steps;
    c->layers = use->layers;
    for (size_t i = 0; i < c->n_layers; i++) {
        use->layers[i] = set->layers[i];
        use->layers[i].time_us = use->step_us[i];
    }
    if (job->divide_batch)
        share_batch(c, job->core_mask, use->layers);
    else
        estimate_shares(&set->graph, c->model->chip, job->core_mask, use->layers);
    for (size_t i = 0; i < c->n_layers; i++)
        use->layers[i].estimate_ns = estimate_layer_ns(c->model->chip, &use->layers[i]);
    if (c->model->device->options.paced)
        share_time(c, job, use->layers);
}

// Memory that the program brought for intermediate results (rknn_set_internal_mem). It is used if
// large enough and aligned to 64 bytes, else silently not: see run_place_internal().
static int context_set_internal(struct npu_context *c, void *memory, size_t size,
                                const struct npu_buffer *dmabuf, struct error *e)
{
    (void)dmabuf;
    (void)e;
    c->internal = memory;
    c->internal_size = size;
    return 0;
}

// The program's memory if the arena fits and the kernels' 64-byte alignment holds, else the
// context's own.
static int run_place_internal(struct npu_context *c, struct sim_use *use, struct error *e)
{
    bool fits = use->run.plan->arena_size <= c->internal_size && (uintptr_t)c->internal % 64 == 0;
    return run_place(&use->run, fits ? c->internal : NULL, e);
}

// Inputs in, all steps, outputs out. run_us covers the steps alone: converting inputs and outputs
// is not the NPU's work. `stop` is polled between steps.
static int run_job(struct npu_context *c, struct npu_job *job, struct error *e)
{
    const struct npu_model_info *info = &c->model->info;
    const struct tensor_io *inputs = info->inputs + (size_t)job->shape_set * info->n_inputs;
    const struct tensor_io *outputs = info->outputs + (size_t)job->shape_set * info->n_outputs;
    struct sim_use *use = &c->uses[job->shape_set];
    int r = run_place_internal(c, use, e);
    for (uint32_t i = 0; i < info->n_inputs && r == 0; i++)
        r = sim_put_input(&use->run, i, &inputs[i], &job->inputs[i], e);
    uint64_t start = clock_us();
    use->run.step_us = job->collect_perf ? use->step_us : NULL;
    use->run.before = (struct run_hook){job->custom ? sim_custom : NULL, job->custom};
    use->run.after = (struct run_hook){job->tap ? sim_tap : NULL, job->tap};
    use->run.stop = job->stop;
    use->run.slices = job->slices;
    if (r == 0)
        r = run_steps(&use->run, e);
    job->run_us = clock_us() - start - use->run.waited_us;
    for (uint32_t i = 0; i < info->n_outputs && r == 0; i++)
        r = sim_get_output(&use->run, i, &outputs[i], &job->outputs[i], e);
    return r;
}

// Estimated microseconds of a job on the chip; 0: unknown. chip_us[n] of a shape set is the time
// with n cores sharing each layer. A divided batch instead takes one core's time for the largest
// part, as the job is done when the busiest core is.
static double chip_us(const struct npu_model *m, const struct npu_job *job)
{
    const double *us = m->shape_sets[job->shape_set].chip_us;
    uint32_t n = (uint32_t)__builtin_popcount(job->core_mask);
    if (job->divide_batch)
        return us[1] * batch_part(&m->info, n, 0) / m->info.batch;
    return us[n < NPU_MAX_CORES ? n : NPU_MAX_CORES];
}

// Takes as long as the chip would. A job equal to the last one is answered from the result cache,
// so that a slow CPU can keep the chip's pace; jobs with a tap or custom operators, and those
// without an estimate, are always computed.
static int run_paced(struct npu_context *c, struct npu_job *job, struct error *e)
{
    const struct npu_model *m = c->model;
    const struct sim_shape_set *set = &m->shape_sets[job->shape_set];
    struct estimate_pace pace = {.start_us = clock_us(),
                                 .us = chip_us(m, job) / m->device->options.speed,
                                 .layers = set->layers,
                                 .n_layers = set->graph.n_nodes};
    struct result_cache *cache = &c->uses[job->shape_set].cache;
    int r = 0;
    if (pace.us <= 0 || job->tap || job->custom || !result_cache_answer(cache, job)) {
        r = run_job(c, job, e);
        pace.waited_us = c->uses[job->shape_set].run.waited_us;
        if (r == 0 && !job->custom)
            result_cache_keep(cache, job, m->info.n_inputs, m->info.n_outputs);
    }
    if (r == 0)
        r = estimate_pace(&pace, job, e);
    job->run_us = clock_us() - pace.start_us - pace.waited_us;
    return r;
}

static int run_product(struct npu_context *c, struct npu_job *job, struct error *e)
{
    const struct sim_options *o = &c->model->device->options;
    struct estimate_pace pace = {.start_us = clock_us(), .divides = true};
    int r = product_run(c->product, job, e);
    pace.waited_us = product_waited_us(c->product);
    if (r == 0 && o->paced) {
        pace.us = product_us(c->product) / o->speed;
        r = estimate_pace(&pace, job, e);
    }
    job->run_us = clock_us() - pace.start_us - pace.waited_us;
    return r;
}

// One job: the injected fault of this job, if any, acts before (crash, hang, slow, no memory) or
// after it (wrong output). estimate_ns is set whether or not the device is paced.
static int run_with_faults(struct npu_context *c, struct npu_job *job, struct error *e)
{
    struct npu_model *m = c->model;
    enum sim_fault fault = faults_next(&m->device->faults, m->name);
    int r = fault_before(fault, e);
    if (r == 0)
        r = c->product                 ? run_product(c, job, e)
            : m->device->options.paced ? run_paced(c, job, e)
                                       : run_job(c, job, e);
    if (r == 0) {
        double us = c->product ? product_us(c->product) : chip_us(m, job);
        job->estimate_ns = (uint64_t)(1e3 * us + 0.5);
    }
    if (r == 0)
        fault_after(fault, job->outputs, m->info.n_outputs);
    return r;
}

// Computes the job and calls done() before it returns. The result goes to done(); the return value
// is negative only for a job that was not accepted, for which done() is not called.
static int context_submit(struct npu_context *c, struct npu_job *job, struct error *e)
{
    const struct npu_model *m = c->model;
    c->n_layers = 0;
    if (job->shape_set >= m->info.n_shape_sets)
        return error_set(e, STATUS_INPUT_INVALID, "shapes %u of %u", job->shape_set,
                         m->info.n_shape_sets);
    int r = c->product ? 0 : use_begin(c, job->shape_set, &job->error);
    if (r == 0)
        r = run_with_faults(c, job, &job->error);
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

NPU_BACKEND("sim", .context_set_internal = context_set_internal);
