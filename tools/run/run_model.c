// `rknnctl run`: opens the model, sets the inputs once, runs it --loop times, and takes the outputs
// of the last run. run_text.c and run_json.c show the result.
#include "tools/run/run_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tools/format/npy_file.h"
#include "tools/format/tensor_file.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"

// ---- runs
// -----------------------------------------------------------------------------------------

static int times_init(struct run_times *t, uint32_t n, struct error *e)
{
    t->queue_us = calloc(n, sizeof *t->queue_us);
    t->run_us = calloc(n, sizeof *t->run_us);
    t->total_us = calloc(n, sizeof *t->total_us);
    return t->queue_us && t->run_us && t->total_us ? 0 : error_no_memory(e, "outputs", 0);
}

// n_repeated counts runs that the server did twice because a worker died.
static int run_once(const struct model *m, struct run_times *t, struct error *e)
{
    rknnd_run_info info = {.struct_size = sizeof info};
    int r = rknn_run(m->context, NULL);
    if (r == RKNN_SUCC)
        r = rknnd_get_run_info(m->context, &info);
    if (r < 0)
        return rknn_error_model(e, r, m->path);
    t->queue_us[t->n] = info.queue_us;
    t->timing = timing_of(&info);
    t->estimate_ns = info.estimate_ns;
    t->run_us[t->n] = info.run_us;
    t->total_us[t->n] = info.total_us;
    t->n_repeated += info.attempts > 1;
    t->n++;
    return 0;
}

// Ctrl-C ends a loop after the run that is under way; a single run it ends at once.
static int run_all(struct run_state *s, const struct run_plan *plan, struct error *e)
{
    struct run_times *t = &s->result.times;
    int r = times_init(t, plan->loop, e);
    if (r)
        return r;
    if (plan->loop > 1)
        interrupt_defer();
    r = input_set_give(&s->inputs, s->model.context);
    if (r < 0)
        return rknn_error_model(e, r, s->model.path);
    struct progress progress;
    progress_start_counting(&progress, plan->loop > 1 ? "runs" : "run",
                            plan->loop > 1 ? plan->loop : 0);
    for (r = 0; r == 0 && t->n < plan->loop && !(t->n > 0 && interrupt_seen());
         progress_step(&progress))
        r = run_once(&s->model, t, e);
    progress_end(&progress);
    stats_sort(t->queue_us, t->n);
    stats_sort(t->run_us, t->n);
    stats_sort(t->total_us, t->n);
    return r;
}

// ---- outputs
// --------------------------------------------------------------------------------------

// FOLDER/out<i>.npy; the name is the result's to free.
static int write_output(const struct run_plan *plan, const rknn_tensor_attr *attr,
                        rknn_tensor_type type, const void *data, char **ret_file, struct error *e)
{
    char *file;
    if (asprintf(&file, "%s/out%u.npy", plan->folder, attr->index) < 0)
        return error_no_memory(e, "outputs", 0);
    *ret_file = file;
    return npy_file_write(file, type, attr->dims, attr->n_dims, data, e);
}

// The library allocates the buffer; rknn_outputs_release() frees it.
static int get_output(const struct model *m, uint32_t index, bool want_float, rknn_output *ret,
                      struct error *e)
{
    *ret = (rknn_output){.index = index, .want_float = want_float};
    int r = rknn_outputs_get(m->context, 1, ret, NULL);
    return r < 0 ? rknn_error_model(e, r, m->path) : 0;
}

// The output once more, in the model's own type: rknn_outputs_get() converts or does not for all of
// its outputs at once.
static int write_raw(const struct model *m, uint32_t index, const struct run_plan *plan,
                     char **ret_file, struct error *e)
{
    const rknn_tensor_attr *attr = &m->outputs[index];
    rknn_output output;
    int r = get_output(m, index, false, &output, e);
    if (r)
        return r;
    r = write_output(plan, attr, attr->type, output.buf, ret_file, e);
    rknn_outputs_release(m->context, 1, &output);
    return r;
}

