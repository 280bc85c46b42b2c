// From a frame to its handler: the table of requests, and the order of checks.
//
//   state of the connection -> size of the payload -> id in use ->   right    -> decode -> handle
//     refused: answered         sent away             sent away    refused       refused   refused
//
// A peer that breaks the rules of frames is sent away, since nothing it sends later can be trusted
// to be in step; one that asks for what it may not have gets an error as the answer. Called by
// connection.c for each message, on the loop's thread, before any payload has been read.
#include "server/handle/dispatch.h"

#include "base/log.h"
#include "server/clients/rights.h"
#include "server/config/options.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/turns.h"

// How much work a message is: the table of PROTOCOL.md. What it may take of the loop's time,
// roughly and at most, is what a connection pays (clients/rate.h).
struct cost {
    unsigned work;      // of its turn of the loop, of which there are CHANNEL_TURN
    uint32_t us;        // paid when it comes
    uint32_t answer_us; // when its answer is made, if that waits (request_when_room())
};
// Runs and what goes with them; what comes once in a connection; files, memory: tens of
// microseconds; a process; some hundred messages in the answer; a list of all that there is.
static const struct cost LITTLE = {1, 0, 0}, ONCE = {8, 0, 0}, MORE = {8, 20, 0},
                         MUCH = {CHANNEL_TURN, 200, 0}, LINES = {CHANNEL_TURN, 0, 200},
                         LIST = {CHANNEL_TURN, 0, 1000};

struct row {
    uint16_t type;
    unsigned states; // of the connection, in which it is understood
    unsigned right;  // enum right, that it takes
    bool answered;   // a refusal is sent as its answer; else it ends the connection
    bool new_work;   // refused while the server drains
    const struct cost *cost;
    handle_function *handle;
};

#define FRESH   CONNECTION_FRESH
#define READY   CONNECTION_READY
#define OPEN    (CONNECTION_READY | CONNECTION_ENDING)
#define ANYONE  0u
#define RUN     RIGHT_RUN
#define SEE_OWN RIGHT_SEE_OWN
#define SEE_ALL RIGHT_SEE_ALL
#define DEBUG   RIGHT_DEBUG
#define PUSH    RIGHT_PUSH

#define X(NAME, name, states, right, answered, new_work, cost)                                     \
    {MESSAGE_##NAME, states, right, answered, new_work, &(cost), handle_##name},
static const struct row rows[] = {HANDLE_LIST(X)};
#undef X

static const struct row *find_row(uint16_t type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

uint32_t dispatch_answer_cost_us(uint16_t type)
{
    const struct row *row = find_row(type);
    return row ? row->cost->answer_us : 0;
}

// The first message of a connection is HELLO, and only the first. While the server drains, requests
// for new work are refused.
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
    if (row->new_work && !c->services->serving)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "the server is shutting down");
    if (h->payload_size > 0 && !message_row(h->type)->request_payload)
        return error_set(e, STATUS_FAIL, "%s came with a payload of %llu bytes, it has none", name,
                         (unsigned long long)h->payload_size);
    return 0;
}

// channel.c has counted 1 for the message; the rest of its cost is added here.
static int decode_and_handle(struct connection *c, const struct row *row,
                             const struct frame_header *h, struct bytes message, struct error *e)
{
    const struct message_row *known = message_row(h->type);
    union message_any m;
    channel_spend(&c->channel, row->cost->work - 1);
    connection_spend(c, row->cost->us);
    turns_mark(c->services->loop, known->name);
    int r = message_decode(known->request, message, &m, e);
    if (r < 0)
        return error_prefix(e, "%s", known->name);
    return row->handle(c, h, &m, e);
}

// A request that has no answer cannot be refused politely: its connection ends. So does one whose
// HELLO is refused, when the answer has been sent.
static void dispatch_refuse(struct connection *c, const struct row *row,
                            const struct frame_header *h, const struct error *e)
{
    bool fresh = c->state == CONNECTION_FRESH;
    if (!row || row->answered)
        connection_reply_error(c, h, e);
    if (fresh)
        connection_leave(c, NULL);
    else if (row && !row->answered)
        connection_leave(c, e->text);
}

// The server's only request to a client is PING.
static void take_reply(struct connection *c, const struct frame_header *h)
{
    if (c->state == CONNECTION_FRESH || h->type != MESSAGE_PING)
        connection_leave(c, "a reply came that nothing was asked for");
}

// Every return leaves the payload to the connection, which drops it unless a handler has named a
// destination.
void dispatch_message(struct connection *c, const struct frame_header *h, struct bytes message)
{
    const struct row *row = find_row(h->type);
    struct error e;
    if (h->flags & FRAME_REPLY) {
        take_reply(c, h);
        return;
    }
    int r = check_state(c, row, h, &e);
    if (r == 0 && h->payload_size > c->services->options->max_payload) {
        error_set(&e, STATUS_FAIL, "a payload of %llu bytes, the limit is %llu (max-payload)",
                  (unsigned long long)h->payload_size,
                  (unsigned long long)c->services->options->max_payload);
        connection_leave(c, e.text);
        return;
    }
    if (r == 0 && row->answered && requests_find(&c->requests, h->id)) {
        error_set(&e, STATUS_FAIL, "request id %u is in use", h->id);
        connection_leave(c, e.text);
        return;
    }
    if (r == 0)
        r = rights_check(c->rights, row->right, &e);
    if (r == 0)
        r = decode_and_handle(c, row, h, message, &e);
    if (r < 0)
        dispatch_refuse(c, row, h, &e);
}
