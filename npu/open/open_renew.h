// Programs of our own for tasks inside a node, so that the NPU can be lent to others there, too:
// each is a file's task that writes all registers of its blocks, and not only those that change.
#pragma once

#include "npu/open/open_model.h"

/// Adds such tasks to m->program, behind the file's own, for all places inside nodes where
/// registers alone keep a part from beginning, and where all of them are known; m->cuts.renewed
/// says which places these are. What changes commands of inputs and outputs (open_port) changes the
/// copies, too.
int open_renew_tasks(struct npu_model *m, struct error *e);
