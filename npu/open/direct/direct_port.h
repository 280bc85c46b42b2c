// Whether a model's input or output can lie elsewhere than in the arena: all that is done with it
// has to be the NPU's, and has to take its address from commands that the file says are for it.
#pragma once

#include "npu/open/open_model.h"

/// Sets patches, and `why` where it cannot be (text in m->pool), of all inputs and outputs of a
/// model whose steps and ports are known.
int direct_ports_find(struct npu_model *m, struct error *e);
