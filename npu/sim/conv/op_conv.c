// The operators Conv and ConvTranspose: checks, the choice of the kernel, scratch memory, running.
//
// Choice: depthwise, VNNI or its like, oneDNN, int16 and plain for integers, the first that fits;
// oneDNN for floats, but depthwise where the image is not stored as floats, or oneDNN has no kernel
// for it, and floats/ for small windows over what is not stored as floats. A transposed convolution
// is one over an image with stride - 1 zeros between its pixels; these zeros are left out where
// possible (transposed/conv_phases.h).
//
// Tests: test_sim_conv (which kernel is chosen, too), test_sim_cases_conv, _depthwise and _deconv.
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/conv/transposed/conv_phases.h"
#include "npu/sim/exec/ops.h"

// ---- preparation ----

static int64_t conv_reach(const struct graph_window *w, int i)
{
    return (int64_t)w->dilation[i] * (w->kernel[i] - 1);
}

static int conv_check_size(const struct step *s, const struct conv *c, struct error *e)
{
    const uint32_t in[2] = {c->ih, c->iw}, out[2] = {c->oh, c->ow};
    const struct graph_window *w = &c->window;
    for (int i = 0; i < 2; i++) {
        int64_t room = (int64_t)in[i] + w->pad[i] + w->pad[2 + i] - conv_reach(w, i) - 1;
        if (room < 0 || room / w->stride[i] + 1 != out[i])
            return step_refuse(s, e, "an image of %u does not give one of %u in dimension %d",
                               in[i], out[i], 2 + i);
    }
    return 0;
}

// A transposed convolution is one over an image with zeros between its pixels.
static int conv_insert_zeros(const struct step *s, struct conv *c, struct error *e)
{
    struct graph_window *w = &c->window;
    uint32_t *size[2] = {&c->ih, &c->iw};
    const uint32_t out[2] = {c->oh, c->ow};
    c->transposed = true;
    c->x_h = c->ih;
    c->x_w = c->iw;
    for (int i = 0; i < 2; i++) {
        int64_t wide = (int64_t)(*size[i] - 1) * w->stride[i] + 1;
        int64_t before = conv_reach(w, i) - w->pad[i],
                after = out[i] - wide - before + conv_reach(w, i);
        if (before < 0 || after < 0 || wide > INT32_MAX)
            return step_refuse(s, e, "its padding is larger than its kernel");
        if (after >=
            conv_reach(w, i) + (w->stride[i] > w->dilation[i] ? w->stride[i] : w->dilation[i]))
            return step_refuse(s, e, "an image of %u does not give one of %u in dimension %d",
                               *size[i], out[i], 2 + i);
        c->stride[i] = w->stride[i];
        w->stride[i] = 1;
        w->pad[i] = (uint32_t)before;
        w->pad[2 + i] = (uint32_t)after;
        *size[i] = (uint32_t)wide;
    }
    return 0;
}

// The operands of sums that are an output: zero point, scale and addend; activations only behind
// real numbers.
static bool conv_sums_fit(const struct step *s)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0), *zp = step_input(s, 3),
                              *scale = step_input(s, 4), *addend = step_input(s, 5);
    bool real = y->type == TENSOR_FLOAT32, fits = real || y->type == TENSOR_INT32;
    fits = fits && !x->quantized && (real || (!scale && !addend && !s->node->n_post));
    for (uint32_t i = 0; i < s->node->n_post && fits; i++)
        fits = s->node->post[i].kind != POST_ADD;
    return fits && (!zp || (tensor_type_size(zp->type) == 1 && zp->n_elems == 1)) &&
           (!scale || (scale->type == TENSOR_FLOAT32 && scale->n_elems == 1)) &&
           (!addend || (addend->type == TENSOR_FLOAT32 && addend->constant && !addend->unpack &&
                        addend->n_elems == y->dims[1]));
}

