// Whether an operator keeps samples apart is known of its kind (quant_batch.h); whether all of them
// do together is tried: unlike samples, by chance, have to come out of both models alike.
#include "quant/hybrid/quant_several.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_server.h"
#include "quant/model/quant_constant.h"
#include "quant/prepare/quant_batch.h"

#define ROOM       1e-3 // that outputs may differ by, of the largest number
#define MOST_BYTES ((size_t)INT32_MAX)

struct several {
    rknn_context one, all;
    bool has_one, has_all;
    uint32_t batch;
    rknn_input_output_num n;
    rknn_tensor_attr *attrs; // of each input of `one`
    char **inputs;           // of each, `batch` samples
    float **outputs;         // of each output, what `one` made of them
    struct error *e;
};

static void several_done(struct several *s)
{
    if (s->has_one)
        rknn_destroy(s->one);
    if (s->has_all)
        rknn_destroy(s->all);
    for (uint32_t i = 0; s->inputs && i < s->n.n_input; i++)
        free(s->inputs[i]);
    for (uint32_t i = 0; s->outputs && i < s->n.n_output; i++)
        free(s->outputs[i]);
    free(s->attrs);
    free(s->inputs);
    free(s->outputs);
}

static bool several_is_real(const rknn_tensor_attr *a)
{
    return a->type == RKNN_TENSOR_FLOAT32 || a->type == RKNN_TENSOR_FLOAT16;
}

// Of a sample, as it is given: real numbers have 32 bits, others their own.
static size_t several_size(const rknn_tensor_attr *a)
{
    return several_is_real(a) ? a->n_elems * sizeof(float) : a->size;
}

// Numbers of pixels; 0 or 1 where they are none. The same in each run.
static void several_fill(const rknn_tensor_attr *a, uint32_t batch, uint32_t *seed, char *to)
{
    size_t n = (size_t)a->n_elems * batch, width = several_size(a) / a->n_elems;
    for (size_t i = 0; i < n; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        float real = (float)(*seed >> 24);
        if (several_is_real(a))
            memcpy(to + i * width, &real, sizeof real);
        else
            to[i * width] = (char)(*seed >> 31); // little-endian
    }
}

static int several_query(struct several *s)
{
    uint32_t seed = 1;
    int r = rknn_query(s->one, RKNN_QUERY_IN_OUT_NUM, &s->n, sizeof s->n);
    if (r < 0)
        return quant_server_words(r, s->e);
    s->attrs = calloc((size_t)s->n.n_input + 1, sizeof *s->attrs);
    s->inputs = calloc((size_t)s->n.n_input + 1, sizeof *s->inputs);
    s->outputs = calloc((size_t)s->n.n_output + 1, sizeof *s->outputs);
    if (!s->attrs || !s->inputs || !s->outputs)
        return error_no_memory(s->e, "inputs", s->n.n_input);
    for (uint32_t i = 0; i < s->n.n_input; i++) {
        rknn_tensor_attr *a = &s->attrs[i];
        a->index = i;
        r = rknn_query(s->one, RKNN_QUERY_INPUT_ATTR, a, sizeof *a);
        if (r < 0)
            return quant_server_words(r, s->e);
        size_t size = a->n_elems ? several_size(a) : 0;
        if (!size || size > MOST_BYTES / s->batch)
            return error_set(s->e, STATUS_MODEL_INVALID, "input %s: so many samples do not fit",
                             a->name);
        s->inputs[i] = calloc(s->batch, size);
        if (!s->inputs[i])
            return error_no_memory(s->e, "inputs", size * s->batch);
        several_fill(a, s->batch, &seed, s->inputs[i]);
    }
    return 0;
}

