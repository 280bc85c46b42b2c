// RNN, LSTM and GRU that a board's CPU computes: as in ONNX (graph_ref.h has the parameters). Those
// of the NPU have packed weights, which are not known.
#include "npu/model/rknn/lower/rknn_lower.h"

#define MAX_INPUTS 8
#define MIN_INPUTS 3 // data, weights, weights of the states

static int check(const struct rknn_lowering *l, struct error *e)
{
    if (!l->out->on_cpu)
        return lower_refuse(l, e, "how the NPU's weights of it lie is not known");
    if (l->n_inputs > MAX_INPUTS)
        return lower_refuse(l, e, "it has %u inputs", l->n_inputs);
    for (uint32_t i = 0; i < MIN_INPUTS; i++)
        if (lower_input(l, i)->n_dims != 3 || lower_is_integers(lower_input(l, i)))
            return lower_refuse(l, e, "its input %u is not of real numbers in three dimensions", i);
    static const char *const others[] = {"activations", "activation_alpha", "activation_beta"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (rknn_attr_has(l->node, others[i]))
            return lower_refuse(l, e, "functions of its own (%s) are not supported", others[i]);
    uint32_t hidden = lower_input(l, 2)->dims[2];
    int64_t said = rknn_attr_int(l->node, "hidden_size", hidden);
    return said == hidden ? 0 : lower_refuse(l, e, "its hidden_size is not that of its weights");
}

// The functions are ONNX's, three for each direction; unused ones are 0.
int lower_recurrent(struct rknn_lowering *l, struct error *e)
{
    static const int64_t usual[][3] = {
        [REF_RNN] = {REF_GATE_TANH},
        [REF_LSTM] = {REF_GATE_SIGMOID, REF_GATE_TANH, REF_GATE_TANH},
        [REF_GRU] = {REF_GATE_SIGMOID, REF_GATE_TANH}};
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    int64_t kind = l->row->kind, ints[5 + 2 * 3] = {kind};
    uint32_t direction = 0;
    int r = check(l, e);
    if (r == 0)
        r = lower_pick(l, "direction", "forward", directions, 3, &direction, e);
    if (r < 0)
        return r;
    ints[1] = direction;
    ints[2] = rknn_attr_int(l->node, "layout", 0) != 0;
    ints[3] = rknn_attr_int(l->node, "linear_before_reset", 0);
    ints[4] = rknn_attr_int(l->node, "input_forget", 0);
    uint32_t n = direction == REF_BOTH ? 2 : 1;
    for (uint32_t d = 0; d < n; d++)
        memcpy(ints + 5 + (size_t)3 * d, usual[kind], sizeof usual[kind]);
    r = lower_emit_ref(l, REF_OP_RECURRENT, l->n_inputs, ints, 5 + 3 * n, e);
    l->out->ref.reals[0] = (float)rknn_attr_float(l->node, "clip", 0);
    return r;
}
