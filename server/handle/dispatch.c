// The table of requests, and the order of checks.
#include "server/handle/dispatch.h"

#include "base/log.h"
#include "server/handle/handle.h"
#include "server/server.h"

struct row {
    uint16_t type;
    unsigned states; // of the connection, in which it is understood
    unsigned permission;
    bool answered; // a refusal is sent as its answer; else it ends the connection
    bool new_work; // refused while the server drains
    unsigned work; // of the connection's turn of the loop, of which there are CHANNEL_TURN
    handle_function *handle;
};

#define FRESH  CONNECTION_FRESH
#define READY  CONNECTION_READY
#define OPEN   (CONNECTION_READY | CONNECTION_ENDING)
#define LOOK   PERMIT_OBSERVE
#define USE    PERMIT_USE
#define ANYONE 0u
#define LITTLE 1u
#define MORE   8u           // lists, files, memory: tens of microseconds
#define MUCH   CHANNEL_TURN // a thousand messages in the answer; a process

// clang-format off
static const struct row rows[] = {
    {MESSAGE_HELLO,            FRESH, ANYONE, true,  true,  MORE,   handle_hello},
    {MESSAGE_PING,             OPEN,  ANYONE, true,  false, LITTLE, handle_ping},
    {MESSAGE_CANCEL,           OPEN,  ANYONE, false, false, LITTLE, handle_cancel},
    {MESSAGE_GOODBYE,          READY, ANYONE, false, false, LITTLE, handle_goodbye},
    {MESSAGE_SERVER_STATUS,    READY, LOOK,   true,  false, LITTLE, handle_server_status},
    {MESSAGE_STATS,            READY, LOOK,   true,  false, LITTLE, handle_stats},
    {MESSAGE_CLIENT_KILL,      READY, USE,    true,  false, MORE,   handle_client_kill},
    {MESSAGE_LOG,              READY, LOOK,   true,  true,  MORE,   handle_log},
    {MESSAGE_LOG_LEVEL,        READY, USE,    true,  false, MORE,   handle_log_level},
    {MESSAGE_TRACE,            READY, LOOK,   true,  false, MUCH,   handle_trace},
    {MESSAGE_CLOCKS,           READY, LOOK,   true,  false, MORE,   handle_clocks},
    {MESSAGE_MODEL_OFFER,      READY, USE,    true,  true,  MORE,   handle_model_offer},
    {MESSAGE_MODEL_CHUNK,      READY, USE,    true,  true,  LITTLE, handle_model_chunk},
    {MESSAGE_MODEL_DESCRIBE,   READY, USE,    true,  true,  MUCH,   handle_model_describe},
    {MESSAGE_CONTEXT_OPEN,     READY, USE,    true,  true,  MUCH,   handle_context_open},
    {MESSAGE_CONTEXT_DUP,      READY, USE,    true,  true,  MORE,   handle_context_dup},
    {MESSAGE_CONTEXT_CLOSE,    READY, USE,    true,  false, LITTLE, handle_context_close},
    {MESSAGE_CONTEXT_BIND,     READY, USE,    true,  true,  LITTLE, handle_context_bind},
    {MESSAGE_CONTEXT_INTERNAL, READY, USE,    true,  true,  LITTLE, handle_context_internal},
    {MESSAGE_MEMORY_CREATE,    READY, USE,    true,  true,  MORE,   handle_memory_create},
    {MESSAGE_MEMORY_IMPORT,    READY, USE,    true,  true,  MORE,   handle_memory_import},
    {MESSAGE_MEMORY_FREE,      READY, USE,    true,  false, MORE,   handle_memory_free},
    {MESSAGE_INFER,            READY, USE,    true,  true,  LITTLE, handle_infer},
    {MESSAGE_PROFILE,          READY, USE,    true,  true,  MORE,   handle_profile},
    {MESSAGE_DUMP,             READY, USE,    true,  true,  LITTLE, handle_dump},
    {MESSAGE_DUMP_NEXT,        OPEN,  USE,    false, false, LITTLE, handle_dump_next},
    {MESSAGE_CUSTOM_LIST,      READY, USE,    true,  true,  MORE,   handle_custom_list},
    {MESSAGE_CUSTOM_DONE,      OPEN,  USE,    false, false, LITTLE, handle_custom_done},
};
// clang-format on

