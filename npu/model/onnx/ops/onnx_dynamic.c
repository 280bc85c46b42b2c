// Operators whose operands are looked at when they are lowered, at load or in a run (onnx_late.c):
// what they give is as large as their values say, and known at once.
//
//      NonZero             places of what is not 0              [rank, found]
//      Compress            the slices that a list of truths chooses
//      NonMaxSuppression   batch, class and box of what is kept  [kept, 3]
//
// And DynamicQuantizeLSTM of ONNX Runtime's domain.
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/onnx/onnx_lower.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define MOST_COMPARED ((uint64_t)1 << 20)
#else
#define MOST_COMPARED ((uint64_t)1 << 36) // pairs of boxes
#endif

// int64 in the pool, counted with what was computed. NULL: no memory, or too many.
static int64_t *result_new(struct onnx_lowering *l, uint64_t n)
{
    l->folded += n * sizeof(int64_t);
    return l->folded > ONNX_FOLDED_MAX ? NULL : pool_alloc(&l->g->pool, n, sizeof(int64_t));
}

// ---- NonZero ----

static bool is_zero(const struct graph_tensor *t, uint64_t i)
{
    size_t size = tensor_type_size(t->type);
    const uint8_t *at = t->data.data + i * size;
    uint8_t any = 0;
    for (size_t k = 0; k < size; k++) // a float's sign counts for nothing
        any |= k + 1 == size && onnx_is_float(t->type) ? at[k] & 0x7f : at[k];
    return !any;
}

int onnx_lower_non_zero(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor x = *onnx_in(l, 0);
    uint32_t rank = x.n_dims ? x.n_dims : 1, dims[2] = {rank, 0};
    if (!x.constant)
        return onnx_refuse(l, e, "how many it finds is known only in a run");
    for (uint64_t i = 0; i < x.n_elems; i++)
        dims[1] += !is_zero(&x, i);
    int64_t *found = result_new(l, (uint64_t)rank * dims[1]);
    if (!found)
        return error_no_memory(e, "a constant", (uint64_t)rank * dims[1] * sizeof *found);
    for (uint64_t i = 0, k = 0; i < x.n_elems; i++) {
        uint64_t left = i;
        if (is_zero(&x, i))
            continue;
        for (uint32_t d = rank; d-- > 0; left /= x.n_dims ? x.dims[d] : 1)
            found[(uint64_t)d * dims[1] + k] = x.n_dims ? (int64_t)(left % x.dims[d]) : 0;
        k++;
    }
    int r = onnx_shape(l, 0, TENSOR_INT64, 2, dims, e);
    return r < 0 ? r : onnx_known(l, 0, found, e);
}

// ---- Compress ----

// Without an axis of all elements in a row.
static int flatten_input(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    if (x->n_elems > UINT32_MAX)
        return onnx_refuse(l, e, "its input is too large");
    const uint32_t dim = (uint32_t)x->n_elems;
    l->in[0] = onnx_reshaped(l, l->in[0], 1, &dim, e);
    return l->in[0] < 0 ? l->in[0] : 0;
}

// A Gather of the chosen places.
int onnx_lower_compress(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor chosen = *onnx_in(l, 1);
    int64_t axis = 0;
    uint32_t n = 0, dims[GRAPH_MAX_DIMS];
    int r = onnx_has_attr(l, "axis")
                ? onnx_axis(l, onnx_int(l, "axis", 0), onnx_in(l, 0)->n_dims, &axis, e)
                : flatten_input(l, e);
    if (r < 0)
        return r;
    const struct graph_tensor x = *onnx_in(l, 0);
    if (!chosen.constant || chosen.type != TENSOR_BOOL || chosen.n_dims != 1 ||
        chosen.n_elems > x.dims[axis])
        return onnx_refuse(l, e, "its condition is no list of truths that are known, at most %u",
                           x.dims[axis]);
    int64_t *places = result_new(l, chosen.n_elems);
    if (!places)
        return error_no_memory(e, "a constant", chosen.n_elems * sizeof *places);
    for (uint32_t i = 0; i < chosen.n_elems; i++)
        if (chosen.data.data[i])
            places[n++] = i;
    l->in[1] = onnx_constant(l, TENSOR_INT64, 1, &n, places, e);
    memcpy(dims, x.dims, sizeof dims);
    dims[axis] = n;
    r = l->in[1] < 0 ? l->in[1] : onnx_shape(l, 0, x.type, x.n_dims, dims, e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_GATHER, 2, &axis, 1, e);
}

// ---- NonMaxSuppression ----

struct candidate {
    float score;
    uint32_t box;
};

struct suppression {
    const float *boxes; // of the batch, four numbers each
    bool centred;       // x, y, width and height, not two corners
    int64_t most;       // of each class
    float overlap, score;
};

// The better one first; of equals the one that comes first.
static int by_score(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->box < y->box ? -1 : x->box > y->box;
}

