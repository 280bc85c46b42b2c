// Custom operators: nodes of a model that a program or a plugin may compute in the device's place.
#pragma once

#include "base/bytes.h"
#include "tensor/tensor.h"

#define CUSTOM_MAX_NODES      1024  // of a model
#define CUSTOM_MAX_TENSORS    64    // inputs and outputs of a node
#define CUSTOM_MAX_ATTRIBUTES 256   // of a node
#define CUSTOM_ALL_ATTRIBUTES 16384 // of a model
#define CUSTOM_ALIGNMENT      64

// An attribute of a node, as rknn_custom_op_get_op_attr() gives it.
struct custom_attribute {
    const char *name;
    enum tensor_type
        type;         // integers INT64, reals FLOAT32, texts UINT8 (each with a zero behind it)
    uint32_t n_elems; // of a text: its bytes
    struct bytes data;
};

// A node that others than the device may compute. Tensors are exchanged as FLOAT32, or INT64 where
// the model says so, packed, in the file's own dimensions (NCHW when there are 4); quantization is
// that of the model's tensor, for information.
struct custom_node {
    const char *name, *op; // "cstSoftmax:node_7", "cstSoftmax"
    bool known;            // the device could compute it, too
    uint32_t n_inputs, n_outputs, n_attributes;
    const struct tensor_attr *tensors; // inputs, then outputs
    const struct custom_attribute *attributes;
};

// Some of a model's nodes: bit i % 8 of byte i / 8 stands for node i.
struct custom_set {
    uint8_t bits[CUSTOM_MAX_NODES / 8];
};

static inline bool custom_set_has(const struct custom_set *s, uint32_t node)
{
    return node < CUSTOM_MAX_NODES && s->bits[node / 8] >> (node % 8) & 1;
}

static inline void custom_set_add(struct custom_set *s, uint32_t node)
{
    s->bits[node / 8] |= (uint8_t)(1u << (node % 8));
}

/// Bytes of the inputs (or outputs) of a node, one directly after the other.
uint64_t custom_input_size(const struct custom_node *n);
uint64_t custom_output_size(const struct custom_node *n);

/// Where the tensors of a node lie when its inputs begin at `inputs` and its outputs at `outputs`:
/// one after the other at multiples of CUSTOM_ALIGNMENT. Fills n_inputs + n_outputs pointers.
void custom_place(const struct custom_node *n, uint8_t *inputs, uint8_t *outputs, void **tensors);

/// Room that inputs (outputs) placed in this way take for any node of the set.
uint64_t custom_input_room(const struct custom_node *nodes, const struct custom_set *s);
uint64_t custom_output_room(const struct custom_node *nodes, const struct custom_set *s);
