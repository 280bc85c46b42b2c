// Products (Conv, Gemm, ...) are what quantization is for. What lies between them becomes int8 with
// them: sums, pools, activations, moves. What comes only before or only behind them (normalizing
// pictures, decoding boxes, Softmax) computes with real numbers as before, since 8 bits would lose
// most there and win nothing.
#include "quant/plan/quant_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/model/quant_constant.h"

struct planning {
    const struct quant_model *m;
    const struct quant_index *x;
    const struct quant_plan_options *options;
    struct quant_plan *p;
    bool *before, *behind;              // of each edge: a product comes before it, behind it
    const struct quant_choice **chosen; // of each node; NULL: nothing was asked for
    struct error *e;
};

static const char asked_for[] = "it was asked for";

// ---- kinds of operators ----

static const char *const products[] = {"Conv", "ConvTranspose", "Gemm", "MatMul", NULL};
static const char *const sums[] = {"Add", "Mul", NULL};
static const char *const activations[] = {
    "Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu", NULL};
static const char *const pools[] = {"AveragePool", "GlobalAveragePool", NULL};
static const char *const moves[] = {"MaxPool",   "GlobalMaxPool", "Reshape",      "Flatten",
                                    "Transpose", "Squeeze",       "Unsqueeze",    "Slice",
                                    "Split",     "Concat",        "Identity",     "Dropout",
                                    "Resize",    "DepthToSpace",  "SpaceToDepth", NULL};

static bool plan_is_one_of(const Quant__Node *n, const char *const *list)
{
    for (; *list; list++)
        if (quant_is(n, *list))
            return true;
    return false;
}

// Inputs of a node that it moves or computes with; the others say how.
static bool plan_takes(const Quant__Node *n, size_t input)
{
    if (!*quant_input(n, input))
        return false;
    if (quant_is(n, "Concat") || plan_is_one_of(n, sums))
        return true;
    return input == 0;
}

// Whether this input is computed.
static bool plan_is_value(const struct quant_index *x, const Quant__Node *n, size_t input)
{
    const struct quant_edge *edge = quant_index_find(x, quant_input(n, input));
    return plan_takes(n, input) && edge && !edge->constant;
}

uint32_t quant_plan_axis(const Quant__Node *n, const Quant__Tensor *weight)
{
    if (quant_is(n, "MatMul"))
        return (uint32_t)weight->n_dims - 1;
    if (quant_is(n, "Gemm"))
        return quant_attr_int(n, "transB", 0) ? 0 : 1;
    return quant_is(n, "ConvTranspose");
}

static struct quant_edge *plan_input(const struct planning *g, const Quant__Node *n, size_t i)
{
    return quant_index_find(g->x, quant_input(n, i));
}

static struct quant_edge *plan_output(const struct planning *g, const Quant__Node *n)
{
    return quant_index_find(g->x, quant_output(n, 0));
}

// Nodes whose output has no name, or that have more than one, are of no form that is known here.
static bool plan_gives_one(const struct planning *g, const Quant__Node *n)
{
    return n->n_output == 1 && plan_output(g, n);
}

// NULL: it can be quantized; else why not.
static const char *plan_refuses_product(const struct planning *g, const Quant__Node *n)
{
    const Quant__Tensor *w = quant_index_weight(g->x, n, 1);
    const struct quant_edge *bias = plan_input(g, n, 2), *input = plan_input(g, n, 0);
    if (!w || (bias && !quant_index_weight(g->x, n, 2)))
        return "its weight or bias is computed, or is not float32";
    if (!input || input->constant)
        return "its input is constant";
    if (!plan_gives_one(g, n))
        return "it does not have one output with a name";
    size_t least = quant_is(n, "Gemm") || quant_is(n, "MatMul") ? 2 : 3;
    if (w->n_dims > 4)
        return "it has more than two dimensions, which no NPU computes";
    if (w->n_dims < least || !quant_constant_count(w) || (least == 2 && w->n_dims != 2))
        return "its weight has an unusual shape";
    if (quant_is(n, "Gemm") &&
        (quant_attr_int(n, "transA", 0) || quant_attr_float(n, "alpha", 1) != 1 ||
         quant_attr_float(n, "beta", 1) != 1))
        return "it has factors, or its input is transposed";
    uint64_t outputs = (uint64_t)w->dims[quant_plan_axis(n, w)];
    if (quant_is(n, "ConvTranspose"))
        outputs *= (uint64_t)quant_attr_int(n, "group", 1);
    if (bias && (bias->constant->n_dims != 1 || (uint64_t)bias->constant->dims[0] != outputs))
        return "its bias is not one number for each output";
    return NULL;
}

