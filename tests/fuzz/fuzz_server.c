// Bytes of a client against a real server in this process, on backend null.
//
// The first byte chooses where the bytes begin: 0 before HELLO, 1 after it, 2 with a context open
// (whose handle and model hash the corpus knows, because they are always the same).
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/sha256.h"
#include "server/config/options_rows.h"
#include "server/server.h"

static struct {
    uv_loop_t loop;
    struct options options;
    struct server server;
    uint8_t prefix[512]; // HELLO, and then CONTEXT_OPEN
    size_t hello_size, prefix_size;
} f;

static void set(const char *name, const char *value)
{
    struct error e;
    if (options_set(&f.options, name, value, &e) < 0)
        abort();
}

static size_t encode(uint8_t *out, uint16_t type, uint32_t id, const void *message)
{
    struct frame_out *frame =
        message_frame(type, 0, id, message_row(type)->request, message, NULL, 0, NULL, NULL);
    size_t size = frame->head_size;
    memcpy(out, frame->head, size);
    frame_out_free(frame);
    return size;
}

// A model that is always held: its store reference is never given back.
static void hold_model(uint8_t hash[SHA256_SIZE])
{
    struct error e;
    struct model *m;
    int fd = fd_memory("model", 5, &e);
    if (fd < 0 || write(fd, "model", 5) != 5 || sha256("model", 5, hash, &e) < 0 ||
        store_add(&f.server.store, hash, fd, 5, "model", &m, &e) < 0)
        abort();
}

// A server has to listen. The kernel names this socket, so several of these can run at a time.
static void listen_nowhere(void)
{
    char uri[16];
    struct sockaddr address = {.sa_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &address, sizeof address.sa_family) < 0 || listen(fd, 1) < 0)
        abort();
    snprintf(uri, sizeof uri, "fd:%d", fd);
    set("listen", uri);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct error e;
    rknnd_ContextOpen open = {0};
    rknnd_Hello hello = {.version_min = 1, .version_max = 1, .software = "fuzz"};
    (void)argc;
    (void)argv;
    log_set_level(LOG_SILENT);
    options_init(&f.options);
    set("isolation", "thread");
    set("backend", "null:64:64");
    set("module-dir", MODULE_DIR);
    listen_nowhere();
    set("max-payload", "1M");
    set("max-memory", "1M");
    set("max-model-size", "64K");
    set("upload-ttl", "0");
    set("model-cache", "64K");
    set("worker-idle", "3600");
    uv_loop_init(&f.loop);
    if (server_init(&f.server, &f.loop, &f.options, &e) < 0)
        abort();
    while (f.server.state == SERVER_STARTING)
        uv_run(&f.loop, UV_RUN_ONCE);
    hold_model(open.sha256);
    f.hello_size = encode(f.prefix, MESSAGE_HELLO, 1, &hello);
    f.prefix_size = f.hello_size + encode(f.prefix + f.hello_size, MESSAGE_CONTEXT_OPEN, 2, &open);
    return 0;
}

static void drop_answers(int fd)
{
    static char bytes[65536];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
}

static bool alive(void)
{
    return f.server.connections.n > 0;
}

// Sends, and lets the server take it. False: it has closed.
static bool feed(int fd, const uint8_t *data, size_t size)
{
    while (size > 0 && alive()) {
        ssize_t n = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        data += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
        uv_run(&f.loop, UV_RUN_NOWAIT);
        drop_answers(fd);
    }
    return alive();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return 0;
    server_take(&f.server, pair[0], &(struct origin){.text = "fuzz"});
    bool going = feed(pair[1], f.prefix,
                      data[0] == 0   ? 0
                      : data[0] == 1 ? f.hello_size
                                     : f.prefix_size);
    for (int i = 0; data[0] > 1 && i < 1000 && f.server.contexts.n == 0; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    if (going)
        feed(pair[1], data + 1, size - 1);
    close(pair[1]);
    while (f.server.connections.n > 0 || f.server.contexts.n > 0 || f.server.uploads.n_uploads > 0)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert(f.server.sessions.n == 0 && f.server.jobs.scheduler.n_waiting == 0);
    return 0;
}
