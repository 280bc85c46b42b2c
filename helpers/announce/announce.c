// rknnd-announce: tells the network, through Avahi, where an rknnd listens. The daemon starts it
// (--announce), and it ends with its standard input, whose other end the daemon holds.
//
//                                     Avahi runs
//     NO CLIENT ------> CONNECTING --------------> RUNNING (the services are published)
//        ^  D-Bus answers                            |
//        +-------------------------------------------+  Avahi or D-Bus is gone: again in a while
#include <arpa/inet.h>
#include <avahi-client/client.h>
#include <avahi-client/publish.h>
#include <avahi-common/alternative.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/simple-watch.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/net/uri.h"
#include "base/options/option_table.h"
#include "base/process/shut_in.h"

#define SERVICE    "_rknnd._tcp"
#define MAX_PLACES 32
#define RETRY_MS   5000

// An address of the server: announced on the interface that has it, or on all.
struct place {
    AvahiIfIndex interface;
    AvahiProtocol protocol;
    uint16_t port;
};

struct announcer {
    struct place places[MAX_PLACES];
    unsigned n_places;
    AvahiStringList *txt;
    AvahiSimplePoll *poll;
    AvahiClient *client; // NULL: none
    AvahiEntryGroup *group;
    char *name; // of the service; NULL: the host's
    bool lost;  // the client is of no use any more
    char said[200];
};

// ---- words -------------------------------------------------------------------------------------

// Not again what was said last, so that retries do not fill the log.
static void announcer_say(struct announcer *a, enum log_level level, const char *what,
                          const char *detail)
{
    char text[sizeof a->said];
    snprintf(text, sizeof text, "%s%s", what, detail);
    if (strcmp(text, a->said) != 0)
        log_at(level, "%s", text);
    memcpy(a->said, text, sizeof text);
}

static void say_failed(struct announcer *a, int error)
{
    announcer_say(a, LOG_WARN,
                  "Avahi cannot announce this server (is avahi-daemon installed, does it run?): ",
                  avahi_strerror(error));
}

// ---- publishing --------------------------------------------------------------------------------

static void announcer_publish(struct announcer *a);

// Somebody else has the name: "board #2".
static void rename_service(struct announcer *a)
{
    char *other = avahi_alternative_service_name(a->name);
    avahi_free(a->name);
    a->name = other;
}

// Avahi's answer to a published group of services. A collision means that another host has the
// name: take the next one and publish again.
static void on_group(AvahiEntryGroup *group, AvahiEntryGroupState state, void *owner)
{
    struct announcer *a = owner;
    a->group = group;
    if (state == AVAHI_ENTRY_GROUP_ESTABLISHED) {
        announcer_say(a, LOG_INFO, "announced on the network as ", a->name);
    } else if (state == AVAHI_ENTRY_GROUP_COLLISION) {
        rename_service(a);
        avahi_entry_group_reset(group);
        announcer_publish(a);
    } else if (state == AVAHI_ENTRY_GROUP_FAILURE) {
        say_failed(a, avahi_client_errno(a->client));
    }
}

static int add_places(struct announcer *a)
{
    int r = AVAHI_OK;
    for (unsigned i = 0; i < a->n_places && r == AVAHI_OK; i++) {
        const struct place *p = &a->places[i];
        r = avahi_entry_group_add_service_strlst(a->group, p->interface, p->protocol, 0, a->name,
                                                 SERVICE, NULL, NULL, p->port, a->txt);
    }
    return r;
}

// Publishes all places under one name, the host's unless it was taken. Names that collide on this
// host are found at once, those of others by on_group() later.
static void announcer_publish(struct announcer *a)
{
    int r = AVAHI_OK;
    if (!a->name)
        a->name = avahi_strdup(avahi_client_get_host_name(a->client));
    if (!a->group && !avahi_entry_group_new(a->client, on_group, a))
        r = avahi_client_errno(a->client);
    while (r == AVAHI_OK && (r = add_places(a)) == AVAHI_ERR_COLLISION) {
        rename_service(a);
        r = avahi_entry_group_reset(a->group);
    }
    if (r == AVAHI_OK)
        r = avahi_entry_group_commit(a->group);
    if (r != AVAHI_OK)
        say_failed(a, r);
}

