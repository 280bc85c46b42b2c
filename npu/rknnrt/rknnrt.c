// Backend "vendor": hands models to the board's own runtime library. Options: rknnrt_options.h.
//
//      device     the board's chip and the opened library
//      model      up to three sets of runtime contexts ("lanes"), opened when first needed:
//                 lanes: jobs that are copied; direct: dma-bufs; measured: times of layers
//      context    no runtime context of its own: each job borrows a lane
//
// Jobs of different contexts come on different threads; context_submit() blocks until the runtime
// is done. The library parses the files itself, so a damaged one may crash the process: npu.h says
// in which that is.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "npu/batch.h"
#include "npu/npu_board.h"
#include "npu/rknnrt/dump/rknnrt_dump.h"
#include "npu/rknnrt/lanes/lane_direct.h"
#include "npu/rknnrt/lanes/lanes.h"
#include "npu/rknnrt/perf_table.h"
#include "npu/rknnrt/rknnrt_describe.h"
#include "npu/rknnrt/rknnrt_matmul.h"
#include "npu/rknnrt/rknnrt_options.h"
#include "npu/rknnrt/rknnrt_query.h"
#include "npu/rknnrt/shape_sets.h"

struct npu_device {
    struct vendor_options options;
    struct runtime runtime;
    struct npu_device_info info;
};

// A graph, or a product of matrices.
struct npu_model {
    struct npu_device *device;
    struct product *product; // NULL: a graph
    struct lanes lanes;
    struct lanes direct;   // of jobs with tensors in dma-bufs that the NPU can have where they are
    struct lanes measured; // of jobs whose layers are measured: that takes a flag of rknn_init()
    struct npu_model_info info;
    rknn_custom_string custom_string;
};

// A job of a graph brings all that it needs, so the runtime's contexts are not tied to these.
struct npu_context {
    struct npu_model *model;
    struct product_use *product; // NULL: a graph
    struct perf perf;            // of the last job, if it was measured
};

// ---- device ----

// Without rknn_set_core_mask (runtimes before 1.4) the runtime chooses the core, so only one is
// offered to the scheduler.
static void fill_device(struct npu_device *d, const struct board *b)
{
    const struct runtime *r = &d->runtime;
    d->info = (struct npu_device_info){.backend = "vendor", .n_cores = b->n_cores, .dma = true};
    if (b->n_cores > 1 && !r->set_core_mask) {
        struct error e;
        runtime_lacks(r, "rknn_set_core_mask", &e);
        log_warn("backend vendor: one core of %u can be chosen: %s", b->n_cores, e.text);
        d->info.n_cores = 1;
    }
    snprintf(d->info.chip, sizeof d->info.chip, "%s", b->chip);
    snprintf(d->info.runtime_version, sizeof d->info.runtime_version, "%s", r->version);
    snprintf(d->info.driver_version, sizeof d->info.driver_version, "%s",
             *b->driver ? b->driver : "unknown");
}

// What the runtime opens by itself cannot be known. These are the nodes of Rockchip's kernels: NPU,
// memory, and the GPU and 2D engine for custom operators.
static const char *const device_nodes[] = {"/dev/rknpu", "/dev/dri", "/dev/dma_heap", "/dev/mali0",
                                           "/dev/rga"};

static int list_paths(const char *options, npu_add_path *add, void *owner, struct error *e)
{
    struct vendor_options o;
    if (vendor_options_parse(options, &o, e) < 0)
        return 0;
    char *slash = strrchr(o.library, '/');
    if (slash)
        *slash = 0;
    int r = slash ? add(owner, o.library, NPU_ACCESS_READ, e) : 0;
    if (r == 0)
        r = add(owner, "/oem/usr/lib", NPU_ACCESS_READ, e);
    if (r == 0)
        r = add(owner, o.compatible, NPU_ACCESS_READ, e);
    if (r == 0)
        r = add(owner, o.dumps[0] ? o.dumps : dump_usual_folder(), NPU_ACCESS_WRITE, e);
    r = r == 0 ? board_list_paths(add, owner, e) : r;
    for (size_t i = 0; r == 0 && i < sizeof device_nodes / sizeof *device_nodes; i++)
        r = add(owner, device_nodes[i], NPU_ACCESS_DEVICE, e);
    return r;
}

