// Options of a command: one table gives getopt_long's input, the checks and the text of --help.
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
#include <stdint.h>

#include "tools/ui/failure.h"
#include "tools/ui/text_list.h"

enum option_kind {
    OPTION_FLAG,   // bool
    OPTION_TEXT,   // const char *
    OPTION_LIST,   // struct text_list; each use of the option appends
    OPTION_NUMBER, // uint32_t, in [min, max]
    OPTION_REAL,   // double, in [min, max]
    OPTION_CORES,  // uint32_t, rknn_core_mask
    OPTION_LAYOUT, // struct text_list of [INPUT=]VALUE, checked (input_form.h), as the next three
    OPTION_TYPE,
    OPTION_FIT,
    OPTION_PAD,
    OPTION_CALL, // struct option_call
};

struct option_call {
    // `text` is NULL if the row has no argument. Returns 0, OPTIONS_HELP or an exit code.
    int (*call)(void *user, const char *text, struct failure *f);
    void *user;
};

struct option_row {
    char letter;      // 0: no short form
    const char *name; // "loop"
    enum option_kind kind;
    void *target;         // of the kind's type; untouched when the option is not given
    const char *argument; // "N" in --help; NULL: the option takes none
    const char *help;     // one line
    uint32_t min, max;    // OPTION_NUMBER and OPTION_REAL
};

// Rows that several commands have.
#define OPTIONS_JSON(p)                                                                            \
    {                                                                                              \
        'j', "json", OPTION_FLAG, p, NULL, "print JSON", 0, 0                                      \
    }
#define OPTIONS_CSV(p)                                                                             \
    {                                                                                              \
        0, "csv", OPTION_FLAG, p, NULL, "print a table for a spreadsheet", 0, 0                    \
    }
#define OPTIONS_OUTPUT(p, argument, help)                                                          \
    {                                                                                              \
        'o', "output", OPTION_TEXT, p, argument, help, 0, 0                                        \
    }
// How often: runs, round trips, looks.
#define OPTIONS_LOOP(p, help, min, max)                                                            \
    {                                                                                              \
        'n', "loop", OPTION_NUMBER, p, "N", help, min, max                                         \
    }
#define OPTIONS_WARMUP(p)                                                                          \
    {                                                                                              \
        'w', "warmup", OPTION_NUMBER, p, "N", "runs before measuring (default 3)", 0, 1000000      \
    }
#define OPTIONS_SEED(p)                                                                            \
    {                                                                                              \
        0, "seed", OPTION_NUMBER, p, "N", "of made-up inputs (default 1)", 0, UINT32_MAX           \
    }
#define OPTIONS_RAW(p, help)                                                                       \
    {                                                                                              \
        'r', "raw", OPTION_FLAG, p, NULL, help, 0, 0                                               \
    }

#define OPTIONS_MAX_ROWS 40 // with the global ones

struct options {
    const char *usage;   // "run MODEL -i FILE…", behind "rknnctl "
    const char *summary; // what it does, some lines, without the last newline
    const struct option_row *rows;
    size_t n_rows;
    void (*more_help)(void); // prints what follows the options in --help; or NULL
    bool stop_at_argument;   // options behind the first argument are not ours
};

// Not an exit code: --help, or the like, was asked for and printed.
#define OPTIONS_HELP (-1)

/// Rows that every command has besides its own; they outlive all parsing.
void options_set_global(const struct option_row *rows, size_t n);

/// Parses argv[1..]. Fills the rows' targets and moves the other arguments to the end of argv, from
/// *ret_first on. Returns 0, OPTIONS_HELP or EXIT_USAGE.
int options_parse(const struct options *o, int argc, char **argv, int *ret_first,
                  struct failure *f);

/// As options_parse, for a command whose arguments are between `min` and `max` in number.
int options_parse_n(const struct options *o, int argc, char **argv, int min, int max,
                    int *ret_first, struct failure *f);

void options_help(const struct options *o);

/// EXIT_USAGE where both are asked for.
int options_check_form(bool json, bool csv, struct failure *f);
