// What the daemon has done for a connection ends with it: contexts, then uploads, then the session.
#include "server/handle/services.h"

#include "base/cleanup.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/jobs/context.h"
#include "server/models/upload.h"
#include "server/net/connection.h"
#include "server/observe/trace.h"

// From connection_close(), after the connection's requests have been abandoned.
void services_connection_closing(struct connection *c)
{
    const struct services *s = c->services;
    struct context *x;
    while ((x = list_first(&c->contexts, struct context, link)))
        context_close(x);
    uploads_disown(s->uploads, c);
    if (c->session) {
        trace_add(s->trace, TRACE_DISCONNECT, c->session->id, c->number, 0, NULL);
        c->session->n_connections--;
    }
    list_remove(&c->in_session);
    account_count(c->account, ACCOUNT_REPLIES, &c->unread_bytes, 0);
    if (c->admitted)
        account_refund(c->account, ACCOUNT_CONNECTIONS, 1);
    c->account = NULL;
    session_unref(steal_ptr(c->session));
    user_unref(steal_ptr(c->user));
}
