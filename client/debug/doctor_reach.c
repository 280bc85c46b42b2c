// The way to a server, hop by hop.
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/who.h"
#include "client/debug/doctor.h"
#include "client/link/connect.h"
#include "client/link/servers.h"

#define START_IT                                                                                   \
    "start rknnd (`systemctl start rknnd`; `journalctl -u rknnd` says why it does not stay), or "  \
    "choose another server with RKNND_SERVER"

// ---- Unix sockets ------------------------------------------------------------------------------

static bool tell_no_file(struct doctor *d, const char *path)
{
    if (errno == EACCES)
        doctor_tell(d, RKNND_CHECK_BAD, "socket", "let this user enter the folders above it",
                    "%s cannot be looked at: a folder above it is closed to this user", path);
    else if (errno == ENOENT)
        doctor_tell(d, RKNND_CHECK_BAD, "socket", START_IT, "%s is not there", path);
    else
        doctor_tell(d, RKNND_CHECK_BAD, "socket", "correct the path", "%s: %s", path,
                    strerror(errno));
    return false;
}

static bool tell_closed(struct doctor *d, const char *path, const struct stat *st)
{
    char me[WHO_SIZE], owner[WHO_SIZE], group[WHO_SIZE], advice[200];
    who_user(geteuid(), me);
    who_user(st->st_uid, owner);
    who_group(st->st_gid, group);
    who_join(st->st_gid, advice, sizeof advice);
    doctor_tell(d, RKNND_CHECK_BAD, "socket", advice,
                "%s belongs to %s:%s (mode %04o): user %s may not connect", path, owner, group,
                (unsigned)st->st_mode & 07777, me);
    return false;
}

static bool check_file(struct doctor *d, const char *path)
{
    struct stat st;
    char owner[WHO_SIZE], group[WHO_SIZE];
    if (stat(path, &st) < 0)
        return tell_no_file(d, path);
    if (!S_ISSOCK(st.st_mode)) {
        doctor_tell(d, RKNND_CHECK_BAD, "socket", "correct the path", "%s is no socket", path);
        return false;
    }
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
        return tell_closed(d, path, &st);
    who_user(st.st_uid, owner);
    who_group(st.st_gid, group);
    doctor_tell(d, RKNND_CHECK_GOOD, "socket", "", "%s, %s:%s, mode %04o", path, owner, group,
                (unsigned)st.st_mode & 07777);
    return true;
}

static void tell_listener(struct doctor *d, int fd)
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
    doctor_tell(d, RKNND_CHECK_GOOD, "connection", "", "%s listens (pid %d, user %s)", name,
                (int)peer.pid, user);
}

static bool reach_unix(struct doctor *d, const struct uri *uri)
{
    if (!check_file(d, uri->text))
        return false;
    cleanup(fd_close_p) int fd = connect_file(uri->text);
    if (fd >= 0)
        tell_listener(d, fd);
    else if (fd == -ECONNREFUSED)
        doctor_tell(d, RKNND_CHECK_BAD, "connection", START_IT,
                    "nobody listens on %s: the daemon that made it has ended", uri->text);
    else
        doctor_tell(d, RKNND_CHECK_BAD, "connection",
                    "it may be stopped or overloaded: look at its process and log",
                    "%s does not take connections: %s", uri->text, strerror(-fd));
    return fd >= 0;
}

// ---- TCP ---------------------------------------------------------------------------------------

static void append(char *text, size_t size, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? ", " : "", word);
}

static void tell_addresses(struct doctor *d, const struct uri *uri, const struct addrinfo *list)
{
    char all[300] = "", one[NI_MAXHOST];
    for (; list; list = list->ai_next)
        if (getnameinfo(list->ai_addr, list->ai_addrlen, one, sizeof one, NULL, 0,
                        NI_NUMERICHOST) == 0)
            append(all, sizeof all, one);
    doctor_tell(d, RKNND_CHECK_GOOD, "host", "", "%s is %s", uri->text, all);
}

