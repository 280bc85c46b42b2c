// A model's samples are run by one or several clients, each of which has a context and one sample
// at a time. Of the float model outputs are kept, and its context: who reads samples asks that for
// its inputs, while other models, which have the same ones, come and go.
#include "quant/hybrid/quant_trial.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_server.h"

#define MOST_KEPT     ((uint64_t)32 << 20) // bytes of outputs, of more samples than
#define LEAST_SAMPLES 8

// What is added up of one sample: of all of them in their order, whichever client was first, so
// that the same samples always give the same means.
struct trial_sums {
    double least, cosines, errors;
    uint32_t n;
};

// What to do with the outputs of sample number `i` of those that are run. From several threads.
typedef int trial_take(struct quant_trial *t, uint32_t i, const rknn_output *outputs,
                       struct trial_sums *sums, struct error *e);

// They are spread over all samples, as lists are often in the order of classes.
static uint32_t trial_sample(const struct quant_trial *t, uint32_t i)
{
    return (uint32_t)((uint64_t)i * t->samples->n / t->n_samples);
}

// ---- what to do with outputs ----

// Of the float model: what others are compared with.
static int trial_keep(struct quant_trial *t, uint32_t i, const rknn_output *outputs,
                      struct trial_sums *sums, struct error *e)
{
    (void)sums;
    for (uint32_t k = 0; k < t->n_outputs; k++) {
        size_t at = (size_t)i * t->n_outputs + k;
        t->sizes[at] = outputs[k].size / (uint32_t)sizeof(float);
        t->wanted[at] = malloc(outputs[k].size ? outputs[k].size : 1);
        if (!t->wanted[at])
            return error_no_memory(e, "outputs", outputs[k].size);
        memcpy(t->wanted[at], outputs[k].buf, outputs[k].size);
    }
    return 0;
}

// Cosine 1, error 0: both are 0. Cosine 0, error 1: one is, or has numbers that are not finite. In
// doubles: outputs of a million numbers would lose the last digits of a goal of 0.9999 otherwise.
static void trial_add(struct trial_sums *sums, const float *wanted, const float *got, uint32_t n)
{
    double ab = 0, aa = 0, bb = 0, off = 0;
    for (uint32_t i = 0; i < n; i++) {
        double a = (double)wanted[i], b = (double)got[i];
        ab += a * b;
        aa += a * a;
        bb += b * b;
        off += (a - b) * (a - b);
    }
    bool both_0 = aa == 0 && bb == 0;
    double cosine = both_0 ? 1 : ab / sqrt(aa) / sqrt(bb), error = both_0 ? 0 : off / aa;
    cosine = isfinite(cosine) ? cosine : 0;
    sums->least = fmin(sums->least, cosine);
    sums->cosines += cosine;
    sums->errors += isfinite(error) ? error : 1;
    sums->n++;
}

// An output counts by itself: large ones do not hide small ones.
static int trial_compare(struct quant_trial *t, uint32_t i, const rknn_output *outputs,
                         struct trial_sums *sums, struct error *e)
{
    for (uint32_t k = 0; k < t->n_outputs; k++) {
        size_t at = (size_t)i * t->n_outputs + k;
        if (outputs[k].size / sizeof(float) != t->sizes[at])
            return error_set(e, STATUS_FAIL, "output %u has %zu numbers, and %u in the float model",
                             k, outputs[k].size / sizeof(float), t->sizes[at]);
        trial_add(sums, t->wanted[at], outputs[k].buf, t->sizes[at]);
    }
    return 0;
}

static struct quant_nearness trial_means(const struct trial_sums *sums, uint32_t n)
{
    struct trial_sums all = {.least = 1};
    for (uint32_t i = 0; i < n; i++) {
        all.least = fmin(all.least, sums[i].least);
        all.cosines += sums[i].cosines;
        all.errors += sums[i].errors;
        all.n += sums[i].n;
    }
    return (struct quant_nearness){.least = all.least,
                                   .mean = all.n ? all.cosines / all.n : 1,
                                   .error = all.n ? all.errors / all.n : 0};
}

bool quant_nearness_reaches(struct quant_nearness a, struct quant_nearness b)
{
    return a.least >= b.least && a.mean >= b.mean && a.error <= b.error;
}

// ---- running ----

static int trial_outputs(struct quant_trial *t, rknn_context context, uint32_t i, trial_take *take,
                         struct trial_sums *sums, struct error *e)
{
    cleanup(free_p) rknn_output *outputs = calloc(t->n_outputs + 1, sizeof *outputs);
    if (!outputs)
        return error_no_memory(e, "outputs", t->n_outputs);
    for (uint32_t k = 0; k < t->n_outputs; k++)
        outputs[k] = (rknn_output){.want_float = 1, .index = k};
    int r = rknn_outputs_get(context, t->n_outputs, outputs, NULL);
    if (r < 0)
        return quant_server_words(r, e);
    r = take(t, i, outputs, sums, e);
    rknn_outputs_release(context, t->n_outputs, outputs);
    return r;
}

