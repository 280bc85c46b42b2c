// Every message, decoded and encoded again, against bytes that Google's protobuf wrote
// (bytes/make.py).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "protocol/message.h"

static const struct error error = {-6, "node “conv1”: no weights"}; // as make.py has it

#define AT_N_FDS 7 // in a frame

struct recorded {
    uint8_t data[4096];
    size_t size;
};

// The line of frames.txt that starts with these two words; false if there is none.
static bool find_recorded(const char *name, const char *kind, struct recorded *ret)
{
    char line_name[64], line_kind[16], hex[2 * sizeof ret->data + 1];
    cleanup(fclose_p) FILE *f = fopen(RECORDED_FRAMES, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "#%*[^\n]"), 0);
    while (fscanf(f, "%63s %15s %8192s", line_name, line_kind, hex) == 3) {
        if (strcmp(line_name, name) != 0 || strcmp(line_kind, kind) != 0)
            continue;
        for (ret->size = 0; hex[2 * ret->size]; ret->size++)
            assert_int_equal(sscanf(hex + 2 * ret->size, "%2hhx", &ret->data[ret->size]), 1);
        return true;
    }
    return false;
}

static struct recorded recorded_of(const char *name, const char *kind)
{
    struct recorded g;
    if (!find_recorded(name, kind, &g))
        fail_msg("no recorded bytes for %s %s: add it to bytes/make.py", name, kind);
    return g;
}

// Sends a frame into memory and compares.
static void expect_sent(struct frame_out *frame, struct recorded g)
{
    struct frame_queue q;
    struct iovec iov[4];
    const int *fds;
    int n_fds;
    size_t at = 0;
    frame_queue_init(&q);
    frame_queue_push(&q, frame);
    int n = frame_queue_peek(&q, iov, 4, &fds, &n_fds);
    for (int i = 0; i < n; i++) {
        assert_cmp(at + iov[i].iov_len, <=, g.size);
        assert_memory_equal(g.data + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    assert_int_equal(at, g.size);
    frame_queue_done(&q);
}

// Reads a recorded frame; *h and *m are what it says.
static void check_decoding(struct recorded g, bool payload, struct frame_header *h,
                           union message_any *m)
{
    struct frame_reader r;
    uint8_t text[8], *space;
    frame_reader_init(&r, payload ? 8 : 0);
    assert_cmp(frame_reader_space(&r, (void **)&space), >=, g.size);
    memcpy(space, g.data, g.size);
    for (; r.n_fds < g.data[AT_N_FDS]; r.n_fds++)
        r.fds[r.n_fds] = dup(STDERR_FILENO);
    frame_reader_fill(&r, g.size);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_MESSAGE);
    *h = r.header;
    memset(m, 0xa5, sizeof *m);
    assert_int_equal(message_decode(message_fields(h), frame_reader_message(&r), m, NULL), 0);
    if (payload) {
        frame_reader_payload_into(&r, &(struct iovec){text, 8}, 1);
        assert_int_equal(frame_reader_next(&r, NULL), FRAME_PAYLOAD);
        assert_memory_equal(text, "payload!", 8);
    }
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_NEED_MORE);
    frame_reader_done(&r);
}

// Every field of every sample is set, so one that our struct does not have, has with another number
// or encodes in another way makes other bytes.
static void check_encoding(struct recorded g, bool payload, const struct frame_header *h,
                           const union message_any *m)
{
    struct iovec segments[2] = {{"pay", 3}, {"load!", 5}};
    struct frame_out *frame = message_frame(h->type, h->flags, h->id, message_fields(h), m,
                                            segments, payload ? 2 : 0, NULL, NULL);
    assert_non_null(frame);
    for (; frame->n_fds < h->n_fds; frame->n_fds++)
        frame->fds[frame->n_fds] = dup(STDERR_FILENO);
    expect_sent(frame, g);
}

static void check(uint16_t type, const char *name, uint8_t flags, bool payload)
{
    struct recorded g = recorded_of(name, flags ? "reply" : "request");
    struct frame_header h;
    union message_any m;
    check_decoding(g, payload, &h, &m);
    assert_int_equal(h.type, type);
    assert_int_equal(h.flags, flags);
    assert_int_equal(h.id, 0x01020300u + type);
    check_encoding(g, payload, &h, &m);
}

