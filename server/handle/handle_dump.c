// DUMP: an INFER that answers with what the model's nodes compute. DUMP_NEXT: more of it.
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/jobs/context.h"
#include "server/jobs/job.h"
#include "server/jobs/job_dump.h"

static int dump_check(const rknnd_Dump *m, struct error *e)
{
    if (m->run.collect_perf || m->run.no_outputs || m->run.samples > 1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "a dump neither measures layers nor gives outputs, and is of one sample");
    return 0;
}

// Bytes of a part: it must also fit a frame's payload.
static uint64_t dump_window(const struct options *o)
{
    uint64_t limit = o->max_payload;
    return limit < DUMP_WINDOW ? limit : DUMP_WINDOW;
}

// The job's output room is the window, through which all tensors pass.
int handle_dump(struct connection *c, const struct frame_header *h, const union message_any *any,
                struct error *e)
{
    const rknnd_Dump *m = &any->DUMP_request;
    struct job *j;
    int r = dump_check(m, e);
    if (r == 0)
        r = infer_new(c, h, &m->run, dump_window(c->services->options), &j, e);
    if (r != 0)
        return r;
    r = job_dump_new(&c->session->account, &j->run, &j->request, &j->hold, m,
                     dump_window(c->services->options), &j->dump, e);
    if (r < 0) {
        job_drop(j);
        return r;
    }
    infer_receive(c, h, &m->run, j);
    return 0;
}

// Has no answer. A dump that has ended meanwhile is ignored: the messages crossed.
int handle_dump_next(struct connection *c, const struct frame_header *h,
                     const union message_any *any, struct error *e)
{
    struct job_dump *d = job_find_dump(requests_find(&c->requests, any->DUMP_NEXT_request.request));
    (void)e;
    if (d)
        job_dump_next(d, c, h->payload_size);
    return 0;
}
