// Custom operators: sizes and places.
#include "tensor/custom_node.h"

#include "base/bytes.h"

// At max CUSTOM_MAX_TENSORS sizes of 32 bits: nothing here overflows.

static uint64_t custom_sum_sizes(const struct tensor_attr *tensors, uint32_t n)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += tensors[i].size;
    return total;
}

uint64_t custom_input_size(const struct custom_node *n)
{
    return custom_sum_sizes(n->tensors, n->n_inputs);
}

uint64_t custom_output_size(const struct custom_node *n)
{
    return custom_sum_sizes(n->tensors + n->n_inputs, n->n_outputs);
}

static void custom_place_tensors(const struct tensor_attr *tensors, uint32_t n, uint8_t *at,
                                 void **ret)
{
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = at;
        at += align_up(tensors[i].size, CUSTOM_ALIGNMENT);
    }
}

void custom_place(const struct custom_node *n, uint8_t *inputs, uint8_t *outputs, void **tensors)
{
    custom_place_tensors(n->tensors, n->n_inputs, inputs, tensors);
    custom_place_tensors(n->tensors + n->n_inputs, n->n_outputs, outputs, tensors + n->n_inputs);
}

static uint64_t custom_room(const struct tensor_attr *tensors, uint32_t n)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += align_up(tensors[i].size, CUSTOM_ALIGNMENT);
    return total;
}

uint64_t custom_input_room(const struct custom_node *nodes, const struct custom_set *s)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < CUSTOM_MAX_NODES; i++) {
        uint64_t size = custom_set_has(s, i) ? custom_room(nodes[i].tensors, nodes[i].n_inputs) : 0;
        max = size > max ? size : max;
    }
    return max;
}

uint64_t custom_output_room(const struct custom_node *nodes, const struct custom_set *s)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < CUSTOM_MAX_NODES; i++) {
        const struct custom_node *n = custom_set_has(s, i) ? &nodes[i] : NULL;
        uint64_t size = n ? custom_room(n->tensors + n->n_inputs, n->n_outputs) : 0;
        max = size > max ? size : max;
    }
    return max;
}
