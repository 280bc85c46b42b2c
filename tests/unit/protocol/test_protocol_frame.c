// The frame reader and the queue of frames: random streams in random pieces, and what is refused.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "protocol/frame.h"
#include "tests/support/seed.h"

#define ROUNDS        300
#define FRAMES        24
#define PAYLOAD_LIMIT (128 * 1024)

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

// Often 0, often small, sometimes anything up to `max`.
static uint32_t random_size(uint32_t max)
{
    switch (random_below(8)) {
    case 0:
        return 0;
    case 1:
        return max;
    case 2:
        return random_below(max + 1);
    default:
        return random_below(max < 100 ? max + 1 : 100);
    }
}

static void random_fill(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)random_below(256);
}

// Random segments that add up to `size`, some of them empty, over `base`. Returns how many.
static int random_segments(struct iovec *s, uint8_t *base, size_t size)
{
    int n = 0, most = 1 + (int)random_below(FRAME_MAX_SEGMENTS);
    size_t at = 0;
    while (n < most - 1 && (at < size || random_below(2))) {
        size_t part = random_size((uint32_t)(size - at));
        s[n++] = (struct iovec){base + at, part};
        at += part;
    }
    if (at < size)
        s[n++] = (struct iovec){base + at, size - at};
    return n;
}

// ---- frames as they should arrive ---------------------------------------------------------------

struct sample {
    struct frame_header header;
    uint8_t *message, *payload;
};

struct stream {
    struct sample frames[FRAMES];
    uint8_t *bytes;
    size_t size;
};

static void *allocate(size_t n)
{
    void *p = malloc(n ? n : 1);
    assert_non_null(p);
    return p;
}

static void stream_init(struct stream *s)
{
    s->size = 0;
    for (int i = 0; i < FRAMES; i++) {
        struct sample *f = &s->frames[i];
        f->header = (struct frame_header){
            .type = (uint16_t)random_below(65536),
            .flags = (uint8_t)(random_below(2) ? 0 : FRAME_REPLY | random_below(2) * FRAME_ERROR),
            .id = random_below(UINT32_MAX),
            .message_size = random_size(FRAME_MESSAGE_MAX),
            .payload_size = random_size(PAYLOAD_LIMIT),
        };
        random_fill(f->message = allocate(f->header.message_size), f->header.message_size);
        random_fill(f->payload = allocate(f->header.payload_size), f->header.payload_size);
        s->size += FRAME_HEADER_SIZE + f->header.message_size + (size_t)f->header.payload_size;
    }
    uint8_t *at = s->bytes = allocate(s->size);
    for (int i = 0; i < FRAMES; i++) {
        const struct sample *f = &s->frames[i];
        frame_header_write(at, &f->header);
        at = mempcpy(at + FRAME_HEADER_SIZE, f->message, f->header.message_size);
        at = mempcpy(at, f->payload, f->header.payload_size);
    }
}

static void stream_done(struct stream *s)
{
    for (int i = 0; i < FRAMES; i++) {
        free(s->frames[i].message);
        free(s->frames[i].payload);
    }
    free(s->bytes);
}

// ---- reading ------------------------------------------------------------------------------------

// What a receiver makes of the events, checked against the stream.
struct receiver {
    struct frame_reader reader;
    const struct stream *stream;
    int frame; // that comes next
    uint8_t *destination;
};

static void take_message(struct receiver *v)
{
    const struct sample *expected = &v->stream->frames[v->frame];
    const struct frame_header *h = &v->reader.header;
    struct bytes message = frame_reader_message(&v->reader);
    struct iovec segments[FRAME_MAX_SEGMENTS];

    assert_int_equal(h->type, expected->header.type);
    assert_int_equal(h->flags, expected->header.flags);
    assert_int_equal(h->id, expected->header.id);
    assert_int_equal(message.size, expected->header.message_size);
    assert_memory_equal(message.data, expected->message, message.size);
    assert_int_equal(h->payload_size, expected->header.payload_size);
    if (h->payload_size == 0) {
        v->frame++;
    } else if (random_below(3) == 0) {
        frame_reader_payload_skip(&v->reader);
    } else {
        v->destination = allocate(h->payload_size);
        int n = random_segments(segments, v->destination, h->payload_size);
        frame_reader_payload_into(&v->reader, segments, n);
        memset(segments, 0xee, sizeof segments); // they were copied
    }
}

static void take_payload(struct receiver *v)
{
    const struct sample *expected = &v->stream->frames[v->frame++];
    if (v->destination)
        assert_memory_equal(v->destination, expected->payload, expected->header.payload_size);
    free(v->destination);
    v->destination = NULL;
}

