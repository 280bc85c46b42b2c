// Judges a comparison and shows it as text or JSON (CSV: comparison_csv.c). What counts as an error
// is explained at comparison_error().
#include <math.h>

#include "tools/compare/comparison.h"
#include "tools/format/format.h"
#include "tools/format/table.h"
#include "tools/ui/exit_code.h"
#include "tools/ui/print.h"
#include "tools/ui/terminal.h"

// The single pass, where there is one: there a layer is not blamed for the errors of earlier
// layers.
static const struct comparison_distance *deciding_distance(const struct comparison_row *r)
{
    return r->single.there ? &r->single : &r->entire;
}

// error = max(|gain - 1|, relative / 4); NaN in the gain wins.
static double error_of(const rknnd_distance *d)
{
    double gain = fabs(d->gain - 1), off = d->relative / 4;
    return isnan(gain) || gain > off ? gain : off;
}

// How wrong a tensor's layer is by itself, as far as that is known, else all layers up to it: how
// far its gain is from 1, or a quarter of how far it is off (rknnd_distance.relative), whichever
// is more. Rounding to 8 bits puts good layers off by some per cent, but leaves their gain at 1;
// what is really wrong shows in the gain, or is off by much more. 0 for what is not compared.
static double comparison_error(const struct comparison_row *r)
{
    const struct comparison_distance *d = deciding_distance(r);
    return d->there ? error_of(&d->real) : 0;
}

// Written as a negation so that NaN is over any limit.
static bool is_over(double error, double limit)
{
    return !(error <= limit);
}

static double limit_of(const struct comparison *c)
{
    return c->limit / 100.0;
}

static bool is_marked(const struct comparison *c, const struct comparison_row *r)
{
    return is_over(comparison_error(r), limit_of(c));
}

// The error that rounding to the tensor's type does not explain.
static double beyond_rounding(const struct comparison_row *r)
{
    const struct comparison_distance *d = deciding_distance(r);
    return d->there ? error_of(&d->stored) : 0;
}

// Sort key for the worst layer: an error over the limit counts in full; below it only what rounding
// does not explain counts, capped at the limit so that it never outranks a real fault.
static double row_badness(const struct comparison *c, const struct comparison_row *r)
{
    double error = comparison_error(r);
    if (is_over(error, limit_of(c)) || error == 0)
        return error;
    return fmin(beyond_rounding(r), limit_of(c));
}

// The worst tensor; NULL: none. It has the largest error over the limit. If all are within it, it
// is the one with the largest error that rounding to its type does not explain: so small faults
// show among the rounding of others. Of several the first; nothing is worse than NaN.
static const struct comparison_row *comparison_worst(const struct comparison *c)
{
    const struct comparison_row *worst = NULL;
    double max = 0;
    for (size_t i = 0; i < c->n && !isnan(max); i++) {
        double bad = row_badness(c, &c->rows[i]);
        if (is_over(bad, max)) {
            worst = &c->rows[i];
            max = bad;
        }
    }
    return worst;
}

// The first tensor whose error is over the limit; NULL: none.
static const struct comparison_row *comparison_first(const struct comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (is_marked(c, &c->rows[i]))
            return &c->rows[i];
    return NULL;
}

// ---- text --------------------------------------------------------------------------------------

static const struct table_column columns[] = {
    {"#", TABLE_RIGHT, TABLE_FIXED, 0},          {"op", TABLE_LEFT, TABLE_CUT_END, 0},
    {"tensor", TABLE_LEFT, TABLE_CUT_START, 0},  {"node", TABLE_LEFT, TABLE_CUT_START, 6},
    {"type", TABLE_LEFT, TABLE_FIXED, 4},        {"shape", TABLE_LEFT, TABLE_FIXED, 5},
    {"entire cos", TABLE_RIGHT, TABLE_FIXED, 0}, {"euc", TABLE_RIGHT, TABLE_FIXED, 2},
    {"off", TABLE_RIGHT, TABLE_FIXED, 1},        {"single cos", TABLE_RIGHT, TABLE_FIXED, 0},
    {"euc", TABLE_RIGHT, TABLE_FIXED, 3},        {"off", TABLE_RIGHT, TABLE_FIXED, 0},
    {"gain", TABLE_RIGHT, TABLE_FIXED, 0},       {"", TABLE_LEFT, TABLE_FIXED, 0},
};

