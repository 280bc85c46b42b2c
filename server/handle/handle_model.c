// MODEL_OFFER, MODEL_CHUNK and MODEL_DESCRIBE.
#include <stdlib.h>

#include "base/log.h"
#include "server/handle/handle.h"
#include "server/server.h"

int handle_model_offer(struct connection *c, const struct frame_header *h,
                       const union message_any *m, struct error *e)
{
    return upload_offer(c, h, &m->MODEL_OFFER_request, e);
}

int handle_model_chunk(struct connection *c, const struct frame_header *h,
                       const union message_any *m, struct error *e)
{
    return upload_chunk(c, h, &m->MODEL_CHUNK_request, e);
}

// ---- describing ---------------------------------------------------------------------------------

// Each takes a worker for a moment, so only some run at a time.
#define MAX_RUNNING 2

struct describe {
    struct request request;
    struct list link; // in the server, in order
    struct server *server;
    struct model *model; // one reference
    bool running;
};

static void describe_free(struct describe *d)
{
    list_remove(&d->link);
    store_unref(d->model);
    free(d);
}

static void on_abandoned(struct request *r)
{
    struct describe *d = container_of(r, struct describe, request);
    if (!d->running)
        describe_free(d);
}

static void answer(struct describe *d, struct bytes json)
{
    struct error e;
    struct iovec payload = {malloc(json.size + 1), json.size};
    if (!payload.iov_base) {
        error_no_memory(&e, "a description", json.size);
        request_fail(&d->request, &e);
        return;
    }
    memcpy(payload.iov_base, json.data, json.size);
    request_answer(&d->request, rknnd_Empty_fields, &(rknnd_Empty){0}, &payload, 1, free,
                   payload.iov_base);
}

static void run_next(struct server *s);

static void on_described(void *owner, const struct error *e, struct bytes json)
{
    struct describe *d = owner;
    struct server *s = d->server;
    if (e)
        request_fail(&d->request, e);
    else
        answer(d, json);
    describe_free(d);
    run_next(s);
}

static bool start(struct describe *d)
{
    struct error e;
    d->running = true;
    if (runner_describe(&d->server->runner_options, &d->model->file, on_described, d, &e) == 0)
        return true;
    request_fail(&d->request, &e);
    describe_free(d);
    return false;
}

static void run_next(struct server *s)
{
    struct describe *d, *after;
    unsigned n = 0;
    list_for_each_safe (d, after, &s->describes, link) {
        if (n == MAX_RUNNING)
            return;
        n += d->running || start(d);
    }
}

static void wait_for_turn(struct request *r)
{
    struct describe *d = container_of(r, struct describe, request);
    list_append(&d->server->describes, &d->link);
    run_next(d->server);
}

int handle_model_describe(struct connection *c, const struct frame_header *h,
                          const union message_any *m, struct error *e)
{
    struct server *s = c->server;
    const rknnd_ModelDescribe *request = &m->MODEL_DESCRIBE_request;
    cleanup(store_unref_p) struct model *model = NULL;
    int r = store_get(&s->store, request->sha256, request->options, &model, e);
    if (r < 0)
        return r;
    struct describe *d = calloc(1, sizeof *d);
    if (!d)
        return error_no_memory(e, "a description", sizeof *d);
    d->server = s;
    d->model = steal_ptr(model);
    list_init(&d->link);
    request_begin(&d->request, c, h, on_abandoned);
    request_when_room(&d->request, wait_for_turn);
    return 0;
}

void handle_describe_stop(struct server *s)
{
    struct describe *d;
    while ((d = list_first(&s->describes, struct describe, link)))
        describe_free(d);
}
