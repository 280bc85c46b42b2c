// How long both models of a comparison take, layer by layer. A device is an NPU, whose times are
// measured, or a software NPU, whose times are the machine's and which may estimate a chip's. Chip
// times are compared with chip times (measured or estimated), machine times with machine times:
//
//            model                          reference
//   measured | estimate | machine   measured | estimate | machine   ratio | machine ratio
//
// Each side fills its three columns (put_time), the ratios follow from both.
#include "tools/compare/comparison_times.h"

#include <stdlib.h>
#include <string.h>

#include "tools/format/table.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

#define INDENT "  "

// ---- layers that belong together ---------------------------------------------------------------

// The node's name in the original model: RKNN files prefix it with the operator, "Conv:/a/Conv" for
// the ONNX node "/a/Conv".
static const char *plain_name(const char *name)
{
    const char *colon = strchr(name, ':');
    return colon ? colon + 1 : name;
}

static bool is_same(const rknnd_layer *a, const rknnd_layer *b)
{
    return *b->name &&
           (strcmp(a->name, b->name) == 0 || strcmp(plain_name(a->name), plain_name(b->name)) == 0);
}

// The first layer of that name without a partner, so that layers of the same name pair up in order.
// Quadratic, but models have hundreds of layers, not millions.
static struct time_pair *find_partner(struct comparison_times *t, const rknnd_layer *reference)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->pairs[i].layer && !t->pairs[i].reference && is_same(t->pairs[i].layer, reference))
            return &t->pairs[i];
    return NULL;
}

// All layers of the model in the order of execution, then those only the reference has. The pairs
// point into both profiles' lists.
static int pair_layers(struct comparison_times *t, struct error *e)
{
    const struct layer_times *model = &t->model.layers, *reference = &t->reference.layers;
    t->pairs = calloc((size_t)model->layers->n + reference->layers->n + 1, sizeof *t->pairs);
    if (!t->pairs)
        return error_no_memory(e, "layers", 0);
    for (uint32_t i = 0; i < model->layers->n; i++)
        t->pairs[t->n++] = (struct time_pair){.layer = rknnd_layer_at(model->layers, i),
                                              .us = layers_median_us(model, i)};
    for (uint32_t i = 0; i < reference->layers->n; i++) {
        const rknnd_layer *l = rknnd_layer_at(reference->layers, i);
        struct time_pair *p = find_partner(t, l);
        p = p ? p : &t->pairs[t->n++];
        p->reference = l;
        p->reference_us = layers_median_us(reference, i);
    }
    return 0;
}

const struct time_pair *comparison_times_find(const struct comparison_times *t, const char *node)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->pairs[i].layer && strcmp(t->pairs[i].layer->name, node) == 0)
            return &t->pairs[i];
    return NULL;
}

// ---- measuring ---------------------------------------------------------------------------------

static int measure_on(const char *uri, const struct profile_plan *plan, struct profile *ret,
                      struct error *e)
{
    int r = rknnd_set_server(uri);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    return profile_measure(ret, plan, e);
}

// One after the other, so that they do not compete for a device or machine they may share. The
// model's server is the default server afterwards.
int comparison_times_measure(struct comparison_times *t, const struct profile_plan *model,
                             const char *server, const struct profile_plan *reference,
                             const char *reference_server, struct error *e)
{
    int r = measure_on(reference_server, reference, &t->reference, e);
    if (r == 0)
        r = measure_on(server, model, &t->model, e);
    return r ? r : pair_layers(t, e);
}

void comparison_times_done(struct comparison_times *t)
{
    profile_done(&t->model);
    profile_done(&t->reference);
    free(t->pairs);
    *t = (struct comparison_times){0};
}

// ---- showing -----------------------------------------------------------------------------------

const char *const comparison_time_titles[TIME_COLUMNS] = {
    "Time(us)",        "Estimate(us)",   "Machine(us)", "RefTime(us)",
    "RefEstimate(us)", "RefMachine(us)", "Ratio",       "MachineRatio"};

static const char *const keys[TIME_COLUMNS] = {"time_us",
                                               "estimate_us",
                                               "machine_us",
                                               "reference_time_us",
                                               "reference_estimate_us",
                                               "reference_machine_us",
                                               "ratio",
                                               "machine_ratio"};

