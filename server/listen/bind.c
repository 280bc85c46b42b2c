// Makes listening sockets, Unix and TCP. Used at the start, before the loop runs, so it may block.
//
// A Unix socket's file outlives its server. So a path that exists may belong to a server that is
// alive, to one that has died, or to one that is just starting (bound, not yet listening). The
// first is told by connecting to it, the last is excluded by a lock file that is held from the
// check to the listen().
#include "server/listen/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/net/tcp.h"

#define BACKLOG 1024

#define LOCK_PATIENCE_MS 10000
#define LOCK_STEP_MS     10

// ---- Unix ---------------------------------------------------------------------------------------

// Connects to the path. 0: a server answers there, even if its backlog is full (EAGAIN); else an
// errno that says why not.
static int bind_probe(const struct sockaddr_un *address)
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

bool bind_unix_is_taken(const char *path)
{
    struct sockaddr_un address;
    struct error e;
    return set_address(&address, path, &e) == 0 && bind_probe(&address) == 0;
}

// Removes a socket whose server is gone (ECONNREFUSED). Any other file, and a socket of which
// nothing is known, stays and is an error.
static int remove_stale(const struct sockaddr_un *address, struct error *e)
{
    const char *path = address->sun_path;
    struct stat st;
    if (lstat(path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return error_set(e, STATUS_PARAM_INVALID, "%s is there and is not a socket", path);
    int silence = bind_probe(address);
    if (silence == 0)
        return error_set(e, STATUS_FAIL, "another server listens on %s", path);
    if (silence != ECONNREFUSED)
        return error_set_errno(e, STATUS_FAIL, silence, "%s is there and cannot be asked", path);
    if (unlink(path) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "the old socket %s cannot be removed", path);
    return 0;
}

// Group only; the owner stays.
static int give_to_group(const char *path, const char *group, struct error *e)
{
    const struct group *entry = getgrnam(group);
    if (!entry)
        return error_set(e, STATUS_PARAM_INVALID, "there is no group \"%s\"", group);
    if (chown(path, (uid_t)-1, entry->gr_gid) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s cannot be given to group %s", path,
                               group);
    return 0;
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
    int r = group ? give_to_group(path, group, e) : 0;
    if (r == 0 && (chmod(path, 0660) < 0 || listen(fd, BACKLOG) < 0))
        r = error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    if (r < 0)
        unlink(path);
    return r;
}

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
int bind_unix(const char *path, const char *group, bind_taker *take, void *owner, struct error *e)
{
    struct sockaddr_un address;
    char name[sizeof address.sun_path + 8];
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
    if (r < 0)
        return r;
    snprintf(name, sizeof name, "unix:%s", path);
    return take(owner, steal_fd(&fd), name, path, e);
}

// ---- TCP ----------------------------------------------------------------------------------------

// The address as it turned out, with the port that the system chose for 0.
static void name_socket(int fd, char *name, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char host[64] = "?", port[8] = "?";
    if (getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(name, size, address.ss_family == AF_INET6 ? "tcp:[%s]:%s" : "tcp:%s:%s", host, port);
}

bool bind_is_public(int fd, char *uri, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0 ||
        (address.ss_family != AF_INET && address.ss_family != AF_INET6) ||
        tcp_is_loopback((struct sockaddr *)&address))
        return false;
    name_socket(fd, uri, size);
    return true;
}

// IPv6 sockets take IPv6 only, because the host's IPv4 addresses have sockets of their own.
static int bind_address(const struct addrinfo *a, const char *what, bind_taker *take, void *owner,
                        struct error *e)
{
    char name[128];
    int yes = 1;
    cleanup(fd_close_p) int fd =
        socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", what);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", what);
    name_socket(fd, name, sizeof name);
    return take(owner, steal_fd(&fd), name, NULL, e);
}

int bind_refuse_public(const char *what, const char *advice, struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID, "%s can be reached from other machines, %s", what,
                     advice);
}

// All addresses of the host, which freeaddrinfo() frees, are checked before the first one is bound.
static int find_addresses(const struct uri *uri, const char *what, const char *advice,
                          struct addrinfo **ret, struct error *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *all;
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)uri->port);
    int r = getaddrinfo(uri->text, port, &hints, &all);
    if (r != 0)
        return error_set(e, STATUS_PARAM_INVALID, "%s: %s", what, gai_strerror(r));
    for (const struct addrinfo *a = all; a; a = a->ai_next)
        if (advice && !tcp_is_loopback(a->ai_addr)) {
            freeaddrinfo(all);
            return bind_refuse_public(what, advice, e);
        }
    *ret = all;
    return 0;
}

int bind_check_tcp(const struct uri *uri, const char *advice, struct error *e)
{
    struct addrinfo *all = NULL;
    char what[320];
    uri_format(uri, what, sizeof what);
    int r = find_addresses(uri, what, advice, &all, e);
    if (r == 0)
        freeaddrinfo(all);
    return r;
}

static int bind_addresses(const struct addrinfo *all, const char *what, bind_taker *take,
                          void *owner, struct error *e)
{
    for (const struct addrinfo *a = all; a; a = a->ai_next) {
        int r = bind_address(a, what, take, owner, e);
        if (r < 0)
            return r;
    }
    return 0;
}

int bind_tcp(const struct uri *uri, const char *advice, bind_taker *take, void *owner,
             struct error *e)
{
    struct addrinfo *all = NULL;
    char what[320];
    uri_format(uri, what, sizeof what);
    int r = find_addresses(uri, what, advice, &all, e);
    if (r < 0)
        return r;
    r = bind_addresses(all, what, take, owner, e);
    freeaddrinfo(all);
    return r;
}
