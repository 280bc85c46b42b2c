// Changes one register of one task of a .rknn file and looks whether npu/sim notices.
//
//   mutations FILE NODES EACH SEED    NODES of the NPU's nodes by chance, EACH changes of each
//   mutations FILE                    every bit of every command of every node
//
// What npu/sim still computes must be what the emulator computes by the changed commands. A line
// for each change that is not so:
//
//   NODE (OPERATOR) task T REGISTER (0xOFFSET) 0xOLD -> 0xNEW: wrong | ends | unjudged
//
//   wrong      the emulator's outputs are others
//   ends       the emulator refuses the commands, npu/sim does not
//   unjudged   the two differ before anything was changed, or the emulator does not run the node
//
// and one with the counts of all verdicts.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/regs/rknn_registers.h"
#include "npu/model/rknn/rknn_chip.h"
#include "npu/model/rknn/rknn_graph.h"
#include "npu/sim/program/program.h"
#include "npu/sim/sim_nodes.h"
#include "tensor/convert.h"
#include "tests/support/sim_run.h"

#define MAX_PORTS  32
#define MOST_WORK  (1u << 27) // products of a node that is looked at
#define FIRST_DATA 0x4104     // points of lookup tables: values, not registers

enum verdict { REFUSED, SAME, FOLLOWS, WRONG, ENDS, UNJUDGED, N_VERDICTS };
static const char *const verdicts[] = {"refused", "same", "follows", "wrong", "ends", "unjudged"};

struct mutations {
    struct rknn_file file;
    const struct chip *chip;
    uint8_t *bytes;
    uint64_t state; // of the random numbers
    unsigned long counts[N_VERDICTS];
};

// What a node gives, one output behind the other.
struct result {
    uint8_t *bytes;
    size_t size;
    bool halves; // of fp16
};

static uint32_t below(struct mutations *m, uint32_t n)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((m->state >> 33) % n);
}

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
    if (r == 0) {
        programs->limit = MOST_WORK;
        r = program_run(&(struct program_run){.p = programs,
                                              .node = node,
                                              .n_inputs = in.n,
                                              .inputs = in.port,
                                              .from = (const uint8_t *const *)in.bytes,
                                              .n_outputs = out.n,
                                              .outputs = out.port,
                                              .to = out.bytes,
                                              .fill = 41},
                        e);
    }
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

// What both give before anything is changed.
struct base {
    struct result sim, emulator;
    bool judged;
};

static int both(const struct mutations *m, uint32_t node, const struct graph *g, struct base *b,
                struct error *e)
{
    *b = (struct base){0};
    if (result_init(&b->sim, g, &g->nodes[0]) < 0 || result_init(&b->emulator, g, &g->nodes[0]) < 0)
        abort();
    int r = by_sim(g, &b->sim, e);
    return r == 0 ? by_emulator(m, g, node, &b->emulator, e) : r;
}

static void base_done(struct base *b)
{
    result_done(&b->sim);
    result_done(&b->emulator);
}

