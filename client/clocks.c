// Frequencies of a server's machine.
#include "client/ask.h"
#include "client/last_error.h"
#include "client/limits.h"
#include "client/payload.h"
#include "rknnd.h"

static int take_clock(struct bytes *rest, rknnd_clock *ret, struct error *e)
{
    rknnd_Clock m;
    int r = message_sequence_take(rknnd_Clock_fields, rest, &m, e);
    if (r < 0)
        return r;
    *ret = (rknnd_clock){.hz = m.hz, .max_hz = m.max_hz};
    message_set_text(ret->name, m.name);
    message_set_text(ret->domain, m.domain);
    message_set_text(ret->governor, m.governor);
    message_make_printable(ret->name);
    message_make_printable(ret->domain);
    message_make_printable(ret->governor);
    return 0;
}

static int take_clocks(uint32_t n_clocks, struct bytes rest, rknnd_clock *list, uint32_t max,
                       struct error *e)
{
    rknnd_clock ignored;
    int r = 0;
    for (uint32_t i = 0; i < n_clocks && r == 0; i++)
        r = take_clock(&rest, i < max ? &list[i] : &ignored, e);
    return r;
}

RKNN_EXPORT int rknnd_get_clocks(const char *uri, rknnd_clock *list, uint32_t max, uint32_t *n)
{
    struct error e;
    cleanup(ask_end_p) struct connection *c = NULL;
    struct payload clocks = {.limit = LIMIT_LIST_BYTES};
    rknnd_ClocksReply reply;
    struct request request = {
        .type = MESSAGE_CLOCKS, .reply = &reply, .payload = payload_take, .owner = &clocks};
    int r = n ? ask_begin(uri, &c, &e) : error_set(&e, STATUS_PARAM_INVALID, "n is NULL");
    if (r == 0)
        r = connection_call(c, &request, &(rknnd_Empty){0}, &e);
    if (r == 0)
        r = take_clocks(reply.n_clocks, (struct bytes){clocks.data, clocks.size}, list,
                        list ? max : 0, &e);
    if (r == 0)
        *n = reply.n_clocks;
    payload_done(&clocks);
    return last_error_keep("rknnd_get_clocks", r, &e);
}
