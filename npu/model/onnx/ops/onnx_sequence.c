// Sequences of tensors, which exporters write for lists and for torch.split(). How long they are
// and what is where is known when a model is loaded, so nothing is left of them: a name stands for
// a list of tensors here, and reading an element is a name for it.
//
//      SplitToSequence, SequenceConstruct, SequenceEmpty     make one
//      SequenceInsert, SequenceErase                         make another one of one
//      SequenceAt, SequenceLength, ConcatFromSequence        read
//
// The list's own tensor is in no node. An operator that knows no sequences never sees one
// (onnx_check_sequences).
#include <stdio.h>

#include "npu/model/onnx/onnx_lower.h"

struct onnx_sequence {
    int32_t tensor; // that stands for it
    const int32_t *items;
    uint32_t n;
};

static const struct onnx_sequence *sequence_of(const struct onnx_lowering *l, int32_t tensor)
{
    for (uint32_t i = l->n_sequences; i-- > 0;)
        if (l->sequences[i].tensor == tensor)
            return &l->sequences[i];
    return NULL;
}

bool onnx_is_sequence(const struct onnx_lowering *l, int32_t tensor)
{
    return sequence_of(l, tensor) != NULL;
}

int onnx_check_sequences(const struct onnx_lowering *l, struct error *e)
{
    bool knows = strstr(l->operator->name, "Sequence") || strstr(l->operator->name, "Optional") ||
                 l->operator->lower == onnx_lower_loop;
    for (uint32_t i = 0; i < l->n_in; i++) {
        bool takes = knows || (l->operator->lower == onnx_lower_identity);
        if (!takes && l->in[i] >= 0 && onnx_is_sequence(l, l->in[i]))
            return onnx_refuse(l, e,
                               "its input %u is a sequence of tensors: only operators of "
                               "sequences, Identity and Loop take one",
                               i);
    }
    return 0;
}

// The node's output 0 stands for these tensors.
static int sequence_make(struct onnx_lowering *l, const int32_t *items, uint32_t n, struct error *e)
{
    int32_t *copy = pool_alloc(&l->g->pool, n, sizeof *copy);
    if (n > ONNX_MAX_EDGES)
        return onnx_refuse(l, e, "a sequence of more than %d tensors", ONNX_MAX_EDGES);
    if (!copy || !pool_reserve(&l->g->pool, l->sequences, l->n_sequences, l->room_sequences,
                               l->n_sequences + 1))
        return error_no_memory(e, "a sequence", n * sizeof *copy);
    if (n)
        memcpy(copy, items, n * sizeof *copy);
    l->sequences[l->n_sequences++] = (struct onnx_sequence){l->out[0], copy, n};
    return onnx_shape(l, 0, TENSOR_FLOAT32, 0, (const uint32_t[1]){0}, e);
}

// Input i, which must be a sequence.
static int take_sequence(const struct onnx_lowering *l, uint32_t i, struct onnx_sequence *ret,
                         struct error *e)
{
    const struct onnx_sequence *s = i < l->n_in && l->in[i] >= 0 ? sequence_of(l, l->in[i]) : NULL;
    if (!s)
        return onnx_refuse(l, e, "its input %u is no sequence of tensors that the model makes", i);
    *ret = *s;
    return 0;
}

// Input i, which must be a tensor.
static int take_tensor(const struct onnx_lowering *l, uint32_t i, struct error *e)
{
    if (!onnx_in(l, i) || onnx_is_sequence(l, l->in[i]))
        return onnx_refuse(l, e, "its input %u is no tensor", i);
    return 0;
}

// A place of `n`, of input i, counted from the end when negative; `otherwise` where it is left out.
static int take_place(const struct onnx_lowering *l, uint32_t i, uint32_t n, int64_t otherwise,
                      int64_t *ret, struct error *e)
{
    int64_t v[ONNX_MAX_SHAPE];
    uint32_t found;
    int r = onnx_in_ints(l, i, v, &found, e);
    if (r < 0)
        return r;
    int64_t at = found ? v[0] : otherwise;
    at += at < 0 ? n : 0;
    if (found > 1 || at < 0 || at >= n)
        return onnx_refuse(l, e, "place %lld of a sequence of %u", (long long)(found ? v[0] : at),
                           n);
    *ret = at;
    return 0;
}

