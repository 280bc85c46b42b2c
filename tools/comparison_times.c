// How long both models of a comparison take.
#include "tools/comparison_times.h"

#include <stdlib.h>
#include <string.h>

#include "tools/report.h"
#include "tools/table.h"
#include "tools/terminal.h"

#define INDENT "  "

// ---- layers that belong together ---------------------------------------------------------------

// Behind the operator: what is "Conv:/a/Conv" in a converted model is "/a/Conv" in its original.
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

static struct time_pair *find_partner(struct comparison_times *t, const rknnd_layer *reference)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->pairs[i].layer && !t->pairs[i].reference && is_same(t->pairs[i].layer, reference))
            return &t->pairs[i];
    return NULL;
}

static int pair(struct comparison_times *t, struct failure *f)
{
    const struct layer_times *model = &t->model.layers, *reference = &t->reference.layers;
    t->pairs = calloc((size_t)model->n_layers + reference->n_layers + 1, sizeof *t->pairs);
    if (!t->pairs)
        return failure_no_memory(f);
    for (uint32_t i = 0; i < model->n_layers; i++)
        t->pairs[t->n++] =
            (struct time_pair){.layer = &model->layers[i], .us = layers_median_us(model, i)};
    for (uint32_t i = 0; i < reference->n_layers; i++) {
        struct time_pair *p = find_partner(t, &reference->layers[i]);
        p = p ? p : &t->pairs[t->n++];
        p->reference = &reference->layers[i];
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
                      struct failure *f)
{
    if (rknnd_set_server(uri) < 0)
        return failure_set(f, EXIT_USAGE, "%s", rknnd_last_error());
    return profile_measure(ret, plan, f);
}

int comparison_times_measure(struct comparison_times *t, const struct profile_plan *model,
                             const char *server, const struct profile_plan *reference,
                             const char *reference_server, struct failure *f)
{
    int r = measure_on(reference_server, reference, &t->reference, f);
    if (r == 0)
        r = measure_on(server, model, &t->model, f);
    return r ? r : pair(t, f);
}

void comparison_times_done(struct comparison_times *t)
{
    profile_done(&t->model);
    profile_done(&t->reference);
    free(t->pairs);
    *t = (struct comparison_times){0};
}

// ---- showing -----------------------------------------------------------------------------------

double time_ratio(uint64_t us, uint64_t reference_us)
{
    return us && reference_us ? (double)us / (double)reference_us : 0;
}

static void add_time(struct table *t, bool there, uint64_t us)
{
    if (there)
        table_cell(t, "%llu", (unsigned long long)us);
    else
        table_cell(t, "-");
}

static void add_ratio(struct table *t, double ratio)
{
    if (ratio > 0)
        table_cell(t, "%.2f", ratio);
    else
        table_cell(t, "-");
}

static void add_sum(struct table *t, const char *name, uint64_t us, uint64_t reference_us)
{
    table_cell(t, "%s", "");
    table_cell(t, "%s", name);
    add_time(t, true, us);
    add_time(t, true, reference_us);
    add_ratio(t, time_ratio(us, reference_us));
    table_cell(t, "%s", "");
}

static uint64_t median(const uint64_t *us, const struct profile *p)
{
    return stats_percentile(us, p->n_runs, 50);
}

int comparison_times_print(const struct comparison_times *t, struct failure *f)
{
    static const struct table_column columns[] = {
        {"#", TABLE_RIGHT, TABLE_FIXED, 0},        {"op", TABLE_LEFT, TABLE_CUT_END, 0},
        {"Time(us)", TABLE_RIGHT, TABLE_FIXED, 0}, {"Reference(us)", TABLE_RIGHT, TABLE_FIXED, 0},
        {"Ratio", TABLE_RIGHT, TABLE_FIXED, 0},    {"node", TABLE_LEFT, TABLE_CUT_START, 0},
    };
    const struct profile *m = &t->model, *r = &t->reference;
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < t->n; i++) {
        const struct time_pair *p = &t->pairs[i];
        const rknnd_layer *l = p->layer ? p->layer : p->reference;
        table_cell(&table, "%zu", i + 1);
        table_cell(&table, "%s", l->op);
        add_time(&table, p->layer, p->us);
        add_time(&table, p->reference, p->reference_us);
        add_ratio(&table, time_ratio(p->us, p->reference_us));
        table_cell(&table, "%s", l->name);
    }
    if (t->n)
        add_sum(&table, "all layers", layers_total_us(&m->layers), layers_total_us(&r->layers));
    add_sum(&table, "run", median(m->run_us, m), median(r->run_us, r));
    add_sum(&table, "with transfers", median(m->total_us, m), median(r->total_us, r));
    report_heading("Times, medians of %u and %u runs", m->n_runs, r->n_runs);
    int status = table_print(&table, stdout, INDENT, terminal_width(stdout));
    table_done(&table);
    return status < 0 ? failure_no_memory(f) : 0;
}

static json_t *ratio_json(double ratio)
{
    return ratio > 0 ? json_real(ratio) : json_null();
}

static json_t *times_json(uint64_t us, uint64_t reference_us)
{
    return json_pack("{s:I, s:I, s:o}", "us", (json_int_t)us, "reference_us",
                     (json_int_t)reference_us, "ratio", ratio_json(time_ratio(us, reference_us)));
}

static json_t *pair_json(const struct time_pair *p)
{
    const rknnd_layer *l = p->layer ? p->layer : p->reference;
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", l->name, "op", l->op, "us",
                     p->layer ? json_integer((json_int_t)p->us) : json_null(), "reference_us",
                     p->reference ? json_integer((json_int_t)p->reference_us) : json_null(),
                     "ratio", ratio_json(time_ratio(p->us, p->reference_us)));
}

json_t *comparison_times_json(const struct comparison_times *t)
{
    const struct profile *m = &t->model, *r = &t->reference;
    json_t *layers = json_array();
    for (size_t i = 0; i < t->n; i++)
        json_array_append_new(layers, pair_json(&t->pairs[i]));
    return json_pack("{s:o, s:o, s:o, s:o}", "layers", layers, "layers_us",
                     times_json(layers_total_us(&m->layers), layers_total_us(&r->layers)), "run_us",
                     times_json(median(m->run_us, m), median(r->run_us, r)), "total_us",
                     times_json(median(m->total_us, m), median(r->total_us, r)));
}
