// Finds what is quantized, and makes the list of nodes with 8-bit numbers (onnx_qdq.h). ONNX files
// write a quantized model as float nodes between conversions:
//
//      x8 -> DequantizeLinear -> float node -> QuantizeLinear -> y8
//
// Each QuantizeLinear is taken as a request to have its input computed in int8 from int8 sources,
// which qdq_quantized() tries. Where it cannot, the float nodes stay. `source` maps a float tensor
// to the int8 tensor with the same values. Scales and roundings are those of ONNX Runtime.
#include "npu/model/onnx/onnx_qdq.h"

#include <stdlib.h>

#include "base/cleanup.h"

// ---- the new list ----

// Adds a node to the new list as it is.
static int append(struct qdq *q, const struct graph_node *n, struct error *e)
{
    if (!pool_reserve(&q->g->pool, q->nodes, q->n_nodes, q->room_nodes, q->n_nodes + 1))
        return error_no_memory(e, "the graph", 0);
    q->nodes[q->n_nodes++] = *n;
    return 0;
}

struct graph_node *qdq_emit(struct qdq *q, enum graph_op op, const struct graph_node *like,
                            const int32_t *in, uint32_t n_in, const int32_t *out, uint32_t n_out,
                            struct error *e)
{
    int32_t *edges = pool_alloc(&q->g->pool, (size_t)n_in + n_out, sizeof *edges);
    if (!edges) {
        error_no_memory(e, "the graph", 0);
        return NULL;
    }
    memcpy(edges, in, n_in * sizeof *in);
    memcpy(edges + n_in, out, n_out * sizeof *out);
    struct graph_node n = {.op = op,
                           .name = like->name,
                           .type = like->type,
                           .n_inputs = n_in,
                           .n_outputs = n_out,
                           .inputs = edges,
                           .outputs = edges + n_in};
    return append(q, &n, e) < 0 ? NULL : &q->nodes[q->n_nodes - 1];
}

// The tensor's elements are int8, whatever the type of `like`. onnx_qdq() has made room.
int32_t qdq_int8(struct qdq *q, int32_t like, struct qdq_form form, struct error *e)
{
    struct graph *g = q->g;
    if (g->n_tensors == q->room)
        return error_no_memory(e, "the graph", 0);
    struct graph_tensor *t = &g->tensors[g->n_tensors];
    *t = g->tensors[like];
    t->type = TENSOR_INT8;
    t->quantized = t->rounds_before_zp = true;
    t->scale = form.scale;
    t->zp = form.zp;
    t->counts_from_0 = form.counts_from_0;
    t->constant = false;
    int r = graph_tensor_measure(t, e);
    return r < 0 ? r : (int32_t)g->n_tensors++;
}

