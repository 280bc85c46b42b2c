// A program that opens, runs, duplicates and closes contexts at random, and checks every answer
// against its model's first one. For soak.py, which kills it, and workers under it.
//
// soak_client SEED ROUNDS CONTEXTS MODEL…: exits 0 if all was well, also if runs failed because
// their worker was killed; else 1 with words.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknnd.h"

#define MAX_CONTEXTS 32
#define MAX_MODELS   8

// What is known of a model: its input, and the output that it has given for that.
struct model {
    const char *path;
    uint8_t *input;
    uint32_t input_size;
    rknn_tensor_format fmt;
    void *output;
    uint32_t output_size;
};

struct open_context {
    rknn_context context; // 0: none
    struct model *model;
    rknn_tensor_mem *memory; // NULL: none
};

struct soak {
    unsigned n_models, n_contexts;
    struct model models[MAX_MODELS];
    struct open_context contexts[MAX_CONTEXTS];
    unsigned long runs, lost;
};

static unsigned below(unsigned n)
{
    return (unsigned)rand() % n;
}

static _Noreturn void fail(const struct model *m, const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", m->path, what, rknnd_last_error());
    exit(1);
}

// Only a worker's death excuses a failure.
static void expect(struct soak *s, const struct model *m, int result, const char *what)
{
    if (result >= 0)
        return;
    if (result != RKNN_ERR_DEVICE_UNAVAILABLE || !strstr(rknnd_last_error(), "worker"))
        fail(m, what);
    s->lost++;
}

static void learn_input(struct model *m, rknn_context c)
{
    rknn_tensor_attr a = {0};
    if (rknn_query(c, RKNN_QUERY_INPUT_ATTR, &a, sizeof a) < 0)
        fail(m, "input attributes");
    m->input_size = a.n_elems;
    m->fmt = a.fmt;
    m->input = malloc(a.n_elems);
    for (uint32_t i = 0; m->input && i < a.n_elems; i++)
        m->input[i] = (uint8_t)(i * 31 + 7);
}

static void open_one(struct soak *s, struct open_context *o)
{
    struct model *m = &s->models[below(s->n_models)];
    static const uint32_t priorities[] = {RKNN_FLAG_PRIOR_HIGH, RKNN_FLAG_PRIOR_MEDIUM,
                                          RKNN_FLAG_PRIOR_LOW};
    rknn_context c = 0;
    int r = rknn_init(&c, (void *)(uintptr_t)m->path, 0, priorities[below(3)], NULL);
    expect(s, m, r, "rknn_init");
    if (r < 0)
        return;
    *o = (struct open_context){.context = c, .model = m};
    if (!m->input)
        learn_input(m, c);
}

static void duplicate(struct soak *s, const struct open_context *from, struct open_context *o)
{
    rknn_context from_context = from->context, c = 0;
    int r = rknn_dup_context(&from_context, &c);
    expect(s, from->model, r, "rknn_dup_context");
    if (r >= 0)
        *o = (struct open_context){.context = c, .model = from->model};
}

static void close_one(struct soak *s, struct open_context *o)
{
    if (o->memory)
        expect(s, o->model, rknn_destroy_mem(o->context, o->memory), "rknn_destroy_mem");
    expect(s, o->model, rknn_destroy(o->context), "rknn_destroy");
    *o = (struct open_context){0};
}

static void check_output(struct model *m, const rknn_output *out)
{
    if (!m->output) {
        m->output = malloc(out->size);
        m->output_size = out->size;
        if (m->output)
            memcpy(m->output, out->buf, out->size);
    } else if (out->size != m->output_size || memcmp(out->buf, m->output, out->size) != 0) {
        fprintf(stderr, "%s gave another answer\n", m->path);
        exit(1);
    }
}

static void run(struct soak *s, struct open_context *o)
{
    struct model *m = o->model;
    rknn_input in = {
        .buf = m->input, .size = m->input_size, .type = RKNN_TENSOR_UINT8, .fmt = m->fmt};
    rknn_output out = {0};
    int r = rknn_inputs_set(o->context, 1, &in);
    expect(s, m, r, "rknn_inputs_set");
    if (r >= 0)
        expect(s, m, r = rknn_run(o->context, NULL), "rknn_run");
    if (r >= 0)
        expect(s, m, r = rknn_outputs_get(o->context, 1, &out, NULL), "rknn_outputs_get");
    if (r < 0)
        return;
    check_output(m, &out);
    rknn_outputs_release(o->context, 1, &out);
    s->runs++;
}

// Leaves a run on its way.
static void run_ahead(struct soak *s, struct open_context *o)
{
    struct model *m = o->model;
    rknn_input in = {
        .buf = m->input, .size = m->input_size, .type = RKNN_TENSOR_UINT8, .fmt = m->fmt};
    int r = rknn_inputs_set(o->context, 1, &in);
    expect(s, m, r, "rknn_inputs_set");
    if (r >= 0)
        expect(s, m, rknn_run(o->context, &(rknn_run_extend){.non_block = 1}), "rknn_run");
}

static void take_memory(struct open_context *o)
{
    o->memory = rknn_create_mem(o->context, 4096 + below(1u << 20));
    if (!o->memory)
        fail(o->model, "rknn_create_mem");
    memset(o->memory->virt_addr, 1, o->memory->size);
}

static void use(struct soak *s, struct open_context *o)
{
    unsigned what = below(20);
    if (what == 0)
        close_one(s, o);
    else if (what == 1)
        run_ahead(s, o);
    else if (what == 2 && !o->memory)
        take_memory(o);
    else
        run(s, o);
}

static void step(struct soak *s)
{
    struct open_context *o = &s->contexts[below(s->n_contexts)];
    const struct open_context *other = &s->contexts[below(s->n_contexts)];
    if (o->context)
        use(s, o);
    else if (other->context && below(2))
        duplicate(s, other, o);
    else
        open_one(s, o);
}

int main(int argc, char **argv)
{
    struct soak s = {0};
    if (argc < 5)
        return 2;
    srand((unsigned)atoi(argv[1]));
    s.n_contexts = (unsigned)atoi(argv[3]) < MAX_CONTEXTS ? (unsigned)atoi(argv[3]) : MAX_CONTEXTS;
    for (int i = 4; i < argc && s.n_models < MAX_MODELS; i++)
        s.models[s.n_models++].path = argv[i];
    for (int i = 0; i < atoi(argv[2]); i++)
        step(&s);
    for (unsigned i = 0; i < s.n_contexts && below(4);
         i++) // some are left to the end of the process
        if (s.contexts[i].context)
            close_one(&s, &s.contexts[i]);
    for (unsigned i = 0; i < s.n_models; i++) {
        free(s.models[i].input);
        free(s.models[i].output);
    }
    printf("%lu %lu\n", s.runs, s.lost);
    return 0;
}