static bool reach_tcp(struct doctor *d, const struct uri *uri)
{
    struct error e;
    cleanup(freeaddrinfo_p) struct addrinfo *list = NULL;
    if (connect_look_up(uri, &list, &e) < 0) {
        doctor_tell(d, RKNND_CHECK_BAD, "host",
                    "correct the name, or give the address; `getent hosts NAME` asks the same",
                    "%s", e.text);
        return false;
    }
    tell_addresses(d, uri, list);
    cleanup(fd_close_p) int fd = connect_addresses(list);
    if (fd >= 0)
        doctor_tell(d, RKNND_CHECK_GOOD, "connection", "", "port %u is open", uri->port);
    else
        doctor_tell(d, RKNND_CHECK_BAD, "connection", connect_advice(-fd), "port %u: %s", uri->port,
                    strerror(-fd));
    return fd >= 0;
}

// ---- any server --------------------------------------------------------------------------------

static const char *greeting_advice(const char *uri, int error)
{
    if (error == STATUS_DEVICE_UNMATCH)
        return "update the older of the two, rknnd or this library";
    if (strncmp(uri, "sim:", strlen("sim:")) == 0)
        return "sim: alone is any chip; where rknnd is not found, install it or set RKNND_DAEMON";
    return "what answers there is no rknnd, or it hangs, or turns this client away: look at its "
           "log";
}

static struct connection *greet(struct doctor *d, const char *uri)
{
    struct error e;
    struct connection *c = NULL;
    int r = server_connect(uri, &c, &e);
    if (r == 0)
        doctor_tell(d, RKNND_CHECK_GOOD, "greeting", "", "%s, protocol %u (this library: %s)",
                    c->peer.software, c->peer.version, RKNND_VERSION);
    else
        doctor_tell(d, RKNND_CHECK_BAD, "greeting", greeting_advice(uri, r), "%s", e.text);
    return c;
}

static struct connection *reach(struct doctor *d, const char *text)
{
    struct error e;
    struct uri uri;
    if (uri_parse(text, &uri, &e) < 0) {
        doctor_tell(d, RKNND_CHECK_BAD, "address",
                    "write unix:PATH, tcp:HOST:PORT, usb:[SERIAL], adb:[SERIAL] or sim:[CHIP]",
                    "%s", e.text);
        return NULL;
    }
    bool through = uri.kind == URI_UNIX  ? reach_unix(d, &uri)
                   : uri.kind == URI_TCP ? reach_tcp(d, &uri)
                   : uri.kind == URI_SIM ? true
                                         : doctor_board(d, &uri);
    return through ? greet(d, text) : NULL;
}

// What programs get: the first local socket that answers, else the only board.
static struct connection *reach_default(struct doctor *d, const struct server_selection *selection)
{
    struct error e;
    struct uri uri;
    rknnd_device board;
    struct connection *c = NULL;
    for (unsigned i = 0; i < selection->n_uris && !c; i++)
        if (uri_parse(selection->uris[i], &uri, &e) < 0 || access(uri.text, F_OK) == 0)
            c = reach(d, selection->uris[i]);
    if (c)
        return c;
    if (selection_find_board(&board, &e) == 0)
        return reach(d, board.uri);
    doctor_tell(d, RKNND_CHECK_BAD, "socket", START_IT, "no local socket answers, and %s", e.text);
    return NULL;
}

struct connection *doctor_reach(struct doctor *d)
{
    static const char *const sources[] = {
        [SELECTION_THREAD] = "chosen by the program, for this thread",
        [SELECTION_PROGRAM] = "chosen by the program (rknnctl: --server)",
        [SELECTION_ENVIRONMENT] = "RKNND_SERVER in the environment",
    };
    struct server_selection selection;
    selection_make(NULL, &selection);
    if (selection.source == SELECTION_DEFAULT) {
        doctor_tell(
            d, RKNND_CHECK_GOOD, "server", "",
            "none is chosen (RKNND_SERVER is not set): the local sockets are tried, then the "
            "only board");
        return reach_default(d, &selection);
    }
    if (selection.n_uris == 0) {
        doctor_tell(d, RKNND_CHECK_BAD, "server", "shorten it", "RKNND_SERVER is too long");
        return NULL;
    }
    doctor_tell(d, RKNND_CHECK_GOOD, "server", "", "%s, %s", selection.uris[0],
                sources[selection.source]);
    return reach(d, selection.uris[0]);
}
