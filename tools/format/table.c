// A table of text in as many columns as the terminal has. Steps to make it fit:
//
//   1. measure: each column as wide as its widest cell
//   2. leave out columns, the most dispensable first, until flexible ones have GOOD_CELL
//   3. narrow the flexible columns, the widest first, down to LEAST_CELL
//   4. cut the cells that are too long: at the end, or names by cut.h
//
// In a pipe (width 0) nothing is left out or cut. Widths count characters of UTF-8.
#include "tools/format/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text/text.h"
#include "tools/format/csv.h"
#include "tools/format/cut.h"
#include "tools/ui/terminal.h"

#define GAP        2
#define LEAST_CELL 8
#define GOOD_CELL  16 // others are left out so that a flexible column can have as much

void table_init(struct table *t, const struct table_column *columns, size_t n_columns)
{
    *t = (struct table){.columns = columns, .n_columns = n_columns};
}

void table_done(struct table *t)
{
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (struct table){0};
}

// Names in it are a model's or a program's. Running out of memory is only noted: table_print()
// reports it, callers need not check each cell.
void table_cell(struct table *t, const char *format, ...)
{
    if (array_reserve(t->cells, t->room, t->n_cells + 1, "a table", NULL) < 0) {
        t->failed = 1;
        return;
    }
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) {
        t->failed = 1;
        return;
    }
    text_make_printable(text);
    t->cells[t->n_cells++] = text;
}

static void measure_columns(const struct table *t, size_t *widths)
{
    assert(t->n_columns > 0);
    for (size_t c = 0; c < t->n_columns; c++)
        widths[c] = cut_width(t->columns[c].title);
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t n = cut_width(t->cells[i]), c = i % t->n_columns;
        if (n > widths[c])
            widths[c] = n;
    }
}

static size_t total_width(const struct table *t, const size_t *widths)
{
    size_t total = (t->n_columns - 1) * GAP;
    for (size_t c = 0; c < t->n_columns; c++)
        total += widths[c];
    return total;
}

// Without limits; describe.c prints records instead when it is too much.
size_t table_width(const struct table *t)
{
    size_t widths[t->n_columns];
    measure_columns(t, widths);
    return total_width(t, widths);
}

// Of a column that has been left out.
#define LEFT_OUT SIZE_MAX

// Width of a line in which flexible columns have at most `flexible` characters.
static size_t line_width(const struct table *t, const size_t *widths, size_t flexible)
{
    size_t total = 0;
    for (size_t c = 0; c < t->n_columns; c++) {
        size_t width = widths[c];
        if (width == LEFT_OUT)
            continue;
        if (t->columns[c].flexible && width > flexible)
            width = flexible;
        total += width + (total ? GAP : 0);
    }
    return total;
}

// Step 2. Columns with `missable` 0 always stay, so that a line may remain too long.
static void leave_out(const struct table *t, size_t *widths, size_t limit)
{
    while (line_width(t, widths, GOOD_CELL) > limit) {
        size_t first = t->n_columns;
        for (size_t c = 0; c < t->n_columns; c++)
            if (t->columns[c].missable && widths[c] != LEFT_OUT &&
                (first == t->n_columns || t->columns[c].missable > t->columns[first].missable))
                first = c;
        if (first == t->n_columns)
            return;
        widths[first] = LEFT_OUT;
    }
}

// Step 3: one character at a time from the widest flexible column.
static void shrink_columns(const struct table *t, size_t *widths, size_t limit)
{
    for (size_t total = line_width(t, widths, SIZE_MAX); total > limit; total--) {
        size_t widest = t->n_columns;
        for (size_t c = 0; c < t->n_columns; c++)
            if (t->columns[c].flexible && widths[c] != LEFT_OUT && widths[c] > LEAST_CELL &&
                (widest == t->n_columns || widths[c] > widths[widest]))
                widest = c;
        if (widest == t->n_columns)
            return;
        widths[widest]--;
    }
}

