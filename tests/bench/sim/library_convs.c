// XNNPACK's convolutions. Their images are nothing in particular: what they take does not depend on
// values.
#include "tests/bench/sim/library_convs.h"

#include <math.h>
#include <stdlib.h>
#include <xnnpack.h>

struct library_conv {
    xnn_operator_t op; // NULL: the node is no convolution that XNNPACK has
    void *x, *y;
};

struct library_convs {
    uint32_t n;
    struct library_conv convs[]; // n, as the graph's nodes
};

static void *room(size_t n, size_t each)
{
    void *p = calloc(n * each + XNN_EXTRA_BYTES, 1);
    if (!p)
        abort();
    return p;
}

struct shape {
    const struct graph_window *v;
    size_t n, h, w, in, out; // images, their height and width, and channels
    size_t weights, outputs;
};

static struct shape shape_of(const struct graph *g, const struct graph_node *n)
{
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *w = &g->tensors[n->inputs[1]];
    const struct graph_tensor *y = &g->tensors[n->outputs[0]];
    return (struct shape){&n->window, x->dims[0], x->dims[2], x->dims[3],
                          x->dims[1], y->dims[1], w->n_elems, y->n_elems};
}

#define WINDOW(s)                                                                                  \
    (s)->v->pad[0], (s)->v->pad[3], (s)->v->pad[2], (s)->v->pad[1], (s)->v->kernel[0],             \
        (s)->v->kernel[1], (s)->v->stride[0], (s)->v->stride[1], (s)->v->dilation[0],              \
        (s)->v->dilation[1], (s)->v->groups, (s)->in / (s)->v->groups, (s)->out / (s)->v->groups,  \
        (s)->in, (s)->out

static enum xnn_status make_bytes(struct library_conv *c, const struct shape *s, bool relu)
{
    int8_t *weights = room(s->weights, 1);
    int32_t *bias = room(s->out, sizeof *bias);
    float *scales = room(s->out, sizeof *scales);
    for (size_t i = 0; i < s->out; i++)
        scales[i] = 0.01F;
    enum xnn_status r =
        xnn_create_convolution2d_nhwc_qc8(WINDOW(s), 3, 0.1F, scales, weights, bias, 2, 0.2F,
                                          relu ? 2 : INT8_MIN, INT8_MAX, 0, &c->op);
    if (r == xnn_status_success)
        r = xnn_setup_convolution2d_nhwc_qc8(c->op, s->n, s->h, s->w, c->x, c->y, NULL);
    free(weights);
    free(bias);
    free(scales);
    return r;
}

static enum xnn_status make_floats(struct library_conv *c, const struct shape *s, bool relu)
{
    float *weights = room(s->weights, sizeof *weights), *bias = room(s->out, sizeof *bias);
    enum xnn_status r = xnn_create_convolution2d_nhwc_f32(
        WINDOW(s), weights, bias, relu ? 0 : -INFINITY, INFINITY, 0, &c->op);
    if (r == xnn_status_success)
        r = xnn_setup_convolution2d_nhwc_f32(c->op, s->n, s->h, s->w, c->x, c->y, NULL);
    free(weights);
    free(bias);
    return r;
}

static void conv_done(struct library_conv *c)
{
    if (c->op)
        xnn_delete_operator(c->op);
    free(c->x);
    free(c->y);
    *c = (struct library_conv){0};
}

static void conv_init(struct library_conv *c, const struct graph *g, const struct graph_node *n)
{
    const struct shape s = shape_of(g, n);
    size_t each = n->quant ? 1 : sizeof(float);
    bool relu = n->n_post > 0 && n->post[0].kind == POST_RELU;
    c->x = room(s.n * s.h * s.w * s.in, each);
    c->y = room(s.outputs, each);
    if ((n->quant ? make_bytes : make_floats)(c, &s, relu) != xnn_status_success)
        conv_done(c);
}

struct library_convs *library_convs_new(const struct graph *g)
{
    struct library_convs *l = calloc(1, sizeof *l + g->n_nodes * sizeof *l->convs);
    if (!l || xnn_initialize(NULL) != xnn_status_success) {
        free(l);
        return NULL;
    }
    l->n = g->n_nodes;
    for (uint32_t i = 0; i < l->n; i++)
        if (g->nodes[i].op == GRAPH_CONV)
            conv_init(&l->convs[i], g, &g->nodes[i]);
    return l;
}

void library_convs_free(struct library_convs *l)
{
    for (uint32_t i = 0; l && i < l->n; i++)
        conv_done(&l->convs[i]);
    free(l);
}

bool library_convs_has(const struct library_convs *l, uint32_t i)
{
    return l->convs[i].op != NULL;
}

void library_convs_run(struct library_convs *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->convs[i].op && xnn_run_operator(l->convs[i].op, NULL) != xnn_status_success)
            abort();
}
