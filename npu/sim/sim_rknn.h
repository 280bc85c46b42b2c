// A .rknn file becomes a graph: of nodes that are understood, and where some are not, with the
// file's register programs for these.
#pragma once

#include "npu/sim/exec/step.h"
#include "npu/sim/program/program.h"

/// Does what can fail with a graph, which is the callee's then.
typedef int sim_take_graph(void *user, struct graph *g, struct error *e);

struct sim_rknn {
    const struct rknn_file *file; // outlives the graph
    const struct chip *chip;
    const char
        *by_program; // shell pattern: nodes that are run by their programs in any case; "": none
    bool strict;     // others are not: what is not understood is refused
    sim_take_graph *take;
    void *user;
};

/// Calls take() once, and again where the file's programs may help; when that fails, too, the words
/// say why neither does. *programs: what the graph needs, NULL if nothing; free it after the graph.
int sim_rknn_load(const struct sim_rknn *load, struct graph_programs **programs, struct error *e);

/// How many of a plan's steps are done by register programs, and the first of these.
uint32_t sim_rknn_count(const struct plan *p, const struct step **first);
