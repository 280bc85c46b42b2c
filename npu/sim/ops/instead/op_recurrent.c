// LSTM, GRU and RNN of floats with constant weights and the usual activations. All other forms
// (lengths, peepholes, clipping, halves) are the reference operator's (ref_recurrent.c), which has
// the equations.
//
// Weights are packed once for each direction, so that sums need not go across a vector; each gate's
// rows begin with a block of their own:
//
//   packed   [gate][hidden / LANES][column][LANES]     missing rows are 0
//
// What inputs give to the gates (W x) does not depend on the state, so it is computed for some
// steps at a time, which share the weights' way from memory; so do sequences of a batch for R h.
//
//   entered  [step of the chunk][sequence][gate][hidden, padded]     W x, then all of a gate's sum
//
// Sums in floats, in the order of columns. Tested by test_onnx_nodes, and against the
// equations by test_onnx_recurrent.
#include <string.h>

#include "base/bytes.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/sigmoid.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
enum { OUT_Y, OUT_H, OUT_C };

#define LANES    16
#define TOGETHER 4  // vectors that share a load of weights
#define VECTORS  64 // of a chunk, about

static const uint32_t gates_of[] = {[REF_RNN] = 1, [REF_LSTM] = 4, [REF_GRU] = 3};

struct recurrent {
    int64_t kind;
    bool backward, batch_first, before_reset;
    uint32_t steps, batch, inputs, hidden, padded, directions, chunk; // chunk: steps
    size_t rows;                                                      // of all gates, padded
    float *w[2], *r[2];                                               // packed, of each direction
    float *bias[2];  // of all rows: W's and R's, but for what GRU resets
    float *reset[2]; // GRU: R's bias of the last gate
    struct {
        size_t step, batch, direction, unit;
    } y;              // how far these are apart in output 0, in elements
    uint64_t scratch; // the arrays of struct recurrent_run, one behind the other
    enum graph_post_kind functions[2][3];
};

// One run in one direction.
struct recurrent_run {
    const struct recurrent *p;
    uint32_t direction;
    bool backward;
    const float *x;
    float *y;
    float *h, *cell, *carried, *recurred; // [batch][padded]
    float *entered;
};

// ---- products ----

// A part of LANES that all vector units hold in one register, so that sums stay in there.
#ifdef KERNEL_AVX2
#define PART 8
#else
#define PART 4
#endif
#define PARTS (LANES / PART)
typedef float part_f32 __attribute__((vector_size(PART * 4), aligned(4), may_alias));

// y[k][row] += Σ w[row] * x[k] for n vectors and `blocks` blocks of rows at once: a sum takes a
// while until it can be added to, so some others are between.
static inline __attribute__((always_inline)) void recurrent_block(const float *w, size_t n_columns,
                                                                  const float *const *x,
                                                                  float *const *y, size_t row,
                                                                  const int n, const int blocks)
{
    part_f32 sums[TOGETHER][PARTS];
    const int all = n * blocks;
#pragma GCC unroll 4
    for (int k = 0; k < all; k++)
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++)
            sums[k][p] = *(const part_f32 *)(y[k % n] + row + k / n * LANES + p * PART);
    for (size_t i = 0; i < n_columns; i++) {
#pragma GCC unroll 4
        for (int k = 0; k < all; k++)
#pragma GCC unroll 4
            for (int p = 0; p < PARTS; p++) {
                const float *at = w + ((size_t)(k / n) * n_columns + i) * LANES + p * PART;
                sums[k][p] += *(const part_f32 *)at * x[k % n][i];
            }
    }
#pragma GCC unroll 4
    for (int k = 0; k < all; k++)
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++)
            *(part_f32 *)(y[k % n] + row + k / n * LANES + p * PART) = sums[k][p];
}

static inline __attribute__((always_inline)) void recurrent_rows(const float *w, size_t n_rows,
                                                                 size_t n_columns,
                                                                 const float *const *x,
                                                                 float *const *y, const int n)
{
    const int blocks = TOGETHER / n;
    const size_t many = (size_t)blocks * LANES;
    size_t row = 0;
    for (; row + many <= n_rows; row += many)
        recurrent_block(w + row * n_columns, n_columns, x, y, row, n, blocks);
    for (; row < n_rows; row += LANES)
        recurrent_block(w + row * n_columns, n_columns, x, y, row, n, 1);
}

KERNEL(void, recurrent_add_one,
       (const float *w, size_t n_rows, size_t n_columns, const float *const *x, float *const *y),
       (w, n_rows, n_columns, x, y))
{
    recurrent_rows(w, n_rows, n_columns, x, y, 1);
}

