// Joins nodes where one can do the work of several, and drops those that nothing needs:
//
//      x, Sigmoid(x) -> Mul             UNARY with POST_SWISH
//      Pad -> Conv                      Conv with more padding
//      Conv -> BatchNormalization       Conv with scaled weights and another bias
//      Conv -> Add for each channel     Conv with another bias
//      MatMul -> Add for each column    MatMul with that as its third operand
//      Conv, MatMul, Add ... -> Relu    the node with the activation as its post
//      ConvInteger -> Cast -> Mul -> Add  the convolution with a scale and an addend
//
// Two nodes may be joined if the tensor between them has no other reader. Dropped nodes are only
// marked until the end, so that node indices in `producer` stay valid.
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/onnx/onnx_lower.h"

#define DROPPED GRAPH_OP_COUNT

struct fusing {
    struct graph *g;
    int32_t *producer; // of each tensor: a node, or -1
    uint32_t *n_reads; // outputs of the model count as one
};

// Who makes and how many read each tensor.
static void count(struct fusing *f)
{
    struct graph *g = f->g;
    memset(f->n_reads, 0, g->n_tensors * sizeof *f->n_reads);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        f->producer[i] = -1;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_inputs && n->op != DROPPED; k++)
            if (n->inputs[k] >= 0)
                f->n_reads[n->inputs[k]]++;
        for (uint32_t k = 0; k < n->n_outputs && n->op != DROPPED; k++)
            if (n->outputs[k] >= 0)
                f->producer[n->outputs[k]] = (int32_t)i;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++)
        f->n_reads[g->outputs[i]]++;
}

// The node that makes `tensor`, where nobody else reads that.
static struct graph_node *sole_source(const struct fusing *f, int32_t tensor)
{
    if (tensor < 0 || f->n_reads[tensor] != 1 || f->producer[tensor] < 0)
        return NULL;
    struct graph_node *n = &f->g->nodes[f->producer[tensor]];
    return n->op == DROPPED ? NULL : n;
}

static void drop(struct graph_node *n)
{
    n->op = DROPPED;
}

// The earlier node makes the later one's output instead.
static void take_over(struct fusing *f, struct graph_node *earlier, struct graph_node *later)
{
    earlier->outputs = later->outputs;
    f->producer[earlier->outputs[0]] = (int32_t)(earlier - f->g->nodes);
    drop(later);
}

// ---- x * sigmoid(x) ----

// Either operand of the Mul may be the Sigmoid; the other must be its input.
static void fuse_swish(struct fusing *f, struct graph_node *n)
{
    for (uint32_t k = 0; k < 2 && n->op == GRAPH_MUL; k++) {
        struct graph_node *s = sole_source(f, n->inputs[k]);
        if (!s || s->op != GRAPH_UNARY || s->n_post != 1 || s->post[0].kind != POST_SIGMOID ||
            s->inputs[0] != n->inputs[!k] || n->n_post)
            continue;
        drop(s);
        n->op = GRAPH_UNARY;
        n->inputs = s->inputs;
        n->n_inputs = 1;
        n->n_post = 1;
        n->post[0] = (struct graph_post){.kind = POST_SWISH};
        f->n_reads[s->inputs[0]]--;
    }
}

// ---- BatchNormalization behind a convolution ----

// A constant as floats in the pool; NULL: no memory.
static float *floats_of(struct fusing *f, int32_t tensor)
{
    const struct graph_tensor *t = &f->g->tensors[tensor];
    float *v = pool_alloc(&f->g->pool, t->n_elems, sizeof *v);
    if (v)
        graph_tensor_floats(t, v);
    return v;
}

// Appends a tensor, for which onnx_fuse() has made room: two for each node.
static int32_t add_constant(struct fusing *f, const struct graph_tensor *t)
{
    f->g->tensors[f->g->n_tensors] = *t;
    f->producer[f->g->n_tensors] = -1;
    f->n_reads[f->g->n_tensors] = 1;
    return (int32_t)f->g->n_tensors++;
}

// A weight with a factor for each output, which are multiplied when the weight is unpacked: so it
// is held once.
struct scaled {
    struct graph_tensor weight;
    double *factors;
};

// w[o][...] * factor[o], rounded once from double.
static void unpack_scaled(const struct graph_tensor *t, void *dst)
{
    const struct scaled *p = t->packing;
    float *v = dst;
    size_t each = t->n_elems / t->dims[0];
    graph_tensor_floats(&p->weight, v);
    for (uint32_t o = 0; o < t->dims[0]; o++)
        for (size_t k = 0; k < each; k++, v++)
            *v = (float)((double)*v * p->factors[o]);
}

