// Wrong calls of the custom operators' API, each with its code; the context is as good as before.
#include "custom_ops.h"

static void no_compute(rknn_custom_op *op)
{
    op->compute = NULL;
}

static void no_type(rknn_custom_op *op)
{
    op->op_type[0] = 0;
}

static void endless_type(rknn_custom_op *op)
{
    memset(op->op_type, 'x', sizeof op->op_type);
}

static void target_above(rknn_custom_op *op)
{
    op->target = RKNN_TARGET_TYPE_MAX;
}

static void target_below(rknn_custom_op *op)
{
    op->target = (rknn_target_type)-1;
}

static void kernel_without_name(rknn_custom_op *op)
{
    static char source[] = "kernel void f() {}";
    op->target = RKNN_TARGET_TYPE_GPU;
    op->cl_kernel_source = source;
    op->cl_source_size = sizeof source - 1;
}

static void kernel_without_source(rknn_custom_op *op)
{
    op->target = RKNN_TARGET_TYPE_GPU;
    strcpy(op->cl_kernel_name, "f");
}

static void endless_options(rknn_custom_op *op)
{
    kernel_without_name(op);
    strcpy(op->cl_kernel_name, "f");
    memset(op->cl_build_options, ' ', sizeof op->cl_build_options);
}

static const struct {
    void (*spoil)(rknn_custom_op *op);
    const char *word;
} wrong_ops[] = {
    {no_compute, "compute"},
    {no_type, "op_type"},
    {endless_type, "op_type"},
    {target_above, "target"},
    {target_below, "target"},
    {kernel_without_name, "cl_kernel_name"},
    {kernel_without_source, "cl_kernel_source"},
    {endless_options, "cl_build_options"},
};

// Alone, and behind one that is right: that one may then be registered or not, and again.
static void register_wrong_ops(rknn_context c)
{
    for (size_t i = 0; i < sizeof wrong_ops / sizeof *wrong_ops; i++) {
        rknn_custom_op ops[] = {custom_op_residual(), custom_op_residual()};
        wrong_ops[i].spoil(&ops[1]);
        EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, wrong_ops[i].word,
                       rknn_register_custom_ops(c, &ops[1], 1));
        EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, wrong_ops[i].word,
                       rknn_register_custom_ops(c, ops, 2));
    }
}

static void register_for_others(rknn_context c)
{
    rknn_custom_op op = custom_op_residual();
    rknn_context closed = conformance_open("conv.rknn", 0);
    rknn_context plain = conformance_open("conv.rknn", 0);
    EXPECT_OK(rknn_destroy(closed));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "", rknn_register_custom_ops(0, &op, 1));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "", rknn_register_custom_ops(c + 12345, &op, 1));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "", rknn_register_custom_ops(closed, &op, 1));
    EXPECT_OK(rknn_register_custom_ops(plain, &op, 1)); // no node is of its type
    conformance_set_inputs(plain, "conv");
    EXPECT_OK(rknn_run(plain, NULL));
    conformance_expect_outputs(plain, "conv");
    EXPECT_OK(rknn_destroy(plain));
}

// What the words of the failed run say to do can be done.
static void run_without(void)
{
    rknn_custom_op op = custom_op_shift(), missing = custom_op_residual();
    rknn_context c = conformance_open("custom.rknn", 0);
    rknn_run_extend started = {.non_block = 1, .fence_fd = -1};
    conformance_set_inputs(c, "custom");
    EXPECT_OK(rknn_register_custom_ops(c, &op, 1)); // of another type
    EXPECT_REFUSED(RKNN_ERR_FAIL, "rknn_register_custom_ops()", rknn_run(c, NULL));
    EXPECT_REFUSED(RKNN_ERR_FAIL, "cstDualResidual", rknn_run(c, NULL));
    EXPECT_OK(rknn_run(c, &started));
    EXPECT_REFUSED(RKNN_ERR_FAIL, "before the first run", // this one may not fail
                   rknn_register_custom_ops(c, &missing, 1));
    EXPECT_REFUSED(RKNN_ERR_FAIL, "cstDualResidual", rknn_wait(c, NULL));
    EXPECT_OK(rknn_register_custom_ops(c, &missing, 1));
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "custom");
    EXPECT_OK(rknn_destroy(c));
}

// ---- attributes --------------------------------------------------------------------------------

static __typeof__(((rknn_custom_op *)0)->compute) original;

static int compute_asking(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                          uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    rknn_custom_op_attr a = {.n_elems = 7};
    rknn_custom_op_get_op_attr(c, "alpha", NULL);
    rknn_custom_op_get_op_attr(c, NULL, &a);
    EXPECT_CMP(a.n_elems, ==, 0);
    a.n_elems = 7;
    rknn_custom_op_get_op_attr(c, "", &a);
    EXPECT_CMP(a.n_elems, ==, 0);
    a.n_elems = 7;
    rknn_custom_op_get_op_attr(NULL, "alpha", &a);
    EXPECT_CMP(a.n_elems, ==, 0);
    return original(c, inputs, n_inputs, outputs, n_outputs);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    rknn_context c = conformance_open("custom.rknn", 0);
    rknn_custom_op op = custom_op_residual();
    original = op.compute;
    op.compute = compute_asking;
    conformance_set_inputs(c, "custom");
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "no operators", rknn_register_custom_ops(c, NULL, 1));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "no operators", rknn_register_custom_ops(c, &op, 0));
    register_wrong_ops(c);
    register_for_others(c);
    run_without();
    EXPECT_OK(rknn_register_custom_ops(c, &op, 1));
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "custom");
    EXPECT_REFUSED(RKNN_ERR_FAIL, "before the first run", rknn_register_custom_ops(c, &op, 1));
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "custom");
    EXPECT_OK(rknn_destroy(c));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "", rknn_register_custom_ops(c, &op, 1));
    return conformance_finish();
}
