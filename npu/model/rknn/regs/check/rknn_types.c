// A tensor of another type than its tasks work in would be read by the table and be wrong. Whoever
// computes a node from the tables takes types from there, and rounds as they ask; the chip takes
// them from its registers. Where the two differ, the node's own program is right.
#include "npu/model/rknn/regs/check/rknn_types.h"

enum precision { INT8, INT16, FP16, BF16, INT32, FP32 };

// What precision a tensor of the type has; -1: none that tasks work in.
static int precision_of(uint8_t type)
{
    switch (type) {
    case RKNN_I8:
    case RKNN_U8:
        return INT8;
    case RKNN_I16:
        return INT16;
    case RKNN_F16:
        return FP16;
    case RKNN_I32:
        return INT32;
    case RKNN_F32:
        return FP32;
    default:
        return -1;
    }
}

static bool carries(const struct rknn_node *n)
{
    static const char *const ops[] = {"Concat", "Pad",   "Reshape",  "Resize",
                                      "Slice",  "Split", "Transpose"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(n->op, ops[i]) == 0)
            return true;
    return false;
}

// Pieces of 2 or 4 bytes may be any elements of at most that size.
static bool is_moved(const struct rknn_node *n, uint32_t precision, uint8_t type)
{
    bool wide = precision == INT32 || (precision == INT16 && precision_of(type) < INT32);
    return carries(n) && wide && precision_of(type) >= 0;
}

static bool is_one_of(int32_t tensor, const int32_t *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (tensors[i] >= 0 && tensors[i] == tensor)
            return true;
    return false;
}

// Which of the node's tensors an address is in; -1: none of them, or the file does not say.
static int32_t find_tensor(const struct rknn_file *f, const struct rknn_state *s,
                           enum rknn_register reg, const int32_t *tensors, uint32_t n)
{
    uint64_t offset;
    if (s->tensor[reg] >= 0)
        return is_one_of(s->tensor[reg], tensors, n) ? s->tensor[reg] : -1;
    for (uint32_t i = 0; i < n && s->value[reg]; i++)
        if (rknn_file_offset(f, tensors[i], s->value[reg], &offset))
            return tensors[i];
    return -1;
}

static int check(const struct rknn_regs *regs, const struct rknn_state *s,
                 const struct rknn_node *n, const struct rknn_tensor *t, uint32_t precision,
                 struct error *e)
{
    uint32_t value;
    if ((int)precision == precision_of(t->type) || is_moved(n, precision, t->type) ||
        !rknn_regs_get(regs, DPU_DATA_FORMAT, &value))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "register %s (0x%04x) holds 0x%08x: another precision than that of tensor %s",
                     rknn_register_name(DPU_DATA_FORMAT),
                     rknn_register_at(regs->chip, DPU_DATA_FORMAT), s->value[DPU_DATA_FORMAT],
                     t->name);
}

// What a task writes: floats may be made halves on their way out.
static uint32_t written_as(const struct rknn_state *s)
{
    enum { TO_HALF = 1 << 16 };
    uint32_t precision = rknn_bits(s->value[DPU_DATA_FORMAT], 31, 29);
    return precision == FP32 && s->value[DPU_OUT_CVT_SCALE] & TO_HALF ? FP16 : precision;
}

// Newer chips have one precision for what is read and what is worked in.
static uint32_t read_as(const struct rknn_regs *regs, const struct rknn_state *s)
{
    uint32_t format = s->value[DPU_DATA_FORMAT];
    return regs->chip->bn_relu_field ? rknn_bits(format, 28, 26) : rknn_bits(format, 2, 0);
}

// The reader has both precisions once more: of what is in memory, and of what the units work in.
static int check_reader(const struct rknn_regs *regs, const struct rknn_state *s,
                        const struct rknn_node *n, struct error *e)
{
    uint32_t reader = s->value[RDMA_FEATURE_MODE_CFG], format = s->value[DPU_DATA_FORMAT], any;
    bool right = rknn_bits(reader, 17, 15) == read_as(regs, s) &&
                 rknn_bits(reader, 7, 5) == rknn_bits(format, 2, 0);
    if (right || carries(n) || !rknn_regs_get(regs, RDMA_FEATURE_MODE_CFG, &any) ||
        !rknn_regs_get(regs, DPU_DATA_FORMAT, &any))
        return 0;
    return rknn_regs_refuse(regs, RDMA_FEATURE_MODE_CFG, reader, "it reads another precision", e);
}

static int check_task(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, const struct rknn_state *s, struct error *e)
{
    enum { FROM_MEMORY = 1, BYPASS = 1 };
    int32_t x = find_tensor(f, s, RDMA_SRC_BASE, n->inputs, n->n_inputs);
    int32_t y = find_tensor(f, s, DPU_DST_BASE, n->outputs, n->n_outputs);
    int32_t second = find_tensor(f, s, RDMA_EW_BASE, n->inputs, n->n_inputs);
    bool memory = s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY;
    int r = 0;
    if (x >= 0 && second >= 0 && memory && !(s->value[DPU_EW_CFG] & BYPASS) &&
        f->tensors[x].type != f->tensors[second].type)
        return error_set(e, STATUS_MODEL_INVALID, "its operand %s is of another type",
                         f->tensors[second].name);
    if (x >= 0 && memory)
        r = check(regs, s, n, &f->tensors[x], read_as(regs, s), e);
    if (r == 0 && x >= 0 && memory)
        r = check_reader(regs, s, n, e);
    return r == 0 && y >= 0 ? check(regs, s, n, &f->tensors[y], written_as(s), e) : r;
}

// Bytes that the NPU computes with are int8 and have a scale; int16 is only moved. `net`: of the
// vendor's own operators' tasks it is not known which works in which tensor; in files all are of
// bytes or halves.
static int check_bytes(const struct rknn_file *f, const struct rknn_node *node,
                       const int32_t *tensors, uint32_t n, bool net, struct error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct rknn_tensor *t = tensors[i] < 0 ? NULL : &f->tensors[tensors[i]];
        bool between = t && t->kind >= RKNN_KIND_INPUT && t->kind <= RKNN_KIND_ACTIVATION;
        if (!between || !t->n_dims)
            continue;
        if (t->type == RKNN_I8 && !t->n_scales)
            return error_set(e, STATUS_MODEL_INVALID, "its tensor %s of bytes has no scale",
                             t->name);
        if (t->type == RKNN_U8 || (t->type == RKNN_I16 && !carries(node)) ||
            (net && t->type != RKNN_I8 && t->type != RKNN_F16))
            return error_set(
                e, STATUS_MODEL_INVALID,
                "its tensor %s is of type %u, in which the NPU is not known to compute", t->name,
                t->type);
    }
    return 0;
}

int rknn_types_agree(const struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_node *n, struct error *e)
{
    struct rknn_walk w;
    const struct rknn_state *s;
    // The vendor's own operators are nets of several tasks, but for the one that converts types.
    bool net = strncmp(n->op, "ex", 2) == 0 && strcmp(n->op, "exDataConvert") != 0;
    int r = check_bytes(f, n, n->inputs, n->n_inputs, net, e);
    if (r == 0)
        r = check_bytes(f, n, n->outputs, n->n_outputs, net, e);
    rknn_walk_begin(&w, regs);
    while (!net && r == 0 && (s = rknn_walk_next(&w)) != NULL)
        r = check_task(regs, f, n, s, e);
    return r;
}