// SequenceEmpty is one of no tensors.
int onnx_lower_sequence_construct(struct onnx_lowering *l, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < l->n_in && r == 0; i++)
        r = take_tensor(l, i, e);
    return r < 0 ? r : sequence_make(l, l->in, l->n_in, e);
}

// The tensor is in front of the one that was at that place.
int onnx_lower_sequence_insert(struct onnx_lowering *l, struct error *e)
{
    struct onnx_sequence s = {0};
    int64_t at = 0;
    int32_t items[ONNX_MAX_EDGES + 1];
    int r = take_sequence(l, 0, &s, e);
    if (r == 0)
        r = take_tensor(l, 1, e);
    if (r == 0 && onnx_in(l, 2)) { // -1 is in front of the last one
        int64_t v[ONNX_MAX_SHAPE];
        uint32_t found;
        r = onnx_in_ints(l, 2, v, &found, e);
        at = r == 0 && found == 1 ? v[0] + (v[0] < 0 ? s.n : 0) : -1;
        if (r == 0 && (at < 0 || at > s.n))
            return onnx_refuse(l, e, "its place is not in a sequence of %u", s.n);
    } else {
        at = s.n;
    }
    if (r < 0)
        return r;
    memcpy(items, s.items, (size_t)at * sizeof *items);
    items[at] = l->in[1];
    memcpy(items + at + 1, s.items + at, (s.n - (size_t)at) * sizeof *items);
    return sequence_make(l, items, s.n + 1, e);
}

// The last one where no place is said.
int onnx_lower_sequence_erase(struct onnx_lowering *l, struct error *e)
{
    struct onnx_sequence s = {0};
    int64_t at = 0;
    int32_t items[ONNX_MAX_EDGES];
    int r = take_sequence(l, 0, &s, e);
    if (r == 0)
        r = take_place(l, 1, s.n, (int64_t)s.n - 1, &at, e);
    if (r < 0)
        return r;
    memcpy(items, s.items, (size_t)at * sizeof *items);
    memcpy(items + at, s.items + at + 1, (s.n - (size_t)at - 1) * sizeof *items);
    return sequence_make(l, items, s.n - 1, e);
}

// Another name for the element.
int onnx_lower_sequence_at(struct onnx_lowering *l, struct error *e)
{
    struct onnx_sequence s = {0};
    int64_t at = 0;
    int r = take_sequence(l, 0, &s, e);
    if (r == 0)
        r = take_place(l, 1, s.n, 0, &at, e);
    return r < 0 ? r : onnx_same(l, s.items[at], e);
}

int onnx_lower_sequence_length(struct onnx_lowering *l, struct error *e)
{
    struct onnx_sequence s = {0};
    uint8_t *n = pool_alloc(&l->g->pool, 1, sizeof(int64_t));
    int r = n ? take_sequence(l, 0, &s, e) : error_no_memory(e, "a sequence", sizeof(int64_t));
    if (r < 0)
        return r;
    write_le64(n, s.n);
    r = onnx_shape(l, 0, TENSOR_INT64, 0, (const uint32_t[1]){0}, e);
    return r < 0 ? r : onnx_known(l, 0, n, e);
}

// As Concat, or along an axis that the elements do not have.
int onnx_lower_concat_from_sequence(struct onnx_lowering *l, struct error *e)
{
    struct onnx_sequence s = {0};
    int r = take_sequence(l, 0, &s, e);
    if (r == 0 && !s.n)
        return onnx_refuse(l, e, "its sequence is empty");
    if (r < 0)
        return r;
    if (onnx_int(l, "new_axis", 0)) {
        memcpy(l->in, s.items, s.n * sizeof *l->in);
        return onnx_stack(l, 0, l->in, s.n, onnx_int(l, "axis", 0), false, e);
    }
    memcpy(l->in, s.items, s.n * sizeof *l->in);
    l->n_in = s.n;
    return onnx_lower_concat(l, e);
}

