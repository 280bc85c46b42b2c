// Custom operators in the runs of a context: nodes that the client computes are handed to the loop,
// the run waits; others that the device does not know are computed by plugins, in place.
#pragma once

#include "custom/custom_ops.h"
#include "npu/npu.h"
#include "worker/gate.h"
#include "worker/plugins.h"

struct caller {
    struct npu_custom npu; // for npu_job.custom
    uint32_t node;         // what is posted: its inputs are there
    // The caller's:
    const struct npu_model_info *model;
    struct plugins *plugins;
    struct custom_ops plugged; // computed by plugins so far
    const char **paths;        // of those plugins, by node
    // Of the run:
    struct custom_set set; // that the client computes
    uint8_t *inputs, *outputs;
    struct pause *pause;
    void (*post)(struct caller *c);
    void *tensors[CUSTOM_MAX_TENSORS];
};

/// For a context of the model.
int caller_init(struct caller *c, const struct npu_model_info *model, struct plugins *plugins,
                struct error *e);

/// Ends what plugins do for the context, in their code. A zeroed one is fine.
void caller_done(struct caller *c);

/// For one run: the nodes of `set` have their inputs at `inputs` and their outputs at `outputs`,
/// with room as custom_input_room() and custom_output_room() say; post(c) comes from the run's
/// thread when one is to be computed, and the run goes on after pause_end(). False: the run needs
/// no caller.
bool caller_start(struct caller *c, const struct custom_set *set, uint8_t *inputs, uint8_t *outputs,
                  struct pause *pause, void (*post)(struct caller *c));
