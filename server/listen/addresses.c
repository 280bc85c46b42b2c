// Addresses are compared as texts, as the options have them: a reload or an upgrade keeps the
// sockets whose text is named again, opens those that are new and closes the rest. Two spellings of
// one address are two addresses; binding the second fails in words, and the first is kept.
#include "server/listen/addresses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/net/uri.h"
#include "server/listen/bind.h"
#include "server/listen/listen_schemes.h"

static int find_default(struct addresses *a, struct error *e)
{
    const char *folder = getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0)
        snprintf(a->by_default, sizeof a->by_default, "unix:" URI_SYSTEM_SOCKET);
    else if (folder && *folder)
        snprintf(a->by_default, sizeof a->by_default, "unix:%s/rknnd.sock", folder);
    else
        return error_set(e, STATUS_PARAM_INVALID,
                         "no address to listen on: give --listen, or set XDG_RUNTIME_DIR");
    a->uri[a->n++] = a->by_default;
    return 0;
}

int addresses_find(const struct options *o, bool others, struct addresses *ret, struct error *e)
{
    ret->n = 0;
    while (ret->n < o->n_listen) {
        ret->uri[ret->n] = o->listen[ret->n];
        ret->n++;
    }
    return ret->n == 0 && !others ? find_default(ret, e) : 0;
}

bool addresses_have(const struct addresses *a, const char *uri)
{
    for (unsigned i = 0; i < a->n; i++)
        if (strcmp(a->uri[i], uri) == 0)
            return true;
    return false;
}

// The system's folder is there after the first start, and otherwise where systemd or a package
// makes it.
static int make_folder(const char *uri, struct error *e)
{
    if (strcmp(uri, "unix:" URI_SYSTEM_SOCKET) != 0 || geteuid() != 0 ||
        mkdir(URI_SYSTEM_FOLDER, 0755) == 0 || errno == EEXIST)
        return 0;
    return error_set_errno(e, STATUS_FAIL, errno, URI_SYSTEM_FOLDER);
}

int addresses_open(const struct addresses *a, const struct addresses *but, struct listeners *l,
                   addresses_listen *listen, struct error *e)
{
    for (unsigned i = 0; i < a->n; i++) {
        if (but && addresses_have(but, a->uri[i]))
            continue;
        int r = make_folder(a->uri[i], e);
        if (r == 0)
            r = listen(l, a->uri[i], e);
        if (r < 0)
            return r;
    }
    return 0;
}

struct succeeding {
    const struct addresses *named;
    struct addresses here;
    const struct listeners *all;
};

// A listener_viewer. A host may have several sockets.
static int succeed_one(void *owner, const struct listener_view *v, struct error *e)
{
    struct succeeding *s = owner;
    char public[LISTENER_URI_SIZE];
    if (v->address && !addresses_have(s->named, v->address))
        return 0;
    if (!v->tls && !s->all->insecure && bind_is_public(v->fd, public, sizeof public))
        return bind_refuse_public(public, BIND_USE_TLS, e);
    if (!v->address || addresses_have(&s->here, v->address))
        return 0;
    s->here.uri[s->here.n++] = v->address;
    return listen_check(s->all, v->address, e);
}

int addresses_succeed(const struct addresses *a, struct listeners *l, struct error *e)
{
    struct succeeding s = {.named = a, .all = l};
    int r = listeners_view(l, succeed_one, &s, e);
    return r < 0 ? r : addresses_open(a, &s.here, l, listen_at, e);
}

void addresses_close_others(const struct addresses *a, struct listeners *l)
{
    for (unsigned i = 0; i < listeners_count(l);) {
        const char *address = listeners_address(l, i);
        if (!address || addresses_have(a, address)) {
            i++;
            continue;
        }
        char gone[4200]; // the text is one of those that are closed
        snprintf(gone, sizeof gone, "%s", address);
        listeners_close_address(l, gone);
    }
}
