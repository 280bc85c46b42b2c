// Streams through sockets and shared memory.
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

#define PIPE_SIZE  (256u * 1024)   // bytes, a power of two; small enough for caches
#define PIPE_CHUNK (32u * 1024)    // that the reader may have before the writer goes on
#define LINE       64              // of a cache
#define PART_TAKEN (PIPE_SIZE + 1) // no room is as much as that
#define MAX_WAKES  64              // reads: a peer that rings without end does not keep us

// Bytes in one direction. Counters are of bytes so far, modulo 2^32.
struct stream_pipe {
    alignas(LINE) _Atomic uint32_t written;
    _Atomic uint32_t reader_waits; // for this many bytes to be there; 0: it does not
    alignas(LINE) _Atomic uint32_t read;
    _Atomic uint32_t writer_waits; // for this much room; or PART_TAKEN
    // Part of an area comes after all that has been written, and nothing is written before it has
    // been taken.
    alignas(LINE) _Atomic uint32_t posted; // parts so far
    _Atomic uint32_t area, n_areas;        // of the last one; areas lent when it was posted
    _Atomic uint64_t offset, size;         // where it lies in the area; bytes
    alignas(LINE) _Atomic uint32_t taken;  // parts so far
    alignas(LINE) uint8_t bytes[PIPE_SIZE];
};

void stream_init(struct stream *s, int fd, bool may_share)
{
    fd_unblock(fd);
    *s = (struct stream){.fd = fd, .may_share = may_share};
}

static void forget_area(struct stream_area *a)
{
    if (a->bytes)
        munmap(a->bytes, a->size);
    *a = (struct stream_area){0};
}

void stream_close(struct stream *s)
{
    s->fd = fd_close(s->fd);
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

// Memory goes with one byte.
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

static struct stream_area map_memory(int fd)
{
    struct stream_area a = {0};
    if (fd_check_stays(fd, NULL) == 0 && fd_size(fd, &a.size, NULL) == 0 && !fd_is_read_only(fd))
        a.bytes = fd_map(fd, a.size, NULL);
    return a;
}

static bool map_offer(struct stream *s, int fd)
{
    struct stream_area a = map_memory(fd);
    if (a.size == 2 * sizeof *s->pipes && a.bytes)
        use_pipes(s, (struct stream_pipe *)(void *)a.bytes, false);
    else
        forget_area(&a);
    return s->pipes;
}

// Nothing replaces what is being read.
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

// The first bytes: memory comes with one that is not the stream's.
static ssize_t receive_first(struct stream *s, void *buffer, size_t size)
{
    int fd = -1, n_fds = 0;
    ssize_t n = fd_receive(s->fd, buffer, size, &fd, &n_fds, 1);
    s->may_share = n < 0;
    if (n_fds == 0)
        return n;
    bool mapped = map_offer(s, fd);
    fd_close(fd);
    return mapped ? -EAGAIN : -EPROTO;
}

// ---- waking -------------------------------------------------------------------------------------

// A socket that is full of these wakes without another one.
static void stream_ring(struct stream *s)
{
    if (send(s->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE)
        s->ended = true;
}

static void ring_if(struct stream *s, _Atomic uint32_t *waits, uint32_t have)
{
    uint32_t wanted = atomic_load(waits);
    if (wanted > 0 && have >= wanted && atomic_exchange(waits, 0) > 0)
        stream_ring(s);
}

void stream_wake(struct stream *s)
{
    uint8_t bells[64];
    for (int i = 0; i < MAX_WAKES && s->pipes; i++) {
        int fd = -1, n_fds = 0;
        ssize_t n = fd_receive(s->fd, bells, sizeof bells, &fd, &n_fds, 1);
        s->ended |= n == 0 || (n < 0 && n != -EAGAIN && n != -EWOULDBLOCK);
        if (n_fds > 0)
            take_area(s, bells[n - 1], fd); // a read ends with the byte that brings an fd
        fd_close(fd);
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

// As much as lies together, of `n`.
static uint32_t stream_together(uint32_t counter, size_t n)
{
    return (uint32_t)size_min(n, PIPE_SIZE - counter % PIPE_SIZE);
}

// Whether what had been lent when a part was posted has come.
static bool has_areas(const struct stream *s, uint32_t n_areas)
{
    return (int32_t)(s->n_areas - n_areas) >= 0;
}

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
    return n;
}

// Returns how many bytes it took, or -EPROTO.
static ssize_t write_pipe(struct stream *s, const uint8_t *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        uint32_t space = stream_room(s);
        if (space > PIPE_SIZE)
            return -EPROTO;
        if (space == 0)
            break;
        size_t most = size_min(size_min(size - done, space), PIPE_CHUNK);
        uint32_t part = stream_together(s->n_out, most);
        memcpy(s->out->bytes + s->n_out % PIPE_SIZE, data + done, part);
        s->n_out += part;
        done += part;
        atomic_store(&s->out->written, s->n_out);
        ring_if(s, &s->out->reader_waits, PIPE_SIZE - stream_room(s));
    }
    return (ssize_t)done;
}

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

static ssize_t send_one(struct stream *s, const struct iovec *what)
{
    if (!s->posting && !(s->posting = stream_post(s, what)))
        return write_pipe(s, what->iov_base, what->iov_len);
    s->posting = !is_taken(s);
    return s->posting ? 0 : (ssize_t)what->iov_len;
}

ssize_t stream_receive(struct stream *s, void *buffer, size_t size, int *fds, int *n_fds,
                       int max_fds)
{
    if (s->may_share) {
        ssize_t n = receive_first(s, buffer, size);
        if (n != -EAGAIN || !s->pipes)
            return n;
    }
    if (!s->pipes)
        return fd_receive(s->fd, buffer, size, fds, n_fds, max_fds);
    ssize_t n = read_pipe(s, buffer, size);
    return n == 0 && !s->ended ? -EAGAIN : n;
}

ssize_t stream_send(struct stream *s, const struct iovec *iov, int n_iov, const int *fds, int n_fds)
{
    if (!s->pipes)
        return fd_send(s->fd, iov, n_iov, fds, n_fds);
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

// Says what is waited for and looks once more: who brings it about looks after he has. True: it is
// there.
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

// A socket of bells can always be written to: that wakes at once.
short stream_events(struct stream *s, uint64_t need, bool room_wanted)
{
    if (!s->pipes)
        return (short)((need > 0 ? POLLIN : 0) | (room_wanted ? POLLOUT : 0));
    bool there = await_bytes(s, need);
    there |= await_room(s, room_wanted);
    bool waits = need > 0 || room_wanted;
    return (short)((waits ? POLLIN : 0) | (there || (waits && s->ended) ? POLLOUT : 0));
}
