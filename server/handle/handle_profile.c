// PROFILE: layer times of a context's last run that collected them. The runner is asked for them;
// the flight recorder gets them, too, once for each run.
#include <stdlib.h>

#include "server/clients/session.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/jobs/context.h"
#include "server/observe/trace.h"

struct profile {
    struct request request;
    struct context_work work; // in the context
    struct context *context;
    struct trace *trace;
};

static void profile_free(struct profile *p)
{
    list_remove(&p->work.link);
    free(p);
}

// Puts the layers into the flight recorder. Only durations are known, so they are laid out one
// after the other from the job's start.
static void profile_trace(struct profile *p, const rknnd_ProfileReply *m, struct bytes layers)
{
    struct context *x = p->context;
    struct trace_event event = {.time_us = x->profiled.started_us,
                                .client = x->session->id,
                                .id = x->profiled.job,
                                .kind = TRACE_LAYER};
    x->profiled.job = 0;
    for (uint32_t i = 0; event.id && i < m->n_layers; i++) {
        rknnd_Layer layer;
        if (message_delimited_take(rknnd_Layer_fields, &layers, &layer, NULL) < 0)
            return;
        event.value = layer.time_us;
        uint32_t cores = layer.core_mask & x->profiled.cores;
        event.cores = (uint16_t)(cores ? cores : x->profiled.cores);
        trace_add_event(p->trace, &event, layer.name);
        event.time_us += layer.time_us;
    }
}

// From the runner; `layers` is valid only inside.
static void profile_got(void *owner, const struct error *e, const rknnd_ProfileReply *m,
                        struct bytes layers)
{
    struct profile *p = owner;
    if (e) {
        request_fail(&p->request, e);
    } else {
        profile_trace(p, m, layers);
        request_answer_copy(&p->request, rknnd_ProfileReply_fields, m, layers, "layer times");
    }
    profile_free(p);
}

static void profile_start(struct request *r)
{
    struct profile *p = container_of(r, struct profile, request);
    runner_profile(p->context->runner, profile_got, p);
}

// One that has started ends with profile_got(), or when its context closes.
static void on_abandoned(struct request *r)
{
    if (!r->started)
        profile_free(container_of(r, struct profile, request));
}

// The runner's own request has been cancelled by context_close() already.
static void on_context_closed(struct context_work *w, const struct error *why)
{
    struct profile *p = container_of(w, struct profile, work);
    request_fail(&p->request, why);
    profile_free(p);
}

int handle_profile(struct connection *c, const struct frame_header *h, const union message_any *any,
                   struct error *e)
{
    struct context *x = session_context(c->session, any->PROFILE_request.context, e);
    if (!x)
        return STATUS_CTX_INVALID;
    struct profile *p = calloc(1, sizeof *p);
    if (!p)
        return error_no_memory(e, "a request", sizeof *p);
    p->context = x;
    p->trace = c->services->trace;
    p->work.closed = on_context_closed;
    list_append(&x->profiles, &p->work.link);
    request_begin(&p->request, &c->requests, h, on_abandoned);
    request_when_room(&p->request, profile_start);
    return 0;
}
