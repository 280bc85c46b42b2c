// Tables of bytes between tensors whose channels lie in different orders, against looking up one
// by one; and what has the same number of elements but not the same shape.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/simd/int8.h"
#include "npu/sim/simd/int8_line/int8_line.h"
#include "npu/sim/simd/kernel.h"
#include "tests/support/seed.h"
#include "tests/unit/sim/nodes/one_node.h"

#define CASES 100

enum { X, Y, N_TENSORS };

struct net {
    struct graph graph;
    struct graph_tensor tensors[N_TENSORS];
    struct graph_node node;
    int8_t table[256];
};

static void make_tensor(struct net *n, int i, const uint32_t dims[4], bool channels_last)
{
    struct graph_tensor *t = &n->tensors[i];
    struct error e;
    *t = (struct graph_tensor){.name = i == X ? "x" : "y",
                               .type = TENSOR_INT8,
                               .n_dims = 4,
                               .scale = 1,
                               .quantized = true,
                               .channels_last = channels_last};
    memcpy(t->dims, dims, 4 * sizeof *dims);
    assert_int_equal(graph_tensor_measure(t, &e), 0);
}

static void make_net(struct net *n, const uint32_t x[4], const uint32_t y[4], bool x_last)
{
    *n = (struct net){.node = {.op = GRAPH_MAP, .type = "Map"}};
    n->node.map = n->table;
    make_tensor(n, X, x, x_last);
    make_tensor(n, Y, y, !x_last);
    for (int i = 0; i < 256; i++)
        n->table[i] = (int8_t)rand();
    one_node_graph(&n->graph, n->tensors, &n->node, 1);
}

// Where an element lies, by its number with channels first.
static size_t place_of(const struct graph_tensor *t, size_t i)
{
    size_t plane = (size_t)t->dims[2] * t->dims[3], image = i / plane / t->dims[1];
    size_t channel = i / plane % t->dims[1], pixel = i % plane;
    return t->channels_last ? (image * plane + pixel) * t->dims[1] + channel : i;
}

static void between_orders(void **state)
{
    (void)state;
    SEED_EACH (seed, CASES) {
        struct net n;
        struct plan p;
        struct run r;
        struct error e;
        srand((unsigned)seed);
        uint32_t dims[4];
        for (int i = 0; i < 4; i++)
            dims[i] = 1 + (uint32_t)(rand() % 20);
        make_net(&n, dims, dims, seed % 2);
        if (plan_init(&p, &n.graph, &e) < 0 || run_init(&r, &p, &e) < 0)
            fail_msg("%s", e.text);
        int8_t *x = run_tensor(&r, X);
        for (size_t i = 0; i < n.tensors[X].n_elems; i++)
            x[i] = (int8_t)rand();
        int8_t *kept = malloc(n.tensors[X].n_elems);
        assert_non_null(kept);
        memcpy(kept, x, n.tensors[X].n_elems);
        assert_int_equal(run_steps(&r, &e), 0);
        const int8_t *y = run_tensor(&r, Y);
        for (size_t i = 0; i < n.tensors[X].n_elems; i++)
            assert_int_equal(y[place_of(&n.tensors[Y], i)],
                             n.table[(uint8_t)kept[place_of(&n.tensors[X], i)]]);
        free(kept);
        run_done(&r);
        plan_done(&p);
    }
}

static void other_shapes_are_refused(void **state)
{
    (void)state;
    struct net n;
    struct plan p;
    struct error e;
    make_net(&n, (const uint32_t[]){1, 1, 8, 8}, (const uint32_t[]){1, 64, 1, 1}, false);
    int r = plan_init(&p, &n.graph, &e);
    assert_true(r < 0);
    assert_non_null(strstr(e.text, "another shape"));
}

#define MOST_ROWS 9
#define MOST_ROW  200
#define MOST_GAP  70

// Rows of any length and distance; what lies between them stays.
static void rows_apart(void **state)
{
    static int8_t x[MOST_ROWS * (MOST_ROW + MOST_GAP)], y[sizeof x], expected[sizeof x];
    int8_t table[256];
    (void)state;
    if (!int8_maps_rows(MOST_ROW))
        skip();
    SEED_EACH (seed, CASES) {
        srand((unsigned)seed);
        size_t n = 16 + (size_t)rand() % (MOST_ROW - 15), rows = 1 + (size_t)rand() % MOST_ROWS;
        size_t x_step = n + (size_t)rand() % MOST_GAP, y_step = n + (size_t)rand() % MOST_GAP;
        for (int i = 0; i < 256; i++)
            table[i] = (int8_t)rand();
        for (size_t i = 0; i < sizeof x; i++) {
            x[i] = (int8_t)rand();
            y[i] = expected[i] = (int8_t)rand();
        }
        for (size_t row = 0; row < rows; row++)
            for (size_t i = 0; i < n; i++)
                expected[row * y_step + i] = table[(uint8_t)x[row * x_step + i]];
        int8_map_rows(table, x, (ptrdiff_t)x_step, n, rows, y, (ptrdiff_t)y_step);
        assert_memory_equal(y, expected, sizeof y);
    }
}

