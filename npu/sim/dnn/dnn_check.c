// oneDNN 3.7.2 goes by the size of the first cache, and where a virtual machine tells of one of no
// bytes it orders some weights wrongly (decision 320). So one convolution that it is known to get
// wrong then is compared with plain loops. All numbers are small integers: their sums are exact in
// any order.
#include "npu/sim/dnn/dnn_check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/dnn/dnn_reorder.h"

enum { IN = 17, OUT = 7, HEIGHT = 9, WIDTH = 12, KERNEL = 3, PIXELS = HEIGHT * WIDTH };

static float image_at(int y, int x, int channel)
{
    return (float)(((y * WIDTH + x) * IN + channel) * 7 % 11 - 5);
}

static float weight_at(int y, int x, int in, int out)
{
    return (float)(((out * IN + in) * KERNEL * KERNEL + y * KERNEL + x) * 5 % 13 - 6);
}

static float plain_sum(int y, int x, int out)
{
    float sum = 0;
    for (int ky = 0; ky < KERNEL; ky++)
        for (int kx = 0; kx < KERNEL; kx++) {
            int iy = y + ky - 1, ix = x + kx - 1;
            if (iy < 0 || iy >= HEIGHT || ix < 0 || ix >= WIDTH)
                continue;
            for (int in = 0; in < IN; in++)
                sum += image_at(iy, ix, in) * weight_at(ky, kx, in, out);
        }
    return sum;
}

// What one run of a convolution owns.
struct probe {
    dnn_md *src, *weights, *dst;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    dnnl_memory_t memory[3];
    float *ordered; // weights as the primitive wants them
};

static void probe_done(struct probe *p)
{
    for (int i = 0; i < 3; i++)
        if (p->memory[i])
            dnnl_memory_destroy(p->memory[i]);
    if (p->stream)
        dnnl_stream_destroy(p->stream);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    if (p->pd)
        dnnl_primitive_desc_destroy(p->pd);
    dnn_md_free(p->src);
    dnn_md_free(p->weights);
    dnn_md_free(p->dst);
    free(p->ordered);
}

static dnnl_status_t probe_describe(struct probe *p, dnnl_engine_t engine)
{
    p->src = dnn_md_new(4, (dnnl_dims_t){1, IN, HEIGHT, WIDTH}, dnnl_f32, dnnl_nhwc);
    p->dst = dnn_md_new(4, (dnnl_dims_t){1, OUT, HEIGHT, WIDTH}, dnnl_f32, dnnl_nhwc);
    p->weights =
        dnn_md_new(4, (dnnl_dims_t){OUT, IN, KERNEL, KERNEL}, dnnl_f32, dnnl_format_tag_any);
    if (!p->src || !p->dst || !p->weights)
        return dnnl_out_of_memory;
    const struct dnn_convolution all = {.src = p->src,
                                        .weights = p->weights,
                                        .dst = p->dst,
                                        .strides = {1, 1},
                                        .before = {1, 1},
                                        .after = {1, 1}};
    dnnl_status_t status = dnn_describe_convolution(engine, &all, NULL, &p->pd);
    return status == dnnl_success ? dnnl_primitive_create(&p->primitive, p->pd) : status;
}

static dnnl_status_t probe_order_weights(struct probe *p, dnnl_engine_t engine)
{
    float plain[KERNEL * KERNEL * IN * OUT];
    for (int out = 0, i = 0; out < OUT; out++)
        for (int in = 0; in < IN; in++)
            for (int y = 0; y < KERNEL; y++)
                for (int x = 0; x < KERNEL; x++)
                    plain[i++] = weight_at(y, x, in, out);
    const dnn_md *wanted = dnnl_primitive_desc_query_md(p->pd, dnnl_query_weights_md, 0);
    cleanup(dnn_md_free_p) dnn_md *from =
        dnn_md_new(4, (dnnl_dims_t){OUT, IN, KERNEL, KERNEL}, dnnl_f32, dnnl_oihw);
    size_t size = dnnl_memory_desc_get_size(wanted);
    p->ordered = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!from || !p->ordered)
        return dnnl_out_of_memory;
    dnnl_status_t status = dnn_reorder_on(engine, from, plain, wanted, p->ordered);
    return status == dnnl_success ? dnnl_memory_create(&p->memory[1], wanted, engine, p->ordered)
                                  : status;
}

static dnnl_status_t probe_run(struct probe *p, dnnl_engine_t engine, float *ret)
{
    float image[PIXELS * IN];
    for (int y = 0, i = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int in = 0; in < IN; in++)
                image[i++] = image_at(y, x, in);
    dnnl_status_t status = dnnl_memory_create(&p->memory[0], p->src, engine, image);
    if (status == dnnl_success)
        status = dnnl_memory_create(&p->memory[2], p->dst, engine, ret);
    if (status == dnnl_success)
        status = dnnl_stream_create(&p->stream, engine, 0);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->memory[0]},
                                    {DNNL_ARG_WEIGHTS, p->memory[1]},
                                    {DNNL_ARG_DST, p->memory[2]}};
    if (status == dnnl_success)
        status = dnnl_primitive_execute(p->primitive, p->stream, 3, args);
    return status == dnnl_success ? dnnl_stream_wait(p->stream) : status;
}

static bool is_right(const float *sums)
{
    for (int y = 0, i = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int out = 0; out < OUT; out++)
                if (sums[i++] != plain_sum(y, x, out))
                    return false;
    return true;
}

// Threads that come at the same time each look for themselves.
int dnn_check(dnnl_engine_t engine, struct error *e)
{
    static atomic_bool is_known_right;
    if (is_known_right)
        return 0;
    cleanup(probe_done) struct probe p = {0};
    float sums[PIXELS * OUT] = {0};
    dnnl_status_t status = probe_describe(&p, engine);
    if (status == dnnl_success)
        status = probe_order_weights(&p, engine);
    if (status == dnnl_success)
        status = probe_run(&p, engine, sums);
    if (status != dnnl_success)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "oneDNN: a first convolution fails (%d)",
                         (int)status);
    const dnnl_version_t *v = dnnl_version();
    if (!is_right(sums))
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "oneDNN %d.%d.%d computes convolutions wrongly on this processor, as it "
                         "is known to where a virtual machine hides the caches' sizes: show them "
                         "(QEMU: -cpu host), or set ONEDNN_MAX_CPU_ISA=SSE41, which is slow",
                         v->major, v->minor, v->patch);
    is_known_right = true;
    return 0;
}
