// METRICS: what the server has done, as text; the same that rknnd-http hands out.
#include <stdlib.h>

#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/metrics/metrics_share.h"

// Freed when it is answered or abandoned.
struct metrics_request {
    struct request request;
    struct metrics_asker asker;
};

static void on_metrics_abandoned(struct request *request)
{
    struct metrics_request *r = container_of(request, struct metrics_request, request);
    list_remove(&r->asker.link);
    free(r);
}

static void answer_metrics(struct metrics_asker *a, struct metrics_copy *copy,
                           const struct error *e)
{
    struct metrics_request *r = container_of(a, struct metrics_request, asker);
    if (copy) {
        const struct iovec payload = {copy->text, copy->size};
        request_answer(&r->request, rknnd_Empty_fields, &(rknnd_Empty){0}, &payload, 1,
                       metrics_copy_unref, metrics_copy_ref(copy));
    } else {
        request_fail(&r->request, e);
    }
    free(r);
}

// When the connection has room for the answer.
static void start_metrics(struct request *request)
{
    struct metrics_request *r = container_of(request, struct metrics_request, request);
    metrics_share_get(request->connection->services->metrics_share, &r->asker);
}

int handle_metrics(struct connection *c, const struct frame_header *h, const union message_any *m,
                   struct error *e)
{
    struct metrics_request *r = calloc(1, sizeof *r);
    (void)m;
    if (!r)
        return error_no_memory(e, "a request", sizeof *r);
    r->asker.told = answer_metrics;
    list_init(&r->asker.link);
    request_begin(&r->request, &c->requests, h, on_metrics_abandoned);
    request_when_room(&r->request, start_metrics);
    return 0;
}