// Least and largest of one of its two directions.
static void edge_of(const struct suppression *s, uint32_t box, int direction, float *low,
                    float *high)
{
    const float *v = s->boxes + 4 * (size_t)box, a = v[direction], b = v[direction + 2];
    *low = s->centred ? a - b / 2 : a < b ? a : b;
    *high = s->centred ? a + b / 2 : a < b ? b : a;
}

// Whether what both boxes share is more than `overlap` of what they cover together.
static bool boxes_overlap(const struct suppression *s, uint32_t a, uint32_t b)
{
    float shared = 1, area_a = 1, area_b = 1;
    for (int direction = 0; direction < 2; direction++) {
        float a_low, a_high, b_low, b_high;
        edge_of(s, a, direction, &a_low, &a_high);
        edge_of(s, b, direction, &b_low, &b_high);
        float low = a_low > b_low ? a_low : b_low, high = a_high < b_high ? a_high : b_high;
        shared *= high > low ? high - low : 0;
        area_a *= a_high - a_low;
        area_b *= b_high - b_low;
    }
    float whole = area_a + area_b - shared;
    return shared > 0 && area_a > 0 && area_b > 0 && whole > 0 && shared / whole > s->overlap;
}

// Of one class: what is kept, at the beginning of `all`.
static uint32_t keep_best(const struct suppression *s, const float *scores, uint32_t n,
                          struct candidate *all)
{
    uint32_t n_all = 0, kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (scores[i] > s->score)
            all[n_all++] = (struct candidate){scores[i], i};
    qsort(all, n_all, sizeof *all, by_score);
    for (uint32_t i = 0; i < n_all && kept < s->most; i++) {
        bool free = true;
        for (uint32_t k = 0; k < kept && free; k++)
            free = !boxes_overlap(s, all[i].box, all[k].box);
        if (free)
            all[kept++] = all[i];
    }
    return kept;
}

// Limits are single numbers: none kept without the first one, no limit of scores without the last.
static int take_limits(const struct onnx_lowering *l, struct suppression *s, struct error *e)
{
    int64_t most[ONNX_MAX_SHAPE] = {0};
    float real[2][ONNX_MAX_SHAPE] = {{0}, {-INFINITY}};
    uint32_t n[3] = {0};
    int r = onnx_in_ints(l, 2, most, &n[0], e);
    for (uint32_t i = 0; i < 2 && r == 0; i++)
        r = onnx_in_floats(l, 3 + i, real[i], &n[1 + i], e);
    if (r < 0)
        return r;
    if (n[0] > 1 || n[1] > 1 || n[2] > 1)
        return onnx_refuse(l, e, "its limits are no single numbers");
    s->most = most[0];
    s->overlap = real[0][0];
    s->score = real[1][0];
    s->centred = onnx_int(l, "center_point_box", 0);
    return 0;
}

// What is kept of all batches and classes; places take three numbers for each.
static uint32_t suppress_all(struct suppression *s, const float *boxes, const float *scores,
                             const uint32_t dims[3], struct candidate *all, int64_t *places)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < dims[0]; b++) {
        s->boxes = boxes + (size_t)4 * dims[2] * b;
        for (uint32_t c = 0; c < dims[1]; c++) {
            uint32_t kept =
                keep_best(s, scores + ((size_t)b * dims[1] + c) * dims[2], dims[2], all);
            for (uint32_t i = 0; i < kept; i++, n++) {
                const int64_t place[3] = {b, c, all[i].box};
                memcpy(places + (size_t)3 * n, place, sizeof place);
            }
        }
    }
    return n;
}

int onnx_lower_non_max_suppression(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *boxes = onnx_in(l, 0), *scores = onnx_in(l, 1);
    struct suppression s;
    if (!boxes->constant || !scores->constant)
        return onnx_refuse(l, e, "how many boxes it keeps is known only in a run");
    if (boxes->type != TENSOR_FLOAT32 || scores->type != TENSOR_FLOAT32 || boxes->n_dims != 3 ||
        scores->n_dims != 3 || boxes->dims[0] != scores->dims[0] || boxes->dims[2] != 4 ||
        boxes->dims[1] != scores->dims[2])
        return onnx_refuse(l, e, "its boxes and scores do not fit together");
    int r = take_limits(l, &s, e);
    if (r < 0)
        return r;
    const uint32_t *d = scores->dims;
    uint64_t most = s.most < 0 ? 0 : s.most < d[2] ? (uint64_t)s.most : d[2];
    uint64_t classes = (uint64_t)d[0] * d[1];
    if (most && classes && most * d[2] > MOST_COMPARED / classes)
        return onnx_refuse(l, e, "it compares too many boxes");
    cleanup(free_p) float *b = calloc(boxes->n_elems + 1, sizeof *b);
    cleanup(free_p) float *v = calloc(scores->n_elems + 1, sizeof *v);
    cleanup(free_p) struct candidate *all = calloc((size_t)d[2] + 1, sizeof *all);
    int64_t *places = result_new(l, 3 * most * classes);
    if (!b || !v || !all || !places)
        return error_no_memory(e, "boxes", 3 * most * classes * sizeof *places);
    graph_tensor_floats(boxes, b);
    graph_tensor_floats(scores, v);
    const uint32_t dims[2] = {suppress_all(&s, b, v, d, all, places), 3};
    r = onnx_shape(l, 0, TENSOR_INT64, 2, dims, e);
    return r < 0 ? r : onnx_known(l, 0, places, e);
}

