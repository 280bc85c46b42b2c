// BatchNormalization, LayerNormalization and exNorm: in floats, rounded as elements_store() does.
//
//   BatchNormalization   y = x * factor[c] + term[c]    exact where a file has these in integers
//   LayerNormalization   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
//   exNorm               the same of images, also without the mean; or y = x / max(√Σ x², epsilon)
//
// Tested by test_sim_cases_activations, _float16 and _edges, test_sim_fp16 and test_onnx_nodes.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/binary/fp16_binary.h"
#include "npu/sim/simd/binary/int8_binary.h"
#include "npu/sim/simd/elements.h"

// ---- BatchNormalization ----

// y[n, c, h, w] = (x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c], which
// preparation turns into y = x * factor[c] + term[c].
//
// Channels last, the parameters of a few channels are repeated until they fill a chunk, so that one
// long loop does many pixels:
//
//   x       c0 c1 c2 c0 c1 c2 c0 …
//   factor  f0 f1 f2 f0 f1 f2 f0 …
struct batch_norm {
    float *factor, *term;
    size_t together; // channels last: pixels whose parameters these are
    bool fp16, int8; // fp16_scale() or int8_scale() does it all
    bool exact;      // int8_scale_exact(), with integers as parameters
    struct graph_scaling out;
    int32_t low; // stored, of a Relu
    struct clamp_bounds bounds;
};

// A constant of one value per channel, as floats.
static int take_parameter(struct step *s, uint32_t i, uint32_t channels, float **ret,
                          struct error *e)
{
    const struct graph_tensor *t = step_input(s, i);
    if (!t || !t->constant || t->n_elems != channels)
        return step_refuse(s, e, "its input %u is not a constant of %u channels", i, channels);
    return step_floats(s, t, ret, e);
}

// The parameters, repeated for p->together pixels (see the drawing above).
static int repeat_parameters(struct step *s, struct batch_norm *p, size_t channels, struct error *e)
{
    size_t n = channels * p->together;
    float *factor = step_alloc(s, n, sizeof *factor), *term = step_alloc(s, n, sizeof *term);
    if (!factor || !term)
        return error_no_memory(e, "a step", n * sizeof *factor);
    for (size_t i = 0; i < n; i++) {
        factor[i] = p->factor[i % channels];
        term[i] = p->term[i % channels];
    }
    p->factor = factor;
    p->term = term;
    return 0;
}

// ONNX's parameters: scale, bias, mean, variance.
static int take_reals(struct step *s, struct batch_norm *p, uint32_t channels, struct error *e)
{
    float *mean, *variance;
    if (take_parameter(s, 1, channels, &p->factor, e) < 0 ||
        take_parameter(s, 2, channels, &p->term, e) < 0 ||
        take_parameter(s, 3, channels, &mean, e) < 0 ||
        take_parameter(s, 4, channels, &variance, e) < 0)
        return STATUS_MODEL_INVALID;
    for (uint32_t c = 0; c < channels; c++) {
        p->factor[c] /= sqrtf(variance[c] + s->node->norm.epsilon);
        p->term[c] -= mean[c] * p->factor[c];
    }
    return 0;
}

// A .rknn file's int16 scale and int32 bias, in units of x's scale times that of the parameter. The
// bias is made for stored inputs: adding zp * scale makes it one for real inputs.
static int take_integers(struct step *s, struct batch_norm *p, uint32_t channels, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *scale = step_input(s, 1);
    if (take_parameter(s, 1, channels, &p->factor, e) < 0 ||
        take_parameter(s, 2, channels, &p->term, e) < 0)
        return STATUS_MODEL_INVALID;
    double unit = (double)x->scale * (double)scale->scale;
    for (uint32_t c = 0; c < channels; c++) {
        double stored = (int16_t)read_le16(scale->data.data + 2 * c);
        double bias = (int32_t)read_le32(step_input(s, 2)->data.data + 4 * c);
        p->term[c] = (float)((x->zp * stored + bias) * unit);
    }
    return 0;
}