static bool plan_all_float(const struct planning *g, const Quant__Node *n, bool constants)
{
    const struct quant_edge *out = plan_output(g, n);
    if (!out || out->type != QUANT_FLOAT)
        return false;
    for (size_t i = 0; i < n->n_input; i++) {
        const struct quant_edge *in = plan_input(g, n, i);
        if (plan_takes(n, i) && (!in || in->type != QUANT_FLOAT || (in->constant && !constants)))
            return false;
    }
    return true;
}

// Constants of both bounds of a Clip, where it has them.
static bool plan_has_bounds(const struct planning *g, const Quant__Node *n)
{
    for (size_t i = 1; i < 3; i++)
        if (*quant_input(n, i) && !quant_index_weight(g->x, n, i))
            return false;
    return true;
}

// Whether some constant of a sum is infinite, as those of masks are: no scale reaches that.
static bool plan_adds_infinity(const struct planning *g, const Quant__Node *n)
{
    for (size_t i = 0; i < n->n_input && plan_is_one_of(n, sums); i++) {
        const struct quant_edge *in = plan_input(g, n, i);
        if (in && in->constant && quant_constant_is_infinite(in->constant))
            return true;
    }
    return false;
}

static const char *plan_refuses_value(const struct planning *g, const Quant__Node *n)
{
    const struct quant_edge *out = plan_output(g, n);
    size_t values = 0;
    for (size_t i = 0; i < n->n_input; i++)
        values += plan_is_value(g->x, n, i);
    if (!values || !plan_all_float(g, n, true))
        return "its values are no floats";
    if (!plan_gives_one(g, n))
        return "it does not have one output with a name";
    if (quant_is(n, "Clip") && !plan_has_bounds(g, n))
        return "its bounds are computed";
    if (plan_adds_infinity(g, n))
        return "its constant has infinite numbers";
    for (size_t i = 0; i < n->n_input; i++)
        if (plan_is_value(g->x, n, i) && !g->before[plan_input(g, n, i) - g->x->edges])
            return "no product comes before it";
    // Average pools, too: what a Softmax reads would be cut off for samples that the model is surer
    // of than of all that were seen.
    if (g->behind[out - g->x->edges] || quant_is(n, "Relu"))
        return NULL;
    return values < 2 || quant_is(n, "Mul") ? "no product comes behind it" : NULL;
}

static bool plan_is_behind(const struct planning *g, const Quant__Node *n)
{
    for (size_t i = 0; i < n->n_output; i++) {
        const struct quant_edge *out = quant_index_find(g->x, quant_output(n, i));
        if (out && g->behind[out - g->x->edges])
            return true;
    }
    return false;
}

// Behind the last product nothing is won by moving integers, and a Concat would force outputs of
// unlike ranges (a detector's heads) into one scale. Pools make tensors smaller, which is won.
static const char *plan_refuses_move(const struct planning *g, const Quant__Node *n)
{
    if (!plan_all_float(g, n, false))
        return "it moves constants, or no floats";
    if (!plan_is_behind(g, n) && !quant_is(n, "MaxPool") && !quant_is(n, "GlobalMaxPool"))
        return "no product comes behind it";
    size_t outputs = 0;
    for (size_t i = 0; i < n->n_output; i++)
        outputs += *quant_output(n, i) != 0;
    return outputs != 1 && !quant_is(n, "Split") ? "it has more than one output" : NULL;
}

// What was asked for node i; NULL: nothing. used: of each choice.
static const struct quant_choice *plan_choice(const struct planning *g, size_t i, bool *used)
{
    const Quant__Node *n = g->m->graph->node[i];
    const struct quant_choice *chosen = NULL;
    for (size_t c = 0; c < g->options->n_choices; c++)
        for (size_t k = 0; k <= n->n_output; k++) {
            const char *name = g->options->choices[c].name;
            if (!*name || !(k ? quant_index_is_named(quant_output(n, k - 1), name)
                              : strcmp(name, quant_text(n->name)) == 0))
                continue;
            used[c] = true;
            chosen = &g->options->choices[c];
        }
    return chosen;
}

