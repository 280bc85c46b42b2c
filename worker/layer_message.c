// Layers as messages: a profile's list, each message preceded by its length.
#include "worker/layer_message.h"

#include <assert.h>
#include <stdlib.h>

// The message's texts are of fixed size; longer names are cut.
static void layer_to_message(const struct npu_layer *l, rknnd_Layer *ret)
{
    *ret = (rknnd_Layer){
        .time_us = l->time_us,
        .estimate_ns = l->estimate_ns,
        .ddr_cycles = l->ddr_cycles,
        .npu_cycles = l->npu_cycles,
        .total_cycles = l->total_cycles,
        .macs = l->macs,
        .read_bytes = l->read_bytes,
        .write_bytes = l->write_bytes,
        .core_mask = l->core_mask,
        .mac_cycles = l->mac_cycles,
        .n_tasks = l->n_tasks,
        .core_work_count = NPU_MAX_CORES,
    };
    for (uint32_t i = 0; i < NPU_MAX_CORES; i++)
        ret->core_work[i] = l->core_work[i];
    message_set_text(ret->name, l->name);
    message_set_text(ret->op, l->op);
    message_set_text(ret->type, l->type);
    message_set_text(ret->target, l->target);
    message_set_text(ret->input_shapes, l->input_shapes);
    message_set_text(ret->output_shapes, l->output_shapes);
}

// Encodes in two passes, sizes first, so that one allocation of the exact size suffices. An empty
// list is still a valid pointer: NULL means out of memory.
uint8_t *layer_list_encode(const struct npu_layer *layers, size_t n, size_t *ret_size)
{
    rknnd_Layer m;
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        layer_to_message(&layers[i], &m);
        size += message_delimited_size(rknnd_Layer_fields, &m);
    }
    uint8_t *list = malloc(size ? size : 1), *at = list;
    if (!list)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        layer_to_message(&layers[i], &m);
        bool fits = message_delimited_put(rknnd_Layer_fields, &m, &at, list + size);
        assert(fits);
        (void)fits;
    }
    *ret_size = size;
    return list;
}