static void receive(struct receiver *v, const uint8_t *bytes, size_t size)
{
    struct error e;
    void *space;
    size_t n, room;
    for (size_t at = 0; at < size; at += n) {
        assert_cmp((room = frame_reader_space(&v->reader, &space)), >, 0);
        n = 1 + random_size((uint32_t)(size - at) - 1);
        n = n < room ? n : room;
        memcpy(space, bytes + at, n);
        frame_reader_fill(&v->reader, n);
        int event;
        while ((event = frame_reader_next(&v->reader, &e)) != FRAME_NEED_MORE) {
            assert_cmp(event, >, 0);
            if (event == FRAME_MESSAGE)
                take_message(v);
            else
                take_payload(v);
        }
    }
}

static void reads_random_streams_in_random_pieces(void **state)
{
    (void)state;
    SEED_EACH (seed, ROUNDS) {
        random_state = seed;
        struct stream s;
        struct receiver v = {.stream = &s};
        stream_init(&s);
        frame_reader_init(&v.reader, PAYLOAD_LIMIT);
        receive(&v, s.bytes, s.size);
        if (v.frame != FRAMES)
            fail_msg("%d frames of %d", v.frame, FRAMES);
        frame_reader_done(&v.reader);
        stream_done(&s);
    }
}

// A large payload is not copied: all the reader asks for is the rest of its destination.
static void payload_is_read_in_place(void **state)
{
    (void)state;
    struct frame_reader r;
    static uint8_t target[100000];
    struct frame_header h = {.type = 7, .payload_size = sizeof target};
    void *space;
    frame_reader_init(&r, sizeof target);
    assert_cmp(frame_reader_space(&r, &space), >=, FRAME_HEADER_SIZE);
    frame_header_write(space, &h);
    frame_reader_fill(&r, FRAME_HEADER_SIZE);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_MESSAGE);
    frame_reader_payload_into(&r, (struct iovec[]){{target, 60000}, {target + 60000, 40000}}, 2);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_NEED_MORE);
    assert_int_equal(frame_reader_space(&r, &space), 60000);
    assert_ptr_equal(space, target);
    frame_reader_fill(&r, 59999);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_NEED_MORE);
    assert_int_equal(frame_reader_space(&r, &space), 1);
    frame_reader_fill(&r, 1);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_NEED_MORE);
    assert_int_equal(frame_reader_space(&r, &space), 40000);
    assert_ptr_equal(space, target + 60000);
    frame_reader_fill(&r, 40000);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_PAYLOAD);
}

// ---- refusals -----------------------------------------------------------------------------------

// What next() says when exactly these bytes have come; words are checked to be there.
static int judge(uint8_t *header, size_t size, uint64_t payload_limit)
{
    struct frame_reader r;
    struct error e = {0};
    void *space;
    frame_reader_init(&r, payload_limit);
    frame_reader_space(&r, &space);
    memcpy(space, header, size);
    frame_reader_fill(&r, size);
    int event = frame_reader_next(&r, &e);
    assert_int_equal(event < 0, e.text[0] != 0);
    return event;
}

static void refuses_bad_headers_before_the_rest_comes(void **state)
{
    (void)state;
    static const struct {
        int offset;
        uint8_t byte;
    } bad[] = {{0, 'r'}, {3, 0},  {6, 2},     {6, 4},  {6, 0x80}, {7, 3},    {7, 9},
               {12, 1},  {14, 1}, {15, 0x80}, {16, 9}, {20, 1},   {23, 0x80}};
    struct frame_header fine = {
        .type = 9, .flags = 3, .message_size = FRAME_MESSAGE_MAX, .payload_size = 8};
    uint8_t header[FRAME_HEADER_SIZE];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        frame_header_write(header, &fine);
        assert_int_equal(judge(header, sizeof header, 8), FRAME_NEED_MORE);
        assert_int_equal(judge(header, sizeof header, 7), STATUS_FAIL);
        header[bad[i].offset] = bad[i].byte;
        assert_int_equal(judge(header, sizeof header - 1, 8), FRAME_NEED_MORE);
        assert_int_equal(judge(header, sizeof header, 8), STATUS_FAIL);
    }
}

static void refuses_fds_that_did_not_come(void **state)
{
    (void)state;
    uint8_t header[FRAME_HEADER_SIZE];
    frame_header_write(header, &(struct frame_header){.type = 9, .n_fds = 1});
    assert_int_equal(judge(header, sizeof header, 0), STATUS_FAIL);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0 || errno != EBADF;
}

static int new_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_cmp(fd, >=, 0);
    return fd;
}

