// Runs the float model and the one in 8 bits on samples, and compares every tensor of theirs.
//
// Both models are open at the same time, for one sample after another. The float model's tensors
// are kept in a file meanwhile (rknnd_golden_new), so memory does not grow with their number.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_server.h"
#include "quant/hybrid/quant_noise.h"

#define SAMPLES 8

// Of one tensor: the least cosine, and squares of all samples together.
struct compared {
    uint32_t n;
    double cosine, values, differences;
};

// One call: both models, and what is known of each edge so far. Edges that only one of the models
// shows stay empty, and are in no list.
struct comparing {
    struct rknnd_quant *q;
    const rknnd_quant_samples *samples;
    uint32_t n_samples, n_inputs;
    rknn_context real, stored;
    bool real_open, stored_open, single; // single: as long as the server takes inputs of layers
    struct compared *found[2];           // of each edge: with all errors before, by itself
    uint32_t at;                         // which of both the callback fills
    uint32_t sample;                     // of n_samples, that is compared
};

// ---- tensors ----

// The library tells the cosine; squares are added up here, since dB of samples cannot be.
static void compare_add(struct compared *c, const rknnd_comparison *k)
{
    double values = 0, differences = 0;
    for (uint32_t i = 0; i < k->tensor->n_elems; i++) {
        double off = (double)k->values[i] - (double)k->golden[i];
        values += (double)k->golden[i] * (double)k->golden[i];
        differences += off * off;
    }
    double cosine = isfinite(k->distance->cosine) ? k->distance->cosine : 0;
    c->cosine = c->n && c->cosine < cosine ? c->cosine : cosine;
    c->values += values;
    c->differences += differences;
    c->n++;
}

// Tensors that only one of the models has (QuantizeLinear's, what is fused) are passed over. A
// server that computes a node in two steps shows both by its name; one of them is enough.
static int compare_take(void *user, const rknnd_comparison *k)
{
    const struct comparing *c = user;
    const struct quant_edge *edge = quant_index_find(&c->q->index, k->tensor->name);
    struct compared *found = edge ? &c->found[c->at][edge - c->q->index.edges] : NULL;
    if (found && k->golden && found->n <= c->sample)
        compare_add(found, k);
    return 0;
}

// ---- samples ----

// The same inputs go to both models: the one in 8 bits normalizes by itself, as the float one does.
static int compare_set(const struct comparing *c, rknn_context context, rknn_input *inputs,
                       uint32_t sample, struct error *e)
{
    int r = rknn_inputs_set(context, c->n_inputs, inputs);
    return r < 0 ? quant_sample_failed(c->samples, sample, r, rknnd_last_reason(), e) : 0;
}

// A server that cannot give a layer other inputs says so at the first sample; the rest goes on
// without, and the page says why.
static int compare_single(struct comparing *c, const rknnd_golden *golden, bool first,
                          struct error *e)
{
    const rknnd_compare_options options = {.struct_size = sizeof options, .single = 1};
    c->at = 1;
    int r = rknnd_compare_layers(c->stored, golden, &options, compare_take, c);
    if (r == 0 || !first)
        return r < 0 ? quant_server_words(r, e) : 0;
    c->single = false;
    memset(c->found[1], 0, ((size_t)c->q->index.n + 1) * sizeof *c->found[1]);
    snprintf(c->q->single_words, sizeof c->q->single_words, "%s", rknnd_last_reason());
    return 0;
}

static int compare_layers(struct comparing *c, uint32_t sample, bool first, struct error *e)
{
    rknnd_golden *golden = NULL;
    int r = rknnd_golden_new(c->real, &golden);
    c->at = 0;
    if (r == 0)
        r = rknnd_compare_layers(c->stored, golden, NULL, compare_take, c);
    if (r < 0)
        quant_sample_failed(c->samples, sample, r, rknnd_last_reason(), e);
    if (r == 0 && c->single)
        r = compare_single(c, golden, first, e);
    rknnd_golden_free(golden);
    return r;
}

// The samples that are taken are spread over all of them.
static int compare_sample(struct comparing *c, uint32_t i, struct error *e)
{
    const rknnd_quant_samples *s = c->samples;
    uint32_t sample = (uint32_t)((uint64_t)i * s->n / c->n_samples);
    c->sample = i;
    cleanup(free_p) rknn_input *inputs = calloc((size_t)c->n_inputs + 1, sizeof *inputs);
    if (!inputs)
        return error_no_memory(e, "inputs", c->n_inputs);
    int r = s->read(s->user, sample, c->n_inputs, inputs);
    if (r < 0)
        return quant_sample_failed(s, sample, r, "its inputs cannot be read", e);
    r = compare_set(c, c->real, inputs, sample, e);
    if (r == 0)
        r = compare_set(c, c->stored, inputs, sample, e);
    if (s->release)
        s->release(s->user, c->n_inputs, inputs);
    if (r == 0)
        r = compare_layers(c, sample, i == 0, e);
    if (r == 0 && s->progress && s->progress(s->user, i + 1))
        r = error_set(e, STATUS_FAIL, "ended after %u samples", i + 1);
    return r;
}

// ---- the whole ----

