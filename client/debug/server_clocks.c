// rknnd_get_clocks: frequencies of the server's machine (CLOCKS), as a list in one malloc'ed block.
#include "base/text/text.h"
#include "client/last_error.h"
#include "client/limits.h"
#include "client/link/one_shot.h"
#include "client/link/payload.h"
#include "client/sized.h"
#include "rknnd.h"

// A Clock message to the public struct: frequencies in Hz, texts made printable.
static int take_clock(struct bytes *rest, rknnd_clock *ret, struct error *e)
{
    rknnd_Clock m;
    int r = message_delimited_take(rknnd_Clock_fields, rest, &m, e);
    if (r < 0)
        return r;
    *ret = (rknnd_clock){.struct_size = sizeof *ret, .hz = m.hz, .max_hz = m.max_hz};
    message_set_text(ret->name, m.name);
    message_set_text(ret->domain, m.domain);
    message_set_text(ret->governor, m.governor);
    text_make_printable(ret->name);
    text_make_printable(ret->domain);
    text_make_printable(ret->governor);
    return 0;
}

// n_clocks was bounded by the size of the list, so the allocation is, too.
static int take_clocks(uint32_t n_clocks, struct bytes rest, rknnd_list **ret, struct error *e)
{
    cleanup(free_p) rknnd_list *list = sized_list_new(n_clocks, sizeof(rknnd_clock), 0, NULL);
    if (!list)
        return error_no_memory(e, "clocks", n_clocks * sizeof(rknnd_clock));
    rknnd_clock *clocks = (rknnd_clock *)(list + 1);
    int r = 0;
    for (uint32_t i = 0; i < n_clocks && r == 0; i++)
        r = take_clock(&rest, &clocks[i], e);
    if (r == 0)
        *ret = steal_ptr(list);
    return r;
}

RKNN_EXPORT int rknnd_get_clocks(const char *uri, rknnd_list **clocks)
{
    struct error e;
    struct payload list = {.limit = LIMIT_LIST_BYTES};
    rknnd_ClocksReply reply = {0};
    struct request request = {
        .type = MESSAGE_CLOCKS, .reply = &reply, .payload = payload_take, .owner = &list};
    int r = clocks ? one_shot_call(uri, &request, &(rknnd_Empty){0}, &e)
                   : error_set(&e, STATUS_PARAM_INVALID, "clocks is NULL");
    if (r == 0 && reply.n_clocks > LIMIT_LIST_BYTES)
        r = error_set(&e, STATUS_FAIL, "the server reports %u clocks", reply.n_clocks);
    if (r == 0)
        r = take_clocks(reply.n_clocks, (struct bytes){list.data, list.size}, clocks, &e);
    payload_done(&list);
    return last_error_keep("rknnd_get_clocks", r, &e);
}
