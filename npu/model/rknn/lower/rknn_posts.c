// Activations: operators of their own ("Sigmoid"), and those fused into others, which the
// operator's name lists in order ("ConvAddRelu": convolution, then addition, then Relu). Parameters
// come from attributes; where a convolution has none, from its register commands (fp16) or not at
// all (int8: rknn_conv.c uses the chip's lookup table).
#include <math.h>
#include <stdlib.h>

#include "npu/model/rknn/lower/rknn_lower.h"
#include "tensor/convert.h"

// Fields of DPU_BN_CFG.
#define BN_BYPASS      (1u << 0)
#define BN_MUL_BYPASS  (1u << 4)
#define BN_MUL_PRELU   (1u << 5) // only negative values are multiplied
#define BN_RELU_BYPASS (1u << 6)
#define BN_RELUX       (1u << 7) // the Relu has an upper bound, DPU_BN_RELUX_CMP

#define BN_FACTOR(value) ((uint16_t)((value) >> 16)) // of DPU_BN_MUL_CFG; fp16

#define MIN_TOP 1024 // of a table that a slope is read from: less would be too coarse

// ---- what an activation is given ----

// Refuses an activation whose parameters the file does not give.
static int not_said(struct rknn_lowering *l, enum graph_post_kind kind, struct error *e)
{
    if (kind == POST_LEAKY_RELU)
        return lower_refuse(l, e, "the file does not say the slope of its LeakyRelu");
    return lower_refuse(l, e, "the file does not say the bounds of its %s",
                        kind == POST_CLIP ? "Clip" : "HardSigmoid");
}

// NaN marks a parameter that is not known.
static bool lacks_numbers(const struct graph_post *post)
{
    return isnan(post->alpha) || isnan(post->beta);
}

// A Clip of its own has its bounds as inputs 1 and 2; one that is left out does not bound. A bound
// that is computed by another node stays NaN and is refused.
static void bounds_of_inputs(const struct rknn_lowering *l, struct graph_post *post)
{
    if (isnan(post->alpha) && !lower_number(l, 1, &post->alpha) && !lower_input(l, 1))
        post->alpha = -INFINITY;
    if (isnan(post->beta) && !lower_number(l, 2, &post->beta) && !lower_input(l, 2))
        post->beta = INFINITY;
}

static bool is_conv(const struct rknn_lowering *l)
{
    return l->out->op == GRAPH_CONV || l->out->op == GRAPH_CONV_TRANSPOSE;
}

static int add_post(struct rknn_lowering *l, struct graph_post post, struct error *e)
{
    if (l->out->n_post == GRAPH_MAX_POST)
        return lower_refuse(l, e, "more than %d operators are fused into it", GRAPH_MAX_POST);
    l->out->post[l->out->n_post++] = post;
    return 0;
}

// Adds one activation with its parameters. Only a convolution may lack some here, as its registers
// may have them.
static int add_activation(struct rknn_lowering *l, const struct rknn_operator *a, struct error *e)
{
    struct graph_post post = {.kind = (enum graph_post_kind)a->kind,
                              .alpha = a->numbers.alpha,
                              .beta = a->numbers.beta,
                              .operand = -1};
    bool alone = l->out->op == GRAPH_UNARY;
    char form[8];
    if (a->numbers.a_name)
        post.alpha = (float)rknn_attr_float(l->node, a->numbers.a_name, (double)a->numbers.alpha);
    if (a->numbers.b_name)
        post.beta = (float)rknn_attr_float(l->node, a->numbers.b_name, (double)a->numbers.beta);
    rknn_attr_text(l->node, "approximate", "none", form, sizeof form);
    if (a->kind == POST_GELU && strcmp(form, "tanh") == 0)
        post.kind = POST_GELU_TANH;
    // A fused Clip of integers is in the output's own range already: its scale was made so.
    if (a->kind == POST_CLIP && !alone && lower_output(l, 0)->type == TENSOR_INT8)
        return 0;
    if (a->kind == POST_CLIP && alone)
        bounds_of_inputs(l, &post);
    if (lacks_numbers(&post) && !is_conv(l))
        return not_said(l, post.kind, e);
    return add_post(l, post, e);
}

