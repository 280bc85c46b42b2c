// Which tensors can be bound where they are: a dma-buf with exactly the type, layout, strides and
// size that the runtime expects. Everything else is copied and converted. Pure decisions, without a
// call into the runtime; any thread.
#include "npu/rknnrt/lanes/lane_direct.h"

#include "npu/rknnrt/lanes/lane.h"

// A stride of 0 means "packed", that is, the dimension itself.
static bool strides_agree(uint32_t a, uint32_t b, uint32_t all)
{
    return (a ? a : all) == (b ? b : all);
}

// Whether elements are where the attribute has them; tensors without layout have only one order.
static bool is_form(const struct tensor_attr *a, const struct convert_form *f)
{
    bool rows = a->layout == TENSOR_NHWC, blocks = a->layout == TENSOR_NC1HWC2;
    if (a->layout == TENSOR_UNDEFINED)
        return true;
    return a->layout == f->layout && (!blocks || a->dims[4] == f->c2) &&
           strides_agree(a->w_stride, f->w_stride, a->dims[rows ? 2 : 3]) &&
           strides_agree(a->h_stride, f->h_stride, a->dims[rows ? 1 : 2]);
}

// Size and type must agree, unless the program vouches for its bytes with pass_through.
bool lane_direct_input(const struct npu_input *in, const struct tensor_io *io,
                       const struct tensor_attr *form)
{
    struct convert_form own = {
        .layout = in->layout, .w_stride = in->w_stride, .h_stride = in->h_stride};
    if (!in->dmabuf || in->converted || in->size != form->size_with_stride)
        return false;
    if (in->stored && in->type != io->logical.type)
        return false;
    return in->pass_through || is_form(form, &own);
}

// In a native form, or in the plain one, of which programs that want float32 change the type
// (SDK guide 5.2.3, table 5-4).
bool lane_direct_output(const struct npu_output *out, const struct tensor_io *io,
                        struct tensor_attr *ret)
{
    const struct tensor_attr *const native[] = {&io->native, &io->native_nhwc};
    const struct convert_form *f = out->form;
    if (!out->data || !out->dmabuf || !f)
        return false;
    for (size_t i = 0; i < 2; i++)
        if (f->type == native[i]->type && is_form(native[i], f) &&
            out->size == native[i]->size_with_stride) {
            *ret = *native[i];
            return true;
        }
    bool real = f->type == TENSOR_FLOAT32;
    if ((!real && f->type != io->logical.type) || !is_form(&io->logical, f))
        return false;
    *ret = io->logical;
    ret->type = f->type;
    return true;
}

bool lane_direct_helps(const struct runtime *r, const struct npu_model_info *info,
                       const struct npu_job *job)
{
    struct tensor_attr attr;
    bool helps = false;
    if (r->small || info->n_shape_sets > 1 || !r->create_mem_from_fd || !r->create_mem ||
        !r->destroy_mem || !r->set_io_mem)
        return false;
    for (uint32_t i = 0; i < info->n_inputs && !helps; i++)
        helps = lane_memory_form(&info->inputs[i], &job->inputs[i], &attr, NULL) == 0 &&
                lane_direct_input(&job->inputs[i], &info->inputs[i], &attr);
    for (uint32_t i = 0; i < info->n_outputs && !helps; i++)
        helps = lane_direct_output(&job->outputs[i], &info->outputs[i], &attr);
    return helps;
}
