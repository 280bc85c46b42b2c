// Measures a model's runs and layers in one context, for perf, report and compare. Layer times are
// kept as a matrix that is compacted and sorted row by row at the end:
//
//   layer_us[layer * loop + run]     while measuring, one row for each layer
//   layer_us[layer * n_runs + i]     afterwards, each row sorted: order statistics by index
//
// Asking for layer times may serialize what a device otherwise overlaps, so run times here can be
// longer than those of `rknnctl bench`.
#include "tools/run/measured.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

#define INDENT "  "

// ---- measuring ---------------------------------------------------------------------------------

static int measured_init(struct profile *p, uint32_t loop, struct error *e)
{
    p->run_us = calloc(loop, sizeof *p->run_us);
    p->queue_us = calloc(loop, sizeof *p->queue_us);
    p->total_us = calloc(loop, sizeof *p->total_us);
    return p->run_us && p->queue_us && p->total_us ? 0 : error_no_memory(e, "a measurement", 0);
}

// Takes the list. The matrix is allocated with the first run, which tells the number of layers; a
// model whose number changes from run to run cannot be put in one table.
static int keep_layers(struct profile *p, rknnd_list *layers, uint32_t loop, struct error *e)
{
    uint32_t n = layers->n, before = p->layer_list ? p->layer_list->n : n;
    rknnd_free(p->layer_list);
    p->layer_list = layers;
    if (!p->layer_us)
        p->layer_us = calloc((size_t)n * loop + 1, sizeof *p->layer_us);
    if (!p->layer_us)
        return error_no_memory(e, "a measurement", 0);
    if (n != before)
        return error_set(e, STATUS_FAIL, "the model has %u layers, and then %u", before, n);
    for (uint32_t i = 0; i < n; i++)
        p->layer_us[(size_t)i * loop + p->n_runs] = rknnd_layer_at(layers, i)->time_us;
    return 0;
}

// One measured run. n_runs counts only those whose times are complete.
static int run_once(struct profile *p, const struct model *m, uint32_t loop, struct error *e)
{
    rknnd_run_info info = {.struct_size = sizeof info};
    rknnd_list *layers;
    int r = rknn_run(m->context, NULL);
    if (r == RKNN_SUCC)
        r = rknnd_get_run_info(m->context, &info);
    if (r == RKNN_SUCC)
        r = rknnd_get_layers(m->context, &layers);
    if (r != RKNN_SUCC)
        return rknn_error_model(e, r, m->path);
    r = keep_layers(p, layers, loop, e);
    if (r)
        return r;
    p->layers.timing = timing_of(&info);
    p->estimate_ns = info.estimate_ns;
    p->run_us[p->n_runs] = info.run_us;
    p->queue_us[p->n_runs] = info.queue_us;
    p->total_us[p->n_runs++] = info.total_us;
    return 0;
}

// Compacts the rows to the runs there were, then sorts each. Rows move towards the beginning in
// order, so none is overwritten before it has moved.
static void measured_finish(struct profile *p, uint32_t loop)
{
    uint32_t n = p->n_runs;
    for (size_t i = 0; i < p->layer_list->n; i++) {
        memmove(p->layer_us + i * n, p->layer_us + i * loop, n * sizeof *p->layer_us);
        stats_sort(p->layer_us + i * n, n);
    }
    stats_sort(p->run_us, n);
    stats_sort(p->queue_us, n);
    stats_sort(p->total_us, n);
    p->layers.layers = p->layer_list;
    p->layers.us = p->layer_us;
    p->layers.n_runs = n;
}

// Ctrl-C ends the loop, but not before the first run: without one there is nothing to show. After a
// failure what was measured stays usable, hence the second failure that is ignored.
static int run_all(struct profile *p, const struct model *m, const struct profile_plan *plan,
                   struct error *e)
{
    struct progress progress;
    int r = 0;
    progress_start_counting(&progress, "runs", plan->loop);
    for (uint32_t i = 0; i < plan->warmup && r == 0 && !interrupt_seen(); i++) {
        r = rknn_run(m->context, NULL);
        if (r < 0)
            r = rknn_error_model(e, r, m->path);
    }
    while (r == 0 && p->n_runs < plan->loop && !(p->n_runs && interrupt_seen())) {
        r = run_once(p, m, plan->loop, e);
        progress_count(&progress, p->n_runs, plan->loop);
    }
    progress_end(&progress);
    if (p->n_runs)
        measured_finish(p, plan->loop);
    if (p->n_runs && plan->sort) {
        struct error ignored;
        int sorted = layers_sort(&p->layers, plan->sort, &p->order, r ? &ignored : e);
        r = r ? r : sorted;
    }
    p->layers.order = p->order;
    return r;
}

