// Mutates ONNX files where they mean something: names of tensors, operators, attributes, shapes,
// types, elements; nodes and constants are left out, doubled and swapped. Bytes alone hardly ever
// give a file that can be read. ONNX_BEGINS: bytes of an input before the file, 0 or 1.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "quant_onnx.pb-c.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define MAX_EDITS 6

struct mutation {
    Quant__Graph *graph;
    uint32_t state; // of the random numbers
};

static uint32_t below(struct mutation *m, size_t n)
{
    m->state = m->state * 1664525u + 1013904223u;
    return n ? (uint32_t)(((uint64_t)(m->state >> 8) * n) >> 24) : 0;
}

static int64_t number(struct mutation *m, int64_t old)
{
    static const int64_t interesting[] = {
        0,         1,          -1,        2,         3,         4,         5,        7,
        8,         13,         16,        127,       255,       -128,      65536,    INT32_MAX,
        INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN, 1LL << 31, 1LL << 40, 1LL << 62};
    if (below(m, 2))
        return interesting[below(m, sizeof interesting / sizeof *interesting)];
    return (int64_t)((uint64_t)old + below(m, 9) - 4);
}

static float real(struct mutation *m, float old)
{
    static const float interesting[] = {0, 1, -1, 0.5F, 1e-38F, 1e38F, -1e38F, 1e-45F, 255};
    switch (below(m, 4)) {
    case 0:
        return old * 2;
    case 1:
        return __builtin_nanf("");
    default:
        return interesting[below(m, sizeof interesting / sizeof *interesting)];
    }
}

// ---- words ----

static const char *tensor_name(struct mutation *m)
{
    const Quant__Graph *g = m->graph;
    const Quant__Node *n = g->n_node ? g->node[below(m, g->n_node)] : NULL;
    switch (below(m, 4)) {
    case 0:
        return g->n_initializer ? g->initializer[below(m, g->n_initializer)]->name : "";
    case 1:
        return n && n->n_input ? n->input[below(m, n->n_input)] : "";
    case 2:
        return n && n->n_output ? n->output[below(m, n->n_output)] : "";
    default:
        return g->n_input ? g->input[below(m, g->n_input)]->name : "";
    }
}

static const char *word(struct mutation *m)
{
    static const char *const words[] = {"",
                                        "Conv",
                                        "ConvTranspose",
                                        "Gemm",
                                        "MatMul",
                                        "Relu",
                                        "Clip",
                                        "Add",
                                        "Mul",
                                        "Concat",
                                        "Split",
                                        "Reshape",
                                        "Flatten",
                                        "Transpose",
                                        "Squeeze",
                                        "Unsqueeze",
                                        "Slice",
                                        "Identity",
                                        "Dropout",
                                        "Resize",
                                        "Softmax",
                                        "LSTM",
                                        "MaxPool",
                                        "AveragePool",
                                        "Constant",
                                        "Shape",
                                        "Gather",
                                        "Cast",
                                        "ArgMax",
                                        "ReduceMean",
                                        "Pad",
                                        "LeakyRelu",
                                        "Sum",
                                        "Where",
                                        "If",
                                        "Upsample",
                                        "TopK",
                                        "InstanceNormalization",
                                        "BatchNormalization",
                                        "ConstantOfShape",
                                        "GlobalAveragePool",
                                        "DepthToSpace",
                                        "QuantizeLinear",
                                        "DequantizeLinear",
                                        "QLinearConv",
                                        "axis",
                                        "axes",
                                        "group",
                                        "transA",
                                        "transB",
                                        "alpha",
                                        "beta",
                                        "epsilon",
                                        "pads",
                                        "perm",
                                        "kernel_shape",
                                        "strides",
                                        "dilations",
                                        "auto_pad",
                                        "SAME_UPPER",
                                        "value",
                                        "min",
                                        "max",
                                        "mode",
                                        "split",
                                        "keepdims",
                                        "scales",
                                        "to",
                                        "com.microsoft"};
    return words[below(m, sizeof words / sizeof *words)];
}

static char *new_text(struct mutation *m)
{
    const char *text = below(m, 2) ? tensor_name(m) : word(m);
    return strdup(text ? text : "");
}

// ---- fields ----

static size_t element_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_INT32:
        return 4;
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 8; // int64, double, pointers
    }
}

static void edit_bytes(struct mutation *m, ProtobufCBinaryData *b)
{
    if (!b->len || !b->data)
        return;
    if (below(m, 4) == 0)
        b->len -= 1 + below(m, b->len < 8 ? b->len : 8);
    else if (below(m, 2) && b->len >= 4)
        memcpy(b->data + 4 * (size_t)below(m, b->len / 4), &(float){real(m, 3)}, 4);
    else
        b->data[below(m, b->len)] ^= (uint8_t)(1u << below(m, 8));
}

