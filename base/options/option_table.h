// Options of a program: one table gives what getopt_long() needs, the checks, what a configuration
// file may set, and the text of --help.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum option_kind {
    OPTION_FLAG,      // bool; in a file yes or no
    OPTION_TEXT,      // const char *, which points to the text that was parsed
    OPTION_NUMBER,    // uint32_t, in [min, max]
    OPTION_BYTES,     // uint64_t, in [min, max]; K, M or G may follow
    OPTION_REAL,      // double, in [min, max]
    OPTION_LOG_LEVEL, // of the process; no target
    OPTION_CALL,      // whatever `call` takes
    OPTION_LIST,      // the same, and each time it is given adds to what was given before
};

/// Takes an option's text, NULL if its row has no argument. Returns 0, a negative status with words
/// that need not name the option, or a positive number, which ends the parsing (OPTION_TABLE_END,
/// where nothing else is meant).
typedef int option_call(void *target, const char *text, struct error *e);

struct option_row {
    char letter;      // 0: no short form
    const char *name; // "loop"
    enum option_kind kind;
    void *target;         // of the kind's type; untouched when the option is not given
    const char *argument; // "N" in --help; NULL: the option takes none
    const char *help;     // one line; NULL: not for people, neither shown nor suggested
    uint64_t min, max;
    option_call *call; // OPTION_CALL, OPTION_LIST
};

#define OPTION_TABLE_MAX_ROWS 64
#define OPTION_TABLE_END      1 // --help, --version: what was asked for has been printed

struct option_table {
    const struct option_row *rows;
    size_t n_rows;
    bool stop_at_argument; // options behind the first argument are somebody else's
    const char *hint;      // ends the words about an option that is not known; NULL: see --help
};

/// Parses argv[1..], in order. Moves arguments that are no options to the end of argv, from
/// *ret_first on. Returns 0, what a row's call returned to end the parsing, or the error with the
/// option's name. On one thread only, since getopt_long() is.
int option_table_parse(const struct option_table *t, int argc, char **argv, int *ret_first,
                       struct error *e);

/// The row of that name, from 0 on; -1: none.
int option_table_find(const struct option_table *t, const char *name);

/// Sets one option, as a configuration file does. Errors name the option.
int option_table_set(const struct option_table *t, const char *name, const char *text,
                     struct error *e);

/// Prints a line for each row that has help, which begins in the given column.
void option_table_print(const struct option_table *t, int column);
