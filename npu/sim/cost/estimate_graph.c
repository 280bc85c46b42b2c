// What a graph costs on the chip: turns nodes into layers for estimate.c, and tensors with their
// live ranges into residents for sram_arena.c. Used at loading (profiles, paced runs) and by
// descriptions; pure functions of graph and chip, any thread.
//
// time of a graph with n cores = sum over nodes of (cycles of the layer * largest share of a core)
#include "npu/sim/cost/estimate_graph.h"

#include <stdlib.h>

#include "base/cleanup.h"

// ---- nodes ----

// Bytes as the chip stores them: a .rknn file's own size, with padding of channels, if it has one.
static uint64_t bytes_on_chip(const struct graph_tensor *t)
{
    if (t->constant)
        return t->data.size;
    return t->arena_offset == GRAPH_NO_OFFSET ? t->size : t->arena_bytes;
}

// Whatever is not 8 bits wide is computed at the rate of fp16.
static bool is_fp16(const struct graph_tensor *t)
{
    return t->type != TENSOR_INT8 && t->type != TENSOR_UINT8;
}

static uint32_t layer_dim(const struct graph_tensor *t, uint32_t i)
{
    return i < t->n_dims ? t->dims[i] : 1;
}

// The cost model takes n, c, h, w: all dimensions behind the third are one width.
static uint32_t width_of(const struct graph_tensor *t)
{
    uint64_t rest = (uint64_t)layer_dim(t, 0) * layer_dim(t, 1) * layer_dim(t, 2);
    uint64_t width = rest ? t->n_elems / rest : 0;
    return width < UINT32_MAX ? (uint32_t)width : UINT32_MAX;
}

static bool is_conv(const struct graph_node *n)
{
    return n->op == GRAPH_CONV || n->op == GRAPH_CONV_TRANSPOSE;
}

// Piecewise linear functions are computed without a table; any other activation loads the lookup
// table, and then the layer is not divided among cores.
static bool needs_table(const struct graph_node *n)
{
    for (uint32_t i = 0; i < n->n_post; i++)
        switch (n->post[i].kind) {
        case POST_RELU:
        case POST_CLIP:
        case POST_LEAKY_RELU:
        case POST_ABS:
        case POST_NEG:
        case POST_SCALE:
        case POST_ADD:
            continue;
        default:
            return true;
        }
    return false;
}

// An operand with one row that is added to all others is split into several tasks of one core: seen
// in files made by the vendor's compiler.
static bool repeats_rows(const struct graph *g, const struct graph_node *n)
{
    const struct graph_tensor *y = &g->tensors[n->outputs[0]];
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        const struct graph_tensor *x = n->inputs[i] < 0 ? y : &g->tensors[n->inputs[i]];
        if (layer_dim(x, 2) == 1 && layer_dim(y, 2) > 1 && layer_dim(x, 3) > 1)
            return true;
    }
    return false;
}

// The kind of each operator is a column of GRAPH_OPS; a few depend on the node.
static enum estimate_kind kind_of(const struct graph *g, const struct graph_node *n)
{
    static const enum estimate_kind kinds[GRAPH_OP_COUNT] = {
#define X(symbol, kernel, cost, batch) [GRAPH_##symbol] = ESTIMATE_##cost,
        GRAPH_OPS(X)
#undef X
    };
    if (n->on_cpu || n->n_outputs == 0 || n->outputs[0] < 0)
        return ESTIMATE_CPU;
    if (is_conv(n) && n->window.groups > 1 && g->tensors[n->inputs[1]].dims[1] == 1)
        return ESTIMATE_DEPTHWISE;
    if (n->op == GRAPH_ADD && repeats_rows(g, n))
        return ESTIMATE_WHOLE;
    return kinds[n->op];
}

static void add_input(const struct graph *g, int32_t tensor, struct estimate_layer *ret)
{
    const struct graph_tensor *t = tensor < 0 ? NULL : &g->tensors[tensor];
    if (t && t->constant)
        ret->weight_bytes += bytes_on_chip(t);
    else if (t)
        ret->in_bytes += bytes_on_chip(t);
}

// What only convolutions have. The bias was counted with the weights by add_input() and is moved to
// its own field.
static void add_conv(const struct graph *g, const struct graph_node *n, struct estimate_layer *ret)
{
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *w = &g->tensors[n->inputs[1]];
    ret->fp16 = w->type != TENSOR_INT8;
    ret->in_channels = layer_dim(x, 1);
    ret->in_width = width_of(x);
    ret->kernel[0] = layer_dim(w, 2);
    ret->kernel[1] = layer_dim(w, 3);
    ret->stride = n->op == GRAPH_CONV ? n->window.stride[0] : 1;
    ret->groups = n->window.groups;
    if (n->n_inputs > 2 && n->inputs[2] >= 0) {
        ret->bias_bytes = bytes_on_chip(&g->tensors[n->inputs[2]]);
        ret->weight_bytes -= ret->bias_bytes;
    }
}

