// Operators on each element: arithmetic of two operands with broadcasting, activations of one.
//
//   y[i] = post(a[i] op b[i])      in floats, rounded as elements_store() does
//
// The loop over all dimensions is nd's. A patch is what is loaded, computed and stored together, at
// most ELEMENTS_CHUNK elements, so that the floats between the three passes stay in the first
// cache:
//
//   outer dimensions (nd_next)
//     plane: [ row ][ row ] …     short rows are taken many at a time, long ones in parts
//
// Without floats in memory: fp16 and int8 operands with contiguous inner loops (fp16_binary.h,
// int8_binary.h, with AVX2 and AVX512; a short row that all rows share is repeated until it fills a
// chunk), and what a single int8 becomes, by activations or with one number that is constant: a
// table of 256 made once. Tested by test_sim_cases_eltwise and _activations, test_sim_fp16,
// test_sim_int8, test_onnx_nodes.
#include <math.h>

#include "npu/sim/exec/nd.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/binary/fp16_binary.h"
#include "npu/sim/simd/binary/int8_binary.h"
#include "npu/sim/simd/binary/int8_pairs.h"
#include "npu/sim/simd/chain.h"
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/int8.h"

// An operand: a tensor of the run, or a constant that was converted to floats once.
struct operand {
    struct element_form form;
    size_t size; // bytes of an element
    float *constant;
    uint32_t input; // of the step
};

struct rows {
    struct nd nd; // operand 0: the output, then the operands
    struct element_form to;
    size_t to_size;
    struct operand operands[2];
    bool fp16,
        int8; // all inner loops are such and contiguous: fp16_binary(), int8_binary() do it all
    // … one operand is a constant: fp16_with_floats(), int8_with_floats(), with `only`
    bool fp16_floats, int8_floats;
    const struct graph_sum *sum; // int8_sum(): as the chip rounds it; NULL: not
    int8_t low;                  // of a Relu behind it
    bool paired;                 // … int8_pairs_sum() does the same
    struct int8_pairs pairs;
    struct clamp_bounds bounds;
    bool mapped;   // contiguous int8 on both sides: by the table
    uint32_t only; // … the operand that is no constant
    int8_t table[256];
};

// What is worked on together: short inner loops that follow each other, or a part of a long one.
struct patch {
    size_t rows, row;
    size_t y, x; // of its first element
};

static int take_operand(struct step *s, struct rows *p, uint32_t k, struct error *e)
{
    const struct graph_tensor *t = step_input(s, k);
    struct operand *o = &p->operands[k];
    if (!t || !element_type_known(t->type))
        return step_refuse(s, e, "its input %u has a type that is not supported", k);
    if (!nd_broadcast(&p->nd, t))
        return step_refuse(s, e, "its input %s does not fit its output", t->name);
    *o = (struct operand){element_form(t), tensor_type_size(t->type), NULL, k};
    if (!t->constant)
        return 0;
    o->form = (struct element_form){.type = TENSOR_FLOAT32};
    o->size = sizeof(float);
    return step_floats(s, t, &o->constant, e);
}

// Output and operands as one loop, simplified to as few dimensions as their strides allow.
static int elementwise_prepare(struct step *s, uint32_t n_operands, struct error *e)
{
    const struct graph_tensor *y = step_output(s, 0);
    struct rows *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (!element_type_known(y->type))
        return step_refuse(s, e, "output type %s is not supported", tensor_type_name(y->type));
    p->to = element_form(y);
    p->to_size = tensor_type_size(y->type);
    nd_init(&p->nd, y);
    for (uint32_t k = 0; k < n_operands; k++) {
        int r = take_operand(s, p, k, e);
        if (r < 0)
            return r;
    }
    nd_simplify(&p->nd);
    nd_split_inner(&p->nd);
    return 0;
}

static const uint8_t *elementwise_base(const struct step *s, const struct run *r,
                                       const struct operand *o)
{
    return o->constant ? (const uint8_t *)o->constant : run_input(s, r, o->input);
}

// `n` values of an operand from p on; a stride of 0 repeats one.
static void load_row(const struct operand *o, const uint8_t *p, int64_t step, size_t n, float *dst)
{
    if (step) {
        elements_load_strided(&o->form, p, step, n, dst);
        return;
    }
    float one;
    elements_load(&o->form, p, 1, &one);
    for (size_t i = 0; i < n; i++)
        dst[i] = one;
}

