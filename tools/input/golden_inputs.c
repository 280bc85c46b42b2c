// Makes inputs for the reference of a comparison from those of the model. A .rknn file can contain
// the preprocessing that the float model leaves to its caller; it is applied here:
//
//   y[c] = (x[order[c]] - mean[c]) / std[c]
//
// Inputs belong together by name, else by position. Data that needs no preprocessing is copied in
// its own type where the reference takes that.
#include "tools/input/golden_inputs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CHANNELS 4

// x -> (x[order[c]] - mean[c]) / std[c].
struct preparation {
    size_t n; // channels; 0: nothing is done
    double mean[MAX_CHANNELS], std[MAX_CHANNELS];
    size_t order[MAX_CHANNELS];
};

// From the description's inputs. Lists of different lengths or indices out of range mean "none":
// the description comes from a server and is not trusted.
static struct preparation preparation_of(json_t *description, uint32_t index)
{
    struct preparation p = {0};
    json_t *input = json_array_get(json_object_get(description, "inputs"), index);
    json_t *mean = json_object_get(input, "mean"), *std = json_object_get(input, "std");
    json_t *order = json_object_get(input, "channel_order");
    size_t n = json_array_size(mean);
    bool changes = false;
    if (n > MAX_CHANNELS || json_array_size(std) != n || json_array_size(order) != n)
        return p;
    for (size_t c = 0; c < n; c++) {
        p.mean[c] = json_number_value(json_array_get(mean, c));
        p.std[c] = json_number_value(json_array_get(std, c));
        p.order[c] = (size_t)json_integer_value(json_array_get(order, c));
        changes = changes || p.mean[c] != 0 || p.std[c] != 1 || p.order[c] != c;
        if (p.order[c] >= n)
            return p;
    }
    p.n = changes ? n : 0;
    return p;
}

static bool is_real(rknn_tensor_type type)
{
    return type == RKNN_TENSOR_FLOAT32 || type == RKNN_TENSOR_FLOAT16;
}

// One element; has_values() lists the types that it knows.
static double value_of(const rknn_input *in, size_t i)
{
    switch (in->type) {
    case RKNN_TENSOR_FLOAT32:
        return (double)((const float *)in->buf)[i];
    case RKNN_TENSOR_UINT8:
        return ((const uint8_t *)in->buf)[i];
    case RKNN_TENSOR_INT8:
        return ((const int8_t *)in->buf)[i];
    default:
        return ((const int16_t *)in->buf)[i];
    }
}

static bool has_values(rknn_tensor_type type)
{
    return type == RKNN_TENSOR_FLOAT32 || type == RKNN_TENSOR_UINT8 || type == RKNN_TENSOR_INT8 ||
           type == RKNN_TENSOR_INT16;
}

// Elements between two channels of a pixel, and between two pixels: NHWC interleaves channels, NCHW
// has a plane for each.
static void find_strides(const rknn_input *in, const rknn_tensor_attr *attr, size_t channels,
                         size_t *ret_channel, size_t *ret_pixel)
{
    bool planes = in->fmt == RKNN_TENSOR_NCHW;
    *ret_channel = planes ? attr->n_elems / attr->dims[0] / channels : 1;
    *ret_pixel = planes ? 1 : channels;
}

// Element by element in the data's own layout. c is the element's channel, `first` its pixel's
// channel 0.
static void prepare_input(const struct preparation *p, const rknn_input *in,
                          const rknn_tensor_attr *attr, float *values)
{
    size_t channel, pixel, n = attr->n_elems, image = n / attr->dims[0];
    find_strides(in, attr, p->n, &channel, &pixel);
    for (size_t i = 0; i < n; i++) {
        size_t c = i % image / channel % p->n, first = i - c * channel;
        double x = value_of(in, first + p->order[c] * channel);
        values[i] = (float)((x - p->mean[c]) / p->std[c]);
    }
}

static void copy_values(const rknn_input *in, size_t n, float *values)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (float)value_of(in, i);
}

// A copy, since each set frees its own buffers.
static int copy_element(const rknn_input *in, uint32_t index, rknn_input *ret, struct error *e)
{
    *ret = *in;
    ret->index = index;
    ret->buf = malloc((size_t)in->size + 1);
    if (!ret->buf)
        return error_no_memory(e, "an input", 0);
    memcpy(ret->buf, in->buf, in->size);
    return 0;
}

// To float32, with or without preprocessing. The buffer is the new input's.
static int convert_input(const struct preparation *p, const rknn_input *in,
                         const rknn_tensor_attr *attr, uint32_t index, rknn_input *ret,
                         struct error *e)
{
    if (!has_values(in->type))
        return error_set(e, STATUS_INPUT_INVALID,
                         "input \"%s\": %s cannot be brought into shape for the "
                         "golden model; give float32 or uint8",
                         attr->name, get_type_string(in->type));
    float *values = calloc((size_t)attr->n_elems + 1, sizeof *values);
    if (!values)
        return error_no_memory(e, "an input", 0);
    if (p->n)
        prepare_input(p, in, attr, values);
    else
        copy_values(in, attr->n_elems, values);
    *ret = (rknn_input){.index = index,
                        .buf = values,
                        .size = (uint32_t)(attr->n_elems * sizeof *values),
                        .type = RKNN_TENSOR_FLOAT32,
                        .fmt = in->fmt};
    return 0;
}

// By name, else by position: converters rename inputs.
static uint32_t find_input(const struct model *m, const char *name, uint32_t index)
{
    for (uint32_t i = 0; i < m->n_inputs; i++)
        if (strcmp(m->inputs[i].name, name) == 0)
            return i;
    return index;
}

// `same`: the reference does its own preprocessing, or there is none. A reference with float inputs
// gets float32 in any case, so that integers are not taken for quantized values.
int golden_inputs_make(struct input_set *ret, const struct model *golden,
                       json_t *golden_description, const struct input_set *given,
                       const struct model *m, json_t *description, struct error *e)
{
    int r = 0;
    if (golden->n_inputs != m->n_inputs)
        return error_set(e, STATUS_MODEL_INVALID, "%s has %u inputs, and %s has %u", m->path,
                         m->n_inputs, golden->path, golden->n_inputs);
    r = input_set_init(ret, golden->n_inputs, e);
    for (uint32_t i = 0; i < ret->n && r == 0; i++) {
        uint32_t from = find_input(m, golden->inputs[i].name, i);
        const rknn_tensor_attr *attr = &m->inputs[from];
        const struct preparation p = preparation_of(description, from);
        bool same = p.n == 0 || preparation_of(golden_description, i).n > 0;
        if (given->inputs[from].pass_through)
            r = error_set(e, STATUS_PARAM_INVALID,
                          "input \"%s\": --pass-through gives data in this model's own form, "
                          "which %s does not take; give a .npy or a picture",
                          attr->name, golden->path);
        else if (golden->inputs[i].n_elems != attr->n_elems)
            r = error_set(e, STATUS_MODEL_INVALID, "input \"%s\" has %u elements, and in %s %u",
                          attr->name, attr->n_elems, golden->path, golden->inputs[i].n_elems);
        else if (same && !(is_real(golden->inputs[i].type) && has_values(given->inputs[from].type)))
            r = copy_element(&given->inputs[from], i, &ret->inputs[i], e);
        else
            r = convert_input(same ? &(struct preparation){0} : &p, &given->inputs[from], attr, i,
                              &ret->inputs[i], e);
    }
    return r;
}
