// A context of the runtime's, with what is set in it. One thread at a time.
#pragma once

#include "npu/npu.h"
#include "npu/vendor/runtime.h"

// Memory of the runtime's that a tensor is bound to.
struct lane_memory {
    rknn_tensor_mem *memory;
    rknn_tensor_attr attr; // as it is bound
};

struct lane {
    const struct runtime *runtime; // NULL: not open
    const struct npu_model_info *info;
    rknn_context context;
    uint32_t core_mask;   // 0: not known
    uint32_t batch_cores; // 0: never set
    uint32_t row;         // UINT32_MAX: not known
    rknn_input *inputs;   // this and what follows: NULL before the first run
    rknn_output *outputs;
    struct bytes *scratch; // of inputs, then outputs: room where data have to change their form
    struct lane_memory *memories; // the same; of small runtimes
};

/// Opens a context with rknn_init() flags. `info` is looked at when the first job runs, and stays
/// until the lane is done. On failure there is nothing to free.
int lane_init(struct lane *l, const struct runtime *r, struct bytes file, uint32_t flags,
              const struct npu_model_info *info, struct error *e);

/// Another context of the same model, which shares its weights, by rknn_dup_context().
int lane_dup(struct lane *l, const struct lane *of, struct error *e);

void lane_done(struct lane *l); // zeroed: fine

/// Runs a job on it, without calling done(): cores, shapes, inputs, run, outputs. With core_mask
/// `cores` (0: the runtime has no say in that).
int lane_run(struct lane *l, struct npu_job *job, uint32_t cores, struct error *e);

// ---- of lane.c alone: the two ways of tensors ------------------------------------------------

/// Room for `size` bytes in scratch i; NULL: no memory.
uint8_t *lane_room(struct lane *l, uint32_t i, size_t size, struct error *e);

/// rknn_inputs_set() and rknn_outputs_get().
int lane_io_put(struct lane *l, const struct npu_job *job, struct error *e);
int lane_io_get(struct lane *l, const struct npu_job *job, struct error *e);

/// Memory that is bound with rknn_set_io_mem().
int lane_memory_put(struct lane *l, const struct npu_job *job, struct error *e);
int lane_memory_bind_outputs(struct lane *l, const struct npu_job *job, struct error *e);
int lane_memory_get(struct lane *l, const struct npu_job *job, struct error *e);
void lane_memory_done(struct lane *l);
