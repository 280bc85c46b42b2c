// OpenCL for custom operators that target the GPU. The library is loaded when it is first needed,
// since boards without a GPU driver have none and nothing else here needs it. Only what a program
// expects ready-made is done here: context, queue and compiled kernel (rknn_gpu_op_context); the
// program's compute() enqueues the work.
#define CL_TARGET_OPENCL_VERSION 120

#include "custom/opencl.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define LIBRARY     "libOpenCL.so.1"
#define SOURCE_MAX  (16u << 20)
#define MAX_DEVICES 16

// clang-format off
#define FUNCTIONS(X)                                                                \
    X(clGetPlatformIDs) X(clGetDeviceIDs) X(clCreateContext) X(clReleaseContext)    \
    X(clCreateCommandQueue) X(clReleaseCommandQueue) X(clCreateProgramWithSource)   \
    X(clBuildProgram) X(clGetProgramBuildInfo) X(clReleaseProgram) X(clCreateKernel) \
    X(clReleaseKernel)
// clang-format on

struct opencl {
    void *library;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
};

struct opencl_kernel {
    const struct opencl *cl;
    cl_program program;
    cl_kernel kernel;
};

static bool is_text(const char *field)
{
    return field[0] && memchr(field, 0, RKNN_MAX_NAME_LEN);
}

// Checks fields of a registered operator before anything is loaded.
int opencl_check(const rknn_custom_op *op, struct error *e)
{
    if (!is_text(op->cl_kernel_name) || !op->cl_kernel_source)
        return error_set(e, STATUS_PARAM_INVALID,
                         "operator %s for the GPU: cl_kernel_name or cl_kernel_source is missing",
                         op->op_type);
    if (!memchr(op->cl_build_options, 0, sizeof op->cl_build_options))
        return error_set(e, STATUS_PARAM_INVALID, "operator %s: cl_build_options has no end",
                         op->op_type);
    if (op->cl_source_size > SOURCE_MAX)
        return error_set(e, STATUS_PARAM_INVALID, "operator %s: a source of %llu bytes",
                         op->op_type, (unsigned long long)op->cl_source_size);
    return 0;
}

// ---- the device --------------------------------------------------------------------------------

// The library stays open also on failure: drivers may have started threads.
static int load(struct opencl *cl, struct error *e)
{
    cl->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!cl->library)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "operators for the GPU need OpenCL, which this machine has not (%s)",
                         dlerror());
#define X(name)                                                                                    \
    cl->name = (__typeof__(name) *)dlsym(cl->library, #name);                                      \
    if (!cl->name)                                                                                 \
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, LIBRARY " has no " #name);
    FUNCTIONS(X)
#undef X
    return 0;
}

// The first device of the type on any platform.
static bool find_type(struct opencl *cl, const cl_platform_id *platforms, cl_uint n,
                      cl_device_type type)
{
    for (cl_uint i = 0; i < n; i++)
        if (cl->clGetDeviceIDs(platforms[i], type, 1, &cl->device, NULL) == CL_SUCCESS)
            return true;
    return false;
}

// A GPU, or any other device (pocl on the CPU), so that operators can be developed without one.
static int find_device(struct opencl *cl, struct error *e)
{
    cl_platform_id platforms[MAX_DEVICES];
    cl_uint n = 0;
    cl_int r = cl->clGetPlatformIDs(MAX_DEVICES, platforms, &n);
    n = r == CL_SUCCESS && n < MAX_DEVICES ? n : r == CL_SUCCESS ? MAX_DEVICES : 0;
    if (find_type(cl, platforms, n, CL_DEVICE_TYPE_GPU) ||
        find_type(cl, platforms, n, CL_DEVICE_TYPE_ALL))
        return 0;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "operators for the GPU need an OpenCL device: this machine has none (%u "
                     "platforms; are drivers listed in /etc/OpenCL/vendors?)",
                     n);
}

static int open_device(struct opencl *cl, struct error *e)
{
    cl_int r;
    cl->context = cl->clCreateContext(NULL, 1, &cl->device, NULL, NULL, &r);
    if (cl->context)
        cl->queue = cl->clCreateCommandQueue(cl->context, cl->device, 0, &r);
    if (cl->queue)
        return 0;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "the OpenCL device cannot be used (%d)", r);
}

void opencl_free(struct opencl *cl)
{
    if (!cl)
        return;
    if (cl->queue)
        cl->clReleaseCommandQueue(cl->queue);
    if (cl->context)
        cl->clReleaseContext(cl->context);
    // The library stays: drivers have threads and exit handlers.
    free(cl);
}

CLEANUP_DEFINE(struct opencl, opencl_free)

