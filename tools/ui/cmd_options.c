// Options of a command: a table of rows, translated to getopt_long(), which does the parsing, and
// printed as help. The global rows (--server, --version) are appended to each command's, so that
// they may stand before or behind the command. getopt_long() keeps its state in globals: options
// are parsed on the main thread only.
#include "tools/ui/cmd_options.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options/nearest.h"
#include "tools/input/input_form.h"
#include "tools/ui/parse.h"
#include "tools/ui/terminal.h"

#define LONG_ONLY   256 // getopt_long's value of row i without a letter: LONG_ONLY + i
#define HELP_COLUMN 26

static const struct option_row *global_rows; // of the process, as its command line is
static size_t n_global_rows;

void options_set_global(const struct option_row *rows, size_t n)
{
    global_rows = rows;
    n_global_rows = n;
}

// A command's rows, then the global ones; NULL after the last.
static const struct option_row *row_at(const struct options *o, size_t i)
{
    if (i < o->n_rows)
        return &o->rows[i];
    return i - o->n_rows < n_global_rows ? &global_rows[i - o->n_rows] : NULL;
}

// "  -n, --loop N            help", aligned in two columns.
static void print_row(char letter, const char *name, const char *argument, const char *help)
{
    char left[80] = "    ";
    if (letter)
        snprintf(left, sizeof left, "-%c, ", letter);
    size_t n = strlen(left);
    snprintf(left + n, sizeof left - n, "--%s%s%s", name, argument ? " " : "",
             argument ? argument : "");
    printf("  %-*s %s\n", HELP_COLUMN - 3, left, help);
}

void options_help(const struct options *o)
{
    printf("%sUsage:%s rknnctl %s\n\n%s\n\n%sOptions:%s\n", terminal_style(stdout, STYLE_BOLD),
           terminal_style(stdout, STYLE_PLAIN), o->usage, o->summary,
           terminal_style(stdout, STYLE_BOLD), terminal_style(stdout, STYLE_PLAIN));
    const struct option_row *row;
    for (size_t i = 0; (row = row_at(o, i)); i++)
        print_row(row->letter, row->name, row->argument, row->help);
    print_row('h', "help", NULL, "print this and end");
    if (o->more_help)
        o->more_help();
}

// Options about inputs are checked when they are given, and applied when the model is known.
static int take_form(enum input_option option, const struct option_row *row, const char *text,
                     struct failure *f)
{
    int r = input_option_check(option, text, f);
    return r ? r : text_list_add(row->target, text, f);
}

// Stores a value into the row's target, whose type the kind determines.
static int take_value(const struct option_row *row, const char *text, struct failure *f)
{
    char what[40];
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)row->target = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)row->target = text;
        return 0;
    case OPTION_LIST:
        return text_list_add(row->target, text, f);
    case OPTION_NUMBER:
        snprintf(what, sizeof what, "--%s", row->name);
        return parse_number(what, text, row->min, row->max, row->target, f);
    case OPTION_REAL:
        snprintf(what, sizeof what, "--%s", row->name);
        return parse_real(what, text, row->min, row->max, row->target, f);
    case OPTION_CALL: {
        const struct option_call *call = row->target;
        return call->call(call->user, text, f);
    }
    case OPTION_CORES:
        return parse_core_mask(text, row->target, f);
    case OPTION_LAYOUT:
        return take_form(INPUT_LAYOUT, row, text, f);
    case OPTION_TYPE:
        return take_form(INPUT_TYPE, row, text, f);
    case OPTION_FIT:
        return take_form(INPUT_FIT, row, text, f);
    case OPTION_PAD:
        return take_form(INPUT_PAD, row, text, f);
    }
    return 0;
}

// The two forms of getopt_long(): letters ("+:hx:") and names. A leading '+' stops at the first
// argument, ':' makes a missing value return ':'. A row without a letter gets the value LONG_ONLY +
// its index.
static void translate_rows(const struct options *o, char *letters, struct option *names)
{
    char *p = letters;
    const struct option_row *row;
    assert(o->n_rows + n_global_rows <= OPTIONS_MAX_ROWS);
    if (o->stop_at_argument)
        *p++ = '+';
    *p++ = ':';
    *p++ = 'h';
    for (size_t i = 0; (row = row_at(o, i)); i++) {
        int has_arg = row->argument ? required_argument : no_argument;
        int value = row->letter ? row->letter : LONG_ONLY + (int)i;
        *names++ = (struct option){row->name, has_arg, NULL, value};
        if (!row->letter)
            continue;
        *p++ = row->letter;
        if (has_arg)
            *p++ = ':';
    }
    *p = 0;
    *names++ = (struct option){"help", no_argument, NULL, 'h'};
    *names = (struct option){0};
}