// "~" marks a cut end.
static void print_cell(FILE *out, const char *text, size_t width, const struct table_column *c,
                       int last)
{
    size_t n = cut_width(text);
    int pad = n < width ? (int)(width - n) : 0;
    if (c->align == TABLE_RIGHT)
        fprintf(out, "%*s", pad, "");
    if (n > width)
        fprintf(out, "%.*s~", (int)cut_bytes(text, width - 1), text);
    else
        fputs(text, out);
    if (!last)
        fprintf(out, "%*s", GAP + (c->align == TABLE_LEFT ? pad : 0), "");
}

// Trailing empty cells are not padded: lines end after the last text.
static size_t used_columns(const struct table *t, char *const *cells, const size_t *widths)
{
    size_t n = t->n_columns;
    while (n > 1 &&
           (widths[n - 1] == LEFT_OUT || !*(cells ? cells[n - 1] : t->columns[n - 1].title)))
        n--;
    return n;
}

static void print_row(const struct table *t, FILE *out, char *const *cells, const size_t *widths)
{
    size_t n = used_columns(t, cells, widths);
    for (size_t c = 0; c < n; c++) {
        const struct table_column *column = &t->columns[c];
        if (widths[c] != LEFT_OUT)
            print_cell(out, cells ? cells[c] : column->title, widths[c], column, c + 1 == n);
    }
}

static void print_left_out(const struct table *t, FILE *out, const char *indent,
                           const size_t *widths)
{
    unsigned n = 0;
    for (size_t c = 0; c < t->n_columns; c++)
        n += widths[c] == LEFT_OUT;
    if (n)
        fprintf(out, "%s(%u more column%s: on a wider terminal, or in a pipe)\n", indent, n,
                n == 1 ? "" : "s");
}

// Step 4 for columns of names; the other cells are the table's own texts, which free_cells() tells
// apart by their address.
static char **cut_cells(const struct table *t, const size_t *widths)
{
    char **cells = malloc((t->n_cells + 1) * sizeof *cells);
    if (!cells)
        return NULL;
    if (t->n_cells)
        memcpy(cells, t->cells, t->n_cells * sizeof *cells);
    int r = 0;
    for (size_t c = 0; c < t->n_columns && r == 0; c++)
        if (t->columns[c].flexible == TABLE_CUT_START && widths[c] != LEFT_OUT)
            r = cut_names(t->cells + c, t->n_cells / t->n_columns, t->n_columns, widths[c],
                          cells + c);
    return cells;
}

static void free_cells(const struct table *t, char **cells)
{
    for (size_t i = 0; i < t->n_cells; i++)
        if (cells[i] != t->cells[i])
            free(cells[i]);
    free(cells);
}

int table_print(const struct table *t, FILE *out, const char *indent, size_t width)
{
    size_t widths[t->n_columns], margin = strlen(indent);
    if (t->failed)
        return -1;
    measure_columns(t, widths);
    if (width) {
        size_t limit = width > margin ? width - margin : 1;
        leave_out(t, widths, limit);
        shrink_columns(t, widths, limit);
    }
    char **cells = cut_cells(t, widths);
    if (!cells)
        return -1;
    fprintf(out, "%s%s", indent, terminal_style(out, STYLE_BOLD));
    print_row(t, out, NULL, widths);
    fprintf(out, "%s\n", terminal_style(out, STYLE_PLAIN));
    for (size_t i = 0; i + t->n_columns <= t->n_cells; i += t->n_columns) {
        fputs(indent, out);
        print_row(t, out, cells + i, widths);
        fputc('\n', out);
    }
    free_cells(t, cells);
    print_left_out(t, out, indent, widths);
    return 0;
}

int table_csv(const struct table *t, FILE *out)
{
    size_t n = t->n_columns;
    assert(n > 0);
    if (t->failed)
        return -1;
    for (size_t c = 0; c < n; c++)
        csv_cell(out, t->columns[c].title, c == 0, c + 1 == n);
    for (size_t i = 0; i < t->n_cells; i++)
        csv_cell(out, t->cells[i], i % n == 0, i % n + 1 == n);
    return 0;
}
