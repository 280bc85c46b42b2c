// Moves that choose, along each dimension for itself, which of the input's lines become the
// output's: Gather, Pad by what is there, Tile. Elements are moved as they are stored, whatever
// they mean.
//
//   y[i0, i1, …] = x[from0[i0], from1[i1], …]
#pragma once

#include "npu/sim/ref/ref.h"

/// Whether elements are stored in the same way in both, as far as types say; not those of truth
/// values, which may be any byte. NULL: no.
bool ref_bytes_alike(const struct graph_tensor *x, const struct graph_tensor *y);

/// The same, and whether these bytes stand for the same numbers.
bool ref_bytes_same(const struct graph_tensor *x, const struct graph_tensor *y);

/// Whether a step is such a move, between tensors that are stored alike.
bool ref_bytes_fits(const struct step *s);

/// Bytes of scratch memory that ref_bytes_move() needs.
uint64_t ref_bytes_scratch(const struct graph_tensor *y);

/// c: only the numbers of input 1 are read (a Gather's indices).
int ref_bytes_move(const struct ref_call *c, const uint8_t *from, uint8_t *to, void *scratch,
                   struct error *e);
