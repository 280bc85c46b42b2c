// A stream's end (the relay's, that takes what the peer offers, and the program's, that offers)
// against a peer that writes what it likes into the shared memory and onto the socket. Input: a
// first byte (which end), then steps of four bytes: what, and three of it.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/net/stream.h"

#define HEAD  320u // bytes of a pipe's counters
#define STEPS 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool it)
{
    if (!it)
        abort();
}

struct rig {
    struct stream victim;
    int peer;
    uint8_t *memory; // of both, as the peer sees it; NULL: not shared
    uint64_t size;
    void *lent;
};

// How large the memory is that the two ends of this build share, by what one offers.
static int offered_memory(uint64_t *ret_size)
{
    int ends[2], fd = -1, n = 0;
    uint8_t byte;
    struct stream s;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    stream_init(&s, ends[0], false);
    stream_share(&s);
    must(fd_receive(ends[1], &byte, 1, &fd, &n, 1) == 1 && n == 1);
    must(fd_size(fd, ret_size, NULL) == 0);
    stream_close(&s);
    close(ends[1]);
    return fd;
}

static void pass(const struct rig *r, uint8_t byte, int fd)
{
    fd_send(r->peer, &(struct iovec){&byte, 1}, 1, &fd, fd >= 0);
}

static void rig_init(struct rig *r, bool offers)
{
    int ends[2], n = 0, fd = -1;
    uint8_t byte;
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    r->peer = ends[1];
    stream_init(&r->victim, ends[0], !offers);
    if (offers) {
        stream_share(&r->victim);
        r->lent = stream_lend(&r->victim, 3, STREAM_AREA_MIN);
        must(fd_receive(r->peer, &byte, 1, &fd, &n, 1) == 1 && n == 1);
        must(fd_size(fd, &r->size, NULL) == 0);
    } else {
        fd = offered_memory(&r->size);
        pass(r, 0, fd);
    }
    r->memory = fd_map(fd, r->size, NULL);
    close(fd);
    must(r->memory);
}

static void rig_done(struct rig *r)
{
    stream_close(&r->victim);
    if (r->lent)
        munmap(r->lent, STREAM_AREA_MIN);
    munmap(r->memory, r->size);
    close(r->peer);
}

static void receive(struct rig *r, size_t n)
{
    static uint8_t bytes[70000];
    int fds[2], n_fds = 0;
    ssize_t got = stream_receive(&r->victim, bytes, n, fds, &n_fds, 2);
    must(got <= (ssize_t)n && n_fds <= 2);
    while (n_fds > 0)
        close(fds[--n_fds]);
}

static void send_some(struct rig *r, size_t n, bool lent)
{
    static uint8_t bytes[70000];
    const uint8_t *from = lent && r->lent ? r->lent : bytes;
    const struct iovec iov[] = {{bytes, 24},
                                {(void *)from, n < STREAM_AREA_MIN ? n : STREAM_AREA_MIN}};
    must(stream_send(&r->victim, iov, 2, NULL, 0) <= (ssize_t)(24 + iov[1].iov_len));
    stream_posted(&r->victim);
}

// Memory that keeps to what is agreed, or not.
static void lend(const struct rig *r, uint8_t number, uint8_t how)
{
    void *map = NULL;
    int fd = how & 1 ? fd_memory("area", 65536, NULL)
                     : fd_memory_sealed("area", how & 2 ? 65536 : 100, 0, &map, NULL);
    pass(r, number, fd);
    if (map)
        munmap(map, how & 2 ? 65536 : 100);
    close(fd);
}

static void step(struct rig *r, const uint8_t *s)
{
    size_t n = (size_t)s[1] << 8 | s[2], at;
    switch (s[0] & 7) {
    case 0: // one byte of a pipe's counters, of either
        at = (s[1] & 1) * (r->size / 2) + s[2] + (s[1] >> 1 & 1) * (HEAD - 256);
        r->memory[at] = s[3];
        break;
    case 1: // four equal ones
        at = (s[1] & 1) * (r->size / 2) + (s[2] & 0xfcu);
        memset(r->memory + at, s[3], 4);
        break;
    case 2:
        receive(r, n + 1);
        break;
    case 3:
        send_some(r, n, s[3] & 1);
        break;
    case 4:
        stream_events(&r->victim, n, s[3] & 1);
        stream_wake(&r->victim);
        break;
    case 5:
        pass(r, s[1], -1);
        break;
    case 6:
        lend(r, s[1] & 63, s[2]);
        break;
    default:
        if (s[1] == 0)
            shutdown(r->peer, SHUT_WR);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rig r = {0};
    rig_init(&r, size > 0 && (data[0] & 1));
    for (size_t i = 1; i + 4 <= size && i < 4 * STEPS; i += 4)
        step(&r, data + i);
    rig_done(&r);
    return 0;
}
