// Einsum of ONNX: "ij,jk->ik" sums products over all labels that the output lacks. The equation is
// parsed here; the reference operator gets, for each dimension of each input, the number of its
// label (graph_ref.h). Labels are numbered with those of the output first:
//
//      "bij,bjk->bik"      b 0, i 1, k 2, j 3      inputs 0 1 3 and 0 3 2
//
// Of two inputs of floats that have all labels but the batch's once it is a product of matrices,
// between transpositions where these are not in its order.
#include "npu/model/onnx/onnx_lower.h"

#define MAX_TEXT 200
#define NO_LABEL 255

// A label is a letter, or below GRAPH_MAX_DIMS one of the dimensions that "..." stands for, the
// last of which is GRAPH_MAX_DIMS - 1.
struct term {
    uint32_t n;
    uint8_t labels[GRAPH_MAX_DIMS];
};

struct equation {
    struct term in[REF_MAX_INPUTS], out;
    uint8_t order[REF_MAX_LABELS]; // those of the output first
    uint32_t n_labels;
    uint8_t known[256]; // place in `order`, or NO_LABEL
    uint32_t sizes[256];
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool add_label(struct term *t, uint8_t label)
{
    if (t->n == GRAPH_MAX_DIMS)
        return false;
    t->labels[t->n++] = label;
    return true;
}

// "ij...k" of `size` characters; "..." stands for `rest` dimensions.
static bool parse_term(struct term *t, const char *text, size_t size, uint32_t rest)
{
    *t = (struct term){0};
    for (size_t i = 0; i < size; i++) {
        if (size - i >= 3 && memcmp(text + i, "...", 3) == 0) {
            for (uint32_t k = 0; k < rest; k++)
                if (!add_label(t, (uint8_t)(GRAPH_MAX_DIMS - rest + k)))
                    return false;
            i += 2;
        } else if (!is_letter(text[i]) || !add_label(t, (uint8_t)text[i])) {
            return false;
        }
    }
    return true;
}

static uint32_t count_letters(const char *text, size_t size)
{
    uint32_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += is_letter(text[i]);
    return n;
}

// The inputs' terms, and how many dimensions "..." stands for at most. A term must name every
// dimension of its input.
static bool parse_inputs(const struct onnx_lowering *l, struct equation *q, const char *text,
                         const char *end, uint32_t *rest)
{
    uint32_t i = 0;
    *rest = 0;
    for (const char *at = text; at <= end; i++) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
        const struct graph_tensor *t = onnx_in(l, i);
        size_t size = (size_t)(stop - at);
        uint32_t letters = count_letters(at, size),
                 own = t && t->n_dims > letters ? t->n_dims - letters : 0;
        if (!t || i == REF_MAX_INPUTS || !parse_term(&q->in[i], at, size, own) ||
            q->in[i].n != t->n_dims)
            return false;
        *rest = own > *rest ? own : *rest;
        at = stop + 1;
    }
    return i == l->n_in;
}

// Without "->": what "..." stands for, then the letters that come once, in order.
static bool imply_output(const struct onnx_lowering *l, struct equation *q, uint32_t rest)
{
    uint32_t times[256] = {0};
    bool fits = parse_term(&q->out, "...", 3, rest);
    for (uint32_t i = 0; i < l->n_in; i++)
        for (uint32_t d = 0; d < q->in[i].n; d++)
            times[q->in[i].labels[d]]++;
    for (uint32_t c = GRAPH_MAX_DIMS; c < 256 && fits; c++)
        fits = times[c] != 1 || add_label(&q->out, (uint8_t)c);
    return fits;
}

static bool parse(const struct onnx_lowering *l, struct equation *q, const char *text)
{
    uint32_t rest;
    const char *arrow = strstr(text, "->"), *end = arrow ? arrow : text + strlen(text);
    if (!parse_inputs(l, q, text, end, &rest))
        return false;
    return arrow ? parse_term(&q->out, arrow + 2, strlen(arrow + 2), rest)
                 : imply_output(l, q, rest);
}

// Numbers the labels of a term that are new.
static bool note_labels(struct equation *q, const struct term *t)
{
    for (uint32_t d = 0; d < t->n; d++) {
        uint8_t label = t->labels[d];
        if (q->known[label] != NO_LABEL)
            continue;
        if (q->n_labels == REF_MAX_LABELS)
            return false;
        q->known[label] = (uint8_t)q->n_labels;
        q->order[q->n_labels++] = label;
    }
    return true;
}

