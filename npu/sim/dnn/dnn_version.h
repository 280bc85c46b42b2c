// What oneDNN 2 (Debian 12) and oneDNN 3 (Debian 13) say differently, said once: memory
// descriptors are structs in one and handles in the other, convolutions are described in two steps
// or in one, and zero points are a part of a primitive or an argument of each run. Version 3 is
// right where the processor tells the sizes of its caches (dnn_check.h, decision 320).
#pragma once

#include <dnnl.h>

#include "base/cleanup.h"

#if DNNL_VERSION_MAJOR >= 3
#define DNN_ZERO_POINTS_ARE_ARGUMENTS 1
typedef struct dnnl_memory_desc dnn_md;
#else
#define DNN_ZERO_POINTS_ARE_ARGUMENTS 0
typedef dnnl_memory_desc_t dnn_md;
#endif

/// What a memory holds: dimensions, type, and in which order. The caller's to free. NULL: there is
/// no memory, or oneDNN has none of these sizes.
dnn_md *dnn_md_new(int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type,
                   dnnl_format_tag_t order);
dnn_md *dnn_md_copy(const dnn_md *md);
void dnn_md_free(dnn_md *md); // NULL is fine

static inline void dnn_md_free_p(dnn_md **md)
{
    dnn_md_free(*md);
}

// A forward convolution in groups; what is pointed to stays the caller's. bias NULL: none.
struct dnn_convolution {
    const dnn_md *src, *weights, *bias, *dst;
    dnnl_dims_t strides, dilates, before, after; // two of each: height, width
};

/// The primitive for it, which the caller destroys.
dnnl_status_t dnn_describe_convolution(dnnl_engine_t engine, const struct dnn_convolution *c,
                                       const_dnnl_primitive_attr_t attr,
                                       dnnl_primitive_desc_t *ret);

/// The image's zero point, one for all of it. Where DNN_ZERO_POINTS_ARE_ARGUMENTS it is also to be
/// passed to each run: DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, one int32_t.
dnnl_status_t dnn_set_src_zero_point(dnnl_primitive_attr_t attr, int32_t zero_point);

dnnl_status_t dnn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t algorithm, float alpha,
                                 float beta);