// Takes the suffix apart from left to right.
int lower_posts(struct rknn_lowering *l, const char *suffix, int32_t addend, struct error *e)
{
    while (*suffix) {
        const struct rknn_operator *a = rknn_activation(suffix);
        int r;
        if (a) {
            suffix += strlen(a->name);
            r = add_activation(l, a, e);
        } else if (strncmp(suffix, "Add", 3) == 0 && addend >= 0) {
            suffix += 3;
            r = add_post(l, (struct graph_post){.kind = POST_ADD, .operand = addend}, e);
        } else {
            return lower_refuse(l, e, "operator \"%s\" is not known: \"%s\" in it is not",
                                l->node->op, suffix);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

// ---- what a convolution's register commands say ----

// Whether DPU_BN_CFG has `value` in the bits of `mask`.
static bool config_is(const struct rknn_lowering *l, uint32_t mask, uint32_t value)
{
    uint32_t config;
    return rknn_regs_get(l->regs, DPU_BN_CFG, &config) && (config & mask) == value;
}

// The BN unit's factor in fp16, of negative values or of all. RK3576 and RV1126B have it in the
// tensor that RDMA_BN_BASE points to, behind 32 bytes of addends where a lookup table follows (as
// integers have it: rknn_stages.c).
static bool fp16_factor(const struct rknn_lowering *l, bool negatives, float *ret)
{
    enum { MEMORY_LEAKY = 0x402, MEMORY_TABLE = 0x20, ADDEND_BYTES = 32 };
    const uint32_t fields = BN_BYPASS | BN_MUL_BYPASS | BN_MUL_PRELU;
    uint32_t operand;
    if (!l->chip->bn_in_memory) {
        if (!config_is(l, fields, negatives ? BN_MUL_PRELU : 0) ||
            !rknn_regs_get(l->regs, DPU_BN_MUL_CFG, &operand))
            return false;
        *ret = convert_fp16_to_float(BN_FACTOR(operand));
        return isfinite(*ret);
    }
    int32_t index = rknn_regs_tensor(l->regs, RDMA_BN_BASE);
    struct bytes b = index < 0 ? (struct bytes){0} : l->f->tensors[index].data;
    size_t at = negatives ? 0 : ADDEND_BYTES;
    if (!config_is(l, UINT32_MAX, negatives ? MEMORY_LEAKY : MEMORY_TABLE) || b.size < at + 2)
        return false;
    *ret = convert_fp16_to_float(read_le16(b.data + at));
    return isfinite(*ret);
}

// LeakyRelu in fp16. Of the newer chips no such file was seen: a slope as integers have it, in
// units of 2^-14, would be a half below the least that is taken.
static bool fp16_slope(const struct rknn_lowering *l, struct graph_post *post)
{
    const float least = 0.009f, most = 1;
    if (!fp16_factor(l, true, &post->alpha))
        return false;
    return l->chip->bn_relu_field || (post->alpha >= least && post->alpha <= most);
}

// Clip in fp16 from 0: BN's Relu with an upper bound, a float in DPU_BN_RELUX_CMP. On newer chips
// one of BN's bounds, of which no such file was seen: what could be no float is not taken.
static bool fp16_top(const struct rknn_lowering *l, struct graph_post *post)
{
    const float least = 1.0f / 64, most = 65504;
    uint32_t bits, low;
    if (l->chip->bn_relu_field) {
        if (!config_is(l, BN_BYPASS | BN_RELU_BYPASS | BN_RELUX, BN_RELUX) ||
            !rknn_regs_get(l->regs, DPU_BN_RELUX_CMP, &bits))
            return false;
    } else if (!config_is(l, BN_BYPASS, 0) || !rknn_regs_get(l->regs, DPU_BN_LOW_1, &low) || low ||
               !rknn_regs_get(l->regs, DPU_BN_HIGH_1, &bits)) {
        return false;
    }
    post->alpha = 0;
    post->beta = bits_float(bits);
    if (l->chip->bn_relu_field)
        return isfinite(post->beta) && post->beta > 0;
    return post->beta >= least && post->beta <= most;
}

// A HardSigmoid is in the node's lookup table: 1/2 at its beginning, 1 at its end, and the slope in
// between. The BN unit has the factor that leads into it, in fp16. The slope is read from the
// last point below 7/8, far from the rounding of the first points and from the saturated end. A
// table of another form is not taken.
static bool hard_sigmoid(const struct rknn_lowering *l, struct graph_post *post)
{
    enum { LAST = RKNN_LUT_POINTS - 1, STEP = 32 };
    int16_t points[2][RKNN_LUT_POINTS];
    float gain;
    if (!fp16_factor(l, false, &gain) || !rknn_regs_lut_range(l->regs) ||
        !rknn_regs_lut(l->regs, l->f, l->node, points))
        return false;
    const int16_t *above = points[1];
    int one = above[LAST], half = above[0], i = LAST;
    while (i > 0 && above[i] > one - one / 8)
        i--;
    if (one < MIN_TOP || above[LAST - 1] != one || abs(2 * half - one) > 2 || i == 0)
        return false;
    post->alpha = (float)(above[i] - half) / (float)(i * STEP) * gain / (float)one;
    post->beta = 0.5f;
    return isfinite(post->alpha) && post->alpha > 0;
}

float lower_fp16_gain(const struct rknn_lowering *l)
{
    float gain;
    return fp16_factor(l, false, &gain) ? gain : NAN;
}

// Fills parameters that are still NaN from registers; each finder leaves `found` unused on failure.
void lower_fp16_posts(struct rknn_lowering *l)
{
    for (uint32_t i = 0; i < l->out->n_post; i++) {
        struct graph_post *post = &l->out->post[i], found = *post;
        bool ok =
            lacks_numbers(post) && ((post->kind == POST_LEAKY_RELU && fp16_slope(l, &found)) ||
                                    (post->kind == POST_CLIP && fp16_top(l, &found)) ||
                                    (post->kind == POST_HARD_SIGMOID && hard_sigmoid(l, &found)));
        if (ok)
            *post = found;
    }
}

int lower_check_posts(struct rknn_lowering *l, struct error *e)
{
    for (uint32_t i = 0; i < l->out->n_post; i++)
        if (lacks_numbers(&l->out->post[i]))
            return not_said(l, l->out->post[i].kind, e);
    return 0;
}
