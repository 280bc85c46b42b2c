// Runs the float model and the one in 8 bits on samples, and compares every tensor of theirs.
//
// Each client has both models open, for one sample after another. The float model's tensors are
// kept in a file meanwhile (rknnd_golden_new), so memory does not grow with their number. Clients
// take samples in rounds, behind which what they found is added up in the samples' order: so it
// does not depend on which client was first.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/each_cpu.h"
#include "quant/calibrate/quant_server.h"
#include "quant/hybrid/quant_noise.h"
#include "quant/quant_parallel.h"

#define SAMPLES 8
#define LANES   8 // sums side by side, which compilers make vectors of

// Of one tensor: the least cosine, and squares of all samples together.
struct compared {
    uint32_t n;
    double cosine, values, differences;
};

// Of each edge: with all errors before, and by itself. Edges that only one of the models shows stay
// empty, and are in no list.
struct compared_edges {
    struct compared *of[2];
};

// What compares one sample of a round.
struct compare_client {
    const struct comparing *c;
    rknn_context real, stored;
    bool real_open, stored_open;
    struct compared_edges found; // of this round's sample
    uint32_t at;                 // which of both the callback fills
    char words[256];             // why the server takes no inputs of layers; "": it does
};

// One call: the clients, and what is known of each edge so far.
struct comparing {
    struct rknnd_quant *q;
    const rknnd_quant_samples *samples;
    uint32_t n_samples, n_inputs;
    bool single; // as long as the server takes inputs of layers
    struct compared_edges found;
    uint32_t n_clients;
    struct compare_client *clients;
    uint32_t first; // sample of the round, of n_samples
};

static int compare_new_edges(const struct comparing *c, struct compared_edges *ret, struct error *e)
{
    for (uint32_t k = 0; k < 2; k++)
        if (!(ret->of[k] = calloc((size_t)c->q->index.n + 1, sizeof *ret->of[k])))
            return error_no_memory(e, "tensors", c->q->index.n);
    return 0;
}

static void compare_free_edges(struct compared_edges *edges)
{
    free(edges->of[0]);
    free(edges->of[1]);
}

// ---- tensors ----

// The library tells the cosine; squares are added up here, since dB of samples cannot be.
FOR_EACH_CPU static void compare_add(struct compared *c, const rknnd_comparison *k)
{
    double values[LANES] = {0}, differences[LANES] = {0};
    const float *wanted = k->golden, *got = k->values;
    uint32_t n = k->tensor->n_elems, i = 0;
    for (; i + LANES <= n; i += LANES)
        for (uint32_t l = 0; l < LANES; l++) {
            double off = (double)got[i + l] - (double)wanted[i + l];
            values[l] += (double)wanted[i + l] * (double)wanted[i + l];
            differences[l] += off * off;
        }
    for (; i < n; i++) {
        double off = (double)got[i] - (double)wanted[i];
        values[0] += (double)wanted[i] * (double)wanted[i];
        differences[0] += off * off;
    }
    c->n = 1;
    c->cosine = isfinite(k->distance->cosine) ? k->distance->cosine : 0;
    for (uint32_t l = 0; l < LANES; l++) {
        c->values += values[l];
        c->differences += differences[l];
    }
}

// Tensors that only one of the models has (QuantizeLinear's, what is fused) are passed over. A
// server that computes a node in two steps shows both by its name; one of them is enough.
static int compare_take(void *user, const rknnd_comparison *k)
{
    struct compare_client *client = user;
    const struct quant_index *index = &client->c->q->index;
    const struct quant_edge *edge = quant_index_find(index, k->tensor->name);
    struct compared *found = edge ? &client->found.of[client->at][edge - index->edges] : NULL;
    if (found && k->golden && !found->n)
        compare_add(found, k);
    return 0;
}

// ---- a sample ----

// The same inputs go to both models: the one in 8 bits normalizes by itself, as the float one does.
static int compare_set(const struct comparing *c, rknn_context context, rknn_input *inputs,
                       uint32_t sample, struct error *e)
{
    int r = rknn_inputs_set(context, c->n_inputs, inputs);
    return r < 0 ? quant_sample_failed(c->samples, sample, r, rknnd_last_reason(), e) : 0;
}

