// METRICS: what the server has done, as text; the same that rknnd-http hands out.
#include <stdlib.h>

#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/metrics/metrics_text.h"

// When the connection has room for the answer.
static void answer_metrics(struct request *r)
{
    struct error e;
    char *text;
    struct iovec payload;
    if (metrics_text(r->connection->services, &text, &payload.iov_len, &e) < 0) {
        request_fail(r, &e);
    } else {
        payload.iov_base = text;
        request_answer(r, rknnd_Empty_fields, &(rknnd_Empty){0}, &payload, 1, free, text);
    }
    free(r);
}

int handle_metrics(struct connection *c, const struct frame_header *h, const union message_any *m,
                   struct error *e)
{
    struct request *r = request_new(&c->requests, h, sizeof *r, e);
    (void)m;
    if (!r)
        return e->code;
    request_when_room(r, answer_metrics);
    return 0;
}