// Inputs are given back before outputs are looked at: one sample's memory at a time.
static int trial_one(struct quant_trial *t, rknn_context context, uint32_t i, trial_take *take,
                     struct trial_sums *sums, struct error *e)
{
    const rknnd_quant_samples *s = t->samples;
    uint32_t sample = trial_sample(t, i), n_inputs = t->n_inputs;
    cleanup(free_p) rknn_input *inputs = calloc(n_inputs + 1, sizeof *inputs);
    if (!inputs)
        return error_no_memory(e, "inputs", n_inputs);
    int r = s->read(s->user, sample, n_inputs, inputs);
    if (r < 0)
        return quant_sample_failed(s, sample, r, "its inputs cannot be read", e);
    r = rknn_inputs_set(context, n_inputs, inputs);
    if (r == 0)
        r = rknn_run(context, NULL);
    if (r < 0)
        quant_sample_failed(s, sample, r, rknnd_last_reason(), e);
    if (s->release)
        s->release(s->user, n_inputs, inputs);
    return r < 0 ? r : trial_outputs(t, context, i, take, sums, e);
}

static int trial_query(rknn_context context, rknn_input_output_num *ret, struct error *e)
{
    int r = rknn_query(context, RKNN_QUERY_IN_OUT_NUM, ret, sizeof *ret);
    return r < 0 ? quant_server_words(r, e) : 0;
}

// Of many samples only as many are run as have room for the float model's outputs.
static int trial_bound_samples(struct quant_trial *t, uint32_t n_outputs, struct error *e)
{
    uint64_t each = 0;
    for (uint32_t i = 0; i < n_outputs; i++) {
        rknn_tensor_attr attr = {.index = i};
        int r = rknn_query(t->context, RKNN_QUERY_OUTPUT_ATTR, &attr, sizeof attr);
        if (r < 0)
            return quant_server_words(r, e);
        each += (uint64_t)attr.n_elems * sizeof(float);
    }
    uint64_t most = each ? MOST_KEPT / each : t->n_samples;
    most = most > LEAST_SAMPLES ? most : LEAST_SAMPLES;
    t->n_samples = t->n_samples < most ? t->n_samples : (uint32_t)most;
    return 0;
}

// Makes room for the float model's outputs.
static int trial_begin_context(struct quant_trial *t, struct error *e)
{
    const rknnd_quant_samples *s = t->samples;
    rknn_input_output_num n;
    int r = trial_query(t->context, &n, e);
    if (r < 0)
        return r;
    r = s->begin ? s->begin(s->user, t->context) : 0;
    if (r < 0)
        return error_set(e, r, "the inputs do not fit the model");
    r = trial_bound_samples(t, n.n_output, e);
    if (r < 0)
        return r;
    size_t all = (size_t)t->n_samples * n.n_output;
    t->n_inputs = n.n_input;
    t->n_outputs = n.n_output;
    t->wanted = calloc(all + 1, sizeof *t->wanted);
    t->sizes = calloc(all + 1, sizeof *t->sizes);
    t->order = calloc((size_t)t->n_samples + 1, sizeof *t->order);
    for (uint32_t i = 0; t->order && i < t->n_samples; i++)
        t->order[i] = i;
    return t->wanted && t->sizes && t->order ? 0 : error_no_memory(e, "outputs", all);
}

// ---- clients ----

// One model's samples, of which each client takes the next one.
struct trial_pass {
    struct quant_trial *t;
    trial_take *take;
    struct trial_sums *sums; // of each sample
    uint32_t n_samples;
    double goal;
    _Atomic uint32_t next;
    atomic_bool failed, missed;
};

struct trial_client {
    struct trial_pass *pass;
    rknn_context context;
    struct error error; // code 0: none
    pthread_t thread;
};

// The one to run as number i of n. Few of all are spread over them.
static uint32_t trial_pass_sample(const struct trial_pass *p, uint32_t i)
{
    const struct quant_trial *t = p->t;
    return p->n_samples == t->n_samples ? t->order[i]
                                        : (uint32_t)((uint64_t)i * t->n_samples / p->n_samples);
}

static void *trial_work(void *user)
{
    struct trial_client *k = user;
    struct trial_pass *p = k->pass;
    for (uint32_t i;
         !p->failed && !p->missed && (i = atomic_fetch_add(&p->next, 1)) < p->n_samples;) {
        uint32_t sample = trial_pass_sample(p, i);
        if (trial_one(p->t, k->context, sample, p->take, &p->sums[sample], &k->error) < 0)
            p->failed = true;
        if (p->sums[sample].least < p->goal)
            p->missed = true;
    }
    return NULL;
}

