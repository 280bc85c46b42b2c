// A product of matrices as a model: the file that stands for it, and what a run brings beside its
// matrices.
//
// The model's inputs are A, B, the scales of B and the parameters of the run; its output is C. All
// are as large as the largest shape needs; a run brings the first bytes of them.
#pragma once

#include "base/bytes.h"
#include "tensor/matmul_types.h"

enum matmul_input { MATMUL_A, MATMUL_B, MATMUL_SCALES, MATMUL_RUN, MATMUL_INPUTS };

#define MATMUL_C 2 // beside MATMUL_A and MATMUL_B, where the matrices are meant

// The file: a magic, the kind, and the shapes, as 32-bit little-endian numbers.
struct matmul_model {
    struct matmul_kind kind;
    uint32_t n_shapes; // at least 1
    struct bytes shapes;
};

/// *ret is malloc'ed, the caller frees it.
int matmul_model_encode(const struct matmul_kind *kind, const struct matmul_shape *shapes,
                        uint32_t n_shapes, struct bytes *ret, struct error *e);

/// Whether a file is, or claims to be, one.
bool matmul_model_is(struct bytes file);

/// Reads a file, which must stay. Only its form is checked: matmul_place() does the rest.
int matmul_model_decode(struct bytes file, struct matmul_model *ret, struct error *e);
struct matmul_shape matmul_model_shape(const struct matmul_model *m, uint32_t i);

// The parameters of a run. Zero points and scales of A and C are 0 and 1 until they are set.
struct matmul_run {
    uint32_t shape;     // index
    uint64_t b_version; // not 0: B and its scales are those of the last run, if that had this
                        // number and the same K and N; then they need not come (0 bytes)
    float a_scale, c_scale;
    int32_t a_zp, c_zp;
    bool c_set; // else integers of more than 8 bits are in steps of A's scale times B's largest
};

#define MATMUL_RUN_SIZE 32

void matmul_run_encode(const struct matmul_run *run, uint8_t ret[MATMUL_RUN_SIZE]);
void matmul_run_decode(const uint8_t bytes[MATMUL_RUN_SIZE], struct matmul_run *ret);

// The scales of B: N floats, then as many zero points (int32), N being 1 (for all) or
// matmul_n_scales().
#define MATMUL_SCALE_SIZE 8 // bytes of a scale and its zero point
