// Compares each layer of a model with a reference ("golden"), usually the float model it was
// converted from. For each set of inputs:
//
//   1. run the reference, keep all of its tensors      rknnd_golden_new
//   2. run the model, compare tensor by tensor          pass "entire": errors accumulate
//   3. again, each layer on the reference's inputs      pass "single": a layer's own error
//
// Tensors belong together by name (--map names those that differ). The library calls on_tensor()
// for each, on this thread, in the order of execution; rows keep the worst distance of all sets.
// Both contexts stay open meanwhile, each on its own server.
#include "tools/compare/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "tools/format/json_get.h"
#include "tools/format/npy_file.h"
#include "tools/format/tensor_file.h"
#include "tools/input/golden_inputs.h"
#include "tools/input/input_list.h"
#include "tools/run/description.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"

// The state of one comparison. `description` and `golden_description` are the models' JSON
// (description_get); `result` and `plan` are the caller's.
struct work {
    const struct comparison_plan *plan;
    struct comparison *result;
    struct error *e;
    struct model model, golden;
    json_t *description, *golden_description;
    struct rknnd_name_pair *pairs;
    struct progress progress;
    uint64_t n_steps, n_done;
    bool single; // the pass that is under way
    size_t set;
    size_t at; // row of the next tensor of this pass
};

// ---- rows --------------------------------------------------------------------------------------

static int add_row(struct comparison *c, const rknnd_tensor *t, struct error *e)
{
    if (array_reserve(c->rows, c->room, c->n + 1, "tensors", e) < 0)
        return e->code;
    struct comparison_row *r = &c->rows[c->n++];
    *r = (struct comparison_row){.name = strdup(t->name),
                                 .node = strdup(t->node),
                                 .op = strdup(t->op),
                                 .type = t->type,
                                 .n_dims = t->n_dims};
    memcpy(r->dims, t->dims, t->n_dims * sizeof *r->dims);
    return r->name && r->node && r->op ? 0 : error_no_memory(e, "a comparison", 0);
}

