// As the SDK's dynamic shape examples for zero copy: memory made once, for the largest shapes, then
// every shape in turn, with outputs in NCHW, in NHWC and in the NPU's own form.
#include "../conformance.h"

#define NAME   "dynamic_picture"
#define ROWS   "shape data=1x3x12x10,1x3x6x10,1x3x20x16"
#define N_OUT  2
#define N_ROWS 3

enum variant { OUT_NCHW, OUT_NHWC, NATIVE };

struct state {
    rknn_context c;
    rknn_input_range range;
    rknn_tensor_mem *in, *out[N_OUT];
};

static struct state open_state(void)
{
    struct state s = {.c = conformance_open_shape_sets(NAME, ROWS, 0)};
    NEED_OK(rknn_query(s.c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &s.range, sizeof s.range));
    rknn_tensor_attr *in = conformance_attrs(s.c, RKNN_QUERY_INPUT_ATTR);
    rknn_tensor_attr *native = conformance_attrs(s.c, RKNN_QUERY_NATIVE_INPUT_ATTR);
    rknn_tensor_attr *out = conformance_attrs(s.c, RKNN_QUERY_NATIVE_OUTPUT_ATTR);
    uint32_t size = in[0].size_with_stride;
    size = native[0].size_with_stride > size ? native[0].size_with_stride : size;
    s.in = rknn_create_mem(s.c, size);
    NEED(s.in);
    for (uint32_t i = 0; i < N_OUT; i++) {
        s.out[i] = rknn_create_mem(s.c, out[i].n_elems * (uint32_t)sizeof(float));
        NEED(s.out[i]);
    }
    free(in);
    free(native);
    free(out);
    return s;
}

static void close_state(struct state *s)
{
    EXPECT_OK(rknn_destroy_mem(s->c, s->in));
    for (uint32_t i = 0; i < N_OUT; i++)
        EXPECT_OK(rknn_destroy_mem(s->c, s->out[i]));
    EXPECT_OK(rknn_destroy(s->c));
}

static void set_shape(const struct state *s, uint32_t shape_set)
{
    rknn_tensor_attr a = {.n_dims = s->range.n_dims, .fmt = s->range.fmt};
    memcpy(a.name, s->range.name, sizeof a.name);
    memcpy(a.dims, s->range.dyn_range[shape_set], sizeof a.dims);
    NEED_OK(rknn_set_input_shapes(s->c, 1, &a));
}

// The picture of the shape set, as bytes at the attribute's pitch; the file has whole numbers as
// floats.
static void write_picture(const struct state *s, uint32_t shape_set, const rknn_tensor_attr *a)
{
    size_t size, columns = a->dims[2], pitch = a->w_stride ? a->w_stride : columns;
    float *data = conformance_file(&size, NAME ".set%u.in0.bin", shape_set);
    NEED_CMP(size, ==, a->n_elems * sizeof *data);
    uint8_t *to = s->in->virt_addr;
    for (size_t y = 0; y < a->dims[1]; y++)
        for (size_t x = 0; x < columns * 3; x++)
            to[y * pitch * 3 + x] = (uint8_t)data[y * columns * 3 + x];
    free(data);
}

static void bind_input(const struct state *s, uint32_t shape_set, enum variant v)
{
    rknn_tensor_attr *a = conformance_attrs(s->c, v == NATIVE ? RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR
                                                              : RKNN_QUERY_CURRENT_INPUT_ATTR);
    NEED_CMP(a[0].fmt, ==, RKNN_TENSOR_NHWC);
    a[0].type = RKNN_TENSOR_UINT8;
    write_picture(s, shape_set, &a[0]);
    NEED_OK(rknn_set_io_mem(s->c, s->in, &a[0]));
    free(a);
}

// Where element (c, y, x) lies in memory of the attribute's form.
static size_t place(const rknn_tensor_attr *a, size_t height, size_t width, size_t channels,
                    const size_t at[3])
{
    if (a->fmt == RKNN_TENSOR_NHWC)
        return (at[1] * width + at[2]) * channels + at[0];
    if (a->fmt != RKNN_TENSOR_NC1HWC2)
        return (at[0] * height + at[1]) * width + at[2];
    size_t c2 = a->dims[4];
    return ((at[0] / c2 * height + at[1]) * width + at[2]) * c2 + at[0] % c2;
}

static void compare(const struct state *s, uint32_t shape_set, uint32_t i,
                    const rknn_tensor_attr *form)
{
    char files[64];
    rknn_tensor_attr *now = conformance_attrs(s->c, RKNN_QUERY_CURRENT_OUTPUT_ATTR), a = now[i];
    size_t channels = a.dims[1], height = a.dims[2], width = a.dims[3];
    const float *from = s->out[i]->virt_addr;
    float *plain = malloc(a.n_elems * sizeof *plain);
    NEED(plain);
    NEED_CMP(a.fmt, ==, RKNN_TENSOR_NCHW);
    NEED_CMP(a.n_elems, ==, channels * height * width);
    for (size_t k = 0; k < a.n_elems; k++) {
        size_t at[3] = {k / width / height, k / width % height, k % width};
        plain[k] = from[place(form, height, width, channels, at)];
    }
    a.type = RKNN_TENSOR_FLOAT32;
    snprintf(files, sizeof files, NAME ".set%u", shape_set);
    conformance_compare(&a, files, i, plain, a.n_elems * sizeof *plain);
    free(plain);
    free(now);
}

static void run_shape_set(const struct state *s, uint32_t shape_set, enum variant v)
{
    set_shape(s, shape_set);
    bind_input(s, shape_set, v);
    rknn_tensor_attr *out = conformance_attrs(
        s->c, v == NATIVE ? RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR : RKNN_QUERY_CURRENT_OUTPUT_ATTR);
    for (uint32_t i = 0; i < N_OUT; i++) {
        out[i].type = RKNN_TENSOR_FLOAT32;
        if (v != NATIVE)
            out[i].fmt = v == OUT_NHWC ? RKNN_TENSOR_NHWC : RKNN_TENSOR_NCHW;
        memset(s->out[i]->virt_addr, 0xff, s->out[i]->size);
        NEED_OK(rknn_set_io_mem(s->c, s->out[i], &out[i]));
    }
    NEED_OK(rknn_run(s->c, NULL));
    for (uint32_t i = 0; i < N_OUT; i++)
        compare(s, shape_set, i, &out[i]);
    free(out);
}

static void run_variant(enum variant v)
{
    static const uint32_t order[] = {2, 0, 1, 1, 2};
    struct state s = open_state();
    EXPECT_CMP(s.range.shape_number, ==, N_ROWS);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        run_shape_set(&s, order[i], v);
    close_state(&s);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    run_variant(OUT_NCHW);
    run_variant(OUT_NHWC);
    run_variant(NATIVE);
    return conformance_finish();
}
