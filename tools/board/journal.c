// A line for each begin and end: "begin BOOT TARGET PROBE", "end BOOT TARGET PROBE".
#include "tools/board/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/folder.h"
#include "base/file/line.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define MAX     (1u << 20) // bytes that are read of it
#define LINE    256

static void path_without_home(char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "/var/tmp/rknnd-board-test-%u", getuid());
}

// On a disk, as /tmp and /run may be gone after a reboot.
static void default_path(char path[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        snprintf(path, PATH_MAX, "%s/rknnd/board-test", state);
    else if (home && *home == '/')
        snprintf(path, PATH_MAX, "%s/.local/state/rknnd/board-test", home);
    else
        path_without_home(path);
}

// What can be written line by line and read again: no pipe, device or socket.
static int open_file(const char *path, struct error *e)
{
    struct stat st;
    // O_NONBLOCK: a pipe would wait for its reader.
    cleanup(fd_close_p) int fd = open(
        path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_FAIL, errno,
                               "%s, where it is noted what is tried (--journal FILE)", path);
    if (!S_ISREG(st.st_mode))
        return error_set(
            e, STATUS_PARAM_INVALID,
            "--journal %s is no ordinary file: what is tried is noted there, to be read "
            "again after a crash of the board; name a file on a disk",
            path);
    return steal_fd(&fd);
}

// A new file is not safe before its folder is.
static void sync_folder(const char *path)
{
    struct error none;
    cleanup(fd_close_p) int fd = folder_open_of(path, &none);
    if (fd >= 0)
        fsync(fd);
}

// "WORD BOOT TARGET PROBE"; a line of another form says nothing.
static void read_line(json_t *past, const char *line)
{
    char word[8], boot[40], target[64], probe[64], key[136];
    if (sscanf(line, "%7[^ ] %39[^ ] %63[^ ] %63[^ ]", word, boot, target, probe) != 4)
        return;
    snprintf(key, sizeof key, "%s %s", target, probe);
    if (strcmp(word, "end") == 0)
        json_object_del(past, key);
    else if (strcmp(word, "begin") == 0)
        json_object_set_new(past, key, json_string(boot));
}

json_t *journal_read(const char *text)
{
    json_t *ret = json_object();
    for (const char *at = text; ret && *at;) {
        char line[LINE];
        size_t n = strcspn(at, "\n");
        if (n < sizeof line) {
            memcpy(line, at, n);
            line[n] = '\0';
            read_line(ret, line);
        }
        at += n + (at[n] == '\n');
    }
    return ret;
}

// What earlier kits wrote, as far as it is worth reading: the end of a file that has grown for
// years.
static int read_past(struct journal *j, const char *path, struct error *e)
{
    cleanup(free_p) char *text = calloc(1, MAX + 1);
    if (!text)
        return error_no_memory(e, "the journal", MAX);
    off_t end = lseek(j->fd, 0, SEEK_END);
    ssize_t n = pread(j->fd, text, MAX, end > (off_t)MAX ? end - (off_t)MAX : 0);
    // A line that was cut off when the board went down does not swallow the next one.
    if (n < 0 || (n > 0 && text[n - 1] != '\n' && write(j->fd, "\n", 1) != 1))
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    j->past = journal_read(text);
    return j->past ? 0 : error_no_memory(e, "the journal", MAX);
}

// A symbolic link is not followed: root may run this where others can write.
static int open_with_folders(const char *path, struct error *e)
{
    int r = folder_make_above(path, 0700, e);
    return r < 0 ? error_prefix(e, "--journal %s", path) : open_file(path, e);
}

// A home that is read-only, or not there at all, is as none.
int journal_open(struct journal *j, const char *path, struct error *e)
{
    char own[PATH_MAX];
    struct error none;
    bool given = path;
    *j = (struct journal){.fd = -1};
    if (!given)
        default_path(own);
    path = given ? path : own;
    if (!line_read(BOOT_ID, j->boot, sizeof j->boot))
        snprintf(j->boot, sizeof j->boot, "unknown");
    j->fd = open_with_folders(path, e);
    if (j->fd < 0 && !given) {
        path_without_home(own);
        j->fd = open_with_folders(own, &none);
    }
    if (j->fd < 0)
        return e->code;
    sync_folder(path);
    if (flock(j->fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(e, STATUS_FAIL, "another board-test is running (it holds %s)", path);
    return read_past(j, path, e);
}

void journal_close(struct journal *j)
{
    j->fd = fd_close(j->fd);
    json_decref(j->past);
    j->past = NULL;
}

// One write of one line: a line that is cut off is of no begin.
static int note(struct journal *j, const char *word, const char *target, const char *probe,
                struct error *e)
{
    char line[LINE];
    int n = snprintf(line, sizeof line, "%s %s %s %s\n", word, j->boot, target, probe);
    if (n < 0 || (size_t)n >= sizeof line)
        return error_set(e, STATUS_PARAM_INVALID, "the name %s is too long", probe);
    if (write(j->fd, line, (size_t)n) != n || fdatasync(j->fd) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "the journal cannot be written");
    return 0;
}

int journal_begin(struct journal *j, const char *target, const char *probe, struct error *e)
{
    return note(j, "begin", target, probe, e);
}

int journal_end(struct journal *j, const char *target, const char *probe, struct error *e)
{
    return note(j, "end", target, probe, e);
}

// The last line of it counts: a later kit may have tried again, when it was asked to.
enum journal_past journal_past(const struct journal *j, const char *target, const char *probe)
{
    char key[136];
    snprintf(key, sizeof key, "%.63s %.63s", target, probe);
    const char *boot = json_string_value(json_object_get(j->past, key));
    return !boot ? JOURNAL_CLEAR : strcmp(boot, j->boot) == 0 ? JOURNAL_CUT : JOURNAL_REBOOTED;
}

void journal_tell(const struct journal *j, const char *target, json_t *list)
{
    const char *key;
    json_t *boot;
    size_t n = strlen(target);
    json_object_foreach(j->past, key, boot)
    {
        if (strncmp(key, target, n) != 0 || key[n] != ' ')
            continue;
        bool same = strcmp(json_string_value(boot), j->boot) == 0;
        json_array_append_new(
            list, json_sprintf("An earlier board-test ended while \"%s\" was running on %s%s: "
                               "that is not repeated (--probe NAME tries it all the same).",
                               key + n + 1, target,
                               same ? "" : ", and the machine has been started again since"));
    }
}
