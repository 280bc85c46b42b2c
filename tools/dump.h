// `rknnctl dump`, done: model opened, inputs set, one run, what its nodes compute into files.
#pragma once

#include <stdbool.h>

#include "rknn_api.h"
#include "tools/options.h"

struct dump_plan {
    const char *model;
    struct text_list shapes, inputs;
    rknn_tensor_format layout;
    const char *folder; // made if it is not there
    const char *only;   // tensor name or shell pattern; NULL: all
    bool raw, json;
};

/// Everything that `plan` says, and prints what came. Each tensor is in its file before the next
/// one is computed.
int dump_execute(const struct dump_plan *plan, struct failure *f);
