// rknnctl record: runs a program with RKNND_RECORD set, so that its librknnrt.so (rknnd's) records
// what it asks of its servers, for `rknnctl replay`.
//
//   rknnctl ---fork--- child: RKNND_RECORD=FILE.PID.tmp, exec PROGRAM
//      |                 the library in it writes the recording
//      +--waitpid--- rename FILE.PID.tmp to FILE
//
// With %p in the name the library names a file for each process, and nothing is renamed. The exit
// status is the program's.
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"
#include "tools/format/format.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/interrupt.h"

#define EXIT_NOT_FOUND 127 // as a shell

// Where the library writes while the program runs: it refuses a file that is there already.
struct place {
    const char *path;         // as it was given
    char *target, *temporary; // NULL: there is a file for each process, which the library names
};

static void place_done(struct place *p)
{
    free(p->target);
    free(p->temporary);
}

// The library could only fail inside the program: an unwritable folder is found before the program
// runs.
static int check_folder(const char *path, struct error *e)
{
    cleanup(free_p) char *copy = strdup(path);
    if (!copy)
        return error_no_memory(e, "a path", 0);
    const char *folder = dirname(copy);
    return access(folder, W_OK | X_OK) < 0
               ? error_set(e, STATUS_FAIL, "%s: folder %s: %s", path, folder, strerror(errno))
               : 0;
}

// The temporary name is in the target's folder, so that rename() works.
static int make_place(struct place *p, const char *path, struct error *e)
{
    *p = (struct place){.path = path};
    if (strstr(path, "%p"))
        return check_folder(path, e);
    int r = output_file_names(path, &p->target, &p->temporary, e);
    return r ? r : check_folder(p->target, e);
}

// In the child: the environment, then the program. RKNN_LOG_LEVEL is removed where only rknnctl set
// it, so that the program logs as usual. _exit(): the parent's buffers must not be flushed twice.
_Noreturn static void become(const struct settings *settings, const char *path, char **argv)
{
    setenv("RKNND_RECORD", path, 1);
    if (settings->server)
        setenv("RKNND_SERVER", settings->server, 1);
    if (settings->silences_library)
        unsetenv("RKNN_LOG_LEVEL");
    execvp(argv[0], argv);
    fprintf(stderr, "rknnctl: record: %s: %s\n", argv[0], strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

// A program killed by a signal counts as 128 + its number, as in a shell. No file means that the
// program loaded another librknnrt.so, or none.
static int report_recording(const struct place *p, int status, struct error *e)
{
    struct stat st;
    struct format_buffer b;
    int ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (p->temporary && stat(p->temporary, &st) < 0)
        return error_set(e, ended ? COMMAND_EXIT(ended) : STATUS_FAIL,
                         "nothing was recorded: the program (exit status %d) did not use "
                         "rknnd's librknnrt.so (LD_LIBRARY_PATH)",
                         ended);
    if (p->temporary && rename(p->temporary, p->target) < 0)
        return error_set(e, STATUS_FAIL, "%s: %s; the recording is %s", p->path, strerror(errno),
                         p->temporary);
    if (p->temporary)
        fprintf(stderr, "%s: %s\n", p->path, format_bytes(&b, (uint64_t)st.st_size));
    return ended ? error_set(e, COMMAND_EXIT(ended), "the program ended with exit status %d", ended)
                 : 0;
}

// Ctrl-C goes to the whole foreground process group: the program decides, rknnctl waits and keeps
// the recording.
static int run_program(const struct settings *settings, const struct place *p, char **argv,
                       struct error *e)
{
    int status;
    interrupt_defer(); // Ctrl-C is the program's
    pid_t child = fork();
    if (child < 0)
        return error_set(e, STATUS_FAIL, "no process: %s", strerror(errno));
    if (child == 0)
        become(settings, p->temporary ? p->temporary : p->path, argv);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return error_set(e, STATUS_FAIL, "the program cannot be waited for: %s",
                             strerror(errno));
    return report_recording(p, status, e);
}

static int record_program(const struct settings *settings, const char *path, char **argv,
                          struct error *e)
{
    cleanup(place_done) struct place p;
    int r = make_place(&p, path, e);
    return r ? r : run_program(settings, &p, argv, e);
}

int cmd_record(const struct settings *settings, int argc, char **argv, struct error *e)
{
    const char *path = NULL;
    const struct option_row rows[] = {
        OPTIONS_OUTPUT(&path, "FILE", "the recording; %p in it is the process"),
    };
    const struct cmd_options options = {
        .usage = "record -o FILE [--] PROGRAM [ARGUMENT…]",
        .summary = "Runs a program and records all that it asks of its servers (models, inputs,\n"
                   "outputs, in order), for `rknnctl replay`. The exit status is the program's.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
        .stop_at_argument = true,
    };
    int first, r = cmd_options_parse(&options, argc, argv, &first, e);
    if (r)
        return r;
    if (!path)
        return error_set(e, STATUS_PARAM_INVALID, "no file: give one with -o FILE");
    if (first == argc)
        return error_set(e, STATUS_PARAM_INVALID, "no program; see rknnctl record --help");
    return record_program(settings, path, argv + first, e);
}
