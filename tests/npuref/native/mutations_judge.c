// A node computed by npu/sim and by npu/emu (mutations.h).
#include "tests/npuref/native/mutations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/rknn_graph.h"
#include "npu/sim/program/program.h"
#include "npu/sim/sim_nodes.h"
#include "tensor/convert.h"

#define MAX_PORTS  32
#define NOT_BY_SIM 1
#define MOST_WORK  (1u << 27) // products of a node that is looked at

static void result_done(struct result *r)
{
    free(r->bytes);
    *r = (struct result){0};
}

static int result_init(struct result *r, const struct graph *g, const struct graph_node *n)
{
    *r = (struct result){0};
    for (uint32_t i = 0; i < n->n_outputs; i++) {
        const struct graph_tensor *t = n->outputs[i] < 0 ? NULL : &g->tensors[n->outputs[i]];
        r->size += t ? t->size : 0;
        r->halves = r->halves || (t && t->type == TENSOR_FLOAT16);
    }
    r->bytes = calloc(1, r->size + 1);
    return r->bytes ? 0 : -1;
}

// Of bytes exactly; of real numbers up to the order of additions.
static bool equal(const struct result *a, const struct result *b)
{
    if (!a->halves || a->size != b->size)
        return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
    float largest = 0, apart = 0;
    for (size_t i = 0; i + 2 <= a->size; i += 2) {
        float x = convert_fp16_to_float(read_le16(a->bytes + i)),
              y = convert_fp16_to_float(read_le16(b->bytes + i));
        largest = fmaxf(largest, fabsf(x));
        apart =
            isfinite(x - y) || !isfinite(x) != !isfinite(y) ? fmaxf(apart, fabsf(x - y)) : apart;
    }
    return apart <= 1e-2F * largest;
}

// Bytes of any value; real numbers of moderate size. The same for the same tensor.
static void fill(const struct graph_tensor *t, uint32_t seed, uint8_t *to)
{
    for (size_t i = 0; i < t->size; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = (uint8_t)(seed >> 24);
        bool high = t->type == TENSOR_FLOAT16 && i % 2;
        to[i] = high ? (uint8_t)((to[i] & 0x87) | 0x38) : to[i];
    }
}

// What is added behind the node's operator is an input, too.
static int32_t input_of(const struct graph_node *n, uint32_t i)
{
    if (i < n->n_inputs)
        return n->inputs[i];
    const struct graph_post *p = &n->post[i - n->n_inputs];
    return p->kind == POST_ADD ? p->operand : -1;
}

// ---- npu/sim ----

static int by_sim(const struct graph *g, struct result *ret, struct error *e)
{
    struct sim_node *node = NULL;
    struct sim_node_run *run = NULL;
    const struct graph_node *n = &g->nodes[0];
    int r = sim_node_new(g, 0, &node, e);
    if (r == 0)
        r = sim_node_run_new(node, &run, e);
    for (uint32_t i = 0; i < n->n_inputs + n->n_post && r == 0; i++) {
        int32_t t = input_of(n, i);
        if (t >= 0 && !g->tensors[t].constant)
            fill(&g->tensors[t], (uint32_t)t, sim_node_tensor(run, (uint32_t)t));
    }
    if (r == 0)
        r = sim_node_compute(run, NULL, e);
    size_t at = 0;
    for (uint32_t i = 0; i < n->n_outputs && r == 0; i++) {
        if (n->outputs[i] < 0)
            continue;
        size_t size = g->tensors[n->outputs[i]].size;
        memcpy(ret->bytes + at, sim_node_tensor(run, (uint32_t)n->outputs[i]), size);
        at += size;
    }
    sim_node_run_free(run);
    sim_node_free(node);
    return r;
}

// ---- npu/emu ----

struct ports {
    uint32_t n;
    struct program_port port[MAX_PORTS];
    uint8_t *bytes[MAX_PORTS];
};

static int add_port(struct ports *p, const struct graph_programs *programs, const struct graph *g,
                    int32_t tensor, uint8_t *bytes, struct error *e)
{
    if (p->n == MAX_PORTS)
        return error_set(e, STATUS_MODEL_INVALID, "too many tensors");
    p->bytes[p->n] = bytes;
    return program_port(programs, &g->tensors[tensor], (uint32_t)tensor, &p->port[p->n++], e);
}

// One picture of the batch: programs are those of one.
static int run_item(struct graph_programs *programs, uint32_t node, const struct ports *in,
                    const struct ports *out, uint32_t item, struct error *e)
{
    const uint8_t *from[MAX_PORTS];
    uint8_t *to[MAX_PORTS];
    for (uint32_t i = 0; i < in->n; i++)
        from[i] = in->bytes[i] + item * in->port[i].size;
    for (uint32_t i = 0; i < out->n; i++)
        to[i] = out->bytes[i] + item * out->port[i].size;
    programs->limit = MOST_WORK;
    return program_run(&(struct program_run){.p = programs,
                                             .node = node,
                                             .n_inputs = in->n,
                                             .inputs = in->port,
                                             .from = from,
                                             .n_outputs = out->n,
                                             .outputs = out->port,
                                             .to = to,
                                             .fill = 41},
                       e);
}