static enum quant_kind plan_kind(const struct planning *g, const Quant__Node *n, bool is_float,
                                 const char **reason)
{
    enum quant_kind kind =
        plan_is_one_of(n, products) ? QUANT_NODE_PRODUCT
        : plan_is_one_of(n, moves)  ? QUANT_NODE_MOVE
        : plan_is_one_of(n, sums) || plan_is_one_of(n, pools) || plan_is_one_of(n, activations)
            ? QUANT_NODE_VALUE
            : QUANT_NODE_FLOAT;
    *reason = is_float                     ? asked_for
              : kind == QUANT_NODE_PRODUCT ? plan_refuses_product(g, n)
              : kind == QUANT_NODE_VALUE   ? plan_refuses_value(g, n)
              : kind == QUANT_NODE_MOVE    ? plan_refuses_move(g, n)
                                           : NULL;
    return *reason ? QUANT_NODE_FLOAT : kind;
}

// ---- before and behind products ----

static bool plan_is_good_product(const struct planning *g, const Quant__Node *n)
{
    return plan_is_one_of(n, products) && !plan_refuses_product(g, n);
}

static void plan_look_around(const struct planning *g)
{
    const Quant__Graph *graph = g->m->graph;
    for (size_t i = 0; i < graph->n_node; i++) {
        const Quant__Node *n = graph->node[i];
        bool any = plan_is_good_product(g, n);
        for (size_t k = 0; k < n->n_input; k++)
            any |= plan_input(g, n, k) && g->before[plan_input(g, n, k) - g->x->edges];
        for (size_t k = 0; k < n->n_output && any; k++)
            if (*quant_output(n, k))
                g->before[quant_index_find(g->x, quant_output(n, k)) - g->x->edges] = true;
    }
    for (size_t i = graph->n_node; i-- > 0;) {
        const Quant__Node *n = graph->node[i];
        bool any = plan_is_good_product(g, n);
        for (size_t k = 0; k < n->n_output; k++)
            any |= *quant_output(n, k) &&
                   g->behind[quant_index_find(g->x, quant_output(n, k)) - g->x->edges];
        for (size_t k = 0; k < n->n_input && any; k++)
            if (plan_input(g, n, k))
                g->behind[plan_input(g, n, k) - g->x->edges] = true;
    }
}

// ---- tensors ----

static uint32_t plan_root(const struct quant_plan *p, uint32_t edge)
{
    while (p->places[edge].group != edge)
        edge = p->places[edge].group;
    return edge;
}

static void plan_join(const struct quant_plan *p, uint32_t a, uint32_t b)
{
    a = plan_root(p, a);
    b = plan_root(p, b);
    p->places[a > b ? a : b].group = a > b ? b : a;
}

// Whether that changes anything.
static bool plan_mark(const struct planning *g, const struct quant_edge *edge, uint8_t bits)
{
    struct quant_place *place = quant_plan_place(g->p, g->x, edge);
    if (!place || edge->constant || (place->quantized && place->bits <= bits))
        return false;
    place->quantized = true;
    place->bits = bits;
    return true;
}

// The node before a Relu or Clip that nobody else reads; -1: there is none.
static int32_t plan_before(const struct planning *g, size_t i)
{
    const Quant__Node *n = g->m->graph->node[i];
    const struct quant_edge *in = plan_input(g, n, 0);
    if (!(quant_is(n, "Relu") || quant_is(n, "Clip")) || !in ||
        quant_index_only_reader(g->x, in) < 0)
        return -1;
    return in->producer;
}

// Whether a node can give out its result through an activation.
static bool plan_fuses(const struct planning *g, int32_t before)
{
    uint8_t kind = g->p->kinds[before];
    return kind == QUANT_NODE_PRODUCT ||
           (kind == QUANT_NODE_VALUE && quant_is(g->m->graph->node[before], "Add"));
}

// A layer is known by its activation's output, too: who asks for something there means all of it.
static void plan_name_whole_layers(const struct planning *g)
{
    for (size_t i = 0; i < g->p->n_nodes; i++) {
        int32_t before = plan_before(g, i);
        if (before < 0 || !g->chosen[i] || g->chosen[before] || !plan_fuses(g, before))
            continue;
        g->p->bits[before] = g->p->bits[i];
        if (g->chosen[i]->bits)
            continue;
        g->p->kinds[before] = QUANT_NODE_FLOAT;
        g->p->reasons[before] = asked_for;
    }
}

