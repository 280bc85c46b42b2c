// The protocol, spoken by hand.
#include "tests/integration/server/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/fd.h"
#include "protocol/message.h"

#define MAX_PAYLOAD (UINT64_C(64) << 20)

void peer_frame_done(struct peer_frame *f)
{
    free(f->payload);
    f->payload = NULL;
}

void peer_init(struct peer *p, int fd)
{
    struct timeval patience = {.tv_sec = PEER_PATIENCE_MS / 1000};
    memset(p, 0, sizeof *p);
    p->fd = fd;
    frame_reader_init(&p->reader, MAX_PAYLOAD);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static void connect_to(struct peer *p, int family, const void *address, socklen_t size)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_cmp(fd, >=, 0);
    assert_int_equal(connect(fd, address, size), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); // TCP only
    peer_init(p, fd);
}

void peer_connect_unix(struct peer *p, const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    assert_cmp(strlen(path), <, sizeof a.sun_path);
    strcpy(a.sun_path, path);
    connect_to(p, AF_UNIX, &a, sizeof a);
}

int peer_listen_tcp(uint16_t *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 1024), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

void peer_connect_tcp(struct peer *p, uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    connect_to(p, AF_INET, &a, sizeof a);
}

void peer_close(struct peer *p)
{
    frame_reader_done(&p->reader);
    free(steal_ptr(p->sending));
    p->fd = fd_close(p->fd);
}

