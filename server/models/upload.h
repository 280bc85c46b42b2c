// Model files on their way in: chunks in order, into shared memory, hashed as they come.
#pragma once

#include "server/models/hashers.h"
#include "server/net/request.h"

struct connection;
struct model;
struct options;
struct store;
struct metrics;
struct trace;
struct user;

// What broken links leave, to be resumed: at most this many of a user's, upload_ttl_s long.
#define UPLOAD_MAX_ORPHANS 4
#define UPLOAD_MAX_OWN     4 // unfinished ones of a connection
#define UPLOAD_CHUNK_SIZE  (256u * 1024)

struct uploads {
    uv_loop_t *loop;
    const struct options *options;
    struct store *store; // where complete files go
    struct trace *trace;
    struct metrics *metrics;
    struct list all;
    uint64_t bytes;       // of all files, when complete
    uint64_t taken_bytes; // that have come of them, and of stored models on their way to memory
    unsigned n_uploads, n_orphans;
    struct hashers hashers;
};

// One upload. Its owner is the connection that sends it; others that offer the same file wait for
// the outcome, and the first of them takes over when the owner goes or stalls.
struct upload {
    struct list link;
    struct uploads *uploads;
    struct user *user;        // one reference; is charged, until nobody can find it any more
    uint64_t session;         // that has offered it
    struct connection *owner; // NULL: an orphan
    struct list waiting;      // upload_request: offers of others
    uint8_t sha256[MODEL_SHA256_SIZE];
    char name[128]; // printable
    int fd;
    uint8_t *map;
    uint64_t size, received, hashed; // bytes from the start
    uint32_t incoming;               // bytes of the chunk that is being read
    uint64_t progress_ms;            // uv_now() of the last chunk or change of owner
    struct upload_request *last;     // the chunk whose answer waits for the hash
    struct sha256 hash;
    struct hashing part;   // that is being hashed
    bool hashing, dropped; // a thread hashes, or the loop unmaps
};

void uploads_init(struct uploads *u, uv_loop_t *loop, const struct options *options,
                  struct store *store, struct trace *trace, struct metrics *metrics);

/// Drops everything; what is being hashed frees itself on the loop. After the connections.
void uploads_close(struct uploads *all);

/// The two messages of an upload, as handlers (handle.h).
int upload_offer(struct uploads *all, struct connection *c, const struct frame_header *h,
                 const rknnd_ModelOffer *m, struct error *e);
int upload_chunk(struct uploads *all, struct connection *c, const struct frame_header *h,
                 const rknnd_ModelChunk *m, struct error *e);

/// The connection holds the model, which its user knows, until it offers or finds another one, or
/// goes; NULL: none. On failure it holds what it did.
int upload_keep_model(struct connection *c, struct model *m, struct error *e);

/// Drops what nobody uses, and unfinished uploads of the user that broke off (NULL: of nobody),
/// until `size` more bytes of models fit. False: they do not.
bool uploads_make_room(struct uploads *all, const struct user *user, uint64_t size);

/// Age of orphans and of uploads that others wait for.
void uploads_sweep(struct uploads *all, uint64_t now_ms);

/// A connection has gone: its uploads become orphans, or those of whoever waits, and the model that
/// was kept for it is not any more.
void uploads_disown(struct uploads *all, struct connection *c);

// ---- what upload.c, upload_messages.c and upload_end.c know of each other
// ------------------------

// An offer that waits for another client's upload, or a last chunk that waits for the hash.
struct upload_request {
    struct request request;
    struct upload *upload;
    struct list link; // in upload->waiting; the last chunk is in no list
    struct connection *connection;
};

/// A request that is answered later. On failure NULL, and it is not begun.
struct upload_request *upload_wait(struct upload *u, struct connection *c,
                                   const struct frame_header *h, struct error *e);
void upload_answer_offer(struct upload_request *r, bool held, uint64_t offset);

/// The upload that an offer continues; NULL: there is none.
struct upload *upload_find(struct uploads *all, const struct connection *c,
                           const uint8_t sha256[MODEL_SHA256_SIZE], uint64_t size);

/// The upload that a chunk is for: the connection's own, before others that it may see.
struct upload *upload_find_own(struct uploads *all, const struct connection *c,
                               const uint8_t sha256[MODEL_SHA256_SIZE]);

/// An empty file, which is charged to the connection's user.
int upload_new(struct uploads *all, struct connection *c, const rknnd_ModelOffer *m,
               struct upload **ret, struct error *e);

/// From now on the connection is its owner.
void upload_give_to(struct upload *u, struct connection *c);

/// The words for an owner that is none any more, and their status.
int upload_taken_over(const struct upload *u, struct error *e);

/// Not to be found any more, and not counted.
void upload_forget(struct upload *u);

/// Of one that is forgotten, and that nobody waits for: freed as soon as no thread hashes it.
void upload_let_go(struct upload *u);

/// Hashes what has come; when all has, the upload ends.
void upload_hash_on(struct upload *u);
