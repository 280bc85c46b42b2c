// oneDNN's two versions. The interface is the newer one's; for the older one descriptors are
// allocated, so that the same code owns and frees them in both.
#include "npu/sim/dnn/dnn_version.h"

#include <stdlib.h>

#if DNNL_VERSION_MAJOR >= 3

dnn_md *dnn_md_new(int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type,
                   dnnl_format_tag_t order)
{
    dnn_md *md;
    return dnnl_memory_desc_create_with_tag(&md, n_dims, dims, type, order) == dnnl_success ? md
                                                                                            : NULL;
}

dnn_md *dnn_md_copy(const dnn_md *md)
{
    dnn_md *copy;
    return dnnl_memory_desc_clone(&copy, md) == dnnl_success ? copy : NULL;
}

void dnn_md_free(dnn_md *md)
{
    if (md)
        dnnl_memory_desc_destroy(md);
}

dnnl_status_t dnn_describe_convolution(dnnl_engine_t engine, const struct dnn_convolution *c,
                                       const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *ret)
{
    return dnnl_convolution_forward_primitive_desc_create(
        ret, engine, dnnl_forward_inference, dnnl_convolution_direct, c->src, c->weights, c->bias,
        c->dst, c->strides, c->dilates, c->before, c->after, attr);
}

dnnl_status_t dnn_set_src_zero_point(dnnl_primitive_attr_t attr, int32_t zero_point)
{
    (void)zero_point; // an argument of each run
    return dnnl_primitive_attr_set_zero_points_mask(attr, DNNL_ARG_SRC, 0);
}

dnnl_status_t dnn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t algorithm, float alpha,
                                 float beta)
{
    return dnnl_post_ops_append_eltwise(ops, algorithm, alpha, beta);
}

#else

dnn_md *dnn_md_new(int n_dims, const dnnl_dims_t dims, dnnl_data_type_t type,
                   dnnl_format_tag_t order)
{
    dnn_md *md = malloc(sizeof *md);
    if (md && dnnl_memory_desc_init_by_tag(md, n_dims, dims, type, order) == dnnl_success)
        return md;
    free(md);
    return NULL;
}

dnn_md *dnn_md_copy(const dnn_md *md)
{
    dnn_md *copy = malloc(sizeof *copy);
    if (copy)
        *copy = *md;
    return copy;
}

void dnn_md_free(dnn_md *md)
{
    free(md);
}

dnnl_status_t dnn_describe_convolution(dnnl_engine_t engine, const struct dnn_convolution *c,
                                       const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *ret)
{
    dnnl_convolution_desc_t desc;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, c->src, c->weights, c->bias, c->dst,
        c->strides, c->dilates, c->before, c->after);
    return status == dnnl_success ? dnnl_primitive_desc_create(ret, &desc, attr, engine, NULL)
                                  : status;
}

dnnl_status_t dnn_set_src_zero_point(dnnl_primitive_attr_t attr, int32_t zero_point)
{
    return dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_SRC, 1, 0, &zero_point);
}

dnnl_status_t dnn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t algorithm, float alpha,
                                 float beta)
{
    return dnnl_post_ops_append_eltwise(ops, 1, algorithm, alpha, beta);
}

#endif
