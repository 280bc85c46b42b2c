// What lowerings of ONNX nodes share. A lowering function (ops/) reads the node's attributes and
// inputs, sets the shapes of its outputs and emits graph nodes:
//
//      onnx_int(), onnx_in() ...  ->  onnx_shape()  ->  onnx_emit_own() or onnx_emit_ref()
//
// Tensors and nodes are arrays that move when they grow: a pointer from onnx_in() is valid until
// the next tensor is made, one from onnx_emit() until the next node. One thread builds one graph.
#include "npu/model/onnx/onnx_lower.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "npu/model/onnx/onnx_names.h"

#define MAX_TENSORS (1u << 20)

int onnx_refuse(const struct onnx_lowering *l, struct error *e, const char *format, ...)
{
    char words[320];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return error_set(e, STATUS_MODEL_INVALID, "node %s (%s): %s", l->node->name, l->node->op,
                     words);
}

// ---- attributes ----

// The node's attribute of a name. A list of them is short.
static const struct onnx_attr *find(const struct onnx_lowering *l, const char *name)
{
    for (uint32_t i = 0; i < l->node->n_attrs; i++)
        if (strcmp(l->node->attrs[i].name, name) == 0)
            return &l->node->attrs[i];
    return NULL;
}

bool onnx_has_attr(const struct onnx_lowering *l, const char *name)
{
    return find(l, name) != NULL;
}

int64_t onnx_int(const struct onnx_lowering *l, const char *name, int64_t otherwise)
{
    const struct onnx_attr *a = find(l, name);
    return a ? a->i : otherwise;
}

float onnx_float(const struct onnx_lowering *l, const char *name, float otherwise)
{
    const struct onnx_attr *a = find(l, name);
    return a ? a->f : otherwise;
}

bool onnx_text_is(const struct onnx_lowering *l, const char *name, const char *value,
                  const char *otherwise)
{
    const struct onnx_attr *a = find(l, name);
    if (!a)
        return strcmp(value, otherwise) == 0;
    return a->s.size == strlen(value) && (!*value || memcmp(a->s.data, value, a->s.size) == 0);
}

struct bytes onnx_text(const struct onnx_lowering *l, const char *name)
{
    const struct onnx_attr *a = find(l, name);
    return a ? a->s : (struct bytes){0};
}

const struct onnx_list *onnx_texts(const struct onnx_lowering *l, const char *name)
{
    const struct onnx_attr *a = find(l, name);
    return a ? &a->strings : NULL;
}

// At most ONNX_MAX_SHAPE numbers, for which dst has room. Pads, strides and windows are multiplied
// by dimensions of up to 32 bits.
#define MOST_OF_LISTS ((int64_t)1 << 30)

int onnx_ints(const struct onnx_lowering *l, const char *name, int64_t *dst, uint32_t *ret_n,
              struct error *e)
{
    const struct onnx_attr *a = find(l, name);
    *ret_n = a ? a->ints.n : 0;
    if (*ret_n > ONNX_MAX_SHAPE)
        return onnx_refuse(l, e, "attribute %s has %u numbers", name, *ret_n);
    const bool far = strcmp(name, "starts") == 0 || strcmp(name, "ends") == 0; // which are cut off
    for (uint32_t i = 0; i < *ret_n && !far; i++)
        if (a->ints.items[i] < -MOST_OF_LISTS || a->ints.items[i] > MOST_OF_LISTS)
            return onnx_refuse(l, e, "attribute %s has %lld, which nothing can have", name,
                               (long long)a->ints.items[i]);
    for (uint32_t i = 0; i < *ret_n; i++)
        dst[i] = a->ints.items[i];
    return 0;
}

int onnx_floats(const struct onnx_lowering *l, const char *name, float *dst, uint32_t *ret_n,
                struct error *e)
{
    const struct onnx_attr *a = find(l, name);
    *ret_n = a ? (uint32_t)(a->floats.size / sizeof(float)) : 0;
    if (*ret_n > ONNX_MAX_SHAPE)
        return onnx_refuse(l, e, "attribute %s has %u numbers", name, *ret_n);
    if (*ret_n)
        memcpy(dst, a->floats.data, *ret_n * sizeof *dst);
    return 0;
}

// ---- inputs ----

const struct graph_tensor *onnx_in(const struct onnx_lowering *l, uint32_t i)
{
    return i < l->n_in && l->in[i] >= 0 ? &l->g->tensors[l->in[i]] : NULL;
}

// Shapes, axes and pads decide sizes of memory, which are fixed when a model is loaded: so they
// must be constants.
int onnx_in_ints(const struct onnx_lowering *l, uint32_t i, int64_t *dst, uint32_t *ret_n,
                 struct error *e)
{
    const struct graph_tensor *t = onnx_in(l, i);
    *ret_n = 0;
    if (!t)
        return 0;
    if (!t->constant)
        return onnx_refuse(l, e,
                           "its input %s is computed while running; only constants are supported "
                           "there",
                           t->name);
    int r = graph_tensor_ints(t, dst, ONNX_MAX_SHAPE, ret_n, e);
    return r < 0 ? error_prefix(e, "node %s (%s)", l->node->name, l->node->op) : 0;
}