// Fills the three columns of one side. The measured time is the NPU's or, for a software NPU, the
// machine's; only a software NPU has an estimate.
static void put_time(const struct timing *t, uint64_t us, uint64_t estimate_ns,
                     struct time_number *ret)
{
    ret[t->software ? TIME_MACHINE : TIME_MEASURED] = (struct time_number){true, (double)us};
    ret[TIME_ESTIMATE] =
        (struct time_number){t->software && estimate_ns, (double)estimate_ns / 1e3};
}

// x / y where both are known and not 0.
static struct time_number time_ratio(struct time_number x, struct time_number y)
{
    bool there = x.there && y.there && x.value > 0 && y.value > 0;
    return (struct time_number){there, there ? x.value / y.value : 0};
}

// The chip's time: measured, else estimated.
static struct time_number of_chip(const struct time_number *side)
{
    return side[side[TIME_MEASURED].there ? TIME_MEASURED : TIME_ESTIMATE];
}

static void put_ratios(struct time_number ret[TIME_COLUMNS])
{
    const struct time_number *reference = ret + TIME_REFERENCE_MEASURED;
    ret[TIME_RATIO] = time_ratio(of_chip(ret), of_chip(reference));
    ret[TIME_MACHINE_RATIO] = time_ratio(ret[TIME_MACHINE], reference[TIME_MACHINE]);
}

void comparison_time_numbers(const struct comparison_times *t, const struct time_pair *p,
                             struct time_number ret[TIME_COLUMNS])
{
    memset(ret, 0, TIME_COLUMNS * sizeof *ret);
    if (p->layer)
        put_time(&t->model.layers.timing, p->us, p->layer->estimate_ns, ret);
    if (p->reference)
        put_time(&t->reference.layers.timing, p->reference_us, p->reference->estimate_ns,
                 ret + TIME_REFERENCE_MEASURED);
    put_ratios(ret);
}

// Rows below the layers: all layers, a run, a run with its transfers. Transfers are not estimated
// for a chip.
enum sum { SUM_LAYERS, SUM_RUN, SUM_TOTAL, N_SUMS };

static const struct {
    const char *title, *key;
} sums[N_SUMS] = {{"all layers", "layers_us"}, {"run", "run_us"}, {"with transfers", "total_us"}};

static void put_sum(const struct profile *p, enum sum sum, struct time_number *ret)
{
    const struct timing *t = &p->layers.timing;
    if (sum == SUM_LAYERS)
        put_time(t, layers_total_us(&p->layers), layers_estimate_ns(&p->layers), ret);
    else if (sum == SUM_RUN)
        put_time(t, stats_percentile(p->run_us, p->n_runs, 50), p->estimate_ns, ret);
    else
        put_time(t, stats_percentile(p->total_us, p->n_runs, 50), 0, ret);
}

static void sum_numbers(const struct comparison_times *t, enum sum sum,
                        struct time_number ret[TIME_COLUMNS])
{
    memset(ret, 0, TIME_COLUMNS * sizeof *ret);
    put_sum(&t->model, sum, ret);
    put_sum(&t->reference, sum, ret + TIME_REFERENCE_MEASURED);
    put_ratios(ret);
}

static void add_numbers(struct table *table, const struct time_number *numbers,
                        const bool shown[TIME_COLUMNS])
{
    static const int decimals[TIME_COLUMNS] = {0, 1, 0, 0, 1, 0, 2, 2};
    for (int c = 0; c < TIME_COLUMNS; c++)
        if (shown[c] && numbers[c].there)
            table_cell(table, "%.*f", decimals[c], numbers[c].value);
        else if (shown[c])
            table_cell(table, "-");
}

// Columns that have a value in any row; the others would be filled with dashes.
static void find_shown(const struct comparison_times *t, bool ret[TIME_COLUMNS])
{
    struct time_number numbers[TIME_COLUMNS];
    memset(ret, 0, TIME_COLUMNS * sizeof *ret);
    for (size_t i = 0; i < t->n + N_SUMS; i++) {
        if (i < t->n)
            comparison_time_numbers(t, &t->pairs[i], numbers);
        else
            sum_numbers(t, (enum sum)(i - t->n), numbers);
        for (int c = 0; c < TIME_COLUMNS; c++)
            ret[c] |= numbers[c].there;
    }
}

