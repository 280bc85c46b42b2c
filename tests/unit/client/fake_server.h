// A server in a thread, for tests of the client library: speaks the protocol well by default and
// badly on request.
//
// Its model has two inputs, "image" (INT8 1x2x2x3 NHWC, scale 0.5, zero point 10) and "vector"
// (FP16 4), and two outputs, "bytes" (INT8 1x3x2x2 NCHW, scale 0.5, zero point 10) and "halves"
// (FP16 4). A run answers with the first 12 bytes that came for the image and the last 8 that came
// for the vector, so a test sees what went over the wire.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "protocol/message.h"

#define FAKE_IMAGE_SIZE  12
#define FAKE_VECTOR_SIZE 8
#define FAKE_CHUNK_SIZE  1000

struct fake_peer; // one connection

enum fake_answer {
    FAKE_DEFAULT, // do what a good server does
    FAKE_DONE,    // the hook has dealt with it
    FAKE_HANG_UP, // close the connection
};

struct fake_server {
    // Set before or while it runs; read by its threads.
    enum fake_answer (*_Atomic hook)(struct fake_peer *p, const struct frame_header *h,
                                     const union message_any *m);
    void *owner;
    uint32_t heartbeat_ms, peer_timeout_ms, requests;
    uint32_t batch;   // of its models; 0: 1
    uint32_t n_cores; // 0: 3
    uint32_t length;  // of the vector, elements; 0: 4
    bool software;    // a software NPU of no chosen chip: estimates of 1500.4 us and 0.3 us
    // What it has seen.
    atomic_uint n_connections, n_open, n_sessions, n_contexts, n_runs, n_pings, n_pongs, n_goodbyes;
    atomic_ulong n_chunk_bytes;
    rknnd_Infer last_infer; // under lock
    char last_model_name[128];

    char uri[128];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    // Private:
    char folder[64];
    int listener;
    pthread_t acceptor;
    struct list peers;
    uint64_t session;
    uint64_t next_context;
    uint8_t *model; // the upload, complete or not
    size_t model_size, model_received;
    bool model_complete;
};

struct fake_peer {
    struct fake_server *server;
    struct list link;
    int fd;
    pthread_mutex_t write_lock;
    uint64_t session;
    uint64_t context;
    uint8_t *payload; // of the current request
};

void fake_server_init(struct fake_server *s); // defaults, not running
void fake_server_start(struct fake_server *s);

/// Both; the URI.
const char *fake_server_begin(struct fake_server *s);

/// Hangs up on everybody and waits until that is done.
void fake_server_stop(struct fake_server *s);

/// Cuts all connections that are open now.
void fake_cut(struct fake_server *s);

/// Serves one connection in the calling thread until it closes. Takes fd.
void fake_serve(struct fake_server *s, int fd);

/// Frames out. False when the peer is gone.
bool fake_send(struct fake_peer *p, uint16_t type, uint8_t flags, uint32_t id,
               const pb_msgdesc_t *fields, const void *message, const void *payload, size_t size);
bool fake_send_raw(struct fake_peer *p, const void *bytes, size_t size);
void fake_fail(struct fake_peer *p, const struct frame_header *h, int code, const char *words);

/// The good answer to a request.
void fake_answer(struct fake_peer *p, const struct frame_header *h, const union message_any *m);

/// Waits until *counter is at least n; fails the test after 20 s.
void fake_wait(struct fake_server *s, atomic_uint *counter, unsigned n);
