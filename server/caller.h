// Custom operators in a run: hands nodes that the client computes to the loop, and waits.
#pragma once

#include "npu/npu.h"
#include "server/pause.h"

struct caller {
    struct npu_custom npu; // for npu_job.custom
    uint32_t node;         // what is posted: its inputs are there
    // The caller's:
    const struct custom_node *nodes; // of the model
    struct custom_set set;           // that the client computes
    uint8_t *inputs, *outputs;
    struct pause *pause;
    void (*post)(struct caller *c);
    void *tensors[CUSTOM_MAX_TENSORS];
};

/// For one run: the nodes of `set` have their inputs at `inputs` and their outputs at `outputs`,
/// with room as custom_input_room() and custom_output_room() say; post(c) comes from the
/// run's thread when one is to be computed, and the run goes on after pause_end().
void caller_start(struct caller *c, const struct npu_model_info *model,
                  const struct custom_set *set, uint8_t *inputs, uint8_t *outputs,
                  struct pause *pause, void (*post)(struct caller *c));
