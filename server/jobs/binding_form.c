// Which types and layouts programs may ask for when they bind memory (SDK guide 5.2.3), and how
// many bytes a tensor has then.
//
// Without pass_through an input is in its logical layout, and whoever runs the model converts type
// and layout; with it, the memory is in the device's native form and is used as it is.
#include "server/jobs/binding.h"

#include <stdio.h>

#define BIT(type) (1u << TENSOR_##type)

// Types besides the model's own (tables 5-3, 5-4 and 5-6). Some entries are for ONNX models, which
// the tables do not cover. Where types differ, the CPU converts.
static const struct {
    unsigned inputs, outputs;
} others[TENSOR_TYPE_COUNT] = {
    [TENSOR_INT8] = {BIT(UINT8) | BIT(FLOAT32), BIT(FLOAT32) | BIT(FLOAT16)},
    [TENSOR_UINT8] = {BIT(FLOAT32), BIT(FLOAT32) | BIT(FLOAT16)},
    [TENSOR_FLOAT16] = {BIT(UINT8) | BIT(FLOAT32), BIT(FLOAT32)},
    [TENSOR_FLOAT32] = {BIT(UINT8), 0},
};

static int refuse_type(const struct tensor_attr *a, const char *what, uint32_t type, unsigned also,
                       int code, struct error *e)
{
    char names[64] = "";
    size_t n = 0;
    for (unsigned t = 0; t < TENSOR_TYPE_COUNT; t++)
        if (also & 1u << t)
            n += (size_t)snprintf(names + n, sizeof names - n, " or %s",
                                  tensor_type_name((enum tensor_type)t));
    return error_set(e, code,
                     "%s %.64s is %s in the model; memory of %s cannot be set for it, only %s%s",
                     what, a->name, tensor_type_name(a->type),
                     tensor_type_name((enum tensor_type)type), tensor_type_name(a->type), names);
}

// The native form, with the padding of its rows.
static int pass_through(const struct tensor_io *io, struct bound *ret)
{
    *ret = (struct bound){.size = io->native.size_with_stride,
                          .form = {.type = io->native.type, .layout = io->native.layout},
                          .pass_through = true};
    return 0;
}

// An input without pass_through is NHWC where it has channels, also when its native form is
// NC1HWC2.
static int input_layout(const struct tensor_io *io, uint32_t wanted, enum tensor_layout *ret,
                        struct error *e)
{
    const struct tensor_attr *a = &io->logical;
    *ret = a->n_dims == 4 ? a->layout : TENSOR_UNDEFINED;
    if (a->n_dims != 4 ? wanted != TENSOR_NC1HWC2
                       : wanted == (uint32_t)a->layout || wanted == (uint32_t)io->native.layout)
        return 0;
    return error_set(e, STATUS_INPUT_INVALID,
                     "input %.64s: memory for it is %s, or its native form (%s) with pass_through; "
                     "not %s",
                     a->name, tensor_layout_name(*ret), tensor_layout_name(io->native.layout),
                     tensor_layout_name((enum tensor_layout)wanted));
}

// Bytes of a tensor in this type, layout and strides. Strides are ignored for tensors that are not
// 4-D, which have no rows and planes.
static int form_size(const struct tensor_io *io, struct bound *b, struct error *e)
{
    uint32_t dims[4];
    size_t size;
    convert_dims(&io->logical, dims);
    if (io->logical.n_dims != 4)
        b->form.w_stride = b->form.h_stride = 0;
    int r = convert_form_bytes(dims, &b->form, &size, e);
    if (r == 0)
        b->size = size;
    return r < 0 ? error_prefix(e, "%.64s", io->logical.name) : 0;
}

// `stored`: the memory has the model's own type, so no type conversion is needed.
int binding_check_input(const struct tensor_io *io, const rknnd_ContextBind *m, struct bound *ret,
                        struct error *e)
{
    const struct tensor_attr *a = &io->logical;
    unsigned also = others[a->type].inputs;
    struct bound b = {.form = {.type = (enum tensor_type)m->type,
                               .w_stride = m->w_stride,
                               .h_stride = m->h_stride},
                      .stored = m->type == (uint32_t)a->type};
    if (m->pass_through)
        return pass_through(io, ret);
    if (m->type != (uint32_t)a->type && (m->type >= TENSOR_TYPE_COUNT || !(also & 1u << m->type)))
        return refuse_type(a, "input", m->type, also, STATUS_INPUT_INVALID, e);
    int r = input_layout(io, m->layout, &b.form.layout, e);
    if (r == 0)
        r = form_size(io, &b, e);
    if (r == 0)
        *ret = b;
    return r;
}

// Table 5-5: the layout that was queried; and NCHW where the native one is NC1HWC2. Elements of a
// tensor that is not 4-D have one order.
static int output_layout(const struct tensor_io *io, uint32_t wanted, enum tensor_layout *ret,
                         struct error *e)
{
    const struct tensor_attr *a = &io->logical;
    bool native = wanted == (uint32_t)io->native.layout, flat = a->n_dims != 4;
    *ret = flat ? TENSOR_UNDEFINED : (enum tensor_layout)wanted;
    if (flat ? wanted != TENSOR_NC1HWC2
             : native || wanted == (uint32_t)io->native_nhwc.layout || wanted == TENSOR_NCHW)
        return 0;
    return error_set(e, STATUS_OUTPUT_INVALID, "output %.64s: memory for it is %s, %s%s; not %s",
                     a->name, tensor_layout_name(io->native.layout),
                     tensor_layout_name(io->native_nhwc.layout), flat ? "" : " or NCHW",
                     tensor_layout_name((enum tensor_layout)wanted));
}

int binding_check_output(const struct tensor_io *io, const rknnd_ContextBind *m, bool small_chip,
                         struct bound *ret, struct error *e)
{
    const struct tensor_attr *a = &io->logical;
    unsigned also = others[a->type].outputs & (small_chip ? ~BIT(FLOAT32) : ~0u);
    struct bound b = {.form = {.type = (enum tensor_type)m->type,
                               .w_stride = m->w_stride,
                               .h_stride = m->h_stride}};
    if (m->pass_through)
        return error_set(e, STATUS_OUTPUT_INVALID, "output %.64s cannot be passed through",
                         a->name);
    if (m->type != (uint32_t)a->type && (m->type >= TENSOR_TYPE_COUNT || !(also & 1u << m->type)))
        return refuse_type(a, "output", m->type, also, STATUS_OUTPUT_INVALID, e);
    int r = output_layout(io, m->layout, &b.form.layout, e);
    if (r == 0 && b.form.layout == TENSOR_NC1HWC2)
        b.form.c2 = io->native.dims[4];
    if (r == 0)
        r = form_size(io, &b, e);
    if (r == 0)
        *ret = b;
    return r;
}
