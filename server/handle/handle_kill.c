// CLIENT_KILL: ends a client. It may have thousands of connections, each of which has something to
// end: some of them in each of the killer's turns.
#include <stdlib.h>

#include "base/log.h"
#include "server/clients/rights.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/net/rounds.h"
#include "server/turns.h"

#define KILL_TURN 32 // connections

struct kill {
    struct request request;
    struct rounds_place place;
    struct rounds *rounds;
    struct user *killer;     // in whose line it waits (a reference)
    struct session *session; // a reference: its connections close one by one
    unsigned n_left;
};

// Sessions without connections cannot be ended: only their last jobs are left.
static struct session *kill_find(const struct sessions *all, uint64_t id)
{
    struct session *session;
    list_for_each (session, &all->all, link)
        if (session->id == id && session->n_connections > 0)
            return session;
    return NULL;
}

// Those who have the right, and local users and identities for programs of their own.
static bool may_kill(const struct connection *c, const struct session *session)
{
    const struct user *victim = session->user;
    bool known = c->origin.local || *c->origin.identity;
    return c->rights & RIGHT_KILL || (known && victim == c->session->user);
}

static void kill_free(struct kill *k)
{
    rounds_leave(&k->place);
    session_unref(k->session);
    user_unref(k->killer);
    free(k);
}

// Who asked has gone. What is left of the client stays, and cannot be joined any more.
static void on_abandoned(struct request *r)
{
    kill_free(container_of(r, struct kill, request));
}

// One that hears of its end may stay until it has read that, so it goes to the end of the list.
// Nobody joins a session that is ending.
static void on_turn(struct rounds_place *place)
{
    struct kill *k = container_of(place, struct kill, place);
    struct list *all = &k->session->connections;
    turns_mark(k->rounds->check.loop, "CLIENT_KILL");
    for (int i = 0; i < KILL_TURN && k->n_left > 0 && !list_empty(all); i++, k->n_left--) {
        struct connection *victim = list_first(all, struct connection, in_session);
        list_remove(&victim->in_session);
        list_append(all, &victim->in_session);
        connection_kill(victim, "ended by rknnctl kill");
    }
    if (k->n_left > 0 && !list_empty(all)) {
        rounds_wait(k->rounds, &user_person(k->killer)->line, place);
        return;
    }
    request_answer(&k->request, rknnd_Empty_fields, &(rknnd_Empty){0}, NULL, 0, NULL, NULL);
    kill_free(k);
}

// From here on it goes on by itself, in the killer's line: his other connections wait for it, and
// those of others take turns with it.
static int kill_begin(struct connection *c, const struct frame_header *h, struct session *session,
                      struct error *e)
{
    struct kill *k = calloc(1, sizeof *k);
    if (!k)
        return error_no_memory(e, "a request", sizeof *k);
    k->rounds = &c->all->rounds;
    k->killer = user_ref(c->user);
    k->session = session_ref(session);
    k->n_left = session->n_connections;
    session->ending = true;
    rounds_place_init(&k->place, on_turn);
    request_begin(&k->request, &c->requests, h, on_abandoned);
    rounds_wait(k->rounds, &user_person(k->killer)->line, &k->place);
    return 0;
}

int handle_client_kill(struct connection *c, const struct frame_header *h,
                       const union message_any *any, struct error *e)
{
    uint64_t id = any->CLIENT_KILL_request.client;
    struct session *session = kill_find(c->services->sessions, id);
    if (!session)
        return error_set(e, STATUS_PARAM_INVALID, "there is no client %llu",
                         (unsigned long long)id);
    if (session == c->session)
        return error_set(e, STATUS_PARAM_INVALID, "client %llu is the one who asks",
                         (unsigned long long)id);
    if (!may_kill(c, session))
        return error_set(
            e, STATUS_FAIL,
            "client %llu is of user %s: only that user, root and the service's own user may "
            "end it, on this machine, and who has the right \"kill\"",
            (unsigned long long)id, session->user->name);
    log_info("client %llu is ended by c%u (%s)", (unsigned long long)id, c->number, c->origin.text);
    return kill_begin(c, h, session, e);
}
