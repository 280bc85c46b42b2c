// A plugin for tests: cstDualResidual, good or bad as PLUGIN_KIND says.
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "rknn_custom_op.h"

#define GOOD     0
#define VERSION2 1
#define NOTHING  2 // has no get_rknn_custom_op()
#define CRASH    3 // when it is loaded
#define HANG     4 // in compute()
#define ABORT    5 // in compute()
#define FAILING  6 // in compute()
#define INIT     7 // hands the node back
#define ORIGIN   8 // needs a library that lies beside it

#if PLUGIN_KIND == ORIGIN
float plugin_beside(void);
#else
#define plugin_beside() 1
#endif

static float *data(const rknn_custom_op_tensor *t)
{
    return (float *)((uint8_t *)t->mem.virt_addr + t->mem.offset);
}

__attribute__((unused)) static int compute(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                                           uint32_t n_inputs, rknn_custom_op_tensor *outputs,
                                           uint32_t n_outputs)
{
    rknn_custom_op_attr alpha;
    rknn_custom_op_get_op_attr(c, "alpha", &alpha);
    if (PLUGIN_KIND == FAILING || n_inputs != 2 || n_outputs != 2 || alpha.n_elems != 1)
        return RKNN_ERR_INPUT_INVALID;
    while (PLUGIN_KIND == HANG)
        pause();
    if (PLUGIN_KIND == ABORT)
        raise(SIGABRT);
    float f = *(const float *)alpha.data * plugin_beside();
    for (uint32_t i = 0; i < inputs[0].attr.n_elems; i++) {
        data(&outputs[0])[i] = data(&inputs[0])[i] + f * data(&inputs[1])[i];
        data(&outputs[1])[i] = data(&inputs[1])[i] - f * data(&inputs[0])[i];
    }
    return 0;
}

__attribute__((unused)) static int init(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                                        uint32_t n_inputs, rknn_custom_op_tensor *outputs,
                                        uint32_t n_outputs)
{
    (void)c, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs;
    return PLUGIN_KIND == INIT ? RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE : 0;
}

#if PLUGIN_KIND == CRASH
__attribute__((constructor)) static void crash(void)
{
    raise(SIGSEGV);
}
#endif

#if PLUGIN_KIND != NOTHING
__attribute__((visibility("default"))) rknn_custom_op *get_rknn_custom_op(void);

rknn_custom_op *get_rknn_custom_op(void)
{
    static rknn_custom_op op = {.version = PLUGIN_KIND == VERSION2 ? 2 : 1,
                                .target = RKNN_TARGET_TYPE_CPU,
                                .op_type = "cstDualResidual",
                                .init = init,
                                .compute = compute};
    return &op;
}
#endif
