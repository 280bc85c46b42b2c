// As the SDK's zero-copy demo: inputs and outputs in memory that the NPU uses, in every form that
// may be asked for. What comes out is what rknn_outputs_get gives.
#include "../conformance.h"

struct model {
    const char *name;
    rknn_context c;
    rknn_input_output_num n;
    rknn_tensor_attr *inputs, *outputs; // RKNN_QUERY_INPUT_ATTR, RKNN_QUERY_OUTPUT_ATTR
    rknn_output *stored, *real;         // by the plain way
    rknn_tensor_mem **in, **out;
};

static rknn_output *get_all(const struct model *m, uint8_t want_float)
{
    rknn_output *o = calloc(m->n.n_output, sizeof *o);
    for (uint32_t i = 0; i < m->n.n_output; i++)
        o[i] = (rknn_output){.index = i, .want_float = want_float};
    NEED_OK(rknn_outputs_get(m->c, m->n.n_output, o, NULL));
    return o;
}

static struct model open_model(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s.rknn", name);
    struct model m = {.name = name, .c = conformance_open(path, 0)};
    m.n = conformance_count(m.c);
    m.inputs = conformance_attrs(m.c, RKNN_QUERY_INPUT_ATTR);
    m.outputs = conformance_attrs(m.c, RKNN_QUERY_OUTPUT_ATTR);
    m.in = calloc(m.n.n_input, sizeof *m.in);
    m.out = calloc(m.n.n_output, sizeof *m.out);
    conformance_set_inputs(m.c, name);
    NEED_OK(rknn_run(m.c, NULL));
    m.stored = get_all(&m, 0);
    m.real = get_all(&m, 1);
    return m;
}

static void close_model(struct model *m)
{
    EXPECT_OK(rknn_outputs_release(m->c, m->n.n_output, m->stored));
    EXPECT_OK(rknn_outputs_release(m->c, m->n.n_output, m->real));
    for (uint32_t i = 0; i < m->n.n_input; i++)
        EXPECT_OK(rknn_destroy_mem(m->c, m->in[i]));
    for (uint32_t i = 0; i < m->n.n_output; i++)
        EXPECT_OK(rknn_destroy_mem(m->c, m->out[i]));
    EXPECT_OK(rknn_destroy(m->c));
    free(m->stored);
    free(m->real);
    free(m->in);
    free(m->out);
    free(m->inputs);
    free(m->outputs);
}

// ---- inputs ------------------------------------------------------------------------------------

static void copy_rows(uint8_t *to, size_t to_pitch, const uint8_t *from, size_t pitch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * to_pitch, from + i * pitch, pitch);
}

// Puts an input, as the file has it, into its memory at the attribute's pitch.
static void fill_input(const struct model *m, uint32_t i, const rknn_tensor_attr *a)
{
    size_t size;
    uint8_t *data = conformance_file(&size, "%s.in%u.bin", m->name, i);
    size_t rows = a->n_dims == 4 ? (size_t)a->dims[0] * a->dims[1] : 1, pitch = size / rows;
    size_t to = a->n_dims == 4 && a->w_stride ? pitch / a->dims[2] * a->w_stride : pitch;
    NEED_CMP(m->in[i]->size, >=, rows * to);
    copy_rows(m->in[i]->virt_addr, to, data, pitch, rows);
    free(data);
}

static rknn_tensor_type file_type(const struct model *m, uint32_t i)
{
    size_t size;
    free(conformance_file(&size, "%s.in%u.bin", m->name, i));
    return size == m->inputs[i].n_elems ? RKNN_TENSOR_UINT8 : RKNN_TENSOR_FLOAT32;
}

static void bind_inputs(struct model *m, uint32_t stride)
{
    for (uint32_t i = 0; i < m->n.n_input; i++) {
        rknn_tensor_attr a = m->inputs[i];
        a.type = file_type(m, i);
        if (a.n_dims == 4 && stride)
            a.w_stride = a.dims[2] + stride;
        if (!m->in[i])
            m->in[i] = rknn_create_mem(m->c, 4 * a.size_with_stride + 4 * a.size * stride);
        NEED(m->in[i]);
        NEED(m->in[i]->virt_addr);
        NEED_CMP(m->in[i]->fd, >=, 0);
        EXPECT_CMP(m->in[i]->flags, ==, RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE);
        EXPECT_OK(rknn_set_io_mem(m->c, m->in[i], &a));
        memset(m->in[i]->virt_addr, 0x5a, m->in[i]->size);
        fill_input(m, i, &a);
    }
}

// ---- outputs -----------------------------------------------------------------------------------

static void bind_outputs(struct model *m, rknn_query_cmd query, int type, int format)
{
    rknn_tensor_attr *attrs = conformance_attrs(m->c, query);
    for (uint32_t i = 0; i < m->n.n_output; i++) {
        rknn_tensor_attr a = attrs[i];
        a.type = type < 0 ? a.type : (rknn_tensor_type)type;
        a.fmt = format < 0 ? a.fmt : (rknn_tensor_format)format;
        if (!m->out[i])
            m->out[i] = rknn_create_mem(m->c, 8 * a.n_elems);
        NEED(m->out[i]);
        EXPECT_OK(rknn_set_io_mem(m->c, m->out[i], &a));
        memset(m->out[i]->virt_addr, 0xa5, m->out[i]->size);
    }
    free(attrs);
}

