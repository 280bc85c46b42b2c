// Mutates .rknn files where they mean something: shapes, types, scales, edges, names of operators,
// attributes, constants, register commands. Lengths stay, so that what follows is still found.
#include <stdlib.h>

#include "npu/model/rknn/rknn_file.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define MAX_EDITS 4

// The slots that hold what (rknn_file_open.c, rknn_tables.c); the lite container has others.
struct slots {
    uint8_t scalars[8], n_scalars; // of a tensor
    uint8_t vectors[4];            // native shape, shape, scales, zero points
};
static const struct slots slots[] = {
    [RKNN_PLAIN] = {{0, 1, 2, 12, 13, 18, 20}, 7, {3, 4, 10, 11}},
    [RKNN_LITE] = {{0, 1, 2, 8, 9}, 5, {3, 4, 6, 7}},
};

struct mutation {
    struct rknn_file file;
    struct fb_list tensors, nodes;
    uint32_t state; // of the random numbers
};

static uint32_t below(struct mutation *m, uint32_t n)
{
    m->state = m->state * 1664525u + 1013904223u;
    return n ? (uint32_t)(((uint64_t)(m->state >> 8) * n) >> 24) : 0;
}

static uint32_t number(struct mutation *m, uint32_t old)
{
    static const uint32_t interesting[] = {
        0,       1,          2,          3,          4,          8,          16,
        32,      127,        128,        255,        0xffffffff, 0x7fffffff, 0x80000000,
        0x10000, 0xffffff80, 0x3f800000, 0x7f800000, 0x7fc00000, 0x00000001, 0x7f7fffff};
    switch (below(m, 4)) {
    case 0:
        return interesting[below(m, sizeof interesting / sizeof *interesting)];
    case 1:
        return old + below(m, 9) - 4;
    case 2:
        return old ^ 1u << below(m, 32);
    default:
        return old * 2;
    }
}

// The flatbuffer is the fuzzer's own copy, read through const.
static uint8_t *writable(const uint8_t *p)
{
    return (uint8_t *)(uintptr_t)p;
}

static void edit_number(struct mutation *m, struct bytes b)
{
    if (b.size < 4)
        return;
    uint8_t *p = writable(b.data) + 4 * (size_t)below(m, (uint32_t)(b.size / 4));
    write_le32(p, number(m, read_le32(p)));
}

static struct fb_table any(struct mutation *m, const struct fb_list *list)
{
    return fb_list_get(list, below(m, list->n));
}

// ---- the edits ----

static void edit_scalar(struct mutation *m)
{
    const struct slots *s = &slots[m->file.container.kind];
    struct fb_table t = any(m, &m->tensors);
    unsigned slot = s->scalars[below(m, s->n_scalars)];
    if (!fb_has(&t, slot))
        return;
    uint8_t *base = writable(t.fb->all.data);
    uint8_t *p = base + t.at + read_le16(base + t.vtable + 4 + 2 * slot);
    if (slot < 3)
        *p = (uint8_t)below(m, slot == 1 ? 80 : 14);
    else if (p + 4 <= base + t.fb->all.size)
        write_le32(p, number(m, read_le32(p)));
}

static void edit_vector(struct mutation *m)
{
    struct fb_table t = any(m, &m->tensors);
    edit_number(m, fb_vector(&t, slots[m->file.container.kind].vectors[below(m, 4)], 4));
}

// One number of a shape becomes another one in all shapes: the network still fits together.
static void edit_size(struct mutation *m)
{
    const struct rknn_tensor *one = &m->file.tensors[below(m, m->file.n_tensors)];
    uint32_t old = one->n_dims ? one->dims[below(m, one->n_dims)] : 0, fresh = number(m, old);
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        struct fb_table t = fb_list_get(&m->tensors, i);
        for (int k = 0; k < 2; k++) {
            struct bytes b = fb_vector(&t, slots[m->file.container.kind].vectors[k], 4);
            for (size_t at = 0; at + 4 <= b.size; at += 4)
                if (read_le32(b.data + at) == old)
                    write_le32(writable(b.data) + at, fresh);
        }
    }
}

// An operator becomes another one whose name fits in the place of the old.
static void edit_operator(struct mutation *m)
{
    static const char *const names[] = {
        "Add",       "Sub",          "Mul",        "Div",         "Pow",       "Mod",
        "Max",       "Min",          "PRelu",      "Relu",        "Clip",      "Concat",
        "Split",     "Slice",        "Pad",        "Expand",      "Reshape",   "Resize",
        "ArgMax",    "Transpose",    "Cast",       "TopK",        "Gather",    "Equal",
        "Where",     "Tile",         "Softmax",    "MaxPool",     "ReduceMax", "ReduceMean",
        "Conv",      "AddRelu",      "Tanh",       "Sin",         "Not",       "Gelu",
        "exMatMul",  "GridSample",   "ExSwish",    "ReduceL2",    "And",       "Sign",
        "Less",      "ConvRelu",     "ConvAdd",    "AveragePool", "Mish",      "cst",
        "exNorm",    "exGlu",        "MatMul",     "ArgMin",      "Hardmax",   "ConvClip",
        "exSwooshL", "DepthToSpace", "LogSoftmax", "LeakyRelu"};
    struct fb_table t = any(m, &m->nodes);
    struct bytes old = fb_vector(&t, 1, 1);
    const char *name = names[below(m, sizeof names / sizeof *names)];
    size_t n = strlen(name);
    if (old.size < n)
        return;
    memcpy(writable(old.data), name, n);
    write_le32(writable(old.data) - 4, (uint32_t)n);
}

