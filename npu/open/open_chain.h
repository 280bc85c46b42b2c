// The chain of a model's tasks on one core, for providers that look at them.
#pragma once

#include "npu/model/rknn/program/rknn_program.h"
#include "npu/open/provider/provider.h"

/// Why the provider cannot run nodes: unable[node] is set for these, to static text, and left alone
/// for others.
int open_chain_judge(const struct provider *p, const struct rknn_program *program, uint32_t n_nodes,
                     const char **unable, struct error *e);

/// Has the provider prepare the chain for a context's memory; *chain has its commands and memories.
int open_chain_prepare(struct provider *p, const struct rknn_program *program, uint32_t n_nodes,
                       const char *const *unable, struct provider_memory *records,
                       struct provider_chain *chain, struct error *e);