// A node that replaces each byte by table[byte]; the table is remembered, so that a product with
// the same tensor can be joined with it.
int qdq_emit_map(struct qdq *q, const struct graph_node *like, const int8_t *table, int32_t x,
                 int32_t y, struct error *e)
{
    int8_t *copy = pool_alloc(&q->g->pool, 256, 1);
    if (!copy)
        return error_no_memory(e, "the graph", 0);
    const int8_t *before = q->map[x];
    for (int i = 0; i < 256; i++)
        copy[i] = table[before ? (uint8_t)before[i] : i];
    x = before ? q->map_source[x] : x;
    struct graph_node *n = qdq_emit(q, GRAPH_MAP, like, &x, 1, &y, 1, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->map = copy;
    q->map[y] = copy;
    q->map_source[y] = x;
    return 0;
}

// ---- what is there ----

// int8, uint8 or int32.
int64_t qdq_whole_number(const struct graph_tensor *t, uint64_t i)
{
    if (t->type == TENSOR_INT32)
        return (int32_t)read_le32(t->data.data + 4 * i);
    return t->type == TENSOR_INT8 ? (int8_t)t->data.data[i] : t->data.data[i];
}

bool qdq_is_known(const struct graph_tensor *t)
{
    return t->constant && !t->unpack && t->data.data && t->n_elems;
}

// A linear search: there is one origin for each DequantizeLinear.
const struct onnx_origin *qdq_origin(const struct qdq *q, int32_t tensor)
{
    for (uint32_t i = 0; i < q->l->n_origins && tensor >= 0; i++)
        if (q->l->origins[i].tensor == tensor)
            return &q->l->origins[i];
    return NULL;
}

const struct graph_node *qdq_sole_source(const struct qdq *q, int32_t tensor)
{
    if (tensor < 0 || q->n_reads[tensor] != 1 || q->producer[tensor] < 0)
        return NULL;
    return &q->g->nodes[q->producer[tensor]];
}

// Scale and zero point of a QuantizeLinear or DequantizeLinear whose quantized side is of `type`;
// false: they are not 8-bit with one constant scale for the whole tensor. uint8 is shifted by 128.
static bool form_of(const struct graph *g, const struct graph_node *n, enum tensor_type type,
                    struct qdq_form *ret)
{
    const struct graph_tensor *scale = &g->tensors[n->inputs[1]];
    const struct graph_tensor *zp =
        n->n_inputs > 2 && n->inputs[2] >= 0 ? &g->tensors[n->inputs[2]] : NULL;
    if ((type != TENSOR_INT8 && type != TENSOR_UINT8) || !scale->constant || scale->n_elems != 1 ||
        scale->type != TENSOR_FLOAT32 || (zp && (!qdq_is_known(zp) || zp->type != type)))
        return false;
    graph_tensor_floats(scale, &ret->scale);
    ret->zp = zp ? (int32_t)qdq_whole_number(zp, 0) : 0;
    ret->counts_from_0 = type == TENSOR_UINT8;
    ret->zp -= ret->counts_from_0 ? 128 : 0;
    return ret->scale > 0;
}

// Who makes and who reads each tensor of the old list.
static void count(struct qdq *q)
{
    struct graph *g = q->g;
    for (size_t i = 0; i < q->room; i++) {
        q->producer[i] = q->source[i] = -1;
        q->reader[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_inputs; k++)
            if (n->inputs[k] >= 0) {
                q->n_reads[n->inputs[k]]++;
                q->reader[n->inputs[k]] = i;
            }
        for (uint32_t k = 0; k < n->n_outputs; k++)
            if (n->outputs[k] >= 0)
                q->producer[n->outputs[k]] = (int32_t)i;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++)
        q->n_reads[g->outputs[i]]++;
}

// ---- QuantizeLinear and DequantizeLinear ----

static bool is_ref(const struct graph_node *n, enum graph_ref_op op)
{
    return n->op == GRAPH_REF && n->ref.op == op;
}

// Between the numbers of the file and those of an int8 tensor, both ways: for uint8 the top bit
// changes, which is the shift by 128; int8 is copied.
int qdq_emit_as_stored(struct qdq *q, const struct graph_node *like, int32_t x, int32_t y,
                       struct error *e)
{
    const struct graph_tensor *a = &q->g->tensors[x], *b = &q->g->tensors[y];
    bool moved = a->type == TENSOR_UINT8 || b->type == TENSOR_UINT8;
    int8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = (int8_t)(moved ? i ^ 0x80 : i);
    return qdq_emit_map(q, like, table, x, y, e);
}

// The only node that reads a tensor; NULL: several, none, or an output of the model.
static const struct graph_node *sole_reader(const struct qdq *q, int32_t tensor)
{
    bool sole = tensor >= 0 && q->n_reads[tensor] == 1 && q->reader[tensor] != UINT32_MAX;
    return sole ? &q->g->nodes[q->reader[tensor]] : NULL;
}

// ONNX Runtime makes signed numbers unsigned where one node reads them.
static bool becomes_unsigned(const struct qdq *q, int32_t stored)
{
    const struct graph_node *n = sole_reader(q, stored);
    return n && is_ref(n, REF_OP_DEQUANTIZE) && q->n_reads[n->outputs[0]] == 1;
}

// x8 = quantized x. Either x can be computed in int8, or a QUANTIZE node converts it. The file's
// own tensor is made from the int8 one, and dropped later if nobody reads it.
static int take_quantize(struct qdq *q, const struct graph_node *n, struct error *e)
{
    int32_t x = n->inputs[0], y = n->outputs[0], int8 = -1;
    struct qdq_form form;
    if (q->g->tensors[x].type != TENSOR_FLOAT32 || !form_of(q->g, n, q->g->tensors[y].type, &form))
        return append(q, n, e);
    form.counts_from_0 = form.counts_from_0 || becomes_unsigned(q, y);
    int r = qdq_quantized(q, x, form, &int8, e);
    if (r == 0) {
        int8 = qdq_int8(q, y, form, e);
        r = int8 < 0                                             ? int8
            : qdq_emit(q, GRAPH_QUANTIZE, n, &x, 1, &int8, 1, e) ? 0
                                                                 : STATUS_MALLOC_FAIL;
    }
    if (r < 0)
        return r;
    q->source[y] = int8;
    return qdq_emit_as_stored(q, n, int8, y, e);
}

// The float tensor gets a CONVERT node, and `source` so that int8 nodes can do without it.
static int take_dequantize(struct qdq *q, const struct graph_node *n, struct error *e)
{
    int32_t x = n->inputs[0], y = n->outputs[0], int8 = q->source[x];
    struct qdq_form form;
    if (q->g->tensors[y].type != TENSOR_FLOAT32 || !form_of(q->g, n, q->g->tensors[x].type, &form))
        return append(q, n, e);
    if (int8 < 0 || !qdq_same_form(qdq_form_of(q, int8), form)) {
        int8 = qdq_int8(q, x, form, e);
        int r = int8 < 0 ? int8 : qdq_emit_as_stored(q, n, x, int8, e);
        if (r < 0)
            return r;
    }
    q->source[y] = int8;
    return qdq_emit(q, GRAPH_CONVERT, n, &int8, 1, &y, 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

// ---- all nodes ----

// Whether the node's result is quantized after activations at most: then take_quantize() handles
// the node.
static bool is_quantized_next(const struct qdq *q, const struct graph_node *n)
{
    do
        n = sole_reader(q, n->outputs[0]);
    while (n && n->op == GRAPH_UNARY);
    return n && is_ref(n, REF_OP_QUANTIZE);
}

// Conversions, moves of elements (which stay int8), products that stay real, and all else as it is.
static int take_node(struct qdq *q, const struct graph_node *n, struct error *e)
{
    if (is_ref(n, REF_OP_QUANTIZE))
        return take_quantize(q, n, e);
    if (is_ref(n, REF_OP_DEQUANTIZE))
        return take_dequantize(q, n, e);
    int r = qdq_moved(q, n, e);
    if (r == 0 && n->op == GRAPH_MAT_MUL && !is_quantized_next(q, n))
        r = qdq_real_product(q, n, e);
    return r == 0 ? append(q, n, e) : r < 0 ? r : 0;
}

static int take_all(struct qdq *q, struct error *e)
{
    struct graph *g = q->g;
    int r = 0;
    count(q);
    for (uint32_t i = 0; i < g->n_nodes && r >= 0; i++)
        r = take_node(q, &g->nodes[i], e);
    if (r < 0)
        return r;
    g->nodes = q->nodes;
    g->n_nodes = q->n_nodes;
    return 0;
}

// New tensors: one for each input and output, and what products and moves need.
static size_t room_for(const struct graph *g)
{
    size_t room = g->n_tensors;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        room += (size_t)g->nodes[i].n_inputs + g->nodes[i].n_outputs + 16;
    return room;
}

// Nothing to do without a DequantizeLinear. The arrays have room for all tensors that may be added.
int onnx_qdq(struct onnx_lowering *l, struct error *e)
{
    if (!l->n_origins)
        return 0;
    size_t room = room_for(l->g);
    cleanup(free_p) int32_t *indices = calloc(room, 3 * sizeof *indices);
    cleanup(free_p) uint32_t *counts = calloc(room, 2 * sizeof *counts);
    cleanup(free_p) const int8_t **map = calloc(room, sizeof *map);
    if (!indices || !counts || !map)
        return error_no_memory(e, "the graph", 0);
    struct qdq q = {.l = l,
                    .g = l->g,
                    .room = room,
                    .producer = indices,
                    .source = indices + room,
                    .map_source = indices + 2 * room,
                    .n_reads = counts,
                    .reader = counts + room,
                    .map = map};
    int r = graph_make_room(l->g, room, e);
    return r < 0 ? r : take_all(&q, e);
}
