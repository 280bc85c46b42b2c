// rknnctl record: runs a program whose requests are recorded.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/options.h"
#include "tools/rknnctl.h"

#define EXIT_NOT_FOUND 127 // as a shell

// The library refuses a file that is there; what this command was told to write goes over it.
static int make_way(const char *path, struct failure *f)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return 0;
    if (!S_ISREG(st.st_mode))
        return failure_set(f, EXIT_USAGE, "%s is there, and no ordinary file", path);
    return unlink(path) < 0 ? failure_set(f, EXIT_RUNTIME, "%s: %s", path, strerror(errno)) : 0;
}

_Noreturn static void become(const struct settings *settings, const char *path, char **argv)
{
    setenv("RKNND_RECORD", path, 1);
    if (settings->server)
        setenv("RKNND_SERVER", settings->server, 1);
    execvp(argv[0], argv);
    fprintf(stderr, "rknnctl: record: %s: %s\n", argv[0], strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

static int report(const char *path, int status, struct failure *f)
{
    struct stat st;
    struct format_buffer b;
    int ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!strstr(path, "%p") && stat(path, &st) < 0)
        return failure_set(f, ended ? ended : EXIT_RUNTIME,
                           "nothing was recorded: the program (exit status %d) did not use "
                           "rknnd's librknnrt.so (LD_LIBRARY_PATH)",
                           ended);
    if (!strstr(path, "%p"))
        fprintf(stderr, "%s: %s\n", path, format_bytes(&b, (uint64_t)st.st_size));
    return ended ? failure_set(f, ended, "the program ended with exit status %d", ended) : 0;
}

static int record(const struct settings *settings, const char *path, char **argv, struct failure *f)
{
    int status, r = make_way(path, f);
    if (r)
        return r;
    interrupt_defer(); // Ctrl-C is the program's
    pid_t child = fork();
    if (child < 0)
        return failure_set(f, EXIT_RUNTIME, "no process: %s", strerror(errno));
    if (child == 0)
        become(settings, path, argv);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return failure_set(f, EXIT_RUNTIME, "the program cannot be waited for: %s",
                               strerror(errno));
    return report(path, status, f);
}

int cmd_record(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    const char *path = NULL;
    const struct option_row rows[] = {
        {'o', "output", OPTION_TEXT, &path, "FILE", "the recording; %p in it is the process", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] record -o FILE [--] PROGRAM [ARGUMENT…]",
        .summary = "Runs a program and records all that it asks of its servers (models, inputs,\n"
                   "outputs, in order), for `rknnctl replay`. The exit status is the program's.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
        .stop_at_argument = true,
    };
    int first, r = options_parse(&options, argc, argv, &first, f);
    if (r)
        return r;
    if (!path)
        return failure_set(f, EXIT_USAGE, "-o FILE is missing");
    if (first == argc)
        return failure_set(f, EXIT_USAGE, "no program; see rknnctl record --help");
    return record(settings, path, argv + first, f);
}
