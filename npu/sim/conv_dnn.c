// Convolutions by oneDNN.
#include "npu/sim/conv.h"

// The weights in oneDNN's order, in memory of the plan.
static int place_weights(struct step *s, const struct conv *c, const_dnnl_primitive_desc_t pd,
                         void *weights, struct dnn_arg *arg, struct error *e)
{
    const struct graph_window *w = &c->window;
    dnnl_memory_desc_t plain;
    bool grouped = w->groups > 1;
    dnnl_dim_t g = w->groups, o = c->oc / g, i = c->ic / g, h = w->kernel[0], x = w->kernel[1];
    dnnl_dims_t dims = {o, i, h, x}, grouped_dims = {g, o, i, h, x};
    dnnl_memory_desc_init_by_tag(&plain, grouped ? 5 : 4, grouped ? grouped_dims : dims,
                                 c->integer ? dnnl_s8 : dnnl_f32, grouped ? dnnl_abcde : dnnl_abcd);
    arg->arg = DNNL_ARG_WEIGHTS;
    arg->where = DNN_CONSTANT;
    arg->md = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    arg->constant = step_alloc(s, dnnl_memory_desc_get_size(&arg->md), 1);
    if (!arg->constant)
        return error_no_memory(e, "a weight", dnnl_memory_desc_get_size(&arg->md));
    return dnn_reorder(s, &plain, weights, &arg->md, arg->constant, e);
}

static dnnl_status_t describe(const struct conv *c, dnnl_convolution_desc_t *desc,
                              dnnl_memory_desc_t *src, dnnl_memory_desc_t *dst,
                              dnnl_memory_desc_t *bias)
{
    const struct graph_window *w = &c->window;
    dnnl_dim_t g = w->groups;
    dnnl_dims_t src_dims = {c->n, c->ic, c->ih, c->iw}, dst_dims = {c->n, c->oc, c->oh, c->ow};
    dnnl_dims_t dims = {c->oc, c->ic, w->kernel[0], w->kernel[1]};
    dnnl_dims_t grouped = {g, c->oc / g, c->ic / g, w->kernel[0], w->kernel[1]};
    dnnl_dims_t strides = {w->stride[0], w->stride[1]};
    dnnl_dims_t dilates = {w->dilation[0] - 1, w->dilation[1] - 1};
    dnnl_dims_t before = {w->pad[0], w->pad[1]}, after = {w->pad[2], w->pad[3]};
    dnnl_memory_desc_t weights;
    dnnl_data_type_t in = c->integer ? dnnl_s8 : dnnl_f32, out = c->integer ? dnnl_s32 : dnnl_f32;
    dnnl_memory_desc_init_by_tag(src, 4, src_dims, in, dnnl_nhwc);
    dnnl_memory_desc_init_by_tag(dst, 4, dst_dims, out, dnnl_nhwc);
    dnnl_memory_desc_init_by_tag(&weights, g > 1 ? 5 : 4, g > 1 ? grouped : dims, in,
                                 dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(bias, 1, (dnnl_dims_t){c->oc}, dnnl_f32, dnnl_a);
    return dnnl_dilated_convolution_forward_desc_init(
        desc, dnnl_forward_inference, dnnl_convolution_direct, src, &weights,
        c->direct && c->float_bias ? bias : NULL, dst, strides, dilates, before, after);
}

static dnnl_status_t add_activation(const struct step *s, dnnl_primitive_attr_t attr)
{
    const struct graph_post *post = &s->node->post[0];
    bool relu = post->kind == POST_RELU;
    dnnl_post_ops_t ops;
    dnnl_status_t status = dnnl_post_ops_create(&ops);
    if (status != dnnl_success)
        return status;
    status = dnnl_post_ops_append_eltwise(ops, 1, relu ? dnnl_eltwise_relu : dnnl_eltwise_clip,
                                          relu ? 0 : post->alpha, relu ? 0 : post->beta);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t make(const struct step *s, const struct conv *c,
                          const dnnl_convolution_desc_t *desc, dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_attr_t attr;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && c->integer && c->x_zp)
        status = dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_SRC, 1, 0, &c->x_zp);
    if (status == dnnl_success && c->direct && s->node->n_post)
        status = add_activation(s, attr);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(pd, desc, attr, dnn_engine(s->plan), NULL);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

int conv_dnn_prepare(struct step *s, struct conv *c, void *weights, struct error *e)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    struct dnn_arg args[4] = {
        {.arg = DNNL_ARG_SRC}, {.arg = DNNL_ARG_DST}, {0}, {.arg = DNNL_ARG_BIAS}};
    bool has_bias = c->direct && c->float_bias;
    dnnl_status_t status = describe(c, &desc, &args[0].md, &args[1].md, &args[3].md);
    if (status == dnnl_success)
        status = make(s, c, &desc, &pd);
    if (status != dnnl_success)
        return dnn_error(s, status, "no convolution of these sizes", e);
    args[0].where = c->own_image ? DNN_SCRATCH : DNN_TENSOR;
    args[0].at = c->own_image ? c->image_at : (uint64_t)s->node->inputs[0];
    args[1].where = c->direct ? DNN_TENSOR : DNN_SCRATCH;
    args[1].at = c->direct ? (uint64_t)s->node->outputs[0] : c->sums_at;
    args[3].where = DNN_CONSTANT;
    args[3].constant = c->float_bias;
    int r = place_weights(s, c, pd, weights, &args[2], e);
    if (r == 0)
        r = dnn_add_call(s, pd, args, has_bias ? 4 : 3, &c->call, e);
    dnnl_primitive_desc_destroy(pd);
    return r;
}
