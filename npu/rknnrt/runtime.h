// The vendor's library: found, opened, and each of its functions that is there.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "rknn_matmul_api.h"

// What is used of it, each with a version that is known to have it (release notes; for dynamic
// shapes SDK guide 5.4.2).
// clang-format off
#define RUNTIME_CALLS(X) \
    X(init,                        "1.2.0") \
    X(destroy,                     "1.2.0") \
    X(query,                       "1.2.0") \
    X(run,                         "1.2.0") \
    X(dup_context,                 "1.4.0") \
    X(inputs_set,                  "1.2.0") \
    X(outputs_get,                 "1.2.0") \
    X(outputs_release,             "1.2.0") \
    X(set_core_mask,               "1.4.0") \
    X(set_batch_core_num,          "2.3.2") \
    X(set_input_shapes,            "1.5.0") \
    X(create_mem,                  "1.2.0") \
    X(create_mem_from_fd,          "1.2.0") \
    X(destroy_mem,                 "1.2.0") \
    X(set_io_mem,                  "1.2.0") \
    X(matmul_create,               "2.3.2") \
    X(matmul_create_dynamic_shape, "2.3.2") \
    X(matmul_set_io_mem,           "2.3.2") \
    X(matmul_set_core_mask,        "2.3.2") \
    X(matmul_set_quant_params,     "2.3.2") \
    X(matmul_set_dynamic_shape,    "2.3.2") \
    X(matmul_run,                  "2.3.2") \
    X(matmul_destroy,              "2.3.2")
// clang-format on

// Functions are NULL where the library lacks them.
struct runtime {
    void *library;
    bool small; // chip.small
    char path[256];
    char version[128]; // as the file says it: "2.3.2 (429f97ae6b@2025-04-09T09:09:27)"
#define X(name, since) __typeof__(rknn_##name) *name;
    RUNTIME_CALLS(X)
#undef X
};

/// Opens `path`, or with "" the first of the usual places. Never takes our own client library,
/// which has the same soname. STATUS_DEVICE_UNAVAILABLE says what was tried, and what to do.
/// The library stays mapped for good. Whoever has it from here has init, destroy, query and run,
/// and the functions that set inputs and get outputs: with `small` those for memory.
int runtime_open(struct runtime *r, const char *path, bool small, struct error *e);

/// The error that the function `name` ("rknn_dup_context") is missing.
int runtime_lacks(const struct runtime *r, const char *name, struct error *e);

/// The error that `call` answered with `code`, which is kept.
int runtime_failed(const struct runtime *r, const char *call, int code, struct error *e);