// Strides of an operand, in elements: between rows, and in a row.
struct patch_strides {
    int64_t y, x;
};

static struct patch_strides strides_of(const struct rows *p, uint32_t operand)
{
    return (struct patch_strides){p->nd.strides[operand][p->nd.n_dims - 2],
                                  nd_stride(&p->nd, operand)};
}

static int64_t offset_of(struct patch_strides step, const struct patch *at)
{
    return (int64_t)at->y * step.y + (int64_t)at->x * step.x;
}

// Whether the rows of a patch follow each other without gaps: then they are one long row.
static bool is_one_row(struct patch_strides step, const struct patch *at)
{
    return step.y == (int64_t)at->row * step.x;
}

// Loads a patch as floats. A row that is broadcast over the rows is converted once and copied.
static void elementwise_load(const struct operand *o, const uint8_t *from,
                             struct patch_strides step, const struct patch *at, float *dst)
{
    size_t n = at->row;
    if (is_one_row(step, at)) {
        load_row(o, from, step.x, n * at->rows, dst);
        return;
    }
    for (size_t i = 0; i < at->rows; i++, dst += n)
        if (i && !step.y)
            memcpy(dst, dst - n, n * sizeof *dst);
        else
            load_row(o, from + (int64_t)i * step.y * (int64_t)o->size, step.x, n, dst);
}

static void elementwise_store(const struct rows *p, uint8_t *to, struct patch_strides step,
                              const struct patch *at, const float *x)
{
    size_t n = at->row;
    if (is_one_row(step, at)) {
        elements_store_strided(&p->to, to, step.x, n * at->rows, x);
        return;
    }
    for (size_t i = 0; i < at->rows; i++, x += n, to += step.y * (int64_t)p->to_size)
        elements_store_strided(&p->to, to, step.x, n, x);
}

// y = a op b; y may be an operand. The switch is outside of the loops, so that each vectorizes.
KERNEL(void, elementwise_combine,
       (enum graph_op op, const float *a, const float *b, size_t n, float *y), (op, a, b, n, y))
{
#define EACH(expression)                                                                           \
    for (size_t i = 0; i < n; i++)                                                                 \
        y[i] = (expression);                                                                       \
    break
    switch (op) {
    case GRAPH_ADD:
        EACH(a[i] + b[i]);
    case GRAPH_SUB:
        EACH(a[i] - b[i]);
    case GRAPH_MUL:
        EACH(a[i] * b[i]);
    case GRAPH_DIV:
        EACH(a[i] / b[i]);
    case GRAPH_MAX:
        EACH(a[i] > b[i] ? a[i] : b[i]);
    case GRAPH_MIN:
        EACH(a[i] < b[i] ? a[i] : b[i]);
    default:                             // GRAPH_PRELU
        for (size_t i = 0; i < n; i++) { // by bits: compilers for AVX2 make branches of choices
            uint32_t mask = -(uint32_t)(a[i] < 0);
            y[i] = bits_float((float_bits(a[i] * b[i]) & mask) | (float_bits(a[i]) & ~mask));
        }
    }
}

KERNEL(bool, all_are, (const float *v, float wanted, size_t n), (v, wanted, n))
{
    int other = 0;
    for (size_t i = 0; i < n; i++)
        other |= v[i] != wanted;
    return !other;
}

// y = a^3; y may be an operand.
KERNEL(void, elementwise_cube, (const float *a, size_t n, float *y), (a, n, y))
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * a[i] * a[i];
}

static float power(float a, float b)
{
    return b == 2 ? a * a : b == 3 ? a * a * a : powf(a, b);
}

// Operators with a call per element, too. Exponents of 2 and 3 (a GELU's) are multiplications, as
// ONNX Runtime has them.
static void combine_slowly(enum graph_op op, const float *a, const float *b, size_t n, float *y)
{
    if (op == GRAPH_POW && all_are(b, 2, n)) {
        elementwise_combine(GRAPH_MUL, a, a, n, y);
    } else if (op == GRAPH_POW && all_are(b, 3, n)) {
        elementwise_cube(a, n, y);
    } else if (op == GRAPH_POW) {
        for (size_t i = 0; i < n; i++)
            y[i] = power(a[i], b[i]);
    } else if (op == GRAPH_MOD) {
        for (size_t i = 0; i < n; i++) // the sign of the divisor, as ONNX has it for integers
            y[i] = a[i] - b[i] * floorf(a[i] / b[i]);
    } else {
        elementwise_combine(op, a, b, n, y);
    }
}

