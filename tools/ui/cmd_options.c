// Options of a command. The global rows (--server, --version) are appended to each command's, so
// that they may stand before or behind the command.
#include "tools/ui/cmd_options.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tools/ui/terminal.h"

#define HELP_COLUMN 26

static const struct option_row *global_rows; // of the process, as its command line is
static size_t n_global_rows;

void cmd_options_set_global(const struct option_row *rows, size_t n)
{
    global_rows = rows;
    n_global_rows = n;
}

static int print_help(void *options, const char *text, struct error *e)
{
    (void)text, (void)e;
    cmd_options_help(options);
    return OPTION_TABLE_END;
}

// The command's rows, then the global ones, then --help; `rows` has OPTION_TABLE_MAX_ROWS.
static struct option_table make_table(const struct cmd_options *o, struct option_row *rows)
{
    size_t n = o->n_rows;
    assert(n + n_global_rows + 1 <= OPTION_TABLE_MAX_ROWS);
    if (n > 0)
        memcpy(rows, o->rows, n * sizeof *rows);
    if (n_global_rows > 0)
        memcpy(rows + n, global_rows, n_global_rows * sizeof *rows);
    n += n_global_rows;
    rows[n++] = (struct option_row){'h', "help", OPTION_CALL, (void *)o, NULL, "print this and end",
                                    0,   0,      print_help};
    return (struct option_table){
        .rows = rows,
        .n_rows = n,
        .stop_at_argument = o->stop_at_argument,
        .hint = o->rows || !o->stop_at_argument
                    ? NULL
                    : "; a command's own options stand behind the command",
    };
}

void cmd_options_help(const struct cmd_options *o)
{
    struct option_row rows[OPTION_TABLE_MAX_ROWS];
    struct option_table table = make_table(o, rows);
    printf("%sUsage:%s rknnctl %s\n\n%s\n\n%sOptions:%s\n", terminal_style(stdout, STYLE_BOLD),
           terminal_style(stdout, STYLE_PLAIN), o->usage, o->summary,
           terminal_style(stdout, STYLE_BOLD), terminal_style(stdout, STYLE_PLAIN));
    option_table_print(&table, HELP_COLUMN);
    if (o->more_help)
        o->more_help();
}

int cmd_options_parse(const struct cmd_options *o, int argc, char **argv, int *ret_first,
                      struct error *e)
{
    struct option_row rows[OPTION_TABLE_MAX_ROWS];
    struct option_table table = make_table(o, rows);
    return option_table_parse(&table, argc, argv, ret_first, e);
}

// The usage is part of the refusal, since it shows which arguments there are.
int cmd_options_parse_n(const struct cmd_options *o, int argc, char **argv, int min, int max,
                        int *ret_first, struct error *e)
{
    int r = cmd_options_parse(o, argc, argv, ret_first, e);
    if (r)
        return r;
    int n = argc - *ret_first;
    if (n > max)
        return error_set(e, STATUS_PARAM_INVALID, "unexpected argument \"%s\"; usage: rknnctl %s",
                         argv[*ret_first + max], o->usage);
    if (n < min)
        return error_set(e, STATUS_PARAM_INVALID, "too few arguments; usage: rknnctl %s", o->usage);
    return 0;
}

int cmd_options_check_form(bool json, bool csv, struct error *e)
{
    return json && csv
               ? error_set(e, STATUS_PARAM_INVALID, "--json and --csv are two forms: ask for one")
               : 0;
}
