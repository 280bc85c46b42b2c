// A line for each begin and end: "begin BOOT TARGET PROBE", "end BOOT TARGET PROBE".
#include "tools/board/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/line.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define MAX     (1u << 20) // bytes that are read of it

// On a disk, as /tmp and /run may be gone after a reboot.
static void default_path(char path[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        snprintf(path, PATH_MAX, "%s/rknnd/board-test", state);
    else if (home && *home == '/')
        snprintf(path, PATH_MAX, "%s/.local/state/rknnd/board-test", home);
    else
        snprintf(path, PATH_MAX, "/var/tmp/rknnd-board-test-%u", getuid());
}

// The folders above `path`; what cannot be made shows when the file is opened.
// For this user alone.
static void make_folders(const char *path)
{
    char part[PATH_MAX];
    for (const char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(p - path), path);
        mkdir(part, 0700);
    }
}

// A new file is not safe before its folder is.
static void sync_folder(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    cleanup(fd_close_p) int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        fsync(fd);
}

// What earlier kits wrote, as far as it is worth reading: the end of a file that has grown for
// years.
static int read_past(struct journal *j, const char *path, struct error *e)
{
    j->past = calloc(1, MAX + 1);
    if (!j->past)
        return error_no_memory(e, "the journal", MAX);
    off_t end = lseek(j->fd, 0, SEEK_END);
    if (pread(j->fd, j->past, MAX, end > (off_t)MAX ? end - (off_t)MAX : 0) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    return 0;
}

// A symbolic link is not followed: root may run this where others can write.
int journal_open(struct journal *j, const char *path, struct error *e)
{
    char own[PATH_MAX];
    *j = (struct journal){.fd = -1};
    if (!path)
        default_path(own);
    path = path ? path : own;
    if (!line_read(BOOT_ID, j->boot, sizeof j->boot))
        snprintf(j->boot, sizeof j->boot, "unknown");
    make_folders(path);
    j->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (j->fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno,
                               "%s, where it is noted what is tried (--journal FILE)", path);
    sync_folder(path);
    if (flock(j->fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(e, STATUS_FAIL, "another board-test is running (it holds %s)", path);
    return read_past(j, path, e);
}

void journal_close(struct journal *j)
{
    j->fd = fd_close(j->fd);
    free(j->past);
    j->past = NULL;
}

// One write of one line: a line that is cut off is of no begin.
static int note(struct journal *j, const char *word, const char *target, const char *probe,
                struct error *e)
{
    char line[256];
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
    enum journal_past ret = JOURNAL_CLEAR;
    const char *line = j->past;
    while (line && *line) {
        char word[8], boot[40], its_target[64], its_probe[64];
        if (sscanf(line, "%7s %39s %63s %63s", word, boot, its_target, its_probe) == 4 &&
            strcmp(its_target, target) == 0 && strcmp(its_probe, probe) == 0) {
            if (strcmp(word, "end") == 0)
                ret = JOURNAL_CLEAR;
            else
                ret = strcmp(boot, j->boot) == 0 ? JOURNAL_CUT : JOURNAL_REBOOTED;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return ret;
}