static void compare_single(struct compare_client *client, const rknnd_golden *golden)
{
    const rknnd_compare_options options = {
        .struct_size = sizeof options, .single = 1, .without_stored = 1};
    client->at = 1;
    if (rknnd_compare_layers(client->stored, golden, &options, compare_take, client) < 0)
        snprintf(client->words, sizeof client->words, "%s", rknnd_last_reason());
}

static int compare_layers(struct compare_client *client, uint32_t sample, struct error *e)
{
    rknnd_golden *golden = NULL;
    const rknnd_compare_options options = {.struct_size = sizeof options, .without_stored = 1};
    int r = rknnd_golden_new(client->real, &golden);
    client->at = 0;
    if (r == 0)
        r = rknnd_compare_layers(client->stored, golden, &options, compare_take, client);
    if (r < 0)
        quant_sample_failed(client->c->samples, sample, r, rknnd_last_reason(), e);
    if (r == 0 && client->c->single)
        compare_single(client, golden);
    rknnd_golden_free(golden);
    return r;
}

// The samples that are taken are spread over all of them. From several threads.
static int compare_sample(void *user, uint32_t i, struct error *e)
{
    const struct comparing *c = user;
    struct compare_client *client = &c->clients[i];
    const rknnd_quant_samples *s = c->samples;
    uint32_t sample = (uint32_t)((uint64_t)(c->first + i) * s->n / c->n_samples);
    cleanup(free_p) rknn_input *inputs = calloc((size_t)c->n_inputs + 1, sizeof *inputs);
    if (!inputs)
        return error_no_memory(e, "inputs", c->n_inputs);
    for (uint32_t k = 0; k < 2; k++)
        memset(client->found.of[k], 0, ((size_t)c->q->index.n + 1) * sizeof *client->found.of[k]);
    int r = s->read(s->user, sample, c->n_inputs, inputs);
    if (r < 0)
        return quant_sample_failed(s, sample, r, "its inputs cannot be read", e);
    r = compare_set(c, client->real, inputs, sample, e);
    if (r == 0)
        r = compare_set(c, client->stored, inputs, sample, e);
    if (s->release)
        s->release(s->user, c->n_inputs, inputs);
    return r < 0 ? r : compare_layers(client, sample, e);
}

// ---- rounds ----

static void compare_join(struct compared *all, const struct compared *one)
{
    if (!one->n)
        return;
    all->cosine = all->n && all->cosine < one->cosine ? all->cosine : one->cosine;
    all->values += one->values;
    all->differences += one->differences;
    all->n += one->n;
}

// A server that cannot give a layer other inputs says so at the first sample; the rest goes on
// without, and the page says why.
static int compare_check_single(struct comparing *c, const struct compare_client *client,
                                bool first, struct error *e)
{
    if (!c->single || !client->words[0])
        return 0;
    if (!first)
        return error_set(e, STATUS_FAIL, "%s", client->words);
    c->single = false;
    snprintf(c->q->single_words, sizeof c->q->single_words, "%s", client->words);
    return 0;
}

static int compare_take_sample(struct comparing *c, uint32_t i, struct error *e)
{
    const rknnd_quant_samples *s = c->samples;
    const struct compare_client *client = &c->clients[i];
    uint32_t done = c->first + i + 1;
    int r = compare_check_single(c, client, done == 1, e);
    for (uint32_t k = 0; k < (c->single ? 2u : 1u) && r == 0; k++)
        for (uint32_t edge = 0; edge < c->q->index.n; edge++)
            compare_join(&c->found.of[k][edge], &client->found.of[k][edge]);
    if (r == 0 && s->progress && s->progress(s->user, done))
        r = error_set(e, STATUS_FAIL, "ended after %u samples", done);
    return r;
}

