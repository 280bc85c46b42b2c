// What the kernel says about the program at the other end of a connection.
#include "server/listen/origin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/line.h"
#include "base/log.h"

bool origin_is_gone(const struct origin *o)
{
    return o->local && o->pid > 0 && kill(o->pid, 0) < 0 && errno == ESRCH;
}

// From /proc/PID/stat: "PID (name) S ...", where S is the state; T is stopped by a signal, t by a
// debugger. The name may contain anything, also brackets, hence the search for the last one.
bool origin_is_stopped(const struct origin *o)
{
    char path[32], stat[128];
    if (!o->local || o->pid <= 0)
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)o->pid);
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? fd : read(fd, stat, sizeof stat - 1);
    if (n <= 0)
        return false; // it is not to be seen from here, or has ended
    stat[n] = 0;
    const char *name_end = strrchr(stat, ')');
    return name_end && strlen(name_end) > 2 && strchr("Tt", name_end[2]);
}

// By the user id that the kernel reported when the connection was made.
bool origin_is_operator(const struct origin *o)
{
    return o->local && (o->uid == 0 || o->uid == geteuid());
}

// The addresses of the loopback interface, of which every program has as many as it likes (it may
// bind its end to any in 127.0.0.0/8), are one.
static void set_v4(struct origin *o, struct in_addr address)
{
    if (ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET)
        address.s_addr = htonl(INADDR_LOOPBACK);
    inet_ntop(AF_INET, &address, o->source, sizeof o->source);
}

// An IPv4 address may come as an IPv6 one (::ffff:10.0.0.7).
void origin_set_source(struct origin *o, const struct sockaddr *peer)
{
    const struct sockaddr_in *v4 = (const void *)peer;
    const struct sockaddr_in6 *v6 = (const void *)peer;
    char text[INET6_ADDRSTRLEN];
    if (peer->sa_family == AF_INET) {
        set_v4(o, v4->sin_addr);
    } else if (peer->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        struct in_addr mapped;
        memcpy(&mapped, v6->sin6_addr.s6_addr + 12, sizeof mapped);
        set_v4(o, mapped);
    } else if (peer->sa_family == AF_INET6) {
        struct in6_addr network = v6->sin6_addr;
        memset(network.s6_addr + 8, 0, 8);
        inet_ntop(AF_INET6, &network, text, sizeof text);
        snprintf(o->source, sizeof o->source, "%s/64", text);
    }
}

bool origin_is_kind(const char *who)
{
    size_t n = strlen(ORIGIN_TLS);
    return strcmp(who, "tcp") == 0 || strcmp(who, "tls") == 0 || strcmp(who, ORIGIN_USB) == 0 ||
           (strncmp(who, ORIGIN_TLS, n) == 0 && tls_identity_is_valid(who + n, strlen(who + n)));
}

// Of one with more supplementary groups than fit, only the first group is known.
#define GROUPS_MAX 1024

// Users and groups that this process's user namespace does not have are all said to be one number,
// which is "nobody" there, and may be the service's own.
static struct {
    uid_t user;
    gid_t group;
} strangers = {(uid_t)-1, (gid_t)-1}; // -1: all are known by their numbers

static pthread_once_t strangers_known = PTHREAD_ONCE_INIT;

// Whether a namespace's map is that of the first one: all numbers, as they are.
static bool is_first(char *map)
{
    static const char *const words[] = {"0", "0", "4294967295"};
    char *rest;
    const char *word = strtok_r(map, " ", &rest);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++, word = strtok_r(NULL, " ", &rest))
        if (!word || strcmp(word, words[i]) != 0)
            return false;
    return true;
}

// Without these files nothing is known of namespaces.
static uint32_t find_stranger(const char *map, const char *overflow)
{
    char line[128], number[16];
    bool known = line_read(map, line, sizeof line) && line_read(overflow, number, sizeof number);
    return !known || is_first(line) ? UINT32_MAX : (uint32_t)strtoul(number, NULL, 10);
}

static void find_strangers(void)
{
    strangers.user = find_stranger("/proc/self/uid_map", "/proc/sys/kernel/overflowuid");
    strangers.group = find_stranger("/proc/self/gid_map", "/proc/sys/kernel/overflowgid");
    if (strangers.user == geteuid())
        log_warn(
            "this service's user (%u) is what the kernel calls all whom its user namespace does "
            "not have: its own programs cannot be told from those, so none may look after it",
            (unsigned)strangers.user);
}

static bool is_among(gid_t wanted, const gid_t *groups, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (groups[i] == wanted && wanted != strangers.group)
            return true;
    return false;
}

// As of connect().
void origin_set_peer(struct origin *o, int socket, const gid_t *groups, unsigned n_groups)
{
    struct ucred peer = {.uid = (uid_t)-1, .gid = (gid_t)-1};
    gid_t its[GROUPS_MAX];
    socklen_t size = sizeof peer, its_size = sizeof *its * (GROUPS_MAX - 1);
    o->local = true;
    pthread_once(&strangers_known, find_strangers);
    bool known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    o->pid = peer.pid;
    o->uid = peer.uid == strangers.user ? (uid_t)-1 : peer.uid;
    snprintf(o->text, sizeof o->text, "unix, pid %d, uid %u", (int)peer.pid, (unsigned)peer.uid);
    if (!known)
        return;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, its, &its_size) < 0)
        its_size = 0;
    size_t n = its_size / sizeof *its;
    its[n++] = peer.gid;
    for (unsigned i = 0; i < n_groups && i < 64; i++)
        o->groups |= (uint64_t)is_among(groups[i], its, n) << i;
    o->member = is_among(getegid(), its, n) || o->groups >> ORIGIN_SOCKET_GROUP & 1;
}
