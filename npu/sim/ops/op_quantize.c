// QuantizeLinear of floats into an int8 tensor of ONNX: y = saturate(rint(x / scale) + zp), the
// quotient of floats rounded to even before the zero point is added. Divided, not multiplied by
// 1 / scale, which would round another way now and then. NaN becomes zp. Tested by
// test_onnx_against.
#include <math.h>

#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/elements.h"

static int quantize_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    if (x->type != TENSOR_FLOAT32 || y->type != TENSOR_INT8 || !y->quantized ||
        x->n_elems != y->n_elems || x->channels_last != y->channels_last)
        return step_refuse(s, e, "it makes 8-bit numbers of floats");
    return 0;
}

KERNEL(void, quantize_quantize, (const float *x, int8_t *y, size_t n, float scale, float zp),
       (x, y, n, scale, zp))
{
    for (size_t i = 0; i < n; i++) {
        float v = rintf(x[i] / scale) + zp;
        v = v == v ? v : zp;
        v = v < -128 ? -128 : v;
        y[i] = (int8_t)(v > 127 ? 127 : v);
    }
}

static int quantize_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct graph_tensor *y = step_output(s, 0);
    quantize_quantize(run_input(s, r, 0), run_output(s, r, 0), y->n_elems, y->scale, (float)y->zp);
    return 0;
}

const struct op op_quantize = {.prepare = quantize_prepare, .run = quantize_run};
