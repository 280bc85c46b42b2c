// Streams through sockets and shared memory. With shared memory, each direction is a ring of
// PIPE_SIZE bytes with free-running counters, single producer and single consumer, no locks:
//
//         read            written
// bytes:  ....|dddddddddd|......        available = written - read, room = PIPE_SIZE - available
//
// writer: copies, stores `written`, and if reader_waits <= available sends one byte on the socket
// reader: copies, stores `read`, and if writer_waits <= room sends one byte on the socket
//
// Who is about to sleep stores what it waits for and then looks at the counters once more; who
// changes a counter looks at that afterwards. As all accesses are sequentially consistent, one of
// the two sees the other, so no wake-up is lost.
//
// A large payload that is already in shared memory (an area) is not copied into the ring: its
// offset and size are posted, and the reader copies straight from the area.
//
// The counters of the other end are untrusted and checked against PIPE_SIZE; own counters are kept
// outside of the shared memory.
#include "base/net/stream.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/tls/stream_tls.h"

#define PIPE_SIZE  (256u * 1024)   // bytes, a power of two; small enough for caches
#define PIPE_CHUNK (32u * 1024)    // published at once, so that the reader can start on it
#define LINE       64              // of a cache
#define PART_TAKEN (PIPE_SIZE + 1) // no room is as much as that
#define MAX_WAKES  64              // reads: a peer that rings without end does not keep us

// Bytes in one direction. Counters are of bytes so far, modulo 2^32. What different ends write is
// on different cache lines.
struct stream_pipe {
    alignas(LINE) _Atomic uint32_t written;
    _Atomic uint32_t reader_waits; // for this many bytes to be there; 0: it does not
    alignas(LINE) _Atomic uint32_t read;
    _Atomic uint32_t writer_waits; // for this much room; or PART_TAKEN
    // Part of an area comes after all that has been written, and nothing is written before it has
    // been taken.
    alignas(LINE) _Atomic uint32_t posted; // parts so far
    _Atomic uint32_t area, n_areas;        // of the last one; areas lent when it was posted
    _Atomic uint64_t offset, size;         // bytes: from the start of the area; of the part
    alignas(LINE) _Atomic uint32_t taken;  // parts so far
    alignas(LINE) uint8_t bytes[PIPE_SIZE];
};

void stream_init(struct stream *s, int fd, bool may_share)
{
    fd_unblock(fd);
    *s = (struct stream){.fd = fd, .may_share = may_share};
}

void stream_secure(struct stream *s, struct stream_tls *tls)
{
    s->tls = tls;
}

void stream_let_wait(struct stream *s)
{
    s->waits = true;
    fd_block_for(s->fd, STREAM_WAIT_MS);
}

void stream_finish(struct stream *s)
{
    if (s->tls && s->fd >= 0)
        tls_finish(s->tls->tls);
}

bool stream_has_input(const struct stream *s)
{
    return s->tls && tls_has_input(s->tls->tls);
}

const char *stream_why(const struct stream *s)
{
    const char *why = s->tls ? tls_why(s->tls->tls) : "";
    return *why ? why : NULL;
}

static void forget_area(struct stream_area *a)
{
    if (a->bytes)
        munmap(a->bytes, (size_t)a->size);
    *a = (struct stream_area){0};
}

// Areas that this end lent belong to the lender, who unmaps them; those of the peer are unmapped
// here.
void stream_close(struct stream *s)
{
    s->fd = fd_close(s->fd);
    stream_tls_free(s->tls);
    s->tls = NULL;
    s->posting = false;
    for (unsigned i = 0; i < STREAM_AREAS && !s->offered; i++)
        forget_area(&s->areas[i]);
    if (s->pipes)
        munmap(s->pipes, 2 * sizeof *s->pipes);
    s->pipes = s->in = s->out = NULL;
}

// ---- the memory ---------------------------------------------------------------------------------

static void use_pipes(struct stream *s, struct stream_pipe *pipes, bool offered)
{
    s->pipes = pipes;
    s->offered = offered;
    s->out = pipes + !offered;
    s->in = pipes + offered;
}

// Creates sealed memory and sends its descriptor with one byte (SCM_RIGHTS needs one): 0 for the
// pipes, the number of an area otherwise. NULL: there is none, and the stream works without.
static void *send_memory(struct stream *s, size_t size, uint8_t byte)
{
    void *map;
    int fd = fd_memory_sealed("rknnd-stream", size, 0, &map, NULL);
    if (fd < 0)
        return NULL;
    if (fd_send(s->fd, &(struct iovec){&byte, 1}, 1, &fd, 1) != 1) {
        munmap(map, size);
        map = NULL;
    }
    fd_close(fd);
    return map;
}

