// Casts between stored types against one number after the other, in both orders of memory; indices
// that lie outside of what they choose from.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "tests/support/seed.h"
#include "tests/unit/sim/nodes/one_node.h"

#define MOST_INPUTS 3
#define CASES       40

static const enum tensor_type casts[] = {TENSOR_FLOAT32, TENSOR_BOOL,  TENSOR_UINT8,
                                         TENSOR_INT8,    TENSOR_INT32, TENSOR_INT64};
enum { N_CASTS = sizeof casts / sizeof *casts };

static void make_tensor(struct graph_tensor *t, enum tensor_type type, uint32_t n_dims,
                        const uint32_t *dims, bool channels_last)
{
    struct error e;
    *t = (struct graph_tensor){
        .name = "t", .type = type, .n_dims = n_dims, .channels_last = channels_last};
    memcpy(t->dims, dims, n_dims * sizeof *dims);
    assert_int_equal(graph_tensor_measure(t, &e), 0);
}

// ---- casts ----

union number {
    float f;
    uint8_t u8;
    int8_t i8;
    int32_t i32;
    int64_t i64;
    uint8_t bytes[8];
};

// Among others what is no integer, and what no integer is.
static union number any_number(enum tensor_type type)
{
    static const float floats[] = {NAN,      INFINITY, -INFINITY, 0x1p63f, -0x1p63f, 0x1p31f,
                                   -0x1p31f, 0x1p40f,  -0.9f,     255.5f,  -129.7f,  2147483520.f};
    static const int64_t wide[] = {INT64_MAX, INT64_MIN, (1LL << 53) + 1, (1LL << 54) + 3, 0};
    union number n = {.i64 = 0};
    if (type == TENSOR_FLOAT32)
        n.f = rand() % 8 == 0 ? floats[rand() % (int)(sizeof floats / sizeof *floats)]
                              : (float)(rand() % 200000 - 100000) / 97;
    else if (type == TENSOR_INT64 && rand() % 4 == 0)
        n.i64 = wide[rand() % 5];
    else
        for (size_t i = 0; i < tensor_type_size(type); i++)
            n.bytes[i] = (uint8_t)rand();
    return n;
}

static double real_of(enum tensor_type type, union number n)
{
    return type == TENSOR_FLOAT32 ? (double)n.f
           : type == TENSOR_BOOL  ? n.u8 != 0
           : type == TENSOR_UINT8 ? n.u8
           : type == TENSOR_INT8  ? n.i8
           : type == TENSOR_INT32 ? n.i32
                                  : (double)n.i64;
}

static int64_t whole_of(enum tensor_type type, union number n)
{
    if (type == TENSOR_INT64)
        return n.i64;
    double real = real_of(type, n);
    return isnan(real)      ? 0
           : real >= 0x1p63 ? INT64_MAX
           : real < -0x1p63 ? INT64_MIN
                            : (int64_t)real;
}

static bool cast_is_right(enum tensor_type from, union number x, enum tensor_type to,
                          union number y)
{
    if (to == TENSOR_FLOAT32) {
        float want = (float)real_of(from, x);
        return isnan(want) ? isnan(y.f) : memcmp(&want, &y.f, sizeof want) == 0;
    }
    const int64_t whole = whole_of(from, x);
    switch (to) {
    case TENSOR_BOOL:
        return y.u8 == (from == TENSOR_FLOAT32 ? isnan(x.f) || fabsf(x.f) > 0 : whole != 0);
    case TENSOR_INT32:
        return (uint32_t)y.i32 == (uint32_t)whole;
    case TENSOR_INT64:
        return y.i64 == whole;
    default:
        return y.u8 == (uint8_t)whole;
    }
}

// Where an element of an image lies, by its number with channels first.
static size_t place_of(const struct graph_tensor *t, size_t i)
{
    const size_t plane = (size_t)t->dims[2] * t->dims[3], image = i / plane / t->dims[1];
    const size_t channel = i / plane % t->dims[1], pixel = i % plane;
    return t->channels_last ? (image * plane + pixel) * t->dims[1] + channel : i;
}

static union number number_at(const struct graph_tensor *t, const uint8_t *data, size_t i)
{
    union number n = {.i64 = 0};
    const size_t size = tensor_type_size(t->type);
    memcpy(n.bytes, data + place_of(t, i) * size, size);
    return n;
}

