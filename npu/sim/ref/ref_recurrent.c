// RNN, LSTM and GRU, of both directions, with peepholes, clipping and sequence lengths. For each
// sequence and time step t (W, R: weights; σ: sigmoid or what the node says):
//
//   RNN   h = tanh(W x + R h)
//   LSTM  i, f, o = σ(W x + R h + P c);  c = f c + i tanh(W x + R h);  h = o tanh(c)
//   GRU   z, r = σ(W x + R h);  n = tanh(W x + R (r h));  h = (1 - z) n + z h
//
// Weights are [direction][gate][hidden], gates in ONNX's order: i o f c and z r h. In doubles, each
// sum in the order of its row.
//
// So that this order needs no sums across a vector, weights of a direction are packed: LANES rows
// side by side, each of whose columns is one vector. What inputs give to the gates (W x) does not
// depend on the state, so it is computed for TOGETHER steps at a time, which share the weights'
// way from memory.
//
//   packed   [rows / LANES][column][LANES]     the last block's missing rows are 0
// Tests: test_onnx_nodes (ONNX's own cases), test_sim_cases_cpu (.rknn).
#include <math.h>

#include "base/bytes.h"
#include "npu/sim/ref/ref.h"
#include "npu/sim/simd/kernel.h"

// Inputs and outputs, by number.
enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
enum { OUT_Y, OUT_H, OUT_C };

#define MAX_GATES 4
#define LANES     8
#define TOGETHER  4

// One direction of one sequence.
struct walker {
    const struct ref_call *c;
    int64_t kind;
    uint64_t batch_size, steps, inputs, hidden, n_gates, directions, direction;
    const int64_t *functions; // of this direction
    double alpha[3], beta[3]; // of these
    bool batch_first, before_reset, input_forget, in_bytes;
    double clip;
    double *h, *cell, *gates, *carried; // hidden; gates: n_gates * hidden
    double *w, *r;                      // packed, of this direction
    double *entered, *recurred;         // of rows, padded: W x of TOGETHER steps; R h
};

static const uint64_t gates_of[] = {
    [REF_RNN] = 1, [REF_LSTM] = 4, [REF_GRU] = 3}; // LSTM: i o f c; GRU: z r h

// ints: kind, direction, batch first, reset before the product (GRU), flags (LSTM), then three
// functions per direction. reals: clip.
static struct walker walker_of(const struct ref_call *c)
{
    const struct graph_node *n = c->node;
    const int64_t *v = n->ref.ints;
    const struct graph_tensor *x = c->in[IN_X].t, *r = c->in[IN_R].t;
    return (struct walker){
        .c = c,
        .kind = v[0],
        .batch_first = v[2],
        .before_reset = v[3],
        .input_forget = v[4] & REF_INPUT_FORGET,
        .in_bytes = v[4] & REF_STATES_IN_BYTES,
        .clip = (double)n->ref.reals[0],
        .batch_size = x->dims[v[2] ? 0 : 1],
        .steps = x->dims[v[2] ? 1 : 0],
        .inputs = x->dims[2],
        .directions = r->dims[0],
        .hidden = r->dims[2],
        .n_gates = gates_of[v[0]],
    };
}

static bool has_size(const struct ref_tensor *t, bool real, uint64_t n_elems)
{
    return !t->t || (t->real == real && t->t->n_elems == n_elems);
}

static uint64_t padded_rows(const struct walker *s)
{
    return align_up(s->n_gates * s->hidden, LANES);
}

