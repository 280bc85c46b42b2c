// Nodes that a program can compute (custom operators), as a list in a payload:
//
// CustomNode | TensorAttr per input, then output | per attribute: CustomAttribute, its bytes | ...
//
// Encoded from descriptions that the backend made; decoded from an untrusted peer, so counts are
// bounded before allocation and sizes compared with types.
#include "protocol/custom_message.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "protocol/tensor_message.h"

// ---- encoding ----------------------------------------------------------------------------------

// Counts bytes while `at` is NULL, else writes: the same code sizes and fills the list.
struct writer {
    uint8_t *at;
    const uint8_t *end;
    size_t size;
};

static void put(struct writer *w, const pb_msgdesc_t *fields, const void *message)
{
    w->size += message_delimited_size(fields, message);
    if (w->at)
        message_delimited_put(fields, message, &w->at, w->end);
}

static void put_attribute(struct writer *w, const struct custom_attribute *a)
{
    rknnd_CustomAttribute m = {
        .type = a->type, .n_elems = a->n_elems, .size = (uint32_t)a->data.size};
    message_set_text(m.name, a->name);
    put(w, rknnd_CustomAttribute_fields, &m);
    w->size += a->data.size;
    if (w->at)
        w->at = (uint8_t *)memcpy(w->at, a->data.data, a->data.size) + a->data.size;
}

static void put_node(struct writer *w, const struct custom_node *n)
{
    rknnd_CustomNode m = {.known = n->known,
                          .n_inputs = n->n_inputs,
                          .n_outputs = n->n_outputs,
                          .n_attributes = n->n_attributes};
    message_set_text(m.name, n->name);
    message_set_text(m.op, n->op);
    put(w, rknnd_CustomNode_fields, &m);
    for (uint32_t i = 0; i < n->n_inputs + n->n_outputs; i++) {
        rknnd_TensorAttr t;
        tensor_attr_to_message(&n->tensors[i], &t);
        put(w, rknnd_TensorAttr_fields, &t);
    }
    for (uint32_t i = 0; i < n->n_attributes; i++)
        put_attribute(w, &n->attributes[i]);
}

uint8_t *custom_list_encode(const struct custom_node *nodes, uint32_t n, size_t *ret_size)
{
    struct writer count = {0};
    for (uint32_t i = 0; i < n; i++)
        put_node(&count, &nodes[i]);
    uint8_t *list = malloc(count.size + 1);
    if (!list)
        return NULL;
    struct writer w = {.at = list, .end = list + count.size};
    for (uint32_t i = 0; i < n; i++)
        put_node(&w, &nodes[i]);
    *ret_size = count.size;
    return list;
}

// ---- decoding ----------------------------------------------------------------------------------

static void free_node(struct custom_node *n)
{
    for (uint32_t i = 0; n->attributes && i < n->n_attributes; i++) {
        free((char *)n->attributes[i].name);
        free((uint8_t *)n->attributes[i].data.data);
    }
    free((void *)n->attributes);
    free((void *)n->tensors);
    free((char *)n->name);
    free((char *)n->op);
}

void custom_list_free(struct custom_list *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; i < l->n; i++)
        free_node(&l->nodes[i]);
    free(l->nodes);
    free(l);
}

CLEANUP_DEFINE(struct custom_list, custom_list_free)

static int take_tensors(struct bytes *b, const struct custom_node *n, struct tensor_attr *tensors,
                        struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < n->n_inputs + n->n_outputs && r == 0; i++) {
        rknnd_TensorAttr m;
        r = message_delimited_take(rknnd_TensorAttr_fields, b, &m, e);
        if (r == 0)
            r = tensor_attr_from_message(&m, "a custom operator's tensor", &tensors[i], e);
        if (r == 0 && tensors[i].type != TENSOR_FLOAT32 && tensors[i].type != TENSOR_INT64)
            r = error_set(e, STATUS_FAIL, "a custom operator's tensor of type %u", m.type);
    }
    return r;
}

