// Einsum: y[labels of y] = Σ over all other labels of Π_k x_k[labels of x_k].
//
// "bij,bjk->bik" has the labels b i k (those of the output come first) and j. A label may occur
// twice in one operand: its strides are added, which gives the diagonal. Operands of size 1 are
// broadcast. Sums in doubles, or in integers that wrap.
// Tests: test_onnx_nodes (ONNX's own cases), test_onnx_against.
#include "npu/sim/ref/ref.h"

struct sums {
    uint32_t n_labels, n_out; // labels of the output come first
    uint64_t sizes[REF_MAX_LABELS];
    int64_t strides[REF_MAX_INPUTS][REF_MAX_LABELS];
    uint32_t n_in;
};

static const int64_t *labels_of(const struct ref_call *c, uint32_t input)
{
    return c->node->ref.ints + 2 + (size_t)input * GRAPH_MAX_DIMS;
}

// Sizes and strides of the labels, from the operands' dimensions.
static void einsum_measure(const struct ref_call *c, struct sums *s)
{
    *s = (struct sums){.n_labels = (uint32_t)c->node->ref.ints[0],
                       .n_out = (uint32_t)c->node->ref.ints[1],
                       .n_in = c->node->n_inputs};
    for (uint32_t i = 0; i < s->n_labels; i++)
        s->sizes[i] = 1;
    for (uint32_t k = 0; k < s->n_in; k++) {
        const struct graph_tensor *t = c->in[k].t;
        int64_t own[GRAPH_MAX_DIMS];
        ref_strides(t, own);
        for (uint32_t d = 0; d < t->n_dims; d++) {
            int64_t label = labels_of(c, k)[d];
            if (t->dims[d] != 1)
                s->sizes[label] = t->dims[d];
            s->strides[k][label] += t->dims[d] == 1 ? 0 : own[d];
        }
    }
}

// Sizes of a label must agree, or be 1.
static int check_einsum(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    (void)ret_extra;
    struct sums s;
    bool fits = c->node->n_inputs > 0;
    for (uint32_t k = 0; k < c->node->n_inputs && fits; k++)
        fits = c->in[k].t && c->in[k].t->n_elems && c->in[k].real == c->out[0].real;
    if (!fits)
        return ref_refuse(c, e, "its inputs are empty, or not of one kind");
    einsum_measure(c, &s);
    for (uint32_t k = 0; k < s.n_in; k++)
        for (uint32_t d = 0; d < c->in[k].t->n_dims; d++) {
            uint32_t size = c->in[k].t->dims[d];
            fits = fits && (size == 1 || size == s.sizes[labels_of(c, k)[d]]);
        }
    uint64_t n = 1;
    for (uint32_t i = 0; i < s.n_out; i++)
        n *= s.sizes[i];
    return fits && n == c->out[0].t->n_elems ? 0
                                             : ref_refuse(c, e, "its inputs do not fit together");
}

// Offsets of the operands at one place of all labels.
struct place {
    uint64_t index[REF_MAX_LABELS];
    int64_t at[REF_MAX_INPUTS];
};

// Advances the labels [from, to) like an odometer. False: it was the last place, and all are 0
// again.
static bool einsum_next(const struct sums *s, struct place *p, uint32_t from, uint32_t to)
{
    for (uint32_t i = to; i-- > from;) {
        bool more = ++p->index[i] < s->sizes[i];
        int64_t steps = more ? 1 : -(int64_t)(s->sizes[i] - 1);
        for (uint32_t k = 0; k < s->n_in; k++)
            p->at[k] += steps * s->strides[k][i];
        if (more)
            return true;
        p->index[i] = 0;
    }
    return false;
}

static int run_einsum(struct ref_call *c, struct error *e)
{
    (void)e;
    struct sums s;
    struct place p = {0};
    einsum_measure(c, &s);
    for (uint64_t o = 0; o < c->out[0].t->n_elems; o++) {
        double real = 0;
        uint64_t whole = 0;
        do {
            double r = 1;
            uint64_t w = 1;
            for (uint32_t k = 0; k < s.n_in; k++) {
                r *= c->in[k].v[p.at[k]].r;
                w *= (uint64_t)c->in[k].v[p.at[k]].i;
            }
            real += r;
            whole += w;
        } while (einsum_next(&s, &p, s.n_out, s.n_labels));
        c->out[0].v[o] =
            c->out[0].real ? (union ref_value){.r = real} : (union ref_value){.i = (int64_t)whole};
        einsum_next(&s, &p, 0, s.n_out);
    }
    return 0;
}

const struct ref_operator ref_einsum = {.check = check_einsum, .run = run_einsum};
