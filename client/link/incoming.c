// Takes apart what a server says, frame by frame, and hands answers to the requests that wait for
// them. Nothing the server says is trusted: a frame that breaks the protocol is an error, on which
// the caller (connection.c) loses the connection. Called with the connection's lock held, in
// whatever thread reads.
//
//     request from the server     Ping: answered; Goodbye: the connection is leaving; else an error
//     answer with FRAME_ERROR     ends its request with the server's status and words
//     answer                      decoded into request.reply, then its payload, if any:
//                                 read to where payload() says, or held in the stream (`hold`)
//     answer with FRAME_MORE      the same, but the request goes on after this part (`in_parts`)
#include "client/link/incoming.h"

#include "base/clock.h"
#include "base/log.h"
#include "client/record/record.h"

// Pongs that may wait in our output. A server that asks for more without reading the answers would
// make the queue grow without bound.
#define MAX_PONGS 16

// Ends a request: the connection forgets it, and its owner sees `done`.
void incoming_finish(struct connection *c, struct request *r, int status, const struct error *why)
{
    list_remove(&r->link);
    if (c->to_serve == r)
        c->to_serve = NULL;
    r->status = status;
    if (status < 0)
        r->error = *why;
    r->done_us = clock_us();
    r->answered = r->done = true;
}

static void pong_sent(void *owner)
{
    struct connection *c = owner;
    c->n_pongs--;
}

// Queues a pong; n_pongs falls when it has been sent.
static int answer_ping(struct connection *c, const struct frame_header *h, struct bytes message,
                       struct error *e)
{
    rknnd_Ping ping;
    int r = message_decode(rknnd_Ping_fields, message, &ping, e);
    if (r < 0)
        return r;
    if (c->n_pongs >= MAX_PONGS)
        return error_set(e, STATUS_FAIL, "it sends Pings but does not read the answers");
    struct frame_out *f = message_frame(MESSAGE_PING, FRAME_REPLY, h->id, rknnd_Ping_fields, &ping,
                                        NULL, 0, pong_sent, c);
    if (!f)
        return error_no_memory(e, "a Ping's answer", sizeof ping);
    c->n_pongs++;
    frame_queue_push(&c->out, f);
    return 0;
}

// The server ends the connection in order. Answers may still come; new requests are refused with
// its words.
static int take_goodbye(struct connection *c, struct bytes message, struct error *e)
{
    rknnd_Goodbye m;
    int r = message_decode(rknnd_Goodbye_fields, message, &m, e);
    if (r < 0)
        return r;
    rknnd_Error words = {.code = STATUS_DEVICE_UNAVAILABLE};
    message_set_text(words.text, m.reason[0] ? m.reason : "no reason given");
    message_error_take(&words, &c->why);
    error_prefix(&c->why, "server %s has ended the connection", c->uri);
    c->leaving = true;
    return 0;
}

// The protocol has just two requests from a server to a client.
static int on_request(struct connection *c, const struct frame_header *h, struct bytes message,
                      struct error *e)
{
    if (h->payload_size == 0 && h->type == MESSAGE_PING)
        return answer_ping(c, h, message, e);
    if (h->payload_size == 0 && h->type == MESSAGE_GOODBYE && !c->leaving)
        return take_goodbye(c, message, e);
    return error_set(e, STATUS_FAIL, "it sent a request of type %u, which a server never does",
                     h->type);
}

static struct request *find_request(struct connection *c, uint32_t id)
{
    struct request *r;
    list_for_each (r, &c->waiting, link)
        if (r->id == id)
            return r;
    return NULL;
}

// An error answer has no payload.
static int take_error(struct connection *c, struct request *r, const struct frame_header *h,
                      struct bytes message, struct error *e)
{
    rknnd_Error m;
    struct error words;
    if (h->payload_size > 0)
        return error_set(e, STATUS_FAIL, "its error for %s has a payload",
                         message_row(h->type)->name);
    int s = message_decode(rknnd_Error_fields, message, &m, e);
    if (s < 0)
        return s;
    record_answer(c->record, h, message, NULL, 0);
    record_answer_whole(c->record);
    s = message_error_take(&m, &words);
    incoming_finish(c, r, s, &words);
    return 0;
}

