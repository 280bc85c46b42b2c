// GELU as most files have it, in five nodes, becomes one function of x:
//
//      Div(x, √2) -> Erf -> Add 1 -> Mul by x -> Mul by .5        UNARY with POST_GELU
//
// The Div may be a Mul by its reciprocal, and the .5 may be anywhere in the product: behind the Add
// or at x. Halves are exact, so the order of factors changes nothing. It is done before
// onnx_qdq(), where a function of one tensor can become a table.
//
// Tests: test_onnx_forms (Gelus), test_onnx_random.
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/onnx/onnx_lower.h"

struct gelu {
    struct graph *g;
    int32_t *producer; // of each tensor: a node, or -1
    int32_t *reader;   // of each tensor: the last node that reads it
    uint32_t *n_reads; // outputs of the model count as one
    bool *gone;        // of each node
};

// The nodes of one GELU, whose last one stays.
struct gelu_parts {
    uint32_t n;
    struct graph_node *nodes[6];
    int32_t x;
    bool has_x, has_half;
};

static void gelu_count(struct gelu *c)
{
    const struct graph *g = c->g;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        c->producer[i] = -1;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_inputs; k++)
            if (n->inputs[k] >= 0) {
                c->n_reads[n->inputs[k]]++;
                c->reader[n->inputs[k]] = (int32_t)i;
            }
        for (uint32_t k = 0; k < n->n_outputs; k++)
            if (n->outputs[k] >= 0)
                c->producer[n->outputs[k]] = (int32_t)i;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++)
        c->n_reads[g->outputs[i]]++;
}

// A node of two operands without activations, in floats; else NULL.
static struct graph_node *gelu_pair(const struct gelu *c, int32_t node)
{
    struct graph_node *n = node < 0 ? NULL : &c->g->nodes[node];
    return n && !c->gone[node] && n->n_inputs == 2 && n->n_outputs == 1 && !n->n_post &&
                   n->inputs[0] >= 0 && n->inputs[1] >= 0 &&
                   c->g->tensors[n->outputs[0]].type == TENSOR_FLOAT32
               ? n
               : NULL;
}

static struct graph_node *gelu_source(const struct gelu *c, int32_t tensor)
{
    return c->n_reads[tensor] == 1 ? gelu_pair(c, c->producer[tensor]) : NULL;
}

static struct graph_node *gelu_reader(const struct gelu *c, int32_t tensor)
{
    return c->n_reads[tensor] == 1 ? gelu_pair(c, c->reader[tensor]) : NULL;
}

// Whether a tensor is one constant float, within a few roundings.
static bool gelu_is_number(const struct gelu *c, int32_t tensor, float number)
{
    const struct graph_tensor *t = &c->g->tensors[tensor];
    float v;
    if (!t->constant || t->unpack || t->type != TENSOR_FLOAT32 || t->n_elems != 1)
        return false;
    graph_tensor_floats(t, &v);
    return fabsf(v - number) <= number * 0x1p-20f;
}

// The other operand of an addition or a product with a number; -1: it is none.
static int32_t gelu_other(const struct gelu *c, const struct graph_node *n, enum graph_op op,
                          float number)
{
    for (uint32_t k = 0; n && n->op == op && k < 2; k++)
        if (gelu_is_number(c, n->inputs[k], number))
            return n->inputs[!k];
    return -1;
}

static bool gelu_has_shape(const struct gelu *c, int32_t a, int32_t b)
{
    const struct graph_tensor *t = &c->g->tensors[a], *u = &c->g->tensors[b];
    return t->type == u->type && t->n_dims == u->n_dims && t->channels_last == u->channels_last &&
           memcmp(t->dims, u->dims, t->n_dims * sizeof *t->dims) == 0;
}

