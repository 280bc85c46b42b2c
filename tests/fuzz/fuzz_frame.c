// The frame reader against any stream, in pieces that the input chooses.
//
// Input: a byte n, n control bytes (used in turn, again and again), the stream.
#include <stdlib.h>
#include <string.h>

#include "protocol/frame.h"

#define PAYLOAD_LIMIT 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct frame_reader reader;
    struct bytes control, stream;
    size_t turn;
    size_t frame; // where the frame that is being read starts in the stream
    uint8_t payload[PAYLOAD_LIMIT];
    bool wanted;
};

static size_t next_control(struct run *r)
{
    return r->control.size ? r->control.data[r->turn++ % r->control.size] : 255;
}

static void check(bool ok)
{
    if (!ok)
        abort();
}

static const uint8_t *payload_in_stream(const struct run *r)
{
    return r->stream.data + r->frame + FRAME_HEADER_SIZE + r->reader.header.message_size;
}

static void end_frame(struct run *r)
{
    const struct frame_header *h = &r->reader.header;
    r->frame += FRAME_HEADER_SIZE + h->message_size + (size_t)h->payload_size;
    check(r->frame <= r->stream.size);
}

static void take_message(struct run *r)
{
    const struct frame_header *h = &r->reader.header;
    struct bytes message = frame_reader_message(&r->reader);
    uint8_t again[FRAME_HEADER_SIZE];
    frame_header_write(again, h);
    check(memcmp(again, r->stream.data + r->frame, sizeof again) == 0);
    check(memcmp(message.data, r->stream.data + r->frame + sizeof again, message.size) == 0);
    check(h->payload_size <= PAYLOAD_LIMIT);
    if (h->payload_size == 0) {
        end_frame(r);
        return;
    }
    size_t where = next_control(r);
    r->wanted = where % 4 != 0;
    if (r->wanted) {
        size_t cut = where * 16 < h->payload_size ? where * 16 : 0;
        struct iovec segments[] = {
            {r->payload, cut}, {r->payload, 0}, {r->payload + cut, (size_t)h->payload_size - cut}};
        frame_reader_payload_into(&r->reader, segments, 3);
    } else {
        frame_reader_payload_skip(&r->reader);
    }
}

static bool take_events(struct run *r)
{
    struct error e;
    int event;
    while ((event = frame_reader_next(&r->reader, &e)) != FRAME_NEED_MORE) {
        if (event < 0)
            return false;
        if (event == FRAME_MESSAGE) {
            take_message(r);
        } else {
            size_t n = (size_t)r->reader.header.payload_size;
            check(!r->wanted || memcmp(r->payload, payload_in_stream(r), n) == 0);
            end_frame(r);
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run r;
    if (size == 0 || (size_t)1 + data[0] > size)
        return 0;
    r.control = (struct bytes){data + 1, data[0]};
    r.stream = (struct bytes){data + 1 + data[0], size - 1 - data[0]};
    r.turn = r.frame = 0;
    frame_reader_init(&r.reader, PAYLOAD_LIMIT);
    for (size_t at = 0, n; at < r.stream.size; at += n) {
        void *space;
        size_t room = frame_reader_space(&r.reader, &space);
        check(room > 0);
        n = next_control(&r) % 64 == 63 ? room : 1 + next_control(&r);
        n = n < room ? n : room;
        n = n < r.stream.size - at ? n : r.stream.size - at;
        memcpy(space, r.stream.data + at, n);
        frame_reader_fill(&r.reader, n);
        if (!take_events(&r))
            break;
    }
    frame_reader_done(&r.reader);
    return 0;
}
