// RotaryEmbedding of ONNX and of ONNX Runtime's domain: pairs of elements of each head are turned
// by angles of which the file has tables of cosines and sines, a line for each position:
//
//      a' = a cos - b sin,  b' = a sin + b cos
#include "npu/model/onnx/onnx_maker.h"

// Both elements of all pairs: [..., n] of [..., 2 n].
struct pairs {
    const char *a, *b;
};

// (a · cosines) op (b · sines)
static const char *turned(struct onnx_maker *m, const char *a, const char *cosines, const char *op,
                          const char *b, const char *sines)
{
    return onnx_step_two(m, op, onnx_step_two(m, "Mul", a, cosines, NULL),
                         onnx_step_two(m, "Mul", b, sines, NULL), NULL);
}

// Neighbours again: [..., n] twice as [..., n, 2] as [..., 2 n].
static const char *interleaved(struct onnx_maker *m, const struct pairs *p, const int64_t *dims,
                               uint32_t n_dims)
{
    int64_t each[GRAPH_MAX_DIMS + 1];
    if (n_dims == GRAPH_MAX_DIMS) {
        onnx_made_refuse(m, "its input has too many dimensions");
        return "";
    }
    memcpy(each, dims, n_dims * sizeof *dims);
    each[n_dims - 1] /= 2;
    each[n_dims] = 1;
    const char *both =
        onnx_step_joined(m, onnx_step_reshaped(m, p->a, each, n_dims + 1, NULL),
                         onnx_step_reshaped(m, p->b, each, n_dims + 1, NULL), n_dims, NULL);
    return onnx_step_reshaped(m, both, dims, n_dims, NULL);
}

// Elements behind the pairs stay as they are.
const char *onnx_turn_pairs(struct onnx_maker *m, const char *x, const char *cosines,
                            const char *sines, bool neighbours, const char *out)
{
    const struct graph_tensor *t = onnx_made_tensor(m, x), *c = onnx_made_tensor(m, cosines);
    if (!t || !c || !t->n_dims || !c->n_dims)
        return "";
    const uint32_t n_dims = t->n_dims, axis = n_dims - 1, size = t->dims[axis],
                   n = c->dims[c->n_dims - 1];
    int64_t dims[GRAPH_MAX_DIMS];
    for (uint32_t i = 0; i < n_dims; i++)
        dims[i] = i == axis ? 2 * (int64_t)n : t->dims[i];
    if (!n || 2 * (uint64_t)n > size) {
        onnx_made_refuse(m, "its tables of cosines do not fit its heads");
        return "";
    }
    const char *of = 2 * n < size ? onnx_step_sliced(m, x, axis, 0, 2 * (int64_t)n, 1) : x;
    const struct pairs in = {
        neighbours ? onnx_step_sliced(m, of, axis, 0, INT64_MAX, 2)
                   : onnx_step_sliced(m, of, axis, 0, n, 1),
        neighbours ? onnx_step_sliced(m, of, axis, 1, INT64_MAX, 2)
                   : onnx_step_sliced(m, of, axis, n, 2 * (int64_t)n, 1),
    };
    const struct pairs y = {turned(m, in.a, cosines, "Sub", in.b, sines),
                            turned(m, in.a, sines, "Add", in.b, cosines)};
    bool all = 2 * n == size;
    if (neighbours) {
        of = interleaved(m, &y, dims, n_dims);
        if (all)
            return onnx_step_one(m, "Identity", of, out);
    } else {
        of = onnx_step_joined(m, y.a, y.b, axis, all ? out : NULL);
    }
    return all ? of
               : onnx_step_joined(m, of, onnx_step_sliced(m, x, axis, 2 * (int64_t)n, size, 1),
                                  axis, out);
}

// The lines of a table that positions name, or the first n of its columns without positions.
static const char *lines_of(struct onnx_maker *m, const char *table, const char *positions)
{
    return positions ? onnx_step_two(m, "Gather", table, positions, NULL) : table;
}

// [batch, length, n] beside heads: in front of them where x is [batch, length, heads, size], behind
// them where it is [batch, heads, length, size].
static const char *beside_heads(struct onnx_maker *m, const char *table, bool in_front)
{
    const struct graph_tensor *t = onnx_made_tensor(m, table);
    if (!t || t->n_dims != 3) {
        onnx_made_refuse(m, "its tables or positions are not of as many dimensions as they should");
        return "";
    }
    const int64_t front[4] = {t->dims[0], t->dims[1], 1, t->dims[2]},
                  behind[4] = {t->dims[0], 1, t->dims[1], t->dims[2]};
    return onnx_step_reshaped(m, table, in_front ? front : behind, 4, NULL);
}