static int conv_check_operands(const struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *w = step_input(s, 1);
    const struct graph_tensor *b = step_input(s, 2), *y = step_output(s, 0);
    const struct graph_window *window = &s->node->window;
    uint32_t g = window->groups;
    if (!x || !w || !y || x->n_dims != 4 || w->n_dims != 4 || y->n_dims != 4 || !w->constant)
        return step_refuse(s, e, "an image and a constant weight are needed");
    if (!x->channels_last || !y->channels_last || !x->n_elems || !y->n_elems)
        return step_refuse(s, e, "its image is not laid out as one, or is empty");
    if (!g || x->dims[1] % g || y->dims[1] % g || w->dims[0] != y->dims[1] ||
        w->dims[1] != x->dims[1] / g || w->dims[2] != window->kernel[0] ||
        w->dims[3] != window->kernel[1] || x->dims[0] != y->dims[0])
        return step_refuse(
            s, e, "its weight %ux%ux%ux%u does not fit %u -> %u channels in %u groups", w->dims[0],
            w->dims[1], w->dims[2], w->dims[3], x->dims[1], y->dims[1], g);
    if (s->node->quant ? (w->type != TENSOR_INT8 || x->type != TENSOR_INT8)
                       : (b && (!b->constant || b->n_elems < y->dims[1])))
        return step_refuse(s, e, "its weight or bias does not fit");
    if (s->node->quant && s->node->quant->sums && !conv_sums_fit(s))
        return step_refuse(s, e, "its sums do not fit its output");
    for (uint32_t i = 0; i < s->node->n_post; i++) {
        const struct graph_post *post = &s->node->post[i];
        if (post->kind != POST_ADD)
            continue;
        const struct graph_tensor *a = &s->plan->graph->tensors[post->operand];
        if (a->constant || !a->channels_last || a->n_dims != 4 || !element_type_known(a->type) ||
            memcmp(a->dims, y->dims, 4 * sizeof *a->dims) != 0)
            return step_refuse(s, e, "what is added, %s, has not the output's shape", a->name);
    }
    return 0;
}

static void conv_take_sizes(const struct step *s, struct conv *c)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    *c = (struct conv){.n = x->dims[0],
                       .ic = x->dims[1],
                       .ih = x->dims[2],
                       .iw = x->dims[3],
                       .oc = y->dims[1],
                       .oh = y->dims[2],
                       .ow = y->dims[3],
                       .window = s->node->window,
                       .integer = s->node->quant != NULL,
                       .x_zp = x->zp};
}

static void conv_choose_kernel(const struct step *s, struct conv *c)
{
    if (!c->integer)
        c->kernel = CONV_DNN;
    else if (c->window.groups == c->ic && c->ic == c->oc && conv_depthwise_fits(s))
        c->kernel = CONV_DEPTHWISE;
    else if (conv_vnni_fits(s, c) && !s->node->quant->nz_in_taps)
        c->kernel = CONV_VNNI;
    else if (dnn_int8_is_exact() && !s->node->quant->nz_in_taps && conv_dnn_is_exact(s, c))
        c->kernel = CONV_DNN;
    else
        c->kernel = conv_int16_fits(c) ? CONV_INT16 : CONV_PLAIN;
}

static int conv_take_scratch(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0);
    uint64_t image = (uint64_t)c->n * c->ih * c->iw;
    c->own_image =
        c->transposed || (c->kernel == CONV_DNN && !c->integer && x->type != TENSOR_FLOAT32);
    uint64_t element = c->integer ? 1 : sizeof(float);
    if (c->own_image && step_scratch(s, image * c->ic * element, &c->image_at, e) < 0)
        return STATUS_MODEL_INVALID;
    if (c->kernel == CONV_DEPTHWISE)
        return conv_depthwise_scratch(s, c, e);
    if (c->kernel == CONV_VNNI)
        return conv_vnni_scratch(s, c, e);
    if (c->kernel == CONV_INT16)
        return conv_int16_scratch(s, c, e);
    if (c->kernel == CONV_FLOATS)
        return conv_floats_scratch(s, c, e);
    // The plain kernel finishes each row at once, oneDNN each tile.
    uint64_t lines = c->direct || c->in_output ? 0 : c->kernel == CONV_DNN ? conv_tile_lines(c) : 1;
    if (step_scratch(s, (lines * c->ow * c->oc + CONV_LANES) * 4, &c->sums_at, e) < 0)
        return STATUS_MODEL_INVALID;
    if (c->kernel == CONV_PLAIN)
        return step_scratch(s, image * c->ic * sizeof(int16_t), &c->lines_at, e);
    return c->nz ? conv_window_scratch(s, c, e) : 0;
}