// Whether both operands (but one that is constant: 2: none) and the output are of that type and
// contiguous, with an operator and activations that the vector kernels know.
static bool elementwise_joins(const struct step *s, struct rows *p, enum tensor_type type,
                              uint32_t constant)
{
    bool can = (type == TENSOR_FLOAT16 ? fp16_binary_fits() : kernel_has_avx2()) &&
               fp16_binary_knows(s->node->op) &&
               clamp_bounds(s->node->post, s->node->n_post, &p->bounds) && p->to.type == type &&
               nd_stride(&p->nd, 0) == 1;
    for (uint32_t k = 0; k < 2; k++)
        can = can && p->operands[k].form.type == (k == constant ? TENSOR_FLOAT32 : type) &&
              nd_stride(&p->nd, k + 1) == 1;
    return can;
}

#define PAIRED_MIN 16384 // elements, for which it is worth to look at all pairs of bytes

// An Add or a Mul of the chip's, with one Relu at most behind it. Real numbers would be near it,
// and not it.
static int elementwise_take_sum(const struct step *s, struct rows *p, struct error *e)
{
    const struct graph_node *n = s->node;
    bool relu = n->n_post == 1 && n->post[0].kind == POST_RELU;
    bool binary = n->op == GRAPH_ADD || n->op == GRAPH_MUL;
    bool can = binary && (relu || !n->n_post) && n->sum && int8_sum_fits(n->sum) &&
               nd_stride(&p->nd, 0) == 1;
    for (uint32_t k = 0; k < 3; k++)
        can = can && (k ? p->operands[k - 1].form.type : p->to.type) == TENSOR_INT8;
    if (n->sum && !can)
        return step_refuse(s, e, "sums of this form or size are not known");
    p->sum = n->sum;
    p->low = (int8_t)(can && relu && n->sum->zp > -128 ? n->sum->zp : -128);
    p->paired = p->sum && step_output(s, 0)->n_elems >= PAIRED_MIN &&
                int8_pairs_find(p->sum, p->low, &p->pairs);
    return 0;
}

// All 256 results with a constant number.
static void fill_binary_table(const struct step *s, struct rows *p)
{
    float values[2][256];
    int8_t all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (int8_t)i;
    elements_load(&p->operands[p->only].form, all, 256, values[p->only]);
    for (int i = 0; i < 256; i++)
        values[!p->only][i] = *p->operands[!p->only].constant;
    combine_slowly(s->node->op, values[0], values[1], 256, values[0]);
    for (uint32_t i = 0; i < s->node->n_post; i++)
        elements_post(&s->node->post[i], values[0], 256);
    elements_store(&p->to, p->table, 256, values[0]);
}

static void take_binary_table(const struct step *s, struct rows *p)
{
    p->only = p->operands[0].constant != NULL;
    const struct operand *o = &p->operands[p->only], *other = &p->operands[!p->only];
    p->mapped = p->to.type == TENSOR_INT8 && o->form.type == TENSOR_INT8 && !o->constant &&
                other->constant && step_input(s, other->input)->n_elems == 1 &&
                nd_stride(&p->nd, 0) == 1 && nd_stride(&p->nd, p->only + 1) == 1;
    if (p->mapped)
        fill_binary_table(s, p);
}

static int prepare_binary(struct step *s, struct error *e)
{
    int r = elementwise_prepare(s, 2, e);
    struct rows *p = s->state;
    if (r < 0)
        return r;
    take_binary_table(s, p);
    if (p->mapped)
        return 0;
    p->fp16 = elementwise_joins(s, p, TENSOR_FLOAT16, 2);
    p->int8 = elementwise_joins(s, p, TENSOR_INT8, 2);
    if (p->operands[!p->only].constant && !p->operands[p->only].constant) {
        p->fp16_floats = elementwise_joins(s, p, TENSOR_FLOAT16, !p->only);
        p->int8_floats = elementwise_joins(s, p, TENSOR_INT8, !p->only);
    }
    return elementwise_take_sum(s, p, e);
}

#define MOST_STEPS 8 // that a table of the chip is off the real numbers, at most