// Statistics are of the float values; the file has those or, with --raw, the stored ones.
static int take_output(const struct model *m, uint32_t index, const struct run_plan *plan,
                       struct run_output *ret, struct error *e)
{
    const rknn_tensor_attr *attr = &m->outputs[index];
    rknn_output output;
    int r = get_output(m, index, true, &output, e);
    if (r)
        return r;
    ret->n_top = values_top(output.buf, attr->n_elems, ret->top, plan->top);
    ret->range = values_range(output.buf, attr->n_elems);
    if (plan->folder && !plan->raw)
        r = write_output(plan, attr, RKNN_TENSOR_FLOAT32, output.buf, &ret->file, e);
    rknn_outputs_release(m->context, 1, &output);
    if (r == 0 && plan->folder && plan->raw)
        r = write_raw(m, index, plan, &ret->file, e);
    return r;
}

static int take_outputs(struct run_state *s, const struct run_plan *plan, struct error *e)
{
    s->result.outputs =
        calloc(s->model.n_outputs ? s->model.n_outputs : 1, sizeof *s->result.outputs);
    if (!s->result.outputs)
        return error_no_memory(e, "outputs", 0);
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < s->model.n_outputs; i++)
        r = take_output(&s->model, i, plan, &s->result.outputs[i], e);
    return r;
}

// ---- all of it
// ------------------------------------------------------------------------------------

// Layers and memory, for --perf only: the model was opened with RKNN_FLAG_COLLECT_PERF_MASK.
static int take_perf(struct run_state *s, struct error *e)
{
    struct run_result *result = &s->result;
    result->has_perf = true;
    int r = rknnd_get_layers(s->model.context, &result->layers);
    if (r == RKNN_SUCC)
        r = rknn_query(s->model.context, RKNN_QUERY_MEM_SIZE, &result->memory,
                       sizeof result->memory);
    return r < 0 ? rknn_error_model(e, r, s->model.path) : 0;
}

// Before the runs: what cannot be written should not cost them.
static int check_plan(const struct run_plan *plan, const struct model *m, struct error *e)
{
    int r = plan->folder ? tensor_folder_make(plan->folder, e) : 0;
    if (r)
        return r;
    for (uint32_t i = 0; plan->folder && plan->raw && i < m->n_outputs; i++)
        if (!npy_file_type_size(m->outputs[i].type))
            return error_set(e, STATUS_FAIL,
                             "output %u is %s, which numpy has no type for; "
                             "leave out --raw",
                             i, get_type_string(m->outputs[i].type));
    return 0;
}

// The result points into the state, which therefore must not move.
int run_execute(struct run_state *s, const struct run_plan *plan, struct error *e)
{
    uint32_t flags = plan->perf ? RKNN_FLAG_COLLECT_PERF_MASK : 0;
    *s = (struct run_state){.result = {.model = &s->model, .inputs = &s->inputs}};
    int r = task_open(&plan->task, flags, &s->model, e);
    if (r == 0)
        r = print_get_server(&s->result.server, e);
    if (r == 0)
        r = task_load(&plan->task, &s->model, &s->inputs, e);
    if (r == 0)
        r = check_plan(plan, &s->model, e);
    if (r == 0)
        r = run_all(s, plan, e);
    if (r == 0)
        r = take_outputs(s, plan, e);
    if (r == 0 && plan->perf)
        r = take_perf(s, e);
    return r;
}

void run_done(struct run_state *s)
{
    for (uint32_t i = 0; s->result.outputs && i < s->model.n_outputs; i++)
        free(s->result.outputs[i].file);
    free(s->result.outputs);
    free(s->result.times.queue_us);
    free(s->result.times.run_us);
    free(s->result.times.total_us);
    rknnd_free(s->result.layers);
    input_set_done(&s->inputs);
    model_close(&s->model);
}
