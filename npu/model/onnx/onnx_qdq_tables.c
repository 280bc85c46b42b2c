// Chains of functions of one int8 tensor, up to a QuantizeLinear, as a table of 256 numbers
// (onnx_qdq.h):
//
//      x8 -> DequantizeLinear -> f -> g -> QuantizeLinear -> y8        y8 = table[x8]
//
// A link is a node of real numbers that has one input, or constants of one number beside it. What
// it makes of all 256 numbers is computed by the executor, which would run the node otherwise: so
// that a table gives the same bits, and any operator can be a link that the executor has.
#include <math.h>

#include "npu/model/onnx/onnx_qdq.h"

#define MAX_LINKS    8
#define N_NUMBERS    256
#define MAX_OPERANDS 2

// A function of one number.
struct link {
    const struct graph_node *node; // NULL: x * sigmoid(x), which is several nodes
    uint32_t x;                    // which of its inputs is the tensor; others are constants
};

struct chain {
    int32_t from; // int8
    uint32_t n;
    struct link links[MAX_LINKS]; // the last one first
};

// The node that makes a tensor, whoever else reads it.
static const struct graph_node *source_node(const struct qdq *q, int32_t tensor)
{
    return q->producer[tensor] < 0 ? NULL : &q->g->nodes[q->producer[tensor]];
}

// x of x * sigmoid(x); -1: it is not that.
static int32_t swish_of(const struct qdq *q, const struct graph_node *n)
{
    for (uint32_t k = 0; k < 2 && n->op == GRAPH_MUL && !n->n_post; k++) {
        const struct graph_node *s = source_node(q, n->inputs[k]);
        if (s && s->op == GRAPH_UNARY && s->n_post == 1 && s->post[0].kind == POST_SIGMOID &&
            s->inputs[0] == n->inputs[!k])
            return s->inputs[0];
    }
    return -1;
}

// Whether each element that comes out is a function of one that goes in and of numbers for all.
static bool works_on_elements(const struct graph_node *n)
{
    switch (n->op) {
    case GRAPH_UNARY:
    case GRAPH_ADD:
    case GRAPH_SUB:
    case GRAPH_MUL:
    case GRAPH_DIV:
    case GRAPH_MAX:
    case GRAPH_MIN:
    case GRAPH_POW:
    case GRAPH_PRELU:
        return true;
    case GRAPH_REF:
        return n->ref.op == REF_OP_UNARY;
    default:
        return false;
    }
}

// One number that the file has as a float. Those that it dequantizes are left to int8 arithmetic,
// which rounds as ONNX Runtime's.
static bool is_number(const struct qdq *q, int32_t tensor)
{
    const struct graph_tensor *t = &q->g->tensors[tensor];
    return t->constant && t->type == TENSOR_FLOAT32 && t->n_elems == 1 && !qdq_origin(q, tensor);
}

// The function that a node is of a tensor, *ret_x. False: it is none.
static bool take_link(const struct qdq *q, const struct graph_node *n, struct link *link,
                      int32_t *ret_x)
{
    const struct graph_tensor *y = &q->g->tensors[n->outputs[0]];
    *link = (struct link){0};
    *ret_x = swish_of(q, n);
    if (*ret_x >= 0)
        return true;
    if (!works_on_elements(n) || n->n_inputs > MAX_OPERANDS || n->n_outputs != 1 ||
        y->type != TENSOR_FLOAT32)
        return false;
    link->node = n;
    for (uint32_t k = 0; k < n->n_inputs; k++) {
        if (n->inputs[k] >= 0 && is_number(q, n->inputs[k]))
            continue;
        if (n->inputs[k] < 0 || *ret_x >= 0)
            return false;
        link->x = k;
        *ret_x = n->inputs[k];
    }
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD)
            return false;
    return *ret_x >= 0 && !q->g->tensors[*ret_x].constant &&
           q->g->tensors[*ret_x].n_elems == y->n_elems;
}

// Functions of one int8 tensor, applied in sequence, found from the last one backwards. False:
// something else is in between, or there are too many.
static bool find_chain(const struct qdq *q, int32_t x, struct chain *c)
{
    *c = (struct chain){0};
    while (q->source[x] < 0) {
        const struct graph_node *n = source_node(q, x);
        if (!n || c->n == MAX_LINKS || !take_link(q, n, &c->links[c->n], &x))
            return false;
        c->n++;
    }
    c->from = q->source[x];
    return true;
}

// ---- what a link makes of 256 numbers ----