void stream_share(struct stream *s)
{
    void *pipes = send_memory(s, 2 * sizeof *s->pipes, 0);
    if (pipes)
        use_pipes(s, pipes, true);
}

// Only the end that offered the pipes lends, and the order of descriptors on the socket is that of
// n_areas, by which the peer knows whether it has an area already.
void *stream_lend(struct stream *s, unsigned number, size_t size)
{
    assert(number < STREAM_AREAS);
    s->areas[number] = (struct stream_area){0};
    void *area = s->offered ? send_memory(s, size, (uint8_t)number) : NULL;
    if (!area)
        return NULL;
    s->areas[number] = (struct stream_area){area, size};
    s->n_areas++;
    return area;
}

// Maps memory of the peer if it cannot shrink under us (SIGBUS) and is writable.
static struct stream_area map_memory(int fd)
{
    struct stream_area a = {0};
    if (fd_check_stays(fd, NULL) == 0 && fd_size(fd, &a.size, NULL) == 0 && !fd_is_read_only(fd))
        a.bytes = fd_map(fd, a.size, NULL);
    return a;
}

// The pipes' size is part of the protocol: another size is refused.
static bool map_offer(struct stream *s, int fd)
{
    struct stream_area a = map_memory(fd);
    if (a.size == 2 * sizeof *s->pipes && a.bytes)
        use_pipes(s, (struct stream_pipe *)(void *)a.bytes, false);
    else
        forget_area(&a);
    return s->pipes;
}

// The peer replaces area `number`. Not while a part of it is being read, which would then be
// unmapped.
static void take_area(struct stream *s, uint8_t number, int fd)
{
    bool being_read = s->part.size > 0 && s->part_area == number;
    if (s->offered || number >= STREAM_AREAS || being_read) {
        s->broken = true;
        return;
    }
    forget_area(&s->areas[number]);
    s->areas[number] = map_memory(fd);
    s->n_areas++;
}

// Before the first byte a stream may still become shared: memory comes with a byte that is not part
// of the stream. -EAGAIN: it came, continue with the pipes.
static ssize_t receive_first(struct stream *s, void *buffer, size_t size)
{
    int fd = -1, n_fds = 0;
    ssize_t n = fd_receive(s->fd, buffer, size, &fd, &n_fds, 1);
    s->may_share = n < 0;
    if (n_fds == 0)
        return n;
    bool mapped = map_offer(s, fd);
    fd_close_passed(fd);
    return mapped ? -EAGAIN : -EPROTO;
}

// ---- waking -------------------------------------------------------------------------------------