// An activation right behind a product or a sum, which nobody else reads.
static void plan_fuse(const struct planning *g)
{
    for (size_t i = 0; i < g->p->n_nodes; i++) {
        int32_t before = plan_before(g, i);
        if (g->p->kinds[i] != QUANT_NODE_VALUE || before < 0)
            continue;
        uint8_t kind = g->p->kinds[before];
        if (plan_fuses(g, before)) {
            g->p->kinds[i] = QUANT_NODE_FUSED;
            g->p->bits[i] = g->p->bits[before];
        } else if (kind == QUANT_NODE_FLOAT) // 8 bits in between would win nothing
            g->p->kinds[i] = QUANT_NODE_FLOAT;
    }
}

// Between a node and the activation that is fused into it nothing is stored.
static bool plan_is_stored(const struct planning *g, const struct quant_edge *out)
{
    int32_t reader = quant_index_only_reader(g->x, out);
    return reader < 0 || g->p->kinds[reader] != QUANT_NODE_FUSED;
}

static void plan_mark_node(const struct planning *g, size_t i)
{
    const Quant__Node *n = g->m->graph->node[i];
    const struct quant_edge *out = plan_output(g, n);
    uint8_t kind = g->p->kinds[i];
    if (kind != QUANT_NODE_PRODUCT && kind != QUANT_NODE_VALUE && kind != QUANT_NODE_FUSED)
        return;
    for (size_t k = 0; k < n->n_input && kind != QUANT_NODE_FUSED; k++)
        if (plan_is_value(g->x, n, k))
            plan_mark(g, plan_input(g, n, k), g->p->bits[i]);
    if (plan_is_stored(g, out))
        plan_mark(g, out, g->p->bits[i]);
}

// The tensor k of those that a move takes and gives; NULL: it says how, or is left out.
static const struct quant_edge *plan_moved(const struct planning *g, const Quant__Node *n, size_t k)
{
    if (k >= n->n_input)
        return quant_index_find(g->x, quant_output(n, k - n->n_input));
    return plan_takes(n, k) ? plan_input(g, n, k) : NULL;
}

// A move is on integers if one of its tensors is, and then all are, with one scale, of the fewest
// bits.
static bool plan_spread(const struct planning *g, size_t i)
{
    const Quant__Node *n = g->m->graph->node[i];
    const struct quant_edge *out = plan_output(g, n);
    uint8_t bits = 0;
    bool changed = false;
    for (size_t k = 0; k < n->n_input + n->n_output; k++) {
        const struct quant_place *place = quant_plan_place(g->p, g->x, plan_moved(g, n, k));
        if (place && place->quantized && (!bits || place->bits < bits))
            bits = place->bits;
    }
    if (!bits)
        return false;
    for (size_t k = 0; k < n->n_input + n->n_output; k++) {
        const struct quant_edge *edge = plan_moved(g, n, k);
        if (!edge)
            continue;
        changed |= plan_mark(g, edge, bits);
        plan_join(g->p, (uint32_t)(edge - g->x->edges), (uint32_t)(out - g->x->edges));
    }
    return changed;
}

static void plan_spread_all(const struct planning *g)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < g->p->n_nodes; i++)
            if (g->p->kinds[i] == QUANT_NODE_MOVE)
                changed |= plan_spread(g, i);
        for (size_t i = g->p->n_nodes; i-- > 0;)
            if (g->p->kinds[i] == QUANT_NODE_MOVE)
                changed |= plan_spread(g, i);
    }
    for (uint32_t i = 0; i < g->p->n_edges; i++) {
        struct quant_place *place = &g->p->places[i];
        int32_t from = g->x->edges[i].producer;
        place->group = plan_root(g->p, i);
        place->observed = place->quantized && (from < 0 || g->p->kinds[from] != QUANT_NODE_MOVE);
    }
}

// ---- the whole ----

static const char *plan_wish(uint8_t bits)
{
    return bits == 0 ? "stay float" : bits == 8 ? "be int8" : "be int16";
}

// Of any domain: ONNX Runtime has its own of these names.
static bool plan_has_integers(const Quant__Node *n)
{
    static const char *const words[] = {"QuantizeLinear",        "DequantizeLinear",
                                        "DynamicQuantizeLinear", "ConvInteger",
                                        "MatMulInteger",         NULL};
    const char *op = quant_text(n->op_type);
    for (const char *const *word = words; *word; word++)
        if (strcmp(op, *word) == 0)
            return true;
    return strncmp(op, "QLinear", 7) == 0;
}

