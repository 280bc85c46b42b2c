// What a program can get wrong, and the code that it is told then (SDK guide; old C API
// guide 3.4.4).
#include "../conformance.h"

static void *model;
static size_t model_size;

#define BAD           EXPECT_REFUSED
#define INVALID_CTX   RKNN_ERR_CTX_INVALID
#define INVALID_PARAM RKNN_ERR_PARAM_INVALID
#define INVALID_IN    RKNN_ERR_INPUT_INVALID
#define INVALID_OUT   RKNN_ERR_OUTPUT_INVALID
#define INVALID_MODEL RKNN_ERR_MODEL_INVALID

static int init(void *bytes, size_t size, uint32_t flags, rknn_init_extend *extend)
{
    rknn_context c = 77;
    int r = rknn_init(&c, bytes, (uint32_t)size, flags, extend);
    EXPECT(r == RKNN_SUCC || c == 77);
    return r;
}

static int init_part(int32_t offset, uint32_t size)
{
    rknn_init_extend part = {.real_model_offset = offset, .real_model_size = size};
    return init(model, model_size, 0, &part);
}

static void wrong_init(void)
{
    size_t size;
    void *other = conformance_file(&size, "other_chip.rknn");
    char garbage[256];
    memset(garbage, 0x5a, sizeof garbage);
    BAD(INVALID_PARAM, "NULL", rknn_init(NULL, model, (uint32_t)model_size, 0, NULL));
    BAD(INVALID_PARAM, "NULL", init(NULL, 0, 0, NULL));
    BAD(INVALID_PARAM, "NULL", init(NULL, 100, 0, NULL));
    BAD(INVALID_MODEL, "/nowhere/a.rknn", init("/nowhere/a.rknn", 0, 0, NULL));
    BAD(INVALID_MODEL, "", init("", 0, 0, NULL));
    BAD(INVALID_MODEL, "/tmp", init("/tmp", 0, 0, NULL));
    BAD(INVALID_MODEL, "/dev/null", init("/dev/null", 0, 0, NULL));
    BAD(INVALID_MODEL, "model", init(garbage, sizeof garbage, 0, NULL));
    BAD(INVALID_MODEL, "model", init(model, 1, 0, NULL));
    BAD(INVALID_MODEL, "model", init(model, 4, 0, NULL));
    BAD(INVALID_MODEL, "model", init(model, 64, 0, NULL));
    BAD(INVALID_MODEL, "model", init(model, model_size / 2, 0, NULL));
    BAD(RKNN_ERR_TARGET_PLATFORM_UNMATCH, "rk3568", init(other, size, 0, NULL));
    BAD(INVALID_PARAM, "priorities", init(model, model_size, 3, NULL));
    BAD(INVALID_PARAM, "0x80000000", init(model, model_size, 1u << 31, NULL));
    BAD(INVALID_PARAM, "0x100000", init(model, model_size, 1u << 20, NULL));
    BAD(INVALID_PARAM, "negative", init_part(-1, 10));
    BAD(INVALID_PARAM, "", init_part(0, (uint32_t)model_size + 1));
    BAD(INVALID_PARAM, "", init_part((int32_t)model_size, 1));
    BAD(INVALID_PARAM, "", init_part(INT32_MAX, UINT32_MAX));
    BAD(INVALID_MODEL, "model", init_part(4, (uint32_t)model_size - 4));
    free(other);
}

// A function that answers NULL, with words.
#define NONE(word, call)                                                                           \
    do {                                                                                           \
        EXPECT_CMP((call), ==, NULL);                                                              \
        conformance_expect_words(__FILE__, __LINE__, word);                                        \
    } while (0)