// extra: state, cell and carried state, and the gates, of one sequence; packed weights, and what
// they give.
static int check_recurrent(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    const struct graph_tensor *x = c->in[IN_X].t, *w = c->in[IN_W].t, *r = c->in[IN_R].t;
    if (!x || !w || !r || x->n_dims != 3 || w->n_dims != 3 || r->n_dims != 3)
        return ref_refuse(c, e, "its inputs are not of three dimensions");
    struct walker s = walker_of(c);
    uint64_t wanted = c->node->ref.ints[1] == REF_BOTH ? 2 : 1, rows = s.n_gates * s.hidden;
    uint64_t state = s.directions * s.batch_size * s.hidden;
    bool fits = s.directions == wanted && r->dims[1] == rows && w->dims[0] == wanted &&
                w->dims[1] == rows && w->dims[2] == s.inputs && c->in[IN_X].real &&
                c->in[IN_W].real && c->in[IN_R].real;
    fits = fits && has_size(&c->in[IN_B], true, wanted * 2 * rows) &&
           has_size(&c->in[IN_LENGTHS], false, s.batch_size) &&
           has_size(&c->in[IN_H], true, state) && has_size(&c->in[IN_C], true, state) &&
           has_size(&c->in[IN_P], true, wanted * 3 * s.hidden);
    fits = fits && has_size(&c->out[OUT_Y], true, s.steps * state) &&
           has_size(&c->out[OUT_H], true, state) && has_size(&c->out[OUT_C], true, state);
    *ret_extra =
        (3 + MAX_GATES) * s.hidden + padded_rows(&s) * (s.inputs + s.hidden + TOGETHER + 1);
    return fits ? 0 : ref_refuse(c, e, "its inputs and outputs do not fit together");
}

// which: place of the function in its direction's three, where its alpha and beta are, too.
static double rnn_apply(const struct walker *s, uint32_t which, double x)
{
    const double alpha = s->alpha[which], beta = s->beta[which];
    switch (s->functions[which]) {
    case REF_GATE_TANH:
        return tanh(x);
    case REF_GATE_RELU:
        return x > 0 ? x : 0;
    case REF_GATE_AFFINE:
        return alpha * x + beta;
    case REF_GATE_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    case REF_GATE_THRESHOLDED_RELU:
        return x > alpha ? x : 0;
    case REF_GATE_SCALED_TANH:
        return alpha * tanh(beta * x);
    case REF_GATE_HARD_SIGMOID:
        return fmin(fmax(alpha * x + beta, 0), 1);
    case REF_GATE_ELU:
        return x < 0 ? alpha * expm1(x) : x;
    case REF_GATE_SOFTSIGN:
        return x / (1 + fabs(x));
    case REF_GATE_SOFTPLUS:
        return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    default:
        return 1 / (1 + exp(-x));
    }
}

// 0: no clipping.
static double rnn_clipped(const struct walker *s, double x)
{
    return s->clip > 0 ? fmax(-s->clip, fmin(s->clip, x)) : x;
}

static double rnn_gate(const struct walker *s, uint32_t which, double x)
{
    return rnn_apply(s, which, rnn_clipped(s, x));
}

// part 0: of W, 1: of R. Biases are [direction][W gates, R gates].
static double rnn_bias(const struct walker *s, uint64_t part, uint64_t row)
{
    const struct ref_tensor *b = &s->c->in[IN_B];
    return b->t ? b->v[(s->direction * 2 + part) * s->n_gates * s->hidden + row].r : 0;
}

// A part of LANES that all vector units hold in one register, so that sums stay in there: compilers
// leave larger vectors in memory.
#ifdef KERNEL_AVX2
#define PART 4
#else
#define PART 2
#endif
#define PARTS (LANES / PART)
typedef double part_f64 __attribute__((vector_size(PART * 8), aligned(8), may_alias));

// y[k][row] += Σ w[row] * x[k], for n_rows padded rows and `n` vectors of n_columns, for `blocks`
// blocks of rows at once: a sum takes a while until it can be added to, so some others are between.
static inline __attribute__((always_inline)) void rnn_add_block(const double *w, uint64_t n_rows,
                                                                uint64_t n_columns,
                                                                const double *const *x, double *y,
                                                                const int n, const int blocks)
{
    part_f64 sums[TOGETHER][PARTS];
    const int all = n * blocks;
#pragma GCC unroll 4
    for (int k = 0; k < all; k++)
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++)
            sums[k][p] =
                *(const part_f64 *)(y + (uint64_t)(k % n) * n_rows + k / n * LANES + p * PART);
    for (uint64_t i = 0; i < n_columns; i++) {
#pragma GCC unroll 4
        for (int k = 0; k < all; k++)
#pragma GCC unroll 4
            for (int p = 0; p < PARTS; p++) {
                const double *at = w + ((uint64_t)(k / n) * n_columns + i) * LANES + p * PART;
                sums[k][p] += *(const part_f64 *)at * x[k % n][i];
            }
    }