// int8 to int8: all 256 results are computed here, as the chip does it, where that is known. If
// that is something else than the activation, it was not understood.
static int fill_unary_table(struct step *s, struct rows *p, struct error *e)
{
    const struct graph_chain *chain = s->node->chains ? s->node->chains[0] : NULL;
    int8_t real[256];
    elements_table(&p->operands[0].form, s->node->post, s->node->n_post, &p->to, p->table);
    if (!chain)
        return 0;
    memcpy(real, p->table, sizeof real);
    chain_table(chain, p->table);
    if (chain_differs(real, p->table) <= MOST_STEPS)
        return 0;
    return step_refuse(s, e, "its registers make values of it that are up to %d steps off",
                       chain_differs(real, p->table));
}

static int prepare_unary(struct step *s, struct error *e)
{
    int r = elementwise_prepare(s, 1, e);
    struct rows *p = s->state;
    if (r < 0)
        return r;
    p->mapped = p->to.type == TENSOR_INT8 && p->operands[0].form.type == TENSOR_INT8 &&
                nd_stride(&p->nd, 0) == 1 && nd_stride(&p->nd, 1) == 1;
    return p->mapped ? fill_unary_table(s, p, e) : 0;
}

// A patch that is floats already, without gaps: its own memory. NULL: it has to be copied.
static float *elementwise_floats(const struct element_form *form, const uint8_t *at,
                                 struct patch_strides step, const struct patch *patch)
{
    bool floats = form->type == TENSOR_FLOAT32 && !form->quantized && step.x == 1 &&
                  (patch->rows == 1 || is_one_row(step, patch));
    return floats && (uintptr_t)at % sizeof(float) == 0 ? (float *)(uintptr_t)at : NULL;
}

// Floats of the patches of a plane.
struct patch_floats {
    float of[2][ELEMENTS_CHUNK];
    bool kept[2]; // of an operand whose row all patches share, and which are there already
};

// Load, combine, activations, store, all on floats that stay in the L1 cache, or where they are.
static void run_patch(const struct step *s, const struct rows *p, const uint8_t *const from[2],
                      uint8_t *to, const struct patch *at, struct patch_floats *values)
{
    const float *x[2] = {values->of[0], values->of[1]};
    uint32_t n_operands = p->nd.n_operands - 1;
    size_t n = at->rows * at->row;
    struct patch_strides step = strides_of(p, 0);
    uint8_t *stored = to + offset_of(step, at) * (int64_t)p->to_size;
    float *there = elementwise_floats(&p->to, stored, step, at), *y = there ? there : values->of[0];
    for (uint32_t k = 0; k < n_operands; k++) {
        const struct operand *o = &p->operands[k];
        struct patch_strides own = strides_of(p, k + 1);
        const uint8_t *first = from[k] + offset_of(own, at) * (int64_t)o->size;
        const float *floats = elementwise_floats(&o->form, first, own, at);
        x[k] = floats ? floats : values->of[k];
        if (!floats && !values->kept[k])
            elementwise_load(o, first, own, at, values->of[k]);
        values->kept[k] = !floats && own.y == 0 && at->row == nd_inner(&p->nd) && x[k] != y;
    }
    if (n_operands == 2)
        combine_slowly(s->node->op, x[0], x[1], n, y);
    else if (x[0] != y)
        memcpy(y, x[0], n * sizeof *y);
    for (uint32_t i = 0; i < s->node->n_post; i++)
        elements_post(&s->node->post[i], y, n);
    if (!there)
        elementwise_store(p, stored, step, at, y);
}

// The two innermost dimensions, cut into patches of at most ELEMENTS_CHUNK elements.
static void run_plane(const struct step *s, const struct rows *p, struct run *r,
                      const uint8_t *const from[2], uint64_t first)
{
    uint8_t *to = (uint8_t *)run_output(s, r, 0) + first * p->to_size;
    size_t rows = (size_t)p->nd.dims[p->nd.n_dims - 2], row = nd_inner(&p->nd);
    size_t together = row && row < ELEMENTS_CHUNK ? ELEMENTS_CHUNK / row : 1;
    struct patch_floats values;
    struct patch at;
    values.kept[0] = values.kept[1] = false;
    for (at.y = 0; at.y < rows; at.y += together)
        for (at.x = 0; at.x < row; at.x += ELEMENTS_CHUNK) {
            at.rows = rows - at.y < together ? rows - at.y : together;
            at.row = row - at.x < ELEMENTS_CHUNK ? row - at.x : ELEMENTS_CHUNK;
            run_patch(s, p, from, to, &at, &values);
            run_wrote(r, first + at.y * row + at.x + at.rows * at.row);
        }
}

