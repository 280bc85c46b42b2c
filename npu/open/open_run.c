// A segment is a row of nodes that the NPU computes without anybody looking: it ends at a node that
// a CPU computes, where other cores are to work, where all cores have to wait for each other, and
// behind each node when it is measured or shown.
#include "npu/open/open_run.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "npu/open/direct/direct_bind.h"
#include "npu/open/open_io.h"
#include "npu/open/open_layers.h"
#include "npu/open/open_slices.h"
#include "npu/slices.h"
#include "npu/stop.h"

#define TIMEOUT_MS 60000u
#define PPU_ALONE  0x60u // of an enable word

struct open_run {
    struct npu_context *c;
    struct npu_job *job;
    const struct rknn_schedule *schedule;
    unsigned first_core;
    struct provider_range segment[PROVIDER_MAX_CORES]; // of each core of the schedule
    bool filled;
    struct open_slice slice; // the same segment
    uint64_t worked_us;      // of all segments
    uint64_t waited_us;      // between slices
};

// ---- who works ----

// Cores 0 to n - 1 share the layers if the file has programs for so many; else the first does it.
static void choose_schedule(struct open_run *r, uint32_t core_mask)
{
    const struct rknn_program *p = &r->c->model->program;
    unsigned n = (unsigned)__builtin_popcount(core_mask);
    bool row = core_mask == (1u << n) - 1;
    if (r->c->model->provider->ops->info(r->c->model->provider)->one_core_jobs) {
        r->first_core = 0;
        r->schedule = &p->one[0];
        return;
    }
    r->first_core = (unsigned)__builtin_ctz(core_mask);
    if (n > 1 && n <= RKNN_MAX_CORES && row && p->several[n - 2].n_cores)
        r->schedule = &p->several[n - 2];
    else if (r->first_core < RKNN_MAX_CORES && p->one[r->first_core].n_cores)
        r->schedule = &p->one[r->first_core];
    else
        r->schedule = &p->one[0];
}

// A batch that is divided: one core after another takes an input.
static void choose_core(struct open_run *r, uint32_t item)
{
    uint32_t mask = r->job->core_mask, n = (uint32_t)__builtin_popcount(mask);
    for (uint32_t skip = item % n; skip; skip--)
        mask &= mask - 1;
    choose_schedule(r, mask & -mask);
}

// ---- segments ----

// Records are those of all schedules, so that the one that failed says of which node it is.
static int explain_failure(const struct open_run *r, const struct provider_job *job,
                           struct error *e)
{
    const struct npu_model *m = r->c->model;
    if (job->failed >= m->program.n_tasks)
        return e ? e->code : STATUS_FAIL;
    const struct rknn_node *n = &m->file.nodes[m->program.tasks[job->failed].node];
    return error_prefix(e, "node %s (%s)", n->name, n->op);
}

static int submit_segment(struct open_run *r, struct error *e)
{
    const struct npu_model *m = r->c->model;
    struct provider_job job = {
        .tasks = r->c->tasks, .timeout_ms = TIMEOUT_MS, .stop = r->job->stop, .failed = UINT32_MAX};
    unsigned n = 0;
    if (!r->filled)
        return 0;
    for (unsigned i = 0; i < r->schedule->n_cores; i++)
        if (r->segment[i].n) {
            job.core_mask |= 1u << (r->first_core + i);
            job.ranges[n++] = r->segment[i];
        }
    memset(r->segment, 0, sizeof r->segment);
    r->filled = false;
    uint64_t start = clock_us();
    int s = m->provider->ops->submit(m->provider, &job, e);
    uint64_t us = clock_us() - start;
    r->worked_us += us;
    open_slices_took(&r->slice, m, us);
    return s < 0 ? explain_failure(r, &job, e) : 0;
}

// Whether the node's tasks follow those of the segment, on the same cores.
static bool follows_segment(const struct open_run *r, const struct rknn_range *tasks)
{
    bool same = true;
    for (unsigned i = 0; i < r->schedule->n_cores; i++) {
        const struct provider_range *s = &r->segment[i];
        same = same && (s->n != 0) == (tasks[i].n != 0) &&
               (!s->n || s->first + s->n == tasks[i].first);
    }
    return same;
}

