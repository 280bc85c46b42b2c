// Custom operators: nodes that a program or plugin computes (rknn_register_custom_ops), reached
// over struct npu_custom, whose callbacks lead through the daemon to the client.
//
// load:  sim_custom_nodes() numbers and describes the nodes that may be computed elsewhere
// run:   sim_custom(), a hook before each step: begin() -> inputs out -> compute() -> outputs in
//
// Tensors are exchanged densely in the order of their dimensions, as float32 or, for unquantized
// int64, as int64; the client converts to the types that the operator declares.
#include "npu/sim/sim_custom.h"

#include "npu/sim/exec/copy.h"
#include "npu/sim/sim_io.h"

#define ATTRIBUTES_MAX (1u << 20) // bytes, of all nodes together

// ---- descriptions ------------------------------------------------------------------------------

// The tensor's form in the exchange: float32, but int64 where float32 could not hold the values.
static struct graph_tensor custom_exchanged(const struct graph_tensor *t)
{
    struct graph_tensor x = *t;
    bool wide = t->type == TENSOR_INT64 && !t->quantized;
    x.type = wide ? TENSOR_INT64 : TENSOR_FLOAT32;
    x.quantized = false;
    x.channels_last = false;
    x.size = (size_t)t->n_elems * (wide ? 8 : 4);
    return x;
}

// What the operator is told of a tensor: exchanged type and shape, and the quantization of the
// stored tensor, with which the client converts back.
static int describe_tensor(const struct graph_node *n, const struct graph_tensor *t,
                           struct tensor_attr *ret, struct error *e)
{
    struct graph_tensor x = custom_exchanged(t);
    if (!element_type_known(t->type))
        return graph_refuse(n, e, "tensor %s: programs cannot have type %s", t->name,
                            tensor_type_name(t->type));
    int r = sim_describe_tensor(&x, ret, e);
    if (r == 0 && t->quantized) {
        ret->qnt = TENSOR_QNT_AFFINE;
        ret->scale = t->scale;
        ret->zp = t->zp;
    }
    return r;
}

// Inputs, then outputs, in memory of the graph's pool. The operator's interface has no optional
// tensors, hence the refusal of index -1.
static int describe_tensors(struct graph *g, const struct graph_node *n, struct custom_node *ret,
                            struct error *e)
{
    struct tensor_attr *tensors;
    uint32_t count = n->n_inputs + n->n_outputs;
    if (n->n_inputs > CUSTOM_MAX_TENSORS || count > CUSTOM_MAX_TENSORS)
        return graph_refuse(n, e, "it has more than %d inputs and outputs", CUSTOM_MAX_TENSORS);
    tensors = pool_alloc(&g->pool, count, sizeof *tensors);
    if (!tensors)
        return error_no_memory(e, "custom operators", count * sizeof *tensors);
    for (uint32_t i = 0; i < count; i++) {
        int32_t index = i < n->n_inputs ? n->inputs[i] : n->outputs[i - n->n_inputs];
        if (index < 0)
            return graph_refuse(n, e, "an input or output is left out");
        int r = describe_tensor(n, &g->tensors[index], &tensors[i], e);
        if (r < 0)
            return r;
    }
    ret->tensors = tensors;
    return 0;
}

static size_t attribute_bytes(const struct graph_node *n)
{
    size_t size = 0;
    for (uint32_t i = 0; i < n->n_attributes; i++)
        size += n->attributes[i].data.size;
    return size;
}

// Of attributes that may still be described. Sizes and counts come from the untrusted file.
struct room {
    size_t bytes;
    uint32_t n;
};

static int custom_describe(struct graph *g, const struct graph_node *n, const struct room *room,
                           struct custom_node *ret, struct error *e)
{
    *ret = (struct custom_node){.name = n->name,
                                .op = n->type,
                                .known = n->op != GRAPH_CUSTOM,
                                .n_inputs = n->n_inputs,
                                .n_outputs = n->n_outputs,
                                .n_attributes = n->n_attributes,
                                .attributes = n->attributes};
    if (n->n_attributes > CUSTOM_MAX_ATTRIBUTES || n->n_attributes > room->n ||
        attribute_bytes(n) > room->bytes)
        return graph_refuse(n, e, "%u attributes of %zu bytes are too much for a program",
                            n->n_attributes, attribute_bytes(n));
    return describe_tensors(g, n, ret, e);
}