int conv_prepare_weights(struct step *s, struct conv *c, int8_t *weights, struct error *e)
{
    conv_choose_kernel(s, c);
    int r = conv_integer_prepare(s, c, weights, e);
    if (r == 0)
        r = conv_take_scratch(s, c, e);
    return r == 0 && c->kernel == CONV_DNN ? conv_dnn_prepare(s, c, weights, e) : r;
}

static int conv_prepare_integer(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_tensor *w = step_input(s, 1);
    cleanup(free_p) int8_t *weights = malloc(w->size + 1);
    if (!weights)
        return error_no_memory(e, "a weight", w->size);
    graph_tensor_unpack(w, weights);
    int r = step_input(s, 5) ? step_floats(s, step_input(s, 5), &c->addend, e) : 0;
    if (r < 0)
        return r;
    return conv_phases_fit(s, c) ? conv_phases_prepare(s, c, weights, e)
                                 : conv_prepare_weights(s, c, weights, e);
}

// Floats that only activations follow stay where they will be; what is added behind them might be
// there before.
static bool conv_fits_output(const struct step *s, const struct conv *c)
{
    bool fits = step_output(s, 0)->type == TENSOR_FLOAT32 && !c->direct;
    for (uint32_t i = 0; i < s->node->n_post; i++)
        fits = fits && s->node->post[i].kind != POST_ADD;
    return fits;
}

int conv_prepare_floats(struct step *s, struct conv *c, float *weights, struct error *e)
{
    bool own = step_input(s, 0)->type != TENSOR_FLOAT32 || !conv_dnn_has_depthwise(s, c);
    if (own && conv_depthwise_fits_floats(c, weights)) {
        c->kernel = CONV_DEPTHWISE;
        int r = conv_depthwise_prepare_floats(s, c, weights, e);
        return r < 0 ? r : conv_take_scratch(s, c, e);
    }
    if (conv_floats_fits(s, c, weights)) {
        c->kernel = CONV_FLOATS;
        int r = conv_floats_prepare(s, c, weights, e);
        return r < 0 ? r : conv_take_scratch(s, c, e);
    }
    c->n_fused = conv_dnn_fuses(s->node);
    c->direct = step_output(s, 0)->type == TENSOR_FLOAT32 && c->n_fused == s->node->n_post;
    c->in_output = conv_fits_output(s, c);
    int r = conv_take_scratch(s, c, e);
    return r < 0 ? r : conv_dnn_prepare(s, c, weights, e);
}

static int conv_prepare_float(struct step *s, struct conv *c, struct error *e)
{
    const struct graph_tensor *w = step_input(s, 1), *b = step_input(s, 2);
    cleanup(free_p) float *weights = malloc(w->n_elems * sizeof *weights + 1);
    if (!weights)
        return error_no_memory(e, "a weight", w->n_elems * sizeof *weights);
    if (!element_type_known(w->type))
        return step_refuse(s, e, "weights of type %s are not supported", tensor_type_name(w->type));
    elements_of_constant(w, weights);
    int r = b ? step_floats(s, b, &c->float_bias, e) : 0;
    if (r < 0)
        return r;
    return conv_phases_fit(s, c) ? conv_phases_prepare(s, c, weights, e)
                                 : conv_prepare_floats(s, c, weights, e);
}

