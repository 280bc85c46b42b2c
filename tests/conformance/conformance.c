// The frame of the conformance programs.
#include "conformance.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>

#define SKIPPED 77 // exit code that ctest and automake know

static const char *folder;
static atomic_uint n_checks, n_failed;

void conformance_start(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER-OF-MODELS\n", argv[0]);
        exit(2);
    }
    folder = argv[1];
}

int conformance_finish(void)
{
    printf("%u checks, %u failed\n", n_checks, n_failed);
    return n_checks == 0 || n_failed > 0;
}

void conformance_skip(const char *why)
{
    printf("skipped: %s\n", why);
    exit(n_failed ? conformance_finish() : SKIPPED);
}

bool conformance_check(bool good, const char *file, int line, const char *format, ...)
{
    char words[512];
    va_list args;
    n_checks++;
    if (good)
        return true;
    n_failed++;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    fprintf(stderr, "%s:%d: %s\n", file, line, words);
    return false;
}

bool conformance_compare_values(struct scalar got, const char *op, struct scalar expected,
                                const char *expression, const char *file, int line)
{
    return conformance_check(scalar_holds(got, op, expected), file, line, "%s: got %s, %s",
                             expression, scalar_text(got).text, scalar_expected(op, expected).text);
}

bool conformance_compare_strings(const char *got, const char *expected, const char *expression,
                                 const char *file, int line)
{
    return conformance_check(strcmp(got, expected) == 0, file, line,
                             "%s: got \"%s\", expected \"%s\"", expression, got, expected);
}

bool conformance_compare_memory(const void *got, const void *expected, size_t size,
                                const char *expression, const char *file, int line)
{
    const uint8_t *a = got, *b = expected;
    size_t at = 0;
    while (at < size && a[at] == b[at])
        at++;
    return conformance_check(at == size, file, line,
                             "%s: got 0x%02x, expected 0x%02x, in byte %zu of %zu", expression,
                             at < size ? a[at] : 0, at < size ? b[at] : 0, at, size);
}

void conformance_expect_words(const char *file, int line, const char *word)
{
    const char *words = conformance_words();
    if (words)
        conformance_check(strstr(words, word), file, line, "\"%s\" does not say \"%s\"", words,
                          word);
}

// ---- what another library does not say ---------------------------------------------------------

__attribute__((weak)) const char *conformance_words(void)
{
    return NULL;
}

__attribute__((weak)) uint32_t conformance_cores(rknn_context c)
{
    (void)c;
    return 0;
}

__attribute__((weak)) rknn_context
conformance_open_shape_sets(const char *name, const char *shape_sets, uint32_t flags)
{
    (void)shape_sets, (void)flags;
    fprintf(stderr, "%s.onnx is for rknnd: convert it with dynamic_input\n", name);
    conformance_skip("no model of dynamic shapes");
}

// ---- files -------------------------------------------------------------------------------------

void *conformance_file(size_t *ret_size, const char *name, ...)
{
    char path[4096];
    va_list args;
    int n = snprintf(path, sizeof path, "%s/", folder);
    va_start(args, name);
    vsnprintf(path + n, sizeof path - (size_t)n, name, args);
    va_end(args);
    FILE *f = fopen(path, "rb");
    if (!f)
        fprintf(stderr, "%s is missing\n", path);
    NEED(f);
    NEED_CMP(fseek(f, 0, SEEK_END), ==, 0);
    long size = ftell(f);
    char *data = malloc((size_t)size + 1);
    NEED(data);
    NEED_CMP(fseek(f, 0, SEEK_SET), ==, 0);
    NEED_CMP(fread(data, 1, (size_t)size, f), ==, (size_t)size);
    fclose(f);
    *ret_size = (size_t)size;
    return data;
}

rknn_context conformance_open(const char *name, uint32_t flags)
{
    rknn_context c = 0;
    size_t size;
    void *model = conformance_file(&size, "%s", name);
    int r = rknn_init(&c, model, (uint32_t)size, flags, NULL);
    free(model);
    if (r == RKNN_ERR_TARGET_PLATFORM_UNMATCH)
        conformance_skip("the model is for another chip");
    NEED_OK(r);
    return c;
}

// ---- tensors -----------------------------------------------------------------------------------

rknn_input_output_num conformance_count(rknn_context c)
{
    rknn_input_output_num n = {0};
    NEED_OK(rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n));
    return n;
}

static bool is_of_outputs(rknn_query_cmd q)
{
    return q == RKNN_QUERY_OUTPUT_ATTR || q == RKNN_QUERY_NATIVE_OUTPUT_ATTR ||
           q == RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR || q == RKNN_QUERY_CURRENT_OUTPUT_ATTR ||
           q == RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR;
}

rknn_tensor_attr *conformance_attrs(rknn_context c, rknn_query_cmd query)
{
    rknn_input_output_num count = conformance_count(c);
    uint32_t n = is_of_outputs(query) ? count.n_output : count.n_input;
    rknn_tensor_attr *attrs = calloc(n, sizeof *attrs);
    NEED(attrs);
    for (uint32_t i = 0; i < n; i++) {
        attrs[i].index = i;
        NEED_OK(rknn_query(c, query, &attrs[i], sizeof attrs[i]));
    }
    return attrs;
}

