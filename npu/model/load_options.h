// The load options of a model (protocol/PROTOCOL.md, Models).
#pragma once

#include "base/error.h"
#include "npu/model/pool.h"

#define LOAD_MAX_DIMS 8

// The shapes that an input may have: n_shapes times n_dims numbers.
struct load_shape {
    const char *input;
    uint32_t n_shapes, n_dims;
    const uint32_t *dims;
};

struct load_options {
    uint32_t n_shapes;
    struct load_shape *shapes;
    uint32_t n_shape_sets; // the largest of any input's; 1 if there are no shapes
};

/// Takes memory from the pool; `text` (NULL: none) need not stay. STATUS_PARAM_INVALID names the
/// line.
int load_options_parse(struct load_options *o, struct pool *pool, const char *text,
                       struct error *e);

/// The shapes of an input; NULL: nothing is said about it.
const struct load_shape *load_options_shape(const struct load_options *o, const char *input);

/// The dims of an input in the n-th shape set (n below n_shape_sets of the options).
static inline const uint32_t *load_shape_at(const struct load_shape *s, uint32_t n)
{
    return s->dims + (size_t)(s->n_shapes == 1 ? 0 : n) * s->n_dims;
}