KERNEL(void, recurrent_add_all,
       (const float *w, size_t n_rows, size_t n_columns, const float *const *x, float *const *y),
       (w, n_rows, n_columns, x, y))
{
    recurrent_rows(w, n_rows, n_columns, x, y, TOGETHER);
}

// Vectors that are asked for one after the other, and multiplied when there are enough of them.
struct products {
    const float *w;
    size_t n_rows, n_columns;
    const float *x[TOGETHER];
    float *y[TOGETHER];
    int n;
};

// Multiplies those that are left, one by one.
static void products_end(struct products *q)
{
    for (int k = 0; k < q->n; k++)
        recurrent_add_one(q->w, q->n_rows, q->n_columns, q->x + k, q->y + k);
    q->n = 0;
}

static void products_add(struct products *q, const float *x, float *y)
{
    q->x[q->n] = x;
    q->y[q->n++] = y;
    if (q->n < TOGETHER)
        return;
    recurrent_add_all(q->w, q->n_rows, q->n_columns, q->x, q->y);
    q->n = 0;
}

// ---- steps ----

// Of the units beyond `hidden` only zeros and their sigmoids come out, which nobody reads.
static void recurrent_apply(enum graph_post_kind kind, float *x, size_t n)
{
    if (kind == POST_SIGMOID && sigmoid_fits())
        sigmoid_many(false, x, n);
    else
        elements_post(&(struct graph_post){.kind = kind}, x, n);
}

// One step of sequence b. gates: its sums, which have W x and R h in them.
static void advance_rnn(const struct recurrent_run *s, float *gates, uint32_t b)
{
    recurrent_apply(s->p->functions[s->direction][0], gates, s->p->padded);
    memcpy(s->h + (size_t)b * s->p->padded, gates, s->p->padded * sizeof *gates);
}

// Gates are i o f c.
static void advance_lstm(const struct recurrent_run *s, float *gates, uint32_t b)
{
    const struct recurrent *p = s->p;
    const enum graph_post_kind *f = p->functions[s->direction];
    const size_t n = p->padded;
    float *cell = s->cell + b * n, *h = s->h + b * n;
    recurrent_apply(f[0], gates, 3 * n);
    recurrent_apply(f[1], gates + 3 * n, n);
    for (size_t i = 0; i < n; i++)
        h[i] = cell[i] = gates[2 * n + i] * cell[i] + gates[i] * gates[3 * n + i];
    recurrent_apply(f[2], h, n);
    for (size_t i = 0; i < n; i++)
        h[i] *= gates[n + i];
}

// Gates are z r h. before_reset (linear_before_reset): r * (R h + bias) in place of R (r * h) +
// bias.
static void advance_gru(const struct recurrent_run *s, float *gates, uint32_t b)
{
    const struct recurrent *p = s->p;
    const enum graph_post_kind *f = p->functions[s->direction];
    const size_t n = p->padded;
    float *h = s->h + b * n, *carried = s->carried + b * n, *past = s->recurred + b * n;
    recurrent_apply(f[0], gates, 2 * n);
    if (p->before_reset) {
        for (size_t i = 0; i < n; i++)
            gates[2 * n + i] += gates[n + i] * past[i];
    } else {
        struct products q = {p->r[s->direction] + 2 * n * p->hidden, n, p->hidden, {0}, {0}, 0};
        for (size_t i = 0; i < n; i++) {
            carried[i] = gates[n + i] * h[i];
            gates[2 * n + i] += past[i];
        }
        products_add(&q, carried, gates + 2 * n);
        products_end(&q);
    }
    recurrent_apply(f[1], gates + 2 * n, n);
    for (size_t i = 0; i < n; i++)
        h[i] = (1 - gates[i]) * gates[2 * n + i] + gates[i] * h[i];
}

// R h of all sequences, into the gates' sums; what GRU resets goes into an array of its own.
static void recurrent_recur(const struct recurrent_run *s, float *gates)
{
    const struct recurrent *p = s->p;
    const size_t n = p->padded;
    const bool gru = p->kind == REF_GRU;
    struct products q = {p->r[s->direction], gru ? 2 * n : p->rows, p->hidden, {0}, {0}, 0};
    for (uint32_t b = 0; b < p->batch; b++)
        products_add(&q, s->h + b * n, gates + b * p->rows);
    products_end(&q);
    for (uint32_t b = 0; b < p->batch && gru; b++)
        memcpy(s->recurred + b * n, p->reset[s->direction], n * sizeof *gates);
    q = (struct products){p->r[s->direction] + 2 * n * p->hidden, n, p->hidden, {0}, {0}, 0};
    for (uint32_t b = 0; b < p->batch && gru && p->before_reset; b++)
        products_add(&q, s->h + b * n, s->recurred + b * n);
    products_end(&q);
}

