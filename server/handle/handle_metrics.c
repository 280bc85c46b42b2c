// METRICS: what the server has done, as text; the same that rknnd-http hands out.
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/metrics/metrics_share.h"

int handle_metrics(struct connection *c, const struct frame_header *h, const union message_any *m,
                   struct error *e)
{
    (void)m;
    return snapshots_ask(&c->services->metrics_share->all, &c->requests, h, e);
}
