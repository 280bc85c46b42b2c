// Servers on the network, by DNS-SD through Avahi (a D-Bus client of avahi-daemon). A browser
// reports names, one entry for each interface and protocol it is seen on; a resolver then asks for
// its address and TXT record:
//
//   NEW --> ENTRY_ASKED --> ENTRY_KNOWN | ENTRY_FAILED        REMOVE: freed
//
// All callbacks run inside network_wait(), on its caller's thread. Everything that is announced is
// untrusted: texts are filtered and cut.
#include "tools/ui/network.h"

#include <avahi-client/client.h>
#include <avahi-client/lookup.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/simple-watch.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"

#define SERVICE "_rknnd._tcp"

struct entry {
    struct entry *next;
    AvahiIfIndex interface;
    AvahiProtocol protocol;
    AvahiServiceResolver *resolver;
    enum { ENTRY_ASKED, ENTRY_FAILED, ENTRY_KNOWN } state;
    unsigned rank; // of its address
    struct network_server server;
};

struct network {
    AvahiSimplePoll *poll;
    AvahiClient *client;
    AvahiServiceBrowser *browser;
    struct entry *entries;
    bool browsed; // all that is there has been named
    int error;    // of Avahi; 0: none
};

// ---- what others say ---------------------------------------------------------------------------

// Cutting may leave a part of a character, which is none any more.
static void copy_text(char *ret, size_t size, const char *text)
{
    snprintf(ret, size, "%s", text);
    text_make_printable(ret);
}

// The value of a key, "" if there is none.
static void take_text(char *ret, size_t size, AvahiStringList *txt, const char *key)
{
    char *value = NULL;
    AvahiStringList *found = avahi_string_list_find(txt, key);
    if (found)
        avahi_string_list_get_pair(found, NULL, &value, NULL);
    copy_text(ret, size, value ? value : "");
    avahi_free(value);
}

// Larger is better: 4 IPv4, 3 IPv6, 2 IPv6 link-local (needs an interface), 1 loopback.
static unsigned rank_address(const AvahiAddress *a)
{
    const uint8_t *b = a->data.data;
    if (a->proto == AVAHI_PROTO_INET)
        return b[0] == 127 ? 1 : 4;
    return b[0] == 0xfe && (b[1] & 0xc0) == 0x80 ? 2 : 3; // link-local
}

// The server's URI. A link-local address is valid only with its interface: [fe80::1%eth0].
static void take_address(struct entry *e, const AvahiAddress *a, uint16_t port)
{
    char address[AVAHI_ADDRESS_STR_MAX], interface[IF_NAMESIZE] = "";
    char *uri = e->server.uri;
    size_t size = sizeof e->server.uri;
    const char *scheme = strcmp(e->server.tls, "1.3") == 0 ? "tls" : "tcp";
    avahi_address_snprint(address, sizeof address, a);
    e->rank = rank_address(a);
    if (e->rank == 2)
        if_indextoname((unsigned)e->interface, interface);
    if (a->proto == AVAHI_PROTO_INET)
        snprintf(uri, size, "%s:%s:%u", scheme, address, port);
    else
        snprintf(uri, size, "%s:[%s%s%s]:%u", scheme, address, *interface ? "%" : "", interface,
                 port);
}

// Avahi calls again when a record changes: the entry is then updated.
static void on_resolved(AvahiServiceResolver *r, AvahiIfIndex interface, AvahiProtocol protocol,
                        AvahiResolverEvent event, const char *name, const char *type,
                        const char *domain, const char *host, const AvahiAddress *address,
                        uint16_t port, AvahiStringList *txt, AvahiLookupResultFlags flags,
                        void *owner)
{
    struct entry *e = owner;
    (void)r, (void)interface, (void)protocol, (void)name, (void)type, (void)domain, (void)host,
        (void)flags;
    e->state = event == AVAHI_RESOLVER_FOUND ? ENTRY_KNOWN : ENTRY_FAILED;
    if (e->state == ENTRY_FAILED)
        return;
    take_text(e->server.chip, sizeof e->server.chip, txt, "chip");
    take_text(e->server.tls, sizeof e->server.tls, txt, "tls");
    take_address(e, address, port); // its scheme depends on tls
}

// ---- entries -----------------------------------------------------------------------------------

static void free_entry(struct entry *e)
{
    if (e->resolver)
        avahi_service_resolver_free(e->resolver);
    free(e);
}

// Freeing the resolver cancels its callback, so that the entry may be its argument.
static void add_entry(struct network *n, AvahiIfIndex interface, AvahiProtocol protocol,
                      const char *name, const char *type, const char *domain)
{
    struct entry *e = calloc(1, sizeof *e);
    if (!e) {
        n->error = AVAHI_ERR_NO_MEMORY;
        return;
    }
    e->interface = interface;
    e->protocol = protocol;
    copy_text(e->server.name, sizeof e->server.name, name);
    e->next = n->entries;
    n->entries = e;
    e->resolver = avahi_service_resolver_new(n->client, interface, protocol, name, type, domain,
                                             protocol, 0, on_resolved, e);
    if (!e->resolver)
        e->state = ENTRY_FAILED;
}

