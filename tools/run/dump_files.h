// `rknnctl dump`: opens the model, sets the inputs, runs once, and writes what its nodes compute.
#pragma once

#include <stdbool.h>

#include "tools/task.h"

struct dump_plan {
    struct task task;
    const char *folder; // made if it is not there
    const char *only;   // tensor name or shell pattern; NULL: all
    bool raw, json, csv;
};

/// Everything that `plan` says, and prints what came. Each tensor is in its file before the next
/// one is computed.
int dump_execute(const struct dump_plan *plan, struct error *e);
