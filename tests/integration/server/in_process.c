// A server on a thread.
#include "tests/integration/server/in_process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/log.h"
#include "server/config/options_rows.h"

static void on_wake(uv_async_t *wake)
{
    struct in_process *s = container_of(wake, struct in_process, wake);
    if (s->wanted == IN_PROCESS_DRAIN)
        server_drain(&s->server);
    if (s->wanted == IN_PROCESS_STOP)
        server_stop(&s->server);
}

static void *serve(void *owner)
{
    struct in_process *s = owner;
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&s->wake, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    server_done(&s->server);
    s->exit_code = uv_loop_close(&s->loop);
    return NULL;
}

static void must_set(struct options *o, const char *name, const char *value)
{
    struct error e;
    if (options_set(o, name, value, &e) < 0)
        fail_msg("%s", e.text);
}

static void set_options(struct in_process *s, const char *const *settings)
{
    char uri[128];
    options_init(&s->options);
    must_set(&s->options, "isolation", "thread");
    must_set(&s->options, "backend", "null:64:64");
    must_set(&s->options, "module-dir", MODULE_DIR);
    must_set(&s->options, "worker-idle", "0");
    snprintf(uri, sizeof uri, "unix:%s", s->path);
    must_set(&s->options, "listen", uri);
    snprintf(uri, sizeof uri, "fd:%d", peer_listen_tcp(&s->port));
    must_set(&s->options, "listen", uri);
    for (; settings && *settings; settings += 2)
        must_set(&s->options, settings[0], settings[1]);
}

void in_process_start(struct in_process *s, const char *const *settings)
{
    struct error e;
    memset(s, 0, sizeof *s);
    log_set_level(LOG_ERROR);
    log_set_level_text(getenv("RKNN_SERVER_LOGLEVEL"));
    strcpy(s->folder, "/tmp/rknnd-test-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    snprintf(s->path, sizeof s->path, "%s/socket", s->folder);
    set_options(s, settings);
    assert_int_equal(uv_loop_init(&s->loop), 0);
    uv_async_init(&s->loop, &s->wake, on_wake);
    uv_unref((uv_handle_t *)&s->wake);
    if (server_init(&s->server, &s->loop, &s->options, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void want(struct in_process *s, enum in_process_wish wanted)
{
    s->wanted = wanted;
    uv_async_send(&s->wake);
}

void in_process_drain(struct in_process *s)
{
    want(s, IN_PROCESS_DRAIN);
}

void in_process_join(struct in_process *s)
{
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    assert_int_equal(s->exit_code, 0);
    assert_int_equal(s->server.counters.buffers.bytes, 0);
    assert_int_equal(s->server.memories.bytes, 0);
    assert_cmp(access(s->path, F_OK), <, 0); // the socket is gone
    rmdir(s->folder);
    options_done(&s->options);
}

void in_process_stop(struct in_process *s)
{
    want(s, IN_PROCESS_STOP);
    in_process_join(s);
}

rknnd_HelloReply in_process_connect(struct in_process *s, struct peer *p)
{
    peer_connect_unix(p, s->path);
    return peer_hello(p, 0, NULL);
}

rknnd_HelloReply in_process_connect_tcp(struct in_process *s, struct peer *p)
{
    peer_connect_tcp(p, s->port);
    return peer_hello(p, 0, NULL);
}

rknnd_ContextInfo in_process_open(struct in_process *s, struct peer *p, const char *model,
                                  uint8_t ret_sha256[SHA256_SIZE])
{
    in_process_connect(s, p);
    peer_upload(p, model, strlen(model), strlen(model), ret_sha256);
    return peer_open(p, ret_sha256, 0);
}

rknnd_ServerStatus in_process_wait_status(struct peer *p,
                                          bool (*good)(const rknnd_ServerStatus *status,
                                                       const void *with),
                                          const void *with)
{
    time_t end = time(NULL) + PEER_PATIENCE_MS / 1000;
    for (;;) {
        rknnd_ServerStatus status = peer_status(p);
        if (good(&status, with))
            return status;
        if (time(NULL) > end)
            fail_msg("the server holds %u connections, %u sessions, %u contexts, %u models, %u "
                     "uploads, %llu bytes of buffers, %u + %u jobs",
                     status.connections, status.sessions, status.contexts, status.models,
                     status.uploads, (unsigned long long)status.buffer_bytes, status.jobs_waiting,
                     status.jobs_running);
    }
}

static bool is_alone(const rknnd_ServerStatus *now, const void *with)
{
    (void)with;
    return now->connections == 1 && now->sessions == 1 && now->contexts == 0 && now->models == 0 &&
           now->workers == 0 && now->uploads == 0 && now->memory_bytes == 0 &&
           now->buffer_bytes == 0 && now->jobs_waiting == 0 && now->jobs_running == 0;
}

rknnd_ServerStatus in_process_watch(struct in_process *s, struct peer *watcher)
{
    in_process_connect(s, watcher);
    return in_process_wait_status(watcher, is_alone, NULL);
}

static bool is_same(const rknnd_ServerStatus *now, const void *with)
{
    const rknnd_ServerStatus *before = with;
    return now->connections == before->connections && now->sessions == before->sessions &&
           now->contexts == before->contexts && now->models == before->models &&
           now->workers == before->workers && now->uploads == before->uploads &&
           now->upload_bytes == before->upload_bytes && now->model_bytes == before->model_bytes &&
           now->memory_bytes == before->memory_bytes && now->buffer_bytes == before->buffer_bytes &&
           now->jobs_waiting == before->jobs_waiting && now->jobs_running == before->jobs_running;
}

void in_process_wait_same(struct peer *p, const rknnd_ServerStatus *before)
{
    in_process_wait_status(p, is_same, before);
}
