// The node's register program as a step. It is tried when the model is loaded, so that what the
// emulator does not model is refused then, and so is a program that takes something else than the
// node's inputs or leaves some of its outputs as they were: two runs in memory that holds different
// bytes beside the inputs would differ.
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/program/program.h"

struct program_step {
    uint32_t batch;
    struct program_run run; // but for `from` and `to`
};

static int find_ports(struct step *s, const int32_t *tensors, uint32_t n, uint32_t *ret_n,
                      const struct program_port **ret, struct error *e)
{
    const struct graph *g = s->plan->graph;
    struct program_port *ports = step_alloc(s, n, sizeof *ports);
    uint32_t count = 0;
    if (!ports)
        return error_no_memory(e, "a step", n * sizeof *ports);
    for (uint32_t i = 0; i < n; i++) {
        if (tensors[i] < 0 || g->tensors[tensors[i]].constant)
            continue;
        int r = program_port(g->programs, &g->tensors[tensors[i]], (uint32_t)tensors[i],
                             &ports[count++], e);
        if (r < 0)
            return r;
    }
    *ret = ports;
    *ret_n = count;
    return 0;
}

// ---- trying ----

struct trial_memory {
    uint8_t *all;
    const uint8_t **from;
    uint8_t **to[2]; // of each fill
};

static void trial_done(struct trial_memory *t)
{
    free(t->all);
    free(t->from);
    free(t->to[0]);
    free(t->to[1]);
}

// Inputs have bytes of all kinds, but no float of any width is infinite.
static int trial_init(struct trial_memory *t, const struct program_run *r, struct error *e)
{
    size_t size = 0, at = 0;
    for (uint32_t i = 0; i < r->n_inputs; i++)
        size += r->inputs[i].size;
    for (uint32_t i = 0; i < r->n_outputs; i++)
        size += 2 * r->outputs[i].size;
    t->all = calloc(1, size + 1);
    t->from = calloc((size_t)r->n_inputs + 1, sizeof *t->from);
    for (int k = 0; k < 2; k++)
        t->to[k] = calloc((size_t)r->n_outputs + 1, sizeof *t->to[k]);
    if (!t->all || !t->from || !t->to[0] || !t->to[1])
        return error_no_memory(e, "a trial", size);
    for (uint32_t i = 0; i < r->n_inputs; at += r->inputs[i++].size) {
        t->from[i] = t->all + at;
        for (size_t k = 0; k < r->inputs[i].size; k++)
            t->all[at + k] = (uint8_t)((k * 101 + k / 251 + 7 * i) & 0xbf);
    }
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < r->n_outputs; at += r->outputs[i++].size)
            t->to[k][i] = t->all + at;
    return 0;
}

static int compare_trials(const struct step *s, const struct trial_memory *t,
                          const struct program_run *r, struct error *e)
{
    for (uint32_t i = 0; i < r->n_outputs; i++)
        if (memcmp(t->to[0][i], t->to[1][i], r->outputs[i].size) != 0)
            return error_set(e, STATUS_MODEL_INVALID,
                             "it leaves parts of %s as they were, or reads memory that is not the "
                             "node's",
                             s->plan->graph->tensors[r->outputs[i].tensor].name);
    return 0;
}

static int try_program(const struct step *s, const struct program_run *run, struct error *e)
{
    struct trial_memory t = {0};
    struct program_run r = *run;
    int status = trial_init(&t, &r, e);
    r.from = t.from;
    for (int k = 0; k < 2 && status == 0; k++) {
        r.to = t.to[k];
        r.fill = k ? 57 : 0;
        status = program_run(&r, e);
    }
    if (status == 0)
        status = compare_trials(s, &t, &r, e);
    trial_done(&t);
    return status;
}

// ---- the step ----

static int prepare_program(struct step *s, struct error *e)
{
    const struct graph_programs *p = s->plan->graph->programs;
    struct program_step *state = step_alloc(s, 1, sizeof *state);
    if (!state)
        return error_no_memory(e, "a step", sizeof *state);
    if (!p || !s->node->program || !p->program.one[0].tasks[s->node->program - 1].n)
        return error_set(e, STATUS_MODEL_INVALID, "it has none");
    state->batch = p->file->batch;
    state->run = (struct program_run){.p = p, .node = s->node->program - 1};
    int r = find_ports(s, s->node->inputs, s->node->n_inputs, &state->run.n_inputs,
                       &state->run.inputs, e);
    if (r == 0)
        r = find_ports(s, s->node->outputs, s->node->n_outputs, &state->run.n_outputs,
                       &state->run.outputs, e);
    if (r == 0 && (!state->run.n_inputs || !state->run.n_outputs))
        r = error_set(e, STATUS_MODEL_INVALID, "it takes or gives nothing");
    if (r == 0)
        r = try_program(s, &state->run, e);
    s->state = state;
    return r;
}

// Of a node that is not understood both reasons are said.
static int program_prepare(struct step *s, struct error *e)
{
    struct error why = {0};
    if (!s->unread)
        s->unread = s->node->unread;
    int r = prepare_program(s, &why);
    if (r == 0)
        return 0;
    if (r != STATUS_MODEL_INVALID)
        return error_set(e, r, "%s", why.text);
    return error_set(e, r, "%s; nor can its register program be run: %s", s->unread, why.text);
}

static int program_step_run(const struct step *s, struct run *r, struct error *e)
{
    const struct program_step *state = s->state;
    struct program_run run = state->run;
    run.stop = r->stop;
    cleanup(free_p) const uint8_t **from = calloc((size_t)run.n_inputs + 1, sizeof *from);
    cleanup(free_p) uint8_t **to = calloc((size_t)run.n_outputs + 1, sizeof *to);
    if (!from || !to)
        return error_no_memory(e, "a step", 0);
    run.from = from;
    run.to = to;
    int status = 0;
    for (uint32_t item = 0; item < state->batch && status == 0; item++) {
        for (uint32_t i = 0; i < run.n_inputs; i++)
            from[i] =
                (const uint8_t *)run_tensor(r, run.inputs[i].tensor) + item * run.inputs[i].size;
        for (uint32_t i = 0; i < run.n_outputs; i++)
            to[i] = (uint8_t *)run_tensor(r, run.outputs[i].tensor) + item * run.outputs[i].size;
        status = program_run(&run, e);
    }
    return status < 0 ? error_prefix(e, "node %s (%s)", s->node->name, s->node->type) : 0;
}

const struct op op_program = {.prepare = program_prepare, .run = program_step_run};