#pragma GCC unroll 4
    for (int k = 0; k < all; k++)
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++)
            *(part_f64 *)(y + (uint64_t)(k % n) * n_rows + k / n * LANES + p * PART) = sums[k][p];
}

// n: 1 or TOGETHER.
static inline __attribute__((always_inline)) void rnn_add_products(const double *w, uint64_t n_rows,
                                                                   uint64_t n_columns,
                                                                   const double *const *x,
                                                                   double *y, const int n)
{
    const int blocks = TOGETHER / n;
    uint64_t row = 0;
    for (; row + (uint64_t)blocks * LANES <= n_rows; row += (uint64_t)blocks * LANES)
        rnn_add_block(w + row * n_columns, n_rows, n_columns, x, y + row, n, blocks);
    for (; row < n_rows; row += LANES)
        rnn_add_block(w + row * n_columns, n_rows, n_columns, x, y + row, n, 1);
}

KERNEL(void, rnn_add_product,
       (const double *w, uint64_t n_rows, uint64_t n_columns, const double *x, double *y),
       (w, n_rows, n_columns, x, y))
{
    rnn_add_products(w, n_rows, n_columns, &x, y, 1);
}

KERNEL(void, rnn_add_together,
       (const double *w, uint64_t n_rows, uint64_t n_columns, const double *const *x, double *y),
       (w, n_rows, n_columns, x, y))
{
    rnn_add_products(w, n_rows, n_columns, x, y, TOGETHER);
}

// The rows' biases, which their sums begin with.
static void rnn_start(const struct walker *s, uint64_t part, double *y)
{
    for (uint64_t row = 0; row < padded_rows(s); row++)
        y[row] = row < s->n_gates * s->hidden ? rnn_bias(s, part, row) : 0;
}

// R times a state, for the rows from those of gate `first` on.
static void rnn_recur(struct walker *s, uint64_t first, const double *h)
{
    const uint64_t from = first * s->hidden / LANES * LANES;
    rnn_start(s, 1, s->recurred);
    rnn_add_product(s->r + from * s->hidden, padded_rows(s) - from, s->hidden, h,
                    s->recurred + from);
}

// W times the inputs of n steps, 1 to TOGETHER.
static void rnn_enter(struct walker *s, const double *const *x, size_t n)
{
    const uint64_t rows = padded_rows(s);
    for (size_t k = 0; k < n; k++)
        rnn_start(s, 0, s->entered + k * rows);
    if (n == TOGETHER)
        rnn_add_together(s->w, rows, s->inputs, x, s->entered);
    for (size_t k = 0; k < n && n < TOGETHER; k++)
        rnn_add_product(s->w, rows, s->inputs, x[k], s->entered + k * rows);
}

static void rnn_pack(const struct walker *s, const struct ref_tensor *from, uint64_t columns,
                     double *to)
{
    const uint64_t rows = s->n_gates * s->hidden;
    const union ref_value *v = from->v + s->direction * rows * columns;
    for (uint64_t row = 0; row < padded_rows(s); row++)
        for (uint64_t i = 0; i < columns; i++)
            to[(row / LANES * columns + i) * LANES + row % LANES] =
                row < rows ? v[row * columns + i].r : 0;
}

// which: i, o, f. The output gate sees the new cell, the others the old one.
static double rnn_peephole(const struct walker *s, uint64_t which, uint64_t i, double cell)
{
    const struct ref_tensor *p = &s->c->in[IN_P];
    return p->t ? p->v[(s->direction * 3 + which) * s->hidden + i].r * cell : 0;
}

// Gates first, as all of them read the old state. w: what the step's input gives.
static void step_rnn(struct walker *s, const double *w)
{
    rnn_recur(s, 0, s->h);
    for (uint64_t i = 0; i < s->hidden; i++)
        s->gates[i] = rnn_gate(s, 0, w[i] + s->recurred[i]);
    memcpy(s->h, s->gates, s->hidden * sizeof *s->h);
}