// The node as estimate_layer() takes it. Sizes are those of the file where it gives them.
static void estimate_of_node(const struct graph *g, const struct graph_node *n,
                             struct estimate_layer *ret)
{
    *ret = (struct estimate_layer){.kind = kind_of(g, n)};
    if (ret->kind == ESTIMATE_CPU)
        return;
    const struct graph_tensor *y = &g->tensors[n->outputs[0]];
    ret->fp16 = is_fp16(y);
    ret->batch = layer_dim(y, 0);
    ret->out_channels = layer_dim(y, 1);
    ret->out_height = layer_dim(y, 2);
    ret->out_width = width_of(y);
    for (uint32_t i = 0; i < n->n_inputs; i++)
        add_input(g, n->inputs[i], ret);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        ret->out_bytes += n->outputs[i] < 0 ? 0 : bytes_on_chip(&g->tensors[n->outputs[i]]);
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD)
            add_input(g, n->post[i].operand, ret);
    ret->lookup = needs_table(n);
    if (is_conv(n))
        add_conv(g, n, ret);
}

void estimate_layers(const struct graph *g, const struct chip *chip, struct npu_layer *layers)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct estimate_layer l;
        struct estimate cost;
        estimate_of_node(g, &g->nodes[i], &l);
        estimate_layer(chip, &l, &cost);
        layers[i].npu_cycles = cost.npu_cycles;
        layers[i].ddr_cycles = cost.ddr_cycles;
        layers[i].total_cycles = cost.total_cycles;
        layers[i].macs = cost.macs;
        layers[i].mac_cycles = estimate_mac_cycles(chip, l.fp16, cost.macs);
        layers[i].read_bytes = cost.read_bytes;
        layers[i].write_bytes = cost.write_bytes;
    }
}

// Work of each core in node i. The next node counts too: a divided layer has extra work where the
// layer behind it is not divided (estimate_share).
static void shares_of_node(const struct graph *g, const struct chip *chip, uint32_t i,
                           uint32_t n_cores, uint64_t ret[ESTIMATE_MAX_CORES])
{
    struct estimate_layer l, next = {.kind = ESTIMATE_CPU};
    estimate_of_node(g, &g->nodes[i], &l);
    if (i + 1 < g->n_nodes)
        estimate_of_node(g, &g->nodes[i + 1], &next);
    estimate_share(chip, &l, n_cores, estimate_is_shared(chip, &next, n_cores), ret);
}

void estimate_shares(const struct graph *g, const struct chip *chip, uint32_t core_mask,
                     struct npu_layer *layers)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        uint64_t shares[ESTIMATE_MAX_CORES];
        shares_of_node(g, chip, i, (uint32_t)__builtin_popcount(core_mask), shares);
        layers[i].core_mask = core_mask;
        for (uint32_t core = 0, k = 0; core < ESTIMATE_MAX_CORES; core++)
            layers[i].core_work[core] = core_mask >> core & 1 ? shares[k++] : 0;
    }
}

// The busiest core's part of the work, 0 to 1: the layer ends when that core does.
static double largest_part(const uint64_t shares[ESTIMATE_MAX_CORES])
{
    uint64_t sum = 0, max = 0;
    for (uint32_t i = 0; i < ESTIMATE_MAX_CORES; i++) {
        sum += shares[i];
        max = shares[i] > max ? shares[i] : max;
    }
    return sum ? (double)max / (double)sum : 1;
}

uint64_t estimate_layer_ns(const struct chip *chip, const struct npu_layer *layer)
{
    double us = estimate_us(chip, layer->total_cycles) * largest_part(layer->core_work);
    return (uint64_t)(1e3 * us + 0.5);
}

double estimate_graph_us(const struct graph *g, const struct chip *chip, uint32_t n_cores)
{
    double us = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct estimate_layer l;
        struct estimate cost;
        uint64_t shares[ESTIMATE_MAX_CORES];
        estimate_of_node(g, &g->nodes[i], &l);
        estimate_layer(chip, &l, &cost);
        shares_of_node(g, chip, i, n_cores, shares);
        us += estimate_us(chip, cost.total_cycles) * largest_part(shares);
    }
    return us;
}

// ---- memory ----

struct residents {
    struct sram_tensor *list;
    uint32_t *of_tensor; // index in the list + 1; 0: not there; of a constant, UINT32_MAX: counted
    size_t n;
};

