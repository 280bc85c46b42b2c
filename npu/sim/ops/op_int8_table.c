// GRAPH_MAP: y[i] = map[x[i]], of 8-bit tensors. Exact: the table holds the rounded results.
//
// With AVX512-VBMI 64 bytes are looked up by two shuffles and a blend (int8_map). Elsewhere a table
// that only changes scale and zero point is a line in 16 bits (int8_line.h), or recomputed as
// rint(x * slope + start), which vector instructions do faster than single loads; map_prepare()
// compares all 256 results with the table, so that all ways give the same. Tested by
// test_onnx_against and test_sim_map.
#include <math.h>
#include <string.h>

#include "npu/sim/exec/copy.h"
#include "npu/sim/exec/ops.h"
#include "npu/sim/simd/elements.h"
#include "npu/sim/simd/int8.h"
#include "npu/sim/simd/int8_line/int8_line.h"

// The line that the table is, if it is one.
struct map {
    bool is_line, orders;
    bool in_words; // by `line`
    struct int8_line line;
    float slope, start;
    struct copy order; // of bytes, from the input's order to the output's
};

KERNEL(void, follow_line, (float slope, float start, const int8_t *x, int8_t *y, size_t n),
       (slope, start, x, y, n))
{
    for (size_t i = 0; i < n; i++) {
        float v = fmaf((float)x[i], slope, start);
        v = v > -128 ? v : -128;
        v = v < 127 ? v : 127;
        y[i] = (int8_t)(int32_t)rintf(v);
    }
}

static void find_line(const struct step *s, struct map *m)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    int8_t all[256], on_line[256];
    if (!x->quantized || !y->quantized)
        return;
    for (int i = 0; i < 256; i++)
        all[i] = (int8_t)i;
    m->slope = x->scale / y->scale;
    m->start = (float)y->zp - (float)x->zp * m->slope;
    follow_line(m->slope, m->start, all, on_line, 256);
    m->is_line = memcmp(on_line, s->node->map, 256) == 0;
}

static bool is_eight_bits(enum tensor_type type)
{
    return type == TENSOR_INT8 || type == TENSOR_UINT8;
}

static bool same_shape(const struct graph_tensor *x, const struct graph_tensor *y)
{
    return x->n_dims == y->n_dims && memcmp(x->dims, y->dims, sizeof *x->dims * x->n_dims) == 0;
}

// Where the two tensors lie in different orders, bytes are brought into the output's first.
static void order_bytes(struct map *m, const struct graph_tensor *x, const struct graph_tensor *y)
{
    struct graph_tensor from = *x, to = *y;
    from.type = to.type = TENSOR_INT8;
    from.quantized = to.quantized = false;
    copy_init_whole(&m->order, &to, &from);
    m->orders = true;
}

static int map_prepare(struct step *s, struct error *e)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    struct map *m = s->state = step_alloc(s, 1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a step", sizeof *m);
    if (!s->node->map || !is_eight_bits(x->type) || !is_eight_bits(y->type) ||
        x->n_elems != y->n_elems)
        return step_refuse(s, e, "it has no table of 8-bit numbers");
    if (x->channels_last != y->channels_last && !same_shape(x, y))
        return step_refuse(s, e, "its output has another shape, and another order of channels");
    if (x->channels_last != y->channels_last)
        order_bytes(m, x, y);
    else if (!int8_map_is_fast())
        m->in_words = int8_line_find(s->node->map, &m->line);
    if (!m->orders && !m->in_words && !int8_map_is_fast())
        find_line(s, m);
    return 0;
}

#define WORDS 32 // bytes that int8_line_rows() does at once

// y may be x: what is left behind whole vectors is looked up.
static void map_words(const struct map *m, const int8_t *table, const int8_t *x, size_t n,
                      int8_t *y)
{
    size_t whole = n - n % WORDS;
    if (whole)
        int8_line_rows(&m->line, x, 0, whole, 1, y, 0);
    int8_map(table, x + whole, n - whole, y + whole);
}

static int map_run(const struct step *s, struct run *r, struct error *e)
{
    (void)e;
    const struct map *m = s->state;
    const int8_t *x = run_input(s, r, 0);
    int8_t *y = run_output(s, r, 0);
    size_t n = step_output(s, 0)->n_elems;
    if (m->orders) {
        copy_run(&m->order, y, x);
        int8_map(s->node->map, y, n, y);
    } else if (m->in_words)
        map_words(m, s->node->map, x, n, y);
    else if (m->is_line)
        follow_line(m->slope, m->start, x, y, n);
    else
        int8_map(s->node->map, x, n, y);
    return 0;
}

const struct op op_map = {.prepare = map_prepare, .run = map_run, .in_place = true};
