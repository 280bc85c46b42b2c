// `rknnctl run`, done: model opened, inputs set, runs made, outputs written.
#pragma once

#include "tools/run/run_result.h"
#include "tools/task.h"

struct run_plan {
    struct task task;
    const char *folder; // for outputs; made if it is not there; NULL: none are written
    bool raw, perf, json;
    uint32_t loop, top;
};

struct run_state {
    struct model model;
    struct input_set inputs;
    struct run_result result; // points into the state
};

/// Everything that `plan` says. Ctrl-C ends the loop after the run that is under way; the result
/// then has fewer runs. run_done() is safe after a failure.
int run_execute(struct run_state *s, const struct run_plan *plan, struct error *e);
void run_done(struct run_state *s);