// A tensor enters the internal memory at the step that writes it (-1: the program does). In a file
// with a memory plan, tensors without an offset are elsewhere.
static void layer_admit(struct residents *r, const struct graph *g, uint32_t tensor, int32_t step)
{
    const struct graph_tensor *t = &g->tensors[tensor];
    bool planned_by_file = g->arena_size > 0;
    if (t->constant || r->of_tensor[tensor] ||
        (planned_by_file && t->arena_offset == GRAPH_NO_OFFSET))
        return;
    r->list[r->n] = (struct sram_tensor){
        .size = bytes_on_chip(t),
        .offset = planned_by_file ? t->arena_offset : SRAM_UNPLACED,
        .from = step,
        .to = step,
        .uses = step >= 0, // a program writes the inputs
        .outside = step < 0,
    };
    r->of_tensor[tensor] = (uint32_t)++r->n;
}

// Extends the live range and counts one access.
static void layer_use(struct residents *r, int32_t tensor, int32_t step)
{
    uint32_t at = tensor < 0 ? 0 : r->of_tensor[tensor];
    if (at == 0)
        return;
    r->list[at - 1].to = step;
    r->list[at - 1].uses++;
}

static void layer_visit(struct residents *r, const struct graph *g, int32_t step)
{
    const struct graph_node *n = &g->nodes[step];
    for (uint32_t i = 0; i < n->n_inputs; i++)
        layer_use(r, n->inputs[i], step);
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD)
            layer_use(r, n->post[i].operand, step);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (n->outputs[i] >= 0)
            layer_admit(r, g, (uint32_t)n->outputs[i], step);
}

// Each constant once, also if several nodes use it: a constant's entry in of_tensor is UINT32_MAX
// when it was counted. Constants that no node uses are commands and tables; they are not weights.
static void count_constant(struct residents *r, const struct graph *g, int32_t tensor,
                           struct estimate_memory *ret)
{
    if (tensor < 0 || !g->tensors[tensor].constant || r->of_tensor[tensor])
        return;
    r->of_tensor[tensor] = UINT32_MAX;
    ret->weight_bytes += g->tensors[tensor].data.size;
    ret->weight_size += estimate_constant_space(g->tensors[tensor].data.size);
}

static void count_constants(struct residents *r, const struct graph *g, const struct graph_node *n,
                            struct estimate_memory *ret)
{
    for (uint32_t i = 0; i < n->n_inputs; i++)
        count_constant(r, g, n->inputs[i], ret);
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD)
            count_constant(r, g, n->post[i].operand, ret);
}

// Collects which tensors are in the internal memory during which nodes, and places them. `list` and
// `of_tensor` are zeroed and have room for all tensors.
static int layer_place(const struct graph *g, struct residents *r, struct error *e)
{
    for (uint32_t i = 0; i < g->n_inputs; i++)
        layer_admit(r, g, g->inputs[i], -1);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        layer_visit(r, g, (int32_t)i);
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (r->of_tensor[g->outputs[i]])
            r->list[r->of_tensor[g->outputs[i]] - 1].outside = true;
    return sram_plan(r->list, r->n, e);
}

static int residents_init(struct residents *r, const struct graph *g, struct error *e)
{
    *r = (struct residents){.list = calloc((size_t)g->n_tensors + 1, sizeof *r->list),
                            .of_tensor = calloc((size_t)g->n_tensors + 1, sizeof *r->of_tensor)};
    if (!r->list || !r->of_tensor)
        return error_no_memory(e, "a memory estimate", g->n_tensors * sizeof *r->list);
    return 0;
}

static void residents_done(struct residents *r)
{
    free(r->list);
    free(r->of_tensor);
}

int estimate_memory(const struct graph *g, const struct chip *chip, struct estimate_memory *ret,
                    struct error *e)
{
    cleanup(residents_done) struct residents r = {0};
    *ret = (struct estimate_memory){0};
    int status = residents_init(&r, g, e);
    if (status == 0)
        status = layer_place(g, &r, e);
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        count_constants(&r, g, &g->nodes[i], ret);
    sram_count(r.list, r.n, chip->sram_size, &ret->use);
    return 0;
}

int estimate_memory_plan(const struct graph *g,
                         void (*place_of)(void *user, const struct graph_tensor *t,
                                          const struct sram_tensor *where),
                         void *user, struct error *e)
{
    cleanup(residents_done) struct residents r = {0};
    int status = residents_init(&r, g, e);
    if (status == 0)
        status = layer_place(g, &r, e);
    for (uint32_t i = 0; i < g->n_tensors && status == 0; i++)
        if (r.of_tensor[i])
            place_of(user, &g->tensors[i], &r.list[r.of_tensor[i] - 1]);
    return status;
}
