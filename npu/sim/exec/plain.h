// Whole tensors as floats in the order of their dimensions, whatever type and layout they are
// stored in: for operators that are rare, or awkward in the stored order. The floats are in scratch
// memory unless the tensor is stored so, so an operator that uses this is the simplest to write and
// not the fastest.
#pragma once

#include "npu/sim/exec/copy.h"

struct plain {
    struct copy copy;
    uint64_t at; // in scratch memory
    float *constant;
    uint32_t index; // of the step's inputs or outputs
    bool there;     // the tensor is such floats itself
};

/// Reserves scratch memory for the step's input (a constant is converted now) or output.
int plain_input(struct step *s, uint32_t i, struct plain *p, struct error *e);
int plain_output(struct step *s, uint32_t i, struct plain *p, struct error *e);

/// If input 0 and output 0 have the same shape and storage order: copies them in that order
/// instead, which is much faster than transposing twice. False: nothing is changed.
bool plain_as_they_lie(const struct step *s, struct plain *in, struct plain *out);

/// The values of an input.
const float *plain_load(const struct step *s, const struct run *r, const struct plain *p);

/// Where an output's values are to be put; plain_store() then writes them to the tensor, unless
/// this is the tensor.
float *plain_values(const struct step *s, const struct run *r, const struct plain *p);
void plain_store(const struct step *s, const struct run *r, const struct plain *p);