int onnx_in_floats(const struct onnx_lowering *l, uint32_t i, float *dst, uint32_t *ret_n,
                   struct error *e)
{
    const struct graph_tensor *t = onnx_in(l, i);
    *ret_n = 0;
    if (!t)
        return 0;
    if (!t->constant || t->type != TENSOR_FLOAT32 || t->n_elems > ONNX_MAX_SHAPE)
        return onnx_refuse(l, e, "its input %s is not a constant of floats", t->name);
    graph_tensor_floats(t, dst);
    *ret_n = (uint32_t)t->n_elems;
    return 0;
}

int onnx_axis(const struct onnx_lowering *l, int64_t axis, uint32_t n, int64_t *ret,
              struct error *e)
{
    int64_t at = axis < 0 ? axis + n : axis;
    if (at < 0 || at >= n)
        return onnx_refuse(l, e, "axis %lld of a tensor of %u dimensions", (long long)axis, n);
    *ret = at;
    return 0;
}

// ---- tensors ----

// Images (4-D) that are computed are kept channels-last; constants stay as the file has them.
static int set_shape(const struct onnx_lowering *l, struct graph_tensor *t, enum tensor_type type,
                     uint32_t n_dims, const uint32_t *dims, struct error *e)
{
    if (n_dims > GRAPH_MAX_DIMS)
        return onnx_refuse(l, e, "its output has %u dimensions", n_dims);
    uint32_t copy[GRAPH_MAX_DIMS] = {0};
    memcpy(copy, dims, n_dims * sizeof *dims); // dims may be those of a tensor that moves
    t->type = type;
    t->n_dims = n_dims;
    memcpy(t->dims, copy, sizeof t->dims);
    t->channels_last = n_dims == 4 && !t->constant;
    int r = graph_tensor_measure(t, e);
    return r < 0 ? error_prefix(e, "node %s (%s)", l->node->name, l->node->op) : 0;
}

// An output that the node leaves out needs no shape.
int onnx_shape(struct onnx_lowering *l, uint32_t i, enum tensor_type type, uint32_t n_dims,
               const uint32_t *dims, struct error *e)
{
    if (i >= l->n_out || l->out[i] < 0)
        return 0;
    return set_shape(l, &l->g->tensors[l->out[i]], type, n_dims, dims, e);
}

int onnx_shape_like(struct onnx_lowering *l, uint32_t i, const struct graph_tensor *t,
                    struct error *e)
{
    return onnx_shape(l, i, t->type, t->n_dims, t->dims, e);
}

// Shapes are aligned at their last dimensions; a dimension of 1, or one that is missing, takes the
// others' size.
int onnx_shape_broadcast(struct onnx_lowering *l, enum tensor_type type, uint32_t n,
                         struct error *e)
{
    uint32_t dims[GRAPH_MAX_DIMS], n_dims = 0;
    for (uint32_t k = 0; k < n; k++)
        n_dims = onnx_in(l, k)->n_dims > n_dims ? onnx_in(l, k)->n_dims : n_dims;
    for (uint32_t i = 0; i < n_dims; i++) {
        dims[i] = 1;
        for (uint32_t k = 0; k < n; k++) {
            const struct graph_tensor *t = onnx_in(l, k);
            uint32_t missing = n_dims - t->n_dims, size = i < missing ? 1 : t->dims[i - missing];
            if (size != 1 && dims[i] != 1 && size != dims[i])
                return onnx_refuse(l, e, "its inputs have %u and %u elements in dimension %u",
                                   dims[i], size, i);
            dims[i] = size == 1 ? dims[i] : size;
        }
    }
    return onnx_shape(l, 0, type, n_dims, dims, e);
}

int32_t onnx_tensor_new(struct onnx_lowering *l, const char *name, struct error *e)
{
    struct graph *g = l->g;
    if (g->n_tensors == MAX_TENSORS ||
        !pool_reserve(&g->pool, g->tensors, g->n_tensors, l->room_tensors, g->n_tensors + 1))
        return error_no_memory(e, "the graph", 0);
    g->tensors[g->n_tensors] = (struct graph_tensor){.name = name, .arena_offset = GRAPH_NO_OFFSET};
    return (int32_t)g->n_tensors++;
}

// A tensor that no name of the file stands for; `dims` may be those of a tensor, which may move.
int32_t onnx_temporary(struct onnx_lowering *l, enum tensor_type type, uint32_t n_dims,
                       const uint32_t *dims, struct error *e)
{
    uint32_t copy[GRAPH_MAX_DIMS] = {0};
    memcpy(copy, dims, n_dims * sizeof *dims);
    int32_t t = onnx_tensor_new(l, l->node->name, e);
    int r = t < 0 ? t : set_shape(l, &l->g->tensors[t], type, n_dims, copy, e);
    return r < 0 ? r : t;
}

