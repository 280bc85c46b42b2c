// `rknnctl dump`: runs a model once and writes each tensor that it computes to a .npy file; a
// table, CSV or JSON on standard output lists them. The library calls on_tensor() on this thread
// for each tensor, in the order of execution; data is valid only during the call.
#include "tools/run/dump_files.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/options/nearest.h"
#include "tools/format/format.h"
#include "tools/format/npy_file.h"
#include "tools/format/table.h"
#include "tools/format/tensor_file.h"
#include "tools/format/values.h"
#include "tools/run/description.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

static const struct table_column columns[] = {
    {"#", TABLE_RIGHT, TABLE_FIXED, 0},       {"tensor", TABLE_LEFT, TABLE_CUT_START, 0},
    {"node", TABLE_LEFT, TABLE_CUT_START, 0}, {"shape", TABLE_LEFT, TABLE_FIXED, 0},
    {"type", TABLE_LEFT, TABLE_FIXED, 0},     {"min", TABLE_RIGHT, TABLE_FIXED, 0},
    {"max", TABLE_RIGHT, TABLE_FIXED, 0},     {"mean", TABLE_RIGHT, TABLE_FIXED, 0},
};

// The failure is the caller's: on_tensor() can return no more than a code to the library.
struct dump {
    const struct dump_plan *plan;
    struct error *e;
    struct table table;
    json_t *list; // with --json
    struct progress progress;
    size_t n;
};

// Scale and zero point only for tensors that are quantized.
static json_t *tensor_json(const rknnd_tensor *t, const struct value_range *range, const char *file)
{
    json_t *dims = json_array();
    for (uint32_t i = 0; i < t->n_dims; i++)
        json_array_append_new(dims, json_integer((json_int_t)t->dims[i]));
    json_t *o = json_pack("{s:I, s:s, s:s, s:s, s:o, s:s, s:s, s:o, s:o, s:o, s:I}", "index",
                          (json_int_t)t->index, "name", t->name, "node", t->node, "op", t->op,
                          "dims", dims, "type", get_type_string(t->type), "file", file, "min",
                          print_json_number((double)range->min), "max",
                          print_json_number((double)range->max), "mean",
                          print_json_number(range->mean), "nan", (json_int_t)range->n_nan);
    if (o && t->qnt_type == RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC) {
        json_object_set_new(o, "scale", print_json_number((double)t->scale));
        json_object_set_new(o, "zp", json_integer(t->zp));
    }
    return o;
}

static void add_row(struct table *table, const rknnd_tensor *t, const struct value_range *range)
{
    struct format_buffer b;
    table_cell(table, "%u", t->index);
    table_cell(table, "%s", t->name);
    table_cell(table, "%s", t->node);
    table_cell(table, "%s", format_dims(&b, t->dims, t->n_dims));
    table_cell(table, "%s", get_type_string(t->type));
    table_cell(table, "%.6g", (double)range->min);
    table_cell(table, "%.6g", (double)range->max);
    table_cell(table, "%.6g", range->mean);
}

// The listing always shows real values, also where --raw writes quantized ones.
static void note_file(struct dump *d, const rknnd_tensor *t, const float *values, const char *file)
{
    struct value_range range = values_range(values, t->n_elems);
    if (d->plan->json)
        json_array_append_new(d->list, tensor_json(t, &range, file));
    else
        add_row(&d->table, t, &range);
}

// One file: the stored type with --raw, else float32.
static int take_tensor(struct dump *d, const rknnd_tensor *t)
{
    struct error *e = d->e;
    cleanup(free_p) char *file = tensor_file_name(d->plan->folder, t->index, t->name, ".npy");
    cleanup(free_p) float *values = calloc((size_t)t->n_elems + 1, sizeof *values);
    if (!file || !values)
        return error_no_memory(e, "a tensor", 0);
    int r = rknnd_tensor_to_float(t, values);
    if (r < 0)
        return rknn_error_set(e, r, "tensor %s", t->name);
    if (d->plan->raw)
        r = npy_file_write(file, t->type, t->dims, t->n_dims, t->data, e);
    else
        r = npy_file_write(file, RKNN_TENSOR_FLOAT32, t->dims, t->n_dims, values, e);
    if (r)
        return error_prefix(e, "tensor %s", t->name);
    note_file(d, t, values, file);
    d->n++;
    return 0;
}

// Runs while the device waits with this node's result (rknnd_dump_layers).
static int on_tensor(void *user, const rknnd_tensor *t)
{
    struct dump *d = user;
    progress_step(&d->progress);
    return take_tensor(d, t) ? RKNN_ERR_FAIL : RKNN_SUCC;
}

// --only matched no tensor. The description gives the names, which the run did not.
static int refuse_only(const struct dump *d)
{
    struct nearest near;
    char names[NEAREST_TEXT];
    json_t *description = NULL;
    int r = description_get(&d->plan->task, &description, d->e);
    if (r)
        return r;
    nearest_init(&near, d->plan->only);
    description_add_names(description, &near);
    r = error_set(d->e, STATUS_PARAM_INVALID,
                  "--only %s: no tensor that the model computes has this name%s", d->plan->only,
                  nearest_question(&near, "", names));
    json_decref(description);
    return r;
}

// print_json() frees the list, so that d->list must not.
static int print_files(struct dump *d)
{
    if (d->n == 0 && d->plan->only)
        return refuse_only(d);
    if (d->plan->csv)
        return table_csv(&d->table, stdout) < 0 ? error_no_memory(d->e, "a tensor", 0) : 0;
    if (d->plan->json) {
        json_t *list = d->list;
        d->list = NULL;
        return print_json(json_pack("{s:o}", "tensors", list), d->e);
    }
    return table_print(&d->table, stdout, "", terminal_width(stdout)) < 0
               ? error_no_memory(d->e, "a tensor", 0)
               : 0;
}

// A failure inside on_tensor() is in d->e and says more than the library's code.
static int run_dump(struct dump *d, const struct model *m, const struct input_set *inputs)
{
    int r = input_set_give(inputs, m->context);
    progress_start_counting(&d->progress, "tensors", 0);
    if (r == RKNN_SUCC)
        r = rknnd_dump_layers(m->context, d->plan->only, on_tensor, d);
    progress_end(&d->progress);
    if (d->e->code) // a tensor's
        return d->e->code;
    return r < 0 ? rknn_error_model(d->e, r, m->path) : print_files(d);
}

// The folder is made after the inputs are read: wrong inputs should leave nothing behind.
int dump_execute(const struct dump_plan *plan, struct error *e)
{
    struct dump d = {.plan = plan, .e = e, .list = json_array()};
    struct model m = {0};
    struct input_set inputs = {0};
    table_init(&d.table, columns, sizeof columns / sizeof *columns);
    int r = task_open(&plan->task, 0, &m, e);
    if (r == 0)
        r = task_load(&plan->task, &m, &inputs, e);
    if (r == 0)
        r = tensor_folder_make(plan->folder, e);
    if (r == 0)
        r = run_dump(&d, &m, &inputs);
    json_decref(d.list);
    table_done(&d.table);
    input_set_done(&inputs);
    model_close(&m);
    return r;
}
