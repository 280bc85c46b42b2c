// Options of a command: one table gives getopt_long's input, the checks and the text of --help.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/failure.h"

struct text_list {
    const char **items; // of options: point into argv
    size_t n;
};

/// `item` outlives the list.
int text_list_add(struct text_list *l, const char *item, struct failure *f);
void text_list_done(struct text_list *l);

enum option_kind {
    OPTION_FLAG,   // bool
    OPTION_TEXT,   // const char *
    OPTION_LIST,   // struct text_list; each use of the option appends
    OPTION_NUMBER, // uint32_t, in [min, max]
    OPTION_CORES,  // uint32_t, rknn_core_mask
    OPTION_LAYOUT, // rknn_tensor_format
};

struct option_row {
    char letter;      // 0: no short form
    const char *name; // "loop"
    enum option_kind kind;
    void *target;         // of the kind's type; untouched when the option is not given
    const char *argument; // "N" in --help; NULL for OPTION_FLAG
    const char *help;     // one line
    uint32_t min, max;    // OPTION_NUMBER
};

#define OPTIONS_MAX_ROWS 24

struct options {
    const char *usage;   // "run MODEL -i FILE…", behind "rknnctl "
    const char *summary; // what it does, some lines, without the last newline
    const struct option_row *rows;
    size_t n_rows;
    void (*more_help)(void); // prints what follows the options in --help; or NULL
    bool stop_at_argument;   // options behind the first argument are not ours
};

// Not an exit code: --help was asked for and printed.
#define OPTIONS_HELP (-1)

/// Parses argv[1..]. Fills the rows' targets and moves the other arguments to the end of argv, from
/// *ret_first on. Returns 0, OPTIONS_HELP or EXIT_USAGE.
int options_parse(const struct options *o, int argc, char **argv, int *ret_first,
                  struct failure *f);

/// As options_parse, for a command whose arguments are between `min` and `max` in number.
int options_parse_n(const struct options *o, int argc, char **argv, int min, int max,
                    int *ret_first, struct failure *f);

void options_help(const struct options *o);