// Which step of the sequence comes k-th.
static uint32_t recurrent_step(const struct recurrent_run *s, uint32_t k)
{
    return s->backward ? s->p->steps - 1 - k : k;
}

// W x and the biases of n steps from the k-th on.
static void recurrent_enter(const struct recurrent_run *s, uint32_t k, uint32_t n)
{
    const struct recurrent *p = s->p;
    struct products q = {p->w[s->direction], p->rows, p->inputs, {0}, {0}, 0};
    float *to = s->entered;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t b = 0; b < p->batch; b++, to += p->rows) {
            const size_t step = recurrent_step(s, k + i);
            const size_t at = p->batch_first ? (size_t)b * p->steps + step : step * p->batch + b;
            memcpy(to, p->bias[s->direction], p->rows * sizeof *to);
            products_add(&q, s->x + at * p->inputs, to);
        }
    products_end(&q);
}

// Offset of a state: [direction][batch][hidden], or [batch][direction][hidden].
static size_t recurrent_state_at(const struct recurrent_run *s, uint32_t b)
{
    const struct recurrent *p = s->p;
    return (p->batch_first ? (size_t)b * p->directions + s->direction
                           : (size_t)s->direction * p->batch + b) *
           p->hidden;
}

// The states behind the k-th step.
static void recurrent_give(const struct recurrent_run *s, uint32_t k)
{
    const struct recurrent *p = s->p;
    for (uint32_t b = 0; b < p->batch && s->y; b++) {
        const float *h = s->h + (size_t)b * p->padded;
        float *y = s->y + recurrent_step(s, k) * p->y.step + b * p->y.batch +
                   s->direction * p->y.direction;
        if (p->y.unit == 1)
            memcpy(y, h, p->hidden * sizeof *y);
        for (uint32_t i = 0; i < p->hidden && p->y.unit != 1; i++)
            y[i * p->y.unit] = h[i];
    }
}

static void run_direction(const struct recurrent_run *s)
{
    static void (*const steps[])(const struct recurrent_run *, float *, uint32_t) = {
        [REF_RNN] = advance_rnn, [REF_LSTM] = advance_lstm, [REF_GRU] = advance_gru};
    const struct recurrent *p = s->p;
    for (uint32_t k = 0; k < p->steps; k++) {
        float *gates = s->entered + (size_t)(k % p->chunk) * p->batch * p->rows;
        if (k % p->chunk == 0)
            recurrent_enter(s, k, p->steps - k < p->chunk ? p->steps - k : p->chunk);
        recurrent_recur(s, gates);
        for (uint32_t b = 0; b < p->batch; b++)
            steps[p->kind](s, gates + b * p->rows, b);
        recurrent_give(s, k);
    }
}

// Either way: of all sequences. `from` NULL: zero; `to` NULL: nowhere.
static void recurrent_begin(const struct recurrent_run *s, const uint8_t *from, float *to)
{
    const struct recurrent *p = s->p;
    memset(to, 0, (size_t)p->batch * p->padded * sizeof *to);
    for (uint32_t b = 0; b < p->batch && from; b++)
        memcpy(to + (size_t)b * p->padded, from + recurrent_state_at(s, b) * sizeof *to,
               p->hidden * sizeof *to);
}

static void recurrent_end(const struct recurrent_run *s, const float *from, float *to)
{
    const struct recurrent *p = s->p;
    for (uint32_t b = 0; b < p->batch && to; b++)
        memcpy(to + recurrent_state_at(s, b), from + (size_t)b * p->padded, p->hidden * sizeof *to);
}

// Directions one after the other, in the same scratch memory.
static int recurrent_run(const struct step *s, struct run *r, struct error *e)
{
    const struct recurrent *p = s->state;
    const size_t state = (size_t)p->batch * p->padded;
    struct recurrent_run d = {.p = p, .x = run_input(s, r, IN_X)};
    (void)e;
    d.y = step_output(s, OUT_Y) ? run_output(s, r, OUT_Y) : NULL;
    d.h = run_scratch(r, p->scratch);
    d.cell = d.h + state;
    d.carried = d.cell + state;
    d.recurred = d.carried + state;
    d.entered = d.recurred + state;
    for (; d.direction < p->directions; d.direction++) {
        d.backward = p->backward || d.direction == 1;
        recurrent_begin(&d, step_input(s, IN_H) ? run_input(s, r, IN_H) : NULL, d.h);
        recurrent_begin(&d, step_input(s, IN_C) ? run_input(s, r, IN_C) : NULL, d.cell);
        run_direction(&d);
        recurrent_end(&d, d.h, step_output(s, OUT_H) ? run_output(s, r, OUT_H) : NULL);
        recurrent_end(&d, d.cell, step_output(s, OUT_C) ? run_output(s, r, OUT_C) : NULL);
    }
    return 0;
}

