// What looks at values with AVX512. Without it these are not called.
#pragma once

#include "npu/sim/ops/observe/observe_marks.h"
#include "tensor/observe/sampling.h"

/// Bounds of n values whose channels do not matter. False, as of all these: some are not finite.
bool observe_flat_avx512(const float *v, uint64_t n, struct observe_bounds *b);

/// The same of values from v[from] to v[end], in parts.
bool observe_flat_parts_avx512(const float *v, uint64_t from, uint64_t end,
                               struct observe_marks *m);

/// Bounds, and sums of each lane, of at most 64 rows of n lanes, whole vectors. False, too, where
/// sums of floats are not finite.
bool observe_rows_avx512(const float *v, uint64_t rows, uint32_t n, double *sums,
                         struct observe_bounds *b);

/// The same of rows from v[from] on, in parts.
bool observe_rows_parts_avx512(const float *v, uint64_t from, uint64_t rows, uint32_t n,
                               double *sums, struct observe_marks *m);

/// Bounds and sum of n values of one channel.
bool observe_plane_avx512(const float *v, uint64_t n, double *ret, struct observe_bounds *b);

/// Values that lie in a tail.
void observe_tails_avx512(struct sampling_tails *t, const float *v, uint64_t n);