static int by_emulator(const struct mutations *m, const struct graph *g, uint32_t node,
                       struct result *ret, struct error *e)
{
    struct graph_programs *programs = NULL;
    struct ports in = {0}, out = {0};
    const struct graph_node *n = &g->nodes[0];
    size_t at = 0;
    int r = program_new(&m->file, m->chip, &programs, e);
    for (uint32_t i = 0; i < n->n_inputs + n->n_post && r == 0; i++) {
        int32_t index = input_of(n, i);
        if (index < 0 || g->tensors[index].constant)
            continue;
        const struct graph_tensor *t = &g->tensors[index];
        uint8_t *bytes = malloc(t->size + 1);
        if (!bytes)
            abort();
        fill(t, (uint32_t)index, bytes);
        r = add_port(&in, programs, g, index, bytes, e);
    }
    for (uint32_t i = 0; i < n->n_outputs && r == 0; i++) {
        if (n->outputs[i] < 0)
            continue;
        r = add_port(&out, programs, g, n->outputs[i], ret->bytes + at, e);
        at += g->tensors[n->outputs[i]].size;
    }
    for (uint32_t item = 0; item < m->file.batch && r == 0; item++)
        r = run_item(programs, node, &in, &out, item, e);
    for (uint32_t i = 0; i < in.n; i++)
        free(in.bytes[i]);
    program_free(programs);
    return r;
}

// ---- one node ----

static int graph_of(const struct mutations *m, uint32_t node, struct graph *g, struct error *e)
{
    cleanup(free_p) bool *wanted = calloc((size_t)m->file.n_nodes + 1, sizeof *wanted);
    if (!wanted)
        return error_no_memory(e, "a graph", 0);
    wanted[node] = true;
    int r = rknn_graph_of(g, &m->file, m->chip, &(struct rknn_graph_choice){.wanted = wanted}, e);
    if (r == 0 && g->n_nodes != 1) {
        graph_done(g);
        return error_set(e, STATUS_MODEL_INVALID, "nothing to compute");
    }
    return r;
}

static int both(const struct mutations *m, uint32_t node, const struct graph *g, struct base *b,
                struct error *e)
{
    *b = (struct base){0};
    if (result_init(&b->sim, g, &g->nodes[0]) < 0 || result_init(&b->emulator, g, &g->nodes[0]) < 0)
        abort();
    if (by_sim(g, &b->sim, e) < 0)
        return NOT_BY_SIM;
    return by_emulator(m, g, node, &b->emulator, e);
}

void base_done(struct base *b)
{
    result_done(&b->sim);
    result_done(&b->emulator);
}

// The file as it is now, changed or not.
static enum verdict verdict_of(const struct mutations *m, uint32_t node, const struct base *before,
                               struct error *e)
{
    struct graph g;
    struct base now = {0};
    if (graph_of(m, node, &g, e) < 0)
        return REFUSED;
    enum verdict v = SAME;
    int r = both(m, node, &g, &now, e);
    if (r == NOT_BY_SIM)
        v = REFUSED;
    else if (!before->judged)
        v = equal(&now.sim, &before->sim) ? UNJUDGED : FOLLOWS;
    else if (r < 0)
        v = ENDS;
    else if (!equal(&now.sim, &now.emulator))
        v = WRONG;
    else if (!equal(&now.sim, &before->sim))
        v = FOLLOWS;
    base_done(&now);
    graph_done(&g);
    return v;
}

bool base_init(const struct mutations *m, uint32_t node, struct base *b)
{
    struct graph g;
    struct error e = {0};
    if (graph_of(m, node, &g, &e) < 0)
        return false;
    int r = both(m, node, &g, b, &e);
    b->judged = r == 0 && equal(&b->sim, &b->emulator);
    if (!b->judged)
        printf("%s (%s): not judged: %s\n", m->file.nodes[node].name, m->file.nodes[node].op,
               r ? e.text : "the emulator computes something else");
    graph_done(&g);
    return true;
}

static const char *const words[] = {"refused", "same", "follows", "wrong", "ends", "unjudged"};

bool mutations_judge(struct mutations *m, uint32_t node, const struct base *before,
                     const char *what)
{
    struct error e = {0};
    enum verdict v = verdict_of(m, node, before, &e);
    const struct rknn_node *n = &m->file.nodes[node];
    m->counts[v]++;
    if (v > FOLLOWS) {
        printf("%s (%s) %s: %s%s%s\n", n->name, n->op, what, words[v], e.text[0] ? ": " : "",
               e.text);
        fflush(stdout);
    }
    return v == WRONG;
}

void mutations_print_counts(const struct mutations *m)
{
    for (int v = 0; v < N_VERDICTS; v++)
        printf("%lu %s%s", m->counts[v], words[v], v + 1 < N_VERDICTS ? ", " : "\n");
}