// ---- what is made ready ----

// What elements_post() calls an activation. False: it has none of the kind.
static bool recurrent_function(int64_t gate, enum graph_post_kind *ret)
{
    *ret = gate == REF_GATE_SIGMOID ? POST_SIGMOID : gate == REF_GATE_TANH ? POST_TANH : POST_RELU;
    return gate == REF_GATE_SIGMOID || gate == REF_GATE_TANH || gate == REF_GATE_RELU;
}

static const struct graph_tensor *recurrent_tensor(const struct graph *g, const int32_t *edges,
                                                   uint32_t n, uint32_t i)
{
    return i < n && edges[i] >= 0 ? &g->tensors[edges[i]] : NULL;
}

static bool recurrent_is_floats(const struct graph_tensor *t, uint64_t n_elems)
{
    return t->type == TENSOR_FLOAT32 && !t->quantized && !t->unpack && t->n_elems == n_elems &&
           n_elems;
}

// In the order of its dimensions.
static bool recurrent_is_plain(const struct graph_tensor *t, uint64_t n_elems, bool constant)
{
    return recurrent_is_floats(t, n_elems) && !t->channels_last && (!constant || t->constant);
}

// Shapes that do not fit are the reference operator's to refuse; few units would be mostly padding.
static bool recurrent_sizes(const struct graph *g, const struct graph_node *n,
                            struct recurrent *ret)
{
    const struct graph_tensor *x = recurrent_tensor(g, n->inputs, n->n_inputs, IN_X),
                              *w = recurrent_tensor(g, n->inputs, n->n_inputs, IN_W),
                              *r = recurrent_tensor(g, n->inputs, n->n_inputs, IN_R);
    const int64_t *ints = n->ref.ints;
    if (!x || !w || !r || x->n_dims != 3 || w->n_dims != 3 || r->n_dims != 3 || x->constant)
        return false;
    *ret = (struct recurrent){.kind = ints[0],
                              .backward = ints[1] == REF_BACKWARD,
                              .batch_first = ints[2],
                              .before_reset = ints[3],
                              .batch = x->dims[ints[2] ? 0 : 1],
                              .steps = x->dims[ints[2] ? 1 : 0],
                              .inputs = x->dims[2],
                              .directions = ints[1] == REF_BOTH ? 2 : 1,
                              .hidden = r->dims[2]};
    const uint64_t rows = (uint64_t)gates_of[ret->kind] * ret->hidden;
    return ret->hidden >= LANES / 4 && recurrent_is_plain(x, x->n_elems, false) &&
           recurrent_is_plain(w, w->n_elems, true) && recurrent_is_plain(r, r->n_elems, true) &&
           w->dims[0] == ret->directions && w->dims[1] == rows && w->dims[2] == ret->inputs &&
           r->dims[0] == ret->directions && r->dims[1] == rows;
}

// What else there is among inputs: biases and first states.
static bool recurrent_inputs_fit(const struct graph *g, const struct graph_node *n,
                                 const struct recurrent *p, uint64_t states)
{
    const uint64_t biases = (uint64_t)p->directions * 2 * gates_of[p->kind] * p->hidden;
    for (uint32_t i = IN_B; i < n->n_inputs; i++) {
        const struct graph_tensor *t = recurrent_tensor(g, n->inputs, n->n_inputs, i);
        if (!t)
            continue;
        const bool fits = i == IN_B                ? recurrent_is_plain(t, biases, true)
                          : i == IN_H || i == IN_C ? recurrent_is_plain(t, states, false)
                                                   : false;
        if (!fits)
            return false;
    }
    return true;
}

bool op_recurrent_fits(const struct graph *g, const struct graph_node *n)
{
    struct recurrent p;
    enum graph_post_kind f;
    if (n->op != GRAPH_REF || n->ref.op != REF_OP_RECURRENT || n->ref.ints[4] ||
        n->ref.reals[0] > 0 || !recurrent_sizes(g, n, &p))
        return false;
    for (uint32_t i = 0; i < 3 * p.directions; i++)
        if (!recurrent_function(n->ref.ints[5 + i], &f))
            return false;
    const uint64_t states = (uint64_t)p.directions * p.batch * p.hidden;
    for (uint32_t i = 0; i < n->n_outputs; i++) {
        const struct graph_tensor *t = recurrent_tensor(g, n->outputs, n->n_outputs, i);
        if (t && !(i == OUT_Y ? t->n_dims == 4 && recurrent_is_floats(t, p.steps * states)
                              : recurrent_is_plain(t, states, false)))
            return false;
    }
    return recurrent_inputs_fit(g, n, &p, states);
}