// The chip's integers, where floats hold them all; and a Relu at most behind them.
static void take_exact(const struct step *s, struct batch_norm *p, uint32_t channels)
{
    const struct graph_node *n = s->node;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    const uint8_t *scale = step_input(s, 1)->data.data, *bias = step_input(s, 2)->data.data;
    bool relu = n->n_post == 1 && n->post[0].kind == POST_RELU;
    p->exact = n->norm.integer && n->norm.out.factor && (relu || !n->n_post) && x->channels_last &&
               y->type == TENSOR_INT8;
    for (uint32_t c = 0; c < channels && p->exact; c++) {
        int64_t factor = (int16_t)read_le16(scale + 2 * c), term = (int32_t)read_le32(bias + 4 * c);
        p->exact = int8_scale_exact_fits(factor, term, n->norm.out);
    }
    for (uint32_t c = 0; c < channels && p->exact; c++) {
        p->factor[c] = (int16_t)read_le16(scale + 2 * c);
        p->term[c] = (float)(int32_t)read_le32(bias + 4 * c);
    }
    p->out = n->norm.out;
    p->low = relu && y->zp > -128 ? y->zp : -128;
}

static int prepare_batch_norm(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct batch_norm *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (x->n_dims < 2 || x->n_dims != y->n_dims || !x->n_elems || x->n_elems != y->n_elems ||
        memcmp(x->dims, y->dims, x->n_dims * sizeof *x->dims) != 0 ||
        x->channels_last != y->channels_last)
        return step_refuse(s, e, "input and output differ in shape");
    if (!element_type_known(x->type) || !element_type_known(y->type))
        return step_refuse(s, e, "its types are not supported");
    uint32_t channels = x->dims[1];
    int r =
        s->node->norm.integer ? take_integers(s, p, channels, e) : take_reals(s, p, channels, e);
    if (r < 0)
        return r;
    if (s->node->norm.integer)
        take_exact(s, p, channels);
    p->fp16 = fp16_binary_fits() && clamp_bounds(s->node->post, s->node->n_post, &p->bounds) &&
              x->channels_last && x->type == TENSOR_FLOAT16 && y->type == TENSOR_FLOAT16;
    p->int8 = kernel_has_avx2() && clamp_bounds(s->node->post, s->node->n_post, &p->bounds) &&
              x->channels_last && x->type == TENSOR_INT8 && y->type == TENSOR_INT8;
    p->together = x->channels_last && channels < ELEMENTS_CHUNK ? ELEMENTS_CHUNK / channels : 1;
    return p->together > 1 ? repeat_parameters(s, p, channels, e) : 0;
}

// y = x * factor + term; y may be x.
KERNEL(void, scale_rows,
       (const float *x, const float *restrict factor, const float *restrict term, size_t n,
        float *y),
       (x, factor, term, n, y))
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * factor[i] + term[i];
}

// Rows of floats along the channels, which are scaled from where they are to where they go.
static bool norm_is_direct(const struct graph_tensor *x, const struct graph_tensor *y,
                           const void *src, const void *dst)
{
    return x->channels_last && x->type == TENSOR_FLOAT32 && y->type == TENSOR_FLOAT32 &&
           !x->quantized && !y->quantized && (uintptr_t)src % sizeof(float) == 0 &&
           (uintptr_t)dst % sizeof(float) == 0;
}