// The state as its product with the weights takes it: rounded to 256 steps over its range, as
// DynamicQuantizeLinear does, or as it is.
static const double *rnn_state(struct walker *s)
{
    float low = 0, high = 0;
    if (!s->in_bytes)
        return s->h;
    for (uint64_t i = 0; i < s->hidden; i++) {
        low = fminf(low, (float)s->h[i]);
        high = fmaxf(high, (float)s->h[i]);
    }
    const float scale = (high - low) / 255, zero = scale > 0 ? rintf(0 - low / scale) : 0;
    for (uint64_t i = 0; i < s->hidden; i++) {
        float q = scale > 0 ? rintf((float)s->h[i] / scale) + zero : 0;
        s->carried[i] = (double)(fminf(fmaxf(q, 0), 255) - zero) * (double)scale;
    }
    return s->carried;
}

// input_forget couples the gates: f = 1 - i.
static void step_lstm(struct walker *s, const double *w)
{
    uint64_t n = s->hidden;
    rnn_recur(s, 0, rnn_state(s));
    for (uint64_t k = 0; k < 4 * n; k++)
        s->gates[k] = w[k] + s->recurred[k];
    for (uint64_t i = 0; i < n; i++) {
        double old = s->cell[i];
        double in = rnn_gate(s, 0, s->gates[i] + rnn_peephole(s, 0, i, old));
        double forget = s->input_forget
                            ? 1 - in
                            : rnn_gate(s, 0, s->gates[2 * n + i] + rnn_peephole(s, 2, i, old));
        double cell = forget * old + in * rnn_gate(s, 1, s->gates[3 * n + i]);
        double out = rnn_gate(s, 0, s->gates[n + i] + rnn_peephole(s, 1, i, cell));
        s->cell[i] = cell;
        s->h[i] = out * rnn_apply(s, 2, cell);
    }
}

// before_reset (linear_before_reset): r * (R h + bias) in place of R (r * h) + bias.
static void step_gru(struct walker *s, const double *w)
{
    uint64_t n = s->hidden;
    rnn_recur(s, 0, s->h);
    for (uint64_t k = 0; k < 2 * n; k++)
        s->gates[k] = rnn_gate(s, 0, w[k] + s->recurred[k]);
    for (uint64_t i = 0; i < n; i++)
        s->carried[i] = s->gates[n + i] * s->h[i];
    if (!s->before_reset)
        rnn_recur(s, 2, s->carried);
    for (uint64_t i = 0; i < n; i++) {
        double past = s->recurred[2 * n + i];
        past = s->before_reset ? s->gates[n + i] * past : past;
        s->gates[2 * n + i] = rnn_gate(s, 1, w[2 * n + i] + past);
    }
    for (uint64_t i = 0; i < n; i++)
        s->h[i] = (1 - s->gates[i]) * s->gates[2 * n + i] + s->gates[i] * s->h[i];
}

// Offset of a state: [direction][batch][hidden], or [batch][direction][hidden].
static uint64_t state_at(const struct walker *s, uint64_t batch)
{
    return (s->batch_first ? batch * s->directions + s->direction
                           : s->direction * s->batch_size + batch) *
           s->hidden;
}

// Offset of a step's output: [step][direction][batch][hidden], or [batch][step][direction][hidden].
static uint64_t output_at(const struct walker *s, uint64_t batch, uint64_t step)
{
    uint64_t state = s->directions * s->hidden;
    return s->batch_first ? (batch * s->steps + step) * state + s->direction * s->hidden
                          : step * state * s->batch_size + state_at(s, batch);
}

static void rnn_begin(const struct ref_tensor *from, double *to, uint64_t at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = from->t ? from->v[at + i].r : 0;
}

static void rnn_give(const struct ref_tensor *to, const double *from, uint64_t at, uint64_t n)
{
    for (uint64_t i = 0; i < n && to->t; i++)
        to->v[at + i].r = from ? from[i] : 0;
}

