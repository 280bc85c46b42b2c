// Frames: header, reader, writer. The layout is in frame.h. No I/O here: connections read into
// frame_reader_space() and send what frame_queue_peek() gives.
//
// reader:  HEAD --message complete--> HEAD      (no payload)
//            |                         ^
//            +--payload--> DECIDE      | payload complete
//                            |         |
//              into or skip  +-----> BODY
//
// Payload bytes go straight to their destination; only those that were read together with a header
// are copied. The owner of a reader is one connection, on its thread.
#include "protocol/frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"

#define FDS_OFFSET 7 // in the header

void frame_header_write(uint8_t out[FRAME_HEADER_SIZE], const struct frame_header *h)
{
    write_le32(out, FRAME_MAGIC);
    write_le16(out + 4, h->type);
    out[6] = h->flags;
    out[FDS_OFFSET] = h->n_fds;
    write_le32(out + 8, h->id);
    write_le32(out + 12, h->message_size);
    write_le64(out + 16, h->payload_size);
}

// Unknown flags are refused: they may mean that the frame has another form.
static bool flags_known(uint8_t flags)
{
    return flags == 0 || flags == FRAME_REPLY || flags == (FRAME_REPLY | FRAME_ERROR) ||
           flags == (FRAME_REPLY | FRAME_MORE);
}

// Sizes are checked before anything is allocated or received for them.
int frame_header_read(const uint8_t in[FRAME_HEADER_SIZE], struct frame_header *ret,
                      struct error *e)
{
    if (read_le32(in) != FRAME_MAGIC)
        return error_set(e, STATUS_FAIL,
                         "the peer does not speak the rknnd protocol (first bytes %02x %02x %02x "
                         "%02x instead of \"RKND\")",
                         in[0], in[1], in[2], in[3]);
    struct frame_header h = {
        .type = read_le16(in + 4),
        .flags = in[6],
        .n_fds = in[FDS_OFFSET],
        .id = read_le32(in + 8),
        .message_size = read_le32(in + 12),
        .payload_size = read_le64(in + 16),
    };
    if (!flags_known(h.flags))
        return error_set(e, STATUS_FAIL, "frame of type %u has unknown flags 0x%x", h.type,
                         h.flags);
    if (h.n_fds > FRAME_MAX_FDS)
        return error_set(e, STATUS_FAIL, "frame of type %u comes with %u fds, the limit is %d",
                         h.type, h.n_fds, FRAME_MAX_FDS);
    if (h.message_size > FRAME_MESSAGE_MAX)
        return error_set(e, STATUS_FAIL,
                         "frame of type %u has a message of %u bytes, the limit is %d", h.type,
                         h.message_size, FRAME_MESSAGE_MAX);
    *ret = h;
    return 0;
}

static void drop_fd(int fd)
{
    fd_close(fd);
}

void frame_reader_init(struct frame_reader *r, uint64_t payload_limit)
{
    r->payload_limit = payload_limit;
    r->header = (struct frame_header){0};
    r->payload_left = 0;
    r->state = FRAME_READER_HEAD;
    r->skip = false;
    r->n_segments = r->segment = 0;
    r->start = r->end = r->message = 0;
    r->n_fds = r->n_frame_fds = 0;
    r->drop_fd = drop_fd;
}

int frame_reader_take_fd(struct frame_reader *r)
{
    if (r->n_frame_fds == 0)
        return -1;
    int fd = r->fds[0];
    r->n_frame_fds--;
    r->n_fds--;
    memmove(r->fds, r->fds + 1, (size_t)r->n_fds * sizeof *r->fds);
    return fd;
}

// Descriptors of the current frame that nobody took.
static void drop_frame_fds(struct frame_reader *r)
{
    while (r->n_frame_fds > 0)
        r->drop_fd(frame_reader_take_fd(r));
}

// All fds that were received, also of frames not begun yet.
void frame_reader_done(struct frame_reader *r)
{
    r->n_frame_fds = r->n_fds;
    drop_frame_fds(r);
}

// In BODY the destination itself, once the buffer is empty; else the buffer, whose rest is moved to
// the front, so that a header and message always fit.
size_t frame_reader_space(struct frame_reader *r, void **ret)
{
    if (r->state == FRAME_READER_BODY && r->start == r->end && !r->skip) {
        *ret = r->segments[r->segment].iov_base;
        return r->segments[r->segment].iov_len;
    }
    if (r->start == r->end) {
        r->start = r->end = 0;
    } else if (r->start > 0) {
        memmove(r->buffer, r->buffer + r->start, r->end - r->start);
        r->end -= r->start;
        r->start = 0;
    }
    *ret = r->buffer + r->end;
    return sizeof r->buffer - r->end;
}

