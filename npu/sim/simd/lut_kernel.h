// Sums of an integer convolution to int8 by the chip's lookup table.
//
//   v      = round(factor[c] * (sum + bias[c]))      each to nearest, ties to even
//   w      = round(bn * v)
//   stored = lut_stored(w)                           integers
//
// Floats do that exactly: a fused multiply-add rounds once, and a float near LUT_ROUNDER has units
// of 1. The second one takes LUT_ROUNDER off what the first one leaves: v + LUT_ROUNDER, times bn,
// and LUT_ROUNDER * (1 - bn) more is bn * v + LUT_ROUNDER. Where a float would not hold what must
// be exact, and it matters, doubles are taken.
#pragma once

#include "npu/sim/simd/lut.h"

#define LUT_LANES 16        // of a vector
#define LUT_MORE  64        // elements of bias and factor that are there once more
#define LUT_MAX_V (1 << 22) // bounds of v are no farther
#define LUT_ROUNDER                                                                                \
    12582912.0f // 1.5 * 2^23: added to a float of at most 2^22, its nearest integer is
                // in the lowest bits

// A table, prepared.
struct lut_kernel {
    const struct graph_lut *lut;
    int32_t bounds[2];      // that w is clamped to
    float bn, to_table;     // LUT_ROUNDER * (1 - bn)
    bool in_doubles;        // floats would not be exact
    const int8_t *dense;    // NULL: there are segments
    int32_t first, n_dense; // number of the first element of `dense`, and how many
    double of_v; // 0; or elements are numbers v, which become this bn times as many: then bn is 1
    const struct lut_steps *steps;       // NULL: there is no AVX512-VBMI, or they do not serve
    const struct lut_segments *segments; // … or lut_sums_lines(), nor do these
};

struct lut_job {
    const struct lut_kernel *kernel;
    const int32_t *sums; // [pixel][channel]; LUT_LANES more can be read
    const int32_t *bias; // [channels + LUT_MORE], the first ones once more at the end
    const float *factor; // likewise
    size_t channels, n;  // n: sums
    int8_t *dst;
    bool complete; // all biases are 0, and lut_fits_float()
};

/// Which numbers a dense table should have: all within the bounds, which become as narrow as they
/// can, where these are no more than are worth it, else those of the chip's tables. Where inputs
/// are set, and v are fewer than what they become, these. `dense`: all of [-LUT_REACH, LUT_REACH).
/// Sets first and n_dense, for lut_fill().
void lut_choose_dense(struct lut_kernel *k, const int8_t dense[LUT_N_DENSE]);

/// What these numbers become.
void lut_fill(const struct lut_kernel *k, const int8_t dense[LUT_N_DENSE], int8_t *to);

/// Sets what leads into the table, whose bounds are known. `max_sum`: no sum with its bias is
/// larger.
void lut_set_inputs(struct lut_kernel *k, double bn, const float *factor, size_t channels,
                    double max_sum);

/// Whether no w is beyond 2^23, for the same sums.
bool lut_fits_float(const struct lut_kernel *k, const float *factor, size_t channels,
                    double max_sum);

/// Computes a job with the best kernel; on any CPU with the dense table; in doubles.
void lut_sums(const struct lut_job *job);
void lut_sums_any(const struct lut_job *job);
void lut_sums_exact(const struct lut_job *job);

/// Whether floats give what lies beyond the tables, as lut_sums_lines() has it.
bool lut_fits_lines(const struct graph_lut *lut, const int32_t bounds[2]);

/// By segments and by steps (lut_steps/), with AVX512-VBMI or NEON.
void lut_sums_lines(const struct lut_job *job);
void lut_sums_steps(const struct lut_job *job);
bool lut_has_vbmi(void);
bool lut_has_lines(void);
bool lut_has_steps(void);
