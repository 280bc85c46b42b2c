// Runs in the probe's own process: whatever a driver or a library does here ends here.
#include "tools/board/try.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "rknnd.h"
#include "tools/board/private_daemon.h"
#include "tools/run/frequencies.h"
#include "tools/run/heat.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"

#define RUNS       8 // of which times are taken
#define MAX_INPUTS 4
#define MAX_ATTRS  8

// Words for people, and the code, by which the kit tells what a device refused from what it broke
// on.
static json_t *failed_json(const struct error *e)
{
    return json_pack("{s:o, s:i}", "failed", print_json_text(e->text), "code", e->code);
}

// ---- the target itself ----

// null: the server cannot tell.
static json_t *clocks_json(void)
{
    struct frequencies clocks = {0};
    json_t *ret = frequencies_get(&clocks, NULL) == 0 ? frequencies_json(&clocks) : json_null();
    frequencies_done(&clocks);
    return ret;
}

// As `rknnctl top` has them; null: the server cannot tell.
static json_t *sensors_json(void)
{
    struct heat heat = {0};
    heat_get(&heat);
    json_t *ret = heat_json(&heat);
    heat_done(&heat);
    return ret;
}

// Who it is, and how the machine is clocked and how warm.
static json_t *look_at(struct error *e)
{
    rknnd_server_info info = {.struct_size = sizeof info};
    int r = print_get_server(&info, e);
    if (r < 0)
        return failed_json(e);
    return json_pack("{s:o, s:o, s:o}", "server", print_server_json(&info), "clocks", clocks_json(),
                     "sensors", sensors_json());
}

// ---- tensors ----

// Bytes as they lie in memory, two digits each.
static json_t *hex_json(const void *data, size_t size)
{
    cleanup(free_p) char *text = malloc(2 * size + 1);
    if (!text)
        return NULL;
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", ((const uint8_t *)data)[i]);
    text[2 * size] = 0;
    return json_stringn(text, 2 * size);
}

// As the file has them: NCHW of images.
static json_t *dims_json(const uint32_t *dims, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)dims[i]));
    return list;
}

// A node's tensor, as soon as the device has it.
static int on_node(void *user, const rknnd_tensor *t)
{
    json_t *tensor = json_pack("{s:o, s:o, s:o, s:s, s:o, s:o}", "name", print_json_text(t->name),
                               "node", print_json_text(t->node), "op", print_json_text(t->op),
                               "type", get_type_string(t->type), "dims",
                               dims_json(t->dims, t->n_dims), "hex", hex_json(t->data, t->size));
    return json_array_append_new(user, tensor) < 0 ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
}

// ---- one model ----

// A context with what it needs; one for each probe.
struct run {
    const struct trial *trial;
    rknn_context context;
    rknn_input inputs[MAX_INPUTS];
    uint32_t n_inputs, n_outputs;
    rknn_tensor_attr outputs[MAX_ATTRS];
};

// In the library's words, which name the model.
static int model_failed(int code, struct error *e)
{
    return rknn_error_set(e, code, "%s", "");
}

// With times of layers, or on the cores that the probe asks for: for times each layer is a job of
// its own, at whose end all cores wait, and how they wait for each other would not be seen.
static int open_model(struct run *run, struct error *e)
{
    json_t *probe = run->trial->probe;
    json_int_t cores = json_integer_value(json_object_get(probe, "cores"));
    const struct kit_file *f =
        kit_find(run->trial->kit, json_string_value(json_object_get(probe, "model")));
    if (!f)
        return error_set(e, STATUS_MODEL_INVALID, "the kit lacks the probe's model");
    int r = rknn_init(&run->context, f->data, (uint32_t)f->size,
                      cores ? 0 : RKNN_FLAG_COLLECT_PERF_MASK, NULL);
    if (r < 0)
        return model_failed(r, e);
    if (cores && (r = rknn_set_core_mask(run->context, (rknn_core_mask)cores)) < 0)
        return model_failed(r, e);
    rknn_input_output_num n;
    r = rknn_query(run->context, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n);
    if (r < 0)
        return model_failed(r, e);
    if (n.n_input > MAX_INPUTS || n.n_output > MAX_ATTRS)
        return error_set(e, STATUS_MODEL_INVALID, "the model has %u inputs and %u outputs",
                         n.n_input, n.n_output);
    run->n_outputs = n.n_output;
    for (uint32_t i = 0; i < n.n_output; i++) {
        run->outputs[i].index = i;
        r = rknn_query(run->context, RKNN_QUERY_OUTPUT_ATTR, &run->outputs[i],
                       sizeof run->outputs[i]);
        if (r < 0)
            return model_failed(r, e);
    }
    return 0;
}

// Real numbers: models of the kit store them as they are, whoever converts them.
static int set_inputs(struct run *run, struct error *e)
{
    json_t *list = json_object_get(run->trial->probe, "inputs"), *input;
    size_t i;
    json_array_foreach(list, i, input)
    {
        const struct kit_file *f =
            kit_find(run->trial->kit, json_string_value(json_object_get(input, "file")));
        if (!f || i >= MAX_INPUTS)
            return error_set(e, STATUS_MODEL_INVALID, "the kit lacks input %zu", i);
        run->inputs[i] = (rknn_input){.index = (uint32_t)i,
                                      .buf = f->data,
                                      .size = (uint32_t)f->size,
                                      .type = RKNN_TENSOR_FLOAT32,
                                      .fmt = RKNN_TENSOR_NHWC};
        run->n_inputs++;
    }
    int r = rknn_inputs_set(run->context, run->n_inputs, run->inputs);
    return r < 0 ? model_failed(r, e) : 0;
}