static void wrong_context_memory(rknn_context c, rknn_tensor_attr *attr)
{
    rknn_context good = conformance_open("conv.rknn", 0);
    rknn_tensor_mem *mem = rknn_create_mem(good, 4096);
    NEED(mem);
    NONE("rknn_create_mem: ", rknn_create_mem(c, 64));
    NONE("rknn_create_mem2: ", rknn_create_mem2(c, 64, RKNN_FLAG_MEMORY_FLAGS_DEFAULT));
    NONE("rknn_create_mem_from_fd: ", rknn_create_mem_from_fd(c, mem->fd, mem->virt_addr, 64, 0));
    NONE("rknn_create_mem_from_phys: ", rknn_create_mem_from_phys(c, 4096, mem->virt_addr, 64));
    NONE("rknn_create_mem_from_mb_blk: ", rknn_create_mem_from_mb_blk(c, mem, 0));
    BAD(INVALID_CTX, "rknn_set_io_mem: ", rknn_set_io_mem(c, mem, attr));
    BAD(INVALID_CTX, "rknn_set_weight_mem: ", rknn_set_weight_mem(c, mem));
    BAD(INVALID_CTX, "rknn_set_internal_mem: ", rknn_set_internal_mem(c, mem));
    EXPECT_OK(rknn_destroy_mem(good, mem));
    EXPECT_OK(rknn_destroy(good));
}

// Every function with a number that is no context.
static void wrong_context(rknn_context c)
{
    rknn_input_output_num n;
    rknn_context copy = 5;
    uint8_t bytes[192] = {0};
    rknn_input in = {.buf = bytes, .size = 192, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    rknn_output out = {.want_float = 1};
    rknn_tensor_attr attr = {.n_dims = 4, .fmt = RKNN_TENSOR_NHWC};
    rknn_run_extend extend = {0};
    BAD(INVALID_CTX, "rknn_destroy: ", rknn_destroy(c));
    BAD(INVALID_CTX, "rknn_dup_context: ", rknn_dup_context(&c, &copy));
    BAD(INVALID_CTX, "rknn_query: ", rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n));
    BAD(INVALID_CTX, "rknn_query: ", rknn_query(c, (rknn_query_cmd)99, NULL, 0));
    BAD(INVALID_CTX, "rknn_inputs_set: ", rknn_inputs_set(c, 1, &in));
    BAD(INVALID_CTX, "rknn_set_core_mask: ", rknn_set_core_mask(c, RKNN_NPU_CORE_0));
    BAD(INVALID_CTX, "rknn_set_batch_core_num: ", rknn_set_batch_core_num(c, 1));
    BAD(INVALID_CTX, "rknn_run: ", rknn_run(c, NULL));
    BAD(INVALID_CTX, "rknn_run: ", rknn_run(c, &extend));
    BAD(INVALID_CTX, "rknn_wait: ", rknn_wait(c, NULL));
    BAD(INVALID_CTX, "rknn_wait: ", rknn_wait(c, &extend));
    BAD(INVALID_CTX, "rknn_outputs_get: ", rknn_outputs_get(c, 1, &out, NULL));
    BAD(INVALID_CTX, "rknn_outputs_release: ", rknn_outputs_release(c, 1, &out));
    BAD(INVALID_CTX, "rknn_set_input_shape: ", rknn_set_input_shape(c, &attr));
    BAD(INVALID_CTX, "rknn_set_input_shapes: ", rknn_set_input_shapes(c, 1, &attr));
    EXPECT_CMP(copy, ==, 5);
    EXPECT(!out.buf);
    wrong_context_memory(c, &attr);
}

static void wrong_contexts(void)
{
    rknn_context c = conformance_open("conv.rknn", 0);
    EXPECT_OK(rknn_destroy(c));
    wrong_context(c);
    wrong_context(0);
    wrong_context(12345);
    c = conformance_open("conv.rknn", 0);
    BAD(INVALID_PARAM, "NULL", rknn_dup_context(NULL, &c));
    BAD(INVALID_PARAM, "NULL", rknn_dup_context(&c, NULL));
    EXPECT_OK(rknn_destroy(c));
}

// ---- queries -----------------------------------------------------------------------------------

