// Connections on their way in: from a listening socket past the daemon before this one, if there is
// one (upgrade/succession.h), and past whoever has to say which user it is (clients/arrivals.h), to
// a place among the connections.
#include "server/server.h"

#include "base/log.h"
#include "base/net/discard.h"
#include "server/net/transport_socket.h"

// Makes room for a new connection: closes the user's oldest one that has not said HELLO in time, or
// not who it is, where that is to be said first; or, for an operator, anybody's. So who opens
// connections without end has those of his own closed. False: there is none.
static bool close_unused(struct server *s, const struct connection *for_whom)
{
    const struct user *user = for_whom->user;
    struct connection *c;
    list_for_each (c, &s->connections.all, link)
        if (c != for_whom && (c->user == user || user->account.tier == ACCOUNT_OPERATOR) &&
            (connection_is_unused(c, uv_now(s->loop)) || connection_is_unknown(c))) {
            connection_close(c, "no HELLO, and others want its place");
            return true;
        }
    return false;
}

static int server_admit(struct server *s, struct connection *c, struct error *e)
{
    int r;
    while ((r = account_charge(c->account, ACCOUNT_CONNECTIONS, 1, e)) < 0)
        if (!close_unused(s, c))
            return r;
    c->admitted = true;
    return 0;
}

// A new connection, from whichever transport. One too many is told so with a goodbye.
static void take_transport(struct server *s, struct transport *transport,
                           const struct origin *origin, const struct identity *who)
{
    if (s->state != SERVER_SERVING && s->state != SERVER_RETIRING) {
        transport_close(transport);
        return;
    }
    struct user *user;
    struct error e;
    bool comes = !user_is_there(&s->users, origin);
    if (user_get(&s->users, origin, who, &user, &e) < 0) {
        log_error("a connection was refused: %s", e.text);
        transport_close(transport);
        return;
    }
    if (comes)
        passed_claim(&s->connections.left, user);
    struct connection *c = connection_new(&s->connections, transport, origin, user);
    user_unref(user);
    if (c && origin->local) // its groups are numbered by the rules as they are now
        c->rights = rights_of(&s->options->rights, origin, c->user->name);
    if (c && server_admit(s, c, &e) < 0)
        connection_leave(c, e.text);
    server_start_sweep(s);
}

// Only another machine can vanish without the socket telling it; so only there TCP is made to
// probe.
static void take_known(struct arrivals *all, int fd, const struct origin *origin,
                       const struct identity *who)
{
    struct server *s = container_of(all, struct server, arrivals);
    struct error e;
    struct transport *transport, *socket;
    if (transport_socket_new(s->loop, fd, &socket, &e) < 0) {
        log_error("a connection was refused: %s", e.text);
        discard_socket(fd);
        return;
    }
    transport = socket;
    if (origin->remote)
        transport_socket_keep_asking(socket, s->options->heartbeat_ms, s->options->peer_timeout_ms);
    if (origin->tls && transport_secure_new(&s->tls, socket, origin->text, &transport, &e) < 0) {
        log_error("a connection was refused: %s", e.text);
        transport_close(socket);
        return;
    }
    take_transport(s, transport, origin, who);
}

void server_take(struct server *s, int fd, const struct origin *origin)
{
    if (s->state == SERVER_SERVING || s->state == SERVER_RETIRING)
        arrivals_take(&s->arrivals, fd, origin);
    else
        discard_socket(fd);
}

static void on_connected(struct listeners *l, int fd, const struct origin *origin)
{
    succession_meet(&container_of(l, struct server, listeners)->succession, fd, origin);
}

// Not a socket: a channel of the USB link.
static void on_transport(struct listeners *l, struct transport *t, const struct origin *origin)
{
    take_transport(container_of(l, struct server, listeners), t, origin, NULL);
}

// The program that started this daemon with --adopt has ended; there is nobody else to serve.
static void on_orphaned(struct listeners *l)
{
    log_debug("the program that this daemon belongs to has ended");
    server_stop(container_of(l, struct server, listeners));
}

static void on_less_arrivals(struct arrivals *all)
{
    server_check_retired(container_of(all, struct server, arrivals));
}

void server_init_arrivals(struct server *s)
{
    listeners_init(&s->listeners, s->loop);
    s->listeners.take = on_connected;
    s->listeners.take_transport = on_transport;
    s->listeners.orphaned = on_orphaned;
    s->listeners.socket_group = s->options->socket_group;
    s->listeners.groups = s->groups;
    s->listeners.n_groups = ORIGIN_SOCKET_GROUP + 1;
    s->listeners.insecure = s->options->insecure;
    s->arrivals = (struct arrivals){.listeners = &s->listeners,
                                    .users = &s->users,
                                    .identities = &s->identities,
                                    .take = take_known,
                                    .less = on_less_arrivals};
    list_init(&s->arrivals.all);
}