// Whether all cores have come to a pool, which RK3588's programs have at the end of a part whose
// cores wait for each other there (decision 181), and can begin anew behind it.
static bool cores_meet(const struct open_run *r, uint32_t node)
{
    const struct npu_model *m = r->c->model;
    bool all = r->schedule->n_cores > 1 && r->filled;
    for (unsigned i = 0; i < r->schedule->n_cores; i++) {
        const struct provider_range *s = &r->segment[i];
        all = all && s->n && m->program.tasks[s->first + s->n - 1].enable == PPU_ALONE;
    }
    return all && open_cuts_of(&m->cuts, &m->program, r->schedule)[node];
}

static bool slice_ends(const struct open_run *r, uint32_t node)
{
    return r->filled && open_slices_full(&r->slice, r->c->model, node, r->schedule, r->job->slices);
}

// Nothing is on its way, and the node needs nothing that is in the NPU.
static bool may_pass(const struct open_run *r, uint32_t node)
{
    const struct npu_model *m = r->c->model;
    return !r->filled && open_cuts_of(&m->cuts, &m->program, r->schedule)[node];
}

// A long node, of which others may have any place between two parts.
static int add_parts(struct open_run *r, uint32_t node, struct error *e)
{
    const struct npu_model *m = r->c->model;
    const struct rknn_range *tasks = &r->schedule->tasks[node];
    int s = submit_segment(r, e);
    uint64_t worked = r->worked_us;
    for (uint32_t done = 0, n; done < tasks->n && s == 0; done += n) {
        n = open_slices_part(m, node, tasks, done, r->job->slices);
        s = npu_slices_pass(r->job->slices, &r->waited_us, e);
        uint32_t first = tasks->first + done;
        r->segment[0] =
            (struct provider_range){done ? open_cuts_record(&m->cuts, first) : first, n};
        r->filled = true;
        if (s == 0)
            s = submit_segment(r, e);
    }
    if (s == 0)
        open_slices_divided(m, node, r->worked_us - worked);
    return s;
}

static int add_node(struct open_run *r, uint32_t node, struct error *e)
{
    const struct rknn_range *tasks = &r->schedule->tasks[(size_t)node * r->schedule->n_cores];
    if (open_slices_divide(r->c->model, node, r->schedule, r->job->slices))
        return add_parts(r, node, e);
    bool ends = r->filled && (!follows_segment(r, tasks) || cores_meet(r, node));
    int s = ends || slice_ends(r, node) ? submit_segment(r, e) : 0;
    if (s == 0 && may_pass(r, node))
        s = npu_slices_pass(r->job->slices, &r->waited_us, e);
    open_slices_add(&r->slice, r->c->model, node);
    for (unsigned i = 0; i < r->schedule->n_cores && s == 0; i++) {
        if (!r->segment[i].n)
            r->segment[i].first = tasks[i].first;
        r->segment[i].n += tasks[i].n;
        r->filled = r->filled || tasks[i].n;
    }
    return s;
}

// ---- what a CPU computes ----

static int run_on_cpu(struct open_run *r, uint32_t node, struct error *e)
{
    const struct npu_model *m = r->c->model;
    const struct graph_node *n = &m->graph.nodes[m->graph_nodes[node]];
    struct sim_node_run *run = r->c->runs[node];
    int s = 0;
    for (uint32_t i = 0; i < n->n_inputs && s == 0; i++) {
        uint32_t tensor = (uint32_t)n->inputs[i];
        if (n->inputs[i] >= 0 && !m->graph.tensors[tensor].constant)
            s = open_read_tensor(r->c, tensor, m->graph.tensors[tensor].channels_last,
                                 sim_node_tensor(run, tensor), e);
    }
    if (s == 0)
        s = sim_node_compute(run, r->job->custom, e);
    for (uint32_t i = 0; i < n->n_outputs && s == 0; i++)
        if (n->outputs[i] >= 0 && (uint32_t)n->outputs[i] < m->file.n_tensors)
            s = open_write_tensor(r->c, (uint32_t)n->outputs[i],
                                  m->graph.tensors[n->outputs[i]].channels_last,
                                  sim_node_tensor(run, (uint32_t)n->outputs[i]), e);
    return s < 0 ? error_prefix(e, "node %s (%s)", n->name, n->type) : 0;
}

// ---- a run ----

// Nothing is to be done for a node whose output is its input, but whoever looks sees that, too.
static int pass_node(struct open_run *r, uint32_t node, struct error *e)
{
    if (!r->job->tap || rknn_node_is_end(&r->c->model->file.nodes[node]))
        return 0;
    int s = submit_segment(r, e);
    return s < 0 ? s : open_layers_show(r->c, node, r->job->tap, e);
}

