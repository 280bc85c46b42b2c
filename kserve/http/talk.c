// One buffer for what comes: requests in a pipeline lie in it one behind the other, and are moved
// to its begin only when it is full, which for most never happens.
#include "kserve/http/talk.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/net/discard.h"

#define LINGER_MS      2000
#define LINGER_STEP_MS 200
#define LINGER_BYTES   (16U << 20)

void talk_init(struct talk *t, int socket)
{
    t->socket = socket;
    t->takes_fds = fd_is_unix(socket);
    if (t->takes_fds)
        fd_take_urgent(socket);
    t->moved = 0;
    t->kept = t->begin = t->end = 0;
}

void talk_next(struct talk *t)
{
    t->kept = 0;
    if (t->begin == t->end)
        t->begin = t->end = 0;
}

// Nobody wants descriptors; but what a peer has passed, the kernel would close here, and wait for
// it as long as the peer likes. Who passes more than can be closed has gone.
static ssize_t receive_with(struct talk *t, void *to, size_t n, int flags)
{
    int passed[FD_MAX_IN_MESSAGE], n_passed = 0;
    ssize_t got;
    do
        got = fd_receive_once(t->socket, to, n, passed, &n_passed,
                              t->takes_fds ? FD_MAX_IN_MESSAGE : 0, flags);
    while (got == -EINTR);
    if (!discard_fds(passed, n_passed))
        got = -EMFILE;
    t->moved += got > 0 ? (uint64_t)got : 0;
    return got;
}

static ssize_t receive(struct talk *t, void *to, size_t n)
{
    return receive_with(t, to, n, 0);
}

// What is kept in front is pointed at, so only what lies behind it can be moved.
static bool fill(struct talk *t, int flags)
{
    if (t->end == TALK_ROOM && t->begin > t->kept) {
        memmove(t->buffer + t->kept, t->buffer + t->begin, t->end - t->begin);
        t->end -= t->begin - t->kept;
        t->begin = t->kept;
    }
    if (t->end == TALK_ROOM)
        return false;
    ssize_t n = receive_with(t, t->buffer + t->end, TALK_ROOM - t->end, flags);
    t->end += n > 0 ? (size_t)n : 0;
    return n > 0;
}

bool talk_fill(struct talk *t)
{
    return fill(t, 0);
}

bool talk_fill_now(struct talk *t)
{
    return fill(t, MSG_DONTWAIT);
}

// A line that does not fit is as good as one that never ends: talk_fill() has no room for it.
char *talk_line(struct talk *t)
{
    char *feed;
    while (!(feed = memchr(t->buffer + t->begin, '\n', t->end - t->begin)))
        if (!talk_fill(t))
            return NULL;
    char *line = t->buffer + t->begin;
    if (feed == line || feed[-1] != '\r')
        return NULL;
    feed[-1] = 0;
    t->begin = (size_t)(feed + 1 - t->buffer);
    return line;
}

// What has come.
static size_t take_buffered(struct talk *t, void *to, size_t n)
{
    size_t has = t->end - t->begin < n ? t->end - t->begin : n;
    memcpy(to, t->buffer + t->begin, has);
    t->begin += has;
    return has;
}

size_t talk_take_soon(struct talk *t, void *to, size_t n, unsigned ms)
{
    size_t has = take_buffered(t, to, n);
    uint64_t until = clock_ms() + ms;
    ssize_t got = 1;
    // For this call alone: between requests a peer may be silent for as long as connections.h says.
    fd_limit_receive(t->socket, ms);
    while (has < n && got > 0 && clock_ms() <= until) {
        got = receive(t, (uint8_t *)to + has, n - has);
        has += got > 0 ? (size_t)got : 0;
    }
    fd_limit_receive(t->socket, 0);
    return has;
}

bool talk_take(struct talk *t, void *to, size_t n)
{
    size_t has = take_buffered(t, to, n);
    while (has < n) {
        ssize_t got = receive(t, (uint8_t *)to + has, n - has);
        if (got <= 0)
            return false;
        has += (size_t)got;
    }
    return true;
}

// Takes what has been sent off the vectors.
static void pass(struct talk *t, struct iovec **iov, int *n, size_t sent)
{
    t->moved += sent;
    for (; *n > 0 && sent >= (*iov)->iov_len; (*iov)++, (*n)--)
        sent -= (*iov)->iov_len;
    if (*n > 0) {
        (*iov)->iov_base = (uint8_t *)(*iov)->iov_base + sent;
        (*iov)->iov_len -= sent;
    }
}

bool talk_send(struct talk *t, struct iovec *iov, int n)
{
    while (n > 0) {
        ssize_t sent = fd_send(t->socket, iov, n, NULL, 0);
        if (sent < 0)
            return false;
        pass(t, &iov, &n, (size_t)sent);
    }
    return true;
}

bool talk_send_now(struct talk *t, struct iovec **iov, int *n)
{
    while (*n > 0) {
        ssize_t sent = fd_send_now(t->socket, *iov, *n, NULL, 0);
        if (sent == -EAGAIN || sent == -EWOULDBLOCK)
            return true;
        if (sent < 0)
            return false;
        pass(t, iov, n, (size_t)sent);
    }
    return true;
}

// A socket that is closed with bytes in it resets the connection, and the answer is lost.
void talk_end(struct talk *t)
{
    uint64_t until = clock_ms() + LINGER_MS;
    size_t dropped = 0;
    shutdown(t->socket, SHUT_WR);
    fd_limit_receive(t->socket, LINGER_STEP_MS);
    while (dropped < LINGER_BYTES && clock_ms() < until) {
        ssize_t n = receive(t, t->buffer, TALK_ROOM);
        if (n == 0 || (n < 0 && n != -EAGAIN))
            return;
        dropped += n > 0 ? (size_t)n : 0;
    }
}