// Two frames in one read: the fds belong to the second, and the one not taken is closed.
static void fds_belong_to_the_frame_that_names_them(void **state)
{
    (void)state;
    struct frame_reader r;
    uint8_t header[FRAME_HEADER_SIZE];
    void *space;
    frame_reader_init(&r, 0);
    for (uint8_t n = 0; n <= 2; n += 2) {
        frame_reader_space(&r, &space);
        frame_header_write((uint8_t *)space, &(struct frame_header){.type = n, .n_fds = n});
        frame_reader_fill(&r, FRAME_HEADER_SIZE);
    }
    frame_reader_space(&r, &space);
    frame_header_write(header, &(struct frame_header){.type = 3, .n_fds = 1});
    memcpy(space, header, 1);
    frame_reader_fill(&r, 1);
    int first = r.fds[r.n_fds++] = new_fd(), second = r.fds[r.n_fds++] = new_fd();
    int of_later_frame = r.fds[r.n_fds++] = new_fd();
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_MESSAGE);
    assert_int_equal(frame_reader_take_fd(&r), -1);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_MESSAGE);
    assert_int_equal(frame_reader_take_fd(&r), first);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_NEED_MORE);
    assert_int_equal(r.n_fds, 1);
    assert_int_equal(r.fds[0], of_later_frame);
    assert_true(is_open(first));
    assert_false(is_open(second));
    assert_true(is_open(of_later_frame));
    frame_reader_done(&r);
    assert_true(is_open(first));
    assert_false(is_open(of_later_frame));
    close(first);
}

// The first frame's second is lost, as is the second frame's only one; the last has its own.
static void lost_fds_are_missing_from_their_frame_alone(void **state)
{
    (void)state;
    static const uint8_t named[] = {2, 1, 0, 1};
    struct frame_reader r;
    void *space;
    frame_reader_init(&r, 0);
    for (size_t i = 0; i < sizeof named; i++) {
        frame_reader_space(&r, &space);
        frame_header_write((uint8_t *)space, &(struct frame_header){.type = 9, .n_fds = named[i]});
        frame_reader_fill(&r, FRAME_HEADER_SIZE);
    }
    int first = r.fds[r.n_fds++] = new_fd();
    r.fds[r.n_fds++] = -1;
    r.fds[r.n_fds++] = -1;
    int last = r.fds[r.n_fds++] = new_fd();
    const int expected[][3] = {{first, -1, -1}, {-1, -1, -1}, {-1, -1, -1}, {last, -1, -1}};
    for (size_t i = 0; i < sizeof named; i++) {
        assert_int_equal(frame_reader_next(&r, NULL), FRAME_MESSAGE);
        for (int k = 0; k < 3; k++)
            assert_int_equal(frame_reader_take_fd(&r), expected[i][k]);
    }
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_NEED_MORE);
    frame_reader_done(&r);
    close(first);
    close(last);
}

// Both of a frame's are lost: what comes later is another frame's.
static void all_of_a_frames_fds_may_be_lost(void **state)
{
    (void)state;
    struct frame_reader r;
    void *space;
    frame_reader_init(&r, 0);
    for (uint8_t n = 2; n > 0; n--) {
        frame_reader_space(&r, &space);
        frame_header_write((uint8_t *)space, &(struct frame_header){.type = 9, .n_fds = n});
        frame_reader_fill(&r, FRAME_HEADER_SIZE);
    }
    r.fds[r.n_fds++] = -1;
    int later = r.fds[r.n_fds++] = new_fd();
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_MESSAGE);
    assert_int_equal(frame_reader_take_fd(&r), -1);
    assert_int_equal(frame_reader_take_fd(&r), -1);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_MESSAGE);
    assert_int_equal(frame_reader_take_fd(&r), later);
    frame_reader_done(&r);
    close(later);
}

// Of a frame whose first byte has not come there can be none. Among them may be what keeps the
// stream from its end: its other end.
static void fds_that_no_frame_names_are_closed(void **state)
{
    (void)state;
    struct frame_reader r;
    void *space;
    frame_reader_init(&r, 0);
    frame_reader_space(&r, &space);
    frame_header_write((uint8_t *)space, &(struct frame_header){.type = 9, .n_fds = 1});
    frame_reader_fill(&r, FRAME_HEADER_SIZE);
    int named = r.fds[r.n_fds++] = new_fd(), other = r.fds[r.n_fds++] = new_fd();
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_MESSAGE);
    assert_int_equal(r.n_fds, 2);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_NEED_MORE);
    assert_int_equal(r.n_fds, 0);
    assert_false(is_open(named));
    assert_false(is_open(other));
}

// ---- writing ------------------------------------------------------------------------------------

// A socket that takes what it likes.
struct sink {
    uint8_t *bytes;
    size_t size;
    int n_fds, fd_frame[FRAMES]; // in which frame each fd came
    size_t starts[FRAMES];       // where each frame starts in bytes
    unsigned released[FRAMES];
};

static void count(void *owner)
{
    ++*(unsigned *)owner;
}