static int run_node(struct open_run *r, uint32_t node, struct error *e)
{
    const struct npu_model *m = r->c->model;
    bool looked_at = r->job->collect_perf || r->job->tap;
    uint64_t start = clock_us(), waited = r->waited_us;
    int s = 0;
    if (m->steps[node] == OPEN_NOTHING)
        return pass_node(r, node, e);
    if (m->steps[node] == OPEN_NPU) {
        s = add_node(r, node, e);
        if (s < 0 || !looked_at)
            return s;
    }
    s = submit_segment(r, e);
    if (s == 0)
        s = npu_stop_check(r->job->stop, e);
    if (s == 0 && m->steps[node] == OPEN_CPU)
        s = run_on_cpu(r, node, e);
    if (s == 0 && r->job->collect_perf)
        s = open_layers_note(r->c, node, r->schedule, clock_us() - start - (r->waited_us - waited),
                             e);
    if (s == 0 && r->job->tap)
        s = open_layers_show(r->c, node, r->job->tap, e);
    return s;
}

// Tensors in the program's memory are the NPU's from the first part of a batch on, and a CPU's
// again behind the last.
static int put_input(struct open_run *r, uint32_t i, uint32_t item, struct error *e)
{
    if (!r->c->places[i].import)
        return open_put_input(r->c, i, item, &r->job->inputs[i], e);
    return item ? 0 : direct_sync(r->c, i, PROVIDER_TO_DEVICE, e);
}

static int take_output(struct open_run *r, uint32_t i, uint32_t item, uint8_t *whole,
                       struct error *e)
{
    uint32_t port = r->c->model->info.n_inputs + i;
    if (r->c->places[port].import)
        return item + 1 < r->c->model->file.batch
                   ? 0
                   : direct_sync(r->c, port, PROVIDER_FROM_DEVICE, e);
    return whole ? open_take_output(r->c, i, item, whole, e) : 0;
}

static int run_item(struct open_run *r, uint32_t item, uint8_t **outputs, struct error *e)
{
    const struct npu_model *m = r->c->model;
    int s = item ? direct_part(r->c, item, e) : 0;
    if (r->job->divide_batch)
        choose_core(r, item);
    for (uint32_t i = 0; i < m->info.n_inputs && s == 0; i++)
        s = put_input(r, i, item, e);
    uint64_t start = clock_us(), waited = r->waited_us;
    for (uint32_t i = 0; i < m->file.n_nodes && s == 0; i++)
        s = run_node(r, i, e);
    if (s == 0)
        s = submit_segment(r, e);
    r->job->run_us += clock_us() - start - (r->waited_us - waited);
    for (uint32_t i = 0; i < m->info.n_outputs && s == 0; i++)
        s = take_output(r, i, item, outputs[i], e);
    return s;
}

// Room for outputs that are converted behind the run; what stays in the program's memory needs
// none.
static int make_outputs(const struct npu_context *c, const struct npu_job *job, uint8_t **outputs,
                        struct error *e)
{
    const struct npu_model *m = c->model;
    for (uint32_t i = 0; i < m->info.n_outputs; i++) {
        if (!job->outputs[i].data || c->places[m->info.n_inputs + i].import)
            continue;
        outputs[i] = malloc(m->info.outputs[i].logical.size + 1);
        if (!outputs[i])
            return error_no_memory(e, "an output", m->info.outputs[i].logical.size);
    }
    return 0;
}

int open_run(struct npu_context *c, struct npu_job *job, struct error *e)
{
    const struct npu_model *m = c->model;
    struct open_run r = {.c = c, .job = job};
    cleanup(free_p) uint8_t **outputs = calloc((size_t)m->info.n_outputs + 1, sizeof *outputs);
    if (!outputs)
        return error_no_memory(e, "outputs", m->info.n_outputs * sizeof *outputs);
    int s = open_context_place(c, e);
    if (s == 0)
        s = direct_bind(c, job->tap ? NULL : job, e);
    if (s == 0)
        s = make_outputs(c, job, outputs, e);
    job->run_us = 0;
    choose_schedule(&r, job->core_mask);
    open_layers_begin(c);
    for (uint32_t item = 0; item < m->file.batch && s == 0; item++)
        s = run_item(&r, item, outputs, e);
    for (uint32_t i = 0; i < m->info.n_outputs && s == 0; i++)
        if (outputs[i])
            s = open_give_output(m, i, outputs[i], &job->outputs[i], e);
    for (uint32_t i = 0; i < m->info.n_outputs; i++)
        free(outputs[i]);
    return s;
}