// Three cells: cosine, length of the difference, and that in % of the reference's length.
static void distance_cells(struct table *t, const struct comparison_distance *d)
{
    if (!d->there) {
        for (int i = 0; i < 3; i++)
            table_cell(t, "-");
        return;
    }
    table_cell(t, "%.6f", d->real.cosine);
    table_cell(t, "%.4g", d->real.euclidean);
    table_cell(t, "%.2f%%", 100 * d->real.relative);
}

// "!" marks rows over the limit, "!!" the worst of them.
static void add_row(struct table *t, const struct comparison *c, size_t i)
{
    const struct comparison_row *r = &c->rows[i];
    struct format_buffer b;
    bool over = is_marked(c, r);
    table_cell(t, "%zu", i);
    table_cell(t, "%s", r->op);
    table_cell(t, "%s", r->name);
    table_cell(t, "%s", r->node);
    table_cell(t, "%s", get_type_string(r->type));
    table_cell(t, "%s", format_dims(&b, r->dims, r->n_dims));
    distance_cells(t, &r->entire);
    distance_cells(t, &r->single);
    if (r->entire.there)
        table_cell(t, "%+.2f%%", 100 * (deciding_distance(r)->real.gain - 1));
    else
        table_cell(t, "-");
    table_cell(t, "%s", !over ? "" : r == comparison_worst(c) ? "!!" : "!");
}

// One of the notable tensors, with its error; "by itself" when the single pass decided.
static void print_named(const char *what, const struct comparison_row *r, const char *none)
{
    if (!r) {
        print_line(what, "none: %s", none);
        return;
    }
    const rknnd_distance *d = &deciding_distance(r)->real;
    print_line(what, "%s, %s\n    of node %s: error %.2f%% (%.2f%% off, gain %+.2f%%%s)", r->op,
               r->name, r->node, 100 * comparison_error(r), 100 * d->relative, 100 * (d->gain - 1),
               r->single.there ? ", by itself" : "");
}

// Bit-exact results, as between two runs of the same backend, get a sentence of their own.
static bool all_same(const struct comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (comparison_error(&c->rows[i]) != 0)
            return false;
    return true;
}

static int comparison_print_text(const struct comparison *c, struct error *e)
{
    struct table t;
    size_t n_compared = 0;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < c->n; i++) {
        n_compared += c->rows[i].entire.there;
        add_row(&t, c, i);
    }
    int r = table_print(&t, stdout, "", terminal_width(stdout));
    table_done(&t);
    if (r < 0)
        return error_no_memory(e, "a table", 0);
    putchar('\n');
    print_line("tensors", "%zu, %zu of them compared", c->n, n_compared);
    if (c->n_sets > 1)
        print_line("inputs", "%zu sets; numbers are the worst of all", c->n_sets);
    if (*c->why_not_single)
        print_line("single", "not possible: %s", c->why_not_single);
    print_named("worst", comparison_worst(c),
                all_same(c) ? "all is the same" : "all is the same but for rounding to the types");
    print_named("diverges at", comparison_first(c), "every layer is within the limit");
    return 0;
}

// ---- JSON --------------------------------------------------------------------------------------

static json_t *distance_json(const rknnd_distance *d)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "cosine", print_json_number(d->cosine),
                     "euclidean", print_json_number(d->euclidean), "relative",
                     print_json_number(d->relative), "gain", print_json_number(d->gain), "largest",
                     print_json_number(d->largest));
}

static json_t *distances_json(const struct comparison_distance *d)
{
    if (!d->there)
        return json_null();
    json_t *o = distance_json(&d->real);
    json_object_set_new(o, "stored", distance_json(&d->stored));
    return o;
}