// erf(x / √2) + 1, whose parts are taken; NULL: an Erf of something else.
static struct graph_node *gelu_take_sum(const struct gelu *c, struct graph_node *erf,
                                        struct gelu_parts *p)
{
    struct graph_node *scaled = gelu_source(c, erf->inputs[0]),
                      *sum = gelu_reader(c, erf->outputs[0]);
    p->x = gelu_other(c, scaled, GRAPH_MUL, (float)M_SQRT1_2);
    if (p->x < 0 && scaled && scaled->op == GRAPH_DIV &&
        gelu_is_number(c, scaled->inputs[1], (float)M_SQRT2))
        p->x = scaled->inputs[0];
    if (p->x < 0 || gelu_other(c, sum, GRAPH_ADD, 1) < 0 ||
        !gelu_has_shape(c, p->x, sum->outputs[0]))
        return NULL;
    p->nodes[p->n++] = scaled;
    p->nodes[p->n++] = erf;
    p->nodes[p->n++] = sum;
    return sum;
}

// Takes a product with x, a half of it or a half; false: it is one of something else.
static bool gelu_take_factor(const struct gelu *c, struct graph_node *n, int32_t sum,
                             struct gelu_parts *p)
{
    int32_t factor = n->inputs[n->inputs[0] == sum];
    struct graph_node *halved = p->has_x || p->has_half ? NULL : gelu_source(c, factor);
    if (n->op != GRAPH_MUL || !gelu_has_shape(c, p->x, n->outputs[0]))
        return false;
    if (!p->has_half && gelu_is_number(c, factor, .5f)) {
        p->has_half = true;
    } else if (!p->has_x && factor == p->x) {
        p->has_x = true;
    } else if (halved && gelu_other(c, halved, GRAPH_MUL, .5f) == p->x) {
        p->has_x = p->has_half = true;
        p->nodes[p->n++] = halved;
    } else {
        return false;
    }
    p->nodes[p->n++] = n;
    return true;
}

// The last node becomes the function; the others go.
static int gelu_join(struct gelu *c, const struct gelu_parts *p, struct error *e)
{
    struct graph_node *last = p->nodes[p->n - 1];
    int32_t *input = pool_alloc(&c->g->pool, 1, sizeof *input);
    if (!input)
        return error_no_memory(e, "the graph", sizeof *input);
    *input = p->x;
    last->op = GRAPH_UNARY;
    last->inputs = input;
    last->n_inputs = 1;
    last->n_post = 1;
    last->post[0] = (struct graph_post){.kind = POST_GELU};
    for (uint32_t i = 0; i + 1 < p->n; i++)
        c->gone[p->nodes[i] - c->g->nodes] = true;
    return 0;
}

static int gelu_find(struct gelu *c, struct graph_node *erf, struct error *e)
{
    struct gelu_parts p = {0};
    struct graph_node *n = gelu_take_sum(c, erf, &p);
    while (n && !(p.has_x && p.has_half)) {
        int32_t sum = n->outputs[0];
        n = gelu_reader(c, sum);
        if (n && !gelu_take_factor(c, n, sum, &p))
            n = NULL;
    }
    return n ? gelu_join(c, &p, e) : 0;
}

int onnx_gelu(struct graph *g, struct error *e)
{
    size_t room = (size_t)g->n_tensors + g->n_nodes + 1;
    cleanup(free_p) int32_t *indices = calloc(room, 2 * sizeof *indices);
    cleanup(free_p) uint32_t *n_reads = calloc(room, sizeof *n_reads);
    cleanup(free_p) bool *gone = calloc(room, sizeof *gone);
    struct gelu c = {g, indices, indices + room, n_reads, gone};
    int r = 0;
    if (!indices || !n_reads || !gone)
        return error_no_memory(e, "the graph", room * sizeof *indices);
    gelu_count(&c);
    for (uint32_t i = 0; i < g->n_nodes && r == 0; i++) {
        struct graph_node *n = &g->nodes[i];
        if (n->op == GRAPH_UNARY && n->n_post == 1 && n->post[0].kind == POST_ERF)
            r = gelu_find(&c, n, e);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!gone[i])
            g->nodes[kept++] = g->nodes[i];
    g->n_nodes = kept;
    return r;
}