int32_t onnx_constant(struct onnx_lowering *l, enum tensor_type type, uint32_t n_dims,
                      const uint32_t *dims, const void *data, struct error *e)
{
    int32_t t = onnx_temporary(l, type, n_dims, dims, e);
    if (t < 0)
        return t;
    struct graph_tensor *c = &l->g->tensors[t];
    c->constant = true;
    c->channels_last = false;
    c->data = (struct bytes){data, c->size};
    return t;
}

int32_t onnx_reshaped(struct onnx_lowering *l, int32_t tensor, uint32_t n_dims,
                      const uint32_t *dims, struct error *e)
{
    const struct graph_tensor *t = &l->g->tensors[tensor];
    if (t->constant)
        return onnx_constant(l, t->type, n_dims, dims, t->data.data, e);
    int32_t y = onnx_temporary(l, t->type, n_dims, dims, e);
    if (y < 0)
        return y;
    return onnx_emit(l, GRAPH_RESHAPE, &tensor, 1, &y, 1, e) ? y : STATUS_MALLOC_FAIL;
}

int onnx_known(struct onnx_lowering *l, uint32_t i, const void *data, struct error *e)
{
    (void)e;
    if (i >= l->n_out || l->out[i] < 0)
        return 0;
    struct graph_tensor *t = &l->g->tensors[l->out[i]];
    t->constant = true;
    t->channels_last = false;
    t->data = (struct bytes){data, t->size};
    return 0;
}

// ---- nodes ----

// Indices in the pool; NULL: no memory.
static int32_t *copied(struct onnx_lowering *l, const int32_t *v, uint32_t n)
{
    int32_t *copy = pool_alloc(&l->g->pool, n, sizeof *copy);
    if (copy && n)
        memcpy(copy, v, n * sizeof *copy);
    return copy;
}

struct graph_node *onnx_emit(struct onnx_lowering *l, enum graph_op op, const int32_t *in,
                             uint32_t n_in, const int32_t *out, uint32_t n_out, struct error *e)
{
    struct graph *g = l->g;
    if (g->n_nodes == MAX_TENSORS ||
        !pool_reserve(&g->pool, g->nodes, g->n_nodes, l->room_nodes, g->n_nodes + 1)) {
        error_no_memory(e, "the graph", 0);
        return NULL;
    }
    struct graph_node *n = &g->nodes[g->n_nodes];
    *n = (struct graph_node){.op = op,
                             .name = l->node->name,
                             .type = l->node->op,
                             .n_inputs = n_in,
                             .n_outputs = n_out,
                             .inputs = copied(l, in, n_in),
                             .outputs = copied(l, out, n_out)};
    if (!n->inputs || !n->outputs) {
        error_no_memory(e, "the graph", 0);
        return NULL;
    }
    g->n_nodes++;
    return n;
}

struct graph_node *onnx_emit_own(struct onnx_lowering *l, enum graph_op op, uint32_t n_in,
                                 struct error *e)
{
    uint32_t n = n_in < l->n_in ? n_in : l->n_in;
    return onnx_emit(l, op, l->in, n, l->out, l->n_out, e);
}

int onnx_emit_ref(struct onnx_lowering *l, enum graph_ref_op op, uint32_t n_in, const int64_t *ints,
                  uint32_t n_ints, struct error *e)
{
    int64_t *copy = pool_alloc(&l->g->pool, n_ints, sizeof *copy);
    if (!copy)
        return error_no_memory(e, "the graph", 0);
    if (n_ints)
        memcpy(copy, ints, n_ints * sizeof *copy);
    struct graph_node *n = onnx_emit_own(l, GRAPH_REF, n_in, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->on_cpu = true;
    n->ref.op = op;
    n->ref.ints = copy;
    n->ref.n_ints = n_ints;
    return 0;
}

// The output becomes another name of `tensor`, without a node. Only an output of the model must be
// a tensor of its own: then a Reshape copies.
int onnx_same_as(struct onnx_lowering *l, uint32_t i, int32_t tensor, struct error *e)
{
    const struct graph_tensor *t = &l->g->tensors[tensor], *y = &l->g->tensors[l->out[i]];
    bool output = false;
    for (uint32_t k = 0; k < l->f->n_outputs; k++)
        output = output || strcmp(l->f->outputs[k].name, y->name) == 0;
    if (onnx_is_sequence(l, tensor)) // no node copies one
        return onnx_names_set(l->names, y->name, tensor, e);
    int r = onnx_shape_like(l, i, t, e);
    if (r < 0)
        return r;
    if (t->constant)
        return onnx_known(l, i, t->data.data, e);
    if (!output)
        return onnx_names_set(l->names, y->name, tensor, e);
    return onnx_emit(l, GRAPH_RESHAPE, &tensor, 1, &l->out[i], 1, e) ? 0 : STATUS_MALLOC_FAIL;
}

int onnx_same(struct onnx_lowering *l, int32_t tensor, struct error *e)
{
    return onnx_same_as(l, 0, tensor, e);
}