static int compare_rounds(struct comparing *c, struct error *e)
{
    int r = 0;
    for (uint32_t n; c->first < c->n_samples && r == 0; c->first += n) {
        uint32_t left = c->n_samples - c->first;
        n = left < c->n_clients ? left : c->n_clients;
        r = quant_parallel(n, n, compare_sample, c, e);
        for (uint32_t i = 0; i < n && r == 0; i++)
            r = compare_take_sample(c, i, e);
    }
    return r;
}

// ---- the whole ----

// The samples' reader learns the inputs from the float model, whose inputs are those of both.
static int compare_open(struct comparing *c, struct compare_client *first, struct error *e)
{
    rknn_input_output_num n = {0};
    struct quant_model m;
    int r = quant_server_open(&c->q->model, &first->real, e);
    if (r < 0)
        return r;
    first->real_open = true;
    r = quant_make(c->q, &m, e);
    if (r == 0)
        r = quant_server_open(&m, &first->stored, e);
    first->stored_open = r == 0;
    quant_model_done(&m);
    if (r < 0)
        return r;
    r = rknn_query(first->real, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n);
    c->n_inputs = n.n_input;
    if (r < 0)
        return quant_server_words(r, e);
    r = c->samples->begin ? c->samples->begin(c->samples->user, first->real) : 0;
    return r < 0 ? error_set(e, r, "the inputs do not fit the model") : 0;
}

static int compare_dup(struct compare_client *first, struct compare_client *client, struct error *e)
{
    int r = rknn_dup_context(&first->real, &client->real);
    client->real_open = r == 0;
    if (r == 0)
        r = rknn_dup_context(&first->stored, &client->stored);
    client->stored_open = client->real_open && r == 0;
    return r < 0 ? quant_server_words(r, e) : 0;
}

static int compare_clients(struct comparing *c, struct error *e)
{
    int r = 0;
    c->clients = calloc(c->n_clients, sizeof *c->clients);
    if (!c->clients)
        return error_no_memory(e, "clients", c->n_clients);
    for (uint32_t i = 0; i < c->n_clients && r == 0; i++) {
        c->clients[i].c = c;
        r = compare_new_edges(c, &c->clients[i].found, e);
        if (r == 0)
            r = i ? compare_dup(&c->clients[0], &c->clients[i], e)
                  : compare_open(c, &c->clients[0], e);
    }
    return r;
}

static void compare_clients_done(struct comparing *c)
{
    for (uint32_t i = c->clients ? c->n_clients : 0; i-- > 0;) {
        struct compare_client *client = &c->clients[i];
        if (client->stored_open)
            rknn_destroy(client->stored);
        if (client->real_open)
            rknn_destroy(client->real);
        compare_free_edges(&client->found);
    }
    free(c->clients);
}

// Infinite where nothing differs.
static double compare_ratio(const struct compared *c)
{
    return c->differences > 0 ? 10 * log10(c->values / c->differences) : INFINITY;
}

static void compare_fill(const struct comparing *c, const Quant__Node *n, uint32_t i,
                         rknnd_quant_layer *ret)
{
    const struct compared *entire = &c->found.of[0][i], *single = &c->found.of[1][i];
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
            if (!edge || !c->found.of[0][i].n)
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

// What was found until a failure is dropped: half of the samples would be taken for all. The models
// are closed again in any case: what stays is q->layers.
static int compare_run(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                       uint32_t n_samples, struct error *e)
{
    n_samples = n_samples ? n_samples : SAMPLES;
    struct comparing c = {.q = q,
                          .samples = samples,
                          .n_samples = n_samples < samples->n ? n_samples : samples->n,
                          .single = true};
    c.n_clients = quant_clients(samples, c.n_samples);
    q->single_words[0] = 0;
    int r = compare_new_edges(&c, &c.found, e);
    quant_stage(samples, "loading both models");
    if (r == 0)
        r = compare_clients(&c, e);
    quant_stage(samples, "layers");
    if (r == 0)
        r = compare_rounds(&c, e);
    if (r == 0)
        r = compare_list(&c, e);
    compare_clients_done(&c);
    compare_free_edges(&c.found);
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
        quant_stage(&s, "noise");
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