bool peer_send_raw(struct peer *p, const void *data, size_t size)
{
    const char *at = data;
    bool dies = p->cut && size >= p->cut_after;
    if (dies)
        size = p->cut_after;
    p->cut_after -= p->cut ? size : 0;
    while (size > 0) {
        ssize_t n = send(p->fd, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EPIPE && errno != ECONNRESET)
            fail_msg("the server does not take what is sent: %s", strerror(errno));
        if (n < 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    if (dies)
        longjmp(*p->cut, 1);
    return true;
}

// In one piece, which outlives a longjmp() out of peer_send_raw().
void peer_send_frame(struct peer *p, struct frame_header h, const pb_msgdesc_t *fields,
                     const void *message, const void *payload, size_t payload_size)
{
    struct frame_out *f =
        message_frame(h.type, h.flags, h.id, fields, message, NULL, 0, NULL, NULL);
    size_t size = f->head_size + payload_size;
    p->sending = realloc(p->sending, size);
    assert_non_null(p->sending);
    if (!h.message_size)
        h.message_size = (uint32_t)(f->head_size - FRAME_HEADER_SIZE);
    if (!h.payload_size)
        h.payload_size = payload_size;
    memcpy(p->sending, f->head, f->head_size);
    frame_header_write(p->sending, &h);
    if (payload_size > 0)
        memcpy(p->sending + f->head_size, payload, payload_size);
    frame_out_free(f);
    peer_send_raw(p, p->sending, size);
}

uint32_t peer_send(struct peer *p, uint16_t type, const void *message, const void *payload,
                   size_t payload_size)
{
    struct frame_header h = {.type = type, .id = ++p->next_id};
    peer_send_frame(p, h, message_row(type)->request, message, payload, payload_size);
    return h.id;
}

static bool read_more(struct peer *p)
{
    void *space;
    size_t size = frame_reader_space(&p->reader, &space);
    ssize_t n = recv(p->fd, space, size, 0);
    if (n < 0 && errno != ECONNRESET)
        fail_msg("nothing comes from the server: %s", strerror(errno));
    if (n > 0)
        frame_reader_fill(&p->reader, (size_t)n);
    return n > 0;
}

static bool next_event(struct peer *p, int wanted)
{
    struct error e;
    int event;
    while ((event = frame_reader_next(&p->reader, &e)) == FRAME_NEED_MORE)
        if (!read_more(p))
            return false;
    if (event < 0)
        fail_msg("the server sends nonsense: %s", e.text);
    assert_int_equal(event, wanted);
    return true;
}

static bool receive_any(struct peer *p, struct peer_frame *f)
{
    struct error e;
    memset(f, 0, sizeof *f);
    if (!next_event(p, FRAME_MESSAGE))
        return false;
    f->header = p->reader.header;
    bool error = f->header.flags & FRAME_ERROR; // also of types that only the test knows
    const pb_msgdesc_t *fields = error ? rknnd_Error_fields : message_fields(&f->header);
    assert_non_null(fields);
    if (message_decode(fields, frame_reader_message(&p->reader), &f->m, &e) < 0)
        fail_msg("%s", e.text);
    if (f->header.payload_size == 0)
        return true;
    f->payload = malloc(f->header.payload_size);
    assert_non_null(f->payload);
    frame_reader_payload_into(&p->reader, &(struct iovec){f->payload, f->header.payload_size}, 1);
    if (next_event(p, FRAME_PAYLOAD))
        return true;
    peer_frame_done(f);
    return false;
}

static bool is_ping(const struct peer_frame *f)
{
    return f->header.type == MESSAGE_PING && !(f->header.flags & FRAME_REPLY);
}

bool peer_receive(struct peer *p, struct peer_frame *f)
{
    while (receive_any(p, f)) {
        if (!is_ping(f))
            return true;
        if (!p->mute)
            peer_send_frame(p,
                            (struct frame_header){
                                .type = MESSAGE_PING, .flags = FRAME_REPLY, .id = f->header.id},
                            rknnd_Ping_fields, &f->m.PING_request, NULL, 0);
    }
    return false;
}

// The Ping may have come together with an earlier answer.
void peer_expect_one_ping(struct peer *p)
{
    struct peer_frame f;
    struct error e;
    int unread;
    assert_true(receive_any(p, &f));
    assert_true(is_ping(&f));
    peer_frame_done(&f);
    assert_int_equal(frame_reader_next(&p->reader, &e), FRAME_NEED_MORE);
    assert_int_equal(ioctl(p->fd, FIONREAD, &unread), 0);
    assert_int_equal(unread, 0);
}

void peer_expect_closed(struct peer *p)
{
    struct peer_frame f;
    while (peer_receive(p, &f))
        peer_frame_done(&f);
}

int peer_wait(struct peer *p, uint32_t id, struct peer_frame *f, struct error *e)
{
    for (;;) {
        if (!peer_receive(p, f))
            fail_msg("the server closed instead of answering request %u", id);
        if ((f->header.flags & FRAME_REPLY) && f->header.id == id)
            break;
        peer_frame_done(f);
    }
    if (!(f->header.flags & FRAME_ERROR))
        return 0;
    return message_error_take(&f->m.error, e);
}

int peer_call(struct peer *p, uint16_t type, const void *message, const void *payload,
              size_t payload_size, struct peer_frame *f, struct error *e)
{
    return peer_wait(p, peer_send(p, type, message, payload, payload_size), f, e);
}

// ---- the usual ----------------------------------------------------------------------------------

static void must(int result, const struct error *e)
{
    if (result < 0)
        fail_msg("refused: %s", e->text);
}

rknnd_HelloReply peer_hello(struct peer *p, uint64_t session, const uint8_t *secret)
{
    struct peer_frame f;
    struct error e;
    rknnd_Hello m = {.version_min = PROTOCOL_VERSION_MIN,
                     .version_max = PROTOCOL_VERSION_MAX,
                     .features = PROTOCOL_FEATURE_SAMPLES,
                     .software = "peer",
                     .program = "test",
                     .session = session};
    if (secret) {
        m.session_secret.size = HELLO_SECRET_SIZE;
        memcpy(m.session_secret.bytes, secret, HELLO_SECRET_SIZE);
    }
    must(peer_call(p, MESSAGE_HELLO, &m, NULL, 0, &f, &e), &e);
    return f.m.HELLO_reply;
}

rknnd_ServerStatus peer_status(struct peer *p)
{
    struct peer_frame f;
    struct error e;
    must(peer_call(p, MESSAGE_SERVER_STATUS, &(rknnd_Empty){0}, NULL, 0, &f, &e), &e);
    return f.m.SERVER_STATUS_reply;
}

void peer_upload(struct peer *p, const void *model, size_t size, size_t chunk,
                 uint8_t ret_sha256[SHA256_SIZE])
{
    struct peer_frame f;
    struct error e;
    rknnd_ModelOffer offer = {.size = size, .name = "test model"};
    must(sha256(model, size, offer.sha256, &e), &e);
    memcpy(ret_sha256, offer.sha256, SHA256_SIZE);
    must(peer_call(p, MESSAGE_MODEL_OFFER, &offer, NULL, 0, &f, &e), &e);
    bool complete = f.m.MODEL_OFFER_reply.held;
    for (uint64_t at = f.m.MODEL_OFFER_reply.offset; at < size && !complete;) {
        rknnd_ModelChunk m = {.offset = at};
        size_t n = chunk < size - at ? chunk : (size_t)(size - at);
        memcpy(m.sha256, offer.sha256, SHA256_SIZE);
        must(peer_call(p, MESSAGE_MODEL_CHUNK, &m, (const uint8_t *)model + at, n, &f, &e), &e);
        at = f.m.MODEL_CHUNK_reply.received;
        complete = f.m.MODEL_CHUNK_reply.complete;
    }
    assert_true(complete);
}

rknnd_ContextInfo peer_open(struct peer *p, const uint8_t sha256[SHA256_SIZE], uint32_t flags)
{
    struct peer_frame f;
    struct error e;
    rknnd_ContextOpen m = {.flags = flags};
    memcpy(m.sha256, sha256, SHA256_SIZE);
    must(peer_call(p, MESSAGE_CONTEXT_OPEN, &m, NULL, 0, &f, &e), &e);
    peer_frame_done(&f);
    return f.m.CONTEXT_OPEN_reply;
}

uint32_t peer_send_infer(struct peer *p, uint64_t context, const void *input, size_t size)
{
    rknnd_Infer m = {.context = context, .inputs_count = 1};
    m.inputs[0] = (rknnd_InferInput){.size = size, .converted = true};
    return peer_send(p, MESSAGE_INFER, &m, input, size);
}
