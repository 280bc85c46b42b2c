// A file that is written whole or not at all: data goes to TARGET.RANDOM.tmp in the same folder,
// which rename() puts in place when everything has been written. The folder may be another user's,
// who could have put a link where a name can be guessed: so the name is drawn, and the file is made
// by us. Standard output, devices and pipes are written directly. A symbolic link stays: its target
// is replaced.
#include "base/file/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static int fail_errno(const char *path, int error, struct error *e)
{
    return error_set(e, STATUS_FAIL, "%s: %s", path, strerror(error));
}

static bool is_stdout(const char *path)
{
    return strcmp(path, "-") == 0;
}

// Devices and pipes: renaming would replace them by a file.
static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

// realpath() resolves links, so that the temporary file is on the target's file system; NULL for a
// file that does not exist yet.
static int make_names(const char *path, char **ret_target, char **ret_temporary, struct error *e)
{
    cleanup(free_p) char *target = realpath(path, NULL); // NULL: not there yet
    char *temporary;
    uint64_t drawn;
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        return error_set_errno(e, STATUS_FAIL, errno, "no random numbers");
    if (!target && !(target = strdup(path)))
        return error_no_memory(e, "a path", 0);
    if (asprintf(&temporary, "%s.%016" PRIx64 ".tmp", target, drawn) < 0)
        return error_no_memory(e, "a path", 0);
    *ret_target = target;
    *ret_temporary = temporary;
    target = NULL;
    return 0;
}

// For a writer other than this process (record): the same names, nothing is opened.
int output_file_names(const char *path, char **ret_target, char **ret_temporary, struct error *e)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return error_set(e, STATUS_PARAM_INVALID, "%s is there, and no ordinary file", path);
    return make_names(path, ret_target, ret_temporary, e);
}

static FILE *make_file(const char *path)
{
    cleanup(fd_close_p) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (stream)
        steal_fd(&fd);
    else if (fd >= 0)
        unlink(path);
    return stream;
}

// A file that is replaced keeps its permissions. That fchmod() may fail is accepted.
static int open_beside(struct output_file *o, struct error *e)
{
    struct stat st;
    if (stat(o->path, &st) == 0 && S_ISDIR(st.st_mode))
        return fail_errno(o->path, EISDIR, e);
    int r = make_names(o->path, &o->target, &o->temporary, e);
    if (r)
        return r;
    o->stream = make_file(o->temporary);
    if (!o->stream) {
        r = fail_errno(o->path, errno, e);
        free(o->temporary); // it is not ours
        o->temporary = NULL;
        return r;
    }
    if (stat(o->target, &st) == 0)
        fchmod(fileno(o->stream), st.st_mode & 0777); // where it cannot be kept it is a new file's
    return 0;
}

int output_file_open(struct output_file *o, const char *path, struct error *e)
{
    *o = (struct output_file){.path = path};
    if (is_stdout(path)) {
        o->stream = stdout;
        return 0;
    }
    if (is_special(path)) {
        o->stream = fopen(path, "we");
        return o->stream ? 0 : fail_errno(path, errno, e);
    }
    int r = open_beside(o, e);
    if (r)
        output_file_drop(o);
    return r;
}

// Why an earlier write failed. Streams remember that one failed, but not why; writing again fails
// for the same reason.
static int find_cause(FILE *stream)
{
    return write(fileno(stream), "", 1) < 0 ? errno : EIO;
}

// Flushes and closes; 0 or an errno. Standard output stays open for exit().
static int close_stream(struct output_file *o)
{
    FILE *stream = o->stream;
    int error = fflush(stream) == 0 ? 0 : errno;
    if (error == 0 && ferror(stream))
        error = find_cause(stream);
    o->stream = NULL;
    if (stream != stdout && fclose(stream) != 0 && error == 0)
        error = errno;
    return error;
}

int output_file_close(struct output_file *o, struct error *e)
{
    int error = close_stream(o);
    if (error == 0 && o->temporary && rename(o->temporary, o->target) < 0)
        error = errno;
    if (error)
        fail_errno(is_stdout(o->path) ? "standard output" : o->path, error, e);
    else {
        free(o->temporary);
        o->temporary = NULL;
    }
    output_file_drop(o);
    return error ? e->code : 0;
}

// Safe after close, which has reset the names.
void output_file_drop(struct output_file *o)
{
    if (o->stream && o->stream != stdout)
        fclose(o->stream);
    if (o->temporary)
        unlink(o->temporary);
    free(o->temporary);
    free(o->target);
    *o = (struct output_file){0};
}

// Creates and drops the temporary file, which finds missing folders and permissions.
int output_file_check(const char *path, struct error *e)
{
    cleanup(output_file_drop) struct output_file o = {0};
    return is_stdout(path) || is_special(path) ? 0 : output_file_open(&o, path, e);
}