// Numbers all labels and finds their sizes; a dimension of 1 broadcasts.
static bool order_labels(const struct onnx_lowering *l, struct equation *q)
{
    memset(q->known, NO_LABEL, sizeof q->known);
    bool fits = note_labels(q, &q->out) && q->n_labels == q->out.n; // none comes twice
    for (uint32_t i = 0; i < l->n_in && fits; i++) {
        fits = note_labels(q, &q->in[i]);
        for (uint32_t d = 0; d < q->in[i].n; d++) {
            uint32_t size = onnx_in(l, i)->dims[d], *known = &q->sizes[q->in[i].labels[d]];
            *known = size != 1 || !*known ? size : *known;
        }
    }
    for (uint32_t i = 0; i < q->out.n && fits; i++)
        fits = q->sizes[q->out.labels[i]] > 0;
    return fits;
}

// The equation without spaces, cut off at MAX_TEXT: it does not fit its inputs then.
static void take_text(const struct onnx_lowering *l, char text[MAX_TEXT])
{
    struct bytes s = onnx_text(l, "equation");
    size_t n = 0;
    for (size_t i = 0; i < s.size && n + 1 < MAX_TEXT; i++)
        if (s.data[i] != ' ')
            text[n++] = (char)s.data[i];
    text[n] = 0;
}

// ---- of two inputs: a product of matrices ----

// Labels by who has them. Each array is in the order of the inputs' or the output's term.
struct product_labels {
    uint32_t a; // the input that is on the left: the output has one of its own labels first
    uint32_t n_batch, n_left, n_right, n_summed;
    uint8_t batch[GRAPH_MAX_DIMS], left[GRAPH_MAX_DIMS], right[GRAPH_MAX_DIMS],
        summed[GRAPH_MAX_DIMS];
};

// "..." stands for labels of its own, so a term is all there is to look at.
static bool has_label(const struct term *t, uint8_t label)
{
    return memchr(t->labels, label, t->n) != NULL;
}

// Every label comes once in a term, has one size in both inputs, and none is in one input alone.
static bool is_product(const struct onnx_lowering *l, const struct equation *q)
{
    if (l->n_in != 2 || !onnx_is_float(onnx_in(l, 0)->type) || !onnx_is_float(onnx_in(l, 1)->type))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t d = 0; d < q->in[i].n; d++) {
            const uint8_t label = q->in[i].labels[d];
            if (onnx_in(l, i)->dims[d] != q->sizes[label] ||
                memchr(q->in[i].labels, label, q->in[i].n) != &q->in[i].labels[d] ||
                !(has_label(&q->in[!i], label) || has_label(&q->out, label)))
                return false;
        }
    return true;
}

// False: no label is summed over.
static bool sort_labels(const struct equation *q, struct product_labels *p)
{
    *p = (struct product_labels){0};
    for (uint32_t d = q->out.n; d-- > 0;)
        if (!has_label(&q->in[0], q->out.labels[d]) || !has_label(&q->in[1], q->out.labels[d]))
            p->a = !has_label(&q->in[0], q->out.labels[d]);
    const struct term *a = &q->in[p->a], *b = &q->in[!p->a];
    for (uint32_t d = 0; d < q->out.n; d++) {
        const uint8_t label = q->out.labels[d];
        if (has_label(a, label) && has_label(b, label))
            p->batch[p->n_batch++] = label;
        else if (has_label(a, label))
            p->left[p->n_left++] = label;
        else
            p->right[p->n_right++] = label;
    }
    for (uint32_t d = 0; d < a->n; d++)
        if (has_label(b, a->labels[d]) && !has_label(&q->out, a->labels[d]))
            p->summed[p->n_summed++] = a->labels[d];
    return p->n_summed > 0;
}

// A tensor with labels `from` in the order `to`, n of them. Negative: an error.
static int32_t einsum_turned(struct onnx_lowering *l, const struct equation *q, int32_t x,
                             const uint8_t *from, const uint8_t *to, uint32_t n, struct error *e)
{
    uint32_t perm[GRAPH_MAX_DIMS] = {0}, dims[GRAPH_MAX_DIMS];
    if (memcmp(from, to, n) == 0)
        return x;
    for (uint32_t i = 0; i < n; i++) {
        perm[i] = (uint32_t)((const uint8_t *)memchr(from, to[i], n) - from);
        dims[i] = q->sizes[to[i]];
    }
    int32_t y = onnx_temporary(l, l->g->tensors[x].type, n, dims, e);
    struct graph_node *node = y < 0 ? NULL : onnx_emit(l, GRAPH_TRANSPOSE, &x, 1, &y, 1, e);
    if (!node)
        return y < 0 ? y : STATUS_MALLOC_FAIL;
    memcpy(node->perm, perm, n * sizeof *perm);
    return y;
}

