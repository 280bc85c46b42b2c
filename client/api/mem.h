// Memory that programs share with the NPU: rknn_create_mem and what belongs to it.
//
// A memory is one file that the program has mapped. Where file descriptors can pass (Unix sockets),
// the server has the same file, and nothing is ever copied. Elsewhere the server has a copy, and
// what the program has changed goes with each run (mem_copy.h), as do the results, the other way.
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"
#include "client/api/context.h"

// What one session of a server knows of a memory. All but the first run of fields is of copies.
struct mem_home {
    struct list link; // in the memory
    uint64_t session;
    uint8_t secret[HELLO_SECRET_SIZE];
    uint64_t handle;
    uint64_t offset; // of the data in the server's memory
    bool shared;     // it is the same file
    uint8_t *shadow; // what the server has, as far as that is known; NULL: made when it is needed
    uint64_t unsure; // so many bytes from the start may differ from the shadow
    rknn_context writer; // whose runs have sent changes last; 0: nobody's
};

struct mem {
    rknn_tensor_mem program; // first: what the program has
    struct list link;        // in the table of all
    unsigned refs;           // one of the program, one for each tensor bound to it
    uint32_t size;           // as it was made
    pthread_mutex_t lock;    // of what follows; taken inside a connection's
    int fd;
    bool dmabuf;     // else it is an ordinary file, coherent for all
    uint64_t offset; // of the data in the file
    uint8_t *map;    // of the file, from its start, made here; NULL: not mapped here
    size_t map_size;
    struct list homes;
};

/// The memory behind a program's pointer, referenced; NULL, with words, if it is none, or if the
/// program has changed its offset or made it larger.
struct mem *mem_take(const rknn_tensor_mem *program, struct error *e);

/// Gives a reference back; the last one frees the memory, here and on the servers. Not with a
/// connection's lock held. NULL is fine.
void mem_put(struct mem *m);

CLEANUP_DEFINE(struct mem, mem_put)

/// What the context's session knows of the memory; makes it known if need be. The home stays as
/// long as the memory. With the context's lock held.
int mem_home(struct context *c, struct mem *m, struct mem_home **ret, struct error *e);

/// The home of a memory whose very file the server has, or can have; NULL: it cannot. As
/// mem_home().
int mem_share(struct context *c, struct mem *m, struct mem_home **ret, struct error *e);

/// Has the server put an input or output of later runs, in the form that attr says, into a memory
/// (NULL: none any more). *ret_size: bytes that a run uses there. With the context's lock held.
int mem_place(struct context *c, const rknn_tensor_attr *attr, bool output,
              const struct mem_home *home, uint64_t *ret_size, struct error *e);

/// The input comes by rknn_inputs_set from now on. With the context's lock held; the memory that
/// was bound is *ret, to be put without.
int mem_unbind_input(struct context *c, uint32_t index, struct mem **ret, struct error *e);

/// Where the data are in this process, mapped if need be. With m->lock held.
int mem_data(struct mem *m, uint8_t **ret, struct error *e);

/// What CPUs have written is there for devices: after a copy came, for one.
int mem_to_device(const struct mem *m, struct error *e);

/// What devices have written is there for CPUs; what CPUs have written, without the above, may be
/// lost.
int mem_from_device(const struct mem *m, struct error *e);

/// Both, in this order: before a copy is sent.
int mem_before_copy(const struct mem *m, struct error *e);

/// Input or output `i`, when it is in memory of which the server has a copy; else NULL.
struct bound *mem_bound_copy(const struct context *c, bool output, uint32_t i);

void mem_before_fork(void);
void mem_after_fork(bool child);
