// Connections for one question: rknnd_ping(), rknnd_get_stats() and the like. They join this
// process's session at the server, but belong to no context.
#include "client/link/one_shot.h"

#include "client/fork.h"
#include "client/link/server_selection.h"
#include "client/link/servers.h"

int one_shot_begin(const char *uri, struct connection **ret, struct error *e)
{
    fork_prepare();
    int r = selection_connect(uri, ret, e);
    if (r == 0)
        pthread_mutex_lock(&(*ret)->lock);
    return r;
}

void one_shot_end(struct connection *c)
{
    if (c)
        pthread_mutex_unlock(&c->lock);
    server_disconnect(c);
}

int one_shot_call(const char *uri, struct request *request, const void *message, struct error *e)
{
    cleanup(one_shot_end_p) struct connection *c = NULL;
    int r = one_shot_begin(uri, &c, e);
    return r < 0 ? r : connection_call(c, request, message, e);
}
