// Zero copy as programs do it that were built with SDK 1.2, whose rknn_tensor_attr ends before
// h_stride: behind an attribute lies whatever the program has there. They free memory under the
// misspelt name.
#include "../conformance.h"

#define NAME     "two_inputs"
#define OLD_ATTR 372
#define N        2

// An array of the old struct, and what is behind it.
struct attrs {
    union {
        uint8_t bytes[N][OLD_ATTR];
        uint32_t alignment;
    };
    uint8_t behind[8];
};

static rknn_tensor_attr *at(struct attrs *a, uint32_t i)
{
    return (rknn_tensor_attr *)(void *)a->bytes[i];
}

static void query(rknn_context c, rknn_query_cmd cmd, struct attrs *a)
{
    memset(a, 0, sizeof *a);
    memset(a->behind, 0xee, sizeof a->behind);
    for (uint32_t i = 0; i < N; i++) {
        at(a, i)->index = i;
        NEED_OK(rknn_query(c, cmd, at(a, i), OLD_ATTR));
    }
    for (size_t i = 0; i < sizeof a->behind; i++)
        EXPECT_CMP(a->behind[i], ==, 0xee);
}

static rknn_tensor_mem *bind_input(rknn_context c, struct attrs *a, uint32_t i)
{
    size_t size;
    void *data = conformance_file(&size, NAME ".in%u.bin", i);
    bool real = size != at(a, i)->n_elems;
    at(a, i)->type = real ? RKNN_TENSOR_FLOAT32 : RKNN_TENSOR_UINT8;
    at(a, i)->w_stride = 0;
    rknn_tensor_mem *mem = rknn_create_mem(c, (uint32_t)size);
    NEED(mem);
    memcpy(mem->virt_addr, data, size);
    EXPECT_OK(rknn_set_io_mem(c, mem, at(a, i)));
    free(data);
    return mem;
}

static void run(rknn_context c, struct attrs *inputs, struct attrs *outputs)
{
    rknn_tensor_mem *in[N], *out[N];
    for (uint32_t i = 0; i < N; i++) {
        in[i] = bind_input(c, inputs, i);
        out[i] = rknn_create_mem(c, at(outputs, i)->size_with_stride);
        NEED(out[i]);
        EXPECT_OK(rknn_set_io_mem(c, out[i], at(outputs, i)));
    }
    EXPECT_OK(rknn_run(c, NULL));
    for (uint32_t i = 0; i < N; i++) {
        conformance_compare(at(outputs, i), NAME, i, out[i]->virt_addr, at(outputs, i)->size);
        EXPECT_OK(rknn_destory_mem(c, in[i]));
        EXPECT_OK(rknn_destory_mem(c, out[i]));
    }
}

int main(int argc, char **argv)
{
    static struct attrs inputs, outputs;
    conformance_start(argc, argv);
    rknn_context copy, c = conformance_open(NAME ".rknn", 0);
    query(c, RKNN_QUERY_INPUT_ATTR, &inputs);
    query(c, RKNN_QUERY_OUTPUT_ATTR, &outputs);
    NEED_OK(rknn_dup_context(&c, &copy)); // it is the same program's
    run(c, &inputs, &outputs);
    run(copy, &inputs, &outputs);
    EXPECT_OK(rknn_destroy(copy));
    EXPECT_OK(rknn_destroy(c));
    return conformance_finish();
}
