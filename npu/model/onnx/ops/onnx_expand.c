// Operators of ONNX that are defined by several others: QLinearConv and QLinearMatMul become
// DequantizeLinear, the float operator, QuantizeLinear, which onnx_qdq.c then turns into int8 nodes
// like those of any quantized file. Parts are ordinary struct onnx_node, made in the pool and
// lowered one after the other.
#include <stdio.h>

#include "npu/model/onnx/onnx_lower.h"

#define MAX_PARTS 6

enum attributes { NONE, OWN, AXIS }; // of a part: none, those of the node, axis

// "0" is the node's input 0, "y" its output, all else is between the parts.
struct part {
    const char *op, *inputs[3], *output;
    enum attributes attributes;
    int64_t axis;
};

struct onnx_expansion {
    const char *op;
    uint32_t min_inputs, max_inputs;
    struct part parts[MAX_PARTS];
};

static const struct onnx_expansion expansions[] = {
    {.op = "QLinearConv",
     .min_inputs = 8,
     .max_inputs = 9,
     .parts = {{"DequantizeLinear", {"0", "1", "2"}, "x", NONE, 0},
               {"DequantizeLinear", {"3", "4", "5"}, "w", AXIS, 0},
               {"Mul", {"1", "4"}, "scale", NONE, 0},
               {"DequantizeLinear", {"8", "scale"}, "b", AXIS, 0},
               {"Conv", {"x", "w", "b"}, "r", OWN, 0},
               {"QuantizeLinear", {"r", "6", "7"}, "y", NONE, 0}}},
    {.op = "QLinearMatMul",
     .min_inputs = 8,
     .max_inputs = 8,
     .parts = {{"DequantizeLinear", {"0", "1", "2"}, "a", AXIS, -2},
               {"DequantizeLinear", {"3", "4", "5"}, "b", AXIS, -1},
               {"MatMul", {"a", "b"}, "r", NONE, 0},
               {"QuantizeLinear", {"r", "6", "7"}, "y", AXIS, -2}}},
};

const struct onnx_expansion *onnx_expansion(const char *op)
{
    for (size_t i = 0; i < sizeof expansions / sizeof *expansions; i++)
        if (strcmp(expansions[i].op, op) == 0)
            return &expansions[i];
    return NULL;
}

// The tensor that a part names; "": the node has not been given it. Tensors between parts are named
// after the output, which is unique, so that several such nodes do not collide. NULL: no memory.
static const char *tensor_name(struct onnx_lowering *l, const struct onnx_node *of,
                               const char *name)
{
    char text[300];
    uint32_t i = (uint32_t)(name[0] - '0');
    if (i <= 9)
        return i < of->n_inputs ? of->inputs[i] : "";
    if (strcmp(name, "y") == 0)
        return of->outputs[0];
    int n = snprintf(text, sizeof text, "%.200s/%s", of->outputs[0], name);
    return pool_text(&l->g->pool, (struct bytes){(const uint8_t *)text, (size_t)n});
}

// OWN shares the node's attributes; AXIS makes one named "axis".
static int take_attributes(struct onnx_lowering *l, const struct part *p,
                           const struct onnx_node *of, struct onnx_node *n, struct error *e)
{
    if (p->attributes == OWN) {
        n->attrs = of->attrs;
        n->n_attrs = of->n_attrs;
    } else if (p->attributes == AXIS) {
        n->attrs = pool_alloc(&l->g->pool, 1, sizeof *n->attrs);
        if (!n->attrs)
            return error_no_memory(e, "the graph", 0);
        n->attrs[0] = (struct onnx_attr){.name = "axis", .i = p->axis};
        n->n_attrs = 1;
    }
    return 0;
}

// A node for a part: up to three inputs, one output.
static int make_part(struct onnx_lowering *l, const struct part *p, const struct onnx_node *of,
                     struct onnx_node **ret, struct error *e)
{
    struct pool *pool = &l->g->pool;
    struct onnx_node *n = pool_alloc(pool, 1, sizeof *n);
    const char **edges = pool_alloc(pool, 4, sizeof *edges);
    if (!n || !edges)
        return error_no_memory(e, "the graph", 0);
    *n = (struct onnx_node){.name = of->name,
                            .op = p->op,
                            .domain = "",
                            .n_outputs = 1,
                            .inputs = edges,
                            .outputs = edges + 3};
    edges[3] = tensor_name(l, of, p->output);
    bool complete = edges[3];
    for (; n->n_inputs < 3 && p->inputs[n->n_inputs] && complete; n->n_inputs++) {
        edges[n->n_inputs] = tensor_name(l, of, p->inputs[n->n_inputs]);
        complete = edges[n->n_inputs];
    }
    *ret = n;
    return complete ? take_attributes(l, p, of, n, e) : error_no_memory(e, "the graph", 0);
}

// A part whose first input the node lacks (a bias) is left out, and so is what it makes, as input
// of later parts.
static bool is_left_out(const struct part *p, const struct onnx_node *of)
{
    uint32_t i = (uint32_t)(p->inputs[0][0] - '0');
    return i <= 9 && (i >= of->n_inputs || !of->inputs[i][0]);
}

static void leave_out(struct onnx_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->n_inputs && name; i++)
        if (strcmp(n->inputs[i], name) == 0)
            n->inputs[i] = "";
}

int onnx_expand(struct onnx_lowering *l, const struct onnx_expansion *x, const struct onnx_node *of,
                int (*take)(struct onnx_lowering *l, const struct onnx_node *n, struct error *e),
                struct error *e)
{
    const char *left_out = NULL;
    l->node = of;
    if (of->n_inputs < x->min_inputs || of->n_inputs > x->max_inputs || of->n_outputs != 1)
        return onnx_refuse(l, e, "%u inputs are not supported, or it has not one output",
                           of->n_inputs);
    for (const struct part *p = x->parts; p < x->parts + MAX_PARTS && p->op; p++) {
        struct onnx_node *n;
        int r = make_part(l, p, of, &n, e);
        if (r < 0)
            return r;
        if (is_left_out(p, of)) {
            left_out = n->outputs[0];
            continue;
        }
        leave_out(n, left_out);
        r = take(l, n, e);
        if (r < 0)
            return error_prefix(e, "as a part of %s", of->op);
    }
    return 0;
}