// The samples' reader learns the inputs from the float model, whose inputs are those of both.
static int compare_open(struct comparing *c, struct error *e)
{
    rknn_input_output_num n = {0};
    struct quant_model m;
    int r = quant_server_open(&c->q->model, &c->real, e);
    if (r < 0)
        return r;
    c->real_open = true;
    r = quant_make(c->q, &m, e);
    if (r == 0)
        r = quant_server_open(&m, &c->stored, e);
    c->stored_open = r == 0;
    quant_model_done(&m);
    if (r < 0)
        return r;
    r = rknn_query(c->real, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n);
    c->n_inputs = n.n_input;
    if (r < 0)
        return quant_server_words(r, e);
    r = c->samples->begin ? c->samples->begin(c->samples->user, c->real) : 0;
    return r < 0 ? error_set(e, r, "the inputs do not fit the model") : 0;
}

// Infinite where nothing differs.
static double compare_ratio(const struct compared *c)
{
    return c->differences > 0 ? 10 * log10(c->values / c->differences) : INFINITY;
}

static void compare_fill(const struct comparing *c, const Quant__Node *n, uint32_t i,
                         rknnd_quant_layer *ret)
{
    const struct compared *entire = &c->found[0][i], *single = &c->found[1][i];
    ret->bits = c->q->now.places[i].quantized ? c->q->now.places[i].bits : 0;
    ret->tensor = c->q->index.edges[i].name;
    ret->node = quant_node_name(n);
    ret->op = quant_text(n->op_type);
    ret->n_samples = entire->n;
    ret->cosine = entire->cosine;
    ret->sqnr = compare_ratio(entire);
    ret->n_single = single->n;
    ret->single_cosine = single->n ? single->cosine : 0;
    ret->single_sqnr = single->n ? compare_ratio(single) : 0;
}

// The tensors that were compared, in the order of nodes; `at` NULL: only how many.
static uint32_t compare_walk(const struct comparing *c, rknnd_quant_layer *at)
{
    const Quant__Graph *g = c->q->model.graph;
    uint32_t found = 0;
    for (size_t k = 0; k < g->n_node; k++)
        for (size_t o = 0; o < g->node[k]->n_output; o++) {
            const struct quant_edge *edge =
                quant_index_find(&c->q->index, quant_output(g->node[k], o));
            uint32_t i = edge ? (uint32_t)(edge - c->q->index.edges) : 0;
            if (!edge || !c->found[0][i].n)
                continue;
            if (at)
                compare_fill(c, g->node[k], i, &at[found]);
            found++;
        }
    return found;
}

// One list for the page and for programs. The one before, of other choices, is gone with it.
static int compare_list(const struct comparing *c, struct error *e)
{
    rknnd_list *list = quant_list_new(compare_walk(c, NULL), sizeof(rknnd_quant_layer), e);
    if (!list)
        return STATUS_MALLOC_FAIL;
    compare_walk(c, (rknnd_quant_layer *)(list + 1));
    free(c->q->layers);
    c->q->layers = list;
    return 0;
}

// What was found until a failure is dropped: half of the samples would be taken for all.
static int compare_all(struct comparing *c, struct error *e)
{
    for (uint32_t k = 0; k < 2; k++)
        if (!(c->found[k] = calloc((size_t)c->q->index.n + 1, sizeof *c->found[k])))
            return error_no_memory(e, "tensors", c->q->index.n);
    c->q->single_words[0] = 0;
    int r = compare_open(c, e);
    for (uint32_t i = 0; i < c->n_samples && r == 0; i++)
        r = compare_sample(c, i, e);
    return r < 0 ? r : compare_list(c, e);
}

// Both models are closed again in any case: what stays is q->layers.
static int compare_run(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                       uint32_t n_samples, struct error *e)
{
    n_samples = n_samples ? n_samples : SAMPLES;
    struct comparing c = {.q = q,
                          .samples = samples,
                          .n_samples = n_samples < samples->n ? n_samples : samples->n,
                          .single = true};
    int r = compare_all(&c, e);
    if (c.stored_open)
        rknn_destroy(c.stored);
    if (c.real_open)
        rknn_destroy(c.real);
    free(c.found[0]);
    free(c.found[1]);
    return r;
}

QUANT_EXPORT int rknnd_quant_compare(rknnd_quant *quant, const rknnd_quant_samples *samples,
                                     uint32_t n_samples, const rknnd_list **layers)
{
    struct error e = {0};
    rknnd_quant_samples s;
    if (!quant || !layers)
        return quant_keep(error_set(&e, STATUS_PARAM_INVALID, "no model, or no list"), &e);
    int r = quant_check_calibrated(quant, &e);
    if (r == 0)
        r = quant_take(&s, sizeof s, samples, "rknnd_quant_samples", &e);
    if (r == 0 && (!s.n || !s.read))
        r = error_set(&e, STATUS_PARAM_INVALID, "there are no samples");
    if (r == 0)
        r = quant_noise_measure(quant, &e);
    if (r == 0)
        r = quant_lists_make(quant, &e);
    if (r == 0)
        r = compare_run(quant, &s, n_samples, &e);
    if (r == 0)
        *layers = quant->layers;
    return quant_keep(r, &e);
}