static int take_attribute(struct bytes *b, struct custom_attribute *a, struct error *e)
{
    rknnd_CustomAttribute m;
    struct bytes data;
    size_t expected;
    int r = message_delimited_take(rknnd_CustomAttribute_fields, b, &m, e);
    if (r < 0)
        return r;
    if (m.type >= TENSOR_TYPE_COUNT || !bytes_slice(*b, 0, m.size, &data) ||
        !tensor_bytes((enum tensor_type)m.type, m.n_elems, &expected) || expected != m.size)
        return error_set(e, STATUS_FAIL, "attribute with %u elements of type %u in %u bytes",
                         m.n_elems, m.type, m.size);
    *b = (struct bytes){b->data + m.size, b->size - m.size};
    text_make_printable(m.name);
    uint8_t *copy = calloc(1, data.size + 1); // texts end with a zero
    a->name = strdup(m.name);
    a->type = (enum tensor_type)m.type;
    a->n_elems = m.n_elems;
    a->data = (struct bytes){copy, data.size};
    if (!a->name || !copy)
        return error_no_memory(e, "a model's custom operators", 0);
    memcpy(copy, data.data, data.size);
    return 0;
}

// Fills *n as far as it gets: custom_list_free() takes half-built nodes. Only inputs, outputs and
// attributes within CUSTOM_MAX_* are accepted.
static int take_node(struct bytes *b, struct custom_node *n, uint32_t *attributes_left,
                     struct error *e)
{
    rknnd_CustomNode m;
    int r = message_delimited_take(rknnd_CustomNode_fields, b, &m, e);
    if (r < 0)
        return r;
    if (m.n_inputs > CUSTOM_MAX_TENSORS || m.n_outputs > CUSTOM_MAX_TENSORS - m.n_inputs ||
        m.n_attributes > CUSTOM_MAX_ATTRIBUTES || m.n_attributes > *attributes_left)
        return error_set(e, STATUS_FAIL,
                         "a custom operator with %u inputs, %u outputs and %u attributes",
                         m.n_inputs, m.n_outputs, m.n_attributes);
    *attributes_left -= m.n_attributes;
    text_make_printable(m.name);
    text_make_printable(m.op);
    struct tensor_attr *tensors = calloc(m.n_inputs + m.n_outputs + 1, sizeof *tensors);
    struct custom_attribute *attributes = calloc(m.n_attributes + 1, sizeof *attributes);
    *n = (struct custom_node){.name = strdup(m.name),
                              .op = strdup(m.op),
                              .known = m.known,
                              .n_inputs = m.n_inputs,
                              .n_outputs = m.n_outputs,
                              .n_attributes = m.n_attributes,
                              .tensors = tensors,
                              .attributes = attributes};
    if (!n->name || !n->op || !tensors || !attributes)
        return error_no_memory(e, "a model's custom operators", 0);
    r = take_tensors(b, n, tensors, e);
    for (uint32_t i = 0; i < n->n_attributes && r == 0; i++)
        r = take_attribute(b, &attributes[i], e);
    return r;
}

// Takes `n` nodes off the front of *payload.
int custom_list_decode(struct bytes *payload, uint32_t n, struct custom_list **ret, struct error *e)
{
    if (n > CUSTOM_MAX_NODES)
        return error_set(e, STATUS_FAIL, "%u custom operators, %d are possible", n,
                         CUSTOM_MAX_NODES);
    cleanup(custom_list_free_p) struct custom_list *l = calloc(1, sizeof *l);
    if (!l || !(l->nodes = calloc(n + 1, sizeof *l->nodes)))
        return error_no_memory(e, "a model's custom operators", 0);
    uint32_t attributes_left = CUSTOM_ALL_ATTRIBUTES;
    for (uint32_t i = 0; i < n; i++) {
        l->n = i + 1;
        int r = take_node(payload, &l->nodes[i], &attributes_left, e);
        if (r < 0)
            return r;
    }
    *ret = steal_ptr(l);
    return 0;
}

// ---- sets --------------------------------------------------------------------------------------

// A set of node numbers as bits, lowest first, without trailing zero bytes.
void custom_set_put(const struct custom_set *s, pb_size_t *size, uint8_t *bytes)
{
    size_t n = sizeof s->bits;
    while (n > 0 && !s->bits[n - 1])
        n--;
    memcpy(bytes, s->bits, n);
    *size = (pb_size_t)n;
}

// Refuses nodes that the model does not have; a longer list of zeros is accepted.
int custom_set_take(pb_size_t size, const uint8_t *bytes, uint32_t n, struct custom_set *ret,
                    struct error *e)
{
    struct custom_set s = {0};
    memcpy(s.bits, bytes, size < sizeof s.bits ? size : sizeof s.bits);
    for (uint32_t i = n; i < (uint32_t)size * 8 && i < CUSTOM_MAX_NODES; i++)
        if (custom_set_has(&s, i))
            return error_set(e, STATUS_PARAM_INVALID,
                             "node %u: the model has %u that a program "
                             "could compute",
                             i, n);
    *ret = s;
    return 0;
}
