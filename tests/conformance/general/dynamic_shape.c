// As the SDK's dynamic shape example with rknn_inputs_set: every shape of the list in turn.
#include "../conformance.h"

#define PICTURE_ROWS      "shape data=1x3x12x10,1x3x6x10,1x3x20x16"
#define VECTOR_SHAPE_SETS "shape a=1x224,1x112,1x224\nshape b=1x40,1x80,1x80"
#define N_ROWS            3
#define LARGEST           2

static rknn_input_range *ranges(rknn_context c, uint32_t n)
{
    rknn_input_range *r = calloc(n, sizeof *r);
    NEED(r);
    for (uint32_t i = 0; i < n; i++) {
        r[i].index = i;
        NEED_OK(rknn_query(c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &r[i], sizeof r[i]));
        EXPECT_CMP(r[i].index, ==, i);
        EXPECT_CMP(r[i].shape_number, ==, N_ROWS);
        EXPECT(r[i].name[0]);
        EXPECT_CMP(r[i].fmt, ==, (r[i].n_dims == 4 ? RKNN_TENSOR_NHWC : RKNN_TENSOR_UNDEFINED));
    }
    return r;
}

static void fill(rknn_tensor_attr *a, const rknn_input_range *r, uint32_t shape_set)
{
    *a = (rknn_tensor_attr){.index = r->index, .n_dims = r->n_dims, .fmt = r->fmt};
    memcpy(a->name, r->name, sizeof a->name);
    memcpy(a->dims, r->dyn_range[shape_set], sizeof a->dims);
}

static void expect_current(rknn_context c, const rknn_input_range *r, uint32_t n,
                           uint32_t shape_set)
{
    rknn_tensor_attr *inputs = conformance_attrs(c, RKNN_QUERY_CURRENT_INPUT_ATTR);
    rknn_tensor_attr *native = conformance_attrs(c, RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR);
    rknn_tensor_attr *native_out = conformance_attrs(c, RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR);
    for (uint32_t i = 0; i < n; i++) {
        EXPECT_CMP(inputs[i].n_dims, ==, r[i].n_dims);
        EXPECT_MEMORY(inputs[i].dims, r[i].dyn_range[shape_set], sizeof inputs[i].dims);
        EXPECT_CMP(native[i].size_with_stride, >=, inputs[i].n_elems);
    }
    EXPECT_CMP(native_out[0].n_dims, >, 0);
    free(inputs);
    free(native);
    free(native_out);
}

static void run_shape_set(rknn_context c, const char *name, const rknn_input_range *r, uint32_t n,
                          uint32_t shape_set)
{
    char files[64];
    rknn_tensor_attr attrs[2];
    for (uint32_t i = 0; i < n; i++)
        fill(&attrs[i], &r[i], shape_set);
    NEED_OK(rknn_set_input_shapes(c, n, attrs));
    expect_current(c, r, n, shape_set);
    snprintf(files, sizeof files, "%s.set%u", name, shape_set);
    conformance_set_inputs(c, files);
    for (int i = 0; i < 2; i++) {
        NEED_OK(rknn_run(c, NULL));
        conformance_expect_current_outputs(c, files);
    }
}

// The attributes that a program makes its memory by are those of the largest shapes.
static void expect_largest(rknn_context c, const rknn_input_range *r)
{
    rknn_tensor_attr *a = conformance_attrs(c, RKNN_QUERY_INPUT_ATTR);
    EXPECT_MEMORY(a[0].dims, r[0].dyn_range[LARGEST], sizeof a[0].dims);
    free(a);
}

static void run_model(const char *name, const char *shape_sets)
{
    static const uint32_t order[] = {0, 1, 2, 1, 1, 0};
    rknn_context c = conformance_open_shape_sets(name, shape_sets, 0);
    uint32_t n = conformance_count(c).n_input;
    rknn_input_range *r = ranges(c, n);
    expect_largest(c, r);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        run_shape_set(c, name, r, n, order[i]);
        expect_largest(c, r);
    }
    free(r);
    EXPECT_OK(rknn_destroy(c));
}

// Shapes that are no shape set, and what else a program may get wrong.
static void misuse(void)
{
    rknn_context c = conformance_open_shape_sets("dynamic_vectors", VECTOR_SHAPE_SETS, 0), copy;
    rknn_input_range *r = ranges(c, 2);
    rknn_tensor_attr a[2];
    fill(&a[0], &r[0], 0);
    fill(&a[1], &r[1], 0);
    EXPECT_OK(rknn_set_input_shapes(c, 2, a));
    conformance_set_inputs(c, "dynamic_vectors.set0");
    EXPECT_OK(rknn_run(c, NULL));

    a[0].dims[1] = 112; // of shape set 1, while b has its shape of shape set 0
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_input_shapes(c, 2, a));
    a[0].dims[1] = 225;
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_input_shapes(c, 2, a));
    fill(&a[0], &r[0], 1);
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_input_shapes(c, 1, a));
    a[0].fmt = RKNN_TENSOR_NHWC;
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_input_shapes(c, 2, a));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_input_shapes(c, 2, NULL));
    conformance_expect_current_outputs(c, "dynamic_vectors.set0");
    EXPECT_OK(rknn_run(c, NULL)); // nothing has changed

    fill(&a[0], &r[0], 1);
    fill(&a[1], &r[1], 1);
    EXPECT_OK(rknn_set_input_shapes(c, 2, a));
    EXPECT_CODE(RKNN_ERR_INPUT_INVALID, rknn_run(c, NULL)); // its inputs were of other shapes
    EXPECT_CMP(rknn_dup_context(&c, &copy), <, 0);
    EXPECT_OK(rknn_destroy(c));

    rknn_context fixed = conformance_open("conv.rknn", 0);
    EXPECT_CMP(rknn_query(fixed, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &r[0], sizeof r[0]), <, 0);
    EXPECT_OK(rknn_destroy(fixed));
    free(r);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    run_model("dynamic_picture", PICTURE_ROWS);
    run_model("dynamic_vectors", VECTOR_SHAPE_SETS);
    misuse();
    return conformance_finish();
}