// The file as it is now, changed or not.
static enum verdict judge(const struct mutations *m, uint32_t node, const struct base *before,
                          struct error *e)
{
    struct graph g;
    struct base now;
    if (graph_of(m, node, &g, e) < 0)
        return REFUSED;
    enum verdict v = SAME;
    int r = both(m, node, &g, &now, e);
    if (!before->judged)
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

struct place {
    uint32_t node, task, offset;
    uint8_t *value; // 32 bits
};

static const char *name_of(const struct mutations *m, uint32_t offset)
{
    for (int i = 0; i < RKNN_REGISTER_COUNT; i++)
        if (rknn_register_at(m->chip, (enum rknn_register)i) == offset && offset)
            return rknn_register_name((enum rknn_register)i);
    return "?";
}

static void change(struct mutations *m, const struct place *p, uint32_t value,
                   const struct base *before)
{
    struct error e = {0};
    uint32_t old = read_le32(p->value);
    if (value == old)
        return;
    write_le32(p->value, value);
    enum verdict v = judge(m, p->node, before, &e);
    write_le32(p->value, old);
    m->counts[v]++;
    if (v <= FOLLOWS)
        return;
    const struct rknn_node *n = &m->file.nodes[p->node];
    printf("%s (%s) task %u %s (0x%04x) 0x%08x -> 0x%08x: %s%s%s\n", n->name, n->op, p->task,
           name_of(m, p->offset), p->offset, old, value, verdicts[v], e.text[0] ? ": " : "",
           e.text);
    fflush(stdout);
}

// The k-th command of a task; NULL: it is a point of a table, or nothing.
static bool place_of(const struct mutations *m, uint32_t node, uint32_t task, size_t k,
                     struct place *ret)
{
    const struct rknn_task *t = &m->file.tasks[m->file.nodes[node].first_task + task];
    uint8_t *p = m->bytes + (t->commands.data - m->bytes) + 8 * k;
    bool blobs = m->file.container.blobs;
    *ret = (struct place){node, task, read_le16(blobs ? p + 2 : p), blobs ? p + 4 : p + 2};
    return ret->offset != FIRST_DATA && ret->offset >= 0x1000;
}

static bool prepare(struct mutations *m, uint32_t node, struct base *b)
{
    struct graph g;
    struct error e = {0};
    if (graph_of(m, node, &g, &e) < 0)
        return false;
    int r = both(m, node, &g, b, &e);
    b->judged = r == 0 && equal(&b->sim, &b->emulator);
    if (!b->judged)
        printf("%s (%s): not judged: %s\n", m->file.nodes[node].name, m->file.nodes[node].op,
               r < 0 ? e.text : "the emulator computes something else");
    graph_done(&g);
    return true;
}

static void all_of(struct mutations *m, uint32_t node, const struct base *b)
{
    const struct rknn_node *n = &m->file.nodes[node];
    struct place p;
    for (uint32_t t = 0; t < n->n_tasks; t++)
        for (size_t k = 0; 8 * k + 8 <= m->file.tasks[n->first_task + t].commands.size; k++)
            for (uint32_t bit = 0; bit < 32 && place_of(m, node, t, k, &p); bit++)
                change(m, &p, read_le32(p.value) ^ 1u << bit, b);
}

static uint32_t other_value(struct mutations *m, uint32_t old)
{
    switch (below(m, 4)) {
    case 0:
        return old + 1 + below(m, 4);
    case 1:
        return old - 1 - below(m, 4);
    case 2:
        return below(m, 2) ? old * 2 : old / 2;
    default:
        return old ^ 1u << below(m, 32);
    }
}

static void some_of(struct mutations *m, uint32_t node, uint32_t n_changes, const struct base *b)
{
    const struct rknn_node *n = &m->file.nodes[node];
    struct place p;
    for (uint32_t i = 0; i < n_changes; i++) {
        uint32_t t = below(m, n->n_tasks);
        size_t size = m->file.tasks[n->first_task + t].commands.size / 8;
        if (size && place_of(m, node, t, below(m, (uint32_t)size), &p))
            change(m, &p, other_value(m, read_le32(p.value)), b);
    }
}

static bool is_of_interest(const struct rknn_node *n)
{
    return n->device != 0 && n->n_tasks && !rknn_node_is_end(n);
}

static void one_node(struct mutations *m, uint32_t node, uint32_t n_changes)
{
    struct base b = {0};
    if (prepare(m, node, &b)) {
        if (n_changes)
            some_of(m, node, n_changes, &b);
        else
            all_of(m, node, &b);
    }
    base_done(&b);
}

static void some_nodes(struct mutations *m, uint32_t n, uint32_t n_changes)
{
    uint32_t there = 0;
    for (uint32_t i = 0; i < m->file.n_nodes; i++)
        there += is_of_interest(&m->file.nodes[i]);
    for (uint32_t k = 0; k < n && there; k++) {
        uint32_t chosen = below(m, there), i = 0;
        for (; !is_of_interest(&m->file.nodes[i]) || chosen--; i++)
            ;
        one_node(m, i, n_changes);
    }
}

int main(int argc, char **argv)
{
    struct mutations m = {0};
    struct error e = {0};
    size_t size;
    if (argc != 2 && argc != 5)
        return 2;
    m.bytes = sim_read_file(argv[1], &size, &e);
    if (!m.bytes || rknn_file_open(&m.file, (struct bytes){m.bytes, size}, &e) < 0 ||
        rknn_find_chip(NULL, &m.file, &m.chip, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    m.state = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
    if (argc == 5)
        some_nodes(&m, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
    for (uint32_t i = 0; i < m.file.n_nodes && argc == 2; i++)
        if (is_of_interest(&m.file.nodes[i]))
            one_node(&m, i, 0);
    for (int v = 0; v < N_VERDICTS; v++)
        printf("%lu %s%s", m.counts[v], verdicts[v], v + 1 < N_VERDICTS ? ", " : "\n");
    rknn_file_done(&m.file);
    free(m.bytes);
    return 0;
}
