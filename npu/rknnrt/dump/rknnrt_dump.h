// Runs whose layers are looked at: the runtime writes them to files (SDK guide 7.2.2).
#pragma once

#include "npu/rknnrt/lanes/lane.h"

/// Where the runtime dumps layers unless it is told otherwise.
const char *dump_usual_folder(void);

/// Runs a job, which has a tap, on a context of its own of the model in `file`; shows what the
/// runtime dumps to `folder` ("": its usual one) as it comes, by the names of the files, and
/// removes it there. Waits for other dumps to end.
int dump_run(const struct runtime *r, struct bytes file, const struct npu_model_info *info,
             const char *folder, struct npu_job *job, uint32_t cores, struct error *e);
