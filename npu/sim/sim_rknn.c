#include "npu/sim/sim_rknn.h"

#include <fnmatch.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/rknn_graph.h"
#include "npu/sim/exec/ops.h"

static int take_graph(const struct sim_rknn *load, const struct rknn_graph_choice *choice,
                      struct error *e)
{
    struct graph g;
    int r = rknn_graph_of(&g, load->file, load->chip, choice, e);
    return r < 0 ? r : load->take(load->user, &g, e);
}

// Nodes that match the pattern, in memory of malloc's.
static bool *match_nodes(const struct rknn_file *f, const char *pattern)
{
    bool *matches = calloc((size_t)f->n_nodes + 1, sizeof *matches);
    for (uint32_t i = 0; matches && i < f->n_nodes && pattern[0]; i++)
        matches[i] = fnmatch(pattern, f->nodes[i].name, 0) == 0;
    return matches;
}

int sim_rknn_load(const struct sim_rknn *load, struct graph_programs **programs, struct error *e)
{
    cleanup(free_p) bool *by_program = match_nodes(load->file, load->by_program);
    struct error why = {0};
    *programs = NULL;
    if (!by_program)
        return error_no_memory(e, "the graph", load->file->n_nodes);
    int r = STATUS_MODEL_INVALID;
    if (!load->by_program[0]) {
        r = take_graph(load, &(struct rknn_graph_choice){0}, e);
        if (r != STATUS_MODEL_INVALID || load->strict)
            return r;
    }
    if (program_new(load->file, load->chip, programs, &why) < 0)
        return load->by_program[0] ? error_set(e, why.code, "%s", why.text) : r;
    const struct rknn_graph_choice choice = {
        .programs = *programs, .by_program = by_program, .strict = load->strict};
    r = take_graph(load, &choice, &why);
    if (r == 0)
        return 0;
    program_free(*programs);
    *programs = NULL;
    return error_set(e, r, "%s", why.text);
}

uint32_t sim_rknn_count(const struct plan *p, const struct step **first)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].op == &op_program && !n++)
            *first = &p->steps[i];
    return n;
}