int quant_plan_check_float(const struct quant_model *m, struct error *e)
{
    for (size_t i = 0; i < m->graph->n_node; i++)
        if (plan_has_integers(m->graph->node[i]))
            return error_set(e, STATUS_MODEL_INVALID,
                             "the model is quantized already (node %s, %s): give the float model",
                             quant_node_name(m->graph->node[i]),
                             quant_text(m->graph->node[i]->op_type));
    return 0;
}

// Without a product nothing is won. The first one that could have been says why it is none.
static int plan_nothing(const struct planning *g)
{
    for (size_t i = 0; i < g->p->n_nodes; i++) {
        const Quant__Node *n = g->m->graph->node[i];
        if (plan_is_one_of(n, products) && g->p->reasons[i])
            return error_set(g->e, STATUS_MODEL_INVALID,
                             "there is nothing to quantize: of all Conv, Gemm and MatMul none can "
                             "be (node %s, %s: %s)",
                             quant_node_name(n), quant_text(n->op_type), g->p->reasons[i]);
    }
    return error_set(g->e, STATUS_MODEL_INVALID,
                     "there is nothing to quantize: the model has no Conv, Gemm or MatMul%s",
                     g->m->has_subgraphs
                         ? " outside of the graphs that lie in its nodes (If, Loop, "
                           "Scan), which stay as they are"
                         : "");
}

static int plan_classify(const struct planning *g, bool *used)
{
    for (size_t i = 0; i < g->p->n_nodes; i++) {
        const Quant__Node *n = g->m->graph->node[i];
        const struct quant_choice *c = g->chosen[i] = plan_choice(g, i, used);
        g->p->bits[i] = c && c->bits ? c->bits : g->options->bits;
        g->p->kinds[i] = (uint8_t)plan_kind(g, n, c && !c->bits, &g->p->reasons[i]);
    }
    if (g->options->fuse_activations)
        plan_name_whole_layers(g);
    bool quantized = memchr(g->p->kinds, QUANT_NODE_PRODUCT, g->p->n_nodes) != NULL;
    for (size_t i = 0; i < g->options->n_choices; i++)
        if (!used[i])
            return error_set(g->e, STATUS_PARAM_INVALID,
                             "\"%s\" is to %s: the model has no node and no tensor of a node of "
                             "that name",
                             g->options->choices[i].name, plan_wish(g->options->choices[i].bits));
    return quantized ? 0 : plan_nothing(g);
}

static void plan_choose_tensors(const struct planning *g)
{
    if (g->options->fuse_activations)
        plan_fuse(g);
    for (size_t i = 0; i < g->p->n_nodes; i++)
        plan_mark_node(g, i);
    plan_spread_all(g);
}

int quant_plan_make(struct quant_plan *p, const struct quant_model *m, const struct quant_index *x,
                    const struct quant_plan_options *options, struct error *e)
{
    uint32_t n = (uint32_t)m->graph->n_node;
    *p = (struct quant_plan){.n_nodes = n,
                             .n_edges = x->n,
                             .kinds = calloc(n + 1, sizeof *p->kinds),
                             .bits = calloc(n + 1, sizeof *p->bits),
                             .reasons = calloc(n + 1, sizeof *p->reasons),
                             .places = calloc((size_t)x->n + 1, sizeof *p->places)};
    cleanup(free_p) bool *flags =
        calloc(2 * ((size_t)x->n + 1) + options->n_choices, sizeof *flags);
    cleanup(free_p) const struct quant_choice **chosen = calloc(n + 1, sizeof *chosen);
    struct planning g = {
        .m = m, .x = x, .options = options, .p = p, .before = flags, .chosen = chosen, .e = e};
    if (!p->kinds || !p->bits || !p->reasons || !p->places || !flags || !chosen)
        return error_no_memory(e, "the plan", n);
    g.behind = flags + x->n + 1;
    for (uint32_t i = 0; i < x->n; i++)
        p->places[i].group = i;
    plan_look_around(&g);
    int r = quant_plan_check_float(m, e);
    if (r == 0)
        r = plan_classify(&g, flags + 2 * ((size_t)x->n + 1));
    if (r == 0)
        plan_choose_tensors(&g);
    return r;
}

void quant_plan_done(struct quant_plan *p)
{
    free(p->kinds);
    free(p->bits);
    free(p->reasons);
    free(p->places);
    *p = (struct quant_plan){0};
}
