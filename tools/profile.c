// A model's runs and layers, measured.
#include "tools/profile.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cleanup.h"
#include "tools/interrupt.h"
#include "tools/report.h"
#include "tools/terminal.h"

#define INDENT "  "

// ---- measuring ---------------------------------------------------------------------------------

static int init(struct profile *p, uint32_t loop, struct failure *f)
{
    p->run_us = calloc(loop, sizeof *p->run_us);
    p->queue_us = calloc(loop, sizeof *p->queue_us);
    p->total_us = calloc(loop, sizeof *p->total_us);
    return p->run_us && p->queue_us && p->total_us ? 0 : failure_no_memory(f);
}

// The number of layers shows with the first run.
static int keep_layers(struct profile *p, rknnd_layer *layers, uint32_t n, uint32_t loop,
                       struct failure *f)
{
    rknnd_free(p->layer_list);
    p->layer_list = layers;
    if (!p->layer_us) {
        p->layers.n_layers = n;
        p->layer_us = calloc((size_t)n * loop + 1, sizeof *p->layer_us);
    }
    if (!p->layer_us)
        return failure_no_memory(f);
    if (n != p->layers.n_layers)
        return failure_set(f, EXIT_RUNTIME, "the model has %u layers, and then %u",
                           p->layers.n_layers, n);
    for (uint32_t i = 0; i < n; i++)
        p->layer_us[(size_t)i * loop + p->n_runs] = layers[i].time_us;
    return 0;
}

static int run_once(struct profile *p, const struct model *m, uint32_t loop, struct failure *f)
{
    rknnd_run_info info = {.struct_size = sizeof info};
    rknnd_layer *layers;
    uint32_t n;
    int r = rknn_run(m->context, NULL);
    if (r == RKNN_SUCC)
        r = rknnd_get_run_info(m->context, &info);
    if (r == RKNN_SUCC)
        r = rknnd_get_layers(m->context, &layers, &n);
    if (r < 0)
        return failure_rknn(f, r, "model %s", m->path);
    r = keep_layers(p, layers, n, loop, f);
    if (r)
        return r;
    p->run_us[p->n_runs] = info.run_us;
    p->queue_us[p->n_runs] = info.queue_us;
    p->total_us[p->n_runs++] = info.total_us;
    return 0;
}

// Rows of layer times as long as there were runs, each sorted.
static void finish(struct profile *p, uint32_t loop)
{
    uint32_t n = p->n_runs;
    for (size_t i = 0; i < p->layers.n_layers; i++) {
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

static int run_all(struct profile *p, const struct model *m, const struct profile_plan *plan,
                   struct failure *f)
{
    struct progress progress;
    int r = 0;
    progress_start_counting(&progress, "runs");
    for (uint32_t i = 0; i < plan->warmup && r == 0 && !interrupt_seen(); i++) {
        r = rknn_run(m->context, NULL);
        if (r < 0)
            r = failure_rknn(f, r, "model %s", m->path);
    }
    while (r == 0 && p->n_runs < plan->loop && !(p->n_runs && interrupt_seen())) {
        r = run_once(p, m, plan->loop, f);
        progress_count(&progress, p->n_runs, plan->loop);
    }
    progress_end(&progress);
    if (r == 0)
        finish(p, plan->loop);
    return r;
}

static int measure(struct profile *p, const struct model *m, const struct profile_plan *plan,
                   struct failure *f)
{
    cleanup(input_set_done) struct input_set inputs = {0};
    int r = plan->task.inputs.n ? task_load(&plan->task, m, &inputs, f)
                                : input_set_random(&inputs, m, plan->seed, f);
    if (r)
        return r;
    r = rknn_inputs_set(m->context, inputs.n, inputs.inputs);
    if (r < 0)
        return failure_rknn(f, r, "model %s", m->path);
    interrupt_defer();
    r = init(p, plan->loop, f);
    return r ? r : run_all(p, m, plan, f);
}

int profile_measure(struct profile *p, const struct profile_plan *plan, struct failure *f)
{
    struct model m;
    *p = (struct profile){0};
    int r = task_open(&plan->task, RKNN_FLAG_COLLECT_PERF_MASK, &m, f);
    if (r == 0)
        r = report_get_server(&p->server, f);
    if (r == 0)
        r = measure(p, &m, plan, f);
    if (r == 0)
        r = frequencies_get(&p->frequencies, f);
    model_close(&m);
    return r;
}

void profile_done(struct profile *p)
{
    frequencies_done(&p->frequencies);
    rknnd_free(p->layer_list);
    free(p->layer_us);
    free(p->run_us);
    free(p->queue_us);
    free(p->total_us);
    *p = (struct profile){0};
}

// ---- showing -----------------------------------------------------------------------------------

json_t *profile_json(const struct profile *p)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "runs", (json_int_t)p->n_runs,
                     "layers", layers_json(&p->layers), "operators",
                     layers_ranking_json(&p->layers), "run_us",
                     report_percentiles_json(p->run_us, p->n_runs, 1), "queue_us",
                     report_percentiles_json(p->queue_us, p->n_runs, 1), "total_us",
                     report_percentiles_json(p->total_us, p->n_runs, 1), "layers_us",
                     (json_int_t)layers_total_us(&p->layers), "layers_bytes",
                     (json_int_t)layers_total_bytes(&p->layers), "frequencies",
                     frequencies_json(&p->frequencies));
}

static int print_layers(const struct profile *p, struct failure *f)
{
    size_t width = terminal_width(stdout);
    report_heading("Layers, medians of %u run%s", p->n_runs, p->n_runs == 1 ? "" : "s");
    if (p->layers.n_layers == 0) {
        printf(INDENT "none: the device gives no times of layers\n");
        return 0;
    }
    if (layers_print(&p->layers, stdout, INDENT, width) < 0)
        return failure_no_memory(f);
    report_heading("Operators");
    if (layers_print_ranking(&p->layers, stdout, INDENT, width) < 0)
        return failure_no_memory(f);
    return 0;
}

int profile_print(const struct profile *p, struct failure *f)
{
    int r = print_layers(p, f);
    if (r)
        return r;
    report_heading("Totals");
    if (p->layers.n_layers) {
        printf(INDENT "Total Operator Elapsed Per Frame Time(us): %llu\n",
               (unsigned long long)layers_total_us(&p->layers));
        printf(INDENT "Total Memory Read/Write Per Frame Size(KB): %llu\n",
               (unsigned long long)layers_total_bytes(&p->layers) / 1024);
    }
    report_times("queue", p->queue_us, p->n_runs);
    report_times("run", p->run_us, p->n_runs);
    report_times("total", p->total_us, p->n_runs);
    frequencies_print(&p->frequencies);
    return 0;
}
