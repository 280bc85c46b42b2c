// HELLO, the first exchange on a connection: versions, features, the session, the device and its
// limits. Runs in the thread that connects, before anybody else knows the connection. What the
// server says is checked here once, so that the rest of the library may rely on c->peer.
#include "client/link/hello.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text/text.h"
#include "client/limits.h"
#include "client/record/record.h"

// File descriptors pass over Unix sockets only. They cannot be recorded, so a recorded connection
// does without. (The adb server's end of an adb: connection may be a Unix socket; ours is not.)
static uint64_t hello_features(const struct connection *c)
{
    bool fds = fd_is_unix(c->stream.fd) && !record_wanted();
    return fds ? PROTOCOL_FEATURES : PROTOCOL_FEATURES & ~PROTOCOL_FEATURE_FDS;
}

// Who we are, and the session to join; without one the server makes it.
static void hello_introduce(const struct connection *c, const struct session *session,
                            rknnd_Hello *m)
{
    *m = (rknnd_Hello){.version_min = PROTOCOL_VERSION_MIN,
                       .version_max = PROTOCOL_VERSION_MAX,
                       .features = hello_features(c),
                       .session = session->id};
    message_set_text(m->software, "librknnrt " RKNND_VERSION);
    char program[sizeof m->program];
    snprintf(program, sizeof program, "%.40s %d", program_invocation_short_name, (int)getpid());
    message_set_text(m->program, program);
    if (session->id) {
        m->session_secret.size = HELLO_SECRET_SIZE;
        memcpy(m->session_secret.bytes, session->secret, HELLO_SECRET_SIZE);
    }
}

// Programs print these texts, so control characters of a hostile server are removed.
static void make_printable(rknnd_HelloReply *m)
{
    text_make_printable(m->software);
    text_make_printable(m->device.chip);
    text_make_printable(m->device.backend);
    text_make_printable(m->device.runtime_version);
    text_make_printable(m->device.driver_version);
}

// Limits that would make requests impossible, or heartbeats busy or never late, are refused.
static int check_limits(const rknnd_Limits *l, struct error *e)
{
    if (!l->payload_size || !l->model_size || !l->chunk_size || !l->requests ||
        l->heartbeat_ms < LIMIT_HEARTBEAT_MIN_MS || l->peer_timeout_ms <= l->heartbeat_ms)
        return error_set(e, STATUS_FAIL,
                         "its limits are out of range (payload %llu, model %llu, chunk %u, "
                         "requests %u, heartbeat %u ms, timeout %u ms)",
                         (unsigned long long)l->payload_size, (unsigned long long)l->model_size,
                         l->chunk_size, l->requests, l->heartbeat_ms, l->peer_timeout_ms);
    return 0;
}

static int hello_check(const rknnd_HelloReply *m, struct error *e)
{
    if (m->version < PROTOCOL_VERSION_MIN || m->version > PROTOCOL_VERSION_MAX)
        return error_set(e, STATUS_DEVICE_UNMATCH,
                         "it chose protocol version %u; this library has %d to %d", m->version,
                         PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX);
    if (!m->has_device || !m->has_limits || !m->session ||
        m->session_secret.size != HELLO_SECRET_SIZE)
        return error_set(e, STATUS_FAIL, "its HELLO lacks the device, the limits or the session");
    return check_limits(&m->limits, e);
}

// Waits in short steps that each start from the current time: if the program is stopped in between,
// it loses one step of the limit and not all of it.
static int await_answer(struct connection *c, struct request *r, uint32_t limit_ms, struct error *e)
{
    uint32_t left = limit_ms, step;
    int s;
    do {
        step = left < LIMIT_HELLO_STEP_MS ? left : LIMIT_HELLO_STEP_MS;
        left -= step;
        s = connection_wait(c, r, clock_ms() + step, e);
    } while (s == STATUS_TIMEOUT && !r->done && left > 0);
    return s;
}

int hello_exchange(struct connection *c, struct session *session, uint32_t limit_ms,
                   struct error *e)
{
    rknnd_Hello hello;
    rknnd_HelloReply reply;
    struct request r = {.type = MESSAGE_HELLO, .reply = &reply};
    hello_introduce(c, session, &hello);
    int s = record_join(&c->record, e);
    if (s < 0)
        return s;
    s = connection_send(c, &r, &hello, NULL, 0, e);
    if (s == 0)
        s = await_answer(c, &r, limit_ms, e);
    if (s == STATUS_TIMEOUT)
        s = error_set(e, STATUS_TIMEOUT, "does not answer (%u ms)", limit_ms);
    if (s == 0)
        s = hello_check(&reply, e);
    if (s < 0) {
        if (!c->lost)
            error_prefix(e, "server %s", c->uri);
        connection_lose(c, e); // also ends a request that is still waiting
        return s;
    }
    make_printable(&reply);
    c->peer = reply;
    c->reader.payload_limit = reply.limits.payload_size;
    session->id = reply.session;
    memcpy(session->secret, reply.session_secret.bytes, HELLO_SECRET_SIZE);
    return 0;
}