static bool is_contiguous(const struct rows *p)
{
    return nd_stride(&p->nd, 1) == 1 && nd_stride(&p->nd, 2) == 1;
}

// int8_sum() of a row, whose operands are brought together first where they are not contiguous.
static void sum_row(const struct rows *p, const uint8_t *a, const uint8_t *b, size_t n, uint8_t *y)
{
    uint8_t together[2][ELEMENTS_CHUNK];
    const uint8_t *from[2] = {a, b}, *row[2];
    size_t part = is_contiguous(p) ? n : ELEMENTS_CHUNK;
    for (size_t at = 0, count; at < n; at += count) {
        count = n - at < part ? n - at : part;
        for (uint32_t k = 0; k < 2; k++) {
            int64_t stride = nd_stride(&p->nd, k + 1);
            row[k] = stride == 1 ? from[k] + at : together[k];
            for (size_t i = 0; stride != 1 && i < count; i++)
                together[k][i] = from[k][(int64_t)(at + i) * stride];
        }
        size_t done = p->paired ? int8_pairs_sum(&p->pairs, row[0], row[1], count, y + at) : 0;
        int8_sum(p->sum, p->low, row[0] + done, row[1] + done, count - done, y + at + done);
    }
}

static void join_row(const struct step *s, const struct rows *p, const uint8_t *a, const uint8_t *b,
                     size_t n, uint8_t *y)
{
    const struct element_form with[2] = {p->operands[p->only].form, p->to};
    const struct element_form forms[3] = {p->operands[0].form, p->operands[1].form, p->to};
    if (p->sum)
        sum_row(p, a, b, n, y);
    else if (p->int8_floats)
        int8_with_floats(s->node->op, with, p->only ? b : a, (const float *)(p->only ? a : b),
                         p->only, n, p->bounds, y);
    else if (p->int8)
        int8_binary(s->node->op, forms, a, b, n, p->bounds, y);
    else if (p->fp16_floats)
        fp16_with_floats(s->node->op, p->only ? b : a, (const float *)(p->only ? a : b), p->only, n,
                         p->bounds, y);
    else
        fp16_binary(s->node->op, a, b, n, p->bounds, y);
}

// The operand whose row all rows of a plane share, while the others follow each other: 1 or 2; 0:
// none, or the rows are long enough.
static uint32_t shared_operand(const struct rows *p)
{
    uint32_t outer = p->nd.n_dims - 2, shared = 0;
    int64_t n = (int64_t)nd_inner(&p->nd);
    for (uint32_t k = 0; k < 3; k++) {
        int64_t step = p->nd.strides[k][outer];
        if (k && step == 0)
            shared = k;
        else if (step != n)
            return 0;
    }
    return n && n <= ELEMENTS_CHUNK / 2 && p->nd.dims[outer] > 1 ? shared : 0;
}

// The operand whose row all rows of a plane share: 1 or 2; 0: none, or both.
static uint32_t repeated_operand(const struct rows *p)
{
    uint32_t outer = p->nd.n_dims - 2;
    bool first = p->nd.strides[1][outer] == 0, second = p->nd.strides[2][outer] == 0;
    return p->nd.dims[outer] < 2 || first == second ? 0 : first ? 1 : 2;
}

// The shared row is repeated until it fills a chunk: then many rows are one.
static void join_sharing_rows(const struct step *s, const struct rows *p, uint32_t shared,
                              const uint8_t *const from[2], uint8_t *to)
{
    uint8_t repeated[ELEMENTS_CHUNK * sizeof(float)] __attribute__((aligned(64)));
    size_t n = nd_inner(&p->nd), size = n * p->operands[shared - 1].size,
           together = ELEMENTS_CHUNK / n;
    size_t rows = (size_t)p->nd.dims[p->nd.n_dims - 2];
    for (size_t i = 0; i < together && i < rows; i++)
        memcpy(repeated + i * size, from[shared - 1], size);
    for (size_t i = 0; i < rows; i += together) {
        size_t count = rows - i < together ? rows - i : together;
        const uint8_t *other = from[2 - shared] + i * n * p->operands[2 - shared].size;
        join_row(s, p, shared == 1 ? repeated : other, shared == 1 ? other : repeated, count * n,
                 to + i * n * p->to_size);
    }
}

