// RV1103 and RV1106: zero copy with the attributes that are queried, which are the native ones.
#include "../conformance.h"

#define NAME "small_chip"

static void expect_same(rknn_context c, rknn_query_cmd one, rknn_query_cmd other)
{
    rknn_tensor_attr *a = conformance_attrs(c, one), *b = conformance_attrs(c, other);
    EXPECT_MEMORY(&a[0], &b[0], sizeof a[0]);
    free(a);
    free(b);
}

// The file's picture at the attribute's pitch.
static void write_picture(const rknn_tensor_attr *a, uint8_t *to, uint32_t room)
{
    size_t size;
    uint8_t *picture = conformance_file(&size, NAME ".in0.bin");
    float *real = (float *)picture;
    size_t columns = a->dims[2], pitch = a->w_stride ? a->w_stride : columns, n = size / 4;
    NEED_CMP(a->fmt, ==, RKNN_TENSOR_NHWC);
    NEED_CMP(n, ==, a->n_elems);
    NEED_CMP(room, >=, a->dims[1] * pitch * 3);
    for (size_t i = 0; i < n; i++) {
        float v = real[i] < 0 ? 0 : real[i] > 255 ? 255 : real[i];
        to[i / (columns * 3) * pitch * 3 + i % (columns * 3)] = (uint8_t)(v + 0.5f);
    }
    free(picture);
}

static void expect_output(const rknn_tensor_attr *a, const int8_t *blocks)
{
    size_t size, wrong = 0;
    int8_t *expected = conformance_file(&size, NAME ".out0.bin");
    NEED_CMP(a->fmt, ==, RKNN_TENSOR_NC1HWC2);
    NEED_CMP(a->type, ==, RKNN_TENSOR_INT8);
    NEED_CMP(a->n_dims, ==, 5);
    size_t pixels = a->dims[2] * a->dims[3], c2 = a->dims[4], channels = size / pixels;
    for (size_t k = 0; k < size; k++) {
        size_t c = k / pixels, pixel = k % pixels;
        int difference = blocks[(c / c2 * pixels + pixel) * c2 + c % c2] - expected[k];
        wrong += difference < -2 || difference > 2; // the picture is rounded to bytes
    }
    EXPECT_CMP(channels, <=, a->dims[1] * c2);
    EXPECT_CMP(wrong, ==, 0);
    free(expected);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    rknn_context c = conformance_open(NAME ".rknn", 0);
    expect_same(c, RKNN_QUERY_INPUT_ATTR, RKNN_QUERY_NATIVE_INPUT_ATTR);
    expect_same(c, RKNN_QUERY_OUTPUT_ATTR, RKNN_QUERY_NATIVE_OUTPUT_ATTR);
    rknn_tensor_attr *in = conformance_attrs(c, RKNN_QUERY_INPUT_ATTR);
    rknn_tensor_attr *out = conformance_attrs(c, RKNN_QUERY_OUTPUT_ATTR);
    rknn_tensor_mem *from = rknn_create_mem(c, in[0].size_with_stride);
    rknn_tensor_mem *to = rknn_create_mem(c, out[0].size_with_stride);
    NEED(from);
    NEED(to);
    in[0].type = RKNN_TENSOR_UINT8;
    write_picture(&in[0], from->virt_addr, from->size);
    EXPECT_OK(rknn_set_io_mem(c, from, &in[0]));
    EXPECT_OK(rknn_set_io_mem(c, to, &out[0]));
    EXPECT_OK(rknn_run(c, NULL));
    expect_output(&out[0], to->virt_addr);
    EXPECT_OK(rknn_destroy_mem(c, from));
    EXPECT_OK(rknn_destroy_mem(c, to));
    EXPECT_OK(rknn_destroy(c));
    free(in);
    free(out);
    return conformance_finish();
}
