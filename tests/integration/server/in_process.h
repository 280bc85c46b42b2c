// A real server inside the test, on a thread of its own, with models run in threads.
#pragma once

#include <pthread.h>
#include <uv.h>

#include "server/server.h"
#include "tests/integration/server/peer.h"

enum in_process_wish { IN_PROCESS_RUN, IN_PROCESS_DRAIN, IN_PROCESS_STOP };

struct in_process {
    pthread_t thread;
    uv_loop_t loop;
    uv_async_t wake;
    struct options options;
    struct server server;
    enum in_process_wish wanted; // set before wake
    char folder[64], path[96];
    uint16_t port;
    int exit_code; // of uv_loop_close(): 0 if every handle was closed
};

/// Starts one with backend null. `settings` are pairs of option and value, ended by NULL.
void in_process_start(struct in_process *s, const char *const *settings);

/// Define cmocka's fixtures NAME: one starts `server`, a struct in_process, with pairs of option
/// and value, the other stops it.
#define IN_PROCESS_START(name, server, ...)                                                        \
    static int name(void **state)                                                                  \
    {                                                                                              \
        (void)state;                                                                               \
        in_process_start(&(server), (const char *const[]){__VA_ARGS__, NULL});                     \
        return 0;                                                                                  \
    }
#define IN_PROCESS_STOP(name, server)                                                              \
    static int name(void **state)                                                                  \
    {                                                                                              \
        (void)state;                                                                               \
        in_process_stop(&(server));                                                                \
        return 0;                                                                                  \
    }

/// As SIGTERM would. Does not wait.
void in_process_drain(struct in_process *s);

/// Waits for the end, after in_process_drain().
void in_process_join(struct in_process *s);

/// Ends it, and checks that nothing is left.
void in_process_stop(struct in_process *s);

/// A connection over the Unix socket or TCP, HELLO done.
rknnd_HelloReply in_process_connect(struct in_process *s, struct peer *p);
rknnd_HelloReply in_process_connect_tcp(struct in_process *s, struct peer *p);

/// A connection over the Unix socket that has a context of `model`, any bytes for backend null.
rknnd_ContextInfo in_process_open(struct in_process *s, struct peer *p, const char *model,
                                  uint8_t ret_sha256[SHA256_SIZE]);

/// Asks for the status until `good` finds it so; fails when that does not come.
rknnd_ServerStatus in_process_wait_status(struct peer *p,
                                          bool (*good)(const rknnd_ServerStatus *status,
                                                       const void *with),
                                          const void *with);

/// Connects a client that watches, and waits until nothing of earlier clients is left: the state
/// that in_process_wait_same() can come back to.
rknnd_ServerStatus in_process_watch(struct in_process *s, struct peer *watcher);

/// Waits until everything that clients can hold is as in `before`.
void in_process_wait_same(struct peer *p, const rknnd_ServerStatus *before);
