// Options, from a table of rows: translated to getopt_long(), which does the parsing, and printed
// as help.
#include "base/options/option_table.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/options/nearest.h"
#include "base/options/number.h"

#define LONG_ONLY 256 // getopt_long's value of row i without a letter: LONG_ONLY + i

// ---- values ------------------------------------------------------------------------------------

// On the command line a flag has no text.
static int set_flag(bool *target, const char *text, struct error *e)
{
    if (text && strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is neither yes nor no", text);
    *target = !text || strcmp(text, "yes") == 0;
    return 0;
}

static int set_number(const struct option_row *row, const char *text, struct error *e)
{
    uint64_t n;
    int r = number_parse(text, row->min, row->max, &n, e);
    if (r == 0)
        *(uint32_t *)row->target = (uint32_t)n;
    return r;
}

static int set_log_level(const char *text, struct error *e)
{
    if (!*text || !log_set_level_text(text))
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is no level: " LOG_LEVELS, text);
    return 0;
}

// Stores a value into the row's target, whose type the kind determines. Errors do not name the
// option.
static int set_row(const struct option_row *row, const char *text, struct error *e)
{
    switch (row->kind) {
    case OPTION_FLAG:
        return set_flag(row->target, text, e);
    case OPTION_TEXT:
        *(const char **)row->target = text;
        return 0;
    case OPTION_NUMBER:
        return set_number(row, text, e);
    case OPTION_BYTES:
        return number_parse_bytes(text, row->min, row->max, row->target, e);
    case OPTION_REAL:
        return number_parse_real(text, row->min, row->max, row->target, e);
    case OPTION_LOG_LEVEL:
        return set_log_level(text, e);
    case OPTION_CALL:
    case OPTION_LIST:
        break;
    }
    return row->call(row->target, text, e);
}

// ---- refusals ----------------------------------------------------------------------------------

// Names that are spelled like one that is not known, as a question; "" if there are none.
static const char *ask_near(const struct option_table *t, const char *name, const char *prefix,
                            char ret[NEAREST_TEXT])
{
    struct nearest near;
    nearest_init(&near, name);
    for (size_t i = 0; i < t->n_rows; i++)
        if (t->rows[i].help)
            nearest_add(&near, t->rows[i].name);
    return nearest_question(&near, prefix, ret);
}

// "--a or --b": the names that begin with `name`, of which there are *ret_n.
static void list_beginnings(const struct option_table *t, const char *name, size_t *ret_n,
                            char names[NEAREST_TEXT])
{
    size_t n = 0, used = 0;
    for (size_t i = 0; i < t->n_rows && used < NEAREST_TEXT; i++)
        if (strncmp(t->rows[i].name, name, strlen(name)) == 0)
            used += (size_t)snprintf(names + used, NEAREST_TEXT - used, "%s--%s", n++ ? " or " : "",
                                     t->rows[i].name);
    *ret_n = n;
}

static const char *end_refusal(const struct option_table *t)
{
    return t->hint ? t->hint : " (see --help)";
}

// An unknown or ambiguous long option: `word` begins with two dashes. getopt_long() accepts unique
// prefixes; if several names begin with the word, all are listed, else names that are spelled
// alike.
static int refuse_name(const struct option_table *t, const char *word, struct error *e)
{
    size_t n;
    char name[60], names[NEAREST_TEXT] = "";
    snprintf(name, sizeof name, "%.*s", (int)(strcspn(word, "=") - 2), word + 2);
    list_beginnings(t, name, &n, names);
    if (*name && n > 1)
        return error_set(e, STATUS_PARAM_INVALID, "option %s may be %s", word, names);
    return error_set(e, STATUS_PARAM_INVALID, "unknown option %s%s%s", word,
                     ask_near(t, name, "--", names), end_refusal(t));
}

// The row of a value of getopt_long(); NULL: none.
static const struct option_row *find_row(const struct option_table *t, int value)
{
    for (size_t i = 0; i < t->n_rows; i++)
        if (value == (t->rows[i].letter ? t->rows[i].letter : LONG_ONLY + (int)i))
            return &t->rows[i];
    return NULL;
}

// Works out what getopt_long() disliked, since it prints nothing itself (opterr 0): optopt is the
// letter or value of the option, 0 for an unknown long one; argv[optind - 1] is the word.
static int refuse_option(const struct option_table *t, int value, char **argv, struct error *e)
{
    const char *word = argv[optind - 1];
    char letter[3] = {'-', (char)optopt, 0};
    bool is_letter = optopt > 0 && optopt < LONG_ONLY && strncmp(word, "--", 2) != 0;
    const struct option_row *row = find_row(t, optopt);
    if (value == ':')
        return error_set(e, STATUS_PARAM_INVALID, "option %s needs a value (see --help)",
                         is_letter ? letter : word);
    if (is_letter)
        return error_set(e, STATUS_PARAM_INVALID, "unknown option %s%s", letter, end_refusal(t));
    if (row && strchr(word, '='))
        return error_set(e, STATUS_PARAM_INVALID, "option --%s takes no value", row->name);
    return refuse_name(t, word, e);
}

// ---- parsing -----------------------------------------------------------------------------------

// The two forms of getopt_long(): letters ("+:hx:") and names. A leading '+' stops at the first
// argument, ':' makes a missing value return ':'.
static void translate_rows(const struct option_table *t, char *letters, struct option *names)
{
    char *p = letters;
    if (t->stop_at_argument)
        *p++ = '+';
    *p++ = ':';
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct option_row *row = &t->rows[i];
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
    *names = (struct option){0};
}

// optind = 0 reinitializes glibc's getopt: a program may parse several times.
int option_table_parse(const struct option_table *t, int argc, char **argv, int *ret_first,
                       struct error *e)
{
    char letters[2 * OPTION_TABLE_MAX_ROWS + 3];
    struct option names[OPTION_TABLE_MAX_ROWS + 1];
    assert(t->n_rows <= OPTION_TABLE_MAX_ROWS);
    translate_rows(t, letters, names);
    opterr = 0;
    optind = 0;
    int value;
    while ((value = getopt_long(argc, argv, letters, names, NULL)) != -1) {
        if (value == '?' || value == ':')
            return refuse_option(t, value, argv, e);
        const struct option_row *row = find_row(t, value);
        int r = set_row(row, optarg, e);
        if (r < 0)
            error_prefix(e, "--%s", row->name);
        if (r)
            return r;
    }
    *ret_first = optind;
    return 0;
}

int option_table_find(const struct option_table *t, const char *name)
{
    for (size_t i = 0; i < t->n_rows; i++)
        if (strcmp(t->rows[i].name, name) == 0)
            return (int)i;
    return -1;
}

int option_table_set(const struct option_table *t, const char *name, const char *text,
                     struct error *e)
{
    char names[NEAREST_TEXT];
    int i = option_table_find(t, name);
    if (i < 0)
        return error_set(e, STATUS_PARAM_INVALID, "unknown option \"%s\"%s", name,
                         ask_near(t, name, "", names));
    int r = set_row(&t->rows[i], text, e);
    if (r < 0)
        error_prefix(e, "%s", name);
    return r;
}

// ---- help --------------------------------------------------------------------------------------

// "  -n, --loop N            help", aligned in two columns. Where no row has a letter, none has
// room for one.
void option_table_print(const struct option_table *t, int column)
{
    bool letters = false;
    for (size_t i = 0; i < t->n_rows; i++)
        letters = letters || t->rows[i].letter;
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct option_row *row = &t->rows[i];
        char left[80] = "";
        if (!row->help)
            continue;
        if (row->letter)
            snprintf(left, sizeof left, "-%c, ", row->letter);
        else if (letters)
            strcpy(left, "    ");
        size_t n = strlen(left);
        snprintf(left + n, sizeof left - n, "--%s%s%s", row->name, row->argument ? " " : "",
                 row->argument ? row->argument : "");
        printf("  %-*s %s\n", column - 4, left, row->help);
    }
}
