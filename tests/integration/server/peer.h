// A client made of nothing but the protocol, for tests: blocking, and free to say anything.
#pragma once

#include <setjmp.h>

#include "base/sha256.h"
#include "protocol/message.h"

// What a test waits for at most; then it fails.
#define PEER_PATIENCE_MS 60000

struct peer {
    int fd;
    uint32_t next_id;
    bool mute;        // does not answer the server's Pings
    size_t cut_after; // with `cut`: after so many bytes sent the peer dies and jumps there
    jmp_buf *cut;
    uint8_t *sending;
    struct frame_reader reader;
};

// A frame that came. `payload` is malloc'ed, header.payload_size long.
struct peer_frame {
    struct frame_header header;
    union message_any m;
    uint8_t *payload;
};

void peer_frame_done(struct peer_frame *f);

/// Takes over a connected stream socket.
void peer_init(struct peer *p, int fd);
void peer_connect_unix(struct peer *p, const char *path);
void peer_connect_tcp(struct peer *p, uint16_t port);

/// The server's next words are a Ping, which is not answered, and it says nothing else so far.
void peer_expect_one_ping(struct peer *p);

/// A TCP socket that listens on a port that the system chooses.
int peer_listen_tcp(uint16_t *ret_port);
void peer_close(struct peer *p);

/// Sends bytes as they are. False when the server has closed.
bool peer_send_raw(struct peer *p, const void *data, size_t size);

/// Sends a request; returns its id.
uint32_t peer_send(struct peer *p, uint16_t type, const void *message, const void *payload,
                   size_t payload_size);

/// … with any header: sizes are set unless they are given (non-zero).
void peer_send_frame(struct peer *p, struct frame_header h, const pb_msgdesc_t *fields,
                     const void *message, const void *payload, size_t payload_size);

/// The next frame. Pings of the server are answered (unless mute) and not shown. False: the server
/// has closed. Fails the test when nothing comes, or something that is no frame.
bool peer_receive(struct peer *p, struct peer_frame *f);

/// Waits for the end of the connection; frames that come before are dropped.
void peer_expect_closed(struct peer *p);

/// Waits for the answer to request `id`. Returns 0 or the code of an Error, with its words in *e.
int peer_wait(struct peer *p, uint32_t id, struct peer_frame *f, struct error *e);

/// Request and answer.
int peer_call(struct peer *p, uint16_t type, const void *message, const void *payload,
              size_t payload_size, struct peer_frame *f, struct error *e);

// ---- the usual, where anything but success fails the test ---------------------------------------

rknnd_HelloReply peer_hello(struct peer *p, uint64_t session, const uint8_t *secret);
rknnd_ServerStatus peer_status(struct peer *p);

/// Offers, sends in chunks of `chunk` bytes, and has it complete.
void peer_upload(struct peer *p, const void *model, size_t size, size_t chunk,
                 uint8_t ret_sha256[SHA256_SIZE]);
rknnd_ContextInfo peer_open(struct peer *p, const uint8_t sha256[SHA256_SIZE], uint32_t flags);

/// One input, converted form. Returns the id.
uint32_t peer_send_infer(struct peer *p, uint64_t context, const void *input, size_t size);
