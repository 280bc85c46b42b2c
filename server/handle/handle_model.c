// MODEL_OFFER, MODEL_CHUNK and MODEL_DESCRIBE. The first two are the business of upload.c.
//
// A description is made by a worker process that is started for it, so only MAX_RUNNING are made at
// a time; the others wait in describes.waiting, in order.
#include <stdlib.h>

#include "base/log.h"
#include "server/clients/session.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/models/store.h"
#include "server/models/upload.h"
#include "server/runner/runner_query.h"

int handle_model_offer(struct connection *c, const struct frame_header *h,
                       const union message_any *m, struct error *e)
{
    return upload_offer(c->services->uploads, c, h, &m->MODEL_OFFER_request, e);
}

int handle_model_chunk(struct connection *c, const struct frame_header *h,
                       const union message_any *m, struct error *e)
{
    return upload_chunk(c->services->uploads, c, h, &m->MODEL_CHUNK_request, e);
}

// ---- describing ---------------------------------------------------------------------------------

// Each takes a worker for a moment, so only some run at a time.
#define MAX_RUNNING 2

struct describe {
    struct request request;
    struct list link; // in all, in order
    struct describes *all;
    struct model *model; // one reference
    bool running;
};

static void describe_free(struct describe *d)
{
    list_remove(&d->link);
    model_unref(d->model);
    free(d);
}

// One that runs is freed by on_described(), which comes in any case.
static void on_abandoned(struct request *r)
{
    struct describe *d = container_of(r, struct describe, request);
    if (!d->running)
        describe_free(d);
}

static void describes_run_next(struct describes *all);

// From runner_describe(); `json` is valid only inside, hence the copy.
static void on_described(void *owner, const struct error *e, struct bytes json)
{
    struct describe *d = owner;
    struct describes *all = d->all;
    if (e)
        request_fail(&d->request, e);
    else
        request_answer_copy(&d->request, rknnd_Empty_fields, &(rknnd_Empty){0}, json,
                            "a description");
    describe_free(d);
    describes_run_next(all);
}

// False: it failed, was answered, and is freed.
static bool describe_start(struct describe *d)
{
    struct error e;
    d->running = true;
    if (runner_describe(d->all->runner_options, &d->model->file, on_described, d, &e) == 0)
        return true;
    request_fail(&d->request, &e);
    describe_free(d);
    return false;
}

// Starts as many as may run; those that run come first in the list.
static void describes_run_next(struct describes *all)
{
    struct describe *d, *after;
    unsigned n = 0;
    list_for_each_safe (d, after, &all->waiting, link) {
        if (n == MAX_RUNNING)
            return;
        if (!d->running && !requests_have_room(d->request.all))
            continue; // its client has much unread since it came
        n += d->running || describe_start(d);
    }
}

// The connection has room for the answer.
static void wait_for_turn(struct request *r)
{
    struct describe *d = container_of(r, struct describe, request);
    list_append(&d->all->waiting, &d->link);
    describes_run_next(d->all);
}

// The reference keeps the model's file until the description is made.
int handle_model_describe(struct connection *c, const struct frame_header *h,
                          const union message_any *m, struct error *e)
{
    const rknnd_ModelDescribe *request = &m->MODEL_DESCRIBE_request;
    cleanup(model_unref_p) struct model *model = NULL;
    int r = store_get(c->services->store, request->sha256, request->options, c->session->user,
                      &model, e);
    if (r < 0)
        return r;
    struct describe *d = calloc(1, sizeof *d);
    if (!d)
        return error_no_memory(e, "a description", sizeof *d);
    d->all = c->services->describes;
    d->model = steal_ptr(model);
    list_init(&d->link);
    request_begin(&d->request, &c->requests, h, on_abandoned);
    request_when_room(&d->request, wait_for_turn);
    return 0;
}

void describes_continue(struct describes *all)
{
    describes_run_next(all);
}

void describes_init(struct describes *all, const struct runner_options *options)
{
    all->runner_options = options;
    list_init(&all->waiting);
}

void describes_stop(struct describes *all)
{
    struct describe *d;
    while ((d = list_first(&all->waiting, struct describe, link)))
        describe_free(d);
}
