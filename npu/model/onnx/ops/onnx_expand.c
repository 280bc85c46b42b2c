// Operators that are defined by several others: QLinearConv and QLinearMatMul, and those of ONNX
// Runtime's own that its quantizer writes beside them, become DequantizeLinear, the float operator,
// QuantizeLinear, which onnx_qdq.c then turns into int8 nodes like those of any quantized file.
// Parts are ordinary struct onnx_node, made in the pool and lowered one after the other.
#include <stdio.h>

#include "npu/model/onnx/onnx_lower.h"
#include "npu/model/onnx/onnx_maker.h"

#define MAX_PARTS 6

// Of a part: none, those of the node, axis, the axis of a Gemm's outputs in its weight.
enum attributes { NONE, OWN, AXIS, COLUMNS };

// "0" is the node's input 0, "y" its output, all else is between the parts.
struct part {
    const char *op, *inputs[3], *output;
    enum attributes attributes;
    int64_t axis;
};

struct onnx_expansion {
    const char *op;
    int (*make)(struct onnx_maker *m); // instead of parts: made/
    bool of_runtime;                   // of ONNX Runtime's domain, not of ONNX's
    bool joins; // QLinearConcat: scale, zero point, and three inputs for each tensor
    uint32_t min_inputs, max_inputs;
    struct part parts[MAX_PARTS];
};

#define RUNTIME "com.microsoft"

// One tensor: x, its form, the form of y.
#define OF_ONE(NAME, OP)                                                                           \
    {                                                                                              \
        .op = NAME, .of_runtime = true, .min_inputs = 4, .max_inputs = 5, .parts = {               \
            {"DequantizeLinear", {"0", "1", "2"}, "x", NONE, 0},                                   \
            {OP, {"x"}, "r", OWN, 0},                                                              \
            {"QuantizeLinear", {"r", "3", "4"}, "y", NONE, 0}                                      \
        }                                                                                          \
    }

// Two tensors.
#define OF_TWO(NAME, OP)                                                                           \
    {                                                                                              \
        .op = NAME, .of_runtime = true, .min_inputs = 7, .max_inputs = 8, .parts = {               \
            {"DequantizeLinear", {"0", "1", "2"}, "a", NONE, 0},                                   \
            {"DequantizeLinear", {"3", "4", "5"}, "b", NONE, 0},                                   \
            {OP, {"a", "b"}, "r", NONE, 0},                                                        \
            {"QuantizeLinear", {"r", "6", "7"}, "y", NONE, 0}                                      \
        }                                                                                          \
    }

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
    {.op = "QGemm",
     .of_runtime = true,
     .min_inputs = 9,
     .max_inputs = 9,
     .parts = {{"DequantizeLinear", {"0", "1", "2"}, "x", NONE, 0},
               {"DequantizeLinear", {"3", "4", "5"}, "w", COLUMNS, 0},
               {"Mul", {"1", "4"}, "scale", NONE, 0},
               {"DequantizeLinear", {"6", "scale"}, "b", AXIS, 0},
               {"Gemm", {"x", "w", "b"}, "r", OWN, 0},
               {"QuantizeLinear", {"r", "7", "8"}, "y", NONE, 0}}},
    {.op = "QLinearConcat",
     .of_runtime = true,
     .joins = true,
     .min_inputs = 5,
     .max_inputs = ONNX_MAX_EDGES},
#define X(name, runtime, fewest, most, function)                                                   \
    {.op = name, .make = function, .of_runtime = runtime, .min_inputs = fewest, .max_inputs = most},
    ONNX_MADE(X)
#undef X
        {.op = "QLinearWhere",
         .of_runtime = true,
         .min_inputs = 9,
         .max_inputs = 9,
         .parts = {{"DequantizeLinear", {"1", "2", "3"}, "a", NONE, 0},
                   {"DequantizeLinear", {"4", "5", "6"}, "b", NONE, 0},
                   {"Where", {"0", "a", "b"}, "r", NONE, 0},
                   {"QuantizeLinear", {"r", "7", "8"}, "y", NONE, 0}}},
    OF_TWO("QLinearAdd", "Add"),
    OF_TWO("QLinearMul", "Mul"),
    OF_ONE("QLinearSigmoid", "Sigmoid"),
    OF_ONE("QLinearLeakyRelu", "LeakyRelu"),
    OF_ONE("QLinearSoftmax", "Softmax"),
};

bool onnx_is_standard(const char *domain)
{
    return !domain[0] || strcmp(domain, "ai.onnx") == 0;
}

