// Calls that do not go with the kind of context that they are made on: for information only, with
// memory from outside, with weights or a model of others, of a product of matrices.
#include "../conformance.h"
#include "rknn_custom_op.h"
#include "rknn_matmul_api.h"

static void *model;
static size_t model_size;

static int init(rknn_context *c, void *bytes, size_t size, uint32_t flags, rknn_init_extend *extend)
{
    return rknn_init(c, bytes, (uint32_t)size, flags, extend);
}

static int get_output(rknn_context c)
{
    rknn_output o = {.want_float = 1};
    int r = rknn_outputs_get(c, 1, &o, NULL);
    EXPECT(r == RKNN_SUCC || !o.buf);
    return r;
}

// ---- flags -------------------------------------------------------------------------------------

static void shared_weights(void)
{
    rknn_context c = 0, closed = conformance_open("conv.rknn", 0);
    rknn_init_extend of_nobody = {0}, of_closed = {.ctx = closed};
    uint32_t flag = RKNN_FLAG_SHARE_WEIGHT_MEM;
    EXPECT_OK(rknn_destroy(closed));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "extend", init(&c, model, model_size, flag, NULL));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "extend", init(&c, model, model_size, flag, &of_nobody));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "extend", init(&c, model, model_size, flag, &of_closed));
    EXPECT_CMP(c, ==, 0);
}

static void model_in_memory(void)
{
    rknn_context c = 0;
    rknn_init_extend no_file = {.model_buffer_fd = -1, .real_model_size = 64};
    rknn_init_extend beyond = {.real_model_offset = 1, .real_model_size = (uint32_t)model_size};
    uint32_t flag = RKNN_FLAG_MODEL_BUFFER_ZERO_COPY;
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "extend", init(&c, model, model_size, flag, NULL));
    EXPECT_REFUSED(RKNN_ERR_MODEL_INVALID, "", init(&c, NULL, 0, flag, &no_file));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "", init(&c, model, model_size, flag, &beyond));
    EXPECT_CMP(c, ==, 0);
}

static void information_only(void)
{
    rknn_mem_size size;
    rknn_context c = conformance_open("conv.rknn", RKNN_FLAG_COLLECT_MODEL_INFO_ONLY);
    EXPECT_OK(rknn_query(c, RKNN_QUERY_MEM_SIZE, &size, sizeof size));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "RKNN_FLAG_COLLECT_MODEL_INFO_ONLY", rknn_run(c, NULL));
    EXPECT_REFUSED(RKNN_ERR_OUTPUT_INVALID, "run", get_output(c));
    EXPECT_REFUSED(RKNN_ERR_FAIL, "nothing was run", rknn_wait(c, NULL));
    EXPECT_OK(rknn_destroy(c));
}

static void memory_from_outside(uint32_t flag)
{
    rknn_mem_size size;
    rknn_context c = conformance_open("residual.rknn", flag);
    EXPECT_OK(rknn_query(c, RKNN_QUERY_MEM_SIZE, &size, sizeof size));
    NEED_CMP(size.total_internal_size, >, 1);
    rknn_tensor_mem *small = rknn_create_mem(c, size.total_internal_size - 1);
    rknn_tensor_mem *mem = rknn_create_mem(c, size.total_internal_size);
    NEED(small);
    NEED(mem);
    conformance_set_inputs(c, "residual");
    EXPECT_REFUSED(RKNN_ERR_FAIL, "rknn_set_internal_mem", rknn_run(c, NULL));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "bytes", rknn_set_internal_mem(c, small));
    EXPECT_REFUSED(RKNN_ERR_FAIL, "rknn_set_internal_mem", rknn_run(c, NULL));
    EXPECT_OK(rknn_destroy_mem(c, small));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "is none", rknn_set_internal_mem(c, small));
    EXPECT_OK(rknn_set_internal_mem(c, mem));
    EXPECT_OK(rknn_destroy_mem(c, mem)); // it stays until the context ends
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "destroyed", rknn_destroy_mem(c, mem));
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "residual");
    EXPECT_OK(rknn_destroy(c));
}

// ---- a product of matrices ---------------------------------------------------------------------

static int compute(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs;
    return EXPECT(false);
}

// What is for models is refused; what both have works.
static void product(void)
{
    uint8_t bytes[64] = {0};
    rknn_matmul_info info = {.M = 1, .K = 64, .N = 64, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    rknn_context copy = 5;
    rknn_input in = {
        .buf = bytes, .size = 64, .type = RKNN_TENSOR_INT8, .fmt = RKNN_TENSOR_UNDEFINED};
    rknn_tensor_attr attr = {.n_dims = 2, .dims = {1, 64}, .fmt = RKNN_TENSOR_UNDEFINED};
    rknn_custom_op op = {.op_type = "cstAnything", .compute = compute};
    if (rknn_matmul_create(&c, &info, &io) != RKNN_SUCC)
        return; // this chip has none
    rknn_tensor_mem *mem = rknn_create_mem(c, 4096);
    NEED(mem);
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_inputs_set(c, 1, &in));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_run(c, NULL));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_wait(c, NULL));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", get_output(c));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_set_io_mem(c, mem, &attr));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_set_input_shapes(c, 1, &attr));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_set_batch_core_num(c, 1));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_set_internal_mem(c, mem));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_set_weight_mem(c, mem));
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_dup_context(&c, &copy));
    EXPECT_CMP(copy, ==, 5);
    EXPECT_REFUSED(RKNN_ERR_CTX_INVALID, "matmul", rknn_register_custom_ops(c, &op, 1));
    rknn_sdk_version version;
    EXPECT_OK(rknn_query(c, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    EXPECT_OK(rknn_destroy_mem(c, mem));
    EXPECT_OK(rknn_destroy(c)); // is rknn_matmul_destroy()
    EXPECT_CMP(rknn_matmul_destroy(c), <, 0);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    model = conformance_file(&model_size, "conv.rknn");
    shared_weights();
    model_in_memory();
    information_only();
    memory_from_outside(RKNN_FLAG_MEM_ALLOC_OUTSIDE);
    memory_from_outside(RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE);
    product();
    free(model);
    return conformance_finish();
}
