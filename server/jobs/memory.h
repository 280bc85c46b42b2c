// Memory that programs share with the NPU: what rknn_create_mem() and its relatives make.
//
// A memory is one file that nobody can shrink under those who have it mapped: a dma-buf, or a
// sealed memfd. Handles belong to sessions; importing the same file again, with the same
// rights, gives another handle of the same memory. It lives as long as a handle, a binding or a job
// has it. Loop thread only.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/list.h"
#include "npu/buffer/buffer.h"
#include "server/scheduler/scheduler.h"

struct session;
struct user;

// All that a daemon has.
struct memories {
    struct list all;
    struct npu_buffers buffers; // where new ones come from; the server opens it
    uint32_t last_id;
    uint64_t bytes;
    struct givebacks *givebacks; // what has ended goes there; NULL: nobody cares how long it takes
};

// A worker that knows the memory. Owned by the worker's side, which takes it out of the lists.
struct memory_user {
    struct list in_memory, in_owner;
    struct memory *memory;
    bool writes; // it may write there
    const void *owner;
    void (*gone)(struct memory_user *u); // the memory is about to go; frees the user
};

struct memory {
    struct list link;
    struct memories *memories;
    unsigned refs;
    unsigned n_handles;
    struct user *payer; // while it has no handle: whose the last one was; NULL: nobody's
    uint32_t id;        // for workers; never used twice
    struct npu_buffer buffer;
    dev_t device; // which file it is
    ino_t inode;
    bool dmabuf;    // CPUs access it between dmabuf_begin() and dmabuf_end()
    bool read_only; // its owner lets nobody write
    struct list users;
    // Runs whose intermediate results are here happen one after the other, whatever their context.
    struct scheduler_queue queue;
    struct session *queue_session; // whose queue it is; NULL: nobody's yet
};

void memories_init(struct memories *all);

/// The memory of a buffer (taken over, also on failure), with one reference.
int memory_adopt(struct memories *all, struct npu_buffer *b, struct memory **ret, struct error *e);

// A file that came from a client, mapped.
struct memory_file {
    struct npu_buffer buffer;
    dev_t device;
    ino_t inode;
    bool dmabuf, read_only; // as struct memory's
};

/// Maps a file that came from a client (taken over, also on failure): a dma-buf that can be mapped,
/// or a memfd. A memfd that its owner could shrink, or forbid to write later, is sealed; one that
/// can shrink and cannot be sealed, and any other file, is STATUS_PARAM_INVALID. From any thread;
/// takes as long as the client likes, which may be for ever: not for the loop.
int memory_map(int fd, struct memory_file *ret, struct error *e);

/// The memory of a mapped file (taken over, also on failure), with one reference; a file that is
/// known already gives the same memory, whoever brought it.
int memory_import(struct memories *all, struct memory_file *f, struct memory **ret,
                  struct error *e);

struct memory *memory_ref(struct memory *m);
void memory_unref(struct memory *m); // NULL: nothing

// The memories of a session. Embedded in it.
struct memory_table {
    struct memory_slot {
        struct memory *memory; // NULL: free
        uint64_t handle;
    } * slots;
    struct user *user; // whose they are; outlives it. NULL: nobody pays
    uint32_t n_slots, n_memories, generation;
    uint64_t bytes;      // each handle counts
    uint32_t n_reserved; // memories that are being made, and their bytes
    uint64_t reserved;
};

void memory_table_done(struct memory_table *t); // frees all handles

/// Gives `m` a handle, which takes a reference.
int memory_table_add(struct memory_table *t, struct memory *m, uint64_t *ret_handle,
                     struct error *e);

/// The memory of a handle; NULL, with an error, if there is none.
struct memory *memory_table_find(const struct memory_table *t, uint64_t handle, struct error *e);

/// Ends a handle. STATUS_PARAM_INVALID if there is none.
int memory_table_free(struct memory_table *t, uint64_t handle, struct error *e);
