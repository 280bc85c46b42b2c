// A context of the runtime's, with what is set in it. One thread at a time.
#pragma once

#include <sys/types.h>

#include "npu/npu.h"
#include "npu/rknnrt/runtime.h"

// Memory that a tensor is bound to: the runtime's own, or a dma-buf of a program that it imported.
struct lane_memory {
    rknn_tensor_mem *memory;
    rknn_tensor_attr attr; // as it is bound
    const void *user;      // of a dma-buf: who has it; NULL: the runtime's own
    const uint8_t *data;   // this and what follows: which one it is, and where in it
    dev_t device;
    ino_t inode;
};

struct lane {
    const struct runtime *runtime; // NULL: not open
    const struct npu_model_info *info;
    rknn_context context;
    bool memory;          // tensors go through memory that is bound
    bool copies;          // the runtime does not take programs' dma-bufs
    const void *user;     // of the present run
    uint32_t core_mask;   // 0: not known
    uint32_t batch_cores; // 0: never set
    uint32_t shape_set;   // UINT32_MAX: not known
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

/// Runs a job of `user` on it, without calling done(): cores, shapes, inputs, run, outputs. With
/// core_mask `cores` (0: the runtime has no say in that).
int lane_run(struct lane *l, struct npu_job *job, const void *user, uint32_t cores,
             struct error *e);

/// Gives back the user's dma-bufs (NULL: everyone's). Not while the lane runs.
void lane_forget(struct lane *l, const void *user);

// ---- of lane.c alone: the two ways of tensors ------------------------------------------------

/// Room for `size` bytes in scratch i; NULL: no memory.
uint8_t *lane_room(struct lane *l, uint32_t i, size_t size, struct error *e);

/// rknn_inputs_set() and rknn_outputs_get().
int lane_io_put(struct lane *l, const struct npu_job *job, struct error *e);
int lane_io_get(struct lane *l, const struct npu_job *job, struct error *e);

/// Memory that is bound with rknn_set_io_mem(). lane_memory_form() gives the form in which an
/// input is bound: the native one with pass_through, else channels-last, of the type in which the
/// program gives it.
int lane_memory_form(const struct tensor_io *io, const struct npu_input *in,
                     struct tensor_attr *ret, struct error *e);
int lane_memory_put(struct lane *l, const struct npu_job *job, struct error *e);
int lane_memory_bind_outputs(struct lane *l, const struct npu_job *job, struct error *e);
int lane_memory_get(struct lane *l, const struct npu_job *job, struct error *e);
void lane_memory_drop(struct lane *l, uint32_t slot);