static void check_cast(enum tensor_type from, enum tensor_type to)
{
    const uint32_t dims[] = {1 + (uint32_t)rand() % 2, 1 + (uint32_t)rand() % 20,
                             1 + (uint32_t)rand() % 9, 1 + (uint32_t)rand() % 150};
    struct graph_tensor tensors[2];
    struct graph_node node = {.op = GRAPH_REF, .type = "Cast", .ref = {.op = REF_OP_CAST}};
    struct graph g;
    struct plan p;
    struct run r;
    struct error e;
    make_tensor(&tensors[0], from, 4, dims, rand() % 2);
    make_tensor(&tensors[1], to, 4, dims, rand() % 2);
    one_node_graph(&g, tensors, &node, 1);
    if (plan_init(&p, &g, &e) < 0 || run_init(&r, &p, &e) < 0)
        fail_msg("%s", e.text);
    const size_t size = tensor_type_size(from);
    uint8_t *x = run_tensor(&r, 0);
    for (size_t i = 0; i < tensors[0].n_elems; i++)
        memcpy(x + i * size, any_number(from).bytes, size);
    assert_int_equal(run_steps(&r, &e), 0);
    for (size_t i = 0; i < tensors[0].n_elems; i++) {
        union number v = number_at(&tensors[0], x, i),
                     y = number_at(&tensors[1], run_tensor(&r, 1), i);
        if (!cast_is_right(from, v, to, y))
            fail_msg("%s %a (%lld) became %s %a (%lld)", tensor_type_name(from), real_of(from, v),
                     (long long)whole_of(from, v), tensor_type_name(to), real_of(to, y),
                     (long long)whole_of(to, y));
    }
    run_done(&r);
    plan_done(&p);
}

static void casts_of_all_kinds(void **state)
{
    (void)state;
    SEED_EACH (seed, CASES) {
        srand((unsigned)seed);
        for (int from = 0; from < N_CASTS; from++)
            for (int to = 0; to < N_CASTS; to++)
                if (from != to)
                    check_cast(casts[from], casts[to]);
    }
}

// ---- indices ----

// A node with an index of its own choice among others, which are 0.
struct indexed {
    const char *type;
    uint32_t op, n_inputs;
    uint32_t x[2], indices[2], other[2];
    int64_t ints[2], size;
};

static int run_indexed(const struct indexed *c, enum tensor_type type, int64_t index,
                       struct error *e)
{
    struct graph_tensor tensors[MOST_INPUTS + 1];
    struct graph_node node = {
        .op = GRAPH_REF, .type = c->type, .ref = {.op = c->op, .n_ints = 2, .ints = c->ints}};
    struct graph g;
    struct plan p;
    struct run r;
    make_tensor(&tensors[0], TENSOR_FLOAT32, 2, c->x, false);
    make_tensor(&tensors[1], type, 2, c->indices, false);
    make_tensor(&tensors[2], TENSOR_FLOAT32, 2, c->other, false);
    if (c->n_inputs == MOST_INPUTS)
        make_tensor(&tensors[3], TENSOR_FLOAT32, 2, c->x, false);
    one_node_graph(&g, tensors, &node, c->n_inputs);
    if (plan_init(&p, &g, e) < 0 || run_init(&r, &p, e) < 0)
        fail_msg("%s", e->text);
    memset(run_tensor(&r, 0), 0, tensors[0].size);
    memset(run_tensor(&r, 1), 0, tensors[1].size);
    if (c->n_inputs == MOST_INPUTS)
        memset(run_tensor(&r, 2), 0, tensors[2].size);
    const size_t size = tensor_type_size(type), last = tensors[1].n_elems - 1;
    memcpy((uint8_t *)run_tensor(&r, 1) + last * size, &index, size); // little-endian
    int status = run_steps(&r, e);
    run_done(&r);
    plan_done(&p);
    return status;
}

static void indices_from_outside(void **state)
{
    static const struct indexed rows[] = {
        {"GatherElements", REF_OP_GATHER_ELEMENTS, 2, {5, 3}, {4, 3}, {4, 3}, {0, 0}, 5},
        {"GatherElements", REF_OP_GATHER_ELEMENTS, 2, {5, 3}, {5, 7}, {5, 7}, {1, 0}, 3},
        {"GatherND", REF_OP_GATHER_ND, 2, {5, 3}, {4, 1}, {4, 3}, {0, 0}, 5},
        {"GatherND", REF_OP_GATHER_ND, 2, {5, 3}, {5, 1}, {5, 1}, {1, 0}, 3},
        {"ScatterElements", REF_OP_SCATTER_ELEMENTS, 3, {5, 3}, {2, 3}, {2, 3}, {0, 0}, 5},
        {"ScatterElements", REF_OP_SCATTER_ELEMENTS, 3, {5, 3}, {5, 2}, {5, 2}, {1, 1}, 3},
        {"ScatterND", REF_OP_SCATTER_ND, 3, {5, 3}, {4, 1}, {4, 3}, {0, 0}, 5},
        {"ScatterND", REF_OP_SCATTER_ND, 3, {5, 3}, {1, 2}, {1, 1}, {0, 0}, 3},
    };
    static const enum tensor_type types[] = {TENSOR_INT32, TENSOR_INT64};
    struct error e;
    (void)state;
    for (size_t k = 0; k < 2 * sizeof rows / sizeof *rows; k++) {
        const struct indexed *c = &rows[k / 2];
        const int64_t outside[] = {c->size, -c->size - 1, INT32_MAX, INT32_MIN};
        if (run_indexed(c, types[k % 2], c->size - 1, &e) < 0 ||
            run_indexed(c, types[k % 2], -c->size, &e) < 0)
            fail_msg("%s", e.text);
        for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
            assert_true(run_indexed(c, types[k % 2], outside[i], &e) < 0);
            assert_non_null(strstr(e.text, c->type));
            assert_non_null(strstr(e.text, "index "));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_of_all_kinds),
        cmocka_unit_test(indices_from_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
