// A Unix socket's file outlives its server. So a path that exists may belong to a server that is
// alive, to one that has died, or to one that is just starting (bound, not yet listening). The
// first is told by connecting to it, the last is excluded by a lock file that is held from the
// check to the listen().
#include "base/net/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BACKLOG 1024

#define LOCK_PATIENCE_MS 10000
#define LOCK_STEP_MS     10

// ---- who is there -------------------------------------------------------------------------------

// Connects to the path. 0: a server answers there, even if its backlog is full (EAGAIN); else an
// errno that says why not.
static int probe(const struct sockaddr_un *address)
{
    cleanup(fd_close_p) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    bool answers =
        connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN;
    return answers ? 0 : errno;
}

static int set_address(struct sockaddr_un *address, const char *path, struct error *e)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path)
        return error_set(e, STATUS_PARAM_INVALID, "the path %s is too long for a socket", path);
    strcpy(address->sun_path, path);
    return 0;
}

bool unix_is_taken(const char *path)
{
    struct sockaddr_un address;
    struct error e;
    return set_address(&address, path, &e) == 0 && probe(&address) == 0;
}

// Whether a socket is at the path (1), or nothing (0).
static int look(const char *path, struct error *e)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return error_set(e, STATUS_PARAM_INVALID, "%s is there and is not a socket", path);
    return 1;
}

int unix_check(const char *path, struct error *e)
{
    struct sockaddr_un address;
    int r = set_address(&address, path, e);
    if (r == 0)
        r = look(path, e);
    return r < 0 ? r : 0;
}

// Removes a socket whose server is gone (ECONNREFUSED). Any other file, and a socket of which
// nothing is known, stays and is an error.
static int remove_stale(const struct sockaddr_un *address, struct error *e)
{
    const char *path = address->sun_path;
    int there = look(path, e);
    if (there <= 0)
        return there;
    int silence = probe(address);
    if (silence == 0)
        return error_set(e, STATUS_FAIL, "another server listens on %s", path);
    if (silence != ECONNREFUSED)
        return error_set_errno(e, STATUS_FAIL, silence, "%s is there and cannot be asked", path);
    if (unlink(path) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "the old socket %s cannot be removed", path);
    return 0;
}

// ---- its file -----------------------------------------------------------------------------------

struct unix_file unix_file_at(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return (struct unix_file){.inode = 0};
    return (struct unix_file){st.st_dev, st.st_ino};
}

bool unix_file_is_at(const struct unix_file *f, const char *path)
{
    const struct unix_file now = unix_file_at(path);
    return f->inode && now.inode == f->inode && now.device == f->device;
}

void unix_file_remove(const struct unix_file *f, const char *path)
{
    if (unix_file_is_at(f, path))
        unlink(path);
}

// The folder may be another user's, who puts a link to any file in the socket's place: names of it
// are not used. Group only; the owner stays.
static int set_rights(int file, const char *path, const char *group, struct error *e)
{
    char self[40];
    const struct group *entry = group ? getgrnam(group) : NULL;
    if (group && !entry)
        return error_set(e, STATUS_PARAM_INVALID, "there is no group \"%s\"", group);
    if (entry && fchownat(file, "", (uid_t)-1, entry->gr_gid, AT_EMPTY_PATH) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s cannot be given to group %s", path,
                               group);
    snprintf(self, sizeof self, "/proc/self/fd/%d", file);
    return chmod(self, 0660) < 0 ? error_set_errno(e, STATUS_FAIL, errno, "the mode of %s", path)
                                 : 0;
}

static int hold_file(const char *path, struct error *e)
{
    struct stat st;
    cleanup(fd_close_p) int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || fstat(file, &st) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return error_set(e, STATUS_FAIL,
                         "somebody has put something else in the place of %s: listen in a folder "
                         "that only this server's user may write to",
                         path);
    return steal_fd(&file);
}

// Nobody can connect before listen(), and by then the file has its group and mode.
static int bind_and_listen(int fd, const struct sockaddr_un *address, const char *group,
                           struct error *e)
{
    const char *path = address->sun_path;
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) < 0)
        return errno == EADDRINUSE // by now
                   ? error_set(e, STATUS_FAIL, "another server listens on %s", path)
                   : error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    const struct unix_file made = unix_file_at(path);
    cleanup(fd_close_p) int file = hold_file(path, e);
    int r = file < 0 ? file : set_rights(file, path, group, e);
    if (r == 0 && listen(fd, BACKLOG) < 0)
        r = error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    if (r < 0)
        unix_file_remove(&made, path);
    return r;
}

// ---- whose turn it is ---------------------------------------------------------------------------

// The lock for one path. Whoever holds it may create or replace the socket, so nobody takes a
// socket for stale that does not listen yet. The file is removed when that is done.
struct bind_lock {
    char path[sizeof(struct sockaddr_un) + 8];
    int fd;
};

// Whether the file that we locked is still the one at the path: its last holder has removed it.
static bool is_there_still(const struct bind_lock *l)
{
    struct stat ours, there;
    return fstat(l->fd, &ours) == 0 && stat(l->path, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

// Another user's file in a folder that all may write to could be locked for ever.
static int bind_lock_check(const struct bind_lock *l, struct error *e)
{
    struct stat st;
    if (fstat(l->fd, &st) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", l->path);
    if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0))
        return error_set(
            e, STATUS_FAIL,
            "%s is user %u's, and not a lock of this server: remove it, or listen in a "
            "folder that only this server's user may write to",
            l->path, (unsigned)st.st_uid);
    return 0;
}

// Others hold it for as long as a socket takes to be made.
static int bind_lock_wait(const struct bind_lock *l, struct error *e)
{
    for (int waited = 0; flock(l->fd, LOCK_EX | LOCK_NB) < 0; waited++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_set_errno(e, STATUS_FAIL, errno, "%s", l->path);
        if (waited == LOCK_PATIENCE_MS / LOCK_STEP_MS)
            return error_set(e, STATUS_FAIL,
                             "%s is locked by another process, which has started to listen there "
                             "and does not get on: end it (fuser %s), or listen elsewhere",
                             l->path, l->path);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_STEP_MS * 1000000L}, NULL);
    }
    return 0;
}

// Waits for the lock. If the file was removed meanwhile, the lock is worthless, as others lock a
// new file; then it starts over.
static int bind_lock_take(struct bind_lock *l, const char *path, struct error *e)
{
    snprintf(l->path, sizeof l->path, "%s.lock", path);
    for (;;) {
        l->fd = open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (l->fd < 0)
            return error_set_errno(e, STATUS_FAIL, errno, "%s", l->path);
        int r = bind_lock_check(l, e);
        if (r == 0)
            r = bind_lock_wait(l, e);
        if (r == 0 && is_there_still(l))
            return 0;
        l->fd = fd_close(l->fd);
        if (r < 0)
            return r;
    }
}

static void bind_unlock(struct bind_lock *l)
{
    if (l->fd < 0)
        return;
    unlink(l->path);
    l->fd = fd_close(l->fd);
}

// Closing and unlocking are cleanups; the socket is given away only when all has succeeded.
int unix_listen(const char *path, const char *group, struct error *e)
{
    struct sockaddr_un address;
    cleanup(bind_unlock) struct bind_lock turn = {.fd = -1};
    int r = set_address(&address, path, e);
    if (r == 0)
        r = bind_lock_take(&turn, path, e);
    if (r == 0)
        r = remove_stale(&address, e);
    if (r < 0)
        return r;
    cleanup(fd_close_p) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    r = bind_and_listen(fd, &address, group, e);
    return r < 0 ? r : steal_fd(&fd);
}
