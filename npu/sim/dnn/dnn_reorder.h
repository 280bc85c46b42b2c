// Memory from one of oneDNN's orders into another.
#pragma once

#include "npu/sim/dnn/dnn_version.h"

/// Copies what `from` says of src to dst, in the order of `to`: for instance weights into the
/// blocks that a primitive chose. Both are plain memory. On as many threads as
/// omp_set_num_threads() said last on this one.
dnnl_status_t dnn_reorder_on(dnnl_engine_t engine, const dnn_md *from, void *src, const dnn_md *to,
                             void *dst);
