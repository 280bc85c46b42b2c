// As the SDK's custom op demo, on the CPU: operators of the program are called at the right times
// with the right tensors and attributes, and what they answer counts.
#include "custom_ops.h"

#define N_LOOPS 3

// ---- the plain way -----------------------------------------------------------------------------

static void run_model(const char *name, rknn_custom_op op, int n_nodes)
{
    char path[64];
    snprintf(path, sizeof path, "%s.rknn", name);
    struct calls before = custom_ops_calls();
    rknn_context c = conformance_open(path, 0);
    EXPECT_OK(rknn_register_custom_ops(c, &op, 1));
    memset(&op, 0xff, sizeof op); // not needed any more
    conformance_set_inputs(c, name);
    for (int i = 0; i < N_LOOPS; i++) {
        EXPECT_OK(rknn_run(c, NULL));
        conformance_expect_outputs(c, name);
    }
    struct calls now = custom_ops_calls();
    EXPECT_CMP(now.init, ==, before.init + n_nodes);
    EXPECT_CMP(now.prepare, ==, before.prepare + N_LOOPS * n_nodes);
    EXPECT_CMP(now.compute, ==, before.compute + N_LOOPS * n_nodes);
    EXPECT_CMP(now.destroy, ==, before.destroy);
    EXPECT_OK(rknn_destroy(c));
    EXPECT_CMP(custom_ops_calls().destroy, ==, before.destroy + n_nodes);
}

// ---- operators that the runtime knows ----------------------------------------------------------

static int hand_back(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                     rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs;
    return RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE;
}

// Computed by the program, or handed back: the outputs are the same.
static void run_known(bool back)
{
    rknn_custom_op ops[] = {custom_op_shift(), custom_op_argmax()};
    if (back)
        ops[1].init = hand_back;
    struct calls before = custom_ops_calls();
    rknn_context c = conformance_open("custom_int64.rknn", 0);
    EXPECT_OK(rknn_register_custom_ops(c, ops, 2));
    conformance_set_inputs(c, "custom_int64");
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "custom_int64");
    EXPECT_OK(rknn_destroy(c));
    EXPECT_CMP(custom_ops_calls().compute, ==, before.compute + (back ? 2 : 3));
    EXPECT_CMP(custom_ops_calls().destroy, ==, before.destroy + (back ? 2 : 3));
}

// ---- duplicates --------------------------------------------------------------------------------

static void run_duplicate(void)
{
    rknn_custom_op op = custom_op_residual();
    struct calls before = custom_ops_calls();
    rknn_context c = conformance_open("custom.rknn", 0), copy;
    EXPECT_OK(rknn_register_custom_ops(c, &op, 1));
    NEED_OK(rknn_dup_context(&c, &copy));
    rknn_context both[] = {copy, c};
    for (int i = 0; i < 2; i++) {
        conformance_set_inputs(both[i], "custom");
        EXPECT_OK(rknn_run(both[i], NULL));
        conformance_expect_outputs(both[i], "custom");
        EXPECT_OK(rknn_destroy(both[i]));
    }
    EXPECT_CMP(custom_ops_calls().init, ==, before.init + 2);
    EXPECT_CMP(custom_ops_calls().destroy, ==, before.destroy + 2);
}

// ---- without blocking --------------------------------------------------------------------------

static void run_without_blocking(bool wait)
{
    rknn_custom_op op = custom_op_residual();
    rknn_context c = conformance_open("custom.rknn", 0);
    rknn_run_extend extend = {.non_block = 1};
    EXPECT_OK(rknn_register_custom_ops(c, &op, 1));
    conformance_set_inputs(c, "custom");
    for (int i = 0; i < N_LOOPS; i++) {
        EXPECT_OK(rknn_run(c, &extend));
        if (wait)
            EXPECT_OK(rknn_wait(c, &extend));
        conformance_expect_outputs(c, "custom");
    }
    EXPECT_OK(rknn_run(c, &extend)); // and nobody waits for this one
    EXPECT_OK(rknn_destroy(c));
}

// ---- callbacks that use the API ----------------------------------------------------------------

static rknn_context own, other;
static __typeof__(((rknn_custom_op *)0)->compute) original;

