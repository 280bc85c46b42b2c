// Tensors by rknn_inputs_set() and rknn_outputs_get(), which copy and convert. The runtime takes
// inputs packed, in NHWC or NCHW, of any type; what it cannot take is brought into such a form in
// the lane's scratch memory first:
//
//      as the program gave it      buf points to the program's bytes
//      with strides                packed into scratch
//      stored (quantized) values   into the native layout, pass_through
#include "npu/rknnrt/lanes/lane.h"
#include "tensor/convert.h"

static struct convert_form native_form(const struct tensor_attr *a)
{
    return (struct convert_form){.type = a->type,
                                 .layout = a->layout,
                                 .w_stride = a->w_stride,
                                 .h_stride = a->h_stride,
                                 .c2 = a->layout == TENSOR_NC1HWC2 ? a->dims[4] : 0};
}

// Moves data to another place in memory and layout, not to another type.
static int move(struct lane *l, uint32_t i, const struct tensor_attr *logical,
                const struct convert_form *from, const struct npu_input *in,
                const struct convert_form *to, size_t to_size, struct error *e)
{
    uint32_t dims[4];
    uint8_t *room = lane_room(l, i, to_size, e);
    if (!room)
        return STATUS_MALLOC_FAIL;
    convert_dims(logical, dims);
    int s = convert_layout(dims, from, in->data, in->size, to, room, to_size, 0, e);
    l->inputs[i].buf = room;
    l->inputs[i].size = (uint32_t)to_size;
    return s;
}

// Values as the model stores them must not be converted by the runtime, which pass_through
// achieves; but then it takes only the model's native layout.
static int put_stored(struct lane *l, uint32_t i, const struct tensor_io *io,
                      const struct npu_input *in, struct error *e)
{
    const struct tensor_attr *a = &io->logical, *native = &io->native;
    struct convert_form from = {
        .type = a->type, .layout = in->layout, .w_stride = in->w_stride, .h_stride = in->h_stride};
    struct convert_form to = native_form(native);
    if (native->type != a->type)
        return error_set(e, STATUS_INPUT_INVALID,
                         "the model stores %s, and the runtime takes it as %s",
                         tensor_type_name(a->type), tensor_type_name(native->type));
    l->inputs[i].pass_through = 1;
    if (a->n_dims != 4)
        from = to = (struct convert_form){.type = a->type, .layout = TENSOR_UNDEFINED};
    return move(l, i, a, &from, in, &to, native->size_with_stride, e);
}

// Removes strides: rknn_input has no fields for them.
static int put_strided(struct lane *l, uint32_t i, const struct tensor_io *io,
                       const struct npu_input *in, struct error *e)
{
    struct convert_form from = {
        .type = in->type, .layout = in->layout, .w_stride = in->w_stride, .h_stride = in->h_stride};
    struct convert_form to = {.type = in->type, .layout = in->layout};
    size_t size;
    if (!tensor_bytes(in->type, io->logical.n_elems, &size))
        return error_set(e, STATUS_INPUT_INVALID, "type %d is not known", (int)in->type);
    return move(l, i, &io->logical, &from, in, &to, size, e);
}

// The size is checked, as rknn_input has 32 bits for it.
static int put_one(struct lane *l, uint32_t i, const struct tensor_io *io,
                   const struct npu_input *in, struct error *e)
{
    l->inputs[i] = (rknn_input){.index = i,
                                .buf = (void *)in->data,
                                .size = (uint32_t)in->size,
                                .pass_through = in->pass_through,
                                .type = (rknn_tensor_type)in->type,
                                .fmt = (rknn_tensor_format)in->layout};
    if (in->size > UINT32_MAX)
        return error_set(e, STATUS_INPUT_INVALID, "%zu bytes are too many", in->size);
    if (in->pass_through)
        return 0;
    if (in->stored)
        return put_stored(l, i, io, in, e);
    return in->w_stride || in->h_stride ? put_strided(l, i, io, in, e) : 0;
}

int lane_io_put(struct lane *l, const struct npu_job *job, struct error *e)
{
    const struct npu_model_info *m = l->info;
    const struct tensor_io *inputs = m->inputs + (size_t)job->shape_set * m->n_inputs;
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        int s = put_one(l, i, &inputs[i], &job->inputs[i], e);
        if (s < 0)
            return error_prefix(e, "input %u", i);
    }
    int code = l->runtime->inputs_set(l->context, m->n_inputs, l->inputs);
    return code == RKNN_SUCC ? 0 : runtime_failed(l->runtime, "rknn_inputs_set", code, e);
}

// Straight to where it is wanted, if it is wanted as the runtime gives it; else, and if nobody
// wants it, to scratch: the runtime insists on a place for each output.
static int prepare_output(struct lane *l, uint32_t i, const struct tensor_io *io,
                          const struct npu_output *out, struct error *e)
{
    bool direct = out->data && !out->form;
    if (direct && out->size != io->logical.size)
        return error_set(e, STATUS_OUTPUT_INVALID, "output %u: %zu bytes, the model gives %u", i,
                         out->size, io->logical.size);
    void *buf = direct ? out->data : lane_room(l, l->info->n_inputs + i, io->logical.size, e);
    l->outputs[i] =
        (rknn_output){.index = i, .is_prealloc = 1, .buf = buf, .size = io->logical.size};
    return buf ? 0 : STATUS_MALLOC_FAIL;
}

// From the runtime's form in scratch to the one that the program asked for.
static int form_output(const struct lane *l, uint32_t i, const struct tensor_io *io,
                       const struct npu_output *out, struct error *e)
{
    const struct tensor_attr *a = &io->logical;
    struct convert_form from = {.type = a->type, .layout = a->layout};
    uint32_t dims[4];
    convert_dims(a, dims);
    int s = convert_output(a, dims, &from, l->outputs[i].buf, a->size, out->form, out->data,
                           out->size, e);
    return s < 0 ? error_prefix(e, "output %u", i) : 0;
}

// outputs_release() right after the copy: with is_prealloc the bytes are already ours.
int lane_io_get(struct lane *l, const struct npu_job *job, struct error *e)
{
    const struct npu_model_info *m = l->info;
    const struct tensor_io *outputs = m->outputs + (size_t)job->shape_set * m->n_outputs;
    int s = 0;
    for (uint32_t i = 0; i < m->n_outputs && s == 0; i++)
        s = prepare_output(l, i, &outputs[i], &job->outputs[i], e);
    if (s < 0)
        return s;
    int code = l->runtime->outputs_get(l->context, m->n_outputs, l->outputs, NULL);
    if (code != RKNN_SUCC)
        return runtime_failed(l->runtime, "rknn_outputs_get", code, e);
    l->runtime->outputs_release(l->context, m->n_outputs, l->outputs);
    for (uint32_t i = 0; i < m->n_outputs && s == 0; i++)
        if (job->outputs[i].data && job->outputs[i].form)
            s = form_output(l, i, &outputs[i], &job->outputs[i], e);
    return s;
}