static void push_stream(struct frame_queue *q, const struct stream *s, struct sink *k)
{
    size_t at = 0;
    for (int i = 0; i < FRAMES; i++) {
        const struct sample *f = &s->frames[i];
        struct iovec segments[FRAME_MAX_SEGMENTS];
        int n = random_segments(segments, f->payload, f->header.payload_size);
        struct frame_out *out =
            frame_out_new(&f->header, (struct bytes){f->message, f->header.message_size}, segments,
                          n, count, &k->released[i]);
        assert_non_null(out);
        while (random_below(3) == 0 && out->n_fds < FRAME_MAX_FDS)
            out->fds[out->n_fds++] = new_fd();
        s->bytes[at + 7] = (uint8_t)out->n_fds;
        k->starts[i] = at;
        frame_queue_push(q, out);
        at += FRAME_HEADER_SIZE + f->header.message_size + (size_t)f->header.payload_size;
    }
    assert_int_equal(q->bytes, s->size);
}

static int frame_at(const struct sink *k, size_t at)
{
    for (int i = 0; i < FRAMES; i++)
        if (k->starts[i] == at)
            return i;
    fail_msg("fds in the middle of a frame");
    return -1;
}

// Takes a random part of what the queue offers, as sendmsg() would.
static void drain_some(struct frame_queue *q, struct sink *k)
{
    struct iovec iov[16];
    const int *fds;
    int n_fds, n = frame_queue_peek(q, iov, 1 + (int)random_below(16), &fds, &n_fds);
    size_t all = 0;
    assert_cmp(n, >, 0);
    for (int i = 0; i < n; i++)
        all += iov[i].iov_len;
    size_t take = 1 + random_size((uint32_t)all - 1), left = take;
    int taken_fds[FRAME_MAX_FDS], n_taken = n_fds;
    for (int i = 0; i < n_fds; i++) {
        taken_fds[i] = fds[i];
        k->fd_frame[frame_at(k, k->size)]++;
    }
    for (int i = 0; left > 0; i++) {
        size_t part = left < iov[i].iov_len ? left : iov[i].iov_len;
        assert_cmp(part, >, 0);
        memcpy(k->bytes + k->size, iov[i].iov_base, part);
        k->size += part;
        left -= part;
    }
    frame_queue_sent(q, take);
    for (int i = 0; i < n_taken; i++)
        assert_false(is_open(taken_fds[i]));
}

static void sends_random_frames_in_random_pieces(void **state)
{
    (void)state;
    SEED_EACH (seed, ROUNDS) {
        random_state = seed;
        struct stream s;
        struct frame_queue q;
        struct sink k = {0};
        stream_init(&s);
        k.bytes = allocate(s.size);
        frame_queue_init(&q);
        push_stream(&q, &s, &k);
        while (q.bytes > 0) {
            drain_some(&q, &k);
            assert_int_equal(q.bytes, s.size - k.size);
        }
        assert_memory_equal(k.bytes, s.bytes, s.size);
        for (int i = 0; i < FRAMES; i++) {
            assert_int_equal(k.released[i], 1);
            assert_int_equal(k.fd_frame[i], s.bytes[k.starts[i] + 7]);
        }
        free(k.bytes);
        stream_done(&s);
    }
}

static void dropped_frames_are_released_and_their_fds_closed(void **state)
{
    (void)state;
    struct frame_queue q;
    unsigned released = 0;
    int fds[3];
    frame_queue_init(&q);
    for (int i = 0; i < 3; i++) {
        struct frame_out *f = frame_out_new(&(struct frame_header){.type = 1}, (struct bytes){0},
                                            NULL, 0, count, &released);
        fds[i] = f->fds[f->n_fds++] = new_fd();
        frame_queue_push(&q, f);
    }
    frame_queue_sent(&q, FRAME_HEADER_SIZE);
    assert_int_equal(released, 1);
    assert_false(is_open(fds[0]));
    frame_queue_done(&q);
    assert_int_equal(released, 3);
    assert_int_equal(q.bytes, 0);
    assert_false(is_open(fds[1]));
    assert_false(is_open(fds[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_random_streams_in_random_pieces),
        cmocka_unit_test(payload_is_read_in_place),
        cmocka_unit_test(refuses_bad_headers_before_the_rest_comes),
        cmocka_unit_test(refuses_fds_that_did_not_come),
        cmocka_unit_test(fds_belong_to_the_frame_that_names_them),
        cmocka_unit_test(fds_that_no_frame_names_are_closed),
        cmocka_unit_test(lost_fds_are_missing_from_their_frame_alone),
        cmocka_unit_test(all_of_a_frames_fds_may_be_lost),
        cmocka_unit_test(sends_random_frames_in_random_pieces),
        cmocka_unit_test(dropped_frames_are_released_and_their_fds_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