// The index of the scaled weight; -1: no memory.
static int32_t add_scaled(struct fusing *f, int32_t weight, double *factors)
{
    struct graph_tensor t = f->g->tensors[weight];
    struct scaled *p = pool_alloc(&f->g->pool, 1, sizeof *p);
    if (!p)
        return -1;
    *p = (struct scaled){t, factors};
    t.unpack = unpack_scaled;
    t.packing = p;
    return add_constant(f, &t);
}

static int32_t add_bias(struct fusing *f, const char *name, uint32_t n, const float *bias)
{
    struct graph_tensor t = {.name = name,
                             .type = TENSOR_FLOAT32,
                             .n_dims = 1,
                             .dims = {n},
                             .n_elems = n,
                             .size = n * sizeof *bias,
                             .constant = true,
                             .data = {(const uint8_t *)bias, n * sizeof *bias},
                             .arena_offset = GRAPH_NO_OFFSET};
    return add_constant(f, &t);
}

// A convolution's bias in the pool, to be changed; zeros where it has none. NULL: no memory.
static float *bias_of(struct fusing *f, const struct graph_node *conv)
{
    bool has_bias = conv->n_inputs > 2 && conv->inputs[2] >= 0;
    return has_bias
               ? floats_of(f, conv->inputs[2])
               : pool_alloc(&f->g->pool, f->g->tensors[conv->inputs[1]].dims[0], sizeof(float));
}

// The convolution makes the later node's output, with this weight and this bias.
static int conv_becomes(struct fusing *f, struct graph_node *conv, int32_t weight,
                        const float *bias, struct graph_node *later, struct error *e)
{
    int32_t *inputs = pool_alloc(&f->g->pool, 3, sizeof *inputs);
    if (!inputs)
        return error_no_memory(e, "the graph", 0);
    inputs[0] = conv->inputs[0];
    inputs[1] = weight;
    inputs[2] = add_bias(f, later->name, f->g->tensors[weight].dims[0], bias);
    conv->inputs = inputs;
    conv->n_inputs = 3;
    take_over(f, conv, later);
    return 0;
}

// BatchNormalization behind a convolution, with scale g, bias b, mean m and variance v per channel
// o:
//
//      y = (conv + bias - m) * f + b    f = g / sqrt(v + epsilon)
//        = conv(w * f) + (bias - m) * f + b
//
// Computed in doubles: the result is rounded once.
static int fold_norm(struct fusing *f, struct graph_node *conv, struct graph_node *norm,
                     struct error *e)
{
    uint32_t channels = f->g->tensors[conv->inputs[1]].dims[0];
    float *p[5], *bias = bias_of(f, conv);
    double *factors = pool_alloc(&f->g->pool, channels, sizeof *factors);
    for (uint32_t i = 1; i < 5; i++)
        p[i] = floats_of(f, norm->inputs[i]);
    if (!p[1] || !p[2] || !p[3] || !p[4] || !bias || !factors)
        return error_no_memory(e, "the graph", 0);
    for (uint32_t o = 0; o < channels; o++) {
        factors[o] = (double)p[1][o] / sqrt((double)p[4][o] + (double)norm->norm.epsilon);
        bias[o] = (float)(((double)bias[o] - (double)p[3][o]) * factors[o] + (double)p[2][o]);
    }
    int32_t weight = add_scaled(f, conv->inputs[1], factors);
    return weight < 0 ? error_no_memory(e, "the graph", 0)
                      : conv_becomes(f, conv, weight, bias, norm, e);
}

// The convolution whose output the tensor is, if nobody else reads that. Only float32, and only one
// that has no activation yet: the order matters.
static struct graph_node *plain_conv(const struct fusing *f, int32_t tensor)
{
    struct graph_node *conv = sole_source(f, tensor);
    return conv && conv->op == GRAPH_CONV && !conv->n_post &&
                   f->g->tensors[conv->inputs[1]].type == TENSOR_FLOAT32
               ? conv
               : NULL;
}

static int fuse_norm(struct fusing *f, struct graph_node *n, struct error *e)
{
    struct graph_node *conv = n->op == GRAPH_BATCH_NORM ? plain_conv(f, n->inputs[0]) : NULL;
    return conv ? fold_norm(f, conv, n, e) : 0;
}

// Whether a tensor that is added to images of y's channels has one number for each of them.
static bool is_for_channels(const struct graph_tensor *t, const struct graph_tensor *y)
{
    uint32_t at = 3 - (t->n_dims < 4 ? t->n_dims - 1 : 3); // of y's dimensions, its first
    if (!t->constant || t->unpack || t->type != TENSOR_FLOAT32 || !t->n_dims || t->n_dims > 4 ||
        t->n_elems != y->dims[1])
        return false;
    return at <= 1 && t->dims[1 - at] == y->dims[1];
}

