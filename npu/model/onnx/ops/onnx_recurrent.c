// RNN, LSTM and GRU of ONNX, as one reference operator (graph_ref.h has its parameters).
//
//      x  [steps, batch, inputs]         w  [directions, gates * hidden, inputs]
//      y  [steps, directions, batch, hidden]      r  [directions, gates * hidden, hidden]
//
// layout 1 puts the batch first in x and y.
#include "base/bytes.h"
#include "npu/model/onnx/onnx_lower.h"

static const uint32_t functions_of[] = {[REF_RNN] = 1, [REF_LSTM] = 3, [REF_GRU] = 2};

// Place in enum ref_direction.
static int take_direction(const struct onnx_lowering *l, int64_t *ret, struct error *e)
{
    static const char *const names[] = {"forward", "reverse", "bidirectional"};
    for (int64_t i = 0; i < 3; i++)
        if (onnx_text_is(l, "direction", names[i], "forward")) {
            *ret = i;
            return 0;
        }
    return onnx_refuse(l, e, "its direction is not known");
}

// In the order of enum ref_gate. Names are written in small letters, too, as ONNX Runtime takes
// them; numbers of parameters, and what these are where none are given, are also its.
static const struct {
    const char *name;
    uint32_t parameters;
    float alpha, beta;
} activations[] = {{"sigmoid", 0, 0, 0},       {"tanh", 0, 0, 0},
                   {"relu", 0, 0, 0},          {"affine", 2, 1, 0},
                   {"leakyrelu", 1, 0.01f, 0}, {"thresholdedrelu", 1, 1, 0},
                   {"scaledtanh", 2, 1, 1},    {"hardsigmoid", 2, 0.2f, 0.5f},
                   {"elu", 1, 1, 0},           {"softsign", 0, 0, 0},
                   {"softplus", 0, 0, 0}};

static bool is_called(struct bytes name, const char *small)
{
    if (name.size != strlen(small))
        return false;
    for (size_t i = 0; i < name.size; i++)
        if ((name.data[i] | 0x20) != small[i])
            return false;
    return true;
}

static int take_function(const struct onnx_lowering *l, struct bytes name, int64_t *ret,
                         struct error *e)
{
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (is_called(name, activations[i].name)) {
            *ret = (int64_t)i;
            return 0;
        }
    return onnx_refuse(l, e, "activation %.*s is not supported", (int)name.size,
                       (const char *)name.data);
}

