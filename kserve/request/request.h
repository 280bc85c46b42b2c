// An inference request as it comes: JSON, or JSON and behind it tensors as bytes. What is refused
// is told in words; what is taken agrees with itself, and has yet to be held against a model.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "kserve/memory.h"
#include "kserve/request/datatype.h"

#define REQUEST_MAX_TENSORS 64
#define REQUEST_MAX_DIMS    16
#define REQUEST_MAX_NAME    256
#define REQUEST_MAX_CLASSES 65536
#define REQUEST_NO_HEADER   (-1) // there was no Inference-Header-Content-Length

struct request_input {
    char name[REQUEST_MAX_NAME];
    const struct datatype *type; // NULL: raw bytes of a model's only input
    uint64_t shape[REQUEST_MAX_DIMS];
    unsigned n_dims;
    uint64_t n_elems;
    const uint8_t *data; // n_elems, packed; in the body, or `made`
    uint64_t size;       // bytes
    uint8_t *made;
    uint64_t taken;      // of the share, for `made`
    int64_t binary_size; // -1: not given
    unsigned given;      // which members have come
};

struct request_output {
    char name[REQUEST_MAX_NAME];
    uint32_t classes; // that are asked for instead of the tensor, the largest first; 0: none
    bool binary, has_binary;
};

struct request {
    char id[REQUEST_MAX_NAME]; // ""
    bool has_id;
    char model[REQUEST_MAX_NAME],
        version[REQUEST_MAX_NAME]; // "": not said again beside the address
    struct request_input inputs[REQUEST_MAX_TENSORS];
    unsigned n_inputs;
    struct request_output outputs[REQUEST_MAX_TENSORS]; // 0: all
    unsigned n_outputs;
    uint64_t timeout_us;        // that it waits at most; 0: as long as it takes
    bool wants_binary;          // of outputs that do not say
    bool raw;                   // the body is the only input's bytes
    struct memory_share *share; // that inputs in JSON are paid from; who parses sets it
};
