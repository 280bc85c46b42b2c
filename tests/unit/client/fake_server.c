// The fake server: one thread per connection, blocking sockets.
#include "fake_server.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "protocol/tensor_message.h"
#include "tensor/tensor.h"

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fake server: %s: %s\n", what, strerror(errno));
    abort();
}

static void note(struct fake_server *s)
{
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void fake_wait(struct fake_server *s, atomic_uint *counter, unsigned n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    int r = 0;
    pthread_mutex_lock(&s->lock);
    while (atomic_load(counter) < n && r == 0)
        r = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    pthread_mutex_unlock(&s->lock);
    errno = r;
    check(r == 0, "waited too long");
}

// ---- frames ------------------------------------------------------------------------------------

bool fake_send_raw(struct fake_peer *p, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    pthread_mutex_lock(&p->write_lock);
    while (size > 0) {
        ssize_t n = send(p->fd, at, size, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        at += n;
        size -= (size_t)n;
    }
    pthread_mutex_unlock(&p->write_lock);
    return size == 0;
}

bool fake_send(struct fake_peer *p, uint16_t type, uint8_t flags, uint32_t id,
               const pb_msgdesc_t *fields, const void *message, const void *payload, size_t size)
{
    struct iovec segment = {(void *)payload, size};
    struct frame_out *f =
        message_frame(type, flags, id, fields, message, &segment, size ? 1 : 0, NULL, NULL);
    uint8_t *whole = malloc(f->total);
    check(whole, "memory");
    memcpy(whole, f->head, f->head_size);
    if (size)
        memcpy(whole + f->head_size, payload, size);
    bool ok = fake_send_raw(p, whole, f->total);
    free(whole);
    frame_out_free(f);
    return ok;
}

static void reply(struct fake_peer *p, const struct frame_header *h, const void *message,
                  const void *payload, size_t size)
{
    fake_send(p, h->type, FRAME_REPLY, h->id, message_row(h->type)->reply, message, payload, size);
}

void fake_fail(struct fake_peer *p, const struct frame_header *h, int code, const char *words)
{
    rknnd_Error m = {.code = code};
    message_set_text(m.text, words);
    fake_send(p, h->type, FRAME_REPLY | FRAME_ERROR, h->id, rknnd_Error_fields, &m, NULL, 0);
}

static bool receive(int fd, void *buffer, size_t size)
{
    uint8_t *at = buffer;
    while (size > 0) {
        ssize_t n = recv(fd, at, size, 0);
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

// ---- the model ---------------------------------------------------------------------------------

static struct tensor_attr attribute(const char *name, enum tensor_type type,
                                    enum tensor_layout layout, uint32_t n_dims,
                                    const uint32_t *dims)
{
    struct tensor_attr a = {.n_dims = n_dims, .type = type, .layout = layout, .scale = 1};
    size_t size;
    snprintf(a.name, sizeof a.name, "%s", name);
    a.n_elems = 1;
    for (uint32_t i = 0; i < n_dims; i++)
        a.n_elems *= a.dims[i] = dims[i];
    tensor_bytes(type, a.n_elems, &size);
    a.size = a.size_with_stride = (uint32_t)size;
    if (type == TENSOR_INT8) {
        a.qnt = TENSOR_QNT_AFFINE;
        a.scale = 0.5f;
        a.zp = 10;
    }
    return a;
}

static struct tensor_io io(struct tensor_attr logical)
{
    struct tensor_io t = {.logical = logical, .native = logical, .native_nhwc = logical};
    return t;
}

static void send_info(struct fake_peer *p, const struct frame_header *h)
{
    struct fake_server *s = p->server;
    struct tensor_io t[] = {
        io(attribute("image", TENSOR_INT8, TENSOR_NHWC, 4, (uint32_t[]){1, 2, 2, 3})),
        io(attribute("vector", TENSOR_FLOAT16, TENSOR_UNDEFINED, 1,
                     (uint32_t[]){s->length ? s->length : 4})),
        io(attribute("bytes", TENSOR_INT8, TENSOR_NCHW, 4, (uint32_t[]){1, 3, 2, 2})),
        io(attribute("halves", TENSOR_FLOAT16, TENSOR_UNDEFINED, 1, (uint32_t[]){4})),
    };
    t[0].native.w_stride = 8; // as chips pad rows
    t[0].native.size_with_stride = 48;
    const struct tensor_io *list[] = {&t[0], &t[1], &t[2], &t[3]};
    size_t size;
    uint8_t *payload = tensor_list_encode(list, 4, &size);
    pthread_mutex_lock(&s->lock);
    p->context = ++s->next_context;
    pthread_mutex_unlock(&s->lock);
    rknnd_ContextInfo m = {.context = p->context,
                           .n_inputs = 2,
                           .n_outputs = 2,
                           .weight_size = 1111,
                           .internal_size = 2222,
                           .memory_size = 3333,
                           .sram_total = 4444,
                           .sram_free = 444,
                           .core_limit = 3,
                           .batch = s->batch ? s->batch : 1,
                           .custom_string = "made by hand",
                           .estimate_assumed = s->software,
                           .n_unestimated = s->software};
    message_set_text(m.estimate_chip, s->software ? "rk\033[1m3588" : "");
    atomic_fetch_add(&s->n_contexts, 1);
    note(s);
    reply(p, h, &m, payload, size);
    free(payload);
}

// ---- requests ----------------------------------------------------------------------------------

static void on_hello(struct fake_peer *p, const struct frame_header *h, const rknnd_Hello *m)
{
    struct fake_server *s = p->server;
    pthread_mutex_lock(&s->lock);
    if (m->session == 0 || m->session != s->session) {
        s->session += 100;
        atomic_fetch_add(&s->n_sessions, 1);
    }
    p->session = s->session;
    pthread_mutex_unlock(&s->lock);
    rknnd_HelloReply r = {
        .version = PROTOCOL_VERSION_MAX,
        .software = "fake 1",
        .has_device = true,
        .device = {.chip = "rk3588",
                   .backend = "fake",
                   .runtime_version = "9.8.7",
                   .driver_version = "6.5.4",
                   .n_cores = s->n_cores ? s->n_cores : 3,
                   .timing = s->software},
        .has_limits = true,
        .limits = {.message_size = FRAME_MESSAGE_MAX,
                   .payload_size = 1 << 20,
                   .model_size = 1 << 20,
                   .chunk_size = FAKE_CHUNK_SIZE,
                   .requests = s->requests,
                   .heartbeat_ms = s->heartbeat_ms,
                   .peer_timeout_ms = s->peer_timeout_ms,
                   .contexts = 100},
        .session = p->session,
        .session_secret = {HELLO_SECRET_SIZE, "0123456789abcdef"},
    };
    reply(p, h, &r, NULL, 0);
}

static void on_offer(struct fake_peer *p, const struct frame_header *h, const rknnd_ModelOffer *m)
{
    struct fake_server *s = p->server;
    pthread_mutex_lock(&s->lock);
    if (!s->model || s->model_size != m->size) {
        free(s->model);
        s->model = malloc(m->size);
        s->model_size = m->size;
        s->model_received = 0;
        s->model_complete = false;
    }
    snprintf(s->last_model_name, sizeof s->last_model_name, "%s", m->name);
    rknnd_ModelOfferReply r = {.held = s->model_complete,
                               .offset = s->model_complete ? 0 : s->model_received};
    pthread_mutex_unlock(&s->lock);
    reply(p, h, &r, NULL, 0);
}

static void on_chunk(struct fake_peer *p, const struct frame_header *h, const rknnd_ModelChunk *m)
{
    struct fake_server *s = p->server;
    pthread_mutex_lock(&s->lock);
    bool fits = m->offset == s->model_received && h->payload_size <= s->model_size - m->offset;
    if (fits) {
        memcpy(s->model + m->offset, p->payload, h->payload_size);
        s->model_received += h->payload_size;
        s->model_complete = s->model_received == s->model_size;
        atomic_fetch_add(&s->n_chunk_bytes, h->payload_size);
    }
    rknnd_ModelChunkReply r = {.received = s->model_received, .complete = s->model_complete};
    pthread_mutex_unlock(&s->lock);
    if (fits)
        reply(p, h, &r, NULL, 0);
    else
        fake_fail(p, h, STATUS_PARAM_INVALID, "a chunk out of order");
}

static void on_infer(struct fake_peer *p, const struct frame_header *h, const rknnd_Infer *m)
{
    struct fake_server *s = p->server;
    uint8_t outputs[FAKE_IMAGE_SIZE + FAKE_VECTOR_SIZE] = {0};
    rknnd_InferReply r = {.run_us = 123, .queue_us = 45, .attempts = 1};
    if (s->software)
        r.estimate_ns = 1500700;
    pthread_mutex_lock(&s->lock);
    s->last_infer = *m;
    pthread_mutex_unlock(&s->lock);
    if (h->payload_size < sizeof outputs) {
        fake_fail(p, h, STATUS_INPUT_INVALID, "too few bytes");
        return;
    }
    memcpy(outputs, p->payload, FAKE_IMAGE_SIZE);
    memcpy(outputs + FAKE_IMAGE_SIZE, p->payload + h->payload_size - FAKE_VECTOR_SIZE,
           FAKE_VECTOR_SIZE);
    atomic_fetch_add(&s->n_runs, 1);
    reply(p, h, &r, outputs, sizeof outputs);
    note(s);
}

static void on_profile(struct fake_peer *p, const struct frame_header *h)
{
    rknnd_Layer layers[] = {
        {.name = "Conv:first",
         .op = "ConvRelu",
         .type = "INT8",
         .target = "NPU",
         .time_us = 300,
         .input_shapes = "(1,2,2,3)",
         .output_shapes = "(1,3,2,2)",
         .read_bytes = 2048,
         .total_cycles = 400,
         .mac_cycles = 60,
         .n_tasks = 7,
         .core_work_count = 3,
         .core_work = {300, 100}},
        {.name = "Softmax:\033[31mred",
         .op = "Softmax",
         .type = "INT8",
         .target = "CPU",
         .time_us = 100,
         .write_bytes = 1024},
    };
    uint8_t list[4096], *at = list;
    layers[0].estimate_ns = p->server->software ? 1500400 : 0;
    layers[1].estimate_ns = p->server->software ? 300 : 0;
    for (size_t i = 0; i < 2; i++)
        message_delimited_put(rknnd_Layer_fields, &layers[i], &at, list + sizeof list);
    rknnd_ProfileReply r = {.n_layers = 2, .run_us = 400};
    reply(p, h, &r, list, (size_t)(at - list));
}

static void on_ping(struct fake_peer *p, const struct frame_header *h, const rknnd_Ping *m)
{
    if (h->flags & FRAME_REPLY) {
        atomic_fetch_add(&p->server->n_pongs, 1);
    } else {
        atomic_fetch_add(&p->server->n_pings, 1);
        reply(p, h, m, NULL, 0);
    }
    note(p->server);
}

void fake_answer(struct fake_peer *p, const struct frame_header *h, const union message_any *m)
{
    static const char json[] = "{\"fake\": true}";
    rknnd_Empty empty = {0};
    rknnd_ServerStatus status = {
        .contexts = p->server->n_contexts, .isolation = "process", .sram_free = 555};
    switch (h->type) {
    case MESSAGE_HELLO:
        return on_hello(p, h, &m->HELLO_request);
    case MESSAGE_PING:
        return on_ping(p, h, &m->PING_request);
    case MESSAGE_SERVER_STATUS:
        return reply(p, h, &status, NULL, 0);
    case MESSAGE_MODEL_OFFER:
        return on_offer(p, h, &m->MODEL_OFFER_request);
    case MESSAGE_MODEL_CHUNK:
        return on_chunk(p, h, &m->MODEL_CHUNK_request);
    case MESSAGE_MODEL_DESCRIBE:
        return reply(p, h, &empty, json, strlen(json));
    case MESSAGE_CONTEXT_OPEN:
    case MESSAGE_CONTEXT_DUP:
        return send_info(p, h);
    case MESSAGE_CONTEXT_CLOSE:
        atomic_fetch_sub(&p->server->n_contexts, 1);
        return reply(p, h, &empty, NULL, 0);
    case MESSAGE_INFER:
        return on_infer(p, h, &m->INFER_request);
    case MESSAGE_PROFILE:
        return on_profile(p, h);
    case MESSAGE_GOODBYE:
        atomic_fetch_add(&p->server->n_goodbyes, 1);
        return;
    default:
        check(false, "a request that it does not know");
    }
}

// ---- connections -------------------------------------------------------------------------------

// One request. False when the connection is to be closed.
static bool serve_one(struct fake_peer *p)
{
    uint8_t head[FRAME_HEADER_SIZE], message[FRAME_MESSAGE_MAX];
    struct frame_header h;
    union message_any m;
    struct error e;
    if (!receive(p->fd, head, sizeof head))
        return false;
    check(frame_header_read(head, &h, &e) == 0, "the client sent a bad frame");
    check(h.payload_size <= 1 << 20, "the client sent too much");
    p->payload = realloc(p->payload, h.payload_size + 1);
    if (!receive(p->fd, message, h.message_size) || !receive(p->fd, p->payload, h.payload_size))
        return false;
    check(message_decode(message_fields(&h), (struct bytes){message, h.message_size}, &m, &e) == 0,
          "the client sent a bad message");
    __typeof__(atomic_load(&p->server->hook)) hook = p->server->hook;
    enum fake_answer a = hook ? hook(p, &h, &m) : FAKE_DEFAULT;
    if (a == FAKE_DEFAULT)
        fake_answer(p, &h, &m);
    return a != FAKE_HANG_UP;
}

void fake_serve(struct fake_server *s, int fd)
{
    struct fake_peer p = {.server = s, .fd = fd};
    pthread_mutex_init(&p.write_lock, NULL);
    pthread_mutex_lock(&s->lock);
    list_append(&s->peers, &p.link);
    atomic_fetch_add(&s->n_connections, 1);
    pthread_mutex_unlock(&s->lock);
    while (serve_one(&p))
        continue;
    pthread_mutex_lock(&s->lock);
    list_remove(&p.link);
    close(fd);
    pthread_mutex_unlock(&s->lock);
    free(p.payload);
    pthread_mutex_destroy(&p.write_lock);
    pthread_mutex_lock(&s->lock);
    atomic_fetch_sub(&s->n_open, 1);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

struct start {
    struct fake_server *server;
    int fd;
};

static void *run_connection(void *arg)
{
    struct start *start = arg, here = *start;
    free(start);
    fake_serve(here.server, here.fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct fake_server *s = arg;
    int fd;
    while ((fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        pthread_t t;
        struct start *start = malloc(sizeof *start);
        *start = (struct start){s, fd};
        atomic_fetch_add(&s->n_open, 1);
        check(pthread_create(&t, NULL, run_connection, start) == 0, "thread");
        pthread_detach(t);
    }
    return NULL;
}

void fake_server_init(struct fake_server *s)
{
    memset(s, 0, sizeof *s);
    s->heartbeat_ms = 5000;
    s->peer_timeout_ms = 15000;
    s->requests = 16;
    list_init(&s->peers);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
}

void fake_server_start(struct fake_server *s)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!s->folder[0]) {
        snprintf(s->folder, sizeof s->folder, "/tmp/fake-rknnd-XXXXXX");
        check(mkdtemp(s->folder), "mkdtemp");
    }
    snprintf(a.sun_path, sizeof a.sun_path, "%s/sock", s->folder);
    snprintf(s->uri, sizeof s->uri, "unix:%s", a.sun_path);
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(bind(s->listener, (struct sockaddr *)&a, sizeof a) == 0 && listen(s->listener, 64) == 0,
          s->uri);
    check(pthread_create(&s->acceptor, NULL, accept_all, s) == 0, "thread");
}

const char *fake_server_begin(struct fake_server *s)
{
    fake_server_init(s);
    fake_server_start(s);
    return s->uri;
}

void fake_cut(struct fake_server *s)
{
    struct fake_peer *p;
    pthread_mutex_lock(&s->lock);
    list_for_each (p, &s->peers, link)
        shutdown(p->fd, SHUT_RDWR);
    pthread_mutex_unlock(&s->lock);
}

void fake_server_stop(struct fake_server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->acceptor, NULL);
    close(s->listener);
    unlink(s->uri + strlen("unix:"));
    rmdir(s->folder);
    s->folder[0] = 0;
    while (atomic_load(&s->n_open) > 0) {
        fake_cut(s);
        sched_yield();
    }
    pthread_mutex_lock(&s->lock);
    pthread_mutex_unlock(&s->lock);
    free(s->model);
    s->model = NULL;
}
