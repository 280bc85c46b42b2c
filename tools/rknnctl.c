// rknnctl: looks at rknnd servers and runs models on them. main() parses the global options,
// dispatches to a command's cmd_*.c, prints the one failure that comes back and turns it into the
// exit code. Commands run on the main thread; rknnctl's only other threads are those of `bench` and
// of the progress line.
#include "tools/rknnctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/file/output_file.h"
#include "base/options/nearest.h"
#include "rknnd.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/exit_code.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

#define X(name, summary) {#name, summary, cmd_##name},
static struct command commands[] = {COMMAND_LIST(X)};
#undef X

#define N_COMMANDS (sizeof commands / sizeof *commands)

static void name_commands(void)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        for (char *c = commands[i].name; (c = strchr(c, '_'));)
            *c = '-';
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

// Refuses a command and suggests those that are spelled much like it.
static int unknown_command(const char *name, struct error *e)
{
    struct nearest near;
    char names[NEAREST_TEXT];
    nearest_init(&near, name);
    nearest_add(&near, "help");
    for (size_t i = 0; i < N_COMMANDS; i++)
        nearest_add(&near, commands[i].name);
    return error_set(e, STATUS_PARAM_INVALID, "unknown command \"%s\"%s (see rknnctl help)", name,
                     nearest_question(&near, "", names));
}

static void list_commands(void)
{
    printf("\n%sCommands:%s\n", terminal_style(stdout, STYLE_BOLD),
           terminal_style(stdout, STYLE_PLAIN));
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-12s %s\n", commands[i].name, commands[i].summary);
    printf("  %-12s %s\n", "help", "what this prints, or the help of a command");
    printf("\nrknnctl help COMMAND and rknnctl COMMAND --help have more.\n\n"
           "Exit codes: 0 done, 1 failed, 2 usage, 3 no server or server lost,\n"
           "4 model not readable or refused, 5 input not readable or not fitting,\n"
           "6 worse than --fail-above or --fail-below allows.\n");
}

static const struct cmd_options no_command = {
    .usage = "[OPTION…] COMMAND [OPTION…] …",
    .summary = "Looks at rknnd servers and runs models on them. Without --server: RKNND_SERVER\n"
               "in the environment, else the local Unix socket, else the only board.",
    .more_help = list_commands,
    .stop_at_argument = true,
};

// `help COMMAND` is `COMMAND --help`: each command prints its own options.
static int print_help(const struct settings *settings, int argc, char **argv, struct error *e)
{
    if (argc > 2)
        return error_set(e, STATUS_PARAM_INVALID,
                         "unexpected argument \"%s\"; usage: rknnctl help [COMMAND]", argv[2]);
    const char *name = argc == 2 && argv[1][0] != '-' ? argv[1] : "help";
    const struct command *command = find_command(name);
    if (command)
        return command->run(settings, 2, (char *[]){argv[1], (char *)"--help", NULL}, e);
    if (strcmp(name, "help") != 0)
        return unknown_command(name, e);
    cmd_options_help(&no_command);
    return OPTION_TABLE_END;
}

// Called while options are parsed, by rknnctl's own options or by a command's: --server may stand
// before or behind the command. The library takes it as the default of all contexts.
static int set_server(void *target, const char *uri, struct error *e)
{
    struct settings *settings = target;
    settings->server = uri;
    int r = rknnd_set_server(uri);
    return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
}

static int print_version(void *target, const char *text, struct error *e)
{
    (void)target, (void)text, (void)e;
    printf("rknnctl %s\n", rknnd_version());
    return OPTION_TABLE_END;
}

static bool is_failed(int result)
{
    return result < 0 || result == EXIT_GATE || result > COMMAND_EXIT(0);
}

// Failures are prefixed with the command's name, but for "unknown command" itself.
static int dispatch_command(struct settings *settings, int argc, char **argv, struct error *e)
{
    int first, r = cmd_options_parse(&no_command, argc, argv, &first, e);
    if (r)
        return r;
    if (first == argc)
        return error_set(e, STATUS_PARAM_INVALID, "no command; see rknnctl help");
    argc -= first;
    argv += first;
    if (strcmp(argv[0], "help") == 0)
        return print_help(settings, argc, argv, e);
    const struct command *command = find_command(argv[0]);
    if (!command)
        return unknown_command(argv[0], e);
    r = command->run(settings, argc, argv, e);
    if (is_failed(r))
        error_prefix(e, "%s", command->name);
    return r;
}

// The completions know schemes from here.
static const char server_forms[] = "unix:, "
                                   "tcp:HOST, tls:, usb:, adb:, sim:, emu:, open:";

// Sets up the global options and the library's log. The variable must be set before the library's
// first call.
static int run_command(int argc, char **argv, struct error *e)
{
    struct settings settings = {.silences_library = !getenv("RKNN_LOG_LEVEL")};
    const struct option_row rows[] = {
        {'s', "server", OPTION_CALL, &settings, "URI", server_forms, 0, 0, set_server},
        {'V', "version", OPTION_CALL, NULL, NULL, "print the version and end", 0, 0, print_version},
    };
    cmd_options_set_global(rows, sizeof rows / sizeof *rows);
    if (settings.silences_library)
        setenv("RKNN_LOG_LEVEL", "0", 1); // its failures are printed by rknnctl
    return dispatch_command(&settings, argc, argv, e);
}

// Output that did not arrive is a failure, also when it is only noticed at the end.
static int flush_output(int result, struct error *e)
{
    struct error failed;
    struct output_file out;
    int r = output_file_open(&out, "-", &failed);
    if (r == 0)
        r = output_file_close(&out, &failed);
    if (r == 0 || is_failed(result))
        return result;
    *e = failed;
    return r;
}

static int exit_code_of_result(int result)
{
    if (result > COMMAND_EXIT(0))
        return result - COMMAND_EXIT(0);
    return result < 0 ? (int)exit_code_of(result) : result == EXIT_GATE ? EXIT_GATE : EXIT_OK;
}

int main(int argc, char **argv)
{
    struct error e = {0};
    fd_keep_standard();
    name_commands();
    interrupt_init();
    int r = flush_output(run_command(argc, argv, &e), &e);
    if (is_failed(r)) {
        fprintf(stderr, "%srknnctl:%s ", terminal_style(stderr, STYLE_RED),
                terminal_style(stderr, STYLE_PLAIN));
        print_text_shown(stderr, e.text);
        fputc('\n', stderr);
    }
    return exit_code_of_result(r);
}
