// As the SDK's custom op demo, on the GPU: an operator as an OpenCL kernel, given as text or as a
// file. The device may be any that OpenCL has.
#define CL_TARGET_OPENCL_VERSION 120

#include <CL/cl.h>

#include "custom_ops.h"

static const char source[] =
    "__kernel void residual(__global const float *a, __global const float *b,\n"
    "                       __global float *y, __global float *z, float alpha, unsigned n) {\n"
    "    unsigned i = get_global_id(0);\n"
    "    if (i < n) { y[i] = a[i] + ALPHA_SIGN * alpha * b[i]; z[i] = b[i] - alpha * a[i]; }\n"
    "}\n";

// Of int64 in the model; a kernel has float32.
static const char shift_source[] =
    "__kernel void shift_by(__global const float *x, __global const float *by,\n"
    "                       __global float *y, unsigned n) {\n"
    "    unsigned i = get_global_id(0);\n"
    "    if (i < n) y[i] = x[i] + by[i];\n"
    "}\n";

static int n_init, n_compute, n_destroy;

static cl_mem buffer(rknn_custom_op_context *c, const rknn_custom_op_tensor *t)
{
    cl_int r;
    cl_context context = (cl_context)c->gpu_ctx.cl_context;
    EXPECT_CMP(t->mem.offset, ==, 0);
    EXPECT_CMP(t->attr.n_dims, ==, 4); // some programs count on it
    return clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, t->attr.size,
                          t->mem.virt_addr, &r);
}

static int init(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    EXPECT_CMP(n_inputs, ==, 2);
    EXPECT_CMP(n_outputs, ==, 2);
    EXPECT_CMP(c->target, ==, RKNN_TARGET_TYPE_GPU);
    EXPECT(c->gpu_ctx.cl_context);
    EXPECT(c->gpu_ctx.cl_command_queue);
    EXPECT(c->gpu_ctx.cl_kernel);
    cl_mem *memory = c->priv_data = malloc(4 * sizeof *memory);
    NEED(memory);
    for (int i = 0; i < 4; i++)
        NEED(memory[i] = buffer(c, i < 2 ? &inputs[i] : &outputs[i - 2]));
    n_init++;
    return 0;
}

static int compute(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    cl_kernel kernel = (cl_kernel)c->gpu_ctx.cl_kernel;
    cl_command_queue queue = (cl_command_queue)c->gpu_ctx.cl_command_queue;
    cl_mem *memory = c->priv_data;
    rknn_custom_op_attr alpha;
    (void)n_inputs, (void)n_outputs;
    rknn_custom_op_get_op_attr(c, "alpha", &alpha);
    for (cl_uint i = 0; i < 4; i++)
        clSetKernelArg(kernel, i, sizeof memory[i], &memory[i]);
    clSetKernelArg(kernel, 4, sizeof(float), alpha.data);
    clSetKernelArg(kernel, 5, sizeof(uint32_t), &inputs[0].attr.n_elems);
    size_t n = inputs[0].attr.n_elems;
    for (cl_uint i = 0; i < 2; i++) // the host wrote to its memory
        clEnqueueWriteBuffer(queue, memory[i], CL_TRUE, 0, inputs[i].attr.size,
                             inputs[i].mem.virt_addr, 0, NULL, NULL);
    EXPECT_CMP(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &n, NULL, 0, NULL, NULL), ==,
               CL_SUCCESS);
    for (cl_uint i = 0; i < 2; i++)
        clEnqueueReadBuffer(queue, memory[2 + i], CL_TRUE, 0, outputs[i].attr.size,
                            outputs[i].mem.virt_addr, 0, NULL, NULL);
    EXPECT_CMP(clFinish(queue), ==, CL_SUCCESS);
    n_compute++;
    return 0;
}

static void expect_floats(const rknn_custom_op_tensor *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        EXPECT_CMP(tensors[i].attr.type, ==, RKNN_TENSOR_FLOAT32);
        EXPECT_CMP(tensors[i].attr.size, ==, tensors[i].attr.n_elems * sizeof(float));
        EXPECT_CMP(tensors[i].mem.size, >=, tensors[i].attr.size);
        EXPECT_CMP(tensors[i].mem.fd, >=, 0);
    }
}

static int init_shift(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                      rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    EXPECT_CMP(n_inputs, ==, 2);
    EXPECT_CMP(n_outputs, ==, 1);
    expect_floats(inputs, n_inputs);
    expect_floats(outputs, n_outputs);
    cl_mem *memory = c->priv_data = calloc(4, sizeof *memory);
    NEED(memory);
    for (int i = 0; i < 3; i++)
        NEED(memory[i] = buffer(c, i < 2 ? &inputs[i] : &outputs[0]));
    return 0;
}

