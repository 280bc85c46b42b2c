// The result of `rknnctl run` as JSON on standard output. Names of members are an interface for
// scripts: they are only ever added.
#include "tools/run/run_result.h"
#include "tools/ui/print.h"
#include "tools/view/layers.h"

// Attributes, and what was done with the file (input_set_json).
static json_t *inputs_json(const struct run_result *r)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < r->model->n_inputs; i++) {
        json_t *o = print_attr_json(&r->model->inputs[i]);
        json_object_set_new(o, "file", print_json_text(r->inputs->paths[i]));
        json_object_set_new(o, "data", input_set_json(r->inputs, i));
        json_array_append_new(array, o);
    }
    return array;
}

static json_t *top_json(const struct run_output *o)
{
    json_t *array = json_array();
    for (size_t i = 0; i < o->n_top; i++)
        json_array_append_new(array,
                              json_pack("{s:I, s:o}", "index", (json_int_t)o->top[i].index, "value",
                                        print_json_number((double)o->top[i].value)));
    return array;
}

static json_t *output_json(const struct run_output *output, const rknn_tensor_attr *attr)
{
    json_t *o = print_attr_json(attr);
    json_object_set_new(o, "file", output->file ? print_json_text(output->file) : json_null());
    json_object_set_new(o, "top", top_json(output));
    json_object_set_new(o, "min", print_json_number((double)output->range.min));
    json_object_set_new(o, "max", print_json_number((double)output->range.max));
    json_object_set_new(o, "mean", print_json_number(output->range.mean));
    json_object_set_new(o, "nan", json_integer((json_int_t)output->range.n_nan));
    return o;
}

static json_t *outputs_json(const struct run_result *r)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < r->model->n_outputs; i++)
        json_array_append_new(array, output_json(&r->outputs[i], &r->model->outputs[i]));
    return array;
}

// Percentiles of all runs, in microseconds.
static json_t *times_json(const struct run_result *r)
{
    const struct run_times *t = &r->times;
    const struct progress *upload = &r->model->upload;
    json_t *o = json_pack(
        "{s:I, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "upload_bytes", (json_int_t)upload->total,
        "upload_us", print_json_number((double)progress_ns(upload) / 1e3), "load_us",
        print_json_number((double)r->model->load_ns / 1e3), "runs", (json_int_t)t->n,
        "repeated_runs", (json_int_t)t->n_repeated, "queue_us",
        print_percentiles_json(t->queue_us, t->n, 1), "total_us",
        print_percentiles_json(t->total_us, t->n, 1), "timing", timing_json(&t->timing));
    timing_put(&t->timing, o, "run_us", print_percentiles_json(t->run_us, t->n, 1),
               timing_estimate(t->estimate_ns));
    return o;
}

static json_t *memory_json(const rknn_mem_size *m)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "weight_bytes", (json_int_t)m->total_weight_size,
                     "internal_bytes", (json_int_t)m->total_internal_size, "allocated_bytes",
                     (json_int_t)m->total_dma_allocated_size, "sram_bytes",
                     (json_int_t)m->total_sram_size, "free_sram_bytes",
                     (json_int_t)m->free_sram_size);
}

// json_pack() takes the members' references; if one is NULL (no memory), so is the whole.
int run_result_print_json(const struct run_result *r, struct error *e)
{
    json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:o}", "model", print_json_text(r->model->path),
                          "server", print_server_json(&r->server), "inputs", inputs_json(r),
                          "outputs", outputs_json(r), "times", times_json(r));
    if (r->has_perf) {
        const struct layer_times t = {.layers = r->layers, .n_runs = 1, .timing = r->times.timing};
        json_object_set_new(o, "layers", layers_json(&t));
        json_object_set_new(o, "memory", memory_json(&r->memory));
    }
    return print_json(o, e);
}
