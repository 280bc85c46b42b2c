// Fuzzes TLS sessions of ours, a client's with a server's, both with the right key, over a stream
// that breaks bytes, cuts, delays and closes as the input says. Plain bytes must come through as
// they were, or not at all.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tls/tls.h"

#define STREAM (256u * 1024)
#define STEPS  400
#define MOST   70000 // plain bytes of a call

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool it)
{
    if (!it)
        abort();
}

// One direction.
struct pipe {
    uint8_t bytes[STREAM];
    size_t from, to;
    size_t room; // bytes that it takes before it is full
    bool closed;
};

struct end {
    struct tls *tls;
    struct pipe *in, *out;
    uint8_t next_sent, next_got; // plain bytes count up
    size_t offered;              // plain bytes that a call has seen and not taken
    bool dead, shaken;
};

static ssize_t pipe_send(void *owner, const void *bytes, size_t size)
{
    const struct end *e = owner;
    struct pipe *p = e->out;
    size_t n = size < p->room ? size : p->room;
    if (n > STREAM - p->to)
        n = STREAM - p->to;
    if (p->closed)
        return -EPIPE;
    if (n == 0)
        return -EAGAIN;
    memcpy(p->bytes + p->to, bytes, n);
    p->to += n;
    p->room -= n;
    return (ssize_t)n;
}

static ssize_t pipe_receive(void *owner, void *buffer, size_t size)
{
    const struct end *e = owner;
    struct pipe *p = e->in;
    size_t n = p->to - p->from < size ? p->to - p->from : size;
    if (n == 0)
        return p->closed ? 0 : -EAGAIN;
    memcpy(buffer, p->bytes + p->from, n);
    p->from += n;
    return (ssize_t)n;
}

static void shake(struct end *e)
{
    int r = e->dead || e->shaken ? -EAGAIN : tls_handshake(e->tls);
    e->shaken |= r == 0;
    e->dead |= r < 0 && r != -EAGAIN;
}

// Plain bytes from `first` on. Made once, since libFuzzer watches each turn of a loop.
static uint8_t *counting(uint8_t first)
{
    static uint8_t bytes[MOST + 256];
    if (!bytes[1])
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)i;
    return bytes + first;
}

static void send_some(struct end *e, size_t n)
{
    uint8_t *bytes = counting(e->next_sent);
    if (!e->shaken || e->dead)
        return;
    n = n > e->offered ? n : e->offered;
    const struct iovec iov[] = {{bytes, n / 3}, {bytes + n / 3, n - n / 3}};
    ssize_t r = tls_send(e->tls, iov, 2);
    must(r <= (ssize_t)n);
    e->offered = r == -EAGAIN ? n : 0;
    if (r > 0)
        e->next_sent = (uint8_t)(e->next_sent + r);
    else if (r < 0 && r != -EAGAIN)
        e->dead = true;
}

static void receive_some(struct end *e, size_t n)
{
    static uint8_t bytes[MOST];
    if (!e->shaken || e->dead)
        return;
    ssize_t r = tls_receive(e->tls, bytes, n);
    must(r <= 0 || memcmp(bytes, counting(e->next_got), (size_t)r) == 0);
    if (r > 0)
        e->next_got = (uint8_t)(e->next_got + r);
    else if (r != -EAGAIN)
        e->dead = true;
}

static void harm(struct pipe *p, uint8_t what, uint8_t where)
{
    if (p->to > p->from && where < p->to - p->from)
        p->bytes[p->from + where] ^= what;
}

static struct tls_context *contexts[2];

static void make_contexts(void)
{
    char path[] = "/tmp/rknnd-fuzz-keys-XXXXXX";
    int fd = mkstemp(path);
    must(fd >= 0 && dprintf(fd, "alice:000102030405060708090a0b0c0d0e0f\n") > 0);
    close(fd);
    const struct tls_files files = {.psk = path};
    int r = tls_server_context(&files, &contexts[0], NULL);
    if (r == 0)
        r = tls_client_context(&files, "x:1", NULL, &contexts[1], NULL);
    must(r == 0);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pipe pipes[2];
    struct end ends[2] = {{.in = &pipes[0], .out = &pipes[1]}, {.in = &pipes[1], .out = &pipes[0]}};
    if (!contexts[0])
        make_contexts();
    for (int i = 0; i < 2; i++) {
        pipes[i].from = pipes[i].to = 0;
        pipes[i].room = STREAM;
        pipes[i].closed = false;
        const struct tls_io io = {pipe_send, pipe_receive, &ends[i]};
        if (tls_new(contexts[i], &io, i ? "host" : NULL, &ends[i].tls, NULL) < 0)
            abort();
    }
    for (size_t i = 0; i + 2 < size && i < STEPS * 3u; i += 3) {
        struct end *e = &ends[data[i] & 1];
        size_t n = (size_t)data[i + 1] << 8 | data[i + 2];
        switch (data[i] >> 1 & 7) {
        case 0:
        case 1:
            shake(&ends[0]);
            shake(&ends[1]);
            break;
        case 2:
            send_some(e, n);
            break;
        case 3:
            receive_some(e, n + 1);
            break;
        case 4:
            harm(e->in, data[i + 1], data[i + 2]);
            break;
        case 5:
            e->out->room = n;
            break;
        case 6:
            e->out->closed = true;
            break;
        default: // bytes from somewhere else
            pipe_send(e, data, size < n ? size : n);
        }
    }
    for (int i = 0; i < 2; i++) {
        tls_finish(ends[i].tls);
        tls_free(ends[i].tls);
    }
    return 0;
}