// The host's name is changing; the new one becomes the service's.
static void announcer_withdraw(struct announcer *a)
{
    if (a->group)
        avahi_entry_group_reset(a->group);
    avahi_free(a->name);
    a->name = NULL;
}

// State of the connection to avahi-daemon. Called from inside avahi_client_new() too, before that
// has returned the client. A client is not freed from inside its callback: `lost` tells the loop.
static void on_client(AvahiClient *client, AvahiClientState state, void *owner)
{
    struct announcer *a = owner;
    a->client = client;
    switch (state) {
    case AVAHI_CLIENT_S_RUNNING:
        announcer_publish(a);
        break;
    case AVAHI_CLIENT_S_REGISTERING:
    case AVAHI_CLIENT_S_COLLISION:
        announcer_withdraw(a);
        break;
    case AVAHI_CLIENT_CONNECTING:
        say_failed(a, AVAHI_ERR_NO_DAEMON);
        break;
    case AVAHI_CLIENT_FAILURE:
        a->lost = true;
        say_failed(a, avahi_client_errno(client));
    }
}

// ---- life --------------------------------------------------------------------------------------

// NO_FAIL: waits for a daemon that does not run yet.
static void connect_client(struct announcer *a)
{
    int error = 0;
    a->client = avahi_client_new(avahi_simple_poll_get(a->poll), AVAHI_CLIENT_NO_FAIL, on_client, a,
                                 &error);
    if (!a->client)
        say_failed(a, error);
}

static void drop_client(struct announcer *a)
{
    if (a->client)
        avahi_client_free(a->client); // the group with it
    avahi_free(a->name);
    a->client = NULL;
    a->group = NULL;
    a->name = NULL;
    a->lost = false;
}

static void on_stdin(AvahiWatch *watch, int fd, AvahiWatchEvent event, void *owner)
{
    struct announcer *a = owner;
    (void)watch;
    (void)fd;
    (void)event;
    avahi_simple_poll_quit(a->poll);
}

// Until standard input ends.
static void announcer_run(struct announcer *a)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    for (;;) {
        connect_client(a);
        while (a->client && !a->lost)
            if (avahi_simple_poll_iterate(a->poll, -1) != 0)
                return;
        drop_client(a);
        if (poll(&input, 1, RETRY_MS) > 0)
            return;
    }
}

// ---- the command line --------------------------------------------------------------------------

// Whether the interface has this address; the wildcards 0.0.0.0 and :: belong to no interface.
static bool is_at(const struct ifaddrs *i, int family, const void *address)
{
    if (!i->ifa_addr || i->ifa_addr->sa_family != family)
        return false;
    const void *has = family == AF_INET
                          ? (const void *)&((const struct sockaddr_in *)i->ifa_addr)->sin_addr
                          : (const void *)&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
    return memcmp(has, address, family == AF_INET ? 4 : 16) == 0;
}

// The interface that has the address, or that its scope names ("fe80::1%eth0"); UNSPEC: all.
static AvahiIfIndex find_interface(int family, const void *address, const char *scope)
{
    struct ifaddrs *all, *i;
    unsigned found = scope ? if_nametoindex(scope) : 0;
    if (found == 0 && getifaddrs(&all) == 0) {
        for (i = all; i && found == 0; i = i->ifa_next)
            if (is_at(i, family, address))
                found = if_nametoindex(i->ifa_name);
        freeifaddrs(all);
    }
    return found ? (AvahiIfIndex)found : AVAHI_IF_UNSPEC;
}