// x [batch, heads, length, size] or [batch, length, heads * size]; tables [batch, length, n].
// heads: 0, what the tables say of a head of 2 n elements.
static int rotate(struct onnx_maker *m, const char *cosines, const char *sines, int64_t heads)
{
    const char *x = onnx_made_input(m, 0);
    const struct graph_tensor *t = onnx_made_tensor(m, x), *c = onnx_made_tensor(m, cosines);
    bool neighbours = onnx_made_int(m, "interleaved", 0) != 0;
    if (!t || !c || (t->n_dims != 3 && t->n_dims != 4) || !c->n_dims) {
        onnx_made_refuse(m, "its input is not of three or four dimensions");
        return m->r;
    }
    if (t->n_dims == 4) {
        onnx_turn_pairs(m, x, beside_heads(m, cosines, false), beside_heads(m, sines, false),
                        neighbours, onnx_made_output(m, 0));
        return m->r;
    }
    const int64_t dims[3] = {t->dims[0], t->dims[1], t->dims[2]};
    int64_t size = heads ? dims[2] / heads : 2 * (int64_t)c->dims[c->n_dims - 1];
    if (heads < 0 || !size || dims[2] % size || (heads && dims[2] % heads)) {
        onnx_made_refuse(m, "its elements are not as many for each head");
        return m->r;
    }
    x = onnx_step_reshaped(m, x, (const int64_t[]){dims[0], dims[1], dims[2] / size, size}, 4,
                           NULL);
    x = onnx_turn_pairs(m, x, beside_heads(m, cosines, true), beside_heads(m, sines, true),
                        neighbours, NULL);
    onnx_step_reshaped(m, x, dims, 3, onnx_made_output(m, 0));
    return m->r;
}

// The tables say how many elements of a head are turned, and so must the attribute.
static void check_turned(struct onnx_maker *m, const char *table)
{
    const struct graph_tensor *t = onnx_made_tensor(m, table);
    int64_t said = onnx_made_int(m, "rotary_embedding_dim", 0);
    if (t && t->n_dims && said && said != 2 * (int64_t)t->dims[t->n_dims - 1])
        onnx_made_refuse(m, "its rotary_embedding_dim is not twice its tables' width");
}

// RotaryEmbedding(x, cosines, sines, positions) of operator set 23.
int onnx_make_rotary(struct onnx_maker *m)
{
    const char *positions = onnx_made_input(m, 3), *cosines = onnx_made_input(m, 1);
    const struct graph_tensor *x = onnx_made_tensor(m, onnx_made_input(m, 0));
    int64_t heads = onnx_made_int(m, "num_heads", 0);
    onnx_made_allow(m, "interleaved num_heads rotary_embedding_dim", 4);
    check_turned(m, cosines);
    if (x && x->n_dims == 3 && !heads)
        onnx_made_refuse(m, "of three dimensions, it needs num_heads");
    if (m->r < 0)
        return m->r;
    return rotate(m, lines_of(m, cosines, positions), lines_of(m, onnx_made_input(m, 2), positions),
                  heads);
}

// RotaryEmbedding(x, positions [batch, length] or the first one, cosines, sines).
int onnx_make_runtimes_rotary(struct onnx_maker *m)
{
    const char *x = onnx_made_input(m, 0), *positions = onnx_made_input(m, 1),
               *cosines = onnx_made_input(m, 2);
    const struct graph_tensor *t = onnx_made_tensor(m, x), *p = onnx_made_tensor(m, positions);
    onnx_made_allow(m, "interleaved num_heads rotary_embedding_dim scale is_packed_batching", 4);
    if (onnx_made_int(m, "is_packed_batching", 0) || onnx_made_float(m, "scale", 1) != 1)
        onnx_made_refuse(m, "is_packed_batching, and a scale, are not supported");
    check_turned(m, cosines);
    if (!t || !p || t->n_dims < 3)
        return m->r < 0 ? m->r : (onnx_made_refuse(m, "its input has too few dimensions"), m->r);
    const uint32_t batch = t->dims[0], length = t->dims[t->n_dims - 2];
    if (p->n_elems == 1 && p->n_dims < 2) {
        positions = onnx_step_two(m, "Add", positions, onnx_step_places(m, length), NULL);
        positions = onnx_step_reshaped(m, positions, (const int64_t[]){1, length}, 2, NULL);
    } else if (p->n_dims != 2 || p->dims[0] != batch || p->dims[1] != length) {
        onnx_made_refuse(m, "its positions are not one for each batch and place, or the first one");
    }
    if (m->r < 0)
        return m->r;
    return rotate(m, lines_of(m, cosines, positions), lines_of(m, onnx_made_input(m, 3), positions),
                  onnx_made_int(m, "num_heads", 0));
}