int opencl_new(struct opencl **ret, struct error *e)
{
    cleanup(opencl_free_p) struct opencl *cl = calloc(1, sizeof *cl);
    if (!cl)
        return error_no_memory(e, "OpenCL", sizeof *cl);
    int r = load(cl, e);
    if (r == 0)
        r = find_device(cl, e);
    if (r == 0)
        r = open_device(cl, e);
    if (r == 0)
        *ret = steal_ptr(cl);
    return r;
}

// ---- kernels -----------------------------------------------------------------------------------

// cl_kernel_source is a path when cl_source_size is 0. *ret is malloc'ed.
static int read_source(const char *path, char **ret, size_t *ret_size, struct error *e)
{
    cleanup(fclose_p) FILE *file = fopen(path, "re");
    if (!file)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "cl_kernel_source \"%s\"", path);
    cleanup(free_p) char *text = malloc(SOURCE_MAX);
    if (!text)
        return error_no_memory(e, "an OpenCL source", SOURCE_MAX);
    *ret_size = fread(text, 1, SOURCE_MAX, file);
    if (ferror(file) || *ret_size == SOURCE_MAX)
        return error_set(e, STATUS_PARAM_INVALID,
                         "cl_kernel_source \"%s\" cannot be read, or is larger than 16 MB", path);
    *ret = steal_ptr(text);
    return 0;
}

// The compiler's log, or its first lines, as error text.
static int complain(const struct opencl *cl, const rknn_custom_op *op, cl_program program, cl_int r,
                    struct error *e)
{
    char words[300] = "";
    cleanup(free_p) char *log = NULL;
    size_t size = 0;
    cl->clGetProgramBuildInfo(program, cl->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    if (size > 0 && (log = calloc(1, size + 1)) &&
        cl->clGetProgramBuildInfo(program, cl->device, CL_PROGRAM_BUILD_LOG, size, log, NULL) ==
            CL_SUCCESS)
        snprintf(words, sizeof words, "%s", log);
    return error_set(e, STATUS_PARAM_INVALID,
                     "operator %s: its OpenCL source cannot be compiled (%d): %s", op->op_type, r,
                     words);
}

static int compile(struct opencl_kernel *k, const rknn_custom_op *op, const char *text, size_t size,
                   struct error *e)
{
    const struct opencl *cl = k->cl;
    cl_int r;
    k->program = cl->clCreateProgramWithSource(cl->context, 1, &text, &size, &r);
    if (!k->program)
        return error_set(e, STATUS_PARAM_INVALID, "operator %s: OpenCL refuses its source (%d)",
                         op->op_type, r);
    r = cl->clBuildProgram(k->program, 1, &cl->device, op->cl_build_options, NULL, NULL);
    if (r != CL_SUCCESS)
        return complain(cl, op, k->program, r, e);
    k->kernel = cl->clCreateKernel(k->program, op->cl_kernel_name, &r);
    if (k->kernel)
        return 0;
    return error_set(e, STATUS_PARAM_INVALID, "operator %s: its source has no kernel \"%s\" (%d)",
                     op->op_type, op->cl_kernel_name, r);
}

void opencl_kernel_free(struct opencl_kernel *k)
{
    if (!k)
        return;
    if (k->kernel)
        k->cl->clReleaseKernel(k->kernel);
    if (k->program)
        k->cl->clReleaseProgram(k->program);
    free(k);
}

CLEANUP_DEFINE(struct opencl_kernel, opencl_kernel_free)

// `cl` must outlive the kernel.
int opencl_kernel_new(struct opencl *cl, const rknn_custom_op *op, struct opencl_kernel **ret,
                      struct error *e)
{
    cleanup(opencl_kernel_free_p) struct opencl_kernel *k = calloc(1, sizeof *k);
    cleanup(free_p) char *file = NULL;
    size_t size = (size_t)op->cl_source_size;
    int r = 0;
    if (size != op->cl_source_size)
        return error_no_memory(e, "a kernel", op->cl_source_size);
    if (!k)
        return error_no_memory(e, "a kernel", sizeof *k);
    k->cl = cl;
    if (size == 0)
        r = read_source(op->cl_kernel_source, &file, &size, e);
    if (r == 0)
        r = compile(k, op, file ? file : op->cl_kernel_source, size, e);
    if (r == 0)
        *ret = steal_ptr(k);
    return r;
}

rknn_gpu_op_context opencl_kernel_context(const struct opencl_kernel *k)
{
    return (rknn_gpu_op_context){
        .cl_context = k->cl->context, .cl_command_queue = k->cl->queue, .cl_kernel = k->kernel};
}