// Conv -> Add of a number for each channel.
static int fuse_bias(struct fusing *f, struct graph_node *n, struct error *e)
{
    const struct graph_tensor *t = f->g->tensors;
    if (n->op != GRAPH_ADD || n->n_post || t[n->outputs[0]].n_dims != 4)
        return 0;
    for (uint32_t k = 0; k < 2; k++) {
        struct graph_node *conv = plain_conv(f, n->inputs[k]);
        if (!conv || !is_for_channels(&t[n->inputs[!k]], &t[n->inputs[k]]))
            continue;
        float *bias = bias_of(f, conv), *more = floats_of(f, n->inputs[!k]);
        if (!bias || !more)
            return error_no_memory(e, "the graph", 0);
        for (uint32_t o = 0; o < t[conv->inputs[1]].dims[0]; o++)
            bias[o] += more[o];
        return conv_becomes(f, conv, conv->inputs[1], bias, n, e);
    }
    return 0;
}

// MatMul by a constant matrix -> Add of a number for each of its columns.
static int fuse_columns(struct fusing *f, struct graph_node *n, struct error *e)
{
    struct graph_tensor *t = f->g->tensors;
    for (uint32_t k = 0; k < 2 && n->op == GRAPH_ADD && !n->n_post; k++) {
        struct graph_node *product = sole_source(f, n->inputs[k]);
        const struct graph_tensor *b = &t[n->inputs[!k]], *y = &t[n->outputs[0]];
        if (!product || product->op != GRAPH_MAT_MUL || product->n_post || product->n_inputs != 2 ||
            !t[product->inputs[1]].constant || t[product->inputs[1]].n_dims != 2 || !b->constant ||
            b->type != TENSOR_FLOAT32 || b->n_dims != 1 || y->type != TENSOR_FLOAT32 ||
            !y->n_dims || y->dims[y->n_dims - 1] != b->n_elems ||
            y->n_elems != t[n->inputs[k]].n_elems)
            continue;
        int32_t *inputs = pool_alloc(&f->g->pool, 3, sizeof *inputs);
        if (!inputs)
            return error_no_memory(e, "the graph", 0);
        memcpy(inputs, product->inputs, 2 * sizeof *inputs);
        inputs[2] = n->inputs[!k];
        product->inputs = inputs;
        product->n_inputs = 3;
        take_over(f, product, n);
    }
    return 0;
}

// ---- zeros in front of a convolution ----

// Whether a Pad puts zeros around images, and nothing else.
static bool pads_images(const struct graph *g, const struct graph_node *pad)
{
    const struct graph_tensor *x = &g->tensors[pad->inputs[0]], *y = &g->tensors[pad->outputs[0]];
    return pad->pad.mode == PAD_CONSTANT && pad->pad.value == 0 && x->n_dims == 4 &&
           x->type == TENSOR_FLOAT32 && x->dims[0] == y->dims[0] && x->dims[1] == y->dims[1];
}

// Pad -> Conv: the convolution pads.
static int fuse_pad(struct fusing *f, struct graph_node *n, struct error *e)
{
    const uint32_t most = 1 << 15;
    struct graph_node *pad = n->op == GRAPH_CONV ? sole_source(f, n->inputs[0]) : NULL;
    if (!pad || pad->op != GRAPH_PAD || n->quant || !pads_images(f->g, pad))
        return 0;
    const struct graph_tensor *x = &f->g->tensors[pad->inputs[0]],
                              *y = &f->g->tensors[pad->outputs[0]];
    uint32_t pads[4];
    for (int i = 0; i < 2; i++) {
        pads[i] = pad->pad.begin[2 + i];
        pads[2 + i] = y->dims[2 + i] - x->dims[2 + i] - pads[i];
    }
    for (int i = 0; i < 4; i++)
        if (pads[i] > most || n->window.pad[i] > most)
            return 0;
    int32_t *inputs = pool_alloc(&f->g->pool, n->n_inputs, sizeof *inputs);
    if (!inputs)
        return error_no_memory(e, "the graph", 0);
    memcpy(inputs, n->inputs, n->n_inputs * sizeof *inputs);
    inputs[0] = pad->inputs[0];
    n->inputs = inputs;
    for (int i = 0; i < 4; i++)
        n->window.pad[i] += pads[i];
    drop(pad);
    return 0;
}

// ---- behind sums of integers ----