// n elements of a row along the channels of pixels, with parameters from `first` on, or of a row of
// channel `first`.
static void norm_part(const struct step *s, size_t first, const uint8_t *src, size_t n,
                      uint8_t *dst)
{
    const struct batch_norm *p = s->state;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct element_form from = element_form(x), to = element_form(y);
    const float *factor = p->factor + first, *term = p->term + first;
    float v[ELEMENTS_CHUNK];
    if (p->fp16) {
        fp16_scale(src, factor, term, n, p->bounds, dst);
        return;
    }
    if (p->exact) {
        int8_scale_exact(src, factor, term, n, p->out, p->low, y->zp, dst);
        return;
    }
    if (p->int8) {
        const struct element_form forms[2] = {from, to};
        int8_scale(forms, src, factor, term, n, p->bounds, dst);
        return;
    }
    if (norm_is_direct(x, y, src, dst)) {
        float *to_floats = (float *)(void *)dst;
        scale_rows((const float *)(const void *)src, factor, term, n, to_floats);
        for (uint32_t i = 0; i < s->node->n_post; i++)
            elements_post(&s->node->post[i], to_floats, n);
        return;
    }
    elements_load(&from, src, n, v);
    if (x->channels_last)
        scale_rows(v, factor, term, n, v);
    else
        elements_post(&(struct graph_post){.kind = POST_SCALE, .alpha = *factor, .beta = *term}, v,
                      n);
    for (uint32_t i = 0; i < s->node->n_post; i++)
        elements_post(&s->node->post[i], v, n);
    elements_store(&to, dst, n, v);
}

static int run_batch_norm(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct batch_norm *p = s->state;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    const uint8_t *src = run_input(s, r, 0);
    uint8_t *dst = run_output(s, r, 0);
    size_t channels = x->dims[1], inner = x->n_elems / channels / x->dims[0];
    size_t x_size = tensor_type_size(x->type), y_size = tensor_type_size(y->type);
    bool last = x->channels_last;
    size_t row = last ? channels * p->together : inner, channel = 0;
    for (size_t first = 0; first < x->n_elems; first += row, channel = (channel + 1) % channels) {
        size_t n_row = x->n_elems - first < row ? x->n_elems - first : row;
        for (size_t done = 0; done < n_row; done += ELEMENTS_CHUNK) {
            size_t n = n_row - done < ELEMENTS_CHUNK ? n_row - done : ELEMENTS_CHUNK,
                   at = first + done;
            norm_part(s, last ? done : channel, src + at * x_size, n, dst + at * y_size);
            run_wrote(r, at + n);
        }
    }
    return 0;
}

// ---- LayerNormalization, exNorm ----

// y = (x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance of each group of n
// contiguous elements, summed in doubles (rms: without the mean).

#define GROUPS 64 // that are worked on together, at most

struct layer_norm {
    size_t n;            // elements of a group, which are contiguous
    size_t period;       // … for which there are parameters; then these repeat
    float *scale, *bias; // NULL: none
    uint64_t scratch;
};

// Same shape and storage order, in types that can be converted.
static bool norm_fits(const struct step *s)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    return x->n_elems == y->n_elems && x->n_elems && x->n_dims == y->n_dims &&
           memcmp(x->dims, y->dims, x->n_dims * sizeof *x->dims) == 0 &&
           x->channels_last == y->channels_last && element_type_known(x->type) &&
           element_type_known(y->type);
}

// Elements that share mean and variance: the channels of a pixel, or all from the axis on.
static size_t group_size(const struct graph_node *n, const struct graph_tensor *x)
{
    size_t size = 1;
    if (n->layer_norm.image == NORM_PIXELS)
        return x->dims[1];
    for (uint32_t i = (uint32_t)n->axis; i < x->n_dims; i++)
        size *= x->dims[i];
    return size;
}

// As many groups together as fit a chunk, or one.
static size_t norm_groups_together(const struct layer_norm *p)
{
    size_t fit = ELEMENTS_CHUNK / p->n;
    return fit < 1 ? 1 : fit < GROUPS ? fit : GROUPS;
}

static int take_optional(struct step *s, uint32_t i, size_t n, float **ret, struct error *e)
{
    return step_input(s, i) ? take_parameter(s, i, (uint32_t)n, ret, e) : 0;
}

static int prepare_layer_norm(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0);
    bool image = s->node->layer_norm.image != NORM_TAIL;
    struct layer_norm *p = s->state = step_alloc(s, 1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a step", sizeof *p);
    if (image && !x->channels_last)
        return step_refuse(s, e, "it works on tensors with image layout only");
    if (!norm_fits(s))
        return step_refuse(s, e, "input and output do not fit together");
    p->n = group_size(s->node, x);
    p->period = image ? x->dims[1] : p->n;
    if (take_optional(s, 1, p->period, &p->scale, e) < 0 ||
        take_optional(s, 2, p->period, &p->bias, e) < 0)
        return STATUS_MODEL_INVALID;
    return step_scratch(s, norm_groups_together(p) * p->n * sizeof(float), &p->scratch, e);
}

