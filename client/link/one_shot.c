// Connections for one question.
#include "client/link/one_shot.h"

#include "client/fork.h"
#include "client/link/server_choice.h"
#include "client/link/servers.h"

int ask_begin(const char *uri, struct connection **ret, struct error *e)
{
    fork_prepare();
    int r = choice_connect(uri, ret, e);
    if (r == 0)
        pthread_mutex_lock(&(*ret)->lock);
    return r;
}

void ask_end(struct connection *c)
{
    if (c)
        pthread_mutex_unlock(&c->lock);
    server_disconnect(c);
}
