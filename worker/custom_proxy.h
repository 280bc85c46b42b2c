// Custom operators in the runs of a context: nodes that the client computes are handed to the loop,
// the run waits; others that the device does not know are computed by plugins, in place.
#pragma once

#include "custom/custom_ops.h"
#include "npu/npu.h"
#include "worker/gate.h"
#include "worker/plugins.h"

struct custom_proxy {
    struct npu_custom npu; // for npu_job.custom
    uint32_t node;         // what is posted: its inputs are there
    // The proxy's own:
    const struct npu_model_info *model;
    struct plugins *plugins;
    struct custom_ops plugged; // computed by plugins so far
    const char **paths;        // of those plugins, by node
    // Of the run:
    struct custom_set set; // that the client computes
    uint8_t *inputs, *outputs;
    struct gate *gate;
    void (*post)(struct custom_proxy *c);
    void *tensors[CUSTOM_MAX_TENSORS];
};

/// For a context of the model.
int custom_proxy_init(struct custom_proxy *c, const struct npu_model_info *model,
                      struct plugins *plugins, struct error *e);

/// Ends what plugins do for the context, in their code. A zeroed one is fine.
void custom_proxy_done(struct custom_proxy *c);

/// For one run: the nodes of `set` have their inputs at `inputs` and their outputs at `outputs`,
/// with room as custom_input_room() and custom_output_room() say; post(c) comes from the run's
/// thread when one is to be computed, and the run continues after gate_open(). False: the run needs
/// no proxy.
bool custom_proxy_start(struct custom_proxy *c, const struct custom_set *set, uint8_t *inputs,
                        uint8_t *outputs, struct gate *gate, void (*post)(struct custom_proxy *c));
