// A table of text: columns as wide as their widest cell, the flexible one cut so that a line fits
// a terminal. In a pipe nothing is cut.
#pragma once

#include <stddef.h>
#include <stdio.h>

struct table_column {
    const char *title;
    enum table_align { TABLE_LEFT, TABLE_RIGHT } align;
    int flexible; // gives way when the line is too long
};

struct table {
    const struct table_column *columns; // outlive the table
    size_t n_columns, n_cells, capacity;
    char **cells; // row by row
    int failed;   // out of memory at some cell
};

void table_init(struct table *t, const struct table_column *columns, size_t n_columns);
void table_done(struct table *t);

/// Adds the next cell of the current row.
void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// Columns that a line takes when nothing is cut.
size_t table_width(const struct table *t);

/// Prints head and rows, each line behind `indent`, in at most `width` columns (0: no limit).
/// Returns 0, or -1 if memory ran out while cells were added (then nothing is printed).
int table_print(const struct table *t, FILE *out, const char *indent, size_t width);
