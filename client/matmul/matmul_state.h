// What the context of a matrix product has in addition to what every context has.
#pragma once

#include "client/api/mem.h"
#include "tensor/matmul_model.h"

// A product is a model to the server (tensor/matmul_model.h). Matrices are in memory
// shared by program and server, if that can be. Else A goes with each run and C comes with it, and
// B goes with the first run after rknn_matmul_set_io_mem(), as B's scales always do; the server
// keeps them.
struct matmul {
    struct matmul_kind kind;
    uint32_t n_shapes;
    struct matmul_shape *shapes;
    struct matmul_matrix matrices[3]; // A, B, C of the current shape
    struct matmul_place {
        struct mem *mem; // the program's; NULL: not set. One reference
        uint8_t *data;
        bool shared; // the server works in it
    } memory[3];
    struct matmul_run run;
    struct bytes scales; // of B, as they are sent; malloc'ed
    struct {
        uint64_t version; // run.b_version; 0: none
        uint32_t k, n;
    } held; // the B that the server has
};

/// NULL is fine. Not with a connection's lock held.
void matmul_free(struct matmul *m);

/// B, or how it is read, is another from the next run on.
static inline void matmul_touch_b(struct matmul *m)
{
    m->run.b_version++;
}

/// Takes over scales of B (malloc'ed).
void matmul_take_scales(struct matmul *m, struct bytes scales);
