// The operators of .rknn files that are known. To add one that the graph can express: a row here,
// and where no lowering function serves it yet, one in the file of its kind (declared in
// rknn_lower.h). One without a kernel of its own becomes GRAPH_REF, with an operator of
// graph_ref.h. Semantics are ONNX's unless docs/rknn-format.md says otherwise.
#include <math.h>

#include "npu/model/rknn/lower/rknn_lower.h"

// Whether the names of activations, or of an addition, may follow the operator's own.
enum { ALONE, FUSING };

#define OPERATOR(name, fuses, n_inputs, op, lower, kind)                                           \
    {                                                                                              \
        name, fuses, n_inputs, op, lower, kind,                                                    \
        {                                                                                          \
            0, 0, NULL, NULL                                                                       \
        }                                                                                          \
    }
#define ACTIVATION(name, kind, alpha, beta, a_name, b_name)                                        \
    {                                                                                              \
        name, ALONE, 1, GRAPH_UNARY, lower_unary, kind,                                            \
        {                                                                                          \
            alpha, beta, a_name, b_name                                                            \
        }                                                                                          \
    }

// clang-format off
// An operator: its name, whether others are fused into it, inputs that must be there, what it
// becomes, who lowers it, that function's argument. "cst…" are those of a user, whose program or
// plugin computes them with whatever inputs they have. An activation: its name, its kind, and its
// numbers (struct rknn_numbers), which are the vendor's (RKNN Compiler Support Operator List 2.3.2).
static const struct rknn_operator operators[] = {
    ACTIVATION("Abs", POST_ABS, 0, 0, NULL, NULL),
    OPERATOR("Acos", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_ACOS),
    OPERATOR("Acosh", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_ACOSH),
    OPERATOR("Add", FUSING, 2, GRAPH_ADD, lower_arithmetic, REF_ADD),
    OPERATOR("And", ALONE, 2, GRAPH_REF, lower_ref_binary, REF_AND),
    OPERATOR("ArgMax", ALONE, 1, GRAPH_ARG_MAX, lower_arg_reduce, 0),
    OPERATOR("ArgMin", ALONE, 1, GRAPH_REF, lower_arg_reduce, 1),
    OPERATOR("Asin", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_ASIN),
    OPERATOR("Asinh", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_ASINH),
    OPERATOR("Atan", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_ATAN),
    OPERATOR("Atanh", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_ATANH),
    OPERATOR("AveragePool", FUSING, 0, GRAPH_AVERAGE_POOL, lower_pool, 0),
    OPERATOR("BatchNormalization", FUSING, 5, GRAPH_BATCH_NORM, lower_norm, 0),
    OPERATOR("Cast", ALONE, 1, GRAPH_CONVERT, lower_cast, 0),
    OPERATOR("Ceil", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_CEIL),
    OPERATOR("Celu", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_CELU),
    ACTIVATION("Clip", POST_CLIP, NAN, NAN, "min", "max"),
    OPERATOR("Concat", ALONE, 1, GRAPH_CONCAT, lower_concat, 0),
    OPERATOR("Conv", FUSING, 0, GRAPH_CONV, lower_conv, 0),
    OPERATOR("ConvTranspose", FUSING, 0, GRAPH_CONV_TRANSPOSE, lower_conv, 0),
    OPERATOR("Cos", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_COS),
    OPERATOR("Cosh", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_COSH),
    OPERATOR("CumSum", ALONE, 2, GRAPH_REF, lower_cum_sum, 0),
    OPERATOR("DataConvert", ALONE, 1, GRAPH_CONVERT, lower_convert, 0),
    OPERATOR("DepthToSpace", ALONE, 1, GRAPH_TRANSPOSE, lower_space, 0),
    OPERATOR("Div", FUSING, 2, GRAPH_DIV, lower_arithmetic, REF_DIV),
    OPERATOR("Dropout", ALONE, 1, GRAPH_RESHAPE, lower_plain, 0),
    ACTIVATION("Elu", POST_ELU, 1, 0, "alpha", NULL),
    OPERATOR("Equal", ALONE, 2, GRAPH_REF, lower_ref_binary, REF_EQUAL),
    ACTIVATION("Erf", POST_ERF, 0, 0, NULL, NULL),
    ACTIVATION("ExGelu", POST_GELU, 0, 0, NULL, NULL),
    ACTIVATION("ExHardSwish", POST_HARD_SWISH, 1.0f / 6, 0.5f, NULL, NULL),
    ACTIVATION("ExMish", POST_MISH, 0, 0, NULL, NULL),
    ACTIVATION("ExSwish", POST_SWISH, 0, 0, NULL, NULL),
    ACTIVATION("ExSwooshL", POST_SWOOSH, 4, 0.035f, NULL, NULL),
    ACTIVATION("ExSwooshR", POST_SWOOSH, 1, 0.313261687f, NULL, NULL),
    ACTIVATION("Exp", POST_EXP, 0, 0, NULL, NULL),
    OPERATOR("Expand", ALONE, 1, GRAPH_EXPAND, lower_plain, 0),
    OPERATOR("Flatten", ALONE, 1, GRAPH_RESHAPE, lower_plain, 0),
    ACTIVATION("Floor", POST_FLOOR, 0, 0, NULL, NULL),
    OPERATOR("GRU", ALONE, 3, GRAPH_REF, lower_recurrent, REF_GRU),
    OPERATOR("Gather", ALONE, 2, GRAPH_GATHER, lower_gather, 0),
    OPERATOR("GatherElements", ALONE, 2, GRAPH_GATHER_ELEMENTS, lower_gather, 0),
    OPERATOR("GatherND", ALONE, 2, GRAPH_REF, lower_gather_nd, 0),
    ACTIVATION("Gelu", POST_GELU, 0, 0, NULL, NULL),
    OPERATOR("GlobalAveragePool", FUSING, 0, GRAPH_AVERAGE_POOL, lower_pool, 0),
    OPERATOR("GlobalMaxPool", FUSING, 0, GRAPH_MAX_POOL, lower_pool, 0),
    OPERATOR("Greater", ALONE, 2, GRAPH_REF, lower_ref_binary, REF_GREATER),
    OPERATOR("GreaterOrEqual", ALONE, 2, GRAPH_REF, lower_ref_binary, REF_GREATER_EQUAL),
    OPERATOR("GridSample", ALONE, 2, GRAPH_GRID_SAMPLE, lower_grid_sample, 0),
    ACTIVATION("HardSigmoid", POST_HARD_SIGMOID, NAN, NAN, "alpha", "beta"),
    ACTIVATION("HardSwish", POST_HARD_SWISH, 1.0f / 6, 0.5f, NULL, NULL),
    OPERATOR("Hardmax", ALONE, 1, GRAPH_REF, lower_hardmax, 0),
    OPERATOR("Identity", ALONE, 1, GRAPH_RESHAPE, lower_plain, 0),
    OPERATOR("InstanceNormalization", ALONE, 3, GRAPH_REF, lower_instance_norm, 0),
    OPERATOR("IsInf", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_IS_INF),
    OPERATOR("IsNaN", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_IS_NAN),
    OPERATOR("LRN", ALONE, 1, GRAPH_REF, lower_lrn, 0),
    OPERATOR("LSTM", ALONE, 3, GRAPH_REF, lower_recurrent, REF_LSTM),
    OPERATOR("LayerNormalization", ALONE, 2, GRAPH_LAYER_NORM, lower_layer_norm, 0),
    ACTIVATION("LeakyRelu", POST_LEAKY_RELU, NAN, 0, "alpha", NULL),
    OPERATOR("Less", ALONE, 2, GRAPH_REF, lower_ref_binary, REF_LESS),
    OPERATOR("LessOrEqual", ALONE, 2, GRAPH_REF, lower_ref_binary, REF_LESS_EQUAL),
    ACTIVATION("Log", POST_LOG, 0, 0, NULL, NULL),
    OPERATOR("LogSoftmax", ALONE, 1, GRAPH_REF, lower_log_softmax, 0),
    OPERATOR("MatMul", ALONE, 2, GRAPH_MAT_MUL, lower_mat_mul, 0),
    OPERATOR("Max", FUSING, 2, GRAPH_MAX, lower_arithmetic, REF_MAX),
    OPERATOR("MaxPool", FUSING, 0, GRAPH_MAX_POOL, lower_pool, 0),
    OPERATOR("Min", FUSING, 2, GRAPH_MIN, lower_arithmetic, REF_MIN),
    ACTIVATION("Mish", POST_MISH, 0, 0, NULL, NULL),
    OPERATOR("Mod", FUSING, 2, GRAPH_MOD, lower_arithmetic, REF_MOD),
    OPERATOR("Mul", FUSING, 2, GRAPH_MUL, lower_arithmetic, REF_MUL),
    ACTIVATION("Neg", POST_NEG, 0, 0, NULL, NULL),
    OPERATOR("Not", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_NOT),
    OPERATOR("OneHot", ALONE, 3, GRAPH_REF, lower_one_hot, 0),
    OPERATOR("Or", ALONE, 2, GRAPH_REF, lower_ref_binary, REF_OR),
    OPERATOR("PRelu", FUSING, 2, GRAPH_PRELU, lower_two, 0),
    OPERATOR("Pad", ALONE, 2, GRAPH_PAD, lower_pad, 0),
    OPERATOR("PassThrough", ALONE, 1, GRAPH_RESHAPE, lower_plain, 0),
    OPERATOR("Pow", FUSING, 2, GRAPH_POW, lower_arithmetic, REF_POW),
    OPERATOR("RNN", ALONE, 3, GRAPH_REF, lower_recurrent, REF_RNN),
    ACTIVATION("Reciprocal", POST_RECIPROCAL, 0, 0, NULL, NULL),
    OPERATOR("ReduceL1", ALONE, 1, GRAPH_REF, lower_reduction, REF_L1),
    OPERATOR("ReduceL2", ALONE, 1, GRAPH_REF, lower_reduction, REF_L2),
    OPERATOR("ReduceLogSum", ALONE, 1, GRAPH_REF, lower_reduction, REF_LOG_SUM),
    OPERATOR("ReduceLogSumExp", ALONE, 1, GRAPH_REF, lower_reduction, REF_LOG_SUM_EXP),
    OPERATOR("ReduceMax", ALONE, 1, GRAPH_REF, lower_reduction, REF_REDUCE_MAX),
    OPERATOR("ReduceMean", ALONE, 1, GRAPH_REDUCE_MEAN, lower_mean, REF_MEAN),
    OPERATOR("ReduceMin", ALONE, 1, GRAPH_REF, lower_reduction, REF_REDUCE_MIN),
    OPERATOR("ReduceProd", ALONE, 1, GRAPH_REF, lower_reduction, REF_PROD),
    OPERATOR("ReduceSum", ALONE, 1, GRAPH_REF, lower_reduction, REF_SUM),
    OPERATOR("ReduceSumSquare", ALONE, 1, GRAPH_REF, lower_reduction, REF_SUM_SQUARE),
    ACTIVATION("Relu", POST_RELU, 0, 0, NULL, NULL),
    OPERATOR("Reshape", ALONE, 1, GRAPH_RESHAPE, lower_plain, 0),
    OPERATOR("Resize", ALONE, 1, GRAPH_RESIZE, lower_resize, 0),
    OPERATOR("Round", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_ROUND),
    OPERATOR("Scatter", ALONE, 3, GRAPH_REF, lower_scatter, REF_OP_SCATTER_ELEMENTS),
    OPERATOR("ScatterElements", ALONE, 3, GRAPH_REF, lower_scatter, REF_OP_SCATTER_ELEMENTS),
    OPERATOR("ScatterND", ALONE, 3, GRAPH_REF, lower_scatter, REF_OP_SCATTER_ND),
    OPERATOR("Selu", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_SELU),
    OPERATOR("Shrink", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_SHRINK),
    ACTIVATION("Sigmoid", POST_SIGMOID, 0, 0, NULL, NULL),
    OPERATOR("Sign", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_SIGN),
    OPERATOR("Sin", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_SIN),
    OPERATOR("Sinh", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_SINH),
    OPERATOR("Slice", ALONE, 2, GRAPH_SLICE, lower_slice, 0),
    OPERATOR("Softmax", ALONE, 1, GRAPH_SOFTMAX, lower_softmax, 0),
    ACTIVATION("Softplus", POST_SOFTPLUS, 0, 0, NULL, NULL),
    OPERATOR("Softsign", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_SOFTSIGN),
    OPERATOR("SpaceToDepth", ALONE, 1, GRAPH_TRANSPOSE, lower_space, 1),
    OPERATOR("Split", ALONE, 1, GRAPH_SPLIT, lower_along, 0),
    ACTIVATION("Sqrt", POST_SQRT, 0, 0, NULL, NULL),
    OPERATOR("Squeeze", ALONE, 1, GRAPH_RESHAPE, lower_plain, 0),
    OPERATOR("Sub", FUSING, 2, GRAPH_SUB, lower_arithmetic, REF_SUB),
    OPERATOR("Sum", FUSING, 2, GRAPH_ADD, lower_arithmetic, REF_ADD),
    ACTIVATION("Swish", POST_SWISH, 0, 0, NULL, NULL),
    OPERATOR("Tan", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_TAN),
    ACTIVATION("Tanh", POST_TANH, 0, 0, NULL, NULL),
    OPERATOR("ThresholdedRelu", ALONE, 1, GRAPH_REF, lower_ref_unary, REF_THRESHOLDED_RELU),
    OPERATOR("Tile", ALONE, 1, GRAPH_REF, lower_ref, REF_OP_TILE),
    OPERATOR("TopK", ALONE, 1, GRAPH_TOP_K, lower_top_k, 0),
    OPERATOR("Transpose", ALONE, 1, GRAPH_TRANSPOSE, lower_transpose, 0),
    OPERATOR("Trilu", ALONE, 1, GRAPH_REF, lower_trilu, 0),
    OPERATOR("Unsqueeze", ALONE, 1, GRAPH_RESHAPE, lower_plain, 0),
    OPERATOR("Upsample", ALONE, 2, GRAPH_RESIZE, lower_upsample, 0),
    OPERATOR("Where", ALONE, 3, GRAPH_REF, lower_ref, REF_OP_WHERE),
    OPERATOR("Xor", ALONE, 2, GRAPH_REF, lower_ref_binary, REF_XOR),
    OPERATOR("cst", FUSING, 0, GRAPH_CUSTOM, lower_plain, 0),
    OPERATOR("exDataConvert", ALONE, 1, GRAPH_CONVERT, lower_convert, 0),
    ACTIVATION("exGelu", POST_GELU, 0, 0, NULL, NULL),
    OPERATOR("exGlu", ALONE, 1, GRAPH_GLU, lower_along, 1),
    ACTIVATION("exHardSwish", POST_HARD_SWISH, 1.0f / 6, 0.5f, NULL, NULL),
    OPERATOR("exLayerNorm", ALONE, 2, GRAPH_LAYER_NORM, lower_layer_norm, 0),
    OPERATOR("exMatMul", ALONE, 2, GRAPH_EX_MAT_MUL, lower_ex_mat_mul, 0),
    ACTIVATION("exMish", POST_MISH, 0, 0, NULL, NULL),
    OPERATOR("exNorm", ALONE, 1, GRAPH_LAYER_NORM, lower_ex_norm, 0),
    OPERATOR("exSDPAttention", ALONE, 3, GRAPH_REF, lower_attention, 0),
    OPERATOR("exSoftmax13", ALONE, 1, GRAPH_SOFTMAX, lower_along, -1),
    ACTIVATION("exSwish", POST_SWISH, 0, 0, NULL, NULL),
    ACTIVATION("exSwooshL", POST_SWOOSH, 4, 0.035f, NULL, NULL),
    ACTIVATION("exSwooshR", POST_SWOOSH, 1, 0.313261687f, NULL, NULL),
};
// clang-format on

