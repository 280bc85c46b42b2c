// A stand-in for the vendor's runtime: the RKNN API in front of the software NPU, in one process.
// It answers as the vendor's manuals say, and is as trusting as such a library is.
//
// Its environment:
//   RKNN_STANDIN          options of the software NPU ("rk3588,crash@3"); default rk3588
//   RKNN_STANDIN_CODE     rknn_init() answers this number
//   RKNN_STANDIN_IMPORTS  file that gets a line for each dma-buf that is imported or given back
//   RKNN_STANDIN_DUMPS    where layers are written with RKNN_LOG_LEVEL 5
//
// Made with STANDIN_OLD it knows only the structs of the first headers, with STANDIN_SMALL it is
// librknnmrt.so of RV1103 and RV1106.
#pragma once

#include <stdatomic.h>

#include "npu/npu.h"
#include "rknn_api.h"

// Writes what nodes compute to files.
struct standin_dump {
    struct npu_tap npu;
    const char *folder; // NULL: none are written
    unsigned n;         // files so far
};

// A model, which duplicated contexts share.
struct standin_model {
    atomic_uint refs;
    struct npu_device *device;
    struct npu_model *model;
    const struct npu_model_info *info;
    uint8_t *file;
};

// A tensor of a context: what was set, or where it is bound.
struct standin_tensor {
    rknn_tensor_mem *memory; // NULL: not bound
    rknn_tensor_attr attr;   // as it was bound
    struct convert_form form;
    uint8_t *data; // the context's own
    size_t size;
};

// What an rknn_context points to.
struct standin {
    struct standin_model *model;
    struct npu_context *context;
    uint32_t flags, shape_set, core_mask, batch_cores;
    struct npu_input *inputs;
    struct npu_output *outputs;
    struct standin_tensor *tensors; // inputs, then outputs
    uint64_t run_us;
    struct standin_dump dump;
    char *perf; // the table that was last asked for
};

static inline struct standin *standin_of(rknn_context c)
{
    return (struct standin *)(uintptr_t)c;
}

static inline const struct tensor_io *standin_input(const struct standin *s, uint32_t i)
{
    return &s->model->info->inputs[s->shape_set * s->model->info->n_inputs + i];
}

static inline const struct tensor_io *standin_output(const struct standin *s, uint32_t i)
{
    return &s->model->info->outputs[s->shape_set * s->model->info->n_outputs + i];
}

/// Where the inputs of the next run lie and where its outputs go.
int standin_gather(struct standin *s);

/// The table of the last run's layers, in today's form, or with STANDIN_OLD as of the first
/// versions.
int standin_perf(struct standin *s, rknn_perf_detail *ret);

/// The shape set of the largest shapes.
uint32_t standin_largest(const struct npu_model_info *m);

/// Answers RKNN_QUERY_INPUT_DYNAMIC_RANGE.
int standin_range(const struct npu_model_info *m, rknn_input_range *ret);

/// As the environment says now.
void standin_dump_init(struct standin_dump *d);

/// Where the data of a memory lie.
void *standin_memory(const rknn_tensor_mem *m);

/// Room for a tensor's data; NULL: none.
uint8_t *standin_room(struct standin_tensor *t, size_t size);