#define LANES 8 // of doubles

// What is known of some groups. Of each a sum waits for the one before it, and a root and a
// quotient for that; those of several groups do not wait for each other.
struct norm_groups {
    size_t count;
    double means[GROUPS], factors[GROUPS];
};

static inline __attribute__((always_inline)) double sum_of(const float *v, size_t n)
{
    double sums[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            sums[l] += v[i + l];
    for (; i < n; i++)
        sum += v[i];
    for (size_t l = 0; l < LANES; l++)
        sum += sums[l];
    return sum;
}

static inline __attribute__((always_inline)) double sum_of_squares(const float *v, double mean,
                                                                   size_t n)
{
    double sums[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            sums[l] += (v[i + l] - mean) * (v[i + l] - mean);
    for (; i < n; i++)
        sum += (v[i] - mean) * (v[i] - mean);
    for (size_t l = 0; l < LANES; l++)
        sum += sums[l];
    return sum;
}

// Two passes in double; with rms, the mean is 0.
KERNEL(void, norm_find_factors,
       (const struct graph_layer_norm *how, const float *v, size_t n, struct norm_groups *groups),
       (how, v, n, groups))
{
    const size_t count = groups->count;
    const double epsilon = (double)how->epsilon, size = (double)n;
    double *means = groups->means, *factors = groups->factors;
    for (size_t g = 0; g < count; g++)
        means[g] = how->rms ? 0 : sum_of(v + g * n, n) / size;
    for (size_t g = 0; g < count; g++)
        factors[g] = sum_of_squares(v + g * n, means[g], n);
    if (how->sum)
        for (size_t g = 0; g < count; g++)
            factors[g] = 1 / fmax(sqrt(factors[g]), epsilon);
    else
        for (size_t g = 0; g < count; g++)
            factors[g] = 1 / sqrt(factors[g] / size + epsilon);
}

// n elements that have parameters of their own.
static inline __attribute__((always_inline)) void scale_group(float *restrict v, double mean,
                                                              double factor,
                                                              const float *restrict scale,
                                                              const float *restrict bias, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((v[i] - mean) * factor);
    for (size_t i = 0; i < n && scale; i++)
        v[i] *= scale[i];
    for (size_t i = 0; i < n && bias; i++)
        v[i] += bias[i];
}

KERNEL(void, scale_groups, (const struct layer_norm *p, const struct norm_groups *groups, float *v),
       (p, groups, v))
{
    for (size_t g = 0; g < groups->count; g++)
        for (size_t i = 0; i < p->n; i += p->period, v += p->period)
            scale_group(v, groups->means[g], groups->factors[g], p->scale, p->bias, p->period);
}

static int run_layer_norm(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct layer_norm *p = s->state;
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct element_form from = element_form(x), to = element_form(y);
    const uint8_t *src = run_input(s, r, 0);
    uint8_t *dst = run_output(s, r, 0);
    float *v = run_scratch(r, p->scratch);
    struct norm_groups groups;
    const size_t together = norm_groups_together(p) * p->n;
    for (size_t at = 0, n; at < x->n_elems; at += n) {
        n = x->n_elems - at < together ? x->n_elems - at : together;
        groups.count = n / p->n;
        elements_load(&from, src + at * tensor_type_size(x->type), n, v);
        norm_find_factors(&s->node->layer_norm, v, p->n, &groups);
        scale_groups(p, &groups, v);
        elements_store(&to, dst + at * tensor_type_size(y->type), n, v);
    }
    return 0;
}

const struct op op_norm = {.prepare = prepare_batch_norm, .run = run_batch_norm, .in_place = true};
const struct op op_layer_norm = {.prepare = prepare_layer_norm, .run = run_layer_norm};
