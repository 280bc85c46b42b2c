// Runs a job: the NPU's nodes in as few submissions as can be, a CPU's between them.
#pragma once

#include "npu/open/open_context.h"

int open_run(struct npu_context *c, struct npu_job *job, struct error *e);
