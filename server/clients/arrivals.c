// Between accept() and a session: users whose names and groups are not known yet are looked up
// elsewhere (identities.h), since that may ask a network. The operator and users who are there
// already do not wait for anybody's lookup.
#include "server/clients/arrivals.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/net/discard.h"
#include "server/net/goodbye.h"
#include "server/net/transport_socket.h"

struct arrival {
    struct list link;
    struct identity_asker asker;
    struct arrivals *all;
    int fd;
    char text[sizeof(((struct origin *)0)->text)]; // who it is, for logs
};

static void arrival_refuse(struct arrivals *all, int fd, const char *text, const char *why)
{
    struct transport *t;
    log_info("%s is refused: %s", text, why);
    if (transport_socket_new(all->listeners->loop, fd, &t, NULL) < 0) {
        discard_socket(fd);
        return;
    }
    goodbye_send(t, why);
    transport_close(t);
}

// The rules of rights may be others by now, by which origins number groups.
static void arrival_told(struct identity_asker *asker, const struct identity *who,
                         const struct error *e)
{
    struct arrival *a = container_of(asker, struct arrival, asker);
    struct arrivals *all = a->all;
    struct origin origin;
    list_remove(&a->link);
    if (who) {
        listeners_prepare(all->listeners, a->fd, &origin);
        all->take(all, a->fd, &origin, who);
    } else {
        arrival_refuse(all, a->fd, a->text, e->text);
    }
    free(a);
    all->less(all);
}

static int arrival_new(struct arrivals *all, int fd, const struct origin *origin, struct error *e)
{
    struct arrival *a = calloc(1, sizeof *a);
    if (!a)
        return error_no_memory(e, "a connection", sizeof *a);
    *a =
        (struct arrival){.asker = {.uid = origin->uid, .told = arrival_told}, .all = all, .fd = fd};
    memcpy(a->text, origin->text, sizeof a->text);
    list_append(&all->all, &a->link);
    int r = identities_ask(all->identities, &a->asker, e);
    if (r < 0) {
        list_remove(&a->link);
        free(a);
    }
    return r;
}

void arrivals_take(struct arrivals *all, int fd, const struct origin *origin)
{
    struct error e;
    if (!origin->local || origin_is_operator(origin) || user_is_there(all->users, origin))
        all->take(all, fd, origin, NULL);
    else if (arrival_new(all, fd, origin, &e) < 0)
        arrival_refuse(all, fd, origin->text, e.text);
}

void arrivals_dismiss(struct arrivals *all, const char *why)
{
    struct arrival *a;
    while ((a = list_first(&all->all, struct arrival, link))) {
        identities_forget(&a->asker);
        list_remove(&a->link);
        arrival_refuse(all, a->fd, a->text, why);
        free(a);
    }
}
