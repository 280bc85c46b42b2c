// METRICS: what the server has done, as text; the same that rknnd-http hands out.
#include <stdlib.h>

#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/metrics/metrics_text.h"
#include "server/observe/readings.h"

// Freed when it is answered or abandoned.
struct metrics_request {
    struct request request;
    struct reading_waiter waiter;
};

static void on_metrics_abandoned(struct request *request)
{
    struct metrics_request *r = container_of(request, struct metrics_request, request);
    list_remove(&r->waiter.link);
    free(r);
}

static void answer_metrics(struct reading_waiter *w, const struct reading *now)
{
    struct metrics_request *r = container_of(w, struct metrics_request, waiter);
    struct error e;
    char *text;
    struct iovec payload;
    if (metrics_text(r->request.connection->services, now, &text, &payload.iov_len, &e) < 0) {
        request_fail(&r->request, &e);
    } else {
        payload.iov_base = text;
        request_answer(&r->request, rknnd_Empty_fields, &(rknnd_Empty){0}, &payload, 1, free, text);
    }
    free(r);
}

// When the connection has room for the answer.
static void start_metrics(struct request *request)
{
    struct metrics_request *r = container_of(request, struct metrics_request, request);
    readings_get(request->connection->services->readings, &r->waiter);
}

int handle_metrics(struct connection *c, const struct frame_header *h, const union message_any *m,
                   struct error *e)
{
    struct metrics_request *r = calloc(1, sizeof *r);
    (void)m;
    if (!r)
        return error_no_memory(e, "a request", sizeof *r);
    r->waiter.told = answer_metrics;
    list_init(&r->waiter.link);
    request_begin(&r->request, &c->requests, h, on_metrics_abandoned);
    request_when_room(&r->request, start_metrics);
    return 0;
}
