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

// Vendor's operators whose tasks are known from files.
static bool is_net(const struct rknn_lowering *l)
{
    static const char *const names[] = {"exMatMul", "exNorm", "exSDPAttention", "exSoftmax13"};
    return operator_is_among(l, names, sizeof names / sizeof *names) &&
           (strcmp(l->node->op, "exSoftmax13") != 0 || loads_table(l));
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
        return l->out->sum || lower_is_bytes(lower_output(l, 0)) || is_read_by_units(l);
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
