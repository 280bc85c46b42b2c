// An input of a context in memory that its daemon has mapped, too: what is large is copied there
// once, instead of through a buffer of the library's and a socket.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rknn_api.h"

// All zero: none yet.
struct shared_input {
    rknn_tensor_mem *memory;
    bool is_bound, is_refused;
    rknn_tensor_type type; // what follows says as what
    rknn_tensor_format format;
    unsigned set;
};

// What an input of the next run is like; rows are dense.
struct input_form {
    const rknn_tensor_attr *attr; // as the library describes it
    unsigned set;                 // the shapes that are chosen
    uint32_t size;                // bytes
    rknn_tensor_type type;
    rknn_tensor_format format;
};

/// Where it is to be written; then shared_input_written(). NULL: the daemon does not take it from
/// memory, so rknn_inputs_set() is for it. A form that differs from the last one costs requests.
uint8_t *shared_input_place(struct shared_input *in, rknn_context context,
                            const struct input_form *form);

/// Makes it visible to devices. A code of rknn_api.h.
int shared_input_written(const struct shared_input *in, rknn_context context);

/// Before the context ends.
void shared_input_free(struct shared_input *in, rknn_context context);
