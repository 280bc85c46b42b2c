// rknnctl: looks at rknnd servers and runs models on them.
#include "tools/rknnctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rknnd.h"
#include "tools/interrupt.h"
#include "tools/options.h"
#include "tools/terminal.h"

static const struct command commands[] = {
    {"run", "run a model on inputs from files, write its outputs", cmd_run},
    {"info", "describe the server, and a model", cmd_info},
    {"devices", "list the servers that can be reached", cmd_devices},
    {"ping", "measure round trips to the server", cmd_ping},
    {"status", "show what the server holds and has done", cmd_status},
    {"top", "watch who uses the device", cmd_top},
    {"stats", "who has used how much of it, also for Prometheus", cmd_stats},
    {"kill", "end clients", cmd_kill},
    {"log", "show what the server logs, and set how much", cmd_log},
    {"trace", "write a timeline of what happens in the server", cmd_trace},
    {"record", "record what a program asks of its servers", cmd_record},
    {"replay", "ask it again, and compare the answers", cmd_replay},
    {"doctor", "find out what is wrong on the way to the NPU", cmd_doctor},
    {"dump", "write what each node of a model computes", cmd_dump},
    {"perf", "show where a model's time goes, layer by layer", cmd_perf},
    {"memory", "show what a model takes of memory, layer by layer", cmd_memory},
    {"accuracy", "compare a model's layers with the float model's", cmd_accuracy},
    {"compare", "compare two models or servers, layer by layer", cmd_compare},
    {"report", "write all of that into one page for a browser", cmd_report},
    {"bench", "measure throughput and latency of a model", cmd_bench},
};

#define N_COMMANDS (sizeof commands / sizeof *commands)

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void list_commands(void)
{
    printf("\n%sCommands:%s\n", terminal_style(stdout, STYLE_BOLD),
           terminal_style(stdout, STYLE_PLAIN));
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-12s %s\n", commands[i].name, commands[i].summary);
    printf("\nrknnctl COMMAND --help has more.\n\n"
           "Exit codes: 0 done, 1 failed, 2 usage, 3 no server or server lost,\n"
           "4 model not readable or refused, 5 input not readable or not fitting.\n");
}

static int dispatch(int argc, char **argv, struct failure *f)
{
    struct settings settings = {0};
    bool version = false;
    const struct option_row rows[] = {
        {'s', "server", OPTION_TEXT, &settings.server, "URI",
         "unix:PATH, tcp:HOST:PORT, usb:, adb: or sim:[CHIP]", 0, 0},
        {'V', "version", OPTION_FLAG, &version, NULL, "print the version and end", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] COMMAND …",
        .summary =
            "Looks at rknnd servers and runs models on them. Without --server: RKNND_SERVER\n"
            "in the environment, else the local Unix socket, else the only board.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
        .more_help = list_commands,
        .stop_at_argument = true,
    };
    int first, r = options_parse(&options, argc, argv, &first, f);
    if (r)
        return r;
    if (version)
        return printf("rknnctl %s\n", rknnd_version()) < 0 ? EXIT_RUNTIME : 0;
    if (first == argc)
        return failure_set(f, EXIT_USAGE, "no command; see rknnctl --help");
    const struct command *command = find(argv[first]);
    if (!command)
        return failure_set(f, EXIT_USAGE, "unknown command \"%s\"; see rknnctl --help",
                           argv[first]);
    if (settings.server && rknnd_set_server(settings.server) < 0)
        return failure_set(f, EXIT_USAGE, "--server: %s", rknnd_last_error());
    r = command->run(&settings, argc - first, argv + first, f);
    return r > 0 ? failure_prefix(f, "%s", command->name) : r;
}

// Output that did not arrive is a failure, also when it is only noticed at the end.
static int flush_output(int result, struct failure *f)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return result;
    if (result > 0)
        return result;
    return failure_set(f, EXIT_RUNTIME, "standard output: %s",
                       errno ? strerror(errno) : "cannot be written");
}

int main(int argc, char **argv)
{
    struct failure f = {0};
    interrupt_init();
    int r = flush_output(dispatch(argc, argv, &f), &f);
    if (r > 0)
        fprintf(stderr, "%srknnctl:%s %s\n", terminal_style(stderr, STYLE_RED),
                terminal_style(stderr, STYLE_PLAIN), f.text);
    return r > 0 ? r : EXIT_OK;
}