static json_t *row_json(const struct comparison *c, const struct comparison_row *r)
{
    json_t *dims = json_array();
    for (uint32_t i = 0; i < r->n_dims; i++)
        json_array_append_new(dims, json_integer((json_int_t)r->dims[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:b}", "name", r->name, "node",
                     r->node, "op", r->op, "type", get_type_string(r->type), "dims", dims, "error",
                     print_json_number(comparison_error(r)), "beyond_rounding",
                     print_json_number(beyond_rounding(r)), "entire", distances_json(&r->entire),
                     "single", distances_json(&r->single), "over_limit", (int)is_marked(c, r));
}

// By which number the worst row was chosen (see row_badness).
static const char *worst_by(const struct comparison *c, const struct comparison_row *worst)
{
    return !worst ? NULL : is_marked(c, worst) ? "error" : "beyond_rounding";
}

json_t *comparison_json(const struct comparison *c)
{
    const struct comparison_row *worst = comparison_worst(c), *first = comparison_first(c);
    json_t *layers = json_array();
    for (size_t i = 0; i < c->n; i++)
        json_array_append_new(layers, row_json(c, &c->rows[i]));
    return json_pack(
        "{s:I, s:b, s:o, s:s?, s:o, s:o, s:o, s:s?, s:o, s:o}", "sets", (json_int_t)c->n_sets,
        "golden_converted", c->golden_converted, "limit_percent", print_json_number(c->limit),
        "why_not_single", *c->why_not_single ? c->why_not_single : NULL, "layers", layers, "worst",
        worst ? row_json(c, worst) : json_null(), "worst_index",
        worst ? json_integer(worst - c->rows) : json_null(), "worst_by", worst_by(c, worst),
        "first_divergence", first ? row_json(c, first) : json_null(), "times",
        c->times.model.n_runs ? comparison_times_json(&c->times) : json_null());
}

// CSV and JSON have everything in one object or table; text prints the times below it.
static int show_rows(const struct comparison *c, const struct comparison_plan *plan,
                     struct error *e)
{
    if (plan->form == COMPARISON_CSV) {
        comparison_csv(c);
        return 0;
    }
    if (plan->form == COMPARISON_JSON) {
        json_t *o = comparison_json(c);
        json_object_set_new(o, "model", print_json_text(plan->task.model));
        json_object_set_new(o, "server", print_server_json(&c->server));
        json_object_set_new(o, "golden", print_json_text(plan->golden));
        json_object_set_new(o, "golden_server", print_server_json(&c->golden_server));
        return print_json(o, e);
    }
    printf("%s on ", plan->task.model);
    print_server_line(&c->server);
    printf("\n%s on ", plan->golden);
    print_server_line(&c->golden_server);
    printf("\n\n");
    int r = comparison_print_text(c, e);
    if (r || !c->times.model.n_runs)
        return r;
    putchar('\n');
    return comparison_times_print(&c->times, e);
}

int comparison_set_form(struct comparison_plan *plan, bool json, bool csv, struct error *e)
{
    plan->form = json ? COMPARISON_JSON : csv ? COMPARISON_CSV : COMPARISON_TEXT;
    return cmd_options_check_form(json, csv, e);
}

// --fail-above. Comparing nothing is a failure too: a gate in CI must not pass because all names
// differ.
static int judge_limit(const struct comparison *c, const struct comparison_plan *plan,
                       struct error *e)
{
    const struct comparison_row *worst = NULL;
    size_t n_compared = 0, n_over = 0;
    if (isnan(plan->fail_above))
        return 0;
    for (size_t i = 0; i < c->n; i++) {
        double error = comparison_error(&c->rows[i]);
        n_compared += c->rows[i].entire.there;
        n_over += is_over(error, plan->fail_above / 100);
        if (!worst || is_over(error, comparison_error(worst)))
            worst = &c->rows[i];
    }
    if (n_compared == 0)
        error_set(e, STATUS_FAIL,
                  "no tensor of the model was found in %s, so --fail-above says nothing "
                  "(names that differ: --map)",
                  plan->golden);
    else if (n_over == 0)
        return 0;
    else
        error_set(e, STATUS_FAIL,
                  "the error of %zu tensor%s is above --fail-above %.10g%%; the largest is "
                  "%.4g%%, of %s (node %s)",
                  n_over, n_over == 1 ? "" : "s", plan->fail_above, 100 * comparison_error(worst),
                  worst->name, worst->node);
    return EXIT_GATE;
}

// Judged after it is shown: a failed gate in CI still has the table in its log.
int comparison_run(const struct comparison_plan *plan, struct error *e)
{
    struct comparison c = {0};
    int r = comparison_make(&c, plan, e);
    if (r == 0)
        r = show_rows(&c, plan, e);
    if (r == 0)
        r = judge_limit(&c, plan, e);
    comparison_done(&c);
    return r;
}