void conformance_set_inputs(rknn_context c, const char *name)
{
    rknn_tensor_attr *attrs = conformance_attrs(c, RKNN_QUERY_INPUT_ATTR);
    uint32_t n = conformance_count(c).n_input;
    rknn_input *inputs = calloc(n, sizeof *inputs);
    NEED(inputs);
    for (uint32_t i = 0; i < n; i++) {
        size_t size;
        void *data = conformance_file(&size, "%s.in%u.bin", name, i);
        inputs[i] =
            (rknn_input){.index = i,
                         .buf = data,
                         .size = (uint32_t)size,
                         .type = size == attrs[i].n_elems ? RKNN_TENSOR_UINT8 : RKNN_TENSOR_FLOAT32,
                         .fmt = attrs[i].n_dims == 4 ? RKNN_TENSOR_NHWC : RKNN_TENSOR_UNDEFINED};
    }
    NEED_OK(rknn_inputs_set(c, n, inputs));
    for (uint32_t i = 0; i < n; i++)
        free(inputs[i].buf);
    free(inputs);
    free(attrs);
}

static double fp16_number(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 0    ? ldexp(fraction, -24)
               : exponent == 31 ? (fraction ? NAN : INFINITY)
                                : ldexp(fraction + 1024, exponent - 25);
    return h >> 15 ? -v : v;
}

double *conformance_numbers(rknn_tensor_type type, const void *values, size_t size, size_t *ret_n)
{
    size_t element = type == RKNN_TENSOR_FLOAT32   ? 4
                     : type == RKNN_TENSOR_FLOAT16 ? 2
                     : type == RKNN_TENSOR_INT64   ? 8
                                                   : 1;
    size_t n = size / element;
    double *numbers = malloc((n + 1) * sizeof *numbers);
    NEED(numbers);
    NEED(element > 1 || type == RKNN_TENSOR_INT8 || type == RKNN_TENSOR_UINT8);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = (const uint8_t *)values + i * element;
        float f;
        uint16_t h;
        int64_t l;
        memcpy(&f, at, element == 4 ? 4 : 0);
        memcpy(&h, at, element == 2 ? 2 : 0);
        memcpy(&l, at, element == 8 ? 8 : 0);
        numbers[i] = element == 4               ? (double)f
                     : element == 2             ? fp16_number(h)
                     : element == 8             ? (double)l
                     : type == RKNN_TENSOR_INT8 ? (double)*(const int8_t *)at
                                                : (double)*at;
    }
    *ret_n = n;
    return numbers;
}

static double largest(const double *v, size_t n)
{
    double m = 0;
    for (size_t i = 0; i < n; i++)
        m = fmax(m, fabs(v[i]));
    return m;
}

void conformance_compare(const rknn_tensor_attr *a, const char *name, uint32_t index,
                         const void *values, size_t size)
{
    size_t expected_size, n, n_expected, wrong = 0;
    void *file = conformance_file(&expected_size, "%s.out%u.bin", name, index);
    if (EXPECT_CMP(size, ==, expected_size)) {
        double *got = conformance_numbers(a->type, values, size, &n);
        double *expected = conformance_numbers(a->type, file, expected_size, &n_expected);
        bool real = a->type == RKNN_TENSOR_FLOAT16 || a->type == RKNN_TENSOR_FLOAT32;
        double allowed = real ? largest(expected, n) / 500 : 1;
        for (size_t i = 0; i < n; i++)
            wrong += !(fabs(got[i] - expected[i]) <= allowed);
        conformance_check(wrong == 0, __FILE__, __LINE__, "%s, output %u: %zu of %zu values differ",
                          name, index, wrong, n);
        free(got);
        free(expected);
    }
    free(file);
}

static void expect_outputs(rknn_context c, const char *name, rknn_query_cmd query)
{
    rknn_tensor_attr *attrs = conformance_attrs(c, query);
    uint32_t n = conformance_count(c).n_output;
    rknn_output *outputs = calloc(n, sizeof *outputs);
    NEED(outputs);
    for (uint32_t i = 0; i < n; i++)
        outputs[i].index = i;
    if (EXPECT_OK(rknn_outputs_get(c, n, outputs, NULL))) {
        for (uint32_t i = 0; i < n; i++)
            conformance_compare(&attrs[i], name, i, outputs[i].buf, outputs[i].size);
        EXPECT_OK(rknn_outputs_release(c, n, outputs));
    }
    free(outputs);
    free(attrs);
}

void conformance_expect_outputs(rknn_context c, const char *name)
{
    expect_outputs(c, name, RKNN_QUERY_OUTPUT_ATTR);
}

void conformance_expect_current_outputs(rknn_context c, const char *name)
{
    expect_outputs(c, name, RKNN_QUERY_CURRENT_OUTPUT_ATTR);
}
