// The table of options: names, ranges, help texts, and where in a struct options each goes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/options/option_table.h"
#include "server/config/options.h"

struct options_rows {
    struct option_row rows[OPTION_TABLE_MAX_ROWS];
    size_t n;
};

/// What a configuration file may say, with targets in `o`, which must outlive the rows. The command
/// line has some more.
void options_list(struct options *o, struct options_rows *ret);

/// Copies rows behind those that are there. They must fit.
void options_add_rows(struct options_rows *r, const struct option_row *rows, size_t n);

/// Index of a user's quota in `o`; n_quotas: there is none.
uint32_t options_find_quota(const struct options *o, const char *user);

/// Sets one option by its long name.
int options_set(struct options *o, const char *name, const char *value, struct error *e);

/// An option that is a number, or yes (1) or no (0).
struct options_number {
    const char *name;
    bool bytes;
    uint64_t value, usual; // usual: where nothing says it
};

#define OPTIONS_MAX_NUMBERS 64

/// All of these that people can set, in the order of --help. Returns how many.
size_t options_list_numbers(const struct options *o,
                            struct options_number ret[OPTIONS_MAX_NUMBERS]);
