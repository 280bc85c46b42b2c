// CUSTOM_LIST: the nodes that a client may compute. CUSTOM_DONE: it has computed one.
//
// The calls themselves are partial answers to INFER or DUMP (job_custom.c).
#include <stdlib.h>

#include "server/clients/session.h"
#include "server/handle/handle.h"
#include "server/jobs/context.h"
#include "server/jobs/job.h"
#include "server/jobs/job_custom.h"

// The list is copied, as the model may be unloaded before the frame is sent.
int handle_custom_list(struct connection *c, const struct frame_header *h,
                       const union message_any *any, struct error *e)
{
    struct context *x = session_context(c->session, any->CUSTOM_LIST_request.context, e);
    if (!x)
        return STATUS_CTX_INVALID;
    const struct model_info *info = runner_info(x->model->runner);
    if (info->no_custom)
        return error_set(e, STATUS_FAIL,
                         "custom operators of this model cannot be computed by the program: its "
                         "device takes them as plugins only (librkcst_*.so)");
    rknnd_CustomListReply m = {.n_nodes = info->custom->n};
    struct bytes list = info->custom_payload;
    struct iovec payload = {malloc(list.size + 1), list.size}; // the model may go before it is sent
    if (!payload.iov_base)
        return error_no_memory(e, "custom operators", list.size);
    memcpy(payload.iov_base, list.data, list.size);
    struct frame_out *f = message_frame(h->type, FRAME_REPLY, h->id, rknnd_CustomListReply_fields,
                                        &m, &payload, 1, free, payload.iov_base);
    if (!f)
        free(payload.iov_base);
    channel_send(&c->channel, f);
    connection_update_flow(c);
    return 0;
}

// Has no answer. A job that has ended meanwhile is ignored, and the payload dropped.
int handle_custom_done(struct connection *c, const struct frame_header *h,
                       const union message_any *any, struct error *e)
{
    const rknnd_CustomDone *m = &any->CUSTOM_DONE_request;
    (void)e;
    job_custom_done(job_find_custom(requests_find(&c->requests, m->request)), c, m,
                    h->payload_size);
    return 0;
}