// known: a node that we can compute ourselves but that the compiler left to the CPU, where a
// program may replace it. Otherwise: a node that nobody but a program can compute.
static bool is_candidate(const struct graph_node *n, bool known)
{
    return known ? n->op != GRAPH_CUSTOM && n->on_cpu && n->type : n->op == GRAPH_CUSTOM;
}

// Describes and numbers the candidates of one kind (graph_node.custom counts from 1; 0 is none).
// Nodes that we can compute are offered as far as limits allow; for the others a limit is an error,
// since nobody could compute them.
static int add_nodes(struct graph *g, bool known, struct custom_node *nodes, struct room *room,
                     uint32_t *n, struct error *e)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct graph_node *node = &g->nodes[i];
        struct error unsuited;
        if (!is_candidate(node, known))
            continue;
        if (*n == CUSTOM_MAX_NODES)
            return known ? 0
                         : graph_refuse(node, e, "the model has more than %d custom operators",
                                        CUSTOM_MAX_NODES);
        int r = custom_describe(g, node, room, &nodes[*n], known ? &unsuited : e);
        if (r < 0 && !known)
            return r;
        if (r < 0)
            continue;
        node->custom = ++*n;
        room->bytes -= attribute_bytes(node);
        room->n -= node->n_attributes;
    }
    return 0;
}

// Nodes that need a program come first, so that optional ones cannot take their places.
int sim_custom_nodes(struct graph *g, const struct custom_node **ret, uint32_t *ret_n,
                     struct error *e)
{
    struct room room = {ATTRIBUTES_MAX, CUSTOM_ALL_ATTRIBUTES};
    uint32_t count = 0, n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        count += is_candidate(&g->nodes[i], false) || is_candidate(&g->nodes[i], true);
    count = count < CUSTOM_MAX_NODES ? count : CUSTOM_MAX_NODES;
    struct custom_node *nodes = pool_alloc(&g->pool, count, sizeof *nodes);
    if (!nodes)
        return error_no_memory(e, "custom operators", count * sizeof *nodes);
    int r = add_nodes(g, false, nodes, &room, &n, e);
    if (r == 0)
        r = add_nodes(g, true, nodes, &room, &n, e);
    if (r < 0)
        return r;
    *ret = nodes;
    *ret_n = n;
    return 0;
}

// ---- data --------------------------------------------------------------------------------------

static void custom_convert(const struct graph_tensor *to, void *dst,
                           const struct graph_tensor *from, const void *src)
{
    struct copy c;
    copy_init_whole(&c, to, from);
    copy_run(&c, dst, src);
}

// An input as it is exchanged, into the buffer that the program reads. Constants are not in the
// arena and are unpacked from the file.
static void put_input(const struct run *r, const struct step *s, uint32_t i, void *dst)
{
    const struct graph_tensor *t = step_input(s, i);
    struct graph_tensor x = custom_exchanged(t);
    if (!t->constant)
        custom_convert(&x, dst, t, run_input(s, r, i));
    else if (x.type == TENSOR_INT64)
        graph_tensor_unpack(t, dst);
    else
        elements_of_constant(t, dst);
}

static void take_output(const struct run *r, const struct step *s, uint32_t i, const void *src)
{
    const struct graph_tensor *t = step_output(s, i);
    struct graph_tensor x = custom_exchanged(t);
    custom_convert(t, run_output(s, r, i), &x, src);
}

// 1: the step's outputs are filled in; 0: nobody registered the operator, the step computes itself;
// negative: failed. begin() lends the exchange buffers: inputs, then outputs.
int sim_custom(void *custom, const struct run *r, const struct step *s, struct error *e)
{
    struct npu_custom *c = custom;
    const struct graph_node *n = s->node;
    void *const *tensors;
    if (!n->custom)
        return 0;
    int status = c->begin(c, n->custom - 1, &tensors, e);
    if (status <= 0)
        return status;
    for (uint32_t i = 0; i < n->n_inputs; i++)
        put_input(r, s, i, tensors[i]);
    status = c->compute(c, n->custom - 1, e);
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < n->n_outputs; i++)
        take_output(r, s, i, tensors[n->n_inputs + i]);
    return 1;
}
