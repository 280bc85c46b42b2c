// oneDNN's own times.
#include "tests/bench/sim/conv_times.h"

#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/samples.h"

#define MAX_ARGS 4

struct call {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[MAX_ARGS];
    void *data[MAX_ARGS];
};

extern void omp_set_num_threads(int n); // of libgomp, which oneDNN is linked with

// Zero points and scales are any: their values take no time, that they are there does.
static dnnl_primitive_attr_t make_attr(const struct graph *g, const struct graph_node *n)
{
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    dnnl_primitive_attr_create(&attr);
    dnnl_post_ops_create(&ops);
    for (uint32_t i = 0; i < n->n_post; i++) {
        const struct graph_post *post = &n->post[i];
        if (post->kind == POST_RELU || post->kind == POST_LEAKY_RELU)
            dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu,
                                         post->kind == POST_RELU ? 0 : post->alpha, 0);
        else if (post->kind == POST_CLIP)
            dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_clip, post->alpha, post->beta);
    }
    dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    if (!n->quant)
        return attr;
    float *scales = calloc(y->dims[1], sizeof *scales);
    dnnl_primitive_attr_set_output_scales(attr, y->dims[1], 1 << 1, scales);
    if (x->zp)
        dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_SRC, 1, 0, &x->zp);
    if (y->zp)
        dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_DST, 1, 0, &y->zp);
    free(scales);
    return attr;
}

static const_dnnl_primitive_desc_t make_desc(const struct graph *g, const struct graph_node *n,
                                             dnnl_engine_t engine)
{
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *w = &g->tensors[n->inputs[1]];
    const struct graph_tensor *y = &g->tensors[n->outputs[0]];
    const struct graph_window *v = &n->window;
    dnnl_data_type_t type = n->quant ? dnnl_s8 : dnnl_f32;
    dnnl_dim_t groups = v->groups, o = y->dims[1], i = x->dims[1];
    dnnl_dims_t x_dims = {x->dims[0], i, x->dims[2], x->dims[3]};
    dnnl_dims_t y_dims = {y->dims[0], o, y->dims[2], y->dims[3]};
    dnnl_dims_t dense = {o, i, w->dims[2], w->dims[3]};
    dnnl_dims_t grouped = {groups, o / groups, i / groups, w->dims[2], w->dims[3]};
    dnnl_dims_t strides = {v->stride[0], v->stride[1]};
    dnnl_dims_t dilates = {v->dilation[0] - 1, v->dilation[1] - 1};
    dnnl_dims_t before = {v->pad[0], v->pad[1]}, after = {v->pad[2], v->pad[3]};
    dnnl_memory_desc_t src, weights, bias, dst;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_init_by_tag(&src, 4, x_dims, type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&dst, 4, y_dims, type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&weights, groups > 1 ? 5 : 4, groups > 1 ? grouped : dense, type,
                                 dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&bias, 1, (dnnl_dims_t){o}, dnnl_f32, dnnl_a);
    if (dnnl_dilated_convolution_forward_desc_init(
            &desc, dnnl_forward_inference, dnnl_convolution_direct, &src, &weights, &bias, &dst,
            strides, dilates, before, after) != dnnl_success)
        return NULL;
    dnnl_primitive_attr_t attr = make_attr(g, n);
    dnnl_primitive_desc_create(&pd, &desc, attr, engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    return pd;
}

static void add_memory(struct call *c, int i, int arg, const dnnl_memory_desc_t *md)
{
    size_t size = dnnl_memory_desc_get_size(md);
    c->data[i] = aligned_alloc(64, (size + 64) / 64 * 64);
    if (!c->data[i])
        abort();
    memset(c->data[i], 0, size);
    c->args[i].arg = arg;
    if (dnnl_memory_create(&c->args[i].memory, md, c->engine, c->data[i]) != dnnl_success)
        abort();
}

typedef const_dnnl_primitive_desc_t describe(const struct graph *g, const struct graph_node *n,
                                             dnnl_engine_t engine);

static bool call_init(struct call *c, const struct graph *g, const struct graph_node *n,
                      describe *make)
{
    dnnl_engine_create(&c->engine, dnnl_cpu, 0);
    dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags);
    const_dnnl_primitive_desc_t pd = make(g, n, c->engine);
    if (!pd || dnnl_primitive_create(&c->primitive, pd) != dnnl_success)
        return false;
    add_memory(c, 0, DNNL_ARG_SRC, dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0));
    add_memory(c, 1, DNNL_ARG_WEIGHTS, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
    add_memory(c, 2, DNNL_ARG_DST, dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0));
    add_memory(c, 3, DNNL_ARG_BIAS, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1));
    dnnl_primitive_desc_destroy((dnnl_primitive_desc_t)pd);
    return true;
}