const struct onnx_expansion *onnx_expansion(const struct onnx_lowering *l,
                                            const struct onnx_node *n)
{
    for (size_t i = 0; i < sizeof expansions / sizeof *expansions; i++) {
        const struct onnx_expansion *x = &expansions[i];
        if (strcmp(x->op, n->op) != 0 ||
            !(x->of_runtime ? strcmp(n->domain, RUNTIME) == 0 : onnx_is_standard(n->domain)))
            continue;
        if ((x->make != onnx_make_resample || onnx_is_resampled(l, n)) &&
            (x->make != onnx_make_volume || onnx_is_volume(l, n)))
            return x;
    }
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

// What ONNX Runtime's operators say beside ONNX's, where it is what ONNX has: channels are not
// last, and a Softmax is of an operator set that counts axes as the file's does.
static bool says_nothing(const struct onnx_lowering *l, const struct onnx_attr *a)
{
    return (strcmp(a->name, "channels_last") == 0 && !a->i) ||
           (strcmp(a->name, "opset") == 0 && (a->i >= 13) == (l->f->opset >= 13));
}

static int take_own(struct onnx_lowering *l, const struct onnx_node *of, struct onnx_node *n,
                    struct error *e)
{
    n->attrs = of->n_attrs ? pool_alloc(&l->g->pool, of->n_attrs, sizeof *n->attrs) : NULL;
    if (of->n_attrs && !n->attrs)
        return error_no_memory(e, "the graph", 0);
    for (uint32_t i = 0; i < of->n_attrs; i++)
        if (onnx_is_standard(of->domain) || !says_nothing(l, &of->attrs[i]))
            n->attrs[n->n_attrs++] = of->attrs[i];
    return 0;
}

static int take_axis(struct onnx_lowering *l, int64_t axis, struct onnx_node *n, struct error *e)
{
    n->attrs = pool_alloc(&l->g->pool, 1, sizeof *n->attrs);
    if (!n->attrs)
        return error_no_memory(e, "the graph", 0);
    n->attrs[0] = (struct onnx_attr){.name = "axis", .i = axis};
    n->n_attrs = 1;
    return 0;
}

static int take_attributes(struct onnx_lowering *l, const struct part *p,
                           const struct onnx_node *of, struct onnx_node *n, struct error *e)
{
    l->node = of;
    if (p->attributes == OWN)
        return take_own(l, of, n, e);
    if (p->attributes == COLUMNS)
        return take_axis(l, onnx_int(l, "transB", 0) ? 0 : 1, n, e);
    return p->attributes == AXIS ? take_axis(l, p->axis, n, e) : 0;
}

// Its inputs are to be set. NULL: no memory.
static struct onnx_node *node_new(struct onnx_lowering *l, const struct onnx_node *of,
                                  const char *op, uint32_t n_inputs, const char *output)
{
    struct onnx_node *n = pool_alloc(&l->g->pool, 1, sizeof *n);
    const char **edges = pool_alloc(&l->g->pool, n_inputs + 1, sizeof *edges);
    if (!n || !edges || !output)
        return NULL;
    edges[n_inputs] = output;
    *n = (struct onnx_node){.name = of->name,
                            .op = op,
                            .domain = "",
                            .n_inputs = n_inputs,
                            .n_outputs = 1,
                            .inputs = edges,
                            .outputs = edges + n_inputs};
    return n;
}

// A node for a part: up to three inputs, one output.
static int make_part(struct onnx_lowering *l, const struct part *p, const struct onnx_node *of,
                     struct onnx_node **ret, struct error *e)
{
    uint32_t n_inputs = 0;
    while (n_inputs < 3 && p->inputs[n_inputs])
        n_inputs++;
    struct onnx_node *n = *ret = node_new(l, of, p->op, n_inputs, tensor_name(l, of, p->output));
    for (uint32_t i = 0; n && i < n_inputs; i++)
        if (!(n->inputs[i] = tensor_name(l, of, p->inputs[i])))
            n = NULL;
    return n ? take_attributes(l, p, of, n, e) : error_no_memory(e, "the graph", 0);
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

// QLinearConcat(scale, zero point, x0, its scale, its zero point, x1, …).
static int expand_join(struct onnx_lowering *l, const struct onnx_node *of,
                       int (*take)(struct onnx_lowering *l, const struct onnx_node *n,
                                   struct error *e),
                       struct error *e)
{
    uint32_t n = (of->n_inputs - 2) / 3;
    struct onnx_node *join = node_new(l, of, "Concat", n, tensor_name(l, of, "r"));
    struct onnx_node *end = node_new(l, of, "QuantizeLinear", 3, of->outputs[0]);
    if ((of->n_inputs - 2) % 3)
        return onnx_refuse(l, e, "it has %u inputs: two, and three for each tensor, are supported",
                           of->n_inputs);
    if (!join || !end)
        return error_no_memory(e, "the graph", 0);
    int r = take_own(l, of, join, e);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%u", i);
        struct onnx_node *part = node_new(l, of, "DequantizeLinear", 3, tensor_name(l, of, name));
        if (!part)
            return error_no_memory(e, "the graph", 0);
        memcpy(part->inputs, &of->inputs[3 * i + 2], 3 * sizeof *part->inputs);
        join->inputs[i] = part->outputs[0];
        r = take(l, part, e);
    }
    if (r < 0)
        return r;
    end->inputs[0] = join->outputs[0];
    end->inputs[1] = of->inputs[0];
    end->inputs[2] = of->inputs[1];
    r = take(l, join, e);
    return r < 0 ? r : take(l, end, e);
}

// Whether some part gets the node's attributes, and so knows them or refuses them.
static bool reads_attributes(const struct onnx_expansion *x)
{
    bool reads = x->joins;
    for (size_t i = 0; i < MAX_PARTS; i++)
        reads = reads || x->parts[i].attributes == OWN;
    return reads;
}

int onnx_expand(struct onnx_lowering *l, const struct onnx_expansion *x, const struct onnx_node *of,
                int (*take)(struct onnx_lowering *l, const struct onnx_node *n, struct error *e),
                struct error *e)
{
    const char *left_out = NULL;
    l->node = of;
    if (of->n_inputs < x->min_inputs || of->n_inputs > x->max_inputs ||
        (of->n_outputs != 1 && !x->make))
        return onnx_refuse(l, e, "%u inputs are not supported, or it has not one output",
                           of->n_inputs);
    if (x->make)
        return x->make(&(struct onnx_maker){.l = l, .of = of, .take = take, .e = e});
    if (of->n_attrs && !reads_attributes(x))
        return onnx_refuse(l, e, "its attribute \"%s\" is not known", of->attrs[0].name);
    if (x->joins)
        return expand_join(l, of, take, e);
    // Its bias is stored by both scales alone.
    if (strcmp(x->op, "QGemm") == 0 && onnx_float(l, "alpha", 1) != 1)
        return onnx_refuse(l, e, "alpha %g is not supported", (double)onnx_float(l, "alpha", 1));
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