// A convolution whose output are sums that nobody else reads, with its six inputs.
static struct graph_node *sums_before(struct fusing *f, int32_t tensor, bool real, struct error *e)
{
    struct graph_node *n = sole_source(f, tensor);
    if (!n || n->op != GRAPH_CONV || !n->quant || !n->quant->sums || n->n_post ||
        (f->g->tensors[tensor].type == TENSOR_FLOAT32) != real)
        return NULL;
    int32_t *inputs = pool_alloc(&f->g->pool, 6, sizeof *inputs);
    if (!inputs) {
        error_no_memory(e, "the graph", 0);
        return NULL;
    }
    for (uint32_t i = 0; i < 6; i++)
        inputs[i] = i < n->n_inputs ? n->inputs[i] : -1;
    n->inputs = inputs;
    n->n_inputs = 6;
    return n;
}

// The convolution goes to the later node's place, where all operands have been computed.
static void move_to(struct fusing *f, struct graph_node *conv, struct graph_node *later)
{
    const int32_t *outputs = later->outputs;
    *later = *conv;
    later->outputs = outputs;
    f->producer[outputs[0]] = (int32_t)(later - f->g->nodes);
    drop(conv);
}

// ConvInteger -> Cast -> Mul by a number -> Add of a number for each channel: what a network that
// is quantized while it runs has for a convolution.
static int fuse_sums(struct fusing *f, struct graph_node *n, struct error *e)
{
    struct graph_node *conv = NULL;
    if (!n->n_outputs)
        return 0;
    struct graph_tensor *t = f->g->tensors, *y = &t[n->outputs[0]];
    if (n->op == GRAPH_CONVERT && y->type == TENSOR_FLOAT32 && y->n_dims == 4) {
        conv = sums_before(f, n->inputs[0], false, e);
        if (conv)
            move_to(f, conv, n);
        return 0;
    }
    if ((n->op != GRAPH_MUL && n->op != GRAPH_ADD) || n->n_post || y->type != TENSOR_FLOAT32 ||
        y->n_dims != 4)
        return 0;
    for (uint32_t k = 0; k < 2 && n->op != DROPPED && n->op != GRAPH_CONV; k++) {
        const struct graph_tensor *other = &t[n->inputs[!k]];
        bool mul = n->op == GRAPH_MUL;
        if (mul ? other->n_elems != 1 || other->n_dims > 4 || other->type != TENSOR_FLOAT32 ||
                      other->unpack
                : !is_for_channels(other, y))
            continue;
        int32_t operand = n->inputs[!k];
        conv = sums_before(f, n->inputs[k], true, e);
        if (!conv || conv->inputs[5] >= 0 || (mul && conv->inputs[4] >= 0))
            continue;
        ((int32_t *)(uintptr_t)conv->inputs)[mul ? 4 : 5] = operand;
        move_to(f, conv, n);
    }
    return 0;
}

// ---- activations ----

// Operators whose kernels apply activations to their results.
static bool takes_post(const struct graph_node *n)
{
    switch (n->op) {
    case GRAPH_CONV:
    case GRAPH_CONV_TRANSPOSE:
    case GRAPH_MAT_MUL:
    case GRAPH_ADD:
    case GRAPH_SUB:
    case GRAPH_MUL:
    case GRAPH_DIV:
    case GRAPH_BATCH_NORM:
    case GRAPH_UNARY:
        return n->n_post < GRAPH_MAX_POST;
    default:
        return false;
    }
}

// Half precision is rounded between two nodes: joined, it would not be, and results would differ
// from those of other runtimes. So they stay two.
static void fuse_activation(struct fusing *f, struct graph_node *n)
{
    if (n->op != GRAPH_UNARY || n->n_post != 1)
        return;
    struct graph_node *before = sole_source(f, n->inputs[0]);
    if (!before || !takes_post(before) || f->g->tensors[n->outputs[0]].type != TENSOR_FLOAT32)
        return;
    before->post[before->n_post++] = n->post[0];
    take_over(f, before, n);
}

// ---- what nothing needs ----

static bool is_needed(const struct fusing *f, const struct graph_node *n)
{
    for (uint32_t k = 0; k < n->n_outputs; k++)
        if (n->outputs[k] >= 0 && f->n_reads[n->outputs[k]])
            return true;
    return false;
}

// ---- Reshape, Transpose, Reshape ----

static bool has_form_of(const struct graph_tensor *t, const struct graph_tensor *x)
{
    return t->type == x->type && t->quantized == x->quantized && t->zp == x->zp &&
           memcmp(&t->scale, &x->scale, sizeof t->scale) == 0 &&
           t->counts_from_0 == x->counts_from_0;
}

