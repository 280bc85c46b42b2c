// What a loaded model is: its tensors, sizes and custom operators, as its backend says.
#pragma once

#include "npu/npu.h"
#include "protocol/custom_message.h"

// Owned by the runner; does not change once the model is loaded.
struct model_info {
    struct npu_device_info device;
    uint32_t n_inputs, n_outputs;
    uint32_t n_shape_sets;     // at least 1
    bool native_attrs;         // npu_model_info.native_attrs
    bool no_custom;            // npu_model_info.no_custom
    struct tensor_io *tensors; // of each shape set: inputs, then outputs
    uint64_t weight_size, internal_size, memory_size;
    uint64_t context_size; // npu_model_info.context_size
    uint32_t core_limit, batch;
    char custom_string[1024];
    char estimate_chip[32]; // as in npu_model_info; "": none
    bool estimate_assumed;
    uint32_t n_unestimated;
    struct custom_list *custom;  // nodes that others may compute
    struct bytes custom_payload; // of CustomListReply
};

/// Number of tensors of one shape set, and all of its tensors.
static inline size_t model_info_count(const struct model_info *info)
{
    return (size_t)info->n_inputs + info->n_outputs;
}
static inline const struct tensor_io *model_info_shape_set(const struct model_info *info,
                                                           uint32_t shape_set)
{
    return info->tensors + shape_set * model_info_count(info);
}

/// Takes what the message says; the lists of tensors and custom operators are not in it.
void model_info_take_message(struct model_info *info, const rknnd_ContextInfo *m);

/// Takes the nodes that others may compute, in the form of CustomListReply's payload, from the
/// front of *payload into the info.
int model_info_take_custom(struct model_info *info, struct bytes *payload, uint32_t n,
                           struct error *e);

/// Frees what the info points to. A zeroed one is fine.
void model_info_done(struct model_info *info);
