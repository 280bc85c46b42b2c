// Messages: the table of all types (MESSAGE_LIST), encoding to and decoding from protobuf by
// nanopb. All fields are bounded (rknnd.options), so decoding allocates nothing, and that every
// message fits a frame is checked at compile time. Texts of a peer are made printable before they
// reach a log or a program.
#include "protocol/message.h"

#include "base/text/text.h"

#include <assert.h>
#include <pb_decode.h>
#include <pb_encode.h>

// By number: each message is looked up several times on its way. Rows of no message have no name.
static const struct message_row rows[] = {
#define X(number, name, request, reply, request_payload, reply_payload)                            \
    [number] = {number,          #name,        rknnd_##request##_fields, rknnd_##reply##_fields,   \
                request_payload, reply_payload},
    MESSAGE_LIST(X)
#undef X
};

// Whatever a message holds within its bounds, it fits a frame.
#define X(number, name, request, reply, request_payload, reply_payload)                            \
    _Static_assert(rknnd_##request##_size <= FRAME_MESSAGE_MAX, #name "'s request is too big");    \
    _Static_assert(rknnd_##reply##_size <= FRAME_MESSAGE_MAX, #name "'s reply is too big");
MESSAGE_LIST(X)
#undef X

const struct message_row *message_row(uint16_t type)
{
    return type < sizeof rows / sizeof *rows && rows[type].name ? &rows[type] : NULL;
}

// How the message of a frame is encoded: as error, reply or request of its type; NULL: unknown
// type.
const pb_msgdesc_t *message_fields(const struct frame_header *h)
{
    const struct message_row *row = message_row(h->type);
    if (!row)
        return NULL;
    if (h->flags & FRAME_ERROR)
        return rknnd_Error_fields;
    return h->flags & FRAME_REPLY ? row->reply : row->request;
}

int message_decode(const pb_msgdesc_t *fields, struct bytes b, void *ret, struct error *e)
{
    pb_istream_t stream = pb_istream_from_buffer(b.data, b.size);
    if (!pb_decode(&stream, fields, ret))
        return error_set(e, STATUS_FAIL, "a message of %zu bytes cannot be decoded: %s", b.size,
                         PB_GET_ERROR(&stream));
    return 0;
}

// Encodes on the stack and copies into the frame. Encoding can only fail by our own mistake.
struct frame_out *message_frame(uint16_t type, uint8_t flags, uint32_t id,
                                const pb_msgdesc_t *fields, const void *message,
                                const struct iovec *segments, int n_segments,
                                void (*release)(void *owner), void *owner)
{
    uint8_t encoded[FRAME_MESSAGE_MAX];
    pb_ostream_t stream = pb_ostream_from_buffer(encoded, sizeof encoded);
    bool fits = pb_encode(&stream, fields, message);
    assert(fits);
    (void)fits;
    struct frame_header h = {.type = type, .flags = flags, .id = id};
    return frame_out_new(&h, (struct bytes){encoded, stream.bytes_written}, segments, n_segments,
                         release, owner);
}

struct frame_out *message_error_frame(uint16_t type, uint32_t id, const struct error *e)
{
    rknnd_Error m = {.code = e->code};
    message_set_text(m.text, e->text);
    return message_frame(type, FRAME_REPLY | FRAME_ERROR, id, rknnd_Error_fields, &m, NULL, 0, NULL,
                         NULL);
}

// Turns an error reply into a struct error; returns its status.
int message_error_take(const rknnd_Error *m, struct error *e)
{
    int code = status_from_peer(m->code);
    if (!e)
        return code;
    error_set(e, code, "%s", m->text[0] ? m->text : status_text(code));
    text_make_printable(e->text);
    return code;
}

// Cuts at a character, not inside one: half a character would be invalid UTF-8, and the whole
// message would not be decoded.
void message_copy_text(char *field, size_t size, const char *text)
{
    size_t at = 0;
    while (*text) {
        uint32_t code;
        size_t n = text_character(text, &code), step = n ? n : 1;
        if (at + step >= size)
            break;
        memcpy(field + at, n ? text : "?", step);
        at += step;
        text += step;
    }
    field[at] = 0;
}

// Delimited messages (a length, then the message, one after the other) are the lists in payloads.
size_t message_delimited_size(const pb_msgdesc_t *fields, const void *message)
{
    pb_ostream_t sizing = PB_OSTREAM_SIZING;
    bool fits = pb_encode_delimited(&sizing, fields, message);
    assert(fits);
    (void)fits;
    return sizing.bytes_written;
}

// False: no room left; *at is then unchanged.
bool message_delimited_put(const pb_msgdesc_t *fields, const void *message, uint8_t **at,
                           const uint8_t *end)
{
    pb_ostream_t stream = pb_ostream_from_buffer(*at, (size_t)(end - *at));
    if (!pb_encode_delimited(&stream, fields, message))
        return false;
    *at += stream.bytes_written;
    return true;
}

// Takes one message off the front of *rest.
int message_delimited_take(const pb_msgdesc_t *fields, struct bytes *rest, void *ret,
                           struct error *e)
{
    pb_istream_t stream = pb_istream_from_buffer(rest->data, rest->size);
    if (!pb_decode_delimited(&stream, fields, ret))
        return error_set(e, STATUS_FAIL, "a list of messages cannot be decoded: %s",
                         PB_GET_ERROR(&stream));
    size_t used = rest->size - stream.bytes_left;
    *rest = (struct bytes){rest->data + used, stream.bytes_left};
    return 0;
}