// NaN is the worst result there is: once a distance is NaN it stays NaN.
static double larger_or_nan(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

// The worst of several sets. Cosine is better the larger it is, hence the signs; gain is better the
// closer it is to 1.
static void keep_worst(rknnd_distance *d, const rknnd_distance *now)
{
    d->cosine = -larger_or_nan(-d->cosine, -now->cosine);
    d->euclidean = larger_or_nan(d->euclidean, now->euclidean);
    d->relative = larger_or_nan(d->relative, now->relative);
    d->largest = larger_or_nan(d->largest, now->largest);
    if (isnan(now->gain) || fabs(now->gain - 1) > fabs(d->gain - 1))
        d->gain = now->gain;
}

// ---- the noise floor ---------------------------------------------------------------------------

#define FLOOR_STEPS 5.0         // of a quantized type: one step is 20 % of it
#define FLOOR_SHARE (1.0 / 500) // of a function's range: what its table on the chip is exact to

// The range of functions that have one; 0: none is known. Names are those of ONNX and of converted
// models, where activations are fused ("ConvSigmoid", "exSoftmax13").
static double range_of(const char *op)
{
    if (strstr(op, "LogSoftmax"))
        return 0;
    if (strstr(op, "Sigmoid") || strstr(op, "Softmax"))
        return 1;
    return strstr(op, "Tanh") ? 2 : 0;
}

// The size (root of the mean square) below which golden values of a tensor say nothing of errors in
// per cent: they are as small as its type or its function's table can tell at all.
static double noise_floor(const rknnd_tensor *t)
{
    if (t->qnt_type == RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC)
        return FLOOR_STEPS * (double)t->scale;
    return FLOOR_SHARE * range_of(t->op);
}

// |g| is taken to be `floor_size` at least: relative = |x - g| / |g|, gain - 1 = (x - g)*g / |g|^2.
static rknnd_distance above_floor(const rknnd_distance *distance, double floor_size)
{
    rknnd_distance d = *distance;
    double size = isinf(d.relative) ? 0 : d.relative > 0 ? d.euclidean / d.relative : floor_size;
    if (!(size < floor_size)) // NaN stays
        return d;
    double share = size / floor_size;
    d.relative = d.euclidean / floor_size;
    d.gain = size > 0 ? 1 + (d.gain - 1) * share * share : 1;
    return d;
}

// Without a partner in the reference a tensor has no distance, but keeps its row.
static void note_tensor(struct comparison_row *row, const rknnd_comparison *c, bool single)
{
    struct comparison_distance *d = single ? &row->single : &row->entire;
    if (!c->golden)
        return;
    double floor_size = noise_floor(c->tensor) * sqrt(c->tensor->n_elems);
    rknnd_distance real = above_floor(c->distance, floor_size),
                   stored = above_floor(c->stored, floor_size);
    if (d->there) {
        keep_worst(&d->real, &real);
        keep_worst(&d->stored, &stored);
    } else {
        *d = (struct comparison_distance){true, real, stored};
    }
}

// ---- tensors as they come ----------------------------------------------------------------------

// --dump: FOLDER/SET/NUMBER_NAME.npy, .single.npy and .golden.npy. The reference's tensor is
// written in the entire pass alone; the single pass would write the same once more.
static int take_snapshot(struct work *w, const rknnd_comparison *c)
{
    const struct comparison_plan *plan = w->plan;
    const rknnd_tensor *t = c->tensor;
    const struct {
        const char *suffix;
        const float *values;
    } files[] = {{w->single ? ".single.npy" : ".npy", c->values},
                 {".golden.npy", w->single ? NULL : c->golden}};
    cleanup(free_p) char *folder = NULL;
    if (asprintf(&folder, "%s/%zu", plan->folder, w->set) < 0) {
        folder = NULL;
        return error_no_memory(w->e, "a comparison", 0);
    }
    int r = tensor_folder_make(folder, w->e);
    for (size_t i = 0; i < sizeof files / sizeof *files && r == 0; i++) {
        cleanup(free_p) char *path = tensor_file_name(folder, t->index, t->name, files[i].suffix);
        if (!path)
            r = error_no_memory(w->e, "a comparison", 0);
        else if (files[i].values)
            r = npy_file_write(path, RKNN_TENSOR_FLOAT32, t->dims, t->n_dims, files[i].values,
                               w->e);
    }
    return r;
}

// The first set's entire pass creates the rows; all later passes must give the same tensors in the
// same order, since rows are matched by their position.
static int take_tensor(struct work *w, const rknnd_comparison *c)
{
    struct comparison *result = w->result;
    int r = w->at == result->n && !w->single && w->set == 0 ? add_row(result, c->tensor, w->e) : 0;
    if (r == 0 && w->at >= result->n)
        r = error_set(w->e, STATUS_FAIL, "the model computes other tensors in each run");
    if (r == 0 && w->plan->folder)
        r = take_snapshot(w, c);
    if (r)
        return r;
    note_tensor(&result->rows[w->at++], c, w->single);
    w->n_done += w->n_done < w->n_steps;
    progress_count(&w->progress, w->n_done, w->n_steps);
    return 0;
}

static int on_tensor(void *user, const rknnd_comparison *c)
{
    return take_tensor(user, c) ? RKNN_ERR_FAIL : RKNN_SUCC;
}

// ---- runs --------------------------------------------------------------------------------------

static int set_inputs(const struct model *m, const struct input_set *s, struct error *e)
{
    int r = input_set_give(s, m->context);
    return r < 0 ? rknn_error_model(e, r, m->path) : 0;
}

// One pass. A backend that cannot run layers one by one refuses the single pass before its first
// tensor: that is no failure, its reason is kept for the user and other sets do without the pass. A
// failure inside on_tensor() is already in w->e and takes precedence over the library's code.
static int compare_set(struct work *w, const rknnd_golden *golden, bool single)
{
    const rknnd_list pairs = {.struct_size = sizeof pairs,
                              .n = (uint32_t)w->plan->map.n,
                              .stride = sizeof *w->pairs,
                              .items = w->pairs};
    const rknnd_compare_options options = {
        .struct_size = sizeof options, .single = single, .pairs = &pairs};
    w->single = single;
    w->at = 0;
    int r = rknnd_compare_layers(w->model.context, golden, &options, on_tensor, w);
    if (w->e->code)
        return w->e->code;
    if (r == RKNN_ERR_FAIL && single && w->at == 0) {
        snprintf(w->result->why_not_single, sizeof w->result->why_not_single, "%s",
                 rknnd_last_error());
        return 0;
    }
    return r < 0 ? rknn_error_model(w->e, r, w->model.path) : 0;
}

// Runs the reference on the same inputs, brought into the form it takes (golden_inputs.h). *ret is
// the caller's to free.
static int run_golden(struct work *w, const struct input_set *inputs, rknnd_golden **ret)
{
    cleanup(input_set_done) struct input_set golden = {0};
    int r = golden_inputs_make(&golden, &w->golden, w->golden_description, inputs, &w->model,
                               w->description, w->e);
    if (r == 0)
        r = set_inputs(&w->golden, &golden, w->e);
    if (r)
        return r;
    r = rknnd_golden_new(w->golden.context, ret);
    return r < 0 ? rknn_error_model(w->e, r, w->golden.path) : 0;
}

static int run_set(struct work *w, const struct text_list *files)
{
    struct comparison *result = w->result;
    cleanup(input_set_done) struct input_set inputs = {0};
    rknnd_golden *golden = NULL;
    int r = input_set_load(&inputs, &w->model, files, &w->plan->task.forms, w->e);
    if (r == 0 && w->set == 0) { // what is done with the others' pictures is the same
        progress_erase(&w->progress);
        input_set_tell(&inputs, &w->model, stderr);
    }
    if (r == 0)
        r = run_golden(w, &inputs, &golden);
    if (r == 0)
        r = set_inputs(&w->model, &inputs, w->e);
    if (r == 0)
        r = compare_set(w, golden, false);
    if (r == 0 && !w->plan->entire_only && !*result->why_not_single)
        r = compare_set(w, golden, true);
    rknnd_golden_free(golden);
    return r;
}

// The number of steps for the progress line is an estimate: nodes of the description, which need
// not all become tensors.
static int run_sets(struct work *w)
{
    struct input_list list;
    const struct comparison_plan *plan = w->plan;
    size_t nodes = json_array_size(json_object_get(w->description, "nodes"));
    int r = input_list_load(&list, plan->list, &plan->task.inputs, w->e);
    if (r == 0 && plan->folder)
        r = tensor_folder_make(plan->folder, w->e);
    w->n_steps = list.n * (nodes ? nodes : 1) * (plan->entire_only ? 1 : 2);
    progress_start_counting(&w->progress, "tensors", w->n_steps);
    for (; w->set < list.n && r == 0; w->set++)
        r = run_set(w, &list.sets[w->set]);
    progress_end(&w->progress);
    w->result->n_sets = list.n;
    input_list_done(&list);
    return r;
}

// ---- all of it ---------------------------------------------------------------------------------

// Splits NAME=GOLDEN in place: the texts are argv's, which is writable, and outlive the pairs.
static int parse_map(struct work *w)
{
    const struct text_list *map = &w->plan->map;
    w->pairs = calloc(map->n + 1, sizeof *w->pairs);
    if (!w->pairs)
        return error_no_memory(w->e, "a comparison", 0);
    for (size_t i = 0; i < map->n; i++) {
        char *text = (char *)map->items[i], *equals = strchr(text, '=');
        if (!equals)
            return error_set(w->e, STATUS_PARAM_INVALID, "--map %s: give it as NAME=GOLDEN", text);
        *equals = 0;
        w->pairs[i] =
            (rknnd_name_pair){.struct_size = sizeof *w->pairs, .name = text, .golden = equals + 1};
    }
    return 0;
}

static int refuse_map(const struct work *w, size_t i, const struct model *m,
                      const json_t *description, const char *name)
{
    struct nearest near;
    char names[NEAREST_TEXT];
    nearest_init(&near, name);
    description_add_names(description, &near);
    return error_set(w->e, STATUS_PARAM_INVALID, "--map %s=%s: %s has no tensor \"%s\"%s",
                     w->pairs[i].name, w->pairs[i].golden, m->path, name,
                     nearest_question(&near, "", names));
}

// Refuses names of --map that exist in neither the runs nor the model files. It is done after the
// runs because a backend may compute tensors that the file does not name.
static int check_map(const struct work *w)
{
    for (size_t i = 0; i < w->plan->map.n; i++) {
        const struct comparison_row *row = NULL;
        for (size_t k = 0; k < w->result->n && !row; k++)
            if (strcmp(w->result->rows[k].name, w->pairs[i].name) == 0)
                row = &w->result->rows[k];
        if (!row && !description_has_name(w->description, w->pairs[i].name))
            return refuse_map(w, i, &w->model, w->description, w->pairs[i].name);
        if (!(row && row->entire.there) &&
            !description_has_name(w->golden_description, w->pairs[i].golden))
            return refuse_map(w, i, &w->golden, w->golden_description, w->pairs[i].golden);
    }
    return 0;
}

// Opens a model on the server `uri`. The server is a default for contexts to come: a context that
// is open stays on its server when the default changes for the next one.
static int open_on(const char *uri, const struct task *task, struct model *m, json_t **description,
                   rknnd_server_info *info, struct error *e)
{
    int r = rknnd_set_server(uri);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    r = task_open(task, 0, m, e);
    if (r == 0)
        r = print_get_server(info, e);
    return r ? r : description_get(task, description, e);
}

// Times are taken on made-up inputs in separate contexts: the comparison's own runs dump every
// tensor and would measure that.
static int measure_times(struct comparison *c, const struct comparison_plan *plan, struct error *e)
{
    struct profile_plan model = {
        .task = plan->task, .loop = plan->loop, .warmup = plan->warmup, .seed = plan->seed};
    model.task.inputs = (struct text_list){0};
    struct profile_plan reference = model;
    reference.task.model = plan->golden;
    reference.task.core_mask = plan->golden_core_mask;
    return comparison_times_measure(&c->times, &model, plan->server, &reference,
                                    plan->golden_server, e);
}

// A converted model has lost what its types cannot hold, and nothing here shows that.
static void tell_golden(struct comparison *c, const struct comparison_plan *plan,
                        const json_t *description)
{
    c->golden_converted = strncmp(json_get_text(description, "container"), "rknn", 4) == 0;
    if (plan->float_golden && c->golden_converted)
        fputs("rknnctl: the golden model is a converted one, a .rknn: what both conversions lose "
              "is not seen; give the float model\n",
              stderr);
}

// The reference is opened first, so that the model's server is the default at the end.
int comparison_make(struct comparison *c, const struct comparison_plan *plan, struct error *e)
{
    struct work w = {.plan = plan, .result = c, .e = e};
    struct task golden = plan->task;
    golden.model = plan->golden;
    golden.core_mask = plan->golden_core_mask;
    *c = (struct comparison){.limit = plan->limit};
    int r = parse_map(&w);
    if (r == 0)
        r = open_on(plan->golden_server, &golden, &w.golden, &w.golden_description,
                    &c->golden_server, e);
    if (r == 0)
        tell_golden(c, plan, w.golden_description);
    if (r == 0)
        r = open_on(plan->server, &plan->task, &w.model, &w.description, &c->server, e);
    if (r == 0)
        r = run_sets(&w);
    if (r == 0)
        r = check_map(&w);
    if (r == 0 && plan->loop)
        r = measure_times(c, plan, e);
    json_decref(w.description);
    json_decref(w.golden_description);
    model_close(&w.model);
    model_close(&w.golden);
    free(w.pairs);
    return r;
}

void comparison_done(struct comparison *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->rows[i].name);
        free(c->rows[i].node);
        free(c->rows[i].op);
    }
    free(c->rows);
    comparison_times_done(&c->times);
    *c = (struct comparison){0};
}
