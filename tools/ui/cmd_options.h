// Options of a command: a table of rows (base/options/option_table.h), with those that every
// command has, and the text of --help.
//
// Rules for all commands, which test_options.py holds:
// - A letter stands for one long name everywhere, and a long name means one thing everywhere: an
//   option that another command has too is a row of the macros below (or of task.h, comparison.h),
//   not a new one. Most options have no letter.
// - What is said of inputs' files is in TASK_INPUTS, of how a model is loaded in TASK_LOADING
//   (task.h): an option that is added there is known to every command.
// - The manual (docs/rknnctl.1) has each of them, and tools/completion/generate.py has been run.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/options/option_table.h"

// Rows that several commands have.
#define OPTIONS_JSON(p)                                                                            \
    {                                                                                              \
        'j', "json", OPTION_FLAG, p, NULL, "print JSON", 0, 0, NULL                                \
    }
#define OPTIONS_CSV(p)                                                                             \
    {                                                                                              \
        0, "csv", OPTION_FLAG, p, NULL, "print a table for a spreadsheet", 0, 0, NULL              \
    }
#define OPTIONS_OUTPUT(p, argument, help)                                                          \
    {                                                                                              \
        'o', "output", OPTION_TEXT, p, argument, help, 0, 0, NULL                                  \
    }
// How often: runs, round trips, looks.
#define OPTIONS_LOOP(p, help, min, max)                                                            \
    {                                                                                              \
        'n', "loop", OPTION_NUMBER, p, "N", help, min, max, NULL                                   \
    }
#define OPTIONS_CLIENTS(p, max)                                                                    \
    {                                                                                              \
        0, "clients", OPTION_NUMBER, p, "N", "clients at the same time", 1, max, NULL              \
    }
#define OPTIONS_WARMUP(p)                                                                          \
    {                                                                                              \
        'w', "warmup", OPTION_NUMBER, p, "N", "runs before measuring (default 3)", 0, 1000000,     \
            NULL                                                                                   \
    }
#define OPTIONS_SEED(p)                                                                            \
    {                                                                                              \
        0, "seed", OPTION_NUMBER, p, "N", "of made-up inputs (default 1)", 0, UINT32_MAX, NULL     \
    }
#define OPTIONS_RAW(p, help)                                                                       \
    {                                                                                              \
        'r', "raw", OPTION_FLAG, p, NULL, help, 0, 0, NULL                                         \
    }

struct cmd_options {
    const char *usage;   // "run MODEL -i FILE…", behind "rknnctl "
    const char *summary; // what it does, some lines, without the last newline
    const struct option_row *rows;
    size_t n_rows;           // with the global ones and --help at most OPTION_TABLE_MAX_ROWS
    void (*more_help)(void); // prints what follows the options in --help; or NULL
    bool stop_at_argument;   // options behind the first argument are not ours
};

/// Rows that every command has besides its own; they outlive all parsing.
void cmd_options_set_global(const struct option_row *rows, size_t n);

/// As option_table_parse, which see. OPTION_TABLE_END: --help, or the like, has been printed.
int cmd_options_parse(const struct cmd_options *o, int argc, char **argv, int *ret_first,
                      struct error *e);

/// As cmd_options_parse, for a command whose arguments are between `min` and `max` in number.
int cmd_options_parse_n(const struct cmd_options *o, int argc, char **argv, int min, int max,
                        int *ret_first, struct error *e);

void cmd_options_help(const struct cmd_options *o);

/// STATUS_PARAM_INVALID where both are asked for.
int cmd_options_check_form(bool json, bool csv, struct error *e);
