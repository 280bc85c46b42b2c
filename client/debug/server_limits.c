// rknnd_get_limits, rknnd_get_settings: who has how much of what clients may hold, and what the
// configuration says (LIMITS).
#include "base/text/text.h"
#include "client/last_error.h"
#include "client/limits.h"
#include "client/link/one_shot.h"
#include "client/link/payload.h"
#include "client/sized.h"
#include "rknnd.h"

static int take_limit(struct bytes *rest, rknnd_limit *ret, struct error *e)
{
    rknnd_Limit m;
    int r = message_delimited_take(rknnd_Limit_fields, rest, &m, e);
    if (r < 0)
        return r;
    *ret = (rknnd_limit){.struct_size = sizeof *ret,
                         .bytes = m.bytes,
                         .quota = m.quota,
                         .used = m.used,
                         .limit = m.limit,
                         .client = (uint32_t)m.client};
    message_set_text(ret->user, m.user);
    message_set_text(ret->key, m.key);
    text_make_printable(ret->user);
    text_make_printable(ret->key);
    return 0;
}

// n_limits was bounded by the size of the list, so the allocation is, too.
static int take_limits(uint32_t n_limits, struct bytes rest, rknnd_list **ret, struct error *e)
{
    cleanup(free_p) rknnd_list *list = sized_list_new(n_limits, sizeof(rknnd_limit), 0, NULL);
    if (!list)
        return error_no_memory(e, "limits", n_limits * sizeof(rknnd_limit));
    rknnd_limit *limits = (rknnd_limit *)(list + 1);
    int r = 0;
    for (uint32_t i = 0; i < n_limits && r == 0; i++)
        r = take_limit(&rest, &limits[i], e);
    if (r == 0)
        *ret = steal_ptr(list);
    return r;
}

static int take_setting(struct bytes *rest, rknnd_setting *ret, struct error *e)
{
    rknnd_Setting m;
    int r = message_delimited_take(rknnd_Setting_fields, rest, &m, e);
    if (r < 0)
        return r;
    *ret = (rknnd_setting){
        .struct_size = sizeof *ret, .bytes = m.bytes, .value = m.value, .usual = m.usual};
    message_set_text(ret->name, m.name);
    text_make_printable(ret->name);
    return 0;
}

// Settings are behind all limits.
static int take_settings(const rknnd_LimitsReply *reply, struct bytes rest, rknnd_list **ret,
                         struct error *e)
{
    cleanup(free_p) rknnd_list *list =
        sized_list_new(reply->n_settings, sizeof(rknnd_setting), 0, NULL);
    if (!list)
        return error_no_memory(e, "settings", reply->n_settings * sizeof(rknnd_setting));
    rknnd_setting *settings = (rknnd_setting *)(list + 1);
    rknnd_limit skipped;
    int r = 0;
    for (uint32_t i = 0; i < reply->n_limits + reply->n_programs && r == 0; i++)
        r = take_limit(&rest, &skipped, e);
    for (uint32_t i = 0; i < reply->n_settings && r == 0; i++)
        r = take_setting(&rest, &settings[i], e);
    if (r == 0)
        *ret = steal_ptr(list);
    return r;
}

// Their number is bounded by the size of the list. `list`: payload_done() it whatever happens.
static int ask(const char *uri, rknnd_LimitsReply *reply, struct payload *list, struct error *e)
{
    cleanup(one_shot_end_p) struct connection *c = NULL;
    struct request request = {
        .type = MESSAGE_LIMITS, .reply = reply, .payload = payload_take, .owner = list};
    int r = one_shot_begin(uri, &c, e);
    if (r == 0)
        r = connection_call(c, &request, &(rknnd_Empty){0}, e);
    if (r < 0)
        return r;
    uint64_t n = (uint64_t)reply->n_limits + reply->n_programs + reply->n_settings;
    return n <= LIMIT_LIST_BYTES ? 0
                                 : error_set(e, STATUS_FAIL, "the server tells of %llu limits",
                                             (unsigned long long)n);
}

RKNN_EXPORT int rknnd_get_limits(const char *uri, rknnd_list **limits)
{
    struct error e;
    struct payload list = {.limit = LIMIT_LIST_BYTES};
    rknnd_LimitsReply reply = {0};
    int r = limits ? ask(uri, &reply, &list, &e)
                   : error_set(&e, STATUS_PARAM_INVALID, "limits is NULL");
    if (r == 0)
        r = take_limits(reply.n_limits + reply.n_programs, (struct bytes){list.data, list.size},
                        limits, &e);
    payload_done(&list);
    return last_error_keep("rknnd_get_limits", r, &e);
}

RKNN_EXPORT int rknnd_get_settings(const char *uri, rknnd_list **settings)
{
    struct error e;
    struct payload list = {.limit = LIMIT_LIST_BYTES};
    rknnd_LimitsReply reply = {0};
    int r = settings ? ask(uri, &reply, &list, &e)
                     : error_set(&e, STATUS_PARAM_INVALID, "settings is NULL");
    if (r == 0)
        r = take_settings(&reply, (struct bytes){list.data, list.size}, settings, &e);
    payload_done(&list);
    return last_error_keep("rknnd_get_settings", r, &e);
}
