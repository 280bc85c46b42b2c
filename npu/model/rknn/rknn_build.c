// Root slot 3: {attrs: {NAME: {…}}, quant_tab: {…}, dynamic_shapes: {…}}, a Python literal. The
// tables have the same in their own words, and are what is computed by; here the two are compared,
// and what is only said in this text is refused, unless it is known to change nothing.
#include "npu/model/rknn/rknn_build.h"

#include "npu/model/rknn/pyliteral.h"

// Attributes of inputs and outputs, and why they are not read: the tables say it, or it is of the
// converter's own work.
static const char *const free_keys[] = {
    "idx",       "shape",      "dtype", "mean", "std", "layout", // slots of tensors and inputs
    "is_output", "layout_ori", // the graph's ports; of the original model
    "range",                   // of pictures before mean and deviation
};

// Whether a value asks for something: not None, False, 0, or empty.
static bool says_something(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) > 0;
    if (json_is_number(value))
        return json_number_value(value) != 0;
    return json_is_true(value) || json_object_size(value) || json_array_size(value);
}

static bool is_free(const char *key)
{
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++)
        if (strcmp(free_keys[i], key) == 0)
            return true;
    return false;
}

static bool swaps_channels(const struct rknn_file *f, const char *name)
{
    for (uint32_t i = 0; i < f->n_inputs; i++)
        if (strcmp(f->tensors[f->inputs[i]].name, name) == 0)
            return f->preprocess[i].order[0] == 2 && f->preprocess[i].order[2] == 0;
    return true; // no input of the graph
}

static int check_port(const struct rknn_file *f, const char *name, json_t *attrs, struct error *e)
{
    const char *key;
    json_t *value;
    json_object_foreach(attrs, key, value)
    {
        bool known = is_free(key) || (strcmp(key, "rgb2bgr") == 0 && swaps_channels(f, name));
        if (says_something(value) && !known)
            return error_set(
                e, STATUS_MODEL_INVALID,
                "the file's build attributes say \"%.40s\" of %.60s, which %s", key, name,
                strcmp(key, "rgb2bgr") == 0 ? "its tables do not" : "is not understood");
    }
    return 0;
}

// How files hold the shapes beside the first one is not known (docs/rknn-format.md).
static int check_shapes(const json_t *build, struct error *e)
{
    if (!json_object_size(json_object_get(build, "dynamic_shapes")))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "the file has dynamic shapes (dynamic_input), which the software NPU cannot "
                     "read from .rknn files: convert it with fixed shapes, or load its ONNX model "
                     "with a list of shapes");
}

static int check_all(const struct rknn_file *f, json_t *build, struct error *e)
{
    const char *key;
    json_t *value;
    json_object_foreach(build, key, value)
    {
        bool known = strcmp(key, "attrs") == 0 || strcmp(key, "quant_tab") == 0 ||
                     strcmp(key, "dynamic_shapes") == 0;
        if (!known && says_something(value))
            return error_set(e, STATUS_MODEL_INVALID,
                             "the file's build attributes have \"%.40s\", which is not understood",
                             key);
    }
    int r = check_shapes(build, e);
    json_object_foreach(json_object_get(build, "attrs"), key, value) r =
        r < 0 ? r : check_port(f, key, value, e);
    return r;
}

int rknn_build_check(const struct rknn_file *f, struct error *e)
{
    json_t *build;
    if (f->shapes[0] && strcmp(f->shapes, "static_shape") != 0)
        return error_set(e, STATUS_MODEL_INVALID,
                         "the file says \"%.40s\" of its shapes, where \"static_shape\" is known: "
                         "convert it with fixed shapes",
                         f->shapes);
    if (!f->attrs_text[0])
        return 0;
    int r = pyliteral_parse(f->attrs_text, &build, e);
    if (r < 0)
        return error_prefix(e, "the file's build attributes");
    r = check_all(f, build, e);
    json_decref(build);
    return r;
}
