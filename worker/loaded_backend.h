// A backend with its device and one model: what a worker process serves and what threads run.
#pragma once

#include "npu/module.h"
#include "npu/npu.h"
#include "protocol/message.h"
#include "worker/model_file.h"

// Zero-initialised is closed. One thread at a time, except where npu.h allows more.
struct loaded_backend {
    struct npu_module module;
    const struct npu_backend *backend; // of the module
    struct npu_device *device;
    struct npu_model *model;
    void *file; // mapped, read-only
    size_t file_size;
};

/// Loads the module npu-BACKEND.so from `module_dir`. May block.
int loaded_backend_open_module(struct loaded_backend *loaded, const char *module_dir,
                               const char *backend, struct error *e);

/// Opens the device of the module. May block.
int loaded_backend_open_device(struct loaded_backend *loaded, const char *options, struct error *e);

/// Both.
int loaded_backend_open(struct loaded_backend *loaded, const char *module_dir, const char *backend,
                        const char *options, struct error *e);

/// Maps a model file and loads it. May block. The fd stays the caller's and need not stay open; the
/// file may not change.
int loaded_backend_load(struct loaded_backend *loaded, const struct model_file *file,
                        struct error *e);

/// A loaded model's tensors: of each shape set the inputs, then the outputs. A malloc'ed list
/// of pointers into the model; NULL: no memory.
const struct tensor_io **loaded_backend_tensors(const struct npu_model_info *m, size_t *ret_n);

/// All that is said of a loaded model but for the lists: tensors and custom operators.
void loaded_backend_model_message(const struct npu_model_info *m, rknnd_ContextInfo *ret);

/// The backend's description of a model file: JSON text, malloc'ed, the caller's. May block.
int loaded_backend_describe(struct loaded_backend *loaded, const struct model_file *file,
                            char **ret, struct error *e);

/// Does a job `n` times (rknnd_Infer.samples), one after the other, and waits for each. `inputs`
/// and `outputs` are the job's own, whose data move on by their sizes; the caller has seen to it
/// that all of that is memory. The job's done() and owner are this call's; its run_us and
/// estimate_ns are of all runs. May block.
int loaded_backend_run_samples(const struct loaded_backend *loaded, struct npu_context *context,
                               struct npu_job *job, struct npu_input *inputs,
                               struct npu_output *outputs, uint32_t n, struct error *e);

/// After the model's contexts. Also of what is half open.
void loaded_backend_close(struct loaded_backend *loaded);
