// rknnd_run_samples: several runs in one request. All that they need lies in memory that the server
// has, too, so neither inputs nor outputs are sent.
#include "client/api/mem.h"
#include "client/api/run.h"
#include "client/last_error.h"
#include "rknnd.h"

// The connection's own server may be an older one, or have copies alone.
static int samples_check(const struct context *c, bool output, uint32_t i, uint32_t n,
                         struct error *e)
{
    const struct bound *b = context_bound(c, output, i);
    const char *what = output ? "output" : "input";
    if (!b || !b->home->shared)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s %u is not in memory that the server has, too (rknn_set_io_mem)", what,
                         i);
    if (b->size > b->mem->program.size / n)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the memory of %s %u has %u bytes, %u samples take %llu each", what, i,
                         b->mem->program.size, n, (unsigned long long)b->size);
    return 0;
}

static int samples_check_all(const struct context *c, uint32_t n, struct error *e)
{
    int r = 0;
    if (!n || n > PROTOCOL_MOST_SAMPLES)
        return error_set(e, STATUS_PARAM_INVALID, "%u samples, 1 to %u are possible", n,
                         PROTOCOL_MOST_SAMPLES);
    if (!(c->connection->peer.features & PROTOCOL_FEATURE_SAMPLES))
        return error_set(e, STATUS_FAIL, "the server takes one sample with each run: it is older");
    for (uint32_t i = 0; i < c->info.n_inputs && r == 0; i++)
        r = samples_check(c, false, i, n, e);
    for (uint32_t i = 0; i < c->info.n_outputs && r == 0; i++)
        r = samples_check(c, true, i, n, e);
    return r;
}

RKNN_EXPORT int rknnd_run_samples(rknn_context context, uint32_t n)
{
    struct error e;
    struct run *run;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter_model(context, &c, &e);
    if (r == 0)
        r = samples_check_all(c, n, &e);
    if (r == 0) {
        c->samples = n;
        r = run_again(c, &run, &e);
        c->samples = 0;
    }
    return last_error_keep("rknnd_run_samples", r, &e);
}