// v as a tensor, which is the input or a constant.
static int take_numbers(struct graph_tensor *t, const void *v, uint32_t n, bool constant,
                        struct error *e)
{
    *t = (struct graph_tensor){.name = "x",
                               .type = TENSOR_FLOAT32,
                               .n_dims = 1,
                               .dims = {n},
                               .constant = constant,
                               .data = {v, n * sizeof(float)}};
    return graph_tensor_measure(t, e);
}

// The node alone as a graph. Its first input is what the executor is given, whichever that is.
static int run_link(const struct qdq *q, const struct link *l, float v[N_NUMBERS], struct error *e)
{
    struct graph_tensor tensors[MAX_OPERANDS + 1];
    struct graph_node node = *l->node;
    int32_t edges[] = {0, 1, MAX_OPERANDS};
    uint32_t input = 0;
    float y[N_NUMBERS], operands[MAX_OPERANDS];
    int r = take_numbers(&tensors[MAX_OPERANDS], NULL, N_NUMBERS, false, e);
    for (uint32_t k = 0; k < node.n_inputs && r == 0; k++) {
        bool x = k == l->x;
        if (!x)
            graph_tensor_floats(&q->g->tensors[node.inputs[k]], &operands[k]);
        r = take_numbers(&tensors[k], x ? v : &operands[k], x ? N_NUMBERS : 1, k != 0, e);
    }
    node.inputs = edges;
    node.outputs = edges + MAX_OPERANDS;
    struct graph g = {.tensors = tensors,
                      .n_tensors = MAX_OPERANDS + 1,
                      .nodes = &node,
                      .n_nodes = 1,
                      .inputs = &input,
                      .n_inputs = 1};
    if (node.n_inputs < MAX_OPERANDS)
        tensors[1] = tensors[0];
    void *results[] = {y};
    if (r == 0)
        r = q->l->executor->run_node(&g, tensors[0].data.data, results, e);
    if (r == 0)
        memcpy(v, y, sizeof y);
    return r;
}

// table[i] = quantize(f(dequantize(i))) for all 256 values. rintf() rounds ties to even and zp is
// added after it, as ONNX has it; NaN becomes the zero point.
static int fill_table(const struct qdq *q, struct qdq_form from, const struct chain *c,
                      struct qdq_form to, int8_t *table, struct error *e)
{
    const struct graph_post swish = {.kind = POST_SWISH};
    float v[N_NUMBERS];
    int r = 0;
    for (int i = 0; i < N_NUMBERS; i++)
        v[i] = from.scale * (float)((int8_t)i - from.zp);
    for (uint32_t k = c->n; k-- > 0 && r == 0;)
        if (c->links[k].node)
            r = run_link(q, &c->links[k], v, e);
        else
            q->l->executor->apply(&swish, v, N_NUMBERS);
    for (int i = 0; i < N_NUMBERS && r == 0; i++) {
        float stored = rintf(v[i] / to.scale) + (float)to.zp;
        stored = isnan(stored) ? (float)to.zp : stored;
        table[i] = (int8_t)fminf(fmaxf(stored, -128), 127);
    }
    return r;
}

// Emits a table from one int8 tensor to another form; nothing if the chain is empty and the forms
// are equal.
static int emit_table(struct qdq *q, const struct chain *c, int32_t like, struct qdq_form form,
                      const struct graph_node *node, int32_t *ret, struct error *e)
{
    int8_t table[N_NUMBERS];
    struct qdq_form from = qdq_form_of(q, c->from);
    if (!c->n && qdq_same_form(from, form)) {
        *ret = c->from;
        return 1;
    }
    int r = fill_table(q, from, c, form, table, e);
    if (r < 0) // what the executor refuses stays as it is: the words are about the whole node then
        return r == STATUS_MALLOC_FAIL ? r : 0;
    *ret = qdq_int8(q, like, form, e);
    if (*ret < 0)
        return *ret;
    return qdq_emit_map(q, node, table, c->from, *ret, e) < 0 ? STATUS_MALLOC_FAIL : 1;
}

int qdq_requantized(struct qdq *q, int32_t x, struct qdq_form form, const struct graph_node *node,
                    int32_t *ret, struct error *e)
{
    const struct chain c = {.from = x};
    return emit_table(q, &c, x, form, node, ret, e);
}

int qdq_table(struct qdq *q, int32_t x, struct qdq_form form, int32_t *ret, struct error *e)
{
    struct chain c;
    return find_chain(q, x, &c) ? emit_table(q, &c, x, form, source_node(q, x), ret, e) : 0;
}
