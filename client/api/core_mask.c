// rknn_set_core_mask, rknn_set_batch_core_num: which cores the next runs of a context may use. Only
// checked and kept here; INFER carries it, and the server's scheduler does it.
#include "client/api/core_mask.h"

#include "client/last_error.h"

// Chips with one core have nothing to choose (abi notes, "What each chip family offers"). The code
// is what programs report of the vendor's library on RK3566.
static int check_chip(const struct context *c, struct error *e)
{
    const rknnd_Device *d = &c->connection->peer.device;
    uint32_t cores = d->n_cores < c->info.core_limit ? d->n_cores : c->info.core_limit;
    if (cores > 1)
        return 0;
    return error_set(e, STATUS_TARGET_PLATFORM_UNMATCH,
                     "the model's chip has one core, so there is nothing to choose: leave this "
                     "call out, or go on without it");
}

// A single core, the first n together, automatic, or all: the enumerators of rknn_core_mask.
static int check_mask(const struct context *c, uint32_t mask, struct error *e)
{
    uint32_t n_cores = c->connection->peer.device.n_cores;
    bool one = (mask & (mask - 1)) == 0, first = (mask & (mask + 1)) == 0;
    if (mask == RKNN_NPU_CORE_AUTO || mask == RKNN_NPU_CORE_ALL)
        return 0;
    if (mask > RKNN_NPU_CORE_ALL || (!one && !first))
        return error_set(e, STATUS_PARAM_INVALID,
                         "0x%x is not a core mask: those are of one core (0x1, 0x2, …), of the "
                         "first ones (0x3, 0x7), 0 (any that is idle) and 0xffff (all)",
                         mask);
    if (n_cores < 32 && mask >> n_cores)
        return error_set(e, STATUS_PARAM_INVALID,
                         "mask 0x%x goes up to core %d, and the server's NPU (%s) has %u cores, "
                         "from 0 on",
                         mask, 31 - __builtin_clz(mask), c->connection->peer.device.chip, n_cores);
    return 0;
}

int cores_set_mask(struct context *c, uint32_t mask, struct error *e)
{
    int r = check_chip(c, e);
    if (r == 0)
        r = check_mask(c, mask, e);
    if (r == 0)
        c->core_mask = mask;
    return r;
}

RKNN_EXPORT int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter(context, &c, &e);
    if (r == 0)
        r = cores_set_mask(c, (uint32_t)core_mask, &e);
    return last_error_keep("rknn_set_core_mask", r, &e);
}

// The images of a batch run at once on up to `n` cores, each on whichever is idle (SDK guide
// 5.6.1), so a mask set before no longer counts.
static int set_batch_cores(struct context *c, int n, struct error *e)
{
    uint32_t n_cores = c->connection->peer.device.n_cores;
    int r = check_chip(c, e);
    if (r < 0)
        return r;
    if (c->info.batch <= 1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the model was not built with rknn_batch_size > 1");
    if (n < 1 || (uint32_t)n > n_cores)
        return error_set(e, STATUS_PARAM_INVALID, "%d cores: %s has %u", n,
                         c->connection->peer.device.chip, n_cores);
    c->core_mask = RKNN_NPU_CORE_AUTO;
    c->batch_cores = (uint32_t)n;
    return 0;
}

RKNN_EXPORT int rknn_set_batch_core_num(rknn_context context, int core_num)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter_model(context, &c, &e);
    if (r == 0)
        r = set_batch_cores(c, core_num, &e);
    return last_error_keep("rknn_set_batch_core_num", r, &e);
}
