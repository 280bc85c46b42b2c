// An input is bound in the form of the first sample; all samples of a list mostly have the same.
// Those of another form, or in a layout that only the client library turns, are given as programs
// do it, which unbinds the input.
//
// What came out is copied before it is read: a server could change its memory between a check and
// what relies on it.
#include "quant/calibrate/quant_bound.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rknnd.h"

#define GROUP_NS    8000000u   // that a request takes at most, about
#define GROUP_WORDS (1u << 19) // bytes that come out of it: the second cache has room for them
#define GROUP_BYTES (1u << 20) // of inputs

int quant_bound_init(struct quant_bound *b, rknn_context context, uint32_t n_inputs,
                     const rknn_tensor_attr *inputs)
{
    rknn_tensor_attr out = {.index = 0};
    struct quant_bound own = {.context = context,
                              .n_inputs = n_inputs,
                              .inputs = calloc((size_t)n_inputs + 1, sizeof *own.inputs)};
    int r = own.inputs ? rknn_query(context, RKNN_QUERY_CURRENT_OUTPUT_ATTR, &out, sizeof out)
                       : RKNN_ERR_MALLOC_FAIL;
    for (uint32_t i = 0; i < n_inputs && r == 0; i++)
        own.inputs[i].attr = inputs[i];
    own.output_size = out.size;
    own.most = out.size ? GROUP_WORDS / out.size : 1;
    own.most = own.most < 1 ? 1 : own.most > QUANT_MOST_GROUP ? QUANT_MOST_GROUP : own.most;
    own.words = malloc((size_t)own.most * out.size + 1);
    if (r == 0 && !(own.words && (own.output = rknn_create_mem(context, own.most * out.size))))
        r = RKNN_ERR_MALLOC_FAIL;
    if (r == 0)
        r = rknn_set_io_mem(context, own.output, &out);
    if (r == 0)
        *b = own;
    else
        quant_bound_done(&own);
    return r;
}

static void bound_release(const struct quant_bound *b, struct quant_bound_input *in)
{
    if (in->mem)
        rknn_destroy_mem(b->context, in->mem);
    in->mem = NULL;
}

void quant_bound_done(struct quant_bound *b)
{
    for (uint32_t i = 0; b->inputs && i < b->n_inputs; i++)
        bound_release(b, &b->inputs[i]);
    if (b->output)
        rknn_destroy_mem(b->context, b->output);
    free(b->inputs);
    free(b->words);
    *b = (struct quant_bound){0};
}

// Whether the sample lies as the memory is bound.
static bool bound_fits(const struct quant_bound_input *in, const rknn_input *sample)
{
    return in->mem && in->attr.type == sample->type && in->size == sample->size;
}

// False: such a sample cannot be bound.
static bool bound_bind(const struct quant_bound *b, struct quant_bound_input *in,
                       const rknn_input *sample)
{
    bool as_it_is = in->attr.n_dims != 4 || sample->fmt == in->attr.fmt;
    if (sample->pass_through || !as_it_is || !sample->buf || !sample->size)
        return false;
    if (bound_fits(in, sample))
        return true;
    bound_release(b, in);
    rknn_tensor_attr attr = in->attr;
    attr.type = sample->type;
    attr.pass_through = 0;
    attr.w_stride = attr.h_stride = 0;
    uint32_t room = b->most > 1 ? GROUP_BYTES / sample->size : 1;
    room = room < 1 ? 1 : room > b->most ? b->most : room;
    rknn_tensor_mem *mem = rknn_create_mem(b->context, room * sample->size);
    if (mem && rknn_set_io_mem(b->context, mem, &attr) == 0) {
        in->mem = mem;
        in->attr.type = sample->type;
        in->size = sample->size;
        in->room = room;
        return true;
    }
    if (mem)
        rknn_destroy_mem(b->context, mem);
    return false;
}

static int bound_give(const struct quant_bound *b, rknn_input *sample)
{
    struct quant_bound_input *in = &b->inputs[sample->index];
    if (bound_bind(b, in, sample)) {
        memcpy(in->mem->virt_addr, sample->buf, sample->size);
        return 0;
    }
    int r = rknn_inputs_set(b->context, 1, sample);
    bound_release(b, in);
    return r;
}

uint32_t quant_bound_group(const struct quant_bound *b)
{
    uint32_t n = b->most;
    for (uint32_t i = 0; i < b->n_inputs; i++)
        if (!b->inputs[i].mem || b->inputs[i].room < n)
            n = b->inputs[i].mem ? b->inputs[i].room : 1;
    uint64_t together = b->took ? GROUP_NS / b->took : 1;
    return together < n ? together < 1 ? 1 : (uint32_t)together : n;
}

bool quant_bound_put(struct quant_bound *b, const rknn_input *inputs, uint32_t at)
{
    for (uint32_t i = 0; i < b->n_inputs; i++) {
        const rknn_input *sample = &inputs[i];
        const struct quant_bound_input *in = &b->inputs[sample->index % b->n_inputs];
        bool as_it_is = in->attr.n_dims != 4 || sample->fmt == in->attr.fmt;
        if (sample->index >= b->n_inputs || sample->pass_through || !as_it_is || !sample->buf ||
            !bound_fits(in, sample) || at >= in->room)
            return false;
        memcpy((char *)in->mem->virt_addr + (size_t)at * in->size, sample->buf, in->size);
    }
    return true;
}

// What came out is in the server's memory: it is copied before anybody looks at it.
static void bound_ran(struct quant_bound *b, uint32_t n, uint64_t begun)
{
    b->took = (clock_ns() - begun) / n + 1;
    memcpy(b->words, b->output->virt_addr, (size_t)n * b->output_size);
}

int quant_bound_run_group(struct quant_bound *b, uint32_t n)
{
    uint64_t begun = clock_ns();
    int r = rknnd_run_samples(b->context, n);
    if (r == 0)
        bound_ran(b, n, begun);
    else
        b->most = 1;
    return r;
}

int quant_bound_run(struct quant_bound *b, rknn_input *inputs)
{
    int r = 0;
    for (uint32_t i = 0; i < b->n_inputs && r == 0; i++)
        r = inputs[i].index < b->n_inputs ? bound_give(b, &inputs[i]) : RKNN_ERR_INPUT_INVALID;
    uint64_t begun = clock_ns();
    if (r == 0)
        r = rknn_run(b->context, NULL);
    if (r == 0)
        bound_ran(b, 1, begun);
    return r;
}

const int32_t *quant_bound_words(const struct quant_bound *b, uint32_t at, uint64_t *ret_n)
{
    *ret_n = b->output_size / sizeof *b->words;
    return b->words + at * *ret_n;
}