// Where NCHW element `i` lies in a form.
static size_t place(const rknn_tensor_attr *nchw, rknn_tensor_format f, uint32_t c2, size_t i)
{
    size_t channels = nchw->dims[1], h = nchw->dims[2], w = nchw->dims[3], plane = h * w;
    size_t pixel = i % plane, c = i / plane % channels, n = i / plane / channels;
    if (f == RKNN_TENSOR_NHWC)
        return (n * plane + pixel) * channels + c;
    if (f == RKNN_TENSOR_NC1HWC2)
        return ((n * ((channels + c2 - 1) / c2) + c / c2) * plane + pixel) * c2 + c % c2;
    return i;
}

static void expect_output(const struct model *m, uint32_t i, rknn_tensor_format f, uint32_t c2,
                          const void *wanted, size_t element)
{
    const rknn_tensor_attr *a = &m->outputs[i];
    const uint8_t *got = m->out[i]->virt_addr, *all = wanted;
    size_t wrong = 0;
    for (size_t k = 0; k < a->n_elems; k++) {
        size_t at = a->n_dims == 4 ? place(a, f, c2, k) : k;
        wrong += memcmp(got + at * element, all + k * element, element) != 0;
    }
    EXPECT_CMP(wrong, ==, 0);
}

static void expect_outputs(const struct model *m, rknn_query_cmd query, bool real,
                           rknn_tensor_format f)
{
    rknn_tensor_attr *attrs = conformance_attrs(m->c, query);
    for (uint32_t i = 0; i < m->n.n_output; i++) {
        uint32_t c2 = attrs[i].fmt == RKNN_TENSOR_NC1HWC2 ? attrs[i].dims[4] : 1;
        size_t element = real ? 4 : m->outputs[i].size / m->outputs[i].n_elems;
        expect_output(m, i, f, c2, real ? m->real[i].buf : m->stored[i].buf, element);
    }
    free(attrs);
}

// Native, channels last, planes; stored and as float32. Only `type` and `fmt` are changed.
static void every_output_form(struct model *m)
{
    const rknn_query_cmd native = RKNN_QUERY_NATIVE_OUTPUT_ATTR;
    bind_outputs(m, native, -1, -1);
    EXPECT_OK(rknn_run(m->c, NULL));
    expect_outputs(m, native, false, RKNN_TENSOR_NC1HWC2);
    bind_outputs(m, native, RKNN_TENSOR_FLOAT32, -1);
    EXPECT_OK(rknn_run(m->c, NULL));
    expect_outputs(m, native, true, RKNN_TENSOR_NC1HWC2);
    bind_outputs(m, RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR, -1, -1);
    EXPECT_OK(rknn_run(m->c, NULL));
    expect_outputs(m, native, false, RKNN_TENSOR_NHWC);
    bind_outputs(m, RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR, RKNN_TENSOR_FLOAT32, -1);
    EXPECT_OK(rknn_run(m->c, NULL));
    expect_outputs(m, native, true, RKNN_TENSOR_NHWC);
    bind_outputs(m, RKNN_QUERY_OUTPUT_ATTR, -1, -1);
    EXPECT_OK(rknn_run(m->c, NULL));
    expect_outputs(m, native, false, RKNN_TENSOR_NCHW);
    bind_outputs(m, RKNN_QUERY_OUTPUT_ATTR, RKNN_TENSOR_FLOAT32, RKNN_TENSOR_NCHW);
    EXPECT_OK(rknn_run(m->c, NULL));
    expect_outputs(m, native, true, RKNN_TENSOR_NCHW);
}

// ---- what programs do with it ------------------------------------------------------------------

// A new picture in the same memory, nothing called in between but rknn_run: the run sees it.
static void what_is_written_is_seen(struct model *m)
{
    bind_outputs(m, RKNN_QUERY_OUTPUT_ATTR, -1, -1);
    EXPECT_OK(rknn_run(m->c, NULL));
    for (uint32_t i = 0; i < m->n.n_input; i++)
        memset(m->in[i]->virt_addr, 0, m->in[i]->size);
    EXPECT_OK(rknn_run(m->c, NULL));
    EXPECT_CMP(memcmp(m->out[0]->virt_addr, m->stored[0].buf, m->stored[0].size), !=, 0);
    for (uint32_t i = 0; i < m->n.n_input; i++)
        fill_input(m, i, &m->inputs[i]);
    EXPECT_OK(rknn_mem_sync(m->c, m->in[0], RKNN_MEMORY_SYNC_TO_DEVICE));
    EXPECT_OK(rknn_run(m->c, NULL));
    EXPECT_OK(rknn_mem_sync(m->c, m->out[0], RKNN_MEMORY_SYNC_FROM_DEVICE));
    expect_outputs(m, RKNN_QUERY_NATIVE_OUTPUT_ATTR, false, RKNN_TENSOR_NCHW);
}

// Outputs without memory still come by rknn_outputs_get, and what was set last counts.
static void the_plain_way_comes_back(struct model *m)
{
    rknn_output bound = {.index = 0};
    EXPECT_CODE(RKNN_ERR_OUTPUT_INVALID, rknn_outputs_get(m->c, 1, &bound, NULL));
    bind_outputs(m, RKNN_QUERY_OUTPUT_ATTR, -1, -1);
    conformance_set_inputs(m->c, m->name);
    EXPECT_OK(rknn_run(m->c, NULL));
    expect_outputs(m, RKNN_QUERY_NATIVE_OUTPUT_ATTR, false, RKNN_TENSOR_NCHW);
}

static void run_model(const char *name)
{
    struct model m = open_model(name);
    printf("%s\n", name);
    bind_inputs(&m, 0);
    every_output_form(&m);
    what_is_written_is_seen(&m);
    bind_inputs(&m, 5);
    every_output_form(&m);
    bind_inputs(&m, 0);
    the_plain_way_comes_back(&m);
    close_model(&m);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    run_model("conv");
    run_model("residual");
    run_model("float16");
    run_model("two_inputs");
    return conformance_finish();
}
