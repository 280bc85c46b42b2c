// One case of ONNX's own tests: a folder with model.onnx and, in test_data_set_N, tensors for its
// inputs and what its outputs must be.
#pragma once

#include "npu/npu.h"

enum onnx_result {
    ONNX_PASSED,
    ONNX_REFUSED, // with words, while it was loaded; or its data is nothing that can be an input
    ONNX_WRONG,   // it ran, and its outputs are not the expected ones, or it failed
};

/// Loads and runs a case. Inputs that the software NPU needs to know while it loads a model become
/// constants of the model: first none, then whole numbers, then those without dimensions, then all
/// but the first.
enum onnx_result onnx_case_run(struct npu_device *device, const char *folder, struct error *e);

/// Whether all operators of a case's model are in the list, which ends with NULL.
bool onnx_case_uses_only(const char *folder, const char *const *operators);