// ---- SplitToSequence ----

// The sizes of parts of `whole` elements: a list, or one size for all but the last.
static int take_sizes(const struct onnx_lowering *l, uint32_t whole, uint32_t *sizes,
                      uint32_t *ret_n, struct error *e)
{
    int64_t v[ONNX_MAX_SHAPE] = {1}, sum = 0;
    uint32_t found = 0, n = 0;
    const struct graph_tensor *split = onnx_in(l, 1);
    int r = onnx_in_ints(l, 1, v, &found, e);
    if (r < 0)
        return r;
    bool list = split && split->n_dims == 1;
    for (uint32_t i = 0; list ? i < found : sum < whole; i++) {
        int64_t size = list ? v[i] : v[0];
        size = !list && size > whole - sum ? whole - sum : size;
        if (size < (list ? 0 : 1) || size > whole - sum || n == ONNX_MAX_EDGES)
            return onnx_refuse(l, e, "parts of %lld of %u elements, or more than %d",
                               (long long)size, whole, ONNX_MAX_EDGES);
        sizes[n++] = (uint32_t)size;
        sum += size;
    }
    *ret_n = n;
    return sum == whole ? 0
                        : onnx_refuse(l, e, "its parts are %lld of %u elements together",
                                      (long long)sum, whole);
}

// Tensors from `first` on are called NODE[PLACE]: comparisons know them by their names.
static int name_part(struct onnx_lowering *l, uint32_t first, uint32_t place, struct error *e)
{
    char text[300];
    int n = snprintf(text, sizeof text, "%.280s[%u]", l->node->name, place);
    for (uint32_t i = first; i < l->g->n_tensors; i++) {
        const char *name = pool_text(&l->g->pool, (struct bytes){(const uint8_t *)text, (size_t)n});
        if (!name)
            return error_no_memory(e, "a sequence", (size_t)n);
        l->g->tensors[i].name = name;
    }
    return 0;
}

int onnx_lower_split_to_sequence(struct onnx_lowering *l, struct error *e)
{
    uint32_t sizes[ONNX_MAX_EDGES], n = 0;
    int32_t items[ONNX_MAX_EDGES];
    int64_t axis, at = 0;
    bool keeps = l->n_in > 1 || onnx_int(l, "keepdims", 1);
    const struct graph_tensor *x = onnx_in(l, 0);
    int r = onnx_axis(l, onnx_int(l, "axis", 0), x->n_dims, &axis, e);
    if (r == 0)
        r = take_sizes(l, x->dims[axis], sizes, &n, e);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        uint32_t first = l->g->n_tensors;
        items[i] = onnx_part(l, l->in[0], (uint32_t)axis, (uint32_t)at, sizes[i], keeps, e);
        r = items[i] < 0 ? STATUS_MODEL_INVALID : name_part(l, first, i, e);
        at += sizes[i];
    }
    return r < 0 ? r : sequence_make(l, items, n, e);
}

// ---- optional values: what they hold is known, so they are other names of it ----

int onnx_lower_optional(struct onnx_lowering *l, struct error *e)
{
    if (l->n_in < 1 || l->in[0] < 0)
        return onnx_refuse(l, e, "an optional without a value is not supported");
    return onnx_same(l, l->in[0], e);
}

int onnx_lower_has_element(struct onnx_lowering *l, struct error *e)
{
    static const uint8_t truths[] = {0, 1};
    int r = onnx_shape(l, 0, TENSOR_BOOL, 0, (const uint32_t[1]){0}, e);
    return r < 0 ? r : onnx_known(l, 0, &truths[l->n_in > 0 && l->in[0] >= 0], e);
}