// The last member of a column says how readily it is left out of a narrow terminal (table.h).
static size_t make_columns(const bool shown[TIME_COLUMNS],
                           struct table_column ret[TIME_COLUMNS + 3])
{
    size_t n = 0;
    ret[n++] = (struct table_column){"#", TABLE_RIGHT, TABLE_FIXED, 0};
    ret[n++] = (struct table_column){"op", TABLE_LEFT, TABLE_CUT_END, 0};
    for (int c = 0; c < TIME_COLUMNS; c++)
        if (shown[c])
            ret[n++] = (struct table_column){comparison_time_titles[c], TABLE_RIGHT, TABLE_FIXED,
                                             c == TIME_MACHINE_RATIO       ? 2
                                             : c == TIME_REFERENCE_MACHINE ? 1
                                                                           : 0};
    ret[n++] = (struct table_column){"node", TABLE_LEFT, TABLE_CUT_START, 0};
    return n;
}

static void print_kind(const char *side, const struct profile *p)
{
    const struct timing *t = &p->layers.timing;
    if (!t->software)
        return;
    printf(INDENT "%s:\n", side);
    timing_print(t, &p->server, stdout, INDENT INDENT);
}

int comparison_times_print(const struct comparison_times *t, struct error *e)
{
    const struct profile *m = &t->model, *r = &t->reference;
    struct table_column columns[TIME_COLUMNS + 3];
    struct time_number numbers[TIME_COLUMNS];
    bool shown[TIME_COLUMNS];
    struct table table;
    find_shown(t, shown);
    table_init(&table, columns, make_columns(shown, columns));
    for (size_t i = 0; i < t->n; i++) {
        const struct time_pair *p = &t->pairs[i];
        const rknnd_layer *l = p->layer ? p->layer : p->reference;
        comparison_time_numbers(t, p, numbers);
        table_cell(&table, "%zu", i + 1);
        table_cell(&table, "%s", l->op);
        add_numbers(&table, numbers, shown);
        table_cell(&table, "%s", l->name);
    }
    for (int sum = t->n ? SUM_LAYERS : SUM_RUN; sum < N_SUMS; sum++) {
        sum_numbers(t, (enum sum)sum, numbers);
        table_cell(&table, "%s", "");
        table_cell(&table, "%s", sums[sum].title);
        add_numbers(&table, numbers, shown);
        table_cell(&table, "%s", "");
    }
    print_heading("Times, medians of %u and %u runs", m->n_runs, r->n_runs);
    int status = table_print(&table, stdout, INDENT, terminal_width(stdout));
    table_done(&table);
    print_kind("model", m);
    print_kind("reference", r);
    return status < 0 ? error_no_memory(e, "layers", 0) : 0;
}

// Only the members that both kinds of device can have, so that scripts see the same keys for all
// layers; null where a layer has no value. Indices 0 to 2 are the model's columns, 3 to 5 the
// reference's.
static json_t *numbers_json(const struct comparison_times *t, const struct time_number *numbers)
{
    const bool software[] = {t->model.layers.timing.software, t->reference.layers.timing.software};
    json_t *o = json_object();
    for (int c = 0; c < TIME_COLUMNS; c++) {
        bool both = software[0] && software[1], s = software[c / TIME_REFERENCE_MEASURED % 2];
        bool has = c == TIME_RATIO                                ? true
                   : c == TIME_MACHINE_RATIO                      ? both
                   : c % TIME_REFERENCE_MEASURED == TIME_MEASURED ? !s
                                                                  : s;
        if (has)
            json_object_set_new(o, keys[c],
                                numbers[c].there ? json_real(numbers[c].value) : json_null());
    }
    return o;
}

static json_t *pair_json(const struct comparison_times *t, const struct time_pair *p)
{
    const rknnd_layer *l = p->layer ? p->layer : p->reference;
    struct time_number numbers[TIME_COLUMNS];
    comparison_time_numbers(t, p, numbers);
    json_t *o = numbers_json(t, numbers);
    json_object_set_new(o, "name", json_string(l->name));
    json_object_set_new(o, "op", json_string(l->op));
    return o;
}

json_t *comparison_times_json(const struct comparison_times *t)
{
    struct time_number numbers[TIME_COLUMNS];
    json_t *layers = json_array();
    for (size_t i = 0; i < t->n; i++)
        json_array_append_new(layers, pair_json(t, &t->pairs[i]));
    json_t *o = json_pack("{s:o, s:o, s:o}", "layers", layers, "timing",
                          timing_json(&t->model.layers.timing), "reference_timing",
                          timing_json(&t->reference.layers.timing));
    for (int sum = 0; sum < N_SUMS; sum++) {
        sum_numbers(t, (enum sum)sum, numbers);
        json_object_set_new(o, sums[sum].key, numbers_json(t, numbers));
    }
    return o;
}
