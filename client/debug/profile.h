// Layer times, asked of the server.
#pragma once

#include "client/api/context.h"
#include "client/link/payload.h"
#include "rknnd.h"

struct profile {
    rknnd_ProfileReply reply;
    struct payload list; // reply.n_layers Layer messages
};

/// The layers of the context's last run; none without RKNN_FLAG_COLLECT_PERF_MASK. To be followed
/// by profile_done() in any case.
int profile_get(struct context *c, struct profile *ret, struct error *e);
void profile_done(struct profile *p);

/// Takes the next layer; *rest starts as profile_list().
int profile_take(struct bytes *rest, rknnd_Layer *ret, struct error *e);

/// All layers in one malloc'ed block, strings included.
int profile_to_program(const struct profile *p, rknnd_list **ret, struct error *e);

static inline struct bytes profile_list(const struct profile *p)
{
    return (struct bytes){p->list.data, p->list.size};
}
