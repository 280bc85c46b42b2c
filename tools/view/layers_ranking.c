// Times of layers added up by operator: which operators a model's time goes to, and whether CPU,
// GPU or NPU spent it. For software NPUs the chip's estimate, with the machine's time.
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/format/table.h"
#include "tools/view/layers.h"

// All layers of one operator. Times are sums of medians, by the layers' target.
struct kind {
    const char *op;
    uint32_t n;
    uint64_t cpu_us, gpu_us, npu_us, total_us, estimate_ns;
};

struct ranking {
    struct kind *kinds; // the one with the most time first
    size_t n;
    uint64_t total_us, estimate_ns;
};

// Linear: a model has a few dozen operators. `op` points into the list of layers.
static struct kind *find_kind(struct ranking *r, const char *op)
{
    size_t i = 0;
    while (i < r->n && strcmp(r->kinds[i].op, op) != 0)
        i++;
    if (i == r->n)
        r->kinds[r->n++] = (struct kind){.op = op};
    return &r->kinds[i];
}

// Estimates count for software NPUs only; an NPU's times are measured.
static void add_layer(struct ranking *r, const rknnd_layer *l, uint64_t us, bool software)
{
    struct kind *k = find_kind(r, l->op);
    uint64_t *target = strcmp(l->target, "CPU") == 0   ? &k->cpu_us
                       : strcmp(l->target, "GPU") == 0 ? &k->gpu_us
                                                       : &k->npu_us;
    k->n++;
    *target += us;
    k->total_us += us;
    r->total_us += us;
    uint64_t ns = software ? l->estimate_ns : 0;
    k->estimate_ns += ns;
    r->estimate_ns += ns;
}

// Descending by the chip's estimate, then by measured time; the name makes the order total.
static int by_time(const void *a, const void *b)
{
    const struct kind *x = a, *y = b;
    if (x->estimate_ns != y->estimate_ns)
        return x->estimate_ns < y->estimate_ns ? 1 : -1;
    if (x->total_us != y->total_us)
        return x->total_us < y->total_us ? 1 : -1;
    return strcmp(x->op, y->op);
}

// r->kinds is the caller's to free. At most as many operators as layers.
static int make_ranking(struct ranking *r, const struct layer_times *t)
{
    *r = (struct ranking){.kinds = calloc((size_t)t->layers->n + 1, sizeof *r->kinds)};
    if (!r->kinds)
        return -1;
    for (uint32_t i = 0; i < t->layers->n; i++)
        add_layer(r, rknnd_layer_at(t->layers, i), layers_median_us(t, i), t->timing.software);
    qsort(r->kinds, r->n, sizeof *r->kinds, by_time);
    return 0;
}

static double percent_of(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

// The SDK guide's columns, for NPUs.
static void add_row(struct table *t, const struct ranking *r, const struct kind *k)
{
    table_cell(t, "%s", k->op);
    table_cell(t, "%u", k->n);
    table_cell(t, "%llu", (unsigned long long)k->cpu_us);
    table_cell(t, "%llu", (unsigned long long)k->gpu_us);
    table_cell(t, "%llu", (unsigned long long)k->npu_us);
    table_cell(t, "%llu", (unsigned long long)k->total_us);
    table_cell(t, "%.2f", percent_of(k->total_us, r->total_us));
}

// For software NPUs: the chip's estimate, then the machine's time.
static void add_software_row(struct table *t, const struct ranking *r, const struct kind *k)
{
    table_cell(t, "%s", k->op);
    table_cell(t, "%u", k->n);
    if (k->estimate_ns)
        table_cell(t, "%.1f", (double)k->estimate_ns / 1e3);
    else
        table_cell(t, "-");
    table_cell(t, "%.2f", percent_of(k->estimate_ns, r->estimate_ns));
    table_cell(t, "%llu", (unsigned long long)k->total_us);
    table_cell(t, "%.2f", percent_of(k->total_us, r->total_us));
}

static const struct table_column columns[] = {
    {"OpType", TABLE_LEFT, TABLE_CUT_END, 0},      {"CallNumber", TABLE_RIGHT, TABLE_FIXED, 0},
    {"CPUTime(us)", TABLE_RIGHT, TABLE_FIXED, 2},  {"GPUTime(us)", TABLE_RIGHT, TABLE_FIXED, 3},
    {"NPUTime(us)", TABLE_RIGHT, TABLE_FIXED, 1},  {"TotalTime(us)", TABLE_RIGHT, TABLE_FIXED, 0},
    {"TimeRatio(%)", TABLE_RIGHT, TABLE_FIXED, 0},
};
static const struct table_column software_columns[] = {
    {"OpType", TABLE_LEFT, TABLE_CUT_END, 0},
    {"CallNumber", TABLE_RIGHT, TABLE_FIXED, 0},
    {"Estimate(us)", TABLE_RIGHT, TABLE_FIXED, 0},
    {"EstimateRatio(%)", TABLE_RIGHT, TABLE_FIXED, 1},
    {"Machine(us)", TABLE_RIGHT, TABLE_FIXED, 0},
    {"MachineRatio(%)", TABLE_RIGHT, TABLE_FIXED, 2},
};

int layers_print_ranking(const struct layer_times *t, FILE *out, const char *indent, size_t width)
{
    bool software = t->timing.software;
    struct ranking ranking;
    struct table table;
    if (make_ranking(&ranking, t) < 0)
        return -1;
    if (software)
        table_init(&table, software_columns, sizeof software_columns / sizeof *software_columns);
    else
        table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < ranking.n; i++)
        (software ? add_software_row : add_row)(&table, &ranking, &ranking.kinds[i]);
    int r = table_print(&table, out, indent, width);
    table_done(&table);
    free(ranking.kinds);
    return r;
}

static json_t *kind_json(const struct ranking *r, const struct kind *k, bool software)
{
    if (software)
        return json_pack("{s:s, s:I, s:o, s:f, s:I, s:f}", "op", k->op, "calls", (json_int_t)k->n,
                         "estimate_us", timing_estimate(k->estimate_ns), "estimate_percent",
                         percent_of(k->estimate_ns, r->estimate_ns), "machine_us",
                         (json_int_t)k->total_us, "machine_percent",
                         percent_of(k->total_us, r->total_us));
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f}", "op", k->op, "calls", (json_int_t)k->n,
                     "cpu_us", (json_int_t)k->cpu_us, "gpu_us", (json_int_t)k->gpu_us, "npu_us",
                     (json_int_t)k->npu_us, "total_us", (json_int_t)k->total_us, "percent",
                     percent_of(k->total_us, r->total_us));
}

json_t *layers_ranking_json(const struct layer_times *t)
{
    struct ranking r;
    if (make_ranking(&r, t) < 0)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < r.n; i++)
        json_array_append_new(list, kind_json(&r, &r.kinds[i], t->timing.software));
    free(r.kinds);
    return list;
}
