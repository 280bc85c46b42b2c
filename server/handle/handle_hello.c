// HELLO: agrees on a protocol version and features, finds or makes the session, tells device and
// limits.
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text/text.h"
#include "npu/npu.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/jobs/memory.h"
#include "server/models/upload.h"
#include "server/observe/trace.h"

// Both sides name a range of versions; the ranges must overlap.
static int hello_agree(const rknnd_Hello *m, struct error *e)
{
    if (m->version_min <= PROTOCOL_VERSION_MAX && m->version_max >= PROTOCOL_VERSION_MIN &&
        m->version_min <= m->version_max)
        return 0;
    return error_set(e, STATUS_DEVICE_UNMATCH,
                     "the client (%s) speaks protocol versions %u to %u, this server (rknnd %s) %d "
                     "to %d; update the older of the two",
                     m->software[0] ? m->software : "unnamed", m->version_min, m->version_max,
                     RKNND_VERSION, PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX);
}

// Joins the session that the client names and proves to know. If it does not exist (its last
// connection has gone, or an earlier daemon had it), a new one is made; the client recognises that
// by id and secret.
static int hello_join(struct connection *c, const rknnd_Hello *m, struct error *e)
{
    struct session *known = NULL;
    if (m->session != 0 && m->session_secret.size == HELLO_SECRET_SIZE)
        known = session_find(c->services->sessions, m->session, m->session_secret.bytes);
    cleanup(session_unref_p) struct session *session = known ? session_ref(known) : NULL;
    int r = known ? 0 : session_new(c->services->sessions, c->user, m->program, &session, e);
    if (r == 0)
        r = connection_join(c, session, e);
    if (r == 0)
        steal_ptr(session);
    return r;
}

static void describe_device(const struct npu_device_info *info, rknnd_Device *ret)
{
    message_set_text(ret->chip, info->chip);
    message_set_text(ret->backend, info->backend);
    message_set_text(ret->runtime_version, info->runtime_version);
    message_set_text(ret->driver_version, info->driver_version);
    ret->n_cores = info->n_cores;
    ret->sram_size = info->sram_size;
    ret->dma = info->dma;
    ret->clock_hz = info->clock_hz;
    ret->timing = info->timing;
}

// A client that stays within these, and reads its answers, is never paused.
static rknnd_Limits hello_limits(const struct options *o)
{
    return (rknnd_Limits){
        .message_size = FRAME_MESSAGE_MAX,
        .payload_size = o->max_payload,
        .model_size = o->max_model_size,
        .chunk_size = UPLOAD_CHUNK_SIZE,
        .requests = o->max_inflight,
        .heartbeat_ms = o->heartbeat_ms,
        .peer_timeout_ms = o->peer_timeout_ms,
        .contexts = o->max_contexts,
    };
}

// The highest version that both sides speak.
static void hello_welcome(struct connection *c, const struct frame_header *h, const rknnd_Hello *m)
{
    rknnd_HelloReply reply = {
        .version = m->version_max < PROTOCOL_VERSION_MAX ? m->version_max : PROTOCOL_VERSION_MAX,
        .features = c->features,
        .software = "rknnd " RKNND_VERSION,
        .has_device = true,
        .has_limits = true,
        .limits = hello_limits(c->services->options),
        .session = c->session->id,
        .session_secret.size = HELLO_SECRET_SIZE,
    };
    describe_device(c->services->device, &reply.device);
    message_set_text(reply.buffers, c->services->memories->buffers.name);
    memcpy(reply.session_secret.bytes, c->session->secret, HELLO_SECRET_SIZE);
    connection_reply(c, h, rknnd_HelloReply_fields, &reply);
}

// The client's texts are untrusted and go to logs, so they are made printable first. File
// descriptors pass over Unix sockets only.
int handle_hello(struct connection *c, const struct frame_header *h, const union message_any *any,
                 struct error *e)
{
    rknnd_Hello m = any->HELLO_request;
    text_make_printable(m.software);
    text_make_printable(m.program);
    int r = hello_agree(&m, e);
    if (r == 0)
        r = connection_identify(c, c->services->users, e);
    if (r < 0)
        return r;
    r = hello_join(c, &m, e);
    if (r < 0)
        return r;
    message_set_text(c->program, m.program);
    c->features = m.features & PROTOCOL_FEATURES &
                  (c->channel.takes_fds ? ~UINT64_C(0) : ~PROTOCOL_FEATURE_FDS);
    c->state = CONNECTION_READY;
    if (!c->origin.local)
        c->rights = rights_of(&c->services->options->rights, &c->origin, c->user->name);
    c->since_ms = uv_now(c->services->loop);
    log_debug("c%u is %s (%s, %s), session %llu", c->number, c->program, m.software, c->origin.text,
              (unsigned long long)c->session->id);
    trace_add(c->services->trace, TRACE_CONNECT, c->session->id, c->number, 0, c->program);
    hello_welcome(c, h, &m);
    return 0;
}