// What is left in memory by a run of zeros is known: cores that read too early read that.
static int run_zeros(struct run *run, struct error *e)
{
    rknn_input inputs[MAX_INPUTS];
    int r = RKNN_SUCC;
    for (uint32_t i = 0; i < run->n_inputs && r == RKNN_SUCC; i++) {
        inputs[i] = run->inputs[i];
        inputs[i].buf = calloc(1, inputs[i].size + 1);
        r = inputs[i].buf ? rknn_inputs_set(run->context, 1, &inputs[i]) : RKNN_ERR_MALLOC_FAIL;
        free(inputs[i].buf);
    }
    if (r == RKNN_SUCC)
        r = rknn_run(run->context, NULL);
    if (r == RKNN_SUCC)
        r = rknn_inputs_set(run->context, run->n_inputs, run->inputs);
    return r < 0 ? model_failed(r, e) : 0;
}

// As they are stored, in the order of the model's attributes.
static int take_outputs(struct run *run, json_t *list, struct error *e)
{
    rknn_output outputs[MAX_ATTRS] = {0};
    for (uint32_t i = 0; i < run->n_outputs; i++)
        outputs[i].index = i;
    int r = rknn_outputs_get(run->context, run->n_outputs, outputs, NULL);
    if (r < 0)
        return model_failed(r, e);
    for (uint32_t i = 0; i < run->n_outputs; i++) {
        const rknn_tensor_attr *a = &run->outputs[i];
        json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:s, s:o, s:o}", "name",
                                              print_json_text(a->name), "node", "", "op", "",
                                              "type", get_type_string(a->type), "dims",
                                              dims_json(a->dims, a->n_dims), "hex",
                                              hex_json(outputs[i].buf, outputs[i].size)));
    }
    rknn_outputs_release(run->context, run->n_outputs, outputs);
    return 0;
}

// After the first run, which may have had to warm something up.
static int take_times(struct run *run, json_t *times, struct error *e)
{
    for (int i = 0; i < RUNS; i++) {
        rknnd_run_info info = {.struct_size = sizeof info};
        int r = rknn_run(run->context, NULL);
        if (r == RKNN_SUCC)
            r = rknnd_get_run_info(run->context, &info);
        if (r < 0)
            return model_failed(r, e);
        json_array_append_new(times, json_integer((json_int_t)info.run_us));
    }
    return 0;
}

// Empty where the device gives no times of layers. An estimate is of the chip; null: there is none.
static json_t *layers_json(const struct run *run)
{
    rknnd_list *layers = NULL;
    json_t *list = json_array();
    if (rknnd_get_layers(run->context, &layers) < 0)
        return list;
    for (uint32_t i = 0; i < layers->n; i++) {
        const rknnd_layer *l = rknnd_layer_at(layers, i);
        json_t *estimate = l->estimate_ns ? json_real((double)l->estimate_ns / 1000) : json_null();
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:I, s:o}", "name", print_json_text(l->name), "op",
                            print_json_text(l->op), "target", print_json_text(l->target), "us",
                            (json_int_t)l->time_us, "estimate_us", estimate));
    }
    rknnd_free(layers);
    return list;
}

// What each node computes; a device that cannot tell leaves the outputs.
static void take_nodes(struct run *run, json_t *answer)
{
    json_t *nodes = json_array();
    int r = rknnd_dump_layers(run->context, NULL, on_node, nodes);
    if (r < 0)
        json_object_set_new(answer, "no_nodes", print_json_text(rknnd_last_error()));
    json_object_set_new(answer, "nodes", nodes);
}

// In the order of a program: load, inputs, a run, outputs. Times and nodes come behind the outputs,
// so that a device that fails there has been compared before.
static json_t *run_model(const struct trial *trial, struct error *e)
{
    struct run run = {.trial = trial};
    json_t *answer = json_object(), *tensors = json_array(), *times = json_array();
    json_object_set_new(answer, "tensors", tensors);
    json_object_set_new(answer, "run_us", times);
    int r = open_model(&run, e);
    if (r == 0)
        r = set_inputs(&run, e);
    if (r == 0 && json_object_get(trial->probe, "cores"))
        r = run_zeros(&run, e);
    if (r == 0) {
        r = rknn_run(run.context, NULL);
        r = r < 0 ? model_failed(r, e) : take_outputs(&run, tensors, e);
    }
    if (r == 0)
        r = take_times(&run, times, e);
    if (r == 0) {
        json_object_set_new(answer, "layers", layers_json(&run));
        if (json_is_true(json_object_get(trial->probe, "nodes")))
            take_nodes(&run, answer);
    }
    if (run.context)
        rknn_destroy(run.context);
    if (r == 0)
        return answer;
    json_decref(answer);
    return failed_json(e);
}

json_t *try_probe(void *user)
{
    const struct trial *trial = user;
    struct server server = {0};
    struct error e = {0};
    const char *uri = trial->target->uri;
    json_t *answer;
    if (!uri) {
        int r = server_start(&server, trial->target->backend, trial->folder, &e);
        uri = r == 0 ? server.uri : NULL;
    }
    if (!uri || rknnd_set_server(uri) < 0)
        answer = failed_json(&e);
    else
        answer = trial->probe ? run_model(trial, &e) : look_at(&e);
    server_stop(&server);
    return answer;
}
