// A comparison as CSV on standard output: a row for each tensor with its distances, and the times
// of its layer; then a row for each layer that has times but no tensor.
#include <stdio.h>
#include <string.h>

#include "tools/compare/comparison.h"
#include "tools/format/csv.h"
#include "tools/format/format.h"

static void csv_text(const char *value, bool last)
{
    csv_cell(stdout, value, false, last);
}

// %.9g keeps every float exactly; a number that is not there is an empty cell.
static void csv_number(bool there, double value, bool last)
{
    char cell[40] = "";
    if (there)
        snprintf(cell, sizeof cell, "%.9g", value);
    csv_text(cell, last);
}

// Of both distances the one of real values; empty cells without a partner.
static void csv_distance(const struct comparison_distance *d)
{
    const double values[] = {d->real.cosine, d->real.euclidean, d->real.relative, d->real.gain};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        csv_number(d->there, values[i], false);
}

// NULL: the layer has no times, or they are in the row of its first tensor.
static void csv_times(const struct comparison *c, const struct time_pair *p)
{
    struct time_number numbers[TIME_COLUMNS] = {{0}};
    if (p)
        comparison_time_numbers(&c->times, p, numbers);
    for (int i = 0; i < TIME_COLUMNS; i++)
        csv_number(numbers[i].there, numbers[i].value, i + 1 == TIME_COLUMNS);
}

// A node with several outputs has several rows, next to each other; its time must count only once.
static bool is_first_of_node(const struct comparison *c, size_t row)
{
    return row == 0 || strcmp(c->rows[row - 1].node, c->rows[row].node) != 0;
}

static void print_row(const struct comparison *c, size_t i)
{
    const struct comparison_row *r = &c->rows[i];
    struct format_buffer b;
    csv_cell(stdout, r->op, true, false);
    csv_text(r->name, false);
    csv_text(r->node, false);
    csv_text(get_type_string(r->type), false);
    csv_text(format_dims(&b, r->dims, r->n_dims), false);
    csv_distance(&r->entire);
    csv_distance(&r->single);
    csv_times(c, is_first_of_node(c, i) ? comparison_times_find(&c->times, r->node) : NULL);
}

static bool has_row(const struct comparison *c, const struct time_pair *p)
{
    for (size_t i = 0; i < c->n; i++)
        if (p->layer && strcmp(c->rows[i].node, p->layer->name) == 0)
            return true;
    return false;
}

// A layer without a tensor to compare, or one that only the reference has.
static void print_time(const struct comparison *c, const struct time_pair *p)
{
    const rknnd_layer *l = p->layer ? p->layer : p->reference;
    const struct comparison_distance none = {0};
    csv_cell(stdout, l->op, true, false);
    csv_text("", false);
    csv_text(l->name, false);
    csv_text(l->type, false);
    csv_text("", false);
    csv_distance(&none);
    csv_distance(&none);
    csv_times(c, p);
}

void comparison_csv(const struct comparison *c)
{
    static const char *const titles[] = {
        "OpType",          "Tensor",          "Node",           "DataType",   "Shape",
        "EntireCosine",    "EntireEuclidean", "EntireRelative", "EntireGain", "SingleCosine",
        "SingleEuclidean", "SingleRelative",  "SingleGain"};
    size_t n = sizeof titles / sizeof *titles;
    for (size_t i = 0; i < n; i++)
        csv_cell(stdout, titles[i], i == 0, false);
    for (int i = 0; i < TIME_COLUMNS; i++)
        csv_cell(stdout, comparison_time_titles[i], false, i + 1 == TIME_COLUMNS);
    for (size_t i = 0; i < c->n; i++)
        print_row(c, i);
    for (size_t i = 0; i < c->times.n; i++)
        if (!has_row(c, &c->times.pairs[i]))
            print_time(c, &c->times.pairs[i]);
}