// Wakes the peer by one byte. If the socket's buffer is full of such bytes it will wake anyway.
static void stream_ring(struct stream *s)
{
    if (send(s->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE)
        s->ended = true;
}

// Wakes the end that waits for `wanted` if `have` reaches it; the exchange makes sure that it is
// woken once.
static void ring_if(struct stream *s, _Atomic uint32_t *waits, uint32_t have)
{
    uint32_t wanted = atomic_load(waits);
    if (wanted > 0 && have >= wanted && atomic_exchange(waits, 0) > 0)
        stream_ring(s);
}

// Reads the wake-up bytes, and descriptors of areas among them. Bounded, so that a peer that sends
// without end cannot keep us here. A read ends at the byte that brings a descriptor, hence the last
// byte read is the area's number.
void stream_wake(struct stream *s)
{
    uint8_t bells[64];
    for (int i = 0; i < MAX_WAKES && s->pipes; i++) {
        int fd = -1, n_fds = 0;
        ssize_t n = fd_receive(s->fd, bells, sizeof bells, &fd, &n_fds, 1);
        s->ended |= n == 0 || (n < 0 && n != -EAGAIN && n != -EWOULDBLOCK);
        if (n_fds > 0)
            take_area(s, bells[n - 1], fd); // a read ends with the byte that brings an fd
        fd_close_passed(fd);
        if (n_fds == 0 && n < (ssize_t)sizeof bells)
            break;
    }
}

// ---- bytes --------------------------------------------------------------------------------------

// Bytes that can be read.
static uint32_t stream_available(const struct stream *s)
{
    return atomic_load(&s->in->written) - s->n_in;
}

// Bytes that can be written.
static uint32_t stream_room(const struct stream *s)
{
    return PIPE_SIZE - (s->n_out - atomic_load(&s->out->read));
}

// How many of `n` bytes are contiguous from this counter on, before the ring wraps.
static uint32_t stream_together(uint32_t counter, size_t n)
{
    return (uint32_t)size_min(n, PIPE_SIZE - counter % PIPE_SIZE);
}

// Whether all areas that had been lent when a part was posted have arrived. Signed difference, as
// counters wrap.
static bool has_areas(const struct stream *s, uint32_t n_areas)
{
    return (int32_t)(s->n_areas - n_areas) >= 0;
}

// Takes the posted part as the next bytes to read. Area, offset and size are the peer's and are
// checked against what we have mapped.
static bool begin_part(struct stream *s)
{
    struct stream_pipe *p = s->in;
    uint32_t n_areas = atomic_load(&p->n_areas), area = atomic_load(&p->area);
    uint64_t offset = atomic_load(&p->offset), size = atomic_load(&p->size);
    if (!has_areas(s, n_areas))
        stream_wake(s);
    if (s->broken || s->offered || !has_areas(s, n_areas) || area >= STREAM_AREAS)
        return false;
    const struct stream_area *a = &s->areas[area];
    if (!a->bytes || size == 0 || offset > a->size || size > a->size - offset)
        return false;
    s->part = (struct stream_area){a->bytes + offset, size};
    s->part_area = area;
    return true;
}

// Copies from the area; when all is read, tells the writer that it may change the bytes.
static ssize_t read_part(struct stream *s, uint8_t *into, size_t size, uint32_t posted)
{
    struct stream_area *part = &s->part;
    if (part->size == 0 && !begin_part(s))
        return -EPROTO;
    size_t n = part->size < size ? (size_t)part->size : size;
    memcpy(into, part->bytes, n);
    *part = (struct stream_area){part->bytes + n, part->size - n};
    if (part->size == 0) {
        s->n_taken = posted;
        atomic_store(&s->in->taken, posted);
        ring_if(s, &s->in->writer_waits, PART_TAKEN);
    }
    return (ssize_t)n;
}

// `posted` is loaded before `written`: a part is posted after everything that was written before
// it, so with the ring empty the part is next.
static ssize_t read_pipe(struct stream *s, uint8_t *into, size_t size)
{
    uint32_t posted = atomic_load(&s->in->posted); // before what was written before it
    uint32_t n = stream_available(s);
    if (n > PIPE_SIZE || s->broken)
        return -EPROTO;
    if (n == 0 && posted != s->n_taken)
        return read_part(s, into, size, posted);
    n = (uint32_t)size_min(n, size);
    for (uint32_t done = 0, part; done < n; done += part) {
        part = stream_together(s->n_in, n - done);
        memcpy(into + done, s->in->bytes + s->n_in % PIPE_SIZE, part);
        s->n_in += part;
    }
    atomic_store(&s->in->read, s->n_in);
    ring_if(s, &s->in->writer_waits, PIPE_SIZE - stream_available(s));
    return (ssize_t)n;
}

// Copies into the ring as far as there is room, in chunks that the reader can start on.
static ssize_t write_pipe(struct stream *s, const uint8_t *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        uint32_t space = stream_room(s);
        if (space > PIPE_SIZE)
            return -EPROTO;
        if (space == 0)
            break;
        size_t max = size_min(size_min(size - done, space), PIPE_CHUNK);
        uint32_t part = stream_together(s->n_out, max);
        memcpy(s->out->bytes + s->n_out % PIPE_SIZE, data + done, part);
        s->n_out += part;
        done += part;
        atomic_store(&s->out->written, s->n_out);
        ring_if(s, &s->out->reader_waits, PIPE_SIZE - stream_room(s));
    }
    return (ssize_t)done;
}

// Posts bytes that are within one of our areas. False: they are not, or too few to be worth it.
// `posted` is stored last, which publishes the other fields.
static bool stream_post(struct stream *s, const struct iovec *what)
{
    uint64_t size = what->iov_len;
    for (uint32_t i = 0; i < STREAM_AREAS && s->offered && size >= STREAM_AREA_MIN; i++) {
        const struct stream_area *a = &s->areas[i];
        uintptr_t offset = (uintptr_t)what->iov_base - (uintptr_t)a->bytes;
        if (!a->bytes || offset > a->size || size > a->size - offset)
            continue;
        atomic_store(&s->out->area, i);
        atomic_store(&s->out->n_areas, s->n_areas);
        atomic_store(&s->out->offset, offset);
        atomic_store(&s->out->size, size);
        s->part = (struct stream_area){what->iov_base, size};
        s->part_area = i;
        atomic_store(&s->out->posted, ++s->n_posted);
        ring_if(s, &s->out->reader_waits, PIPE_SIZE);
        return true;
    }
    return false;
}