uint64_t frame_reader_need(const struct frame_reader *r)
{
    size_t have = r->end - r->start;
    if (r->state == FRAME_READER_BODY)
        return r->payload_left;
    if (r->state == FRAME_READER_DECIDE)
        return 1;
    if (have < FRAME_HEADER_SIZE)
        return FRAME_HEADER_SIZE - have;
    return FRAME_HEADER_SIZE + (uint64_t)r->header.message_size - have;
}

// `n` bytes were put into the current segment.
static void segments_advance(struct frame_reader *r, size_t n)
{
    struct iovec *s = &r->segments[r->segment];
    s->iov_base = (uint8_t *)s->iov_base + n;
    s->iov_len -= n;
    r->payload_left -= n;
    if (s->iov_len == 0)
        r->segment++;
}

void frame_reader_fill(struct frame_reader *r, size_t n)
{
    if (r->state == FRAME_READER_BODY && r->start == r->end && !r->skip) {
        assert(n <= r->segments[r->segment].iov_len);
        segments_advance(r, n);
    } else {
        assert(n <= sizeof r->buffer - r->end);
        r->end += n;
    }
}

// How many entries of fds[] are the current frame's: as many as it names, or up to a -1, which
// stands for the rest of them; negative if they are not there.
static int count_frame_fds(const struct frame_reader *r)
{
    int n = 0;
    while (n < r->header.n_fds && n < r->n_fds)
        if (r->fds[n++] < 0)
            return n;
    return n == r->header.n_fds ? n : -1;
}

// Header, then message. Descriptors come with the first byte of a frame, so those that it names
// must be here by now.
static int next_head(struct frame_reader *r, struct error *e)
{
    size_t have = r->end - r->start;
    if (have == 0) // what comes with the first byte of a frame is not here yet: nobody named these
        r->n_frame_fds = r->n_fds;
    drop_frame_fds(r);
    if (have < FRAME_HEADER_SIZE)
        return FRAME_NEED_MORE;
    int s = frame_header_read(r->buffer + r->start, &r->header, e);
    if (s < 0)
        return s;
    if (r->header.payload_size > r->payload_limit)
        return error_set(e, STATUS_FAIL,
                         "frame of type %u has a payload of %llu bytes, the limit is %llu",
                         r->header.type, (unsigned long long)r->header.payload_size,
                         (unsigned long long)r->payload_limit);
    if (have < FRAME_HEADER_SIZE + r->header.message_size)
        return FRAME_NEED_MORE;
    int n_fds = count_frame_fds(r);
    if (n_fds < 0)
        return error_set(e, STATUS_FAIL, "frame of type %u names %u fds, but %d came",
                         r->header.type, r->header.n_fds, r->n_fds);
    r->n_frame_fds = n_fds;
    r->message = r->start + FRAME_HEADER_SIZE;
    r->start = r->message + r->header.message_size;
    r->payload_left = r->header.payload_size;
    if (r->payload_left > 0)
        r->state = FRAME_READER_DECIDE;
    return FRAME_MESSAGE;
}

// Moves payload that was read into the buffer to its destination; FRAME_PAYLOAD when it is
// complete.
static int next_body(struct frame_reader *r)
{
    while (r->start < r->end && r->payload_left > 0) {
        size_t n = r->end - r->start;
        if (r->skip) {
            n = n < r->payload_left ? n : (size_t)r->payload_left;
            r->payload_left -= n;
        } else {
            struct iovec *s = &r->segments[r->segment];
            n = n < s->iov_len ? n : s->iov_len;
            memcpy(s->iov_base, r->buffer + r->start, n);
            segments_advance(r, n);
        }
        r->start += n;
    }
    if (r->payload_left > 0)
        return FRAME_NEED_MORE;
    r->state = FRAME_READER_HEAD;
    return FRAME_PAYLOAD;
}

int frame_reader_next(struct frame_reader *r, struct error *e)
{
    assert(r->state != FRAME_READER_DECIDE);
    return r->state == FRAME_READER_HEAD ? next_head(r, e) : next_body(r);
}

struct bytes frame_reader_message(const struct frame_reader *r)
{
    return (struct bytes){r->buffer + r->message, r->header.message_size};
}

void frame_reader_payload_into(struct frame_reader *r, const struct iovec *segments, int n)
{
    uint64_t total = 0;
    assert(r->state == FRAME_READER_DECIDE && n <= FRAME_MAX_SEGMENTS);
    r->n_segments = 0;
    for (int i = 0; i < n; i++) {
        total += segments[i].iov_len;
        if (segments[i].iov_len > 0)
            r->segments[r->n_segments++] = segments[i];
    }
    assert(total == r->payload_left);
    r->segment = 0;
    r->skip = false;
    r->state = FRAME_READER_BODY;
}