// What a number of one scale becomes in another one, rounded as elements are.
static void make_line(int8_t table[256], double slope, int from, int to)
{
    for (int v = -128; v < 128; v++) {
        double y = rint((v - from) * slope) + to;
        table[(uint8_t)(int8_t)v] = (int8_t)(y < -128 ? -128 : y > 127 ? 127 : y);
    }
}

// Conversions by a multiplication are what their tables say, in rows of any length and distance;
// most can be done so, and what is no line cannot.
static void lines(void **state)
{
    static int8_t x[MOST_ROWS * (MOST_ROW + MOST_GAP)], y[sizeof x], expected[sizeof x];
    int8_t table[256];
    struct int8_line line;
    int found = 0, n_lines = 0;
    (void)state;
    if (!kernel_has_avx2())
        skip();
    SEED_EACH (seed, 10 * CASES) {
        srand((unsigned)seed);
        size_t n = INT8_LINE_MIN + (size_t)rand() % (MOST_ROW - 15);
        size_t rows = 1 + (size_t)rand() % MOST_ROWS;
        size_t x_step = n + (size_t)rand() % MOST_GAP, y_step = n + (size_t)rand() % MOST_GAP;
        make_line(table, pow(10, rand() % 1000 / 1000.0 * 1.6 - 1.3), rand() % 256 - 128,
                  rand() % 256 - 128);
        n_lines++;
        if (!int8_line_find(table, &line))
            continue;
        found++;
        for (size_t i = 0; i < sizeof x; i++) {
            x[i] = (int8_t)(i < 256 ? i : (size_t)rand());
            y[i] = expected[i] = (int8_t)rand();
        }
        for (size_t row = 0; row < rows; row++)
            for (size_t i = 0; i < n; i++)
                expected[row * y_step + i] = table[(uint8_t)x[row * x_step + i]];
        int8_line_rows(&line, x, (ptrdiff_t)x_step, n, rows, y, (ptrdiff_t)y_step);
        assert_memory_equal(y, expected, sizeof y);
        table[128 + rand() % 100] ^= 0x40;
        assert_false(int8_line_find(table, &line));
    }
    assert_true(!seed_tries_all() || found >= n_lines * 3 / 4);
}

// A table that is a line, and one that is none, one behind the other: the second step's bytes lie
// where the first one's were.
static void lines_in_place(void **state)
{
    (void)state;
    static const int32_t places[] = {0, 1, 2};
    static const uint32_t first[] = {0}, last[] = {2};
    SEED_EACH (seed, CASES) {
        srand((unsigned)seed);
        struct net n;
        struct graph_tensor tensors[3];
        struct graph_node nodes[2];
        int8_t tables[2][256];
        const uint32_t dims[4] = {1, 1 + (uint32_t)rand() % 40, 1 + (uint32_t)rand() % 9, 9};
        const float slope = (float)(rand() % 2000 + 100) / 1000;
        const int start = rand() % 200 - 100;
        make_net(&n, dims, dims, true);
        n.tensors[Y].channels_last = true;
        for (int i = 0; i < 256; i++) {
            tables[0][i] = (int8_t)rand();
            float v = rintf((float)(int8_t)i * slope) + (float)start;
            tables[1][i] = (int8_t)fmaxf(fminf(v, 127), -128);
        }
        for (int i = 0; i < 3; i++)
            tensors[i] = n.tensors[X];
        for (int i = 0; i < 2; i++) {
            nodes[i] = n.node;
            nodes[i].map = tables[seed % 2 ? i : 1 - i];
            nodes[i].inputs = places + i;
            nodes[i].outputs = places + i + 1;
        }
        const struct graph g = {.n_tensors = 3,
                                .n_nodes = 2,
                                .n_inputs = 1,
                                .n_outputs = 1,
                                .tensors = tensors,
                                .nodes = nodes,
                                .inputs = first,
                                .outputs = last};
        struct plan p;
        struct run r;
        struct error e;
        if (plan_init(&p, &g, &e) < 0 || run_init(&r, &p, &e) < 0)
            fail_msg("%s", e.text);
        int8_t *x = malloc(tensors[0].size);
        for (size_t i = 0; i < tensors[0].size; i++)
            x[i] = (int8_t)rand();
        memcpy(run_tensor(&r, 0), x, tensors[0].size);
        assert_int_equal(run_steps(&r, &e), 0);
        const int8_t *y = run_tensor(&r, 2);
        for (size_t i = 0; i < tensors[0].size; i++)
            assert_int_equal(y[i], nodes[1].map[(uint8_t)nodes[0].map[(uint8_t)x[i]]]);
        free(x);
        run_done(&r);
        plan_done(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_orders), cmocka_unit_test(other_shapes_are_refused),
        cmocka_unit_test(rows_apart), cmocka_unit_test(lines), cmocka_unit_test(lines_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