// An answer, or a part of one, is complete, its payload included.
static void end_answer(struct connection *c, struct request *r)
{
    record_answer_whole(c->record);
    if (!(c->reader.header.flags & FRAME_MORE)) {
        incoming_finish(c, r, 0, NULL);
        return;
    }
    r->part = true;
    if (r->serve)
        c->to_serve = r;
}

// Decodes an answer and decides where its payload goes. A recorded connection never holds payloads:
// the recorder needs to know the segments when the answer comes.
static int take_answer(struct connection *c, struct request *r, struct bytes message,
                       struct error *e)
{
    const struct frame_header *h = &c->reader.header;
    const struct message_row *row = message_row(h->type);
    struct iovec segments[FRAME_MAX_SEGMENTS];
    union message_any unwanted;
    int n = message_decode(row->reply, message, r->reply ? r->reply : &unwanted, e);
    if (n == 0 && r->take_fd)
        *r->take_fd = frame_reader_take_fd(&c->reader);
    if (n == 0 && r->payload)
        n = r->payload(r, h->payload_size, segments, e);
    else if (n == 0 && h->payload_size > 0)
        n = error_set(e, STATUS_FAIL, "a payload where there is none");
    if (n < 0)
        return error_prefix(e, "its answer to %s", row->name);
    record_answer(c->record, h, message, segments, n);
    if (h->payload_size == 0) {
        end_answer(c, r);
        return 0;
    }
    if (r->hold && !c->record && !(h->flags & FRAME_MORE)) {
        r->answered = true;
        r->done_us = clock_us();
        c->held = r;
        return 0;
    }
    frame_reader_payload_into(&c->reader, segments, n);
    c->incoming = r;
    return 0;
}

// A held payload has to leave the stream because something behind it is needed: it goes where
// payload() says, as if it had never been held.
int incoming_settle(struct connection *c, struct error *e)
{
    struct iovec segments[FRAME_MAX_SEGMENTS];
    struct request *r = c->held;
    int n = r->payload(r, c->reader.header.payload_size, segments, e);
    if (n < 0)
        return n;
    c->held = NULL;
    c->incoming = r;
    frame_reader_payload_into(&c->reader, segments, n);
    return incoming_take(c, e);
}

static int on_answer(struct connection *c, const struct frame_header *h, struct bytes message,
                     struct error *e)
{
    struct request *r = find_request(c, h->id);
    if (!r && h->type == MESSAGE_PING && h->payload_size == 0)
        return 0; // to a heartbeat
    if (!r || r->type != h->type)
        return error_set(e, STATUS_FAIL, "it answered a request (type %u, id %u) that was not made",
                         h->type, h->id);
    if ((h->flags & FRAME_MORE) && (!r->in_parts || r->part))
        return error_set(e, STATUS_FAIL, "a part of an answer to %s that was not asked for",
                         message_row(h->type)->name);
    if (h->flags & FRAME_ERROR)
        return take_error(c, r, h, message, e);
    return take_answer(c, r, message, e);
}

static int on_message(struct connection *c, struct error *e)
{
    const struct frame_header *h = &c->reader.header;
    struct bytes message = frame_reader_message(&c->reader);
    log_trace("from %s: type %u, flags %u, id %u, %u + %llu bytes", c->uri, h->type, h->flags,
              h->id, h->message_size, (unsigned long long)h->payload_size);
    return h->flags & FRAME_REPLY ? on_answer(c, h, message, e) : on_request(c, h, message, e);
}

// Handles all events of the frame reader, up to a payload that is held. Returns 0 or more when more
// input is needed.
int incoming_take(struct connection *c, struct error *e)
{
    int event = FRAME_NEED_MORE;
    while (!c->held && (event = frame_reader_next(&c->reader, e)) > FRAME_NEED_MORE) {
        if (event == FRAME_PAYLOAD) {
            end_answer(c, c->incoming);
            c->incoming = NULL;
            continue;
        }
        int r = on_message(c, e);
        if (r < 0)
            return r;
    }
    return c->held ? 0 : event;
}
