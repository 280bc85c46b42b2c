// RNN, LSTM and GRU of ONNX, as one reference operator (graph_ref.h has its parameters).
//
//      x  [steps, batch, inputs]         w  [directions, gates * hidden, inputs]
//      y  [steps, directions, batch, hidden]      r  [directions, gates * hidden, hidden]
//
// layout 1 puts the batch first in x and y.
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

// Place in enum ref_gate.
static int take_function(const struct onnx_lowering *l, struct bytes name, int64_t *ret,
                         struct error *e)
{
    static const char *const names[] = {"Sigmoid", "Tanh", "Relu"};
    for (int64_t i = 0; i < 3; i++)
        if (name.size == strlen(names[i]) && memcmp(name.data, names[i], name.size) == 0) {
            *ret = i;
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
    if (said && said->n != each * directions)
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
    if (onnx_has_attr(l, "activation_alpha") || onnx_has_attr(l, "activation_beta"))
        return onnx_refuse(l, e, "activations with parameters are not supported");
    uint32_t hidden = onnx_in(l, 2)->dims[2];
    int64_t said = onnx_int(l, "hidden_size", hidden);
    return said == hidden ? 0 : onnx_refuse(l, e, "its hidden_size is not that of its weights");
}

int onnx_lower_recurrent(struct onnx_lowering *l, struct error *e)
{
    int64_t kind = l->operator->argument, ints[5 + 2 * 3] = {kind};
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
        r = set_shapes(l, ints[2], e);
    if (r == 0)
        r = onnx_emit_ref(l, REF_OP_RECURRENT, l->n_in, ints, 5 + 3 * directions, e);
    if (r == 0)
        l->g->nodes[l->g->n_nodes - 1].ref.reals[0] = onnx_float(l, "clip", 0);
    return r;
}