static const struct {
    rknn_query_cmd cmd;
    uint32_t size;
    bool indexed;
} queries[] = {
    {RKNN_QUERY_IN_OUT_NUM, sizeof(rknn_input_output_num), false},
    {RKNN_QUERY_INPUT_ATTR, sizeof(rknn_tensor_attr), true},
    {RKNN_QUERY_OUTPUT_ATTR, sizeof(rknn_tensor_attr), true},
    {RKNN_QUERY_PERF_DETAIL, sizeof(rknn_perf_detail), false},
    {RKNN_QUERY_PERF_RUN, sizeof(rknn_perf_run), false},
    {RKNN_QUERY_SDK_VERSION, sizeof(rknn_sdk_version), false},
    {RKNN_QUERY_MEM_SIZE, sizeof(rknn_mem_size), false},
    {RKNN_QUERY_CUSTOM_STRING, sizeof(rknn_custom_string), false},
    {RKNN_QUERY_NATIVE_INPUT_ATTR, sizeof(rknn_tensor_attr), true},
    {RKNN_QUERY_NATIVE_OUTPUT_ATTR, sizeof(rknn_tensor_attr), true},
    {RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR, sizeof(rknn_tensor_attr), true},
    {RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR, sizeof(rknn_tensor_attr), true},
    {RKNN_QUERY_CURRENT_INPUT_ATTR, sizeof(rknn_tensor_attr), true},
    {RKNN_QUERY_CURRENT_OUTPUT_ATTR, sizeof(rknn_tensor_attr), true},
    {RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, sizeof(rknn_tensor_attr), true},
    {RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR, sizeof(rknn_tensor_attr), true},
};

static int query_index(rknn_context c, rknn_query_cmd cmd, uint32_t index)
{
    rknn_tensor_attr a = {.index = index};
    return rknn_query(c, cmd, &a, sizeof a);
}

static void wrong_queries(rknn_context c)
{
    static char room[sizeof(rknn_input_range) + 8];
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        rknn_query_cmd cmd = queries[i].cmd;
        uint32_t size = queries[i].size;
        BAD(INVALID_PARAM, "NULL", rknn_query(c, cmd, NULL, size));
        BAD(INVALID_PARAM, "bytes", rknn_query(c, cmd, room, 0));
        BAD(INVALID_PARAM, "bytes", rknn_query(c, cmd, room, size - 1));
        BAD(INVALID_PARAM, "bytes", rknn_query(c, cmd, room, size + 1));
        if (queries[i].indexed)
            BAD(INVALID_PARAM, "index 1", query_index(c, cmd, 1));
        if (queries[i].indexed)
            BAD(INVALID_PARAM, "index 4294967295", query_index(c, cmd, UINT32_MAX));
    }
    BAD(INVALID_PARAM, "command -1", rknn_query(c, (rknn_query_cmd)-1, room, 8));
    BAD(INVALID_PARAM, "command 18", rknn_query(c, RKNN_QUERY_CMD_MAX, room, 8));
    BAD(INVALID_PARAM, "command 1000", rknn_query(c, (rknn_query_cmd)1000, room, 8));
    BAD(RKNN_ERR_FAIL, "memory", rknn_query(c, RKNN_QUERY_DEVICE_MEM_INFO, room, 8));
    BAD(RKNN_ERR_FAIL, "fixed",
        rknn_query(c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, room, sizeof(rknn_input_range)));
    BAD(RKNN_ERR_FAIL, "no run",
        rknn_query(c, RKNN_QUERY_PERF_DETAIL, room, sizeof(rknn_perf_detail)));
    BAD(RKNN_ERR_FAIL, "no run", rknn_query(c, RKNN_QUERY_PERF_RUN, room, sizeof(rknn_perf_run)));
}

// ---- inputs, runs, outputs ---------------------------------------------------------------------

#define IMAGE_SIZE 192 // 8x8x3

static int set_input(rknn_context c, uint32_t index, uint32_t size, int type, int fmt, int pass)
{
    uint8_t bytes[IMAGE_SIZE * 8] = {0};
    rknn_input in = {.index = index,
                     .buf = bytes,
                     .size = size,
                     .pass_through = (uint8_t)pass,
                     .type = (rknn_tensor_type)type,
                     .fmt = (rknn_tensor_format)fmt};
    return rknn_inputs_set(c, 1, &in);
}

