// What is known of operators: by which of them an NPU's registers are read, and not only believed
// by their names.
#include "npu/model/rknn/lower/rknn_lower.h"

// A pool is not the DPU's.
bool lower_has_program(const struct rknn_lowering *l)
{
    bool pools = l->out->op == GRAPH_MAX_POOL || l->out->op == GRAPH_AVERAGE_POOL;
    uint32_t mode;
    return l->out->program &&
           rknn_regs_get(l->regs, pools ? PPU_RDMA_DATA_FORMAT : DPU_FEATURE_MODE_CFG, &mode);
}

static bool operator_is_among(const struct rknn_lowering *l, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(l->node->op, names[i]) == 0)
            return true;
    return false;
}

// Real numbers: rknn_real.c reads units of sums, products and activations.
static bool is_read_by_units(const struct rknn_lowering *l)
{
    static const char *const names[] = {"Add", "AddRelu", "Mul", "Relu"};
    return operator_is_among(l, names, sizeof names / sizeof *names);
}

// A softmax's net has a table of e^x; what has none is no such net, whatever its name.
static bool loads_table(const struct rknn_lowering *l)
{
    int16_t points[2][RKNN_LUT_POINTS];
    return rknn_regs_lut(l->regs, l->f, l->node, points);
}

// What a softmax sums up by has a weight for each number along its axis. Other constants are none.
static bool sums_along_axis(const struct rknn_lowering *l)
{
    const struct graph_tensor *x = lower_input(l, 0);
    bool any = false, right = false;
    for (uint32_t i = 0; i < l->node->n_inputs && x; i++) {
        const struct rknn_tensor *t =
            l->node->inputs[i] < 0 ? NULL : &l->f->tensors[l->node->inputs[i]];
        if (!t || t->kind != RKNN_KIND_SUBTASK_CONSTANT || t->layout != RKNN_WEIGHT ||
            t->n_dims != 4)
            continue;
        any = true;
        right = right || t->dims[1] == x->dims[l->out->axis];
    }
    return !any || right;
}

// Only a table's numbers are shifted on their way out; other halves stay what they are. RK3576 and
// RV1126B have what leads into the table in memory: an addend, a factor and shifts.
static bool keeps_halves(const struct rknn_lowering *l)
{
    enum { PRECISION = 7, FP16 = 2, SHIFT = 0xfff, BY_TABLE = 0x302, BY_TABLE_NEW = 0x1004140 };
    enum { READ_ALL = 0x1a };
    struct rknn_walk w;
    const struct rknn_state *s;
    bool kept = true;
    rknn_walk_begin(&w, l->regs);
    while (kept && (s = rknn_walk_next(&w)) != NULL) {
        const uint32_t *v = s->value;
        if ((v[DPU_DATA_FORMAT] & PRECISION) != FP16)
            continue;
        if (v[DPU_EW_CFG] == BY_TABLE || v[DPU_EW_CFG] == BY_TABLE_NEW)
            kept = !l->chip->bn_in_memory || v[RDMA_BN_CFG] == READ_ALL;
        else
            kept = !(v[DPU_OUT_CVT_SHIFT] & SHIFT);
    }
    return kept;
}

static bool is_softmax(const struct rknn_lowering *l)
{
    return loads_table(l) && sums_along_axis(l) && keeps_halves(l);
}

// Vendor's operators whose tasks are known from files.
static bool is_net(const struct rknn_lowering *l)
{
    static const char *const names[] = {"exMatMul", "exNorm", "exSDPAttention", "exSoftmax13"};
    return operator_is_among(l, names, sizeof names / sizeof *names) &&
           (strcmp(l->node->op, "exSoftmax13") != 0 || is_softmax(l));
}

// EW takes an image as large as what it makes, and a second operand, which is as large, or one
// number for each of its channels.
static bool is_like(const struct graph_tensor *t, const struct graph_tensor *y)
{
    return t && t->n_dims == y->n_dims &&
           memcmp(t->dims, y->dims, sizeof *t->dims * t->n_dims) == 0;
}

static bool has_image(const struct rknn_lowering *l)
{
    const struct graph_tensor *y = lower_output(l, 0);
    return y->n_dims != 4 || is_like(lower_input(l, 0), y) || is_like(lower_input(l, 1), y);
}

// Whether anything of the registers has been held against what the operator's name says. Which
// units compute any other one is known of no file.
static bool is_read(const struct rknn_lowering *l)
{
    switch (l->out->op) {
    case GRAPH_UNARY:
        return l->out->chains[0] || is_read_by_units(l);
    case GRAPH_ADD:
    case GRAPH_MUL:
        return l->out->sum || lower_is_bytes(lower_output(l, 0)) ||
               (is_read_by_units(l) && has_image(l));
    case GRAPH_DIV:
    case GRAPH_POW:
    case GRAPH_SUB:
        return l->out->sum || lower_is_bytes(lower_output(l, 0));
    case GRAPH_MAX_POOL:
    case GRAPH_AVERAGE_POOL:
        return strncmp(l->node->op, "Global", 6) != 0;
    case GRAPH_BATCH_NORM:
    case GRAPH_CONCAT:
    case GRAPH_CONV:
    case GRAPH_CONVERT:
    case GRAPH_CONV_TRANSPOSE:
    case GRAPH_CUSTOM:
    case GRAPH_EXPAND:
    case GRAPH_MAP:
    case GRAPH_PAD:
    case GRAPH_RESHAPE:
    case GRAPH_RESIZE:
    case GRAPH_SLICE:
    case GRAPH_SPLIT:
    case GRAPH_TRANSPOSE:
        return true;
    default:
        return is_net(l);
    }
}

int lower_check_read(const struct rknn_lowering *l, struct error *e)
{
    if (l->out->on_cpu || !lower_has_program(l) || is_read(l))
        return 0;
    return lower_refuse(l, e, "which registers the NPU computes %s by is not known", l->node->op);
}