static const struct row *find_row(uint16_t type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

static int check_state(const struct connection *c, const struct row *row,
                       const struct frame_header *h, struct error *e)
{
    if (c->state == CONNECTION_FRESH && (!row || !(row->states & CONNECTION_FRESH)))
        return error_set(e, STATUS_FAIL, "a connection begins with HELLO, not with message type %u",
                         h->type);
    if (!row)
        return error_set(e, STATUS_FAIL, "this server (rknnd %s) has no message type %u",
                         RKNND_VERSION, h->type);
    const char *name = message_row(h->type)->name;
    if (!(row->states & c->state))
        return error_set(e, STATUS_FAIL, "%s does not belong %s", name,
                         c->state == CONNECTION_ENDING ? "after GOODBYE"
                                                       : "here: HELLO is through");
    if (row->new_work && c->server->state != SERVER_SERVING)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "the server is shutting down");
    if (h->payload_size > 0 && !message_row(h->type)->request_payload)
        return error_set(e, STATUS_FAIL, "%s came with a payload of %llu bytes, it has none", name,
                         (unsigned long long)h->payload_size);
    return 0;
}

static int check_permission(const struct connection *c, const struct row *row, struct error *e)
{
    if ((c->permissions & row->permission) == row->permission)
        return 0;
    return error_set(e, STATUS_FAIL, "this client may not do that");
}

static int decode_and_handle(struct connection *c, const struct row *row,
                             const struct frame_header *h, struct bytes message, struct error *e)
{
    const struct message_row *known = message_row(h->type);
    union message_any m;
    channel_spend(&c->channel, row->work - 1);
    int r = message_decode(known->request, message, &m, e);
    if (r < 0)
        return error_prefix(e, "%s", known->name);
    return row->handle(c, h, &m, e);
}

static void refuse(struct connection *c, const struct row *row, const struct frame_header *h,
                   const struct error *e)
{
    bool fresh = c->state == CONNECTION_FRESH;
    if (!row || row->answered)
        connection_reply_error(c, h, e);
    if (fresh)
        connection_leave(c, NULL);
    else if (row && !row->answered)
        connection_leave(c, e->text);
}

// The only thing that is ever asked of a client is a sign of life.
static void take_reply(struct connection *c, const struct frame_header *h)
{
    if (c->state == CONNECTION_FRESH || h->type != MESSAGE_PING)
        connection_leave(c, "a reply came that nothing was asked for");
}

void dispatch(struct connection *c, const struct frame_header *h, struct bytes message)
{
    const struct row *row = find_row(h->type);
    struct error e;
    if (h->flags & FRAME_REPLY) {
        take_reply(c, h);
        return;
    }
    int r = check_state(c, row, h, &e);
    if (r == 0 && h->payload_size > c->server->options->max_payload) {
        error_set(&e, STATUS_FAIL, "a payload of %llu bytes, the limit is %llu (max-payload)",
                  (unsigned long long)h->payload_size,
                  (unsigned long long)c->server->options->max_payload);
        connection_leave(c, e.text);
        return;
    }
    if (r == 0 && row->answered && connection_find_request(c, h->id)) {
        error_set(&e, STATUS_FAIL, "request id %u is in use", h->id);
        connection_leave(c, e.text);
        return;
    }
    if (r == 0)
        r = check_permission(c, row, &e);
    if (r == 0)
        r = decode_and_handle(c, row, h, message, &e);
    if (r < 0)
        refuse(c, row, h, &e);
}
