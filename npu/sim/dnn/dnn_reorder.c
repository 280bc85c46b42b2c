#include "npu/sim/dnn/dnn_reorder.h"

#include "base/cleanup.h"

static void memory_destroy(dnnl_memory_t *m)
{
    if (*m)
        dnnl_memory_destroy(*m);
}

// Primitive and stream are used once and freed.
dnnl_status_t dnn_reorder_on(dnnl_engine_t engine, const dnn_md *from, void *src, const dnn_md *to,
                             void *dst)
{
    cleanup(memory_destroy) dnnl_memory_t a = NULL, b = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t reorder = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t status = dnnl_memory_create(&a, from, engine, src);
    if (status == dnnl_success)
        status = dnnl_memory_create(&b, to, engine, dst);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&reorder, pd);
    if (status == dnnl_success)
        status = dnnl_stream_create(&stream, engine, 0);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, a}, {DNNL_ARG_TO, b}};
    if (status == dnnl_success)
        status = dnnl_primitive_execute(reorder, stream, 2, args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(stream);
    if (stream)
        dnnl_stream_destroy(stream);
    if (reorder)
        dnnl_primitive_destroy(reorder);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return status;
}
