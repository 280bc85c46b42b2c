// CONTEXT_OPEN, CONTEXT_DUP and CONTEXT_CLOSE. Opening is answered by context.c, when the model is
// loaded and the runner has opened its part.
#include "base/log.h"
#include "server/clients/session.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/jobs/context.h"
#include "server/models/store.h"

// The model must have been offered or uploaded before, with the same hash.
int handle_context_open(struct connection *c, const struct frame_header *h,
                        const union message_any *any, struct error *e)
{
    const rknnd_ContextOpen *m = &any->CONTEXT_OPEN_request;
    cleanup(model_unref_p) struct model *model = NULL;
    int r = store_get(c->services->store, m->sha256, m->options, c->session->user, &model, e);
    return r < 0 ? r : context_open(c->services->contexts, c, h, model, m->flags, e);
}

// A second context of the same model, with the flags of the first. Weights are shared in any case.
int handle_context_dup(struct connection *c, const struct frame_header *h,
                       const union message_any *any, struct error *e)
{
    struct context *x = session_context(c->session, any->CONTEXT_DUP_request.context, e);
    if (!x)
        return STATUS_CTX_INVALID;
    return context_open(c->services->contexts, c, h, x->model, x->flags, e);
}

// Answered at once; runs that the device still has keep the context's memory meanwhile.
int handle_context_close(struct connection *c, const struct frame_header *h,
                         const union message_any *any, struct error *e)
{
    struct context *x = session_context(c->session, any->CONTEXT_CLOSE_request.context, e);
    if (!x)
        return STATUS_CTX_INVALID;
    context_close(x);
    connection_reply(c, h, rknnd_Empty_fields, &(rknnd_Empty){0});
    return 0;
}
