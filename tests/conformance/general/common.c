// As the SDK's common test: queries, inputs, a number of runs, outputs as they are and as float32,
// the five largest.
#include <math.h>

#include "../conformance.h"

#define N_LOOPS 5

static void expect_attrs(const rknn_tensor_attr *attrs, uint32_t n, rknn_tensor_format four)
{
    for (uint32_t i = 0; i < n; i++) {
        const rknn_tensor_attr *a = &attrs[i];
        uint32_t n_elems = 1;
        for (uint32_t d = 0; d < a->n_dims; d++)
            n_elems *= a->dims[d];
        EXPECT_CMP(a->index, ==, i);
        EXPECT(a->name[0]);
        EXPECT_CMP(a->n_elems, ==, n_elems);
        EXPECT_CMP(a->size, >=, a->n_elems);
        EXPECT_CMP(a->size_with_stride, >=, a->size);
        EXPECT_CMP(a->fmt, ==, (a->n_dims == 4 ? four : RKNN_TENSOR_UNDEFINED));
        EXPECT_CMP(a->qnt_type, ==, RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC);
        EXPECT(a->type != RKNN_TENSOR_FLOAT16 || (a->zp == 0 && a->scale == 1));
    }
}

// Float32 is what the stored values stand for.
static void expect_floats(rknn_context c, const rknn_tensor_attr *attrs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const rknn_tensor_attr *a = &attrs[i];
        rknn_output stored = {.index = i}, real = {.index = i, .want_float = 1};
        size_t count, wrong = 0;
        NEED_OK(rknn_outputs_get(c, 1, &stored, NULL));
        NEED_OK(rknn_outputs_get(c, 1, &real, NULL));
        EXPECT_CMP(stored.size, ==, a->size);
        EXPECT_CMP(real.size, ==, a->n_elems * sizeof(float));
        double *numbers = conformance_numbers(a->type, stored.buf, stored.size, &count);
        for (size_t k = 0; k < count; k++) {
            double expected = (numbers[k] - a->zp) * (double)a->scale;
            double got = (double)((const float *)real.buf)[k];
            wrong += !(fabs(got - expected) <= 1e-6 * fabs(expected));
        }
        EXPECT_CMP(wrong, ==, 0);
        free(numbers);
        EXPECT_OK(rknn_outputs_release(c, 1, &stored));
        EXPECT_OK(rknn_outputs_release(c, 1, &real));
    }
}

static void print_top5(const rknn_output *o)
{
    const float *values = o->buf;
    uint32_t n = o->size / (uint32_t)sizeof(float), used[5];
    for (uint32_t rank = 0; rank < 5 && rank < n; rank++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < n; i++) {
            bool taken = false;
            for (uint32_t k = 0; k < rank; k++)
                taken |= used[k] == i;
            if (!taken && (best == UINT32_MAX || values[i] > values[best]))
                best = i;
        }
        used[rank] = best;
        printf("  %u: %f\n", best, (double)values[best]);
    }
}

static void run_model(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s.rknn", name);
    rknn_context c = conformance_open(path, 0);
    rknn_sdk_version version;
    EXPECT_OK(rknn_query(c, RKNN_QUERY_SDK_VERSION, &version, sizeof version));
    EXPECT(version.api_version[0]);
    EXPECT(version.drv_version[0]);
    rknn_input_output_num n = conformance_count(c);
    rknn_tensor_attr *inputs = conformance_attrs(c, RKNN_QUERY_INPUT_ATTR);
    rknn_tensor_attr *outputs = conformance_attrs(c, RKNN_QUERY_OUTPUT_ATTR);
    expect_attrs(inputs, n.n_input, RKNN_TENSOR_NHWC);
    expect_attrs(outputs, n.n_output, RKNN_TENSOR_NCHW);
    conformance_set_inputs(c, name);
    for (int i = 0; i < N_LOOPS; i++) {
        EXPECT_OK(rknn_run(c, NULL));
        conformance_expect_outputs(c, name);
    }
    expect_floats(c, outputs, n.n_output);
    rknn_output first = {.want_float = 1};
    NEED_OK(rknn_outputs_get(c, 1, &first, NULL));
    printf("%s:\n", name);
    print_top5(&first);
    EXPECT_OK(rknn_outputs_release(c, 1, &first));
    free(inputs);
    free(outputs);
    EXPECT_OK(rknn_destroy(c));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    run_model("conv");
    run_model("residual");
    run_model("float16");
    run_model("two_inputs");
    run_model("batch");
    return conformance_finish();
}