// Appends labels; returns the product of their sizes.
static uint32_t append_labels(const struct equation *q, uint8_t *to, uint32_t *n,
                              const uint8_t *labels, uint32_t n_labels)
{
    uint32_t size = 1;
    for (uint32_t i = 0; i < n_labels; i++) {
        to[(*n)++] = labels[i];
        size *= q->sizes[labels[i]];
    }
    return size;
}

// An input with its labels in the order batch, rows, columns, as such matrices.
static int32_t matrices(struct onnx_lowering *l, const struct equation *q,
                        const struct product_labels *p, bool right, uint32_t dims[3],
                        struct error *e)
{
    const uint32_t i = right ? !p->a : p->a;
    uint8_t order[2 * GRAPH_MAX_DIMS];
    uint32_t n = 0;
    dims[0] = append_labels(q, order, &n, p->batch, p->n_batch);
    dims[1] = right ? append_labels(q, order, &n, p->summed, p->n_summed)
                    : append_labels(q, order, &n, p->left, p->n_left);
    dims[2] = right ? append_labels(q, order, &n, p->right, p->n_right)
                    : append_labels(q, order, &n, p->summed, p->n_summed);
    int32_t x = einsum_turned(l, q, l->in[i], q->in[i].labels, order, n, e);
    return x < 0 ? x : onnx_reshaped(l, x, 3, dims, e);
}

// The product's dimensions become the output's.
static int give_einsum_product(struct onnx_lowering *l, const struct equation *q,
                               const struct product_labels *p, int32_t y, struct error *e)
{
    uint8_t order[2 * GRAPH_MAX_DIMS];
    uint32_t n = 0, dims[GRAPH_MAX_DIMS];
    append_labels(q, order, &n, p->batch, p->n_batch);
    append_labels(q, order, &n, p->left, p->n_left);
    append_labels(q, order, &n, p->right, p->n_right);
    for (uint32_t i = 0; i < n; i++)
        dims[i] = q->sizes[order[i]];
    y = onnx_reshaped(l, y, n, dims, e);
    if (y >= 0)
        y = einsum_turned(l, q, y, order, q->out.labels, n, e);
    return y < 0 ? y : onnx_same(l, y, e);
}

// Matrices of the left input times those of the right one, one for each place of the batch.
static int emit_einsum_product(struct onnx_lowering *l, const struct equation *q,
                               const struct product_labels *p, struct error *e)
{
    uint32_t a_dims[3], b_dims[3];
    const enum tensor_type type = onnx_in(l, 0)->type;
    int32_t in[2] = {matrices(l, q, p, false, a_dims, e), -1};
    in[1] = in[0] < 0 ? in[0] : matrices(l, q, p, true, b_dims, e);
    if (in[1] < 0)
        return in[1];
    const uint32_t y_dims[] = {a_dims[0], a_dims[1], b_dims[2]};
    int32_t y = onnx_temporary(l, type, 3, y_dims, e);
    struct graph_node *node = y < 0 ? NULL : onnx_emit(l, GRAPH_MAT_MUL, in, 2, &y, 1, e);
    if (!node)
        return y < 0 ? y : STATUS_MALLOC_FAIL;
    node->product.alpha = node->product.beta = 1;
    return give_einsum_product(l, q, p, y, e);
}

int onnx_lower_einsum(struct onnx_lowering *l, struct error *e)
{
    struct equation q = {0};
    char text[MAX_TEXT];
    uint32_t dims[GRAPH_MAX_DIMS];
    int64_t ints[2 + REF_MAX_INPUTS * GRAPH_MAX_DIMS] = {0};
    take_text(l, text);
    if (!parse(l, &q, text) || !order_labels(l, &q))
        return onnx_refuse(l, e, "its equation \"%s\" does not fit its inputs", text);
    ints[0] = q.n_labels;
    ints[1] = q.out.n;
    for (uint32_t i = 0; i < l->n_in; i++)
        for (uint32_t d = 0; d < q.in[i].n; d++)
            ints[2 + i * GRAPH_MAX_DIMS + d] = q.known[q.in[i].labels[d]];
    for (uint32_t i = 0; i < q.out.n; i++)
        dims[i] = q.sizes[q.out.labels[i]];
    int r = onnx_shape(l, 0, onnx_in(l, 0)->type, q.out.n, dims, e);
    struct product_labels p;
    if (r == 0 && is_product(l, &q) && sort_labels(&q, &p))
        return emit_einsum_product(l, &q, &p, e);
    return r < 0 ? r
                 : onnx_emit_ref(l, REF_OP_EINSUM, l->n_in, ints, sizeof ints / sizeof *ints, e);
}