static void edit_edge(struct mutation *m)
{
    struct fb_table t = any(m, &m->nodes);
    struct bytes b = fb_vector(&t, 4 + below(m, 2), 4);
    if (b.size)
        write_le32(writable(b.data) + 4 * (size_t)below(m, (uint32_t)(b.size / 4)),
                   below(m, m->tensors.n + 1) - 1);
}

static void edit_attribute(struct mutation *m)
{
    const struct rknn_node *n = &m->file.nodes[below(m, m->file.n_nodes)];
    if (n->bson.size > 16 && below(m, 2))
        edit_number(m, (struct bytes){n->bson.data + below(m, 4), n->bson.size - 4});
    else
        edit_number(m, fb_vector(&n->attr, below(m, 8), 4));
}

static void edit_constant(struct mutation *m)
{
    edit_number(m, m->file.tensors[below(m, m->file.n_tensors)].data);
}

// The value of one command, which lies two bytes behind its start, or four in blobs.
static void edit_command(struct mutation *m)
{
    if (!m->file.n_tasks)
        return;
    struct bytes b = m->file.tasks[below(m, m->file.n_tasks)].commands;
    if (b.size < 8)
        return;
    uint8_t *p = writable(b.data) + 8 * (size_t)below(m, (uint32_t)(b.size / 8));
    p += m->file.container.blobs ? 4 : 2;
    write_le32(p, number(m, read_le32(p)));
}

// A slot of a table, and of all that share its vtable, takes the place of another in it.
static void edit_vtable(struct mutation *m)
{
    struct fb_table t = any(m, below(m, 2) ? &m->tensors : &m->nodes);
    if (below(m, 4) == 0)
        t = m->file.nodes[below(m, m->file.n_nodes)].attr;
    if (!t.n_slots)
        return;
    uint8_t *first = writable(t.fb->all.data) + t.vtable + 4;
    size_t from = below(m, t.n_slots), to = below(m, t.n_slots);
    memcpy(first + 2 * to, first + 2 * from, 2);
}

// A slot of a table, and of all that share its vtable, is left out.
static void drop_slot(struct mutation *m)
{
    struct fb_table t = any(m, below(m, 2) ? &m->tensors : &m->nodes);
    if (t.n_slots)
        memset(writable(t.fb->all.data) + t.vtable + 4 + 2 * (size_t)below(m, t.n_slots), 0, 2);
}

// Two tables of a list take each other's place.
static void swap_tables(struct mutation *m)
{
    const struct fb_list *list = below(m, 2) ? &m->tensors : &m->nodes;
    uint8_t *base = writable(list->fb->all.data);
    uint32_t a = list->at + 4 * below(m, list->n), b = list->at + 4 * below(m, list->n);
    uint32_t to_a = a + read_le32(base + a), to_b = b + read_le32(base + b);
    write_le32(base + a, to_b - a);
    write_le32(base + b, to_a - b);
}

// A vector takes what follows it for elements of its own.
static void lengthen_vector(struct mutation *m)
{
    struct fb_table t = any(m, below(m, 2) ? &m->tensors : &m->nodes);
    struct bytes b = fb_vector(&t, below(m, t.n_slots + 1), 1);
    if (b.size)
        write_le32(writable(b.data) - 4, read_le32(b.data - 4) + 1 + below(m, 8));
}

static void edit(struct mutation *m)
{
    static void (*const edits[])(struct mutation *) = {
        edit_scalar,   edit_vector,  edit_size,   edit_operator, edit_edge,   edit_attribute,
        edit_constant, edit_command, edit_vtable, drop_slot,     swap_tables, lengthen_vector,
    };
    edits[below(m, sizeof edits / sizeof *edits)](m);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct mutation m = {.state = seed};
    struct error e = {0};
    if (below(&m, 4) == 0 || rknn_file_open(&m.file, (struct bytes){data, size}, &e) < 0)
        return LLVMFuzzerMutate(data, size, max_size);
    struct fb_table root = fb_root(&m.file.fb, "RKNN");
    struct fb_list graphs = fb_tables(&root, 2);
    struct fb_table graph = fb_list_get(&graphs, 0);
    m.tensors = fb_tables(&graph, 0);
    m.nodes = fb_tables(&graph, 1);
    for (uint32_t i = below(&m, MAX_EDITS) + 1; i > 0 && m.tensors.n && m.nodes.n; i--)
        edit(&m);
    rknn_file_done(&m.file);
    return size;
}
