// Every query, with today's structs and those of programs built against older headers.
#include "../conformance.h"

#define OLD_ATTR     372 // SDK 1.2
#define OLD_MEM_SIZE 8   // SDK 1.3

static const rknn_query_cmd attr_queries[] = {
    RKNN_QUERY_INPUT_ATTR,
    RKNN_QUERY_OUTPUT_ATTR,
    RKNN_QUERY_NATIVE_INPUT_ATTR,
    RKNN_QUERY_NATIVE_OUTPUT_ATTR,
    RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR,
    RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR,
    RKNN_QUERY_CURRENT_INPUT_ATTR,
    RKNN_QUERY_CURRENT_OUTPUT_ATTR,
    RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR,
    RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR,
};

// The old struct is the beginning of the new one; what lies behind it is not touched.
static void old_attr(rknn_context c, rknn_query_cmd cmd)
{
    rknn_tensor_attr now = {0};
    uint8_t old[OLD_ATTR + 8];
    memset(old, 0x55, sizeof old);
    memset(old, 0, sizeof now.index);
    EXPECT_OK(rknn_query(c, cmd, &now, sizeof now));
    EXPECT_OK(rknn_query(c, cmd, old, OLD_ATTR));
    EXPECT_MEMORY(old, &now, OLD_ATTR);
    for (size_t i = OLD_ATTR; i < sizeof old; i++)
        EXPECT_CMP(old[i], ==, 0x55);
}

static void old_mem_size(rknn_context c)
{
    rknn_mem_size now = {0};
    uint8_t old[OLD_MEM_SIZE + 8];
    memset(old, 0x55, sizeof old);
    EXPECT_OK(rknn_query(c, RKNN_QUERY_MEM_SIZE, &now, sizeof now));
    EXPECT_OK(rknn_query(c, RKNN_QUERY_MEM_SIZE, old, OLD_MEM_SIZE));
    EXPECT_MEMORY(old, &now, OLD_MEM_SIZE);
    EXPECT_CMP(old[OLD_MEM_SIZE], ==, 0x55);
    EXPECT_CMP(now.total_weight_size, >, 0);
    EXPECT_CMP(now.total_internal_size, >, 0);
}

static size_t element(rknn_tensor_type t)
{
    return t == RKNN_TENSOR_FLOAT16 ? 2 : t == RKNN_TENSOR_INT8 ? 1 : 0;
}

// NC1HWC2: C1 blocks of C2 channels hold all of the channels, with less than a block to spare.
static void expect_blocks(const rknn_tensor_attr *a, uint32_t channels)
{
    EXPECT_CMP(a->n_dims, ==, 5);
    EXPECT_CMP(a->dims[1] * a->dims[4], >=, channels);
    EXPECT_CMP(a->dims[1] * a->dims[4], <, channels + a->dims[4]);
}

static void expect_native(rknn_context c, bool outputs)
{
    rknn_query_cmd logical = outputs ? RKNN_QUERY_OUTPUT_ATTR : RKNN_QUERY_INPUT_ATTR;
    rknn_query_cmd native = outputs ? RKNN_QUERY_NATIVE_OUTPUT_ATTR : RKNN_QUERY_NATIVE_INPUT_ATTR;
    rknn_query_cmd rows =
        outputs ? RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR : RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR;
    rknn_tensor_attr *a = conformance_attrs(c, logical), *b = conformance_attrs(c, native);
    rknn_tensor_attr *n = conformance_attrs(c, rows);
    uint32_t count = outputs ? conformance_count(c).n_output : conformance_count(c).n_input;
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_STRING(a[i].name, b[i].name);
        EXPECT_STRING(a[i].name, n[i].name);
        EXPECT_CMP(a[i].size, ==, a[i].n_elems * element(a[i].type));
        EXPECT_CMP(b[i].size, ==, b[i].n_elems * element(b[i].type));
        EXPECT_CMP(b[i].scale, ==, a[i].scale);
        EXPECT_CMP(b[i].zp, ==, a[i].zp);
        EXPECT_CMP(b[i].size_with_stride, >=, b[i].size);
        EXPECT_CMP(n[i].size_with_stride, >=, n[i].size);
        if (a[i].n_dims == 4) {
            EXPECT_CMP(n[i].fmt, ==, RKNN_TENSOR_NHWC);
            EXPECT_CMP(n[i].n_elems, ==, a[i].n_elems);
        }
        if (b[i].fmt == RKNN_TENSOR_NC1HWC2)
            expect_blocks(&b[i], a[i].fmt == RKNN_TENSOR_NHWC ? a[i].dims[3] : a[i].dims[1]);
    }
    free(a);
    free(b);
    free(n);
}

// Of fixed shapes the current attributes are the only ones.
static void expect_current(rknn_context c)
{
    rknn_tensor_attr a = {0}, b = {0};
    EXPECT_OK(rknn_query(c, RKNN_QUERY_OUTPUT_ATTR, &a, sizeof a));
    EXPECT_OK(rknn_query(c, RKNN_QUERY_CURRENT_OUTPUT_ATTR, &b, sizeof b));
    EXPECT_MEMORY(&a, &b, sizeof a);
}

static void query_model(const char *name)
{
    rknn_context c = conformance_open(name, 0);
    rknn_sdk_version version = {{0}, {0}};
    rknn_custom_string custom;
    EXPECT_OK(rknn_query(c, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    int major = 0, minor = 0, patch = -1, n = 0;
    EXPECT_CMP(sscanf(version.api_version, "%d.%d.%d (%n", &major, &minor, &patch, &n), ==, 3);
    EXPECT_CMP(n, >, 0);
    EXPECT_CMP(major, >, 0);
    EXPECT_CMP(minor, >=, 0);
    EXPECT_CMP(patch, >=, 0);
    EXPECT_CMP(version.drv_version[0], >=, ' ');
    memset(&custom, 0x55, sizeof custom);
    EXPECT_OK(rknn_query(c, RKNN_QUERY_CUSTOM_STRING, &custom, sizeof custom));
    EXPECT_CMP(memchr(custom.string, 0, sizeof custom.string), !=, NULL);
    for (size_t i = 0; i < sizeof attr_queries / sizeof *attr_queries; i++)
        old_attr(c, attr_queries[i]);
    old_mem_size(c);
    expect_native(c, false);
    expect_native(c, true);
    expect_current(c);
    EXPECT_OK(rknn_destroy(c));
}

// A context for the memory sizes alone answers those and does not run (SDK guide; notes 9).
static void info_only(void)
{
    rknn_context c = conformance_open("conv.rknn", RKNN_FLAG_COLLECT_MODEL_INFO_ONLY);
    rknn_mem_size size = {0};
    EXPECT_OK(rknn_query(c, RKNN_QUERY_MEM_SIZE, &size, sizeof size));
    EXPECT_CMP(size.total_weight_size, >, 0);
    EXPECT_CMP(rknn_run(c, NULL), <, 0);
    EXPECT_OK(rknn_destroy(c));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    query_model("conv.rknn");
    query_model("residual.rknn");
    query_model("float16.rknn");
    query_model("two_inputs.rknn");
    info_only();
    return conformance_finish();
}
