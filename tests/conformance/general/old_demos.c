// As the SDK's demos up to 1.5 do it: the arrays are zeroed, and of an output want_float alone is
// set (with memory of the program's own also is_prealloc, buf and size), so that every index is 0;
// inputs have the size that the query says. The manuals' own examples number the outputs.
#include <sys/mman.h>
#include <unistd.h>

#include "../conformance.h"

#define NAME "three_outputs"
#define N    3

// What the model gives, got by index.
static struct {
    rknn_tensor_attr *attrs;
    uint8_t *stored[N];
    float *real[N];
} expected;

static void *copy(const void *data, size_t size)
{
    void *made = malloc(size);
    NEED(made);
    return memcpy(made, data, size);
}

static void get_expected(rknn_context c)
{
    expected.attrs = conformance_attrs(c, RKNN_QUERY_OUTPUT_ATTR);
    NEED_CMP(conformance_count(c).n_output, ==, N);
    for (uint32_t i = 0; i < N; i++) {
        rknn_output stored = {.index = i}, real = {.index = i, .want_float = 1};
        NEED_OK(rknn_outputs_get(c, 1, &stored, NULL));
        NEED_OK(rknn_outputs_get(c, 1, &real, NULL));
        conformance_compare(&expected.attrs[i], NAME, i, stored.buf, stored.size);
        expected.stored[i] = copy(stored.buf, stored.size);
        expected.real[i] = copy(real.buf, real.size);
        EXPECT_OK(rknn_outputs_release(c, 1, &stored));
        EXPECT_OK(rknn_outputs_release(c, 1, &real));
    }
}

static uint32_t size_of(uint32_t i, bool real)
{
    return real ? expected.attrs[i].n_elems * (uint32_t)sizeof(float) : expected.attrs[i].size;
}

static void expect_output(const rknn_output *o, uint32_t i)
{
    const void *wanted = o->want_float ? (void *)expected.real[i] : (void *)expected.stored[i];
    EXPECT_CMP(o->index, ==, i);
    if (EXPECT(o->buf) && EXPECT_CMP(o->size, >=, size_of(i, o->want_float)))
        EXPECT_MEMORY(o->buf, wanted, size_of(i, o->want_float));
}

// ---- outputs -----------------------------------------------------------------------------------

static void start(rknn_context c)
{
    conformance_set_inputs(c, NAME);
    EXPECT_OK(rknn_run(c, NULL));
}

// yolov5 (quantized), ssd (float), and both in one call.
static void get_all(rknn_context c, unsigned floats)
{
    rknn_output outputs[N];
    memset(outputs, 0, sizeof outputs);
    for (unsigned i = 0; i < N; i++)
        outputs[i].want_float = floats >> i & 1;
    start(c);
    if (!EXPECT_OK(rknn_outputs_get(c, N, outputs, NULL)))
        return;
    for (uint32_t i = 0; i < N; i++)
        expect_output(&outputs[i], i);
    EXPECT_OK(rknn_outputs_release(c, N, outputs));
}

// The array is filled once and used for every frame of a video.
static void get_in_a_loop(rknn_context c)
{
    rknn_output outputs[N];
    memset(outputs, 0, sizeof outputs);
    for (int frame = 0; frame < 4; frame++) {
        start(c);
        NEED_OK(rknn_outputs_get(c, N, outputs, NULL));
        for (uint32_t i = 0; i < N; i++)
            expect_output(&outputs[i], i);
        EXPECT_OK(rknn_outputs_release(c, N, outputs));
    }
}

// Each buffer has the size of its own output, and nothing is written behind it.
static void get_into_own_memory(rknn_context c, unsigned floats, uint32_t n)
{
    rknn_output outputs[N];
    memset(outputs, 0, sizeof outputs);
    for (uint32_t i = 0; i < n; i++) {
        outputs[i].want_float = floats >> i & 1;
        outputs[i].is_prealloc = 1;
        outputs[i].size = size_of(i, outputs[i].want_float);
        outputs[i].buf = calloc(1, outputs[i].size + 1);
        NEED(outputs[i].buf);
        ((uint8_t *)outputs[i].buf)[outputs[i].size] = 77;
    }
    start(c);
    EXPECT_OK(rknn_outputs_get(c, n, outputs, NULL));
    for (uint32_t i = 0; i < n; i++) {
        expect_output(&outputs[i], i);
        EXPECT_CMP(((uint8_t *)outputs[i].buf)[size_of(i, outputs[i].want_float)], ==, 77);
    }
    EXPECT_OK(rknn_outputs_release(c, n, outputs));
    for (uint32_t i = 0; i < n; i++)
        free(outputs[i].buf);
}

// Numbers that name each output once are taken as they are; others that repeat, too, mean the
// order.
static void get_by_number(rknn_context c, uint32_t n, const uint32_t *given, const uint32_t *meant)
{
    rknn_output outputs[N];
    memset(outputs, 0, sizeof outputs);
    for (uint32_t i = 0; i < n; i++)
        outputs[i].index = given[i];
    start(c);
    NEED_OK(rknn_outputs_get(c, n, outputs, NULL));
    for (uint32_t i = 0; i < n; i++)
        expect_output(&outputs[i], meant[i]);
    EXPECT_OK(rknn_outputs_release(c, n, outputs));
}