static void edit_scalar(struct mutation *m, ProtobufCType type, void *at)
{
    char *text;
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
        *(int32_t *)at = (int32_t)number(m, *(int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
        *(int64_t *)at = number(m, *(int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)at = real(m, *(float *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = (double)real(m, 2);
        break;
    case PROTOBUF_C_TYPE_STRING:
        text = new_text(m);
        free(*(char **)at);
        *(char **)at = text;
        break;
    default:
        edit_bytes(m, at);
    }
}

static void *copy_of(const ProtobufCMessage *old)
{
    size_t size = protobuf_c_message_get_packed_size(old);
    uint8_t *bytes = malloc(size + 1);
    protobuf_c_message_pack(old, bytes);
    void *copy = protobuf_c_message_unpack(old->descriptor, NULL, size, bytes);
    free(bytes);
    return copy;
}

// An element is left out, doubled, or takes another's place.
static void edit_list(struct mutation *m, const ProtobufCFieldDescriptor *f, void **list, size_t *n)
{
    size_t each = element_size(f->type), at = below(m, *n), other = below(m, *n);
    char *items = *list, kept[sizeof(ProtobufCBinaryData)];
    memcpy(kept, items + at * each, each);
    switch (below(m, 3)) {
    case 0: // swapped
        memcpy(items + at * each, items + other * each, each);
        memcpy(items + other * each, kept, each);
        return;
    case 1: // left out
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            protobuf_c_message_free_unpacked(*(ProtobufCMessage **)(void *)kept, NULL);
        else if (f->type == PROTOBUF_C_TYPE_STRING)
            free(*(char **)(void *)kept);
        else if (f->type == PROTOBUF_C_TYPE_BYTES)
            return;
        memmove(items + at * each, items + (at + 1) * each, (*n - at - 1) * each);
        --*n;
        return;
    default:
        break;
    }
    if (f->type == PROTOBUF_C_TYPE_BYTES)
        return;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        *(void **)(void *)kept = copy_of(*(ProtobufCMessage **)(void *)kept);
    else if (f->type == PROTOBUF_C_TYPE_STRING)
        *(char **)(void *)kept = new_text(m);
    *list = items = realloc(items, (*n + 1) * each);
    memmove(items + (other + 1) * each, items + other * each, (*n - other) * each);
    memcpy(items + other * each, kept, each);
    ++*n;
}

// How many values a field has.
static size_t field_count(const ProtobufCMessage *of, const ProtobufCFieldDescriptor *f)
{
    const char *base = (const char *)of;
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(const void *)(base + f->quantifier_offset);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING)
        return *(void *const *)(const void *)(base + f->offset) != NULL;
    return *(const protobuf_c_boolean *)(base + f->quantifier_offset) != 0;
}

// A field by chance: lists with many values seldom keep others from their turn.
static const ProtobufCFieldDescriptor *any_field(struct mutation *m, const ProtobufCMessage *of)
{
    const ProtobufCMessageDescriptor *d = of->descriptor;
    const ProtobufCFieldDescriptor *f = NULL;
    for (int i = 0; i < 8; i++) {
        f = &d->fields[below(m, d->n_fields)];
        if (field_count(of, f))
            break;
    }
    return f;
}

static void edit_message(struct mutation *m, ProtobufCMessage *of)
{
    for (;;) {
        const ProtobufCFieldDescriptor *f = any_field(m, of);
        char *base = (char *)of, *at = base + f->offset;
        size_t n = field_count(of, f);
        bool list = f->label == PROTOBUF_C_LABEL_REPEATED;
        if (list && n && below(m, 4) == 0) {
            edit_list(m, f, (void **)(void *)at, (size_t *)(void *)(base + f->quantifier_offset));
            return;
        }
        if (list && n)
            at = *(char **)(void *)at + below(m, n) * element_size(f->type);
        if (f->type != PROTOBUF_C_TYPE_MESSAGE) {
            if (!list && f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_BYTES)
                *(protobuf_c_boolean *)(base + f->quantifier_offset) = n == 0 || below(m, 8) > 0;
            if (n || !list)
                edit_scalar(m, f->type, at);
            return;
        }
        if (!n)
            return;
        of = *(ProtobufCMessage **)(void *)at;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct mutation m = {.state = seed * 2654435761u};
    Quant__Model *model = NULL;
    if (size <= ONNX_BEGINS || below(&m, 8) == 0 ||
        !(model = quant__model__unpack(NULL, size - ONNX_BEGINS, data + ONNX_BEGINS)) ||
        !(m.graph = model->graph)) {
        if (model)
            quant__model__free_unpacked(model, NULL);
        return LLVMFuzzerMutate(data, size, max_size);
    }
    if (ONNX_BEGINS > 0 && below(&m, 8) == 0)
        data[0] ^= (uint8_t)(1u << below(&m, 8));
    for (uint32_t i = below(&m, MAX_EDITS) + 1; i > 0; i--)
        edit_message(&m, below(&m, 16) ? &m.graph->base : &model->base);
    size_t fresh = quant__model__get_packed_size(model);
    if (fresh <= max_size - ONNX_BEGINS)
        size = ONNX_BEGINS + quant__model__pack(model, data + ONNX_BEGINS);
    quant__model__free_unpacked(model, NULL);
    return size;
}
