// Fuzzes the client library with a server's side of a conversation.
//
// Input: one byte (odd: a good answer to HELLO is put in front), then everything that the server
// sends. The library says what it always says; ids of requests count up from 1.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "client/api/context_open.h"
#include "client/link/hello.h"
#include "client/model/upload.h"
#include "rknnd.h"

#define MAX_REPLIES (64u << 10)
#define MAX_BYTES   (1u << 20) // of a tensor, and of all outputs together

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void fuzz_conversation(int fd);

static int send_hello(int fd)
{
    rknnd_HelloReply m = {
        .version = PROTOCOL_VERSION_MAX,
        .has_device = true,
        .device = {.chip = "rk3588", .n_cores = 3},
        .has_limits = true,
        .limits = {.payload_size = MAX_BYTES,
                   .model_size = MAX_BYTES,
                   .chunk_size = 1000,
                   .requests = 4,
                   .heartbeat_ms = 100000,
                   .peer_timeout_ms = 200000},
        .session = 1,
        .session_secret.size = HELLO_SECRET_SIZE,
    };
    struct frame_out *f = message_frame(MESSAGE_HELLO, FRAME_REPLY, 1, rknnd_HelloReply_fields, &m,
                                        NULL, 0, NULL, NULL);
    ssize_t n = send(fd, f->head, f->head_size, MSG_NOSIGNAL);
    frame_out_free(f);
    return n > 0 ? 0 : -1;
}

static void set_input(rknn_context c, uint32_t index, bool pass_through)
{
    rknn_tensor_attr a = {.index = index};
    rknn_query_cmd query = pass_through ? RKNN_QUERY_NATIVE_INPUT_ATTR : RKNN_QUERY_INPUT_ATTR;
    if (rknn_query(c, query, &a, sizeof a) != RKNN_SUCC || a.n_elems > MAX_BYTES / sizeof(float) ||
        a.size > MAX_BYTES)
        return;
    size_t size = pass_through ? a.size : a.n_elems * sizeof(float);
    cleanup(free_p) void *buffer = calloc(1, size + 1);
    rknn_input in = {.index = index,
                     .buf = buffer,
                     .size = (uint32_t)size,
                     .pass_through = pass_through,
                     .type = RKNN_TENSOR_FLOAT32,
                     .fmt = RKNN_TENSOR_NHWC};
    rknn_inputs_set(c, 1, &in);
}

static void get_output(rknn_context c, uint32_t index, uint8_t want_float)
{
    rknn_output out = {.index = index, .want_float = want_float};
    if (rknn_outputs_get(c, 1, &out, NULL) == RKNN_SUCC)
        rknn_outputs_release(c, 1, &out);
}

static void use_context(rknn_context c)
{
    rknn_input_output_num n = {0, 0};
    rknn_perf_detail detail;
    rknnd_list *layers;
    rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n);
    for (uint32_t run = 0; run < 2; run++) {
        for (uint32_t i = 0; i < n.n_input && i < 8; i++)
            set_input(c, i, run);
        rknn_run(c, NULL);
        for (uint32_t i = 0; i < n.n_output && i < 8; i++)
            get_output(c, i, (uint8_t)!run);
    }
    rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail);
    if (rknnd_get_layers(c, &layers) == RKNN_SUCC)
        rknnd_free(layers);
    rknn_destroy(c);
}

// Everything that a program does with a server, on one connection. Takes fd.
void fuzz_conversation(int fd)
{
    struct connection *c;
    struct session session = {.id = 0};
    struct model model;
    struct error e;
    rknn_context context;
    uint64_t held = 0;
    static const char bytes[100] = "a model of seven parts";
    if (connection_new(fd, false, "fuzz:", &c, &e) < 0)
        return;
    int r = model_from_memory(&model, bytes, sizeof bytes, 0, 0, &e);
    if (r == 0)
        r = hello_exchange(c, &session, 5000, &e);
    if (c->peer.limits.payload_size > MAX_BYTES)
        c->peer.limits.payload_size = c->reader.payload_limit = MAX_BYTES;
    if (r == 0)
        r = upload_model(c, &model, &held, &e);
    if (r < 0) {
        connection_free(c);
        return;
    }
    rknnd_ContextOpen open = {.flags = RKNN_FLAG_COLLECT_PERF_MASK};
    if (context_open(c, MESSAGE_CONTEXT_OPEN, &open, open.flags, &context, &e) == 0)
        use_context(context);
}

// Every peer's words would be said on standard error.
__attribute__((constructor)) static void silence(void)
{
    setenv("RKNN_LOG_LEVEL", "0", 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    if (size < 1 || size > MAX_REPLIES ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        return 0;
    cleanup(fd_close_p) int server = pair[1];
    if (((data[0] & 1) && send_hello(server) < 0) ||
        (size > 1 && send(server, data + 1, size - 1, MSG_NOSIGNAL) < 0) ||
        shutdown(server, SHUT_WR) < 0) {
        fd_close(pair[0]);
        return 0;
    }
    fuzz_conversation(pair[0]);
    return 0;
}