// The order is by cost and by what the user can mend: options, board, library.
static int device_open(const char *options, struct npu_device **ret, struct error *e)
{
    struct board board;
    cleanup(free_p) struct npu_device *d = calloc(1, sizeof *d);
    if (!d)
        return error_no_memory(e, "a device", sizeof *d);
    int s = vendor_options_parse(options, &d->options, e);
    if (s == 0)
        s = board_read(d->options.compatible, &board, e);
    if (s == 0)
        s = runtime_open(&d->runtime, d->options.library, board.small, e);
    if (s < 0)
        return s;
    fill_device(d, &board);
    log_debug("backend vendor: %s, version %s, on %s", d->runtime.path, d->runtime.version,
              d->info.chip);
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

// Direct lanes first: they are duplicates of the others. A product's tensors are its own.
static void model_free(struct npu_model *m)
{
    if (!m)
        return;
    lanes_done(&m->direct);
    lanes_done(&m->lanes);
    lanes_done(&m->measured);
    if (!m->product) {
        free((void *)m->info.inputs);
        free((void *)m->info.outputs);
    }
    free(m->product);
    free(m);
}

CLEANUP_DEFINE(struct npu_model, model_free)

// What the runtime tells of an opened model. Runtimes that do not state how much memory they have
// allocated leave that field 0; then weights and activations are the best estimate.
static int fill_model(struct npu_model *m, rknn_context c, struct error *e)
{
    const struct runtime *r = &m->device->runtime;
    struct npu_model_info *info = &m->info;
    rknn_mem_size memory;
    int s = rows_query(r, c, info, e);
    if (s == 0)
        s = query_memory(r, c, &memory, e);
    if (s != 0)
        return s;
    query_custom_string(r, c, &m->custom_string);
    info->weight_size = memory.total_weight_size;
    info->internal_size = memory.total_internal_size;
    info->memory_size = memory.total_dma_allocated_size ? memory.total_dma_allocated_size
                                                        : info->weight_size + info->internal_size;
    info->core_limit = m->device->info.n_cores;
    info->batch = npu_batch(info);
    info->custom_string = m->custom_string.string;
    info->native_attrs = r->small;
    info->no_custom = true; // the runtime does not tell a model's nodes
    return 0;
}

// A product of matrices is no .rknn file: the client sends its parameters in the form of one
// (product_io.h).
static int load_product(struct npu_model *m, struct bytes file, struct error *e)
{
    const struct npu_device *d = m->device;
    m->product = malloc(sizeof *m->product);
    if (!m->product)
        return error_no_memory(e, "a matmul", sizeof *m->product);
    int s = product_init(m->product, &d->runtime, d->info.chip, file, e);
    if (s < 0)
        return s;
    product_io_info(&m->product->io, &m->info);
    m->info.memory_size = sizeof *m->product;
    m->info.core_limit = d->info.n_cores;
    return 0;
}

// Opens the first lane, which is where the runtime parses the file and may refuse it.
static int load_graph(struct npu_model *m, const struct npu_model_source *source, struct error *e)
{
    struct lane *lane;
    if (source->options && *source->options)
        return error_set(e, STATUS_PARAM_INVALID,
                         "shapes can be chosen (rknnctl --shape, rknnd_set_load_options) for ONNX "
                         "models only, which the vendor's runtime does not take: convert the "
                         "model with these shapes");
    int s = lanes_take(&m->lanes, 0, &lane, e);
    if (s < 0)
        return s;
    s = fill_model(m, lane->context, e);
    lanes_give(&m->lanes, lane);
    return s;
}

// The three sets of lanes are only prepared here; the source's file must stay mapped as long as the
// model.
static int model_load(struct npu_device *d, const struct npu_model_source *source,
                      struct npu_model **ret, struct error *e)
{
    cleanup(model_free_p) struct npu_model *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a model", sizeof *m);
    m->device = d;
    lanes_init(&m->lanes, &d->runtime, source->file, 0, d->info.n_cores, &m->info);
    lanes_init_memory(&m->direct, &m->lanes);
    lanes_init(&m->measured, &d->runtime, source->file, RKNN_FLAG_COLLECT_PERF_MASK, 1, &m->info);
    int s =
        matmul_model_is(source->file) ? load_product(m, source->file, e) : load_graph(m, source, e);
    if (s == 0)
        *ret = steal_ptr(m);
    return s;
}

static const struct npu_model_info *model_info(const struct npu_model *m)
{
    return &m->info;
}

// Loads the model to have the runtime describe it; one that it refuses is described by the refusal.
static int model_describe(struct npu_device *d, const struct npu_model_source *source, char **ret,
                          struct error *e)
{
    struct npu_model *m = NULL;
    struct error why;
    int s = model_load(d, source, &m, &why);
    s = describe(&source->file, s < 0 ? NULL : &m->info, why.text, ret, e);
    model_free(m);
    return s;
}

// ---- context ----

// Each lane may still hold dma-bufs that jobs of this context were bound to.
static void context_free(struct npu_context *c)
{
    if (!c)
        return;
    lanes_forget(&c->model->lanes, c);
    lanes_forget(&c->model->direct, c);
    lanes_forget(&c->model->measured, c);
    product_use_free(c->product);
    perf_done(&c->perf);
    free(c);
}

CLEANUP_DEFINE(struct npu_context, context_free)

static int context_new(struct npu_model *m, struct npu_context **ret, struct error *e)
{
    cleanup(context_free_p) struct npu_context *c = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(e, "a context", sizeof *c);
    c->model = m;
    int s = m->product ? product_use_new(m->product, &c->product, e) : 0;
    if (s == 0)
        *ret = steal_ptr(c);
    return s;
}

// Reads the runtime's text table of layer times. A table that is not understood costs the job
// nothing but its layers.
static void note_layers(struct npu_context *c, const struct lane *lane)
{
    struct error e;
    struct bytes table;
    int s = query_perf(lane->runtime, lane->context, &table, &e);
    if (s == 0)
        s = perf_parse(table, &c->perf, &e);
    if (s < 0)
        log_warn("no times of layers: %s", e.text);
}

static struct lanes *choose_lanes(struct npu_model *m, const struct npu_job *job)
{
    if (job->collect_perf)
        return &m->measured;
    return lane_direct_helps(&m->device->runtime, &m->info, job) ? &m->direct : &m->lanes;
}

// Blocks. Jobs with a tap (who wants the tensors between layers) run in a context of their own with
// dumping on; all others borrow a lane.
static int run(struct npu_context *c, struct npu_job *job, struct error *e)
{
    struct npu_model *m = c->model;
    uint32_t cores = m->device->info.n_cores > 1 ? job->core_mask : 0;
    struct lane *lane;
    if (c->product)
        return product_use_run(c->product, job, cores, e);
    if (job->tap)
        return dump_run(&m->device->runtime, m->lanes.file, &m->info, m->device->options.dumps, job,
                        cores, e);
    struct lanes *lanes = choose_lanes(m, job);
    int s = lanes_take(lanes, cores, &lane, e);
    if (s < 0)
        return s;
    s = lane_run(lane, job, c, cores, e);
    if (s == 0 && job->collect_perf)
        note_layers(c, lane);
    lanes_give(lanes, lane);
    return s;
}

// Runs the job at once: errors of the job go to done(), so that this never fails.
static int context_submit(struct npu_context *c, struct npu_job *job, struct error *e)
{
    (void)e;
    perf_done(&c->perf);
    job->done(job, run(c, job, &job->error));
    return 0;
}

static const struct npu_layer *context_layers(const struct npu_context *c, size_t *ret_n)
{
    *ret_n = c->perf.n;
    return c->perf.layers;
}

NPU_BACKEND("vendor", .list_paths = list_paths);