// ---- DynamicQuantizeLSTM ----

// Its weights [directions, inputs, gates · hidden] in 8 bits as those of an LSTM, [directions,
// gates · hidden, inputs] in floats: each has one scale and zero point for a direction or for a
// row.
static int take_weights(struct onnx_lowering *l, uint32_t i, uint32_t i_scale, struct error *e)
{
    const struct graph_tensor *q = onnx_in(l, i), *scale = onnx_in(l, i_scale),
                              *zp = onnx_in(l, i_scale + 1);
    bool known =
        q->constant && scale && zp && scale->constant && zp->constant && q->n_dims == 3 &&
        (q->type == TENSOR_INT8 || q->type == TENSOR_UINT8) && zp->type == q->type &&
        scale->type == TENSOR_FLOAT32 && zp->n_elems == scale->n_elems &&
        (scale->n_elems == q->dims[0] || scale->n_elems == (uint64_t)q->dims[0] * q->dims[2]);
    if (!known)
        return onnx_refuse(l, e, "its weights are no constants of 8 bits with scales");
    const uint32_t dims[3] = {q->dims[0], q->dims[2], q->dims[1]};
    uint64_t each = scale->n_elems / dims[0];
    l->folded += q->n_elems * sizeof(float);
    float *w = l->folded > ONNX_FOLDED_MAX ? NULL : pool_alloc(&l->g->pool, q->n_elems, sizeof *w);
    if (!w)
        return error_no_memory(e, "a constant", q->n_elems * sizeof *w);
    for (uint64_t k = 0; k < q->n_elems; k++) {
        uint64_t column = k % dims[2], row = k / dims[2] % dims[1], d = k / dims[2] / dims[1];
        uint64_t of = each == 1 ? d : d * dims[1] + row;
        uint8_t value = q->data.data[(d * dims[2] + column) * dims[1] + row],
                zero = zp->data.data[of];
        float step;
        memcpy(&step, scale->data.data + of * sizeof step, sizeof step);
        w[k] = step * (float)(q->type == TENSOR_INT8 ? (int8_t)value - (int8_t)zero : value - zero);
    }
    l->in[i] = onnx_constant(l, TENSOR_FLOAT32, 3, dims, w, e);
    return l->in[i] < 0 ? l->in[i] : 0;
}

static int emit_one(struct onnx_lowering *l, enum graph_ref_op op, const int32_t *in, uint32_t n_in,
                    const int32_t *out, uint32_t n_out, struct error *e)
{
    static const int64_t axis = 0;
    struct graph_node *n = onnx_emit(l, GRAPH_REF, in, n_in, out, n_out, e);
    if (!n)
        return STATUS_MALLOC_FAIL;
    n->on_cpu = true;
    n->ref.op = op;
    n->ref.ints = &axis;
    n->ref.n_ints = 1;
    return 0;
}

// The inputs of all steps are quantized together, as ONNX Runtime has it.
static int round_inputs(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor x = *onnx_in(l, 0);
    int32_t q = onnx_temporary(l, TENSOR_UINT8, x.n_dims, x.dims, e);
    int32_t scale = onnx_temporary(l, TENSOR_FLOAT32, 0, x.dims, e);
    int32_t zp = onnx_temporary(l, TENSOR_UINT8, 0, x.dims, e);
    int32_t y = onnx_temporary(l, TENSOR_FLOAT32, x.n_dims, x.dims, e);
    const int32_t all[3] = {q, scale, zp};
    if (q < 0 || scale < 0 || zp < 0 || y < 0)
        return STATUS_MALLOC_FAIL;
    int r = emit_one(l, REF_OP_DYNAMIC_QUANTIZE, l->in, 1, all, 3, e);
    if (r == 0)
        r = emit_one(l, REF_OP_DEQUANTIZE, all, 3, &y, 1, e);
    l->in[0] = y;
    return r;
}

int onnx_lower_dynamic_lstm(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    if (x->type != TENSOR_FLOAT32 || x->n_dims != 3 || x->dims[1] != 1 || l->n_in != 12)
        return onnx_refuse(l, e, "batches of one in floats are supported, with scales of weights");
    int r = take_weights(l, 1, 8, e);
    if (r == 0)
        r = take_weights(l, 2, 10, e);
    if (r == 0)
        r = round_inputs(l, e);
    l->n_in = 8;
    while (l->n_in && l->in[l->n_in - 1] < 0)
        l->n_in--;
    return r < 0 ? r : onnx_lower_recurrent(l, e);
}