static bool is_taken(const struct stream *s)
{
    return atomic_load(&s->out->taken) == s->n_posted;
}

uint64_t stream_posted(const struct stream *s)
{
    return s->posting && !is_taken(s) ? s->part.size : 0;
}

bool stream_is_posted(const struct stream *s, unsigned number)
{
    return stream_posted(s) > 0 && s->part_area == number;
}

// A posted buffer counts as sent only when the peer has taken it: until then 0, and the caller
// comes back with the same buffer.
static ssize_t send_one(struct stream *s, const struct iovec *what)
{
    if (!s->posting && !(s->posting = stream_post(s, what)))
        return write_pipe(s, what->iov_base, what->iov_len);
    s->posting = !is_taken(s);
    return s->posting ? 0 : (ssize_t)what->iov_len;
}

// 0 is the end only when the peer is gone; an empty ring is -EAGAIN.
ssize_t stream_receive(struct stream *s, void *buffer, size_t size, int *fds, int *n_fds,
                       int max_fds)
{
    if (s->tls)
        return tls_receive(s->tls->tls, buffer, size);
    if (s->may_share) {
        ssize_t n = receive_first(s, buffer, size);
        if (n != -EAGAIN || !s->pipes)
            return n;
    }
    if (!s->pipes)
        return fd_receive_once(s->fd, buffer, size, fds, n_fds, max_fds, MSG_DONTWAIT);
    ssize_t n = read_pipe(s, buffer, size);
    return n == 0 && !s->ended ? -EAGAIN : n;
}

ssize_t stream_receive_soon(struct stream *s, void *buffer, size_t size, int *fds, int *n_fds,
                            int max_fds)
{
    assert(s->waits);
    return fd_receive_once(s->fd, buffer, size, fds, n_fds, max_fds, 0);
}

ssize_t stream_send(struct stream *s, const struct iovec *iov, int n_iov, const int *fds, int n_fds)
{
    if (s->tls)
        return tls_send(s->tls->tls, iov, n_iov);
    if (!s->pipes)
        return fd_send_now(s->fd, iov, n_iov, fds, n_fds);
    if (s->ended)
        return -EPIPE;
    size_t done = 0;
    for (int i = 0; i < n_iov; i++) {
        ssize_t n = send_one(s, &iov[i]);
        if (n < 0)
            return n;
        done += (size_t)n;
        if ((size_t)n < iov[i].iov_len)
            break;
    }
    return done > 0 ? (ssize_t)done : -EAGAIN;
}

// ---- waiting ------------------------------------------------------------------------------------

// Stores what is waited for, then looks once more (see the head of this file). True: it is there
// already, do not sleep. Waiting for more than half a ring could deadlock with a writer that waits
// for room.
static bool await_bytes(struct stream *s, uint64_t need)
{
    uint32_t wanted = need < PIPE_SIZE / 2 ? (uint32_t)need : PIPE_SIZE / 2;
    atomic_store(&s->in->reader_waits, wanted);
    return wanted > 0 &&
           (stream_available(s) >= wanted || atomic_load(&s->in->posted) != s->n_taken);
}

static bool await_room(struct stream *s, bool wanted)
{
    uint32_t what = s->posting ? PART_TAKEN : PIPE_SIZE / 2;
    atomic_store(&s->out->writer_waits, wanted ? what : 0);
    if (s->posting)
        return is_taken(s);
    return wanted && stream_room(s) >= PIPE_SIZE / 2;
}

// A socket for wake-ups can always be written to, so POLLOUT makes poll() return at once if what is
// waited for is there already. One of TLS can be written to when its end has sent all that it wants
// to; when it cannot, the other end reads first, and reads on.
short stream_events(struct stream *s, uint64_t need, bool room_wanted)
{
    room_wanted |= need > 0 && stream_has_input(s);
    if (!s->pipes)
        return (short)((need > 0 ? POLLIN : 0) | (room_wanted ? POLLOUT : 0));
    bool there = await_bytes(s, need);
    there |= await_room(s, room_wanted);
    bool waits = need > 0 || room_wanted;
    return (short)((waits ? POLLIN : 0) | (there || (waits && s->ended) ? POLLOUT : 0));
}
