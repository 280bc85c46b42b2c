// Instructions of plain NEON kernels.
//
// Products of n factors each, of p pixels (rows) and c channels (columns). A tile keeps 8 x 12 sums
// in 24 registers; for each step it loads 3 vectors of weights and 2 of pixels, and multiplies 24
// times by a lane:
//
//   floats         fmla: 4 products                                    p c n / 4  * 29 / 24
//   bytes, dot     sdot: 16 products                                   p c n / 16 * 29 / 24
//   bytes, no dot  sxtl of both once for all, smlal: 4 products        p c n / 4  * 29 / 24
//
// Depthwise: no element is shared by channels.
//
//   floats         load and fmla for 4 channels and a tap              p c n / 2
//   bytes, dot     for 16 channels and 4 taps: 4 loads, 8 zips that bring the taps of a channel
//                  together, 4 sdot                                    p c n / 4
//   bytes, no dot  for 16 channels: a load, 2 sxtl, 4 smlal            p c n * 7 / 16
//
// Storing an output: of bytes scvtf, fmul, fcvtns for 4 and 4 more to narrow and store 16, one
// each; of floats a bound and the store for 4. Zero points of weights: a sum for each byte of the
// image. All that is read and written elsewhere: a load or a store for each 16 bytes. Edges, loops
// and addresses take nothing.
#include "tests/bench/sim/instructions.h"

#define TILE (29 / 24.0)
#define LANE 16.0 // bytes of a vector

static double size_of(const struct graph *g, int32_t t)
{
    return t >= 0 ? (double)g->tensors[t].size : 0;
}

static double sizes_of(const struct graph *g, const int32_t *tensors, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += size_of(g, tensors[i]);
    return sum;
}

static double multiply(double products, bool bytes, bool dot)
{
    return products / (bytes && dot ? 16 : 4) * TILE;
}

static double multiply_each(double products, bool bytes, bool dot)
{
    return products * (!bytes ? 1 / 2.0 : dot ? 1 / 4.0 : 7 / 16.0);
}

static bool has_zero_points(const struct graph_conv_quant *q)
{
    for (uint32_t i = 0; q && i < q->n; i++)
        if (q->nz[i])
            return true;
    return false;
}

// What a convolution reads besides: zero points of weights, and what is added behind it.
static double conv_besides(const struct graph *g, const struct graph_node *n)
{
    double sum = has_zero_points(n->quant) ? size_of(g, n->inputs[0]) / LANE : 0;
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD)
            sum += size_of(g, n->post[i].operand) / LANE;
    return sum;
}

static double conv_instructions(const struct graph *g, const struct graph_node *n, bool dot)
{
    const struct graph_tensor *w = &g->tensors[n->inputs[1]], *y = &g->tensors[n->outputs[0]];
    double window = (double)w->dims[1] * w->dims[2] * w->dims[3], outputs = (double)y->n_elems;
    bool bytes = n->quant != NULL, each = w->dims[1] == 1 && n->window.groups > 1;
    double sum = (each ? multiply_each : multiply)(outputs * window, bytes, dot);
    sum += y->type == TENSOR_INT8 ? outputs : outputs / 2;
    return sum + conv_besides(g, n);
}

// How often each element of an operand is multiplied: MatMul's left one by each column, and so on.
static double product_instructions(const struct graph *g, const struct graph_node *n, bool dot)
{
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    bool bytes = x->type == TENSOR_INT8;
    double inputs = (double)x->n_elems, outputs = (double)y->n_elems;
    if (n->op == GRAPH_MAT_MUL) {
        uint32_t inner = x->n_dims - (n->product.transpose[0] && x->n_dims > 1 ? 2 : 1);
        return multiply(outputs * x->dims[inner], bytes, dot);
    }
    if (n->op == GRAPH_EX_MAT_MUL)
        return multiply(outputs * x->dims[1], bytes, dot);
    if (n->op == GRAPH_CONV_TRANSPOSE) {
        double taps = (double)n->window.kernel[0] * n->window.kernel[1];
        return multiply(inputs * taps * y->dims[1] / n->window.groups, bytes, dot);
    }
    if (n->op == GRAPH_REF && n->ref.op == REF_OP_ATTENTION) {
        double keys = g->tensors[n->inputs[1]].dims[3];
        return multiply(inputs * keys, bytes, dot) + multiply(outputs * keys, bytes, dot);
    }
    return 0;
}

struct instructions instructions_of(const struct graph *g, bool dot, const bool *elsewhere)
{
    struct instructions sum = {0};
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (n->op == GRAPH_CONV) {
            sum.convs +=
                elsewhere && elsewhere[i] ? conv_besides(g, n) : conv_instructions(g, n, dot);
            continue;
        }
        sum.products += product_instructions(g, n, dot);
        sum.rest +=
            (sizes_of(g, n->inputs, n->n_inputs) + sizes_of(g, n->outputs, n->n_outputs)) / LANE;
    }
    sum.rest += 2 * sizes_of(g, (const int32_t *)g->inputs, g->n_inputs) / LANE;
    sum.rest += 2 * sizes_of(g, (const int32_t *)g->outputs, g->n_outputs) / LANE;
    return sum;
}
