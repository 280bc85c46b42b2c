// Products of real rows by a constant matrix, with a bias: what linear layers are.
//
//   y[row][o] = f(Σ_k x[row][k] * w[k][o] + bias[o])       = a 1x1 convolution, whose pixels are
//                                                           the rows
//
// So it is one: weights are packed when the model is loaded, large ones are asked for ahead
// (conv/floats), and activations follow tile by tile. Batches are rows. Of a few rows, inputs or
// outputs oneDNN's product of matrices (op_mat_mul.c) takes as long or less.
//
// Tests: test_sim_cases_mat_mul, test_onnx_nodes, test_onnx_forms (Linears).
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/conv/conv.h"
#include "npu/sim/exec/ops.h"
#include "tensor/transpose.h"

#define LEAST_ROWS 16
#define LEAST_SIDE 8 // inputs, outputs

static bool linear_is_real(const struct graph_tensor *t)
{
    return t->type == TENSOR_FLOAT32 && !t->quantized && !t->channels_last && t->n_elems;
}

// The matrix's rows (0) or columns (1), as the product sees them.
static uint32_t linear_size(const struct graph_node *n, const struct graph_tensor *w, int which)
{
    return w->dims[n->product.transpose[1] ? !which : which];
}

// One number for each output, in the last dimension.
static bool linear_is_bias(const struct graph_tensor *t, uint32_t outputs)
{
    return t->constant && element_type_known(t->type) && t->n_dims && t->n_elems == outputs &&
           t->dims[t->n_dims - 1] == outputs;
}

bool op_linear_fits(const struct graph *g, const struct graph_node *n)
{
    if (n->op != GRAPH_MAT_MUL || n->n_inputs < 2 || n->inputs[0] < 0 || n->inputs[1] < 0 ||
        n->outputs[0] < 0)
        return false;
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *w = &g->tensors[n->inputs[1]];
    const struct graph_tensor *b =
        n->n_inputs > 2 && n->inputs[2] >= 0 ? &g->tensors[n->inputs[2]] : NULL;
    const struct graph_tensor *y = &g->tensors[n->outputs[0]];
    if (x->constant || !x->n_dims || !linear_is_real(x) || !linear_is_real(y) || !w->constant ||
        w->quantized || !element_type_known(w->type) || w->n_dims != 2 || !w->n_elems)
        return false;
    uint32_t inputs = linear_size(n, w, 0), outputs = linear_size(n, w, 1);
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD || n->post[i].kind == POST_LUT)
            return false;
    return x->n_elems / inputs >= LEAST_ROWS && inputs >= LEAST_SIDE && outputs >= LEAST_SIDE &&
           !n->product.transpose[0] && n->product.alpha == 1 && n->product.beta == 1 &&
           x->dims[x->n_dims - 1] == inputs && x->n_elems / inputs <= INT32_MAX &&
           y->n_elems / outputs == x->n_elems / inputs && (!b || linear_is_bias(b, outputs));
}

// The matrix as weights of a convolution, [output][input].
static void linear_turn(const struct step *s, float *values, float *weights)
{
    const struct graph_tensor *w = step_input(s, 1);
    const ptrdiff_t size = sizeof *values, rows = w->dims[0], columns = w->dims[1];
    elements_of_constant(w, s->node->product.transpose[1] ? weights : values);
    if (!s->node->product.transpose[1])
        transpose_matrix(values, columns * size, weights, rows * size, (size_t)rows,
                         (size_t)columns, sizeof *values);
}

static int linear_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *w = step_input(s, 1), *b = step_input(s, 2);
    struct conv *c = s->state = step_alloc(s, 1, sizeof *c);
    cleanup(free_p) float *values = malloc(w->n_elems * sizeof *values);
    cleanup(free_p) float *weights = malloc(w->n_elems * sizeof *weights);
    if (!c || !values || !weights)
        return error_no_memory(e, "a weight", w->n_elems * sizeof *weights);
    uint32_t inputs = linear_size(s->node, w, 0), rows = (uint32_t)(x->n_elems / inputs);
    *c = (struct conv){.n = 1,
                       .ic = inputs,
                       .ih = rows,
                       .iw = 1,
                       .oc = linear_size(s->node, w, 1),
                       .oh = rows,
                       .ow = 1,
                       .window = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}}};
    c->window.groups = 1;
    int r = b ? step_floats(s, b, &c->float_bias, e) : 0;
    if (r < 0)
        return r;
    linear_turn(s, values, weights);
    return conv_prepare_floats(s, c, weights, e);
}

const struct op op_linear = {.prepare = linear_prepare, .run = conv_run};