// fp16, all rows with a row that they share, which becomes floats once: a conversion takes longer
// than an addition. Of long rows a part at a time; short ones are repeated as above.
static void join_shared_halves(const struct step *s, const struct rows *p, uint32_t shared,
                               const uint8_t *const from[2], uint8_t *to)
{
    float floats[ELEMENTS_CHUNK];
    uint32_t outer = p->nd.n_dims - 2;
    size_t n = nd_inner(&p->nd), rows = (size_t)p->nd.dims[outer];
    bool repeats = shared_operand(p) == shared;
    size_t part = n < ELEMENTS_CHUNK ? n : ELEMENTS_CHUNK,
           together = repeats ? ELEMENTS_CHUNK / n : 1;
    int64_t x_step = p->nd.strides[3 - shared][outer], y_step = p->nd.strides[0][outer];
    for (size_t at = 0; at < n; at += part) {
        size_t count = n - at < part ? n - at : part;
        const uint8_t *x = from[2 - shared] + at * sizeof(uint16_t);
        elements_load(&p->operands[shared - 1].form, from[shared - 1] + at * sizeof(uint16_t),
                      count, floats);
        for (size_t i = 1; i < together && i < rows; i++)
            memcpy(floats + i * n, floats, n * sizeof *floats);
        for (size_t i = 0; i < rows; i += together) {
            size_t many = rows - i < together ? rows - i : together;
            fp16_with_floats(s->node->op, x + (int64_t)i * x_step * (int64_t)sizeof(uint16_t),
                             floats, shared == 1, many * count, p->bounds,
                             to + ((int64_t)at + (int64_t)i * y_step) * (int64_t)sizeof(uint16_t));
        }
    }
}

// As run_plane(), by the kernels that need no floats in memory.
static void join_rows(const struct step *s, const struct rows *p, const uint8_t *const from[2],
                      uint8_t *to)
{
    uint32_t outer = p->nd.n_dims - 2, shared = shared_operand(p), again = repeated_operand(p);
    size_t n = nd_inner(&p->nd);
    if (p->fp16 && again && !fp16_binary_is_native(s->node->op, p->bounds)) {
        join_shared_halves(s, p, again, from, to);
        return;
    }
    if (shared && is_contiguous(p)) {
        join_sharing_rows(s, p, shared, from, to);
        return;
    }
    for (int64_t i = 0; i < p->nd.dims[outer]; i++) {
        const uint8_t *a = from[0] + i * p->nd.strides[1][outer] * (int64_t)p->operands[0].size;
        const uint8_t *b = from[1] + i * p->nd.strides[2][outer] * (int64_t)p->operands[1].size;
        uint8_t *y = to + i * p->nd.strides[0][outer] * (int64_t)p->to_size;
        join_row(s, p, a, b, n, y);
    }
}

static int run_each(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct rows *p = s->state;
    const uint8_t *from[2] = {0}, *planes[2] = {0};
    uint8_t *to = run_output(s, r, 0);
    struct nd outer = p->nd;
    struct nd_position at;
    outer.n_dims--;
    for (uint32_t k = 0; k + 1 < outer.n_operands; k++)
        from[k] = elementwise_base(s, r, &p->operands[k]);
    for (nd_start(&outer, &at); !at.end; nd_next(&outer, &at)) {
        for (uint32_t k = 0; k + 1 < outer.n_operands; k++)
            planes[k] = from[k] + at.offset[k + 1] * (int64_t)p->operands[k].size;
        if (p->fp16 || p->int8 || p->fp16_floats || p->int8_floats || p->sum)
            join_rows(s, p, planes, to + at.offset[0] * (int64_t)p->to_size);
        else
            run_plane(s, p, r, planes, (uint64_t)at.offset[0]);
    }
    return 0;
}

static void map_rows(const struct rows *p, const uint8_t *from, uint8_t *to)
{
    struct nd_position at;
    for (nd_start(&p->nd, &at); !at.end; nd_next(&p->nd, &at))
        int8_map(p->table, (const int8_t *)from + at.offset[p->only + 1], nd_inner(&p->nd),
                 (int8_t *)to + at.offset[0]);
}

static int elementwise_run(const struct step *s, struct run *r, struct error *e)
{
    const struct rows *p = s->state;
    if (!p->mapped)
        return run_each(s, r, e);
    map_rows(p, elementwise_base(s, r, &p->operands[p->only]), run_output(s, r, 0));
    return 0;
}

const struct op op_binary = {
    .prepare = prepare_binary, .run = elementwise_run, .in_place = true, .on_constant = true};
const struct op op_unary = {
    .prepare = prepare_unary, .run = elementwise_run, .in_place = true, .on_constant = true};