// Three for each direction; unused ones are 0.
static int take_functions(const struct onnx_lowering *l, int64_t kind, uint32_t directions,
                          int64_t *dst, struct error *e)
{
    static const int64_t usual[][3] = {
        [REF_RNN] = {REF_GATE_TANH},
        [REF_LSTM] = {REF_GATE_SIGMOID, REF_GATE_TANH, REF_GATE_TANH},
        [REF_GRU] = {REF_GATE_SIGMOID, REF_GATE_TANH}};
    const struct onnx_list *said = onnx_texts(l, "activations");
    uint32_t each = functions_of[kind];
    // A RNN of one direction has two where an exporter writes ONNX's default: the first one counts.
    if (said && said->n != each * directions && !(kind == REF_RNN && said->n == 2))
        return onnx_refuse(l, e, "it has %u activations", said->n);
    for (uint32_t d = 0; d < directions; d++) {
        memcpy(dst + (size_t)3 * d, usual[kind], sizeof usual[kind]);
        for (uint32_t i = 0; i < each && said; i++) {
            int r = take_function(l, said->items[d * each + i], &dst[3 * d + i], e);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

// Bits of alpha and beta of all n activations. The lists have numbers for those alone that take
// them, in their order.
static int take_parameters(const struct onnx_lowering *l, const int64_t *functions, uint32_t n,
                           int64_t *dst, struct error *e)
{
    float alpha[ONNX_MAX_SHAPE], beta[ONNX_MAX_SHAPE];
    uint32_t n_alpha, n_beta, a = 0, b = 0;
    int r = onnx_floats(l, "activation_alpha", alpha, &n_alpha, e);
    if (r == 0)
        r = onnx_floats(l, "activation_beta", beta, &n_beta, e);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        const uint32_t parameters = activations[functions[i]].parameters;
        float own_alpha = activations[functions[i]].alpha,
              own_beta = activations[functions[i]].beta;
        if (parameters > 0 && a < n_alpha)
            own_alpha = alpha[a++];
        if (parameters > 1 && b < n_beta)
            own_beta = beta[b++];
        dst[2 * i] = float_bits(own_alpha);
        dst[2 * i + 1] = float_bits(own_beta);
    }
    if (r == 0 && (a < n_alpha || b < n_beta))
        return onnx_refuse(l, e, "it has more parameters than its activations take");
    return r;
}

// Output 0 has the states of all steps, 1 and 2 the last ones.
static int set_shapes(struct onnx_lowering *l, bool batch_first, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0), *r = onnx_in(l, 2);
    enum tensor_type type = x->type;
    uint32_t batch = x->dims[!batch_first], steps = x->dims[batch_first], hidden = r->dims[2];
    uint32_t n = r->dims[0];
    uint32_t y[] = {steps, n, batch, hidden}, y_batch[] = {batch, steps, n, hidden};
    uint32_t h[] = {n, batch, hidden}, h_batch[] = {batch, n, hidden};
    int s = onnx_shape(l, 0, type, 4, batch_first ? y_batch : y, e);
    for (uint32_t i = 1; i < 3 && s == 0; i++)
        s = onnx_shape(l, i, type, 3, batch_first ? h_batch : h, e);
    return s;
}

static int check(const struct onnx_lowering *l, struct error *e)
{
    for (uint32_t i = 0; i < 3; i++)
        if (onnx_in(l, i)->n_dims != 3 || !onnx_is_float(onnx_in(l, i)->type))
            return onnx_refuse(l, e, "its input %u is not of floats in three dimensions", i);
    uint32_t hidden = onnx_in(l, 2)->dims[2];
    int64_t said = onnx_int(l, "hidden_size", hidden);
    return said == hidden ? 0 : onnx_refuse(l, e, "its hidden_size is not that of its weights");
}

int onnx_lower_recurrent(struct onnx_lowering *l, struct error *e)
{
    int64_t kind = l->operator->argument, ints[5 + 2 * 3 + 2 * 6] = {kind};
    int r = check(l, e);
    if (r == 0 && l->out[0] < 0 && (l->out[0] = onnx_tensor_new(l, l->node->name, e)) < 0)
        r = l->out[0]; // nobody wants all steps; they are computed still
    if (r == 0)
        r = take_direction(l, &ints[1], e);
    if (r < 0)
        return r;
    ints[2] = onnx_int(l, "layout", 0) != 0;
    ints[3] = onnx_int(l, "linear_before_reset", 0);
    ints[4] = (onnx_int(l, "input_forget", 0) ? REF_INPUT_FORGET : 0) |
              (l->operator->lower == onnx_lower_dynamic_lstm ? REF_STATES_IN_BYTES : 0);
    uint32_t directions = ints[1] == REF_BOTH ? 2 : 1;
    r = take_functions(l, kind, directions, ints + 5, e);
    if (r == 0)
        r = take_parameters(l, ints + 5, 3 * directions, ints + 5 + 3 * directions, e);
    if (r == 0)
        r = set_shapes(l, ints[2], e);
    if (r == 0)
        r = onnx_emit_ref(l, REF_OP_RECURRENT, l->n_in, ints, 5 + 9 * directions, e);
    if (r == 0)
        l->g->nodes[l->g->n_nodes - 1].ref.reals[0] = onnx_float(l, "clip", 0);
    return r;
}