static void call_done(struct call *c)
{
    for (int i = 0; i < MAX_ARGS; i++) {
        dnnl_memory_destroy(c->args[i].memory);
        free(c->data[i]);
    }
    dnnl_primitive_destroy(c->primitive);
    dnnl_stream_destroy(c->stream);
    dnnl_engine_destroy(c->engine);
}

static void execute(void *arg)
{
    struct call *c = arg;
    if (dnnl_primitive_execute(c->primitive, c->stream, MAX_ARGS, c->args) != dnnl_success)
        abort();
    dnnl_stream_wait(c->stream);
}

// ---- transposed convolutions ----

// A graph's weight is that of a convolution over an image with zeros between its pixels, of which
// oneDNN's own form of the same has only the sizes.
static const_dnnl_primitive_desc_t make_transposed(const struct graph *g,
                                                   const struct graph_node *n, dnnl_engine_t engine)
{
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    const struct graph_window *v = &n->window;
    dnnl_data_type_t type = n->quant ? dnnl_s8 : dnnl_f32;
    dnnl_dim_t groups = v->groups, o = y->dims[1], i = x->dims[1];
    dnnl_dims_t x_dims = {x->dims[0], i, x->dims[2], x->dims[3]};
    dnnl_dims_t y_dims = {y->dims[0], o, y->dims[2], y->dims[3]};
    dnnl_dims_t dense = {o, i, v->kernel[0], v->kernel[1]};
    dnnl_dims_t grouped = {groups, o / groups, i / groups, v->kernel[0], v->kernel[1]};
    dnnl_dims_t strides = {v->stride[0], v->stride[1]}, before = {v->pad[0], v->pad[1]};
    dnnl_dims_t dilates = {v->dilation[0] - 1, v->dilation[1] - 1}, after;
    for (int d = 0; d < 2; d++) {
        dnnl_dim_t reach = (dnnl_dim_t)v->dilation[d] * (v->kernel[d] - 1) + 1;
        dnnl_dim_t all = ((dnnl_dim_t)x->dims[2 + d] - 1) * v->stride[d] + reach;
        after[d] = all - before[d] - y->dims[2 + d];
    }
    dnnl_memory_desc_t src, weights, bias, dst;
    dnnl_deconvolution_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_init_by_tag(&src, 4, x_dims, type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&dst, 4, y_dims, type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&weights, groups > 1 ? 5 : 4, groups > 1 ? grouped : dense, type,
                                 dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&bias, 1, (dnnl_dims_t){o}, dnnl_f32, dnnl_a);
    if (dnnl_dilated_deconvolution_forward_desc_init(
            &desc, dnnl_forward_inference, dnnl_deconvolution_direct, &src, &weights, &bias, &dst,
            strides, dilates, before, after) != dnnl_success)
        return NULL;
    dnnl_primitive_attr_t attr = make_attr(g, n);
    dnnl_primitive_desc_create(&pd, &desc, attr, engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    return pd;
}

double conv_time_ns(const struct graph *g, const struct graph_node *n)
{
    struct call c = {0};
    omp_set_num_threads(1);
    double ns = call_init(&c, g, n, make_desc) ? samples_best_ns(execute, &c) : -1;
    call_done(&c);
    return ns;
}

// What oneDNN computes in plain C, element by element, is no yardstick.
static bool is_plain(const struct call *c)
{
    const_dnnl_primitive_desc_t pd;
    const char *name = "";
    dnnl_primitive_get_primitive_desc(c->primitive, &pd);
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return strncmp(name, "ref", 3) == 0;
}

double transposed_time_ns(const struct graph *g, const struct graph_node *n)
{
    struct call c = {0};
    omp_set_num_threads(1);
    double ns = 0;
    if (call_init(&c, g, n, make_transposed) && !is_plain(&c))
        ns = samples_best_ns(execute, &c);
    call_done(&c);
    return ns;
}