// The inputs of the k-th step and of those behind it that are entered together.
static void enter_steps(struct walker *s, uint64_t batch, uint64_t k, uint64_t length, bool back)
{
    const double *x[TOGETHER];
    size_t n = 0;
    for (; n < TOGETHER && k + n < length; n++) {
        uint64_t step = back ? length - 1 - k - n : k + n;
        uint64_t at = s->batch_first ? batch * s->steps + step : step * s->batch_size + batch;
        x[n] = &s->c->in[IN_X].v[at * s->inputs].r;
    }
    rnn_enter(s, x, n);
}

// One sequence in one direction. Steps past its length give 0; backwards it begins at its own last
// step, not at that of the batch.
static int run_sequence(struct walker *s, uint64_t batch, struct error *e)
{
    static void (*const steps[])(struct walker *, const double *) = {
        [REF_RNN] = step_rnn, [REF_LSTM] = step_lstm, [REF_GRU] = step_gru};
    const struct ref_call *c = s->c;
    int64_t length = c->in[IN_LENGTHS].t ? c->in[IN_LENGTHS].v[batch].i : (int64_t)s->steps;
    bool back = s->direction == 1 || c->node->ref.ints[1] == REF_BACKWARD;
    if (length < 0 || length > (int64_t)s->steps)
        return ref_fail(c, e, "a sequence of %lld steps", (long long)length);
    rnn_begin(&c->in[IN_H], s->h, state_at(s, batch), s->hidden);
    rnn_begin(&c->in[IN_C], s->cell, state_at(s, batch), s->hidden);
    for (uint64_t k = 0; k < s->steps; k++) {
        if (k >= (uint64_t)length) {
            rnn_give(&c->out[OUT_Y], NULL, output_at(s, batch, k), s->hidden);
            continue;
        }
        if (k % TOGETHER == 0)
            enter_steps(s, batch, k, (uint64_t)length, back);
        uint64_t step = back ? (uint64_t)length - 1 - k : k;
        steps[s->kind](s, s->entered + k % TOGETHER * padded_rows(s));
        rnn_give(&c->out[OUT_Y], s->h, output_at(s, batch, step), s->hidden);
    }
    rnn_give(&c->out[OUT_H], s->h, state_at(s, batch), s->hidden);
    rnn_give(&c->out[OUT_C], s->cell, state_at(s, batch), s->hidden);
    return 0;
}

static void take_functions(struct walker *s)
{
    const struct graph_node *n = s->c->node;
    const uint32_t all = (uint32_t)(3 * s->directions), first = (uint32_t)(3 * s->direction);
    s->functions = n->ref.ints + 5 + first;
    for (uint32_t i = 0; i < 3 && n->ref.n_ints >= 5 + 3 * all; i++) {
        const int64_t *bits = n->ref.ints + 5 + all + 2 * (first + i);
        s->alpha[i] = (double)bits_float((uint32_t)bits[0]);
        s->beta[i] = (double)bits_float((uint32_t)bits[1]);
    }
}

static int run_recurrent(struct ref_call *c, struct error *e)
{
    struct walker s = walker_of(c);
    int r = 0;
    s.h = (double *)c->extra;
    s.cell = s.h + s.hidden;
    s.carried = s.cell + s.hidden;
    s.gates = s.carried + s.hidden;
    s.w = s.gates + MAX_GATES * s.hidden;
    s.r = s.w + padded_rows(&s) * s.inputs;
    s.entered = s.r + padded_rows(&s) * s.hidden;
    s.recurred = s.entered + padded_rows(&s) * TOGETHER;
    for (; s.direction < s.directions && r == 0; s.direction++) {
        take_functions(&s);
        rnn_pack(&s, &c->in[IN_W], s.inputs, s.w);
        rnn_pack(&s, &c->in[IN_R], s.hidden, s.r);
        for (uint64_t b = 0; b < s.batch_size && r == 0; b++)
            r = run_sequence(&s, b, e);
    }
    return r;
}

const struct ref_operator ref_recurrent = {.check = check_recurrent, .run = run_recurrent};
