// The nodes of a model that others than the device may compute, as messages.
#pragma once

#include "protocol/message.h"
#include "tensor/custom_node.h"

// Decoded nodes; they and all they point to are one owner's.
struct custom_list {
    uint32_t n;
    struct custom_node *nodes;
};

/// The nodes as the payload of CustomListReply: malloc'ed, the caller frees. NULL: out of memory.
uint8_t *custom_list_encode(const struct custom_node *nodes, uint32_t n, size_t *ret_size);

/// Takes `n` nodes from the front of *payload and checks all that they say. *ret is given to
/// custom_list_free().
int custom_list_decode(struct bytes *payload, uint32_t n, struct custom_list **ret,
                       struct error *e);
void custom_list_free(struct custom_list *l);

/// A set of nodes as a message's bytes field (of CUSTOM_MAX_NODES / 8), without the zeros at its
/// end; and back. STATUS_PARAM_INVALID for a node that is not one of `n`.
#define custom_set_to_message(s, field) custom_set_put((s), &(field).size, (field).bytes)
#define custom_set_from_message(field, n, ret, e)                                                  \
    custom_set_take((field).size, (field).bytes, (n), (ret), (e))
void custom_set_put(const struct custom_set *s, pb_size_t *size, uint8_t *bytes);
int custom_set_take(pb_size_t size, const uint8_t *bytes, uint32_t n, struct custom_set *ret,
                    struct error *e);
