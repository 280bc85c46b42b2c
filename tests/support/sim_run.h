// Runs a model file on the software NPU through the device contract, for tests.
#pragma once

#include "base/fd.h"
#include "npu/npu.h"

struct sim_run {
    uint8_t *file; // the model's bytes
    struct npu_device *device;
    struct npu_model *model;
    struct npu_context *context;
    const struct npu_model_info *info;
    bool collect_perf;       // in the next runs
    uint32_t core_mask;      // of the next runs; 0: core 0
    const atomic_bool *stop; // of the next runs
    struct npu_slices *slices;
    uint64_t run_us;      // of the last run
    uint64_t estimate_ns; // of the last run
};

/// The whole file, malloc'ed; NULL with words.
uint8_t *sim_read_file(const char *path, size_t *ret_size, struct error *e);

/// Loads a model on a device that stands for any chip. sim_run_done() also after a failure.
int sim_run_init(struct sim_run *s, const char *path, struct error *e);
int sim_run_init_with(struct sim_run *s, const char *options, const char *path, struct error *e);
void sim_run_done(struct sim_run *s);

/// Runs once. `inputs` are the model's n_inputs, `outputs` its n_outputs.
int sim_run_once(struct sim_run *s, const struct npu_input *inputs,
                 const struct npu_output *outputs, struct error *e);
