// unix:PATH, a daemon on this machine. Most of the file turns an errno into what a user can do
// about it: the usual reasons are a daemon that does not run and a socket of a group that the user
// is not in.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/who.h"
#include "client/transport/connect.h"
#include "client/transport/local_sockets.h"
#include "client/transport/transports.h"

// ---- connecting ---------------------------------------------------------------------------------

// If the socket's group may write to it, the advice is to join that group.
static int unix_denied(const char *path, struct error *e)
{
    char advice[200] = "this user may not write to it, or not enter a folder above it";
    struct stat st;
    if (stat(path, &st) == 0 && st.st_gid != 0 && (st.st_mode & S_IWGRP))
        who_join(st.st_gid, advice, sizeof advice);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "permission denied; %s", advice);
}

static int unix_connect(struct transport_attempt *a, struct error *e)
{
    const char *path = a->address->text;
    int fd = connect_file(path);
    if (fd >= 0)
        return fd;
    switch (-fd) {
    case ENOENT:
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "no such socket; is rknnd running?");
    case ECONNREFUSED:
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "nobody listens on this socket; is rknnd running?");
    case EACCES:
        return unix_denied(path, e);
    default:
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, -fd, "cannot connect");
    }
}

// ---- searching ----------------------------------------------------------------------------------

// Sockets that exist; whether a daemon listens is not asked.
static void unix_list(struct device_list *l)
{
    struct local_sockets local;
    local_sockets_find(&local);
    for (unsigned i = 0; i < local.n; i++)
        if (access(local.uris[i] + strlen(transport_unix.uri.name), F_OK) == 0)
            device_list_add(l, local.uris[i], "", "");
}

// ---- diagnosing ---------------------------------------------------------------------------------

// stat() failed, errno says why. These helpers return false for their callers to pass on.
static bool unix_tell_no_file(struct checks *c, const char *path)
{
    if (errno == EACCES)
        checks_tell(c, RKNND_CHECK_BAD, "socket", "let this user enter the folders above it",
                    "%s cannot be looked at: a folder above it is closed to this user", path);
    else if (errno == ENOENT)
        checks_tell(c, RKNND_CHECK_BAD, "socket", CHECKS_START_IT, "%s is not there", path);
    else
        checks_tell(c, RKNND_CHECK_BAD, "socket", "correct the path", "%s: %s", path,
                    strerror(errno));
    return false;
}

static bool unix_tell_closed(struct checks *c, const char *path, const struct stat *st)
{
    char me[WHO_SIZE], owner[WHO_SIZE], group[WHO_SIZE], advice[200];
    who_user(geteuid(), me);
    who_user(st->st_uid, owner);
    who_group(st->st_gid, group);
    who_join(st->st_gid, advice, sizeof advice);
    checks_tell(c, RKNND_CHECK_BAD, "socket", advice,
                "%s belongs to %s:%s (mode %04o): user %s may not connect", path, owner, group,
                (unsigned)st->st_mode & 07777, me);
    return false;
}

// Connecting needs write permission for the socket (unix(7)); AT_EACCESS asks with the effective
// user, as connect() does.
static bool unix_check_file(struct checks *c, const char *path)
{
    struct stat st;
    char owner[WHO_SIZE], group[WHO_SIZE];
    if (stat(path, &st) < 0)
        return unix_tell_no_file(c, path);
    if (!S_ISSOCK(st.st_mode)) {
        checks_tell(c, RKNND_CHECK_BAD, "socket", "correct the path", "%s is no socket", path);
        return false;
    }
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
        return unix_tell_closed(c, path, &st);
    who_user(st.st_uid, owner);
    who_group(st.st_gid, group);
    checks_tell(c, RKNND_CHECK_GOOD, "socket", "", "%s, %s:%s, mode %04o", path, owner, group,
                (unsigned)st.st_mode & 07777);
    return true;
}

// SO_PEERCRED names the process that called listen(): with socket activation that is the service
// manager.
static void unix_tell_listener(struct checks *c, int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    char user[WHO_SIZE], path[64], name[32] = "?";
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    who_user(peer.uid, user);
    snprintf(path, sizeof path, "/proc/%d/comm", (int)peer.pid);
    cleanup(fclose_p) FILE *comm = fopen(path, "re");
    if (comm && fgets(name, sizeof name, comm))
        name[strcspn(name, "\n")] = 0;
    checks_tell(c, RKNND_CHECK_GOOD, "connection", "", "%s listens (pid %d, user %s)", name,
                (int)peer.pid, user);
}

static bool unix_diagnose(struct checks *c, const struct uri *uri)
{
    if (!unix_check_file(c, uri->text))
        return false;
    cleanup(fd_close_p) int fd = connect_file(uri->text);
    if (fd >= 0)
        unix_tell_listener(c, fd);
    else if (fd == -ECONNREFUSED)
        checks_tell(c, RKNND_CHECK_BAD, "connection", CHECKS_START_IT,
                    "nobody listens on %s: the daemon that made it has ended", uri->text);
    else
        checks_tell(c, RKNND_CHECK_BAD, "connection",
                    "it may be stopped or overloaded: look at its process and log",
                    "%s does not take connections: %s", uri->text, strerror(-fd));
    return fd >= 0;
}

const struct transport transport_unix = {
    .uri = URI_SCHEME_UNIX,
    .help = "a daemon on this machine",
    .connect = unix_connect,
    .list = unix_list,
    .diagnose = unix_diagnose,
};
