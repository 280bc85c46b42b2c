// What functions share that take a node apart into the standard's operators (onnx_maker.h).
#include <stdio.h>

#include "base/bytes.h"
#include "npu/model/onnx/onnx_maker.h"
#include "npu/model/onnx/onnx_names.h"

const char *onnx_made_input(const struct onnx_maker *m, uint32_t i)
{
    return i < m->of->n_inputs && m->of->inputs[i][0] ? m->of->inputs[i] : NULL;
}

const char *onnx_made_output(const struct onnx_maker *m, uint32_t i)
{
    return i < m->of->n_outputs && m->of->outputs[i][0] ? m->of->outputs[i] : NULL;
}

// The first failure stays, with its words.
void onnx_made_fail(struct onnx_maker *m, int r)
{
    m->r = m->r < 0 ? m->r : r;
}

void onnx_made_refuse(struct onnx_maker *m, const char *words)
{
    m->l->node = m->of;
    if (m->r == 0)
        m->r = onnx_refuse(m->l, m->e, "%s", words);
}

bool onnx_has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; n && (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

void onnx_made_allow(struct onnx_maker *m, const char *attributes, uint32_t n_inputs)
{
    m->l->node = m->of;
    for (uint32_t i = 0; i < m->of->n_attrs && m->r == 0; i++)
        if (!onnx_has_word(attributes, m->of->attrs[i].name))
            m->r = onnx_refuse(m->l, m->e, "its attribute \"%s\" is not supported",
                               m->of->attrs[i].name);
    for (uint32_t i = n_inputs; i < m->of->n_inputs && m->r == 0; i++)
        if (m->of->inputs[i][0])
            m->r =
                onnx_refuse(m->l, m->e, "its input %u (%s) is not supported", i, m->of->inputs[i]);
}

const struct graph_tensor *onnx_made_tensor(struct onnx_maker *m, const char *name)
{
    int32_t t = name && m->r == 0 ? onnx_names_find(m->l->names, name) : -1;
    if (t < 0)
        onnx_made_refuse(m, "an input of it is missing");
    else
        onnx_made_fail(m, onnx_unpacked(m->l, t, m->e));
    return m->r < 0 ? NULL : &m->l->g->tensors[t];
}

// Names between steps begin with the node's first output, which is unique.
const char *onnx_made_name(struct onnx_maker *m)
{
    char text[300];
    const char *of = "";
    for (uint32_t i = 0; i < m->of->n_outputs && !of[0]; i++)
        of = m->of->outputs[i];
    int n = snprintf(text, sizeof text, "%.200s/step%u", of, m->n_steps++);
    const char *name = pool_text(&m->l->g->pool, (struct bytes){(const uint8_t *)text, (size_t)n});
    if (!name)
        onnx_made_fail(m, error_no_memory(m->e, "the graph", (size_t)n));
    return name ? name : "";
}

// Lowers an operator of the standard in place of a part of the node, unless a step before has
// failed.
static void step_lower(struct onnx_maker *m, const char *op,
                       const char *const in[ONNX_STEP_INPUTS + 1], const char *const *outs,
                       uint32_t n_outs, const struct onnx_attr *attrs, uint32_t n_attrs)
{
    struct pool *pool = &m->l->g->pool;
    struct onnx_node *n = pool_alloc(pool, 1, sizeof *n);
    const char **edges = pool_alloc(pool, ONNX_STEP_INPUTS + n_outs, sizeof *edges);
    struct onnx_attr *own = pool_alloc(pool, n_attrs + 1, sizeof *own);
    if (!n || !edges || !own) {
        onnx_made_fail(m, error_no_memory(m->e, "the graph", 0));
        return;
    }
    if (m->r < 0)
        return;
    *n = (struct onnx_node){.name = m->of->name,
                            .op = op,
                            .domain = "",
                            .overload = "",
                            .n_outputs = n_outs,
                            .n_attrs = n_attrs,
                            .inputs = edges,
                            .outputs = edges + ONNX_STEP_INPUTS,
                            .attrs = own};
    for (; in[n->n_inputs]; n->n_inputs++)
        n->inputs[n->n_inputs] = in[n->n_inputs];
    memcpy(n->outputs, outs, n_outs * sizeof *outs);
    if (n_attrs)
        memcpy(own, attrs, n_attrs * sizeof *own);
    int r = m->take(m->l, n, m->e);
    if (r < 0)
        onnx_made_fail(m, error_prefix(m->e, "as a part of %s", m->of->op));
}

const char *onnx_step(struct onnx_maker *m, const char *op,
                      const char *const in[ONNX_STEP_INPUTS + 1], const char *out,
                      const struct onnx_attr *attrs, uint32_t n_attrs)
{
    out = out ? out : onnx_made_name(m);
    step_lower(m, op, in, &out, 1, attrs, n_attrs);
    return out;
}

// A step with n outputs, which get names of their own.
void onnx_steps(struct onnx_maker *m, const char *op, const char *const in[ONNX_STEP_INPUTS + 1],
                const char **outs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        outs[i] = onnx_made_name(m);
    step_lower(m, op, in, outs, n, NULL, 0);
}

void *onnx_made_room(struct onnx_maker *m, uint64_t n, size_t size)
{
    void *room = NULL;
    uint64_t *folded = &m->l->folded;
    if (m->r == 0 && *folded <= ONNX_FOLDED_MAX && n <= (ONNX_FOLDED_MAX - *folded) / size) {
        *folded += n * size;
        room = pool_alloc(&m->l->g->pool, n, size);
        if (!room)
            onnx_made_fail(m, error_no_memory(m->e, "the graph", (size_t)n * size));
    }
    if (!room)
        onnx_made_refuse(m, "what is computed for it is too large");
    return room;
}

const char *onnx_step_places(struct onnx_maker *m, uint64_t n)
{
    int64_t *places = onnx_made_room(m, n, sizeof *places);
    for (uint64_t i = 0; places && i < n; i++)
        places[i] = (int64_t)i;
    return places ? onnx_step_ints(m, places, (uint32_t)n) : "";
}

const char *onnx_step_ints(struct onnx_maker *m, const int64_t *v, uint32_t n)
{
    struct onnx_attr a = {.name = "value_ints"};
    a.ints.items = pool_alloc(&m->l->g->pool, n, sizeof *v);
    a.ints.n = n;
    if (!a.ints.items)
        onnx_made_fail(m, error_no_memory(m->e, "the graph", 0));
    else
        memcpy(a.ints.items, v, n * sizeof *v);
    return onnx_step(m, "Constant", ONNX_IN(NULL), NULL, &a, 1);
}

const char *onnx_step_floats(struct onnx_maker *m, const float *v, uint32_t n_dims,
                             const uint32_t *dims)
{
    if (m->r < 0)
        return "";
    m->l->node = m->of;
    const char *name = onnx_made_name(m);
    int32_t t = onnx_constant(m->l, TENSOR_FLOAT32, n_dims, dims, v, m->e);
    onnx_made_fail(m, t < 0 || m->r < 0 ? t : onnx_names_set(m->l->names, name, t, m->e));
    return name;
}

// The number is stored behind the graph, since the constant points to it.
const char *onnx_step_like(struct onnx_maker *m, float v, const char *as)
{
    struct onnx_attr *a = pool_alloc(&m->l->g->pool, 1, sizeof *a); // the constant points into it
    if (!a) {
        onnx_made_fail(m, error_no_memory(m->e, "the graph", 0));
        return "";
    }
    *a = (struct onnx_attr){.name = "value_floats"};
    float *own = pool_alloc(&m->l->g->pool, 1, sizeof *own);
    if (!own) {
        onnx_made_fail(m, error_no_memory(m->e, "the graph", 0));
        return "";
    }
    *own = v;
    a->floats = (struct bytes){(const uint8_t *)own, sizeof *own};
    const char *c = onnx_step(m, "Constant", ONNX_IN(NULL), NULL, a, 1);
    return onnx_step(m, "CastLike", ONNX_IN(c, as), NULL, NULL, 0);
}

const char *onnx_step_one(struct onnx_maker *m, const char *op, const char *x, const char *out)
{
    return onnx_step(m, op, ONNX_IN(x), out, NULL, 0);
}

const char *onnx_step_two(struct onnx_maker *m, const char *op, const char *a, const char *b,
                          const char *out)
{
    return onnx_step(m, op, ONNX_IN(a, b), out, NULL, 0);
}

float onnx_made_float(const struct onnx_maker *m, const char *name, float otherwise)
{
    m->l->node = m->of;
    return onnx_float(m->l, name, otherwise);
}

int64_t onnx_made_int(const struct onnx_maker *m, const char *name, int64_t otherwise)
{
    m->l->node = m->of;
    return onnx_int(m->l, name, otherwise);
}

const char *onnx_step_reshaped(struct onnx_maker *m, const char *x, const int64_t *dims, uint32_t n,
                               const char *out)
{
    return onnx_step(m, "Reshape", ONNX_IN(x, onnx_step_ints(m, dims, n)), out, NULL, 0);
}

const char *onnx_step_transposed(struct onnx_maker *m, const char *x, const int64_t *perm,
                                 uint32_t n, const char *out)
{
    const struct onnx_attr a = {.name = "perm", .ints = {(int64_t *)(uintptr_t)perm, n, 0}};
    return onnx_step(m, "Transpose", ONNX_IN(x), out, &a, 1);
}

const char *onnx_step_sliced(struct onnx_maker *m, const char *x, int64_t axis, int64_t start,
                             int64_t end, int64_t step)
{
    return onnx_step(m, "Slice",
                     ONNX_IN(x, onnx_step_ints(m, &start, 1), onnx_step_ints(m, &end, 1),
                             onnx_step_ints(m, &axis, 1), onnx_step_ints(m, &step, 1)),
                     NULL, NULL, 0);
}

const char *onnx_step_cast(struct onnx_maker *m, const char *x, enum onnx_type type,
                           const char *out)
{
    const struct onnx_attr to = {.name = "to", .i = type};
    return onnx_step(m, "Cast", ONNX_IN(x), out, &to, 1);
}

const char *onnx_step_joined(struct onnx_maker *m, const char *a, const char *b, int64_t axis,
                             const char *out)
{
    const struct onnx_attr attr = {.name = "axis", .i = axis};
    return onnx_step(m, "Concat", ONNX_IN(a, b), out, &attr, 1);
}
