// The result of `rknnctl run` as text: inputs, outputs, the largest values of each output, times
// and, with --perf, layers and memory.
#include <stdio.h>
#include <stdlib.h>

#include "tools/format/format.h"
#include "tools/format/table.h"
#include "tools/run/run_result.h"
#include "tools/ui/print.h"
#include "tools/ui/terminal.h"
#include "tools/view/layers.h"

#define INDENT "  "

// Prints and frees the table.
static int print_table(struct table *t, struct error *e)
{
    int r = table_print(t, stdout, INDENT, terminal_width(stdout));
    table_done(t);
    return r < 0 ? error_no_memory(e, "a table", 0) : 0;
}

// The layout is shown for 4-D tensors only; scale and zero point for quantized ones.
static void add_tensor(struct table *t, const rknn_tensor_attr *a, const char *file)
{
    struct format_buffer b;
    table_cell(t, "%u", a->index);
    table_cell(t, "%s", a->name);
    table_cell(t, "%s", format_dims(&b, a->dims, a->n_dims));
    table_cell(t, "%s", a->n_dims == 4 ? get_format_string(a->fmt) : "-");
    table_cell(t, "%s", get_type_string(a->type));
    if (a->qnt_type == RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC) {
        table_cell(t, "%.6g", (double)a->scale);
        table_cell(t, "%d", a->zp);
    } else {
        table_cell(t, "-");
        table_cell(t, "-");
    }
    table_cell(t, "%s", file ? file : "-");
}

static const struct table_column tensor_columns[] = {
    {"#", TABLE_RIGHT, TABLE_FIXED, 0},    {"name", TABLE_LEFT, TABLE_CUT_END, 0},
    {"shape", TABLE_LEFT, TABLE_FIXED, 0}, {"layout", TABLE_LEFT, TABLE_FIXED, 0},
    {"type", TABLE_LEFT, TABLE_FIXED, 0},  {"scale", TABLE_RIGHT, TABLE_FIXED, 0},
    {"zp", TABLE_RIGHT, TABLE_FIXED, 0},   {"file", TABLE_LEFT, TABLE_CUT_START, 0},
};

static int print_inputs(const struct run_result *r, struct error *e)
{
    struct table t;
    table_init(&t, tensor_columns, sizeof tensor_columns / sizeof *tensor_columns);
    for (uint32_t i = 0; i < r->model->n_inputs; i++)
        add_tensor(&t, &r->model->inputs[i], r->inputs->paths[i]);
    print_heading("Inputs");
    return print_table(&t, e);
}

// The file column is "-" for outputs that are not written.
static int print_outputs(const struct run_result *r, struct error *e)
{
    struct table t;
    table_init(&t, tensor_columns, sizeof tensor_columns / sizeof *tensor_columns);
    for (uint32_t i = 0; i < r->model->n_outputs; i++)
        add_tensor(&t, &r->model->outputs[i], r->outputs[i].file);
    print_heading("Outputs");
    return print_table(&t, e);
}

// An element's position is shown as an index for each dimension.
static void print_values(const struct run_output *o, const rknn_tensor_attr *a)
{
    struct format_buffer b;
    print_heading("Output %u, largest values", a->index);
    for (size_t i = 0; i < o->n_top; i++)
        print_line(format_index(&b, o->top[i].index, a->dims, a->n_dims), "%.6g",
                   (double)o->top[i].value);
    print_line("range", "%.6g to %.6g, mean %.6g", (double)o->range.min, (double)o->range.max,
               o->range.mean);
    if (o->range.n_nan)
        print_line("NaN", "%llu of %u", (unsigned long long)o->range.n_nan, a->n_elems);
}

// The upload's time is 0 where the server held the model already.
static void run_text_print_times(const struct run_result *r)
{
    const struct progress *upload = &r->model->upload;
    struct format_buffer b, c;
    if (r->times.n == 1)
        print_heading("Times");
    else
        print_heading("Times of %u runs", r->times.n);
    if (upload->total)
        print_line("upload", "%s (%s)", format_ns(&b, progress_ns(upload)),
                   format_bytes(&c, upload->total));
    else
        print_line("upload", "none, the server held the model");
    print_line("load", "%s, upload included", format_ns(&b, r->model->load_ns));
    print_times("queue", r->times.queue_us, r->times.n);
    print_estimate(&r->times.timing, r->times.estimate_ns);
    print_times(r->times.timing.software ? "machine run" : "run", r->times.run_us, r->times.n);
    print_times("total", r->times.total_us, r->times.n);
    if (r->times.n_repeated)
        print_line("repeated", "%u run%s done twice because a worker died", r->times.n_repeated,
                   r->times.n_repeated == 1 ? " was" : "s were");
}

// The times of a single run, not medians. The sum is of the layers alone.
static int print_layers(const struct run_result *r, struct error *e)
{
    const struct layer_times t = {.layers = r->layers, .n_runs = 1, .timing = r->times.timing};
    print_heading("Layers of the last run");
    if (r->layers->n == 0) {
        printf(INDENT "none: the device gives no times of layers\n");
        return 0;
    }
    if (layers_print(&t, stdout, INDENT, terminal_width(stdout)) < 0)
        return error_no_memory(e, "a table", 0);
    if (t.timing.software && layers_estimate_ns(&t))
        print_line("estimate", "%.1f us, all layers", (double)layers_estimate_ns(&t) / 1e3);
    print_line(t.timing.software ? "machine" : "sum", "%llu us, all layers",
               (unsigned long long)layers_total_us(&t));
    timing_print(&t.timing, &r->server, stdout, INDENT);
    return 0;
}

// As the runtime reports them (RKNN_QUERY_MEM_SIZE).
static void print_memory(const rknn_mem_size *m)
{
    struct format_buffer b, c;
    print_heading("Memory");
    print_line("weights", "%s", format_bytes(&b, m->total_weight_size));
    print_line("internal", "%s", format_bytes(&b, m->total_internal_size));
    print_line("all", "%s", format_bytes(&b, m->total_dma_allocated_size));
    print_line("SRAM", "%s free of %s", format_bytes(&b, m->free_sram_size),
               format_bytes(&c, m->total_sram_size));
}

// Stops at the first failure, which can only be memory.
int run_result_print(const struct run_result *r, struct error *e)
{
    printf("%s on ", r->model->path);
    print_server_line(&r->server);
    putchar('\n');
    int failed = print_inputs(r, e);
    if (!failed)
        failed = print_outputs(r, e);
    for (uint32_t i = 0; !failed && i < r->model->n_outputs; i++)
        print_values(&r->outputs[i], &r->model->outputs[i]);
    if (failed)
        return failed;
    run_text_print_times(r);
    if (!r->has_perf)
        return 0;
    failed = print_layers(r, e);
    if (!failed)
        print_memory(&r->memory);
    return failed;
}