// The inputs are set once: transfers of inputs are not measured here.
static int measured_runs(struct profile *p, const struct model *m, const struct profile_plan *plan,
                         struct error *e)
{
    cleanup(input_set_done) struct input_set inputs = {0};
    int r = plan->task.inputs.n ? task_load(&plan->task, m, &inputs, e)
                                : input_set_random(&inputs, m, plan->seed, e);
    if (r)
        return r;
    r = input_set_give(&inputs, m->context);
    if (r < 0)
        return rknn_error_model(e, r, m->path);
    interrupt_defer();
    r = measured_init(p, plan->loop, e);
    return r ? r : run_all(p, m, plan, e);
}

// Clocks are read right after the last run, while the governor still sees the load.
int profile_measure(struct profile *p, const struct profile_plan *plan, struct error *e)
{
    struct model m;
    *p = (struct profile){0};
    int r = task_open(&plan->task, RKNN_FLAG_COLLECT_PERF_MASK, &m, e);
    if (r == 0)
        r = print_get_server(&p->server, e);
    if (r == 0)
        r = measured_runs(p, &m, plan, e);
    if (r == 0)
        r = frequencies_get(&p->frequencies, e);
    if (r == 0)
        heat_get(&p->heat);
    model_close(&m);
    return r;
}

void profile_done(struct profile *p)
{
    frequencies_done(&p->frequencies);
    heat_done(&p->heat);
    rknnd_free(p->layer_list);
    free(p->layer_us);
    free(p->order);
    free(p->run_us);
    free(p->queue_us);
    free(p->total_us);
    *p = (struct profile){0};
}

// ---- showing -----------------------------------------------------------------------------------

// The names of times tell an NPU from a software NPU (timing.h).
json_t *profile_json(const struct profile *p)
{
    const struct timing *t = &p->layers.timing;
    json_t *o = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "runs", (json_int_t)p->n_runs,
                          "timing", timing_json(t), "layers", layers_json(&p->layers), "operators",
                          layers_ranking_json(&p->layers), "queue_us",
                          print_percentiles_json(p->queue_us, p->n_runs, 1), "total_us",
                          print_percentiles_json(p->total_us, p->n_runs, 1), "layers_bytes",
                          (json_int_t)layers_total_bytes(&p->layers), "frequencies",
                          frequencies_json(&p->frequencies));
    json_object_set_new(o, "sensors", heat_json(&p->heat));
    timing_put(t, o, "run_us", print_percentiles_json(p->run_us, p->n_runs, 1),
               timing_estimate(p->estimate_ns));
    timing_put(t, o, "layers_us", json_integer((json_int_t)layers_total_us(&p->layers)),
               timing_estimate(layers_estimate_ns(&p->layers)));
    return o;
}

static int print_layers(const struct profile *p, struct error *e)
{
    size_t width = terminal_width(stdout);
    print_heading("Layers, medians of %u run%s", p->n_runs, p->n_runs == 1 ? "" : "s");
    if (p->layers.layers->n == 0) {
        printf(INDENT "none: the device gives no times of layers\n");
        return 0;
    }
    if (layers_print(&p->layers, stdout, INDENT, width) < 0)
        return error_no_memory(e, "a measurement", 0);
    print_heading("Operators");
    if (layers_print_ranking(&p->layers, stdout, INDENT, width) < 0)
        return error_no_memory(e, "a measurement", 0);
    return 0;
}

// The lines are worded as in the vendor's perf tables (RKNN_QUERY_PERF_DETAIL).
static void print_elapsed(const struct profile *p)
{
    unsigned long long us = layers_total_us(&p->layers);
    uint64_t ns = layers_estimate_ns(&p->layers);
    if (!p->layers.timing.software) {
        printf(INDENT "Total Operator Elapsed Per Frame Time(us): %llu\n", us);
        return;
    }
    if (ns)
        printf(INDENT "Total Operator Elapsed Per Frame Estimate(us): %.1f\n", (double)ns / 1e3);
    printf(INDENT "Total Operator Elapsed Per Frame Machine(us): %llu\n", us);
}

// Layers, operators, totals, then the clocks they were measured with.
int profile_print(const struct profile *p, struct error *e)
{
    const struct timing *t = &p->layers.timing;
    int r = print_layers(p, e);
    if (r)
        return r;
    print_heading("Totals");
    if (p->layers.layers->n) {
        print_elapsed(p);
        printf(INDENT "Total Memory Read/Write Per Frame Size(KB): %llu\n",
               (unsigned long long)layers_total_bytes(&p->layers) / 1024);
    }
    print_times("queue", p->queue_us, p->n_runs);
    print_estimate(t, p->estimate_ns);
    print_times(t->software ? "machine run" : "run", p->run_us, p->n_runs);
    print_times("total", p->total_us, p->n_runs);
    timing_print(t, &p->server, stdout, INDENT);
    frequencies_print(&p->frequencies);
    print_heading("Heat and power");
    fputs(INDENT, stdout);
    heat_print_rest(&p->heat, stdout);
    return 0;
}
