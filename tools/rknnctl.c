// rknnctl: looks at rknnd servers and runs models on them. main() parses the global options,
// dispatches to a command's cmd_*.c, prints the one failure that comes back and turns it into the
// exit code. Commands run on the main thread; rknnctl's only other threads are those of `bench` and
// of the progress line.
#include "tools/rknnctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options/nearest.h"
#include "rknnd.h"
#include "tools/format/output_file.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/terminal.h"

#define X(name, summary) {#name, summary, cmd_##name},
static const struct command commands[] = {COMMAND_LIST(X)};
#undef X

#define N_COMMANDS (sizeof commands / sizeof *commands)

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

// Refuses a command and suggests those that are spelled much like it.
static int unknown_command(const char *name, struct failure *f)
{
    struct nearest near;
    char names[NEAREST_TEXT];
    nearest_init(&near, name);
    nearest_add(&near, "help");
    for (size_t i = 0; i < N_COMMANDS; i++)
        nearest_add(&near, commands[i].name);
    return failure_set(f, EXIT_USAGE, "unknown command \"%s\"%s (see rknnctl help)", name,
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

static const struct options no_command = {
    .usage = "[OPTION…] COMMAND [OPTION…] …",
    .summary = "Looks at rknnd servers and runs models on them. Without --server: RKNND_SERVER\n"
               "in the environment, else the local Unix socket, else the only board.",
    .more_help = list_commands,
    .stop_at_argument = true,
};

// `help COMMAND` is `COMMAND --help`: each command prints its own options.
static int print_help(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    if (argc > 2)
        return failure_set(f, EXIT_USAGE,
                           "unexpected argument \"%s\"; usage: rknnctl help [COMMAND]", argv[2]);
    const char *name = argc == 2 && argv[1][0] != '-' ? argv[1] : "help";
    const struct command *command = find_command(name);
    if (command)
        return command->run(settings, 2, (char *[]){argv[1], (char *)"--help", NULL}, f);
    if (strcmp(name, "help") != 0)
        return unknown_command(name, f);
    options_help(&no_command);
    return OPTIONS_HELP;
}

// Called while options are parsed, by rknnctl's own options or by a command's: --server may stand
// before or behind the command. The library takes it as the default of all contexts.
static int set_server(void *user, const char *uri, struct failure *f)
{
    struct settings *settings = user;
    settings->server = uri;
    int r = rknnd_set_server(uri);
    return r < 0 ? failure_rknn(f, r, "--server") : 0;
}

static int print_version(void *user, const char *text, struct failure *f)
{
    (void)user, (void)text, (void)f;
    printf("rknnctl %s\n", rknnd_version());
    return OPTIONS_HELP;
}

// Failures are prefixed with the command's name, but for "unknown command" itself.
static int dispatch_command(struct settings *settings, int argc, char **argv, struct failure *f)
{
    int first, r = options_parse(&no_command, argc, argv, &first, f);
    if (r)
        return r;
    if (first == argc)
        return failure_set(f, EXIT_USAGE, "no command; see rknnctl help");
    argc -= first;
    argv += first;
    if (strcmp(argv[0], "help") == 0)
        return print_help(settings, argc, argv, f);
    const struct command *command = find_command(argv[0]);
    if (!command)
        return unknown_command(argv[0], f);
    r = command->run(settings, argc, argv, f);
    return r > 0 ? failure_prefix(f, "%s", command->name) : r;
}

// Sets up the global options and the library's log. The variable must be set before the library's
// first call.
static int run_command(int argc, char **argv, struct failure *f)
{
    struct settings settings = {.silences_library = !getenv("RKNN_LOG_LEVEL")};
    struct option_call server = {set_server, &settings}, version = {print_version, NULL};
    const struct option_row rows[] = {
        {'s', "server", OPTION_CALL, &server, "URI",
         "unix:PATH, tcp:HOST:PORT, usb:, adb: or sim:[CHIP]", 0, 0},
        {'V', "version", OPTION_CALL, &version, NULL, "print the version and end", 0, 0},
    };
    options_set_global(rows, sizeof rows / sizeof *rows);
    if (settings.silences_library)
        setenv("RKNN_LOG_LEVEL", "0", 1); // its failures are printed by rknnctl
    return dispatch_command(&settings, argc, argv, f);
}

// Output that did not arrive is a failure, also when it is only noticed at the end.
static int flush_output(int result, struct failure *f)
{
    struct failure failed;
    struct output_file out;
    int r = output_file_open(&out, "-", &failed);
    if (r == 0)
        r = output_file_close(&out, &failed);
    if (r == 0 || result > 0)
        return result;
    *f = failed;
    return r;
}

int main(int argc, char **argv)
{
    struct failure f = {0};
    terminal_keep_standard_streams();
    interrupt_init();
    int r = flush_output(run_command(argc, argv, &f), &f);
    if (r > 0)
        fprintf(stderr, "%srknnctl:%s %s\n", terminal_style(stderr, STYLE_RED),
                terminal_style(stderr, STYLE_PLAIN), f.text);
    return r > 0 ? r : EXIT_OK;
}
