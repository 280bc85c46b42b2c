// ONNX files on their way to 8 bits: everything but the run of the float model, whose ranges are
// made up. What comes out is read again.
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "quant/plan/quant_rewrite.h"
#include "quant/prepare/quant_batch.h"
#include "quant/prepare/quant_equalize.h"
#include "quant/prepare/quant_half.h"
#include "quant/prepare/quant_opset.h"
#include "quant/prepare/quant_simplify.h"

#define MOST_BYTES 65536 // so that constants stay small

// The first input, by one number for each of three channels, or by one for all.
static int normalize(struct quant_model *m, size_t n_values, struct error *e)
{
    static const float mean[] = {1, 2, 3}, deviation[] = {0.5F, 1, 2};
    struct quant_index x;
    int r = quant_index_make(&x, m, e);
    const char *name = m->graph->n_input ? quant_text(m->graph->input[0]->name) : "";
    const struct quant_edge *edge = r == 0 ? quant_index_find(&x, name) : NULL;
    if (edge && edge->is_input && edge->type == QUANT_FLOAT)
        r = quant_normalize_input(m, &x, name, mean, deviation, n_values, e);
    quant_index_done(&x);
    return r;
}

static int prepare(struct quant_model *m, uint32_t what, struct error *e)
{
    uint32_t n;
    bool halves;
    int r = quant_widen_halves(m, &halves, e);
    if (r == 0)
        r = quant_opset_raise(m, e);
    if (r == 0)
        r = quant_simplify(m, e);
    if (r == 0 && !(what & 1))
        r = quant_fold_batch_norms(m, &n, e);
    if (r == 0 && !(what & 2))
        r = quant_equalize(m, &n, e);
    if (r == 0 && (what & 6) == 6)
        r = normalize(m, what & 8 ? 3 : 1, e);
    if (r == 0 && (what & 128))
        r = quant_batch(m, 3, e);
    return r < 0 ? r : quant_rewrite_prune(m, e);
}

static int rewrite(struct quant_model *m, const struct quant_index *x,
                   const struct quant_plan *plan, uint32_t what, struct error *e)
{
    cleanup(free_p) struct quant_form *forms = calloc(x->n + 1, sizeof *forms);
    if (!forms)
        abort();
    for (uint32_t i = 0; i < x->n; i++)
        forms[i] =
            (struct quant_form){.scale = 0.5F, .zp = -3, .bits = (uint8_t)(what & 32 ? 16 : 8)};
    const struct quant_rewrite_plan p = {.plan = plan,
                                         .index = x,
                                         .forms = forms,
                                         .weights = {.per_channel = what & 4,
                                                     .search = what & 8,
                                                     .store = {.power_of_two = what & 64}}};
    return quant_rewrite(m, &p, e);
}

static int quantize(struct quant_model *m, uint32_t what, struct error *e)
{
    struct quant_index x = {0};
    struct quant_plan plan = {0};
    const struct quant_plan_options options = {.fuse_activations = what & 16,
                                               .bits = (uint8_t)(what & 32 ? 16 : 8)};
    int r = prepare(m, what, e);
    if (r == 0)
        r = quant_index_make(&x, m, e);
    if (r == 0)
        r = quant_plan_make(&plan, m, &x, &options, e);
    if (r == 0)
        r = rewrite(m, &x, &plan, what, e);
    quant_plan_done(&plan);
    quant_index_done(&x);
    return r;
}

// What was written can be read, and its tensors are made in order.
static void read_again(const struct quant_model *m)
{
    struct error e;
    struct quant_model again;
    struct quant_index x = {0};
    size_t size = quant__model__get_packed_size(m->proto);
    cleanup(free_p) uint8_t *bytes = malloc(size);
    if (!bytes || quant__model__pack(m->proto, bytes) != size ||
        quant_model_parse(&again, bytes, size, "/nowhere", &e) < 0 ||
        quant_index_make(&x, &again, &e) < 0)
        abort();
    quant_index_done(&x);
    quant_model_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error e;
    struct quant_model m;
    if (size < 1 || size > MOST_BYTES)
        return 0;
    int r = quant_model_parse(&m, data + 1, size - 1, "/nowhere", &e);
    if (r == 0)
        r = quantize(&m, *data, &e);
    if (r == 0)
        read_again(&m);
    quant_model_done(&m);
    return 0;
}