static void get_by_numbers(rknn_context c)
{
    static const struct {
        uint32_t n, given[N], meant[N];
    } cases[] = {
        {1, {0}, {0}},
        {1, {2}, {2}},
        {2, {0, 0}, {0, 1}},
        {2, {0, 1}, {0, 1}},
        {2, {2, 0}, {2, 0}},
        {2, {2, 2}, {0, 1}},
        {3, {2, 1, 0}, {2, 1, 0}},
        {3, {1, 2, 0}, {1, 2, 0}},
        {3, {1, 1, 1}, {0, 1, 2}},
        {3, {0, 2, 0}, {0, 1, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        get_by_number(c, cases[i].n, cases[i].given, cases[i].meant);
}

// A failure says which output it was, by its own number, and leaves the array as it was.
static void get_wrong(rknn_context c)
{
    rknn_output outputs[N];
    memset(outputs, 0, sizeof outputs);
    uint8_t small[8];
    outputs[1] = (rknn_output){.is_prealloc = 1, .buf = small, .size = sizeof small};
    start(c);
    EXPECT_REFUSED(RKNN_ERR_OUTPUT_INVALID, "output 1", rknn_outputs_get(c, N, outputs, NULL));
    EXPECT(!outputs[0].buf);
    EXPECT_CMP(outputs[1].buf, ==, small);
    EXPECT(!outputs[2].buf);
    outputs[1].buf = NULL;
    EXPECT_REFUSED(RKNN_ERR_OUTPUT_INVALID, "output 1", rknn_outputs_get(c, N, outputs, NULL));
    for (int i = 0; i < N; i++) {
        EXPECT_CMP(outputs[i].index, ==, 0);
        EXPECT(!outputs[i].buf);
    }
    outputs[1] = (rknn_output){.index = 0};
    outputs[2].index = N;
    EXPECT_REFUSED(RKNN_ERR_OUTPUT_INVALID, "output 3", rknn_outputs_get(c, N, outputs, NULL));
    outputs[2].index = 0;
    NEED_OK(rknn_outputs_get(c, N, outputs, NULL)); // they are still there
    for (uint32_t i = 0; i < N; i++)
        expect_output(&outputs[i], i);
    EXPECT_OK(rknn_outputs_release(c, N, outputs));
}

// RKNN_FLAG_ASYNC_MASK, and rknn_run() that does not wait.
static void get_later(void)
{
    rknn_context c = conformance_open(NAME ".rknn", RKNN_FLAG_ASYNC_MASK);
    rknn_output outputs[N];
    memset(outputs, 0, sizeof outputs);
    conformance_set_inputs(c, NAME);
    for (int frame = 0; frame < 3; frame++) {
        rknn_run_extend extend = {.non_block = 1};
        EXPECT_OK(rknn_run(c, frame == 2 ? &extend : NULL));
        NEED_OK(rknn_outputs_get(c, N, outputs, NULL));
        for (uint32_t i = 0; i < N; i++)
            expect_output(&outputs[i], i);
        EXPECT_OK(rknn_outputs_release(c, N, outputs));
    }
    EXPECT_OK(rknn_destroy(c));
}

// ---- inputs ------------------------------------------------------------------------------------

// Memory that ends with `size` bytes: whoever reads on is ended.
static void *at_the_end(const void *data, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
    uint8_t *memory =
        mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED_CMP(memory, !=, MAP_FAILED);
    NEED_CMP(mprotect(memory + whole, page, PROT_NONE), ==, 0);
    return memcpy(memory + whole - size, data, size);
}

static void set_and_run(rknn_context c, rknn_tensor_type type, void *buf, size_t size)
{
    rknn_input in = {.buf = buf, .size = (uint32_t)size, .type = type, .fmt = RKNN_TENSOR_NHWC};
    EXPECT_OK(rknn_inputs_set(c, 1, &in));
    EXPECT_OK(rknn_run(c, NULL));
}

// The size is that of the query, of an fp16 model twice what its uint8 picture has; or it is larger
// still. What is smaller is refused.
static void set_queried_size(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s.rknn", name);
    rknn_context c = conformance_open(path, 0);
    rknn_tensor_attr *a = conformance_attrs(c, RKNN_QUERY_INPUT_ATTR);
    rknn_output real = {.want_float = 1}, byte = {.want_float = 1};
    uint32_t n = a->n_elems;
    uint8_t *bytes = malloc(n);
    float *floats = malloc(n * sizeof *floats);
    NEED(bytes);
    NEED(floats);
    for (uint32_t i = 0; i < n; i++)
        floats[i] = bytes[i] = (uint8_t)(i * 37);
    void *bytes_alone = at_the_end(bytes, n),
         *floats_alone = at_the_end(floats, n * sizeof *floats);
    set_and_run(c, RKNN_TENSOR_FLOAT32, floats_alone, n * sizeof *floats + 1000);
    NEED_OK(rknn_outputs_get(c, 1, &real, NULL));
    for (uint32_t more = 0; more <= 1000; more += 500) {
        set_and_run(c, RKNN_TENSOR_UINT8, bytes_alone, a->size + more);
        NEED_OK(rknn_outputs_get(c, 1, &byte, NULL));
        if (EXPECT_CMP(byte.size, ==, real.size))
            EXPECT_MEMORY(byte.buf, real.buf, real.size);
        EXPECT_OK(rknn_outputs_release(c, 1, &byte));
    }
    rknn_input small = {
        .buf = bytes, .size = n - 1, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, ") < model input size(", rknn_inputs_set(c, 1, &small));
    EXPECT_OK(rknn_outputs_release(c, 1, &real));
    EXPECT_OK(rknn_destroy(c));
    free(bytes);
    free(floats);
    free(a);
}

// What passes through has the native form's size; of more, the rest is not looked at.
static void pass_through(void)
{
    rknn_context c = conformance_open(NAME ".rknn", 0);
    rknn_tensor_attr a = {0};
    NEED_OK(rknn_query(c, RKNN_QUERY_NATIVE_INPUT_ATTR, &a, sizeof a));
    uint8_t *zeros = calloc(1, a.size_with_stride);
    rknn_output exact[N], larger[N];
    memset(exact, 0, sizeof exact);
    memset(larger, 0, sizeof larger);
    rknn_input in = {.buf = zeros, .size = a.size_with_stride, .pass_through = 1};
    NEED(zeros);
    EXPECT_OK(rknn_inputs_set(c, 1, &in));
    EXPECT_OK(rknn_run(c, NULL));
    NEED_OK(rknn_outputs_get(c, N, exact, NULL));
    in.buf = at_the_end(zeros, a.size_with_stride);
    in.size = a.size_with_stride + 1000;
    EXPECT_OK(rknn_inputs_set(c, 1, &in));
    EXPECT_OK(rknn_run(c, NULL));
    NEED_OK(rknn_outputs_get(c, N, larger, NULL));
    for (uint32_t i = 0; i < N; i++)
        EXPECT_MEMORY(exact[i].buf, larger[i].buf, exact[i].size);
    EXPECT_OK(rknn_outputs_release(c, N, exact));
    EXPECT_OK(rknn_outputs_release(c, N, larger));
    EXPECT_OK(rknn_destroy(c));
    free(zeros);
}

// The same pixels in rows that are padded to the pitch, and in contiguous ones.
static void pass_rows_through(void)
{
    rknn_context c = conformance_open("conv.rknn", 0);
    rknn_tensor_attr a = {0};
    NEED_OK(rknn_query(c, RKNN_QUERY_NATIVE_INPUT_ATTR, &a, sizeof a));
    NEED_CMP(a.n_dims, ==, 4);
    NEED_CMP(a.fmt, ==, RKNN_TENSOR_NHWC);
    NEED_CMP(a.w_stride, >, a.dims[2]);
    uint32_t row = a.dims[2] * a.dims[3];
    uint8_t *rows = calloc(1, a.size), *padded = calloc(1, a.size_with_stride);
    rknn_output of_rows = {0}, of_padded = {0};
    NEED(rows);
    NEED(padded);
    for (uint32_t i = 0; i < a.size; i++)
        rows[i] = (uint8_t)(i * 37);
    for (uint32_t y = 0; y < a.dims[1]; y++)
        memcpy(padded + y * a.w_stride * a.dims[3], rows + y * row, row);
    rknn_input in = {.buf = rows, .size = a.size, .pass_through = 1};
    EXPECT_OK(rknn_inputs_set(c, 1, &in));
    EXPECT_OK(rknn_run(c, NULL));
    NEED_OK(rknn_outputs_get(c, 1, &of_rows, NULL));
    in.buf = padded;
    in.size = a.size_with_stride;
    EXPECT_OK(rknn_inputs_set(c, 1, &in));
    EXPECT_OK(rknn_run(c, NULL));
    NEED_OK(rknn_outputs_get(c, 1, &of_padded, NULL));
    EXPECT_MEMORY(of_rows.buf, of_padded.buf, of_rows.size);
    EXPECT_OK(rknn_outputs_release(c, 1, &of_rows));
    EXPECT_OK(rknn_outputs_release(c, 1, &of_padded));
    EXPECT_OK(rknn_destroy(c));
    free(rows);
    free(padded);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    rknn_context c = conformance_open(NAME ".rknn", 0);
    start(c);
    get_expected(c);
    for (unsigned floats = 0; floats < 1u << N; floats++) {
        get_all(c, floats);
        get_into_own_memory(c, floats, N);
        get_into_own_memory(c, floats, 2);
    }
    get_in_a_loop(c);
    get_by_numbers(c);
    get_wrong(c);
    get_later();
    EXPECT_OK(rknn_destroy(c));
    set_queried_size("conv");
    set_queried_size("float16");
    pass_through();
    pass_rows_through();
    for (int i = 0; i < N; i++) {
        free(expected.stored[i]);
        free(expected.real[i]);
    }
    free(expected.attrs);
    return conformance_finish();
}
