// A crowd of clients in one thread that say right things in wrong orders: what they know of the
// server, and what they are owed. Each of the files that include this one has a part of it: link.c
// bytes, say.c what to say, by_name.c the same of models by name, take.c answers, stateful.c the
// whole.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/message.h"

#define N_FILES     4
#define N_CLIENTS   6
#define N_REQUESTS  24 // unanswered ones of a client, below the server's limit of 64
#define N_CONTEXTS  24
#define N_MEMORIES  24
#define BOUND_BITS  (1u << 20)
#define MAX_ANSWERS 128

// A model's file, and what is known of it.
struct file {
    uint8_t *data;
    size_t size, node_size; // bytes; node_size: of a custom operator's outputs, 0: it has none
    uint8_t sha256[MODEL_SHA256_SIZE];
    uint8_t *input, *expected; // NULL: not known yet
    size_t input_size, expected_size;
};

struct context {
    uint64_t handle;
    struct file *file;
};

// Unanswered.
struct request {
    uint32_t id;
    uint16_t type; // 0: none
    struct context context;
    bool plain;   // its result is known
    bool spoilt;  // the server may have understood something else
    bool guessed; // something was said about it before it had come to that
    bool has_part, has_call;
    uint64_t part; // bytes that the part which is out wants back; of a pull where it begins
    uint32_t call; // number of the call that waits
};

struct client {
    int fd; // -1: none
    struct frame_queue out;
    struct frame_reader reader;
    uint8_t *payload; // of the frame that is being read
    size_t held_back; // bytes at the end of `out` that are not sent yet
    struct request requests[N_REQUESTS];
    struct context contexts[N_CONTEXTS], gone[N_CONTEXTS];
    unsigned n_contexts, n_gone;
    struct file *found; // under a name, last
    uint64_t memories[N_MEMORIES];
    unsigned n_memories;
    uint32_t id, old_id;
    uint64_t session; // 0: not told yet
    uint8_t secret[HELLO_SECRET_SIZE];
    uint64_t asked; // session that it wants to join
    bool may_end;   // the server may close the connection: something was said for which it may
    bool leaving;
};

struct world {
    const char *path; // of the server's socket
    uint64_t random;
    uint32_t log_level; // that the server has
    struct file files[N_FILES];
    unsigned n_files;
    struct client clients[N_CLIENTS];
    uint8_t bound[BOUND_BITS / 8]; // by session and handle: it may have been bound to memory
    uint64_t said, answers[MAX_ANSWERS], errors[MAX_ANSWERS];
};

extern struct world world;

/// Ends the program with words: the server has done what it may not.
_Noreturn void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- chance -------------------------------------------------------------------------------------

/// Below n.
uint32_t below(uint32_t n);
/// True in so many of 1000.
bool chance(uint32_t of_1000);

// ---- link.c -------------------------------------------------------------------------------------

void client_connect(struct client *c);
void client_close(struct client *c);
/// Takes the frame over.
void client_push(struct client *c, struct frame_out *f);
void client_flush(struct client *c);
/// Takes what has come.
void client_receive(struct client *c);

// ---- say.c --------------------------------------------------------------------------------------

void client_hello(struct client *c, const struct client *same_session);
/// Says something, chosen by chance.
void client_act(struct client *c);
/// Answers what waits for it, as it should.
void client_conclude(struct client *c);
void client_offer(struct client *c, struct file *f);
void client_chunk(struct client *c, struct file *f, size_t begin);
void client_open(struct client *c, struct file *f);
void client_infer(struct client *c, const struct context *x, bool plainly);
/// A request without fields that may always be made: its answer proves that the server serves.
void client_ask_status(struct client *c);
/// A request about a file; NULL: about none.
struct request *client_ask(struct client *c, uint16_t type, const void *message,
                           const void *payload, size_t size, struct file *f);
bool is_bound(uint64_t session, uint64_t handle);

// ---- by_name.c ----------------------------------------------------------------------------------

void client_say_stored(struct client *c);
/// An answer to what that one said.
void client_take_stored(struct client *c, const struct request *r, const union message_any *m,
                        struct bytes payload);

// ---- take.c -------------------------------------------------------------------------------------

struct request *request_find(struct client *c, uint32_t id);
unsigned client_unanswered(const struct client *c);
/// A whole frame.
void client_take(struct client *c, const struct frame_header *h, struct bytes message,
                 struct bytes payload);