// Avahi takes a service once for each interface and protocol: of several ports the first is told,
// but one that all interfaces have goes before one that a single interface has.
static void take_place(struct announcer *a, const struct place *new)
{
    unsigned n = 0;
    for (unsigned i = 0; i < a->n_places; i++) {
        const struct place old = a->places[i];
        bool same = old.protocol == new->protocol;
        if (same && (old.interface == new->interface || old.interface == AVAHI_IF_UNSPEC))
            return;
        if (!same || new->interface != AVAHI_IF_UNSPEC)
            a->places[n++] = old;
    }
    a->places[n++] = *new;
    a->n_places = n;
}

// One URI of the command line: a TCP port at a numeric address.
static int add_place(struct announcer *a, const char *text, struct error *e)
{
    struct uri uri;
    struct in6_addr address;
    int r = uri_parse(text, (const struct uri_scheme *const[]){&uri_tcp, &uri_tls}, 2, &uri, e);
    if (r < 0)
        return r;
    int family = strchr(uri.text, ':') ? AF_INET6 : AF_INET;
    char *scope = strchr(uri.text, '%');
    if (scope)
        *scope++ = 0;
    if (inet_pton(family, uri.text, &address) != 1)
        return error_set(e, STATUS_PARAM_INVALID, "%s is not a TCP port at an address", text);
    if (a->n_places == MAX_PLACES)
        return error_set(e, STATUS_PARAM_INVALID, "more than %d addresses", MAX_PLACES);
    take_place(a, &(struct place){
                      .interface = find_interface(family, &address, scope),
                      .protocol = family == AF_INET ? AVAHI_PROTO_INET : AVAHI_PROTO_INET6,
                      .port = uri.port,
                  });
    return 0;
}

static int add_txt(void *announcer, const char *text, struct error *e)
{
    struct announcer *a = announcer;
    AvahiStringList *txt = avahi_string_list_add(a->txt, text);
    if (!txt)
        return error_no_memory(e, "a TXT record", strlen(text));
    a->txt = txt;
    return 0;
}

static int announcer_parse(struct announcer *a, int argc, char **argv, struct error *e)
{
    const struct option_row rows[] = {
        {0, "log-level", OPTION_LOG_LEVEL, NULL, "LEVEL", LOG_LEVELS, 0, 0, NULL},
        {0, "txt", OPTION_CALL, a, "KEY=VALUE", "what is told of the server", 0, 0, add_txt},
    };
    const struct option_table table = {
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
        .hint = "; usage: rknnd-announce [--log-level LEVEL] [--txt KEY=VALUE]... URI..."};
    int first = argc, r = option_table_parse(&table, argc, argv, &first, e);
    for (int i = first; r == 0 && i < argc; i++)
        r = add_place(a, argv[i], e);
    return r;
}

static int announcer_start(struct announcer *a, struct error *e)
{
    a->poll = avahi_simple_poll_new();
    const AvahiPoll *api = a->poll ? avahi_simple_poll_get(a->poll) : NULL;
    if (!api || !api->watch_new(api, STDIN_FILENO, AVAHI_WATCH_IN, on_stdin, a))
        return error_no_memory(e, "a loop", 0);
    announcer_run(a);
    return 0;
}

int main(int argc, char **argv)
{
    struct announcer a = {0};
    struct error e;
    log_set_level(LOG_INFO);
    log_mark_levels();
    signal(SIGHUP, SIG_IGN); // the daemon's business
    // It hears the network through Avahi. D-Bus's library looks for its settings there.
    static const char *const read[] = {"/etc",  "/usr", "/lib",          "/lib64",
                                       "/proc", "/run", "/var/lib/dbus", NULL};
    int r = announcer_parse(&a, argc, argv, &e);
    if (r == 0 && shut_in(read, &e) < 0)
        log_warn("rknnd-announce is not shut in: %s", e.text);
    if (r == 0)
        r = announcer_start(&a, &e);
    if (r < 0)
        log_error("%s", e.text);
    drop_client(&a);
    if (a.poll)
        avahi_simple_poll_free(a.poll);
    avahi_string_list_free(a.txt);
    return r < 0;
}