// The node that alone reads what `n` makes.
static struct graph_node *sole_reader(const struct fusing *f, const struct graph_node *n)
{
    for (uint32_t i = 0; i < f->g->n_nodes && f->n_reads[n->outputs[0]] == 1; i++) {
        struct graph_node *later = &f->g->nodes[i];
        if (later->op != DROPPED && later->n_inputs && later->inputs[0] == n->outputs[0])
            return later;
    }
    return NULL;
}

static bool only_reshapes(const struct graph_node *n)
{
    return n->op == GRAPH_RESHAPE && n->n_inputs == 1 && n->n_outputs == 1 && !n->n_post;
}

#define MANY_BYTES 16

// Whether one copy takes less time than three: single bytes that lie apart are faster turned in
// planes, as the three do. `x`, `y`: strides of the dimensions of both sides, y's turned.
static bool is_worth_it(const struct graph_tensor *turned, const uint32_t *perm, const int64_t *x,
                        const int64_t *y)
{
    if (tensor_type_size(turned->type) >= sizeof(float))
        return true;
    for (uint32_t i = 0; i < turned->n_dims; i++)
        if (y[i] == 1 && turned->dims[i] >= MANY_BYTES && x[perm[i]] == 1)
            return true;
    return false;
}

// Channels that are shuffled, or become blocks of pixels: one copy.
static void fuse_turns(struct fusing *f, struct graph_node *n)
{
    struct graph_node *before = n->op == GRAPH_TRANSPOSE ? sole_source(f, n->inputs[0]) : NULL;
    struct graph_node *behind = before && !n->n_post ? sole_reader(f, n) : NULL;
    if (!behind || !only_reshapes(before) || !only_reshapes(behind))
        return;
    const struct graph_tensor *x = &f->g->tensors[before->inputs[0]],
                              *a = &f->g->tensors[n->inputs[0]], *b = &f->g->tensors[n->outputs[0]],
                              *y = &f->g->tensors[behind->outputs[0]];
    int64_t from[GRAPH_MAX_DIMS], to[GRAPH_MAX_DIMS];
    if (x->constant || !has_form_of(a, x) || !has_form_of(b, x) || !has_form_of(y, x) ||
        !graph_tensor_split(x, a->dims, a->n_dims, from) ||
        !graph_tensor_split(y, b->dims, b->n_dims, to) || !is_worth_it(b, n->perm, from, to))
        return;
    n->n_apart = a->n_dims;
    memcpy(n->apart, a->dims, a->n_dims * sizeof *a->dims);
    n->inputs = before->inputs;
    drop(before);
    take_over(f, n, behind);
}

// From the last node to the first, so that one pass finds chains of unused nodes; then closes the
// gaps.
static void drop_unused(struct fusing *f)
{
    struct graph *g = f->g;
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        struct graph_node *n = &g->nodes[i];
        if (n->op == DROPPED || is_needed(f, n))
            continue;
        for (uint32_t k = 0; k < n->n_inputs; k++)
            if (n->inputs[k] >= 0)
                f->n_reads[n->inputs[k]]--;
        drop(n);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op != DROPPED)
            g->nodes[kept++] = g->nodes[i];
    g->n_nodes = kept;
}

// Unused nodes are dropped first: their reads would keep others from being joined.
int onnx_fuse(struct graph *g, struct error *e)
{
    size_t room = (size_t)g->n_tensors + 2 * (size_t)g->n_nodes + 1;
    int r = graph_make_room(g, room, e);
    cleanup(free_p) int32_t *producer = calloc(room, sizeof *producer);
    cleanup(free_p) uint32_t *n_reads = calloc(room, sizeof *n_reads);
    struct fusing f = {g, producer, n_reads};
    if (r < 0 || !producer || !n_reads)
        return error_no_memory(e, "the graph", 0);
    count(&f);
    drop_unused(&f);
    count(&f);
    for (uint32_t i = 0; i < g->n_nodes && r == 0; i++) {
        fuse_swish(&f, &g->nodes[i]);
        r = fuse_sums(&f, &g->nodes[i], e);
        if (r == 0)
            r = fuse_pad(&f, &g->nodes[i], e);
        if (r == 0)
            r = fuse_norm(&f, &g->nodes[i], e);
        if (r == 0)
            r = fuse_bias(&f, &g->nodes[i], e);
        if (r == 0)
            r = fuse_columns(&f, &g->nodes[i], e);
        if (r == 0)
            fuse_activation(&f, &g->nodes[i]);
        if (r == 0)
            fuse_turns(&f, &g->nodes[i]);
    }
    if (r == 0)
        drop_unused(&f);
    return r;
}
