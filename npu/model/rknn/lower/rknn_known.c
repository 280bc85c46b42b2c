// What is known of operators: by which of them an NPU's registers are read, and not only believed
// by their names.
#include "npu/model/rknn/lower/rknn_lower.h"

// A register that tells a unit what to do: of the pool's, or of the DPU.
static bool is_told(const struct rknn_lowering *l, bool pool)
{
    uint32_t mode;
    return l->out->program &&
           rknn_regs_get(l->regs, pool ? PPU_RDMA_DATA_FORMAT : DPU_FEATURE_MODE_CFG, &mode);
}

static bool is_pool(const struct rknn_lowering *l)
{
    return l->out->op == GRAPH_MAX_POOL || l->out->op == GRAPH_AVERAGE_POOL;
}

// A pool is not the DPU's.
bool lower_has_program(const struct rknn_lowering *l)
{
    return is_told(l, is_pool(l));
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

// Vendor's operators whose tasks are known from files.
static bool is_net(const struct rknn_lowering *l)
{
    static const char *const names[] = {"exMatMul", "exNorm", "exSDPAttention", "exSoftmax13"};
    return operator_is_among(l, names, sizeof names / sizeof *names) &&
           (strcmp(l->node->op, "exSoftmax13") != 0 || lower_is_softmax(l));
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
    // No file pools by the DPU, nor does anything else by the pool's unit: nobody has read those.
    bool other = !l->out->on_cpu && l->out->op != GRAPH_CUSTOM && is_told(l, !is_pool(l));
    if (other)
        return lower_refuse(l, e, "how %s computes %s is not known",
                            is_pool(l) ? "the DPU" : "the pool's unit", l->node->op);
    if (l->out->on_cpu || !lower_has_program(l) || is_read(l))
        return 0;
    return lower_refuse(l, e, "which registers the NPU computes %s by is not known", l->node->op);
}