#define N_OPERATORS (sizeof operators / sizeof *operators)

// "ConvTransposeRelu" begins with "Conv" too: the longest name counts.
static const struct rknn_operator *find_longest(const char *text, bool activation)
{
    const struct rknn_operator *best = NULL;
    size_t length = 0;
    for (size_t i = 0; i < N_OPERATORS; i++) {
        const struct rknn_operator *o = &operators[i];
        size_t n = strlen(o->name);
        if ((activation ? o->op == GRAPH_UNARY : o->fuses) && n > length &&
            strncmp(text, o->name, n) == 0) {
            best = o;
            length = n;
        }
    }
    return best;
}

const struct rknn_operator *rknn_activation(const char *text)
{
    return find_longest(text, true);
}

static const struct rknn_operator *find_operator(const char *name)
{
    for (size_t i = 0; i < N_OPERATORS; i++)
        if (strcmp(operators[i].name, name) == 0)
            return &operators[i];
    return find_longest(name, false);
}

int lower_node(struct rknn_lowering *l, struct error *e)
{
    const char *name = l->node->op;
    l->row = find_operator(name);
    if (!l->row)
        return lower_refuse(l, e, "operator \"%s\" is not known", name);
    l->suffix = name + strlen(l->row->name);
    l->out->op = l->row->op;
    int r = l->row->n_inputs > 0 ? lower_inputs(l, l->row->n_inputs, e) : 0;
    return r < 0 ? r : l->row->lower(l, e);
}