static int compute_nested(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                          uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    rknn_sdk_version version;
    rknn_output output = {.want_float = 1};
    EXPECT_OK(rknn_query(own, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    conformance_set_inputs(own, "custom");
    EXPECT_CMP(rknn_run(own, NULL), <, 0); // it would wait for itself
    EXPECT_CMP(rknn_wait(own, NULL), <, 0);
    EXPECT_CMP(rknn_outputs_get(own, 1, &output, NULL), <, 0);
    conformance_set_inputs(other, "conv");
    EXPECT_OK(rknn_run(other, NULL));
    conformance_expect_outputs(other, "conv");
    return original(c, inputs, n_inputs, outputs, n_outputs);
}

static void run_nested(bool block)
{
    rknn_custom_op op = custom_op_residual();
    rknn_run_extend extend = {.non_block = !block};
    original = op.compute;
    op.compute = compute_nested;
    own = conformance_open("custom.rknn", 0);
    other = conformance_open("conv.rknn", 0);
    EXPECT_OK(rknn_register_custom_ops(own, &op, 1));
    conformance_set_inputs(own, "custom");
    EXPECT_OK(rknn_run(own, &extend));
    conformance_expect_outputs(own, "custom");
    EXPECT_OK(rknn_destroy(own));
    EXPECT_OK(rknn_destroy(other));
}

static int compute_and_destroy(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                               uint32_t n_inputs, rknn_custom_op_tensor *outputs,
                               uint32_t n_outputs)
{
    EXPECT_OK(rknn_destroy(own));
    return original(c, inputs, n_inputs, outputs, n_outputs);
}

// The context ends when the call that it is in ends.
static void destroy_inside(bool block)
{
    struct calls before = custom_ops_calls();
    rknn_custom_op op = custom_op_residual();
    rknn_run_extend extend = {.non_block = !block};
    original = op.compute;
    op.compute = compute_and_destroy;
    own = conformance_open("custom.rknn", 0);
    EXPECT_OK(rknn_register_custom_ops(own, &op, 1));
    conformance_set_inputs(own, "custom");
    EXPECT_OK(rknn_run(own, &extend));
    if (!block)
        while (custom_ops_calls().destroy == before.destroy)
            continue;
    EXPECT_CODE(RKNN_ERR_CTX_INVALID, rknn_run(own, NULL));
    EXPECT_CMP(custom_ops_calls().destroy, ==, before.destroy + 1);
}

// ---- failures ----------------------------------------------------------------------------------

static int answers[3]; // of init, prepare, compute

static int fail_init(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                     rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs;
    return answers[0];
}

static int fail_prepare(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                        rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs;
    return answers[1];
}

static int fail_compute(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                        rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    return answers[2] ? answers[2] : original(c, inputs, n_inputs, outputs, n_outputs);
}

static void run_failing(void)
{
    rknn_custom_op op = custom_op_residual(), other_op = op;
    original = op.compute;
    other_op.init = fail_init;
    other_op.prepare = fail_prepare;
    other_op.compute = fail_compute;
    rknn_context c = conformance_open("custom.rknn", 0);
    conformance_set_inputs(c, "custom");
    answers[0] = RKNN_ERR_MALLOC_FAIL;
    EXPECT_CODE(RKNN_ERR_MALLOC_FAIL, rknn_register_custom_ops(c, &other_op, 1));
    answers[0] = RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE; // nobody else knows it
    EXPECT_CMP(rknn_register_custom_ops(c, &other_op, 1), <, 0);
    answers[0] = 0;
    other_op.init = op.init;
    EXPECT_OK(rknn_register_custom_ops(c, &other_op, 1));
    answers[1] = RKNN_ERR_PARAM_INVALID;
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_run(c, NULL));
    answers[1] = 0;
    answers[2] = RKNN_ERR_INPUT_INVALID;
    EXPECT_CODE(RKNN_ERR_INPUT_INVALID, rknn_run(c, NULL));
    answers[2] = -1000;
    EXPECT_CMP(rknn_run(c, NULL), <, 0);
    EXPECT_OK(rknn_destroy(c));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    run_model("custom", custom_op_residual(), 1);
    run_model("custom_int8", custom_op_residual(), 1);
    run_model("custom_int64", custom_op_shift(), 2);
    run_known(false);
    run_known(true);
    run_duplicate();
    run_without_blocking(true);
    run_without_blocking(false);
    run_nested(true);
    run_nested(false);
    destroy_inside(true);
    destroy_inside(false);
    run_failing();
    return conformance_finish();
}
