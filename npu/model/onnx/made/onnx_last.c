// ONNX Runtime's operators on images whose channels are the last dimension, which its optimizer
// makes of quantized convolutions and pools, as the standard's between two transpositions.
#include "npu/model/onnx/onnx_maker.h"

#define MAX_ATTRS 12

// Channels from the end to the second place, or back.
static const char *turned_channels(struct onnx_maker *m, const char *x, bool first, const char *out)
{
    const struct graph_tensor *t = onnx_made_tensor(m, x);
    int64_t perm[GRAPH_MAX_DIMS] = {0};
    if (t && t->n_dims < 3)
        onnx_made_refuse(m, "its image has fewer than three dimensions");
    if (!t || m->r < 0)
        return "";
    for (uint32_t i = 1; i < t->n_dims; i++)
        perm[i] = first ? (i == 1 ? t->n_dims - 1 : i - 1) : (i == t->n_dims - 1 ? 1 : i + 1);
    return onnx_step_transposed(m, x, perm, t->n_dims, out);
}

// The node's own attributes but channels_last.
static uint32_t image_attributes_of(struct onnx_maker *m, struct onnx_attr dst[MAX_ATTRS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->of->n_attrs; i++) {
        if (strcmp(m->of->attrs[i].name, "channels_last") == 0)
            continue;
        if (n == MAX_ATTRS) {
            onnx_made_refuse(m, "it has too many attributes");
            break;
        }
        dst[n++] = m->of->attrs[i];
    }
    return n;
}

// Inputs i to i + 2 as real numbers, by their scale and zero point along `axis`.
static const char *real_of(struct onnx_maker *m, uint32_t i, int64_t axis)
{
    const struct onnx_attr a = {.name = "axis", .i = axis};
    return onnx_step(
        m, "DequantizeLinear",
        ONNX_IN(onnx_made_input(m, i), onnx_made_input(m, i + 1), onnx_made_input(m, i + 2)), NULL,
        &a, 1);
}

// The weight and the bias, which is stored by both scales.
static const char *last_conv(struct onnx_maker *m, const char *x, const struct onnx_attr *attrs,
                             uint32_t n)
{
    const struct onnx_attr first = {.name = "axis"};
    const char *bias = onnx_made_input(m, 8);
    if (bias) {
        const char *scale =
            onnx_step_two(m, "Mul", onnx_made_input(m, 1), onnx_made_input(m, 4), NULL);
        bias = onnx_step(m, "DequantizeLinear", ONNX_IN(bias, scale), NULL, &first, 1);
    }
    return onnx_step(m, "Conv", ONNX_IN(x, real_of(m, 3, 0), bias), NULL, attrs, n);
}

int onnx_make_last(struct onnx_maker *m)
{
    struct onnx_attr attrs[MAX_ATTRS];
    const bool conv = strcmp(m->of->op, "QLinearConv") == 0, bytes = conv || m->of->n_inputs > 1;
    const bool last = !bytes || onnx_made_int(m, "channels_last", 0);
    const uint32_t form = conv ? 6 : 3, n = image_attributes_of(m, attrs);
    const char *x = bytes ? real_of(m, 0, 1) : onnx_made_input(m, 0);
    x = last ? turned_channels(m, x, true, NULL) : x;
    const char *op = strcmp(m->of->op, "NhwcMaxPool") == 0 ? "MaxPool"
                     : strstr(m->of->op, "Global")         ? "GlobalAveragePool"
                                                           : "AveragePool";
    const char *y = conv ? last_conv(m, x, attrs, n) : onnx_step(m, op, ONNX_IN(x), NULL, attrs, n);
    if (!bytes) {
        turned_channels(m, y, false, onnx_made_output(m, 0));
        return m->r;
    }
    y = last ? turned_channels(m, y, false, NULL) : y;
    onnx_step(m, "QuantizeLinear",
              ONNX_IN(y, onnx_made_input(m, form), onnx_made_input(m, form + 1)),
              onnx_made_output(m, 0), NULL, 0);
    return m->r;
}
