// A table of text: columns as wide as their widest cell. To fit a terminal, dispensable columns are
// left out and flexible ones are cut; in a pipe nothing is.
#pragma once

#include <stddef.h>
#include <stdio.h>

struct table_column {
    const char *title;
    enum table_align { TABLE_LEFT, TABLE_RIGHT } align;
    enum table_flex {
        TABLE_FIXED,
        TABLE_CUT_END,  // gives way when the line is too long
        TABLE_CUT_START // the same, for names, which stay different (cut.h)
    } flexible;
    int missable; // 0: always there; else the larger, the sooner it is left out of a long line
};

struct table {
    const struct table_column *columns; // outlive the table
    size_t n_columns, n_cells, room;
    char **cells; // row by row
    int failed;   // out of memory at some cell
};

void table_init(struct table *t, const struct table_column *columns, size_t n_columns);
void table_done(struct table *t);

/// Adds the next cell of the current row.
void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// Prints titles and all cells for a spreadsheet. Returns as table_print.
int table_csv(const struct table *t, FILE *out);

/// Columns that a line takes when nothing is cut.
size_t table_width(const struct table *t);

/// Prints head and rows, each line behind `indent`, in at most `width` columns (0: no limit); a
/// last line says how many columns were left out. The last column is not one that can be missed.
/// Returns 0, or -1 if memory ran out while cells were added (then nothing is printed).
int table_print(const struct table *t, FILE *out, const char *indent, size_t width);