static int conv_prepare(struct step *s, struct error *e)
{
    struct conv *c = s->state = step_alloc(s, 1, sizeof *c);
    if (!c)
        return error_no_memory(e, "a step", sizeof *c);
    int r = conv_check_operands(s, e);
    if (r < 0)
        return r;
    conv_take_sizes(s, c);
    if (s->node->op == GRAPH_CONV_TRANSPOSE)
        r = conv_insert_zeros(s, c, e);
    if (r == 0)
        r = conv_check_size(s, c, e);
    if (r < 0)
        return r;
    return c->integer ? conv_prepare_integer(s, c, e) : conv_prepare_float(s, c, e);
}

// ---- running ----

// Floats of the image; pixels of a transposed one with zeros between.
static void conv_fill_image(const struct step *s, const struct conv *c, struct run *r)
{
    const struct graph_tensor *x = step_input(s, 0);
    const uint8_t *src = run_input(s, r, 0);
    uint8_t *image = run_scratch(r, c->image_at);
    struct element_form form = element_form(x);
    size_t element = c->integer ? 1 : sizeof(float), from = tensor_type_size(x->type);
    if (!c->transposed) {
        elements_load(&form, src, x->n_elems, (float *)image);
        return;
    }
    size_t line = (size_t)c->iw * c->ic * element;
    memset(image, c->integer ? (uint8_t)c->x_zp : 0, (size_t)c->n * c->ih * line);
    for (size_t n = 0; n < c->n; n++)
        for (size_t y = 0; y < c->x_h; y++)
            for (size_t i = 0; i < c->x_w; i++) {
                uint8_t *to = image + (n * c->ih + y * c->stride[0]) * line +
                              i * c->stride[1] * c->ic * element;
                const uint8_t *pixel = src + ((n * c->x_h + y) * c->x_w + i) * c->ic * from;
                if (c->integer)
                    memcpy(to, pixel, c->ic);
                else
                    elements_load(&form, pixel, c->ic, (float *)to);
            }
}

static int conv_run_dnn(const struct step *s, const struct conv *c, struct run *r,
                        const int8_t *image, struct error *e)
{
    if (c->direct)
        return dnn_call(s, r, c->tiles[0].call, e);
    void *sums = c->in_output ? NULL : run_scratch(r, c->sums_at);
    if (c->nz)
        conv_window_sums(c, r, image);
    for (uint32_t i = 0; i < c->n_tiles; i++) {
        const struct conv_tile *t = &c->tiles[i];
        if (c->in_output)
            sums = (float *)run_output(s, r, 0) + t->first * c->oc;
        int status = dnn_call_on(s, r, t->call, image + t->image, sums, e);
        if (status < 0)
            return status;
        conv_epilogue(s, c, r, sums, t->first, t->pixels);
    }
    return 0;
}

int conv_run(const struct step *s, struct run *r, struct error *e)
{
    const struct conv *c = s->state;
    if (c->phases)
        return conv_phases_run(s, c, r, e);
    if (c->own_image)
        conv_fill_image(s, c, r);
    const int8_t *image = c->own_image ? run_scratch(r, c->image_at) : run_input(s, r, 0);
    if (c->kernel == CONV_PLAIN)
        conv_plain_run(s, c, r, image);
    else if (c->kernel == CONV_DEPTHWISE)
        conv_depthwise_run(s, c, r, image);
    else if (c->kernel == CONV_VNNI)
        conv_vnni_run(s, c, r, image);
    else if (c->kernel == CONV_INT16)
        conv_int16_run(s, c, r, image);
    else if (c->kernel == CONV_FLOATS)
        conv_floats_run(s, c, r, image);
    else
        return conv_run_dnn(s, c, r, image, e);
    return 0;
}

const struct op op_conv = {.prepare = conv_prepare, .run = conv_run};