static void every_message(void **state)
{
    (void)state;
#define X(number, name, request, reply, request_payload, reply_payload)                            \
    check(number, #name, 0, request_payload);                                                      \
    if (number != MESSAGE_CANCEL && number != MESSAGE_GOODBYE && number != MESSAGE_DUMP_NEXT &&    \
        number != MESSAGE_CUSTOM_DONE)                                                             \
        check(number, #name, FRAME_REPLY, reply_payload);
    MESSAGE_LIST(X)
#undef X
}

static void error_frame(void **state)
{
    (void)state;
    struct recorded g = recorded_of("ERROR", "error");
    struct frame_header h;
    union message_any m;
    expect_sent(message_error_frame(MESSAGE_INFER, 0x01020330, &error), g);
    check_decoding(g, false, &h, &m);
    check_encoding(g, false, &h, &m);
}

// The message twice, as a list has it.
static void check_sequence(const char *name, const pb_msgdesc_t *fields, void *room)
{
    struct recorded g = recorded_of(name, "sequence");
    struct bytes rest = {g.data, g.size};
    uint8_t encoded[sizeof g.data], *at = encoded, *end = encoded + sizeof encoded;
    for (int i = 2; i > 0; i--) {
        assert_int_equal(message_delimited_take(fields, &rest, room, NULL), 0);
        assert_int_equal(rest.size * 2, (size_t)(i - 1) * g.size);
        assert_int_equal(message_delimited_size(fields, room) * 2, g.size);
        assert_true(message_delimited_put(fields, room, &at, end));
    }
    assert_int_equal(at - encoded, g.size);
    assert_memory_equal(encoded, g.data, g.size);
}

#define LISTED(X)                                                                                  \
    X(TensorIo)                                                                                    \
    X(Layer)                                                                                       \
    X(CustomNode)                                                                                  \
    X(CustomAttribute)                                                                             \
    X(CoreStats)                                                                                   \
    X(ClientStats)                                                                                 \
    X(LogLine)                                                                                     \
    X(TraceEvent)                                                                                  \
    X(Clock)                                                                                       \
    X(StoredModel)                                                                                 \
    X(Limit)                                                                                       \
    X(Setting)                                                                                     \
    X(Sensor)                                                                                      \
    X(ModelStats)

static void sequences(void **state)
{
    (void)state;
#define X(name) check_sequence(#name, rknnd_##name##_fields, &(rknnd_##name){0});
    LISTED(X)
#undef X
}

// The layout of PROTOCOL.md, byte by byte.
static void header_byte_by_byte(void **state)
{
    (void)state;
    static const uint8_t bytes[FRAME_HEADER_SIZE] = {
        'R',  'K',  'N',  'D',  0x22, 0x11, 0x03, 0x02, 0x66, 0x55, 0x44, 0x33,
        0x01, 0x20, 0x00, 0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    struct frame_header h = {.type = 0x1122,
                             .flags = FRAME_REPLY | FRAME_ERROR,
                             .n_fds = 2,
                             .id = 0x33445566,
                             .message_size = 0x2001,
                             .payload_size = 0x1122334455667788};
    uint8_t out[FRAME_HEADER_SIZE];
    frame_header_write(out, &h);
    assert_memory_equal(out, bytes, sizeof bytes);
    assert_int_equal(frame_header_read(bytes, &h, NULL), STATUS_FAIL); // a byte over the limit
    out[12] = 0x00;
    assert_int_equal(frame_header_read(out, &h, NULL), 0);
    assert_int_equal(h.type, 0x1122);
    assert_int_equal(h.flags, FRAME_REPLY | FRAME_ERROR);
    assert_int_equal(h.n_fds, 2);
    assert_int_equal(h.id, 0x33445566);
    assert_int_equal(h.message_size, 0x2000);
    assert_int_equal(h.payload_size, 0x1122334455667788);
}

static void flags_that_are_known(void **state)
{
    (void)state;
    struct frame_header h = {.type = MESSAGE_DUMP};
    uint8_t bytes[FRAME_HEADER_SIZE];
    for (unsigned flags = 0; flags < 256; flags++) {
        bool known = flags == 0 || flags == 1 || flags == 3 || flags == 5;
        h.flags = (uint8_t)flags;
        frame_header_write(bytes, &h);
        assert_int_equal(frame_header_read(bytes, &h, NULL), known ? 0 : STATUS_FAIL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_byte_by_byte), cmocka_unit_test(flags_that_are_known),
        cmocka_unit_test(every_message),       cmocka_unit_test(error_frame),
        cmocka_unit_test(sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
