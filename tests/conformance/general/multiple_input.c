// As the SDK's multiple input demo: inputs of different sizes, set together, one by one and anew.
#include "../conformance.h"

#define NAME "two_inputs"

static struct picture {
    void *data;
    size_t size;
    rknn_tensor_type type;
} pictures[2];

static rknn_input input(uint32_t i)
{
    return (rknn_input){.index = i,
                        .buf = pictures[i].data,
                        .size = (uint32_t)pictures[i].size,
                        .type = pictures[i].type,
                        .fmt = RKNN_TENSOR_NHWC};
}

static void load(void)
{
    for (uint32_t i = 0; i < 2; i++)
        pictures[i].data = conformance_file(&pictures[i].size, NAME ".in%u.bin", i);
    pictures[0].type = RKNN_TENSOR_UINT8;
    pictures[1].type = RKNN_TENSOR_FLOAT32;
}

static void run(rknn_context c)
{
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, NAME);
}

// The order in the array does not matter; index does. An input that is not set again keeps its
// value.
static void set_in_every_way(rknn_context c)
{
    rknn_input both[] = {input(1), input(0)}, first = input(0), second = input(1), zero = input(0);
    EXPECT_OK(rknn_inputs_set(c, 2, both));
    run(c);
    EXPECT_OK(rknn_inputs_set(c, 1, &second));
    run(c);
    zero.buf = calloc(1, zero.size);
    EXPECT_OK(rknn_inputs_set(c, 1, &zero));
    free(zero.buf);
    EXPECT_OK(rknn_inputs_set(c, 1, &first));
    run(c);
}

// One of two is not enough to run.
static void set_one(rknn_context c)
{
    rknn_input second = input(1), first = input(0);
    EXPECT_OK(rknn_inputs_set(c, 1, &second));
    EXPECT_CODE(RKNN_ERR_INPUT_INVALID, rknn_run(c, NULL));
    EXPECT_OK(rknn_inputs_set(c, 1, &first));
    run(c);
}

// Outputs one by one, in any order, into memory of the program and of the library, and again.
static void get_in_every_way(rknn_context c)
{
    rknn_tensor_attr *a = conformance_attrs(c, RKNN_QUERY_OUTPUT_ATTR);
    for (int i = 3; i >= 0; i--) {
        uint32_t index = (uint32_t)i % 2;
        rknn_output made = {.index = index};
        rknn_output given = {.index = index, .is_prealloc = 1, .size = a[index].size + 1};
        uint8_t *room = malloc(given.size);
        NEED(room);
        room[a[index].size] = 77;
        given.buf = room;
        EXPECT_OK(rknn_outputs_get(c, 1, &made, NULL));
        conformance_compare(&a[index], NAME, index, made.buf, made.size);
        EXPECT_OK(rknn_outputs_get(c, 1, &given, NULL));
        conformance_compare(&a[index], NAME, index, room, a[index].size);
        EXPECT_CMP(given.buf, ==, room);
        EXPECT_CMP(room[a[index].size], ==, 77);
        EXPECT_OK(rknn_outputs_release(c, 1, &given));
        EXPECT_OK(rknn_outputs_release(c, 1, &made));
        EXPECT_CMP(given.buf, ==, room);
        EXPECT(!made.buf);
        free(room);
    }
    free(a);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    load();
    rknn_context c = conformance_open(NAME ".rknn", 0), d;
    set_in_every_way(c);
    get_in_every_way(c);
    EXPECT_OK(rknn_dup_context(&c, &d));
    set_one(d);
    EXPECT_OK(rknn_destroy(c));
    run(d);
    EXPECT_OK(rknn_destroy(d));
    free(pictures[0].data);
    free(pictures[1].data);
    return conformance_finish();
}