// The i-th float of a constant, which need not be aligned in its file.
static float constant_at(const struct graph_tensor *t, size_t i)
{
    float v;
    memcpy(&v, t->data.data + i * sizeof v, sizeof v);
    return v;
}

// The rows of direction d.
static float *recurrent_pack(struct step *s, const struct recurrent *p, uint32_t d,
                             const struct graph_tensor *from, size_t columns)
{
    const size_t rows = gates_of[p->kind] * (size_t)p->hidden;
    float *to = step_alloc(s, p->rows * columns, sizeof *to);
    for (size_t row = 0; row < rows && to; row++) {
        const size_t at = row / p->hidden * p->padded + row % p->hidden;
        for (size_t i = 0; i < columns; i++)
            to[(at / LANES * columns + i) * LANES + at % LANES] =
                constant_at(from, (d * rows + row) * columns + i);
    }
    return to;
}

// W's biases, then R's.
static void recurrent_biases(const struct recurrent *p, uint32_t d, const struct graph_tensor *from)
{
    const size_t rows = gates_of[p->kind] * (size_t)p->hidden;
    for (size_t row = 0; row < rows; row++) {
        const size_t gate = row / p->hidden, i = row % p->hidden;
        const bool resets = p->kind == REF_GRU && gate == 2;
        const float w = constant_at(from, 2 * d * rows + row);
        const float r = constant_at(from, (2 * d + 1) * rows + row);
        p->bias[d][gate * p->padded + i] = resets ? w : w + r;
        if (resets)
            p->reset[d][i] = r;
    }
}

// [step][direction][batch][hidden], or [batch][step][direction][hidden], in any order of memory.
static void recurrent_strides(const struct graph_tensor *y, struct recurrent *p)
{
    int64_t strides[GRAPH_MAX_DIMS];
    graph_tensor_strides(y, strides);
    p->y.batch = (size_t)strides[p->batch_first ? 0 : 2];
    p->y.step = (size_t)strides[p->batch_first ? 1 : 0];
    p->y.direction = (size_t)strides[p->batch_first ? 2 : 1];
    p->y.unit = (size_t)strides[3];
}

static int prepare_direction(struct step *s, struct recurrent *p, uint32_t d, struct error *e)
{
    for (uint32_t i = 0; i < 3; i++)
        recurrent_function(s->node->ref.ints[5 + 3 * d + i], &p->functions[d][i]);
    p->w[d] = recurrent_pack(s, p, d, step_input(s, IN_W), p->inputs);
    p->r[d] = recurrent_pack(s, p, d, step_input(s, IN_R), p->hidden);
    p->bias[d] = step_alloc(s, p->rows, sizeof(float));
    p->reset[d] = step_alloc(s, p->padded, sizeof(float));
    if (!p->w[d] || !p->r[d] || !p->bias[d] || !p->reset[d])
        return error_no_memory(e, "packed weights",
                               p->rows * ((size_t)p->inputs + p->hidden) * sizeof(float));
    if (step_input(s, IN_B))
        recurrent_biases(p, d, step_input(s, IN_B));
    return 0;
}

static int recurrent_prepare(struct step *s, struct error *e)
{
    struct recurrent *p = s->state = step_alloc(s, 1, sizeof *p);
    int r = 0;
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    recurrent_sizes(s->plan->graph, s->node, p);
    p->padded = (uint32_t)align_up(p->hidden, LANES);
    p->rows = (size_t)gates_of[p->kind] * p->padded;
    p->chunk = p->batch < VECTORS ? VECTORS / p->batch : 1;
    if (step_output(s, OUT_Y))
        recurrent_strides(step_output(s, OUT_Y), p);
    for (uint32_t d = 0; d < p->directions && r == 0; d++)
        r = prepare_direction(s, p, d, e);
    const uint64_t floats = p->batch * (4 * (uint64_t)p->padded + p->chunk * (uint64_t)p->rows);
    return r < 0 ? r : step_scratch(s, floats * sizeof(float), &p->scratch, e);
}

const struct op op_recurrent = {.prepare = recurrent_prepare, .run = recurrent_run};
