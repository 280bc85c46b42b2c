// Which attributes ONNX's operators have, in any operator set from 1 to 24. One that is not there
// is refused: it would change what the operator does.
#include "npu/model/onnx/onnx_lower.h"

// Operators that are supported and have attributes; the names are separated by spaces.
static const struct {
    const char *op, *names;
} known[] = {
    {"Abs", "consumed_inputs"},
    {"Add", "axis broadcast consumed_inputs"},
    {"And", "axis broadcast"},
    {"ArgMax", "axis keepdims select_last_index"},
    {"ArgMin", "axis keepdims select_last_index"},
    {"AveragePool", "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"BatchNormalization", "consumed_inputs epsilon is_test momentum spatial training_mode"},
    {"BitShift", "direction"},
    {"BlackmanWindow", "output_datatype periodic"},
    {"Cast", "round_mode saturate to"},
    {"CastLike", "round_mode saturate"},
    {"Ceil", "consumed_inputs"},
    {"Celu", "alpha"},
    {"Clip", "consumed_inputs max min"},
    {"Compress", "axis"},
    {"Concat", "axis"},
    {"ConcatFromSequence", "axis new_axis"},
    {"Constant",
     "sparse_value value value_float value_floats value_int value_ints value_string value_strings"},
    {"ConstantOfShape", "value"},
    {"Conv", "auto_pad dilations group kernel_shape pads strides"},
    {"ConvInteger", "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose",
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"CumSum", "exclusive reverse"},
    {"DepthToSpace", "blocksize mode"},
    {"DequantizeLinear", "axis block_size output_dtype"},
    {"Div", "axis broadcast consumed_inputs"},
    {"Dropout", "consumed_inputs is_test ratio seed"},
    {"DynamicQuantizeLSTM", "activations clip direction hidden_size input_forget"},
    {"Einsum", "equation"},
    {"Elu", "alpha consumed_inputs"},
    {"Equal", "axis broadcast"},
    {"Exp", "consumed_inputs"},
    {"EyeLike", "dtype k"},
    {"Flatten", "axis"},
    {"Floor", "consumed_inputs"},
    {"GRU", "activation_alpha activation_beta activations clip direction hidden_size layout "
            "linear_before_reset output_sequence"},
    {"Gather", "axis"},
    {"GatherElements", "axis"},
    {"GatherND", "batch_dims"},
    {"Gelu", "approximate"},
    {"Gemm", "alpha beta broadcast transA transB"},
    {"Greater", "axis broadcast"},
    {"GridSample", "align_corners mode padding_mode"},
    {"GroupNormalization", "epsilon num_groups stash_type"},
    {"HammingWindow", "output_datatype periodic"},
    {"HannWindow", "output_datatype periodic"},
    {"HardSigmoid", "alpha beta consumed_inputs"},
    {"Hardmax", "axis"},
    {"If", "else_branch then_branch"},
    {"InstanceNormalization", "consumed_inputs epsilon"},
    {"IsInf", "detect_negative detect_positive"},
    {"LRN", "alpha beta bias size"},
    {"LSTM", "activation_alpha activation_beta activations clip direction hidden_size input_forget "
             "layout output_sequence"},
    {"LayerNormalization", "axis epsilon stash_type"},
    {"LeakyRelu", "alpha consumed_inputs"},
    {"Less", "axis broadcast"},
    {"Log", "consumed_inputs"},
    {"LogSoftmax", "axis"},
    {"Loop", "body"},
    {"LpNormalization", "axis p"},
    {"Max", "consumed_inputs"},
    {"MaxPool", "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"MaxUnpool", "kernel_shape pads strides"},
    {"Mean", "consumed_inputs"},
    {"MeanVarianceNormalization", "axes"},
    {"Min", "consumed_inputs"},
    {"Mod", "fmod"},
    {"Mul", "axis broadcast consumed_inputs"},
    {"Neg", "consumed_inputs"},
    {"NonMaxSuppression", "center_point_box"},
    {"Observe", "bins channels tails values"},
    {"OneHot", "axis"},
    {"Optional", "type"},
    {"Or", "axis broadcast"},
    {"PRelu", "consumed_inputs"},
    {"Pad", "mode paddings pads value"},
    {"Pow", "axis broadcast"},
    {"QLinearConv", "auto_pad dilations group kernel_shape pads strides"},
    {"QuantizeLinear", "axis block_size output_dtype precision saturate"},
    {"RNN", "activation_alpha activation_beta activations clip direction hidden_size layout "
            "output_sequence"},
    {"Reciprocal", "consumed_inputs"},
    {"ReduceL1", "axes keepdims noop_with_empty_axes"},
    {"ReduceL2", "axes keepdims noop_with_empty_axes"},
    {"ReduceLogSum", "axes keepdims noop_with_empty_axes"},
    {"ReduceLogSumExp", "axes keepdims noop_with_empty_axes"},
    {"ReduceMax", "axes keepdims noop_with_empty_axes"},
    {"ReduceMean", "axes keepdims noop_with_empty_axes"},
    {"ReduceMin", "axes keepdims noop_with_empty_axes"},
    {"ReduceProd", "axes keepdims noop_with_empty_axes"},
    {"ReduceSum", "axes keepdims noop_with_empty_axes"},
    {"ReduceSumSquare", "axes keepdims noop_with_empty_axes"},
    {"Relu", "consumed_inputs"},
    {"Reshape", "allowzero consumed_inputs shape"},
    {"Resize", "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
               "extrapolation_value keep_aspect_ratio_policy mode nearest_mode"},
    {"ReverseSequence", "batch_axis time_axis"},
    {"RoiAlign", "coordinate_transformation_mode mode output_height output_width sampling_ratio "
                 "spatial_scale"},
    {"Scan", "body directions num_scan_inputs scan_input_axes scan_input_directions "
             "scan_output_axes scan_output_directions"},
    {"Scatter", "axis"},
    {"ScatterElements", "axis reduction"},
    {"ScatterND", "reduction"},
    {"Selu", "alpha consumed_inputs gamma"},
    {"SequenceEmpty", "dtype"},
    {"Shape", "end start"},
    {"Shrink", "bias lambd"},
    {"Sigmoid", "consumed_inputs"},
    {"Slice", "axes ends starts"},
    {"Softmax", "axis"},
    {"SpaceToDepth", "blocksize"},
    {"Split", "axis num_outputs split"},
    {"SplitToSequence", "axis keepdims"},
    {"Sqrt", "consumed_inputs"},
    {"Squeeze", "axes"},
    {"Sub", "axis broadcast consumed_inputs"},
    {"Sum", "consumed_inputs"},
    {"Tanh", "consumed_inputs"},
    {"ThresholdedRelu", "alpha"},
    {"TopK", "axis k largest sorted"},
    {"Transpose", "perm"},
    {"Trilu", "upper"},
    {"Unsqueeze", "axes"},
    {"Upsample", "height_scale mode scales width_scale"},
    {"Xor", "axis broadcast"},
};

static bool has_word(const char *words, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = words; size > 0 && (at = strstr(at, word)); at += size)
        if ((at == words || at[-1] == ' ') && (at[size] == ' ' || !at[size]))
            return true;
    return false;
}

int onnx_check_attributes(const struct onnx_lowering *l, struct error *e)
{
    const struct onnx_node *n = l->node;
    const char *names = "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].op, n->op) == 0)
            names = known[i].names;
    for (uint32_t i = 0; i < n->n_attrs; i++)
        if (!has_word(names, n->attrs[i].name))
            return onnx_refuse(l, e, "its attribute \"%s\" is not known", n->attrs[i].name);
    return 0;
}