// Runs `count` samples from `first` on.
static int several_run(const struct several *s, rknn_context context, uint32_t first,
                       uint32_t count, rknn_output *outputs)
{
    cleanup(free_p) rknn_input *inputs = calloc((size_t)s->n.n_input + 1, sizeof *inputs);
    if (!inputs)
        return error_no_memory(s->e, "inputs", 0);
    for (uint32_t i = 0; i < s->n.n_input; i++) {
        const rknn_tensor_attr *a = &s->attrs[i];
        size_t size = several_size(a);
        inputs[i] = (rknn_input){.index = i,
                                 .buf = s->inputs[i] + first * size,
                                 .size = (uint32_t)(count * size),
                                 .type = several_is_real(a) ? RKNN_TENSOR_FLOAT32 : a->type,
                                 .fmt = a->fmt};
    }
    for (uint32_t i = 0; i < s->n.n_output; i++)
        outputs[i] = (rknn_output){.want_float = 1, .index = i};
    int r = rknn_inputs_set(context, s->n.n_input, inputs);
    if (r == 0)
        r = rknn_run(context, NULL);
    if (r == 0)
        r = rknn_outputs_get(context, s->n.n_output, outputs, NULL);
    return r < 0 ? quant_server_words(r, s->e) : 0;
}

static int several_run_one(struct several *s, uint32_t sample, rknn_output *outputs)
{
    int r = several_run(s, s->one, sample, 1, outputs);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < s->n.n_output && r == 0; i++) {
        uint32_t size = outputs[i].size;
        if (!s->outputs[i])
            s->outputs[i] = calloc(s->batch, size ? size : 1);
        if (s->outputs[i])
            memcpy((char *)s->outputs[i] + (size_t)sample * size, outputs[i].buf, size);
        else
            r = error_no_memory(s->e, "outputs", size);
    }
    rknn_outputs_release(s->one, s->n.n_output, outputs);
    return r;
}

static bool several_alike(const float *a, const float *b, size_t n)
{
    double most = 0, off = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i]));
        double d = fabs((double)a[i] - (double)b[i]);
        off = d <= off ? off : d; // NaN is not alike
    }
    return off <= ROOM * most;
}

static int several_compare(struct several *s, rknn_output *outputs, const uint32_t *sizes)
{
    int r = several_run(s, s->all, 0, s->batch, outputs);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < s->n.n_output && r == 0; i++)
        if (outputs[i].size != (uint64_t)sizes[i] * s->batch ||
            !several_alike(s->outputs[i], outputs[i].buf, outputs[i].size / sizeof(float)))
            r = error_set(s->e, STATUS_MODEL_INVALID,
                          "for %u samples at once: the model mixes samples, or its shapes fix "
                          "their number: give one that was exported with a batch dimension",
                          s->batch);
    rknn_outputs_release(s->all, s->n.n_output, outputs);
    return r;
}

static int several_try(struct several *s, struct quant_model *one, struct quant_model *all)
{
    int r = quant_server_open(one, &s->one, s->e);
    s->has_one = r == 0;
    if (r == 0)
        r = quant_server_open(all, &s->all, s->e);
    s->has_all = s->has_one && r == 0;
    if (r == 0)
        r = several_query(s);
    if (r < 0)
        return r;
    cleanup(free_p) rknn_output *outputs = calloc((size_t)s->n.n_output + 1, sizeof *outputs);
    cleanup(free_p) uint32_t *sizes = calloc((size_t)s->n.n_output + 1, sizeof *sizes);
    if (!outputs || !sizes)
        return error_no_memory(s->e, "outputs", 0);
    for (uint32_t i = 0; i < s->batch && r == 0; i++)
        r = several_run_one(s, i, outputs);
    for (uint32_t i = 0; i < s->n.n_output; i++)
        sizes[i] = outputs[i].size;
    return r < 0 ? r : several_compare(s, outputs, sizes);
}

// Copies of a model share the types of its inputs, which are what changes: so it is read anew.
static int several_read_anew(struct quant_model *one, struct quant_model *ret, struct error *e)
{
    char path[32];
    cleanup(fd_close_p) int fd = -1;
    int r = quant_model_save_nameless(one, &fd, e);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return r < 0 ? r : quant_model_load(ret, path, e);
}

int quant_several_write(struct rknnd_quant *q, const char *path, uint32_t batch, struct error *e)
{
    struct several s = {.batch = batch, .e = e};
    struct quant_model one, all = {0};
    int r = quant_make(q, &one, e);
    if (r == 0)
        r = several_read_anew(&one, &all, e);
    if (r == 0)
        r = quant_batch(&all, batch, e);
    if (r == 0)
        r = several_try(&s, &one, &all);
    if (r == 0)
        r = quant_model_save(&all, path, q->parts, e);
    several_done(&s);
    quant_model_done(&one);
    quant_model_done(&all);
    return r;
}