static const struct option_row *find_row(const struct options *o, int value)
{
    const struct option_row *row;
    for (size_t i = 0; (row = row_at(o, i)); i++)
        if (value == (row->letter ? row->letter : LONG_ONLY + (int)i))
            break;
    return row;
}

// The end of a refusal: where the valid options are listed.
static const char *name_option(const struct options *o)
{
    return o->rows || !o->stop_at_argument ? " (see --help)"
                                           : "; a command's own options stand behind the command";
}

// An unknown or ambiguous long option. getopt_long() accepts unique prefixes; if several names
// begin with the word, all are listed, else names that are spelled alike.
static int refuse_name(const struct options *o, const char *word, struct failure *f)
{
    struct nearest near;
    const struct option_row *row;
    size_t length = strcspn(word, "=") - 2, n_begin = 0;
    char name[60], names[NEAREST_TEXT] = "";
    snprintf(name, sizeof name, "%.*s", (int)length, word + 2);
    nearest_init(&near, name);
    nearest_add(&near, "help");
    for (size_t i = 0; (row = row_at(o, i)); i++) {
        nearest_add(&near, row->name);
        if (strncmp(row->name, name, strlen(name)) != 0)
            continue;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s--%s", n_begin++ ? " or " : "", row->name);
    }
    if (length > 0 && n_begin > 1)
        return failure_set(f, EXIT_USAGE, "option %s may be %s", word, names);
    return failure_set(f, EXIT_USAGE, "unknown option %s%s%s", word,
                       nearest_question(&near, "--", names), name_option(o));
}

// Works out what getopt_long() disliked, since it prints nothing itself (opterr 0): optopt is the
// letter or value of the option, 0 for an unknown long one; argv[optind - 1] is the word.
static int refuse_option(const struct options *o, int value, char **argv, struct failure *f)
{
    const char *word = argv[optind - 1];
    char letter[3] = {'-', (char)optopt, 0};
    bool is_letter = optopt > 0 && optopt < LONG_ONLY && strncmp(word, "--", 2) != 0;
    const struct option_row *row = find_row(o, optopt);
    if (value == ':')
        return failure_set(f, EXIT_USAGE, "option %s needs a value (see --help)",
                           is_letter ? letter : word);
    if (is_letter)
        return failure_set(f, EXIT_USAGE, "unknown option %s%s", letter, name_option(o));
    if (optopt && strchr(word, '='))
        return failure_set(f, EXIT_USAGE, "option --%s takes no value", row ? row->name : "help");
    return refuse_name(o, word, f);
}

// optind = 0 reinitializes glibc's getopt: options are parsed twice, rknnctl's and the command's.
int options_parse(const struct options *o, int argc, char **argv, int *ret_first, struct failure *f)
{
    char letters[2 * OPTIONS_MAX_ROWS + 4];
    struct option names[OPTIONS_MAX_ROWS + 2];
    translate_rows(o, letters, names);
    opterr = 0;
    optind = 0;
    for (;;) {
        int value = getopt_long(argc, argv, letters, names, NULL);
        if (value == -1)
            break;
        if (value == '?' || value == ':')
            return refuse_option(o, value, argv, f);
        if (value == 'h') {
            options_help(o);
            return OPTIONS_HELP;
        }
        int r = take_value(find_row(o, value), optarg, f);
        if (r)
            return r;
    }
    *ret_first = optind;
    return 0;
}

// The usage is part of the refusal, since it shows which arguments there are.
int options_parse_n(const struct options *o, int argc, char **argv, int min, int max,
                    int *ret_first, struct failure *f)
{
    int r = options_parse(o, argc, argv, ret_first, f);
    if (r)
        return r;
    int n = argc - *ret_first;
    if (n > max)
        return failure_set(f, EXIT_USAGE, "unexpected argument \"%s\"; usage: rknnctl %s",
                           argv[*ret_first + max], o->usage);
    if (n < min)
        return failure_set(f, EXIT_USAGE, "too few arguments; usage: rknnctl %s", o->usage);
    return 0;
}

int options_check_form(bool json, bool csv, struct failure *f)
{
    return json && csv ? failure_set(f, EXIT_USAGE, "--json and --csv are two forms: ask for one")
                       : 0;
}
