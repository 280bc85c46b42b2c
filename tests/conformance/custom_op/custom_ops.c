// Operators in C.
#include "custom_ops.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_int n_init, n_prepare, n_compute, n_destroy;

struct calls custom_ops_calls(void)
{
    return (struct calls){n_init, n_prepare, n_compute, n_destroy};
}

// ---- what a callback is given ------------------------------------------------------------------

static void expect_mapped(const rknn_custom_op_tensor *t)
{
    long page = sysconf(_SC_PAGESIZE);
    size_t offset = (size_t)t->mem.offset % (size_t)page;
    size_t size = offset + t->attr.size;
    uint8_t *memory =
        mmap(NULL, size, PROT_READ, MAP_SHARED, t->mem.fd, (off_t)((size_t)t->mem.offset - offset));
    if (EXPECT_CMP(memory, !=, MAP_FAILED)) {
        EXPECT_MEMORY(memory + offset, custom_ops_data(t), t->attr.size);
        munmap(memory, size);
    }
}

static void expect_tensors(const rknn_custom_op_tensor *tensors, uint32_t n, rknn_tensor_type type)
{
    for (uint32_t i = 0; i < n; i++) {
        const rknn_tensor_attr *a = &tensors[i].attr;
        uint32_t n_elems = 1;
        for (uint32_t d = 0; d < a->n_dims; d++)
            n_elems *= a->dims[d];
        EXPECT(a->name[0]);
        EXPECT_CMP(a->index, ==, i);
        EXPECT_CMP(a->n_elems, ==, n_elems);
        EXPECT_CMP(a->type, ==, type);
        EXPECT_CMP(a->size, ==, n_elems * (type == RKNN_TENSOR_INT64 ? 8 : 4));
        EXPECT_CMP(a->n_dims, ==, 4);
        EXPECT_CMP(a->fmt, ==, RKNN_TENSOR_NCHW);
        EXPECT(tensors[i].mem.virt_addr);
        EXPECT_CMP(tensors[i].mem.size, >=, a->size);
        expect_mapped(&tensors[i]);
    }
}

static bool is_named(rknn_custom_op_context *c, const char *part)
{
    rknn_custom_op_attr name;
    rknn_custom_op_get_op_attr(c, "name", &name);
    return name.dtype == RKNN_TENSOR_UINT8 && name.n_elems > 0 && strstr(name.data, part);
}

static void expect_ints(rknn_custom_op_context *c, const char *name, uint32_t n, const int64_t *v)
{
    rknn_custom_op_attr a;
    rknn_custom_op_get_op_attr(c, name, &a);
    EXPECT_STRING(a.name, name);
    EXPECT_CMP(a.dtype, ==, RKNN_TENSOR_INT64);
    if (EXPECT_CMP(a.n_elems, ==, n))
        EXPECT_MEMORY(a.data, v, n * sizeof *v);
}

static void expect_floats(rknn_custom_op_context *c, const char *name, uint32_t n, const float *v)
{
    rknn_custom_op_attr a;
    rknn_custom_op_get_op_attr(c, name, &a);
    EXPECT_STRING(a.name, name);
    EXPECT_CMP(a.dtype, ==, RKNN_TENSOR_FLOAT32);
    if (EXPECT_CMP(a.n_elems, ==, n))
        EXPECT_MEMORY(a.data, v, n * sizeof *v);
}

static void expect_bytes(rknn_custom_op_context *c, const char *name, rknn_tensor_type type,
                         uint32_t n, const char *v)
{
    rknn_custom_op_attr a;
    rknn_custom_op_get_op_attr(c, name, &a);
    EXPECT_CMP(a.dtype, ==, type);
    if (EXPECT_CMP(a.n_elems, ==, n))
        EXPECT_MEMORY(a.data, v, n);
}

static void expect_attributes(rknn_custom_op_context *c)
{
    rknn_custom_op_attr none = {.n_elems = 7};
    expect_floats(c, "alpha", 1, (float[]){0.5f});
    expect_floats(c, "weights", 2, (float[]){0.25f, -2});
    expect_ints(c, "axis", 1, (int64_t[]){-1});
    expect_ints(c, "large", 1, (int64_t[]){-(INT64_C(1) << 40)});
    expect_ints(c, "counts", 3, (int64_t[]){3, -4, INT64_C(1) << 33});
    expect_bytes(c, "mode", RKNN_TENSOR_UINT8, 6, "mirror");
    expect_bytes(c, "names", RKNN_TENSOR_UINT8, 6, "a\0bcd");
    expect_bytes(c, "truth", RKNN_TENSOR_BOOL, 1, "\1");
    expect_bytes(c, "truths", RKNN_TENSOR_BOOL, 3, "\0\1\1");
    rknn_custom_op_get_op_attr(c, "no such attribute", &none);
    EXPECT_CMP(none.n_elems, ==, 0);
    EXPECT(is_named(c, "residual"));
}