static int set_without_buffer(rknn_context c)
{
    rknn_input in = {.size = IMAGE_SIZE, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    return rknn_inputs_set(c, 1, &in);
}

static void wrong_inputs(rknn_context c)
{
    static const rknn_input none[2];
    const int u8 = RKNN_TENSOR_UINT8, nhwc = RKNN_TENSOR_NHWC;
    BAD(INVALID_PARAM, "NULL", rknn_inputs_set(c, 1, NULL));
    BAD(INVALID_PARAM, "0 inputs", rknn_inputs_set(c, 0, (rknn_input *)none));
    BAD(INVALID_PARAM, "2 inputs", rknn_inputs_set(c, 2, (rknn_input *)none));
    BAD(INVALID_PARAM, "inputs", rknn_inputs_set(c, UINT32_MAX, (rknn_input *)none));
    BAD(INVALID_IN, "NULL", set_without_buffer(c));
    BAD(INVALID_IN, "input 1", set_input(c, 1, IMAGE_SIZE, u8, nhwc, 0));
    BAD(INVALID_IN, "input 4294967295", set_input(c, UINT32_MAX, IMAGE_SIZE, u8, nhwc, 0));
    BAD(INVALID_PARAM, "param input size(0) < model input size(192)",
        set_input(c, 0, 0, u8, nhwc, 0));
    BAD(INVALID_PARAM, "param input size(191) < model input size(192)",
        set_input(c, 0, IMAGE_SIZE - 1, u8, nhwc, 0));
    BAD(INVALID_PARAM, "param input size(192) < model input size(768)",
        set_input(c, 0, IMAGE_SIZE, RKNN_TENSOR_FLOAT32, nhwc, 0));
    BAD(INVALID_IN, "type", set_input(c, 0, IMAGE_SIZE, RKNN_TENSOR_INT4, nhwc, 0));
    BAD(INVALID_IN, "type", set_input(c, 0, IMAGE_SIZE, RKNN_TENSOR_TYPE_MAX, nhwc, 0));
    BAD(INVALID_IN, "type", set_input(c, 0, IMAGE_SIZE, -1, nhwc, 0));
    BAD(INVALID_IN, "format", set_input(c, 0, IMAGE_SIZE, u8, RKNN_TENSOR_NC1HWC2, 0));
    BAD(INVALID_IN, "format", set_input(c, 0, IMAGE_SIZE, u8, RKNN_TENSOR_UNDEFINED, 0));
    BAD(INVALID_IN, "format", set_input(c, 0, IMAGE_SIZE, u8, RKNN_TENSOR_FORMAT_MAX, 0));
    BAD(INVALID_IN, "format", set_input(c, 0, IMAGE_SIZE, u8, -1, 0));
    BAD(INVALID_PARAM, "pass through", set_input(c, 0, IMAGE_SIZE - 3, u8, nhwc, 1));
    BAD(INVALID_IN, "has not been set", rknn_run(c, NULL));
}

static int get(rknn_context c, uint32_t index, bool prealloc, void *buf, uint32_t size, bool real)
{
    rknn_output o = {
        .index = index, .is_prealloc = prealloc, .buf = buf, .size = size, .want_float = real};
    int r = rknn_outputs_get(c, 1, &o, NULL);
    EXPECT(prealloc || r == RKNN_SUCC || !o.buf);
    return r;
}

static int wait_for(rknn_context c, uint64_t frame)
{
    rknn_run_extend extend = {.frame_id = frame};
    return rknn_wait(c, &extend);
}

static void wrong_order(rknn_context c)
{
    BAD(INVALID_OUT, "before the first rknn_run", get(c, 0, false, NULL, 0, false));
    BAD(INVALID_OUT, "before the first rknn_run", get(c, 0, false, NULL, 0, true));
    BAD(RKNN_ERR_FAIL, "nothing was run", rknn_wait(c, NULL));
    BAD(RKNN_ERR_FAIL, "nothing was run", wait_for(c, 1));
}

static void wrong_outputs(rknn_context c)
{
    static uint8_t room[8 * 8 * 8 * 4];
    rknn_output two[2] = {{.index = 0}, {.index = 1}};
    conformance_set_inputs(c, "conv");
    NEED_OK(rknn_run(c, NULL));
    BAD(INVALID_PARAM, "no place", rknn_outputs_get(c, 1, NULL, NULL));
    BAD(INVALID_PARAM, "0 outputs", rknn_outputs_get(c, 0, two, NULL));
    BAD(INVALID_PARAM, "2 outputs", rknn_outputs_get(c, 2, two, NULL));
    BAD(INVALID_PARAM, "outputs", rknn_outputs_get(c, UINT32_MAX, two, NULL));
    BAD(INVALID_OUT, "output 1", get(c, 1, false, NULL, 0, false));
    BAD(INVALID_OUT, "output 4294967295", get(c, UINT32_MAX, true, room, sizeof room, true));
    BAD(INVALID_OUT, "NULL", get(c, 0, true, NULL, 512, false));
    BAD(INVALID_OUT, "512", get(c, 0, true, room, 511, false));
    BAD(INVALID_OUT, "512", get(c, 0, true, room, 0, false));
    BAD(INVALID_OUT, "2048", get(c, 0, true, room, 512, true));
    BAD(INVALID_OUT, "2048", get(c, 0, true, room, 2047, true));
    EXPECT_OK(get(c, 0, true, room, 2048, true)); // it is still there
    BAD(INVALID_PARAM, "NULL", rknn_outputs_release(c, 1, NULL));
    EXPECT_OK(rknn_outputs_release(c, 0, NULL));
    BAD(INVALID_PARAM, "run 2", wait_for(c, 2));
    BAD(INVALID_PARAM, "run", wait_for(c, UINT64_MAX));
}

// ---- cores, shapes -----------------------------------------------------------------------------

static int set_mask(rknn_context c, int mask)
{
    return rknn_set_core_mask(c, (rknn_core_mask)mask);
}

static void wrong_cores(rknn_context c)
{
    BAD(INVALID_PARAM, "core mask", set_mask(c, 5));
    BAD(INVALID_PARAM, "core mask", set_mask(c, 6));
    BAD(INVALID_PARAM, "mask", set_mask(c, 8));
    BAD(INVALID_PARAM, "mask", set_mask(c, 15));
    BAD(INVALID_PARAM, "core mask", set_mask(c, RKNN_NPU_CORE_UNDEFINED));
    BAD(INVALID_PARAM, "core mask", set_mask(c, -1));
    BAD(INVALID_PARAM, "rknn_batch_size", rknn_set_batch_core_num(c, 2));
    BAD(INVALID_PARAM, "rknn_batch_size", rknn_set_batch_core_num(c, 0));
    rknn_context b = conformance_open("batch.rknn", 0);
    BAD(INVALID_PARAM, "cores", rknn_set_batch_core_num(b, 0));
    BAD(INVALID_PARAM, "cores", rknn_set_batch_core_num(b, -1));
    BAD(INVALID_PARAM, "cores", rknn_set_batch_core_num(b, 4));
    EXPECT_OK(rknn_destroy(b));
}

// ---- memory ------------------------------------------------------------------------------------

static int bind(rknn_context c, rknn_tensor_mem *mem, rknn_query_cmd query, int type, int fmt)
{
    rknn_tensor_attr *a = conformance_attrs(c, query);
    a[0].type = type < 0 ? a[0].type : (rknn_tensor_type)type;
    a[0].fmt = fmt < 0 ? a[0].fmt : (rknn_tensor_format)fmt;
    int r = rknn_set_io_mem(c, mem, a);
    free(a);
    return r;
}

static void wrong_memory(rknn_context c)
{
    rknn_tensor_attr nameless = {.n_dims = 4};
    rknn_tensor_mem *mem = rknn_create_mem(c, 4096), *small = rknn_create_mem(c, 100);
    NEED(mem);
    NEED(small);
    NONE("0 bytes", rknn_create_mem(c, 0));
    NONE("0 bytes", rknn_create_mem2(c, 0, RKNN_FLAG_MEMORY_FLAGS_DEFAULT));
    NONE("flags", rknn_create_mem2(c, 64, 1u << 20));
    NONE("fd", rknn_create_mem_from_fd(c, -1, mem->virt_addr, 64, 0));
    BAD(INVALID_PARAM, "is none", rknn_set_io_mem(c, NULL, &nameless));
    BAD(INVALID_PARAM, "NULL", rknn_set_io_mem(c, mem, NULL));
    BAD(INVALID_PARAM, "rknn_set_io_mem", rknn_set_io_mem(c, mem, &nameless));
    BAD(INVALID_IN, "rknn_set_io_mem",
        bind(c, mem, RKNN_QUERY_INPUT_ATTR, RKNN_TENSOR_TYPE_MAX, -1));
    BAD(INVALID_IN, "rknn_set_io_mem",
        bind(c, mem, RKNN_QUERY_INPUT_ATTR, -1, RKNN_TENSOR_FORMAT_MAX));
    BAD(INVALID_IN, "bytes", bind(c, small, RKNN_QUERY_INPUT_ATTR, -1, -1));
    BAD(INVALID_OUT, "bytes", bind(c, small, RKNN_QUERY_OUTPUT_ATTR, -1, -1));
    BAD(INVALID_PARAM, "is none", rknn_set_weight_mem(c, NULL));
    BAD(INVALID_PARAM, "is none", rknn_set_internal_mem(c, NULL));
    BAD(INVALID_PARAM, "is none", rknn_destroy_mem(c, NULL));
    BAD(INVALID_PARAM, "is none", rknn_mem_sync(c, NULL, RKNN_MEMORY_SYNC_TO_DEVICE));
    BAD(INVALID_PARAM, "mode", rknn_mem_sync(c, mem, (rknn_mem_sync_mode)0));
    BAD(INVALID_PARAM, "mode", rknn_mem_sync(c, mem, (rknn_mem_sync_mode)8));
    EXPECT_OK(rknn_destroy_mem(c, mem));
    EXPECT_OK(rknn_destroy_mem(c, small));
}

static int set_shape(rknn_context c, uint32_t index, const char *name, uint32_t rows, int fmt)
{
    rknn_tensor_attr a = {
        .index = index, .n_dims = 4, .dims = {1, rows, 8, 3}, .fmt = (rknn_tensor_format)fmt};
    snprintf(a.name, sizeof a.name, "%s", name);
    int r = rknn_set_input_shapes(c, 1, &a);
    EXPECT_CODE(r, rknn_set_input_shape(c, &a));
    return r;
}

static void wrong_shapes(rknn_context c)
{
    rknn_tensor_attr a[2] = {{.n_dims = 4}, {.n_dims = 4}};
    BAD(INVALID_PARAM, "no array", rknn_set_input_shapes(c, 1, NULL));
    BAD(INVALID_PARAM, "NULL", rknn_set_input_shape(c, NULL));
    BAD(INVALID_PARAM, "0 shapes", rknn_set_input_shapes(c, 0, a));
    BAD(INVALID_PARAM, "2 shapes", rknn_set_input_shapes(c, 2, a));
    BAD(INVALID_PARAM, "index 1", set_shape(c, 1, "image", 8, RKNN_TENSOR_NHWC));
    BAD(INVALID_PARAM, "image", set_shape(c, 0, "other", 8, RKNN_TENSOR_NHWC));
    BAD(INVALID_PARAM, "NHWC", set_shape(c, 0, "image", 8, RKNN_TENSOR_NCHW));
    BAD(INVALID_PARAM, "NHWC", set_shape(c, 0, "image", 8, RKNN_TENSOR_UNDEFINED));
    BAD(INVALID_PARAM, "shape set", set_shape(c, 0, "image", 9, RKNN_TENSOR_NHWC));
    a[0] = (rknn_tensor_attr){.n_dims = UINT32_MAX, .fmt = RKNN_TENSOR_UNDEFINED};
    BAD(INVALID_PARAM, "dimensions", rknn_set_input_shapes(c, 1, a));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    model = conformance_file(&model_size, "conv.rknn");
    wrong_init();
    wrong_contexts();
    rknn_context c = conformance_open("conv.rknn", 0);
    wrong_queries(c);
    wrong_order(c);
    wrong_inputs(c);
    wrong_order(c);
    wrong_cores(c);
    wrong_shapes(c);
    wrong_memory(c);
    wrong_outputs(c);
    conformance_set_inputs(c, "conv"); // and after all of that it still works
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "conv");
    EXPECT_OK(rknn_destroy(c));
    BAD(INVALID_CTX, "destroyed already", rknn_destroy(c));
    free(model);
    return conformance_finish();
}
