// Loading a .rknn file for an NPU (open_model.h).
#pragma once

#include "npu/open/open_model.h"

/// `wanted` is the device's chip. Free with open_load_free(), which takes half a model, too.
int open_load_new(struct provider *provider, struct imports *imports, const struct chip *wanted,
                  const struct npu_model_source *source, struct npu_model **ret, struct error *e);

/// All of it that needs no memory of the NPU: for looking at, not for contexts.
int open_load_plan(struct provider *provider, const struct chip *wanted, struct bytes file,
                   struct npu_model **ret, struct error *e);
void open_load_free(struct npu_model *m);

/// Where a tensor that NPU or CPU computes lies in the arena, and how. STATUS_MODEL_INVALID when
/// it is not there or its layout is not known.
int open_load_port(const struct npu_model *m, uint32_t tensor, struct open_port *ret,
                   struct error *e);