void frame_reader_payload_skip(struct frame_reader *r)
{
    assert(r->state == FRAME_READER_DECIDE);
    r->skip = true;
    r->state = FRAME_READER_BODY;
}

void frame_reader_payload_forget(struct frame_reader *r)
{
    assert(r->state == FRAME_READER_BODY);
    r->skip = true;
}

// One allocation: struct, header and message, then the segments at an alignment that any pointer
// may have. Payload bytes are not copied.
struct frame_out *frame_out_new(const struct frame_header *h, struct bytes message,
                                const struct iovec *segments, int n_segments,
                                void (*release)(void *owner), void *owner)
{
    assert(message.size <= FRAME_MESSAGE_MAX);
    size_t head_size = FRAME_HEADER_SIZE + message.size;
    size_t segments_at = (size_t)align_up(sizeof(struct frame_out) + head_size, 16);
    struct frame_out *f = malloc(segments_at + (size_t)n_segments * sizeof *segments);
    if (!f)
        return NULL;
    struct frame_header header = *h;
    header.message_size = (uint32_t)message.size;
    header.payload_size = header.n_fds = 0;
    *f = (struct frame_out){.head_size = head_size,
                            .n_segments = n_segments,
                            .segments = (struct iovec *)((uint8_t *)f + segments_at),
                            .release = release,
                            .owner = owner};
    list_init(&f->link);
    for (int i = 0; i < n_segments; i++) {
        f->segments[i] = segments[i];
        header.payload_size += segments[i].iov_len;
    }
    f->total = head_size + header.payload_size;
    frame_header_write(f->head, &header);
    if (message.size > 0)
        memcpy(f->head + FRAME_HEADER_SIZE, message.data, message.size);
    return f;
}

void frame_out_free(struct frame_out *f)
{
    if (!f)
        return;
    list_remove(&f->link);
    for (int i = 0; i < f->n_fds; i++)
        fd_close(f->fds[i]);
    if (f->release)
        f->release(f->owner);
    free(f);
}

void frame_queue_init(struct frame_queue *q)
{
    list_init(&q->frames);
    q->bytes = 0;
}

void frame_queue_done(struct frame_queue *q)
{
    struct frame_out *f, *after;
    list_for_each_safe (f, after, &q->frames, link)
        frame_out_free(f);
    q->bytes = 0;
}

// The number of descriptors is known only now, and is patched into the header.
void frame_queue_push(struct frame_queue *q, struct frame_out *f)
{
    assert(f->n_fds <= FRAME_MAX_FDS);
    f->head[FDS_OFFSET] = (uint8_t)f->n_fds;
    list_append(&q->frames, &f->link);
    q->bytes += f->total;
}

// The unsent rest of one frame as vectors: part -1 is header and message, then the segments.
static int frame_rest(const struct frame_out *f, struct iovec *iov, int max)
{
    uint64_t skip = f->sent;
    int n = 0;
    for (int i = -1; i < f->n_segments && n < max; i++) {
        struct iovec part = i < 0 ? (struct iovec){(void *)f->head, f->head_size} : f->segments[i];
        if (skip >= part.iov_len) {
            skip -= part.iov_len;
            continue;
        }
        iov[n++] = (struct iovec){(uint8_t *)part.iov_base + skip, part.iov_len - (size_t)skip};
        skip = 0;
    }
    return n;
}

// Joins as many frames as fit into one sendmsg(). Descriptors go with the first byte of a
// sendmsg(), so a frame that has some starts a new one.
int frame_queue_peek(struct frame_queue *q, struct iovec *iov, int max, const int **ret_fds,
                     int *ret_n_fds)
{
    struct frame_out *f;
    int n = 0;
    *ret_fds = NULL;
    *ret_n_fds = 0;
    list_for_each (f, &q->frames, link) {
        if (n > 0 && f->n_fds > 0)
            break;
        if (f->n_fds > 0) {
            *ret_fds = f->fds;
            *ret_n_fds = f->n_fds;
        }
        n += frame_rest(f, iov + n, max - n);
        if (n == max)
            break;
    }
    return n;
}

// Descriptors are closed with the first byte sent: the kernel holds its own references by then.
void frame_queue_sent(struct frame_queue *q, size_t n)
{
    while (n > 0) {
        struct frame_out *f = list_first(&q->frames, struct frame_out, link);
        assert(f);
        for (int i = 0; i < f->n_fds; i++)
            fd_close(f->fds[i]);
        f->n_fds = 0;
        uint64_t rest = f->total - f->sent;
        size_t part = n < rest ? n : (size_t)rest;
        f->sent += part;
        q->bytes -= part;
        n -= part;
        if (f->sent == f->total)
            frame_out_free(f);
    }
}