static int compute_shift(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                         uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    cl_kernel kernel = (cl_kernel)c->gpu_ctx.cl_kernel;
    cl_command_queue queue = (cl_command_queue)c->gpu_ctx.cl_command_queue;
    cl_mem *memory = c->priv_data;
    size_t n = inputs[0].attr.n_elems;
    (void)n_inputs, (void)n_outputs;
    for (cl_uint i = 0; i < 3; i++)
        clSetKernelArg(kernel, i, sizeof memory[i], &memory[i]);
    clSetKernelArg(kernel, 3, sizeof(uint32_t), &inputs[0].attr.n_elems);
    for (cl_uint i = 0; i < 2; i++)
        clEnqueueWriteBuffer(queue, memory[i], CL_TRUE, 0, inputs[i].attr.size,
                             inputs[i].mem.virt_addr, 0, NULL, NULL);
    EXPECT_CMP(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &n, NULL, 0, NULL, NULL), ==,
               CL_SUCCESS);
    clEnqueueReadBuffer(queue, memory[2], CL_TRUE, 0, outputs[0].attr.size,
                        outputs[0].mem.virt_addr, 0, NULL, NULL);
    EXPECT_CMP(clFinish(queue), ==, CL_SUCCESS);
    return 0;
}

static int destroy(rknn_custom_op_context *c)
{
    cl_mem *memory = c->priv_data;
    for (int i = 0; i < 4; i++)
        if (memory[i])
            clReleaseMemObject(memory[i]);
    free(memory);
    n_destroy++;
    return 0;
}

static rknn_custom_op residual(void)
{
    return (rknn_custom_op){.version = 1,
                            .target = RKNN_TARGET_TYPE_GPU,
                            .op_type = "cstDualResidual",
                            .cl_kernel_name = "residual",
                            .cl_kernel_source = (char *)source,
                            .cl_source_size = sizeof source - 1,
                            .cl_build_options = "-DALPHA_SIGN=1",
                            .init = init,
                            .compute = compute,
                            .destroy = destroy};
}

static rknn_custom_op shift(void)
{
    rknn_custom_op op = {.version = 1,
                         .target = RKNN_TARGET_TYPE_GPU,
                         .op_type = "cstShift",
                         .cl_kernel_name = "shift_by",
                         .cl_kernel_source = (char *)shift_source,
                         .cl_source_size = sizeof shift_source - 1,
                         .init = init_shift,
                         .compute = compute_shift,
                         .destroy = destroy};
    return op;
}

static void run_model(const char *name, const rknn_custom_op *op)
{
    char path[64];
    snprintf(path, sizeof path, "%s.rknn", name);
    rknn_context c = conformance_open(path, 0);
    rknn_custom_op copy = *op;
    if (EXPECT_OK(rknn_register_custom_ops(c, &copy, 1))) {
        conformance_set_inputs(c, name);
        for (int i = 0; i < 3; i++) {
            EXPECT_OK(rknn_run(c, NULL));
            conformance_expect_outputs(c, name);
        }
    }
    EXPECT_OK(rknn_destroy(c));
}

static void run_from_file(rknn_custom_op op)
{
    char path[] = "/tmp/custom_op_XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    NEED(f);
    NEED_CMP(fputs(source, f), >=, 0);
    NEED_CMP(fclose(f), ==, 0);
    op.cl_kernel_source = path;
    op.cl_source_size = 0;
    run_model("custom", &op);
    remove(path);
}

static void register_wrong(void)
{
    rknn_custom_op none = residual(), broken = residual(), gone = residual();
    rknn_context c = conformance_open("custom.rknn", 0);
    strcpy(none.cl_kernel_name, "another");
    broken.cl_build_options[0] = 0; // leaves ALPHA_SIGN undefined
    gone.cl_kernel_source = (char *)"/nonexistent/residual.cl";
    gone.cl_source_size = 0;
    EXPECT_CMP(rknn_register_custom_ops(c, &none, 1), <, 0);
    EXPECT_CMP(rknn_register_custom_ops(c, &broken, 1), <, 0);
    EXPECT_CMP(rknn_register_custom_ops(c, &gone, 1), <, 0);
    EXPECT_OK(rknn_destroy(c));
}

int main(int argc, char **argv)
{
    cl_platform_id platform;
    cl_uint n = 0;
    conformance_start(argc, argv);
    if (clGetPlatformIDs(1, &platform, &n) != CL_SUCCESS || n == 0)
        conformance_skip("this machine has no OpenCL");
    rknn_custom_op op = residual();
    run_model("custom", &op);
    run_model("custom_int8", &op);
    run_from_file(op);
    EXPECT_CMP(n_init, ==, 3);
    EXPECT_CMP(n_compute, ==, 9);
    EXPECT_CMP(n_destroy, ==, 3);
    register_wrong();
    op = shift();
    run_model("custom_int64_small", &op);
    return conformance_finish();
}