// The calling thread is the first client; of the others as many as can be had. Words of a failure
// are those of the first client that has any.
static int trial_clients(struct trial_pass *p, rknn_context context, uint32_t most, struct error *e)
{
    uint32_t n = 1;
    struct trial_client clients[QUANT_MOST_CLIENTS] = {{.pass = p, .context = context}};
    for (; n < most && n < p->n_samples; n++) {
        struct trial_client *k = &clients[n];
        *k = (struct trial_client){.pass = p};
        if (rknn_dup_context(&context, &k->context) < 0)
            break;
        if (pthread_create(&k->thread, NULL, trial_work, k) == 0)
            continue;
        rknn_destroy(k->context);
        break;
    }
    trial_work(&clients[0]);
    for (uint32_t i = 1; i < n; i++) {
        pthread_join(clients[i].thread, NULL);
        rknn_destroy(clients[i].context);
    }
    for (uint32_t i = 0; i < n; i++)
        if (clients[i].error.code)
            return error_set(e, clients[i].error.code, "%s", clients[i].error.text);
    return 0;
}

// Opens a model, runs the samples on it, and closes it. What a run costs is mostly the opening of
// small models and the running of large ones, so nothing is kept open between tries.
static int trial_model(struct quant_trial *t, const struct quant_model *m,
                       const struct quant_trial_run *how, struct trial_sums *sums, struct error *e)
{
    rknn_context context;
    rknn_input_output_num n;
    struct trial_pass p = {.t = t, .take = trial_compare, .sums = sums, .goal = how->goal};
    p.n_samples = how->n_samples < t->n_samples ? how->n_samples : t->n_samples;
    int r = quant_server_open(m, &context, e);
    if (r < 0)
        return r;
    r = trial_query(context, &n, e);
    if (r == 0 && (n.n_input != t->n_inputs || n.n_output != t->n_outputs))
        r = error_set(e, STATUS_FAIL, "%u inputs and %u outputs, and %u and %u in the float model",
                      n.n_input, n.n_output, t->n_inputs, t->n_outputs);
    if (r == 0)
        r = trial_clients(&p, context, how->n_clients, e);
    rknn_destroy(context);
    return r;
}

int quant_trial_begin(struct quant_trial *t, struct rknnd_quant *q,
                      const rknnd_quant_samples *samples, uint32_t n_samples, struct error *e)
{
    *t = (struct quant_trial){.samples = samples};
    t->n_samples = n_samples < samples->n ? n_samples : samples->n;
    cleanup(free_p) struct trial_sums *sums = calloc((size_t)t->n_samples + 1, sizeof *sums);
    if (!sums)
        return error_no_memory(e, "samples", t->n_samples);
    struct trial_pass p = {
        .t = t, .take = trial_keep, .sums = sums, .n_samples = t->n_samples, .goal = -INFINITY};
    quant_stage(samples, "loading the float model");
    int r = q->opening.model ? quant_opening_end(&q->opening, &t->context, e)
                             : quant_server_open(&q->model, &t->context, e);
    t->open = r == 0;
    if (r == 0)
        r = trial_begin_context(t, e);
    p.n_samples = t->n_samples;
    quant_stage(samples, "outputs in floats");
    return r < 0 ? r : trial_clients(&p, t->context, quant_clients(samples, t->n_samples), e);
}

void quant_trial_done(struct quant_trial *t)
{
    for (size_t i = 0; t->wanted && i < (size_t)t->n_samples * t->n_outputs; i++)
        free(t->wanted[i]);
    free(t->wanted);
    free(t->sizes);
    free(t->order);
    if (t->open)
        rknn_destroy(t->context);
    *t = (struct quant_trial){0};
}

int quant_trial_run(const struct quant_trial *t, struct rknnd_quant *q,
                    const struct quant_trial_run *how, struct quant_nearness *ret, struct error *e)
{
    struct quant_trial own = *t;
    cleanup(free_p) struct trial_sums *sums = calloc((size_t)t->n_samples + 1, sizeof *sums);
    struct quant_model m;
    if (!sums)
        return error_no_memory(e, "samples", t->n_samples);
    for (uint32_t i = 0; i < t->n_samples; i++)
        sums[i].least = 1;
    int r = quant_make(q, &m, e);
    if (r == 0)
        r = trial_model(&own, &m, how, sums, e);
    quant_model_done(&m);
    if (r == 0)
        *ret = trial_means(sums, t->n_samples);
    for (uint32_t i = 0; i < t->n_samples && r == 0 && how->leasts; i++)
        how->leasts[i] = sums[i].least;
    return r;
}

// Of equal ones the earlier sample first.
void quant_trial_order(struct quant_trial *t, const double *leasts)
{
    for (uint32_t i = 0; i < t->n_samples; i++) {
        uint32_t k = i;
        for (; k > 0 && leasts[t->order[k - 1]] > leasts[i]; k--)
            t->order[k] = t->order[k - 1];
        t->order[k] = i;
    }
}