// ---- cstDualResidual ---------------------------------------------------------------------------

static int init(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)inputs, (void)outputs;
    EXPECT_CMP(n_inputs, >, 0);
    EXPECT_CMP(n_outputs, >, 0);
    EXPECT(!c->priv_data);
    n_init++;
    c->priv_data = calloc(1, sizeof(int)); // counts the runs that were prepared
    return c->priv_data ? 0 : RKNN_ERR_MALLOC_FAIL;
}

static int prepare(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs;
    n_prepare++;
    ++*(int *)c->priv_data;
    return 0;
}

static int destroy(rknn_custom_op_context *c)
{
    n_destroy++;
    free(c->priv_data);
    return 0;
}

static int compute_residual(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                            uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    rknn_custom_op_attr alpha;
    if (!(EXPECT_CMP(n_inputs, ==, 2) && EXPECT_CMP(n_outputs, ==, 2) &&
          EXPECT_CMP(c->target, ==, RKNN_TARGET_TYPE_CPU)))
        return RKNN_ERR_PARAM_INVALID;
    n_compute++;
    EXPECT_CMP(*(int *)c->priv_data, >, 0);
    expect_tensors(inputs, 2, RKNN_TENSOR_FLOAT32);
    expect_tensors(outputs, 2, RKNN_TENSOR_FLOAT32);
    expect_attributes(c);
    rknn_custom_op_get_op_attr(c, "alpha", &alpha);
    float f = *(const float *)alpha.data;
    const float *a = (float *)custom_ops_data(&inputs[0]),
                *b = (float *)custom_ops_data(&inputs[1]);
    float *y = (float *)custom_ops_data(&outputs[0]), *z = (float *)custom_ops_data(&outputs[1]);
    for (uint32_t i = 0; i < inputs[0].attr.n_elems; i++) {
        y[i] = a[i] + f * b[i];
        z[i] = b[i] - f * a[i];
    }
    return 0;
}

static rknn_custom_op make(const char *type, __typeof__(((rknn_custom_op *)0)->compute) compute)
{
    rknn_custom_op op = {.version = 1,
                         .target = RKNN_TARGET_TYPE_CPU,
                         .init = init,
                         .prepare = prepare,
                         .compute = compute,
                         .destroy = destroy};
    strncpy(op.op_type, type, sizeof op.op_type - 1);
    return op;
}

rknn_custom_op custom_op_residual(void)
{
    return make("cstDualResidual", compute_residual);
}

// ---- cstShift ----------------------------------------------------------------------------------

static int compute_shift(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                         uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    if (!(EXPECT_CMP(n_inputs, ==, 2) && EXPECT_CMP(n_outputs, ==, 1)))
        return RKNN_ERR_PARAM_INVALID;
    n_compute++;
    expect_tensors(inputs, 2, RKNN_TENSOR_INT64);
    expect_tensors(outputs, 1, RKNN_TENSOR_INT64);
    EXPECT(is_named(c, "first") || is_named(c, "second"));
    const int64_t *x = (int64_t *)custom_ops_data(&inputs[0]);
    const int64_t *by = (int64_t *)custom_ops_data(&inputs[1]);
    int64_t *y = (int64_t *)custom_ops_data(&outputs[0]);
    for (uint32_t i = 0; i < outputs[0].attr.n_elems; i++)
        y[i] = x[i] + by[i];
    return 0;
}

rknn_custom_op custom_op_shift(void)
{
    return make("cstShift", compute_shift);
}

// ---- ArgMax ------------------------------------------------------------------------------------

static int compute_argmax(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs,
                          uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c;
    if (!(EXPECT_CMP(n_inputs, ==, 1) && EXPECT_CMP(n_outputs, ==, 1)))
        return RKNN_ERR_PARAM_INVALID;
    n_compute++;
    expect_tensors(inputs, 1, RKNN_TENSOR_FLOAT32);
    expect_tensors(outputs, 1, RKNN_TENSOR_INT64);
    const float *x = (float *)custom_ops_data(&inputs[0]);
    int64_t *y = (int64_t *)custom_ops_data(&outputs[0]);
    uint32_t plane = outputs[0].attr.n_elems, channels = inputs[0].attr.n_elems / plane;
    for (uint32_t i = 0; i < plane; i++) {
        y[i] = 0;
        for (uint32_t k = 1; k < channels; k++)
            if (x[k * plane + i] > x[y[i] * plane + i])
                y[i] = k;
    }
    return 0;
}

rknn_custom_op custom_op_argmax(void)
{
    return make("ArgMax", compute_argmax);
}