static void remove_entry(struct network *n, AvahiIfIndex interface, AvahiProtocol protocol,
                         const char *name)
{
    struct network_server gone;
    copy_text(gone.name, sizeof gone.name, name);
    for (struct entry **at = &n->entries; *at; at = &(*at)->next) {
        struct entry *e = *at;
        if (e->interface != interface || e->protocol != protocol ||
            strcmp(e->server.name, gone.name) != 0)
            continue;
        *at = e->next;
        free_entry(e);
        return;
    }
}

static void on_browsed(AvahiServiceBrowser *b, AvahiIfIndex interface, AvahiProtocol protocol,
                       AvahiBrowserEvent event, const char *name, const char *type,
                       const char *domain, AvahiLookupResultFlags flags, void *owner)
{
    struct network *n = owner;
    (void)b, (void)flags;
    if (event == AVAHI_BROWSER_NEW)
        add_entry(n, interface, protocol, name, type, domain);
    else if (event == AVAHI_BROWSER_REMOVE)
        remove_entry(n, interface, protocol, name);
    else if (event == AVAHI_BROWSER_ALL_FOR_NOW)
        n->browsed = true;
    else if (event == AVAHI_BROWSER_FAILURE)
        n->error = avahi_client_errno(n->client);
}

// ---- life --------------------------------------------------------------------------------------

static void on_client(AvahiClient *client, AvahiClientState state, void *owner)
{
    struct network *n = owner;
    if (state == AVAHI_CLIENT_FAILURE)
        n->error = avahi_client_errno(client);
}

static int fail_avahi(struct error *e, int error)
{
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "the network cannot be searched: Avahi: %s (is avahi-daemon installed, and "
                     "does it run?)",
                     avahi_strerror(error));
}

static int start_browsing(struct network *n, struct error *e)
{
    int error = AVAHI_ERR_NO_MEMORY;
    n->poll = avahi_simple_poll_new();
    if (n->poll)
        n->client = avahi_client_new(avahi_simple_poll_get(n->poll), 0, on_client, n, &error);
    if (!n->client)
        return fail_avahi(e, error);
    n->browser = avahi_service_browser_new(n->client, AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC, SERVICE,
                                           NULL, 0, on_browsed, n);
    return n->browser ? 0 : fail_avahi(e, avahi_client_errno(n->client));
}

int network_open(struct network **ret, struct error *e)
{
    struct network *n = calloc(1, sizeof *n);
    if (!n)
        return error_no_memory(e, "the servers of the network", 0);
    int r = start_browsing(n, e);
    if (r)
        network_close(n);
    else
        *ret = n;
    return r;
}

void network_close(struct network *n)
{
    if (!n)
        return;
    while (n->entries) {
        struct entry *e = n->entries;
        n->entries = e->next;
        free_entry(e);
    }
    if (n->client)
        avahi_client_free(n->client); // the browser with it
    if (n->poll)
        avahi_simple_poll_free(n->poll);
    free(n);
}

// The browser has reported all it knows, and each has an answer.
static bool all_known(const struct network *n)
{
    for (const struct entry *e = n->entries; e; e = e->next)
        if (e->state == ENTRY_ASKED)
            return false;
    return n->browsed;
}

// Runs Avahi's event loop for `ms`, or until all is known. At least 1 ms for each turn, so that the
// last one does not spin.
int network_wait(struct network *n, unsigned ms, bool until_known, struct error *e)
{
    uint64_t until = clock_ns() + ms * UINT64_C(1000000);
    for (;;) {
        uint64_t now = clock_ns();
        if (n->error)
            return fail_avahi(e, n->error);
        if (now >= until || (until_known && all_known(n)))
            return 0;
        if (avahi_simple_poll_iterate(n->poll, (int)((until - now) / 1000000) + 1) != 0)
            return fail_avahi(e, AVAHI_ERR_OS);
    }
}

// ---- the list ----------------------------------------------------------------------------------

// A server is seen once for each interface and protocol: the entry with the best address stands for
// it; the pointer decides among equals.
static bool has_better(const struct network *n, const struct entry *e)
{
    for (const struct entry *o = n->entries; o; o = o->next)
        if (o != e && o->state == ENTRY_KNOWN && strcmp(o->server.name, e->server.name) == 0 &&
            (o->rank > e->rank || (o->rank == e->rank && o < e)))
            return true;
    return false;
}

size_t network_list(const struct network *n, struct network_server *ret, size_t max)
{
    size_t found = 0;
    for (const struct entry *e = n->entries; e && found < max; e = e->next)
        if (e->state == ENTRY_KNOWN && !has_better(n, e))
            ret[found++] = e->server;
    return found;
}
