// What the parts of rknn_graph() share. rknn_ops.c has the table of operators; the functions that
// its rows name are in the file of their kind: rknn_math.c, rknn_conv.c, ….
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"
#include "npu/model/rknn/rknn_attrs.h"

struct rknn_graph_choice;
struct rknn_lowering;

/// Fills l->out; refuses what it does not fully understand.
typedef int rknn_lower(struct rknn_lowering *l, struct error *e);

// Parameters of an activation: attributes of these names, where it has such, else numbers. NAN:
// the file must say it.
struct rknn_numbers {
    float alpha, beta;
    const char *a_name, *b_name;
};

// A row of the table of operators.
struct rknn_operator {
    const char *name;  // of a node's operator; of its beginning, where others may be fused into it
    bool fuses;        // the names of others may follow
    uint32_t n_inputs; // that must be there; 0: the function looks itself
    enum graph_op op;  // what the node becomes, unless the function says otherwise
    rknn_lower *lower; // fills the node
    int64_t kind; // what the function wants to know: POST_… of an activation, REF_…, an axis
    struct rknn_numbers numbers;
};

struct rknn_lowering {
    const struct rknn_file *f;
    const struct chip *chip;
    const struct rknn_graph_choice *choice;
    struct graph *g;
    struct rknn_regs *regs;

    // The node at hand, its inputs without those that only the chip needs, its outputs with those
    // that the file left out, and what it becomes.
    const struct rknn_node *node;
    const struct rknn_operator *row;
    const char *suffix; // what follows the row's name in the node's operator
    uint32_t n_inputs;
    int32_t *inputs;
    const int32_t *outputs; // node->n_outputs
    struct graph_node *out;
};

/// The tensor of input i, or NULL. Constants have been checked and can be unpacked.
struct graph_tensor *lower_input(const struct rknn_lowering *l, uint32_t i);
struct graph_tensor *lower_output(const struct rknn_lowering *l, uint32_t i);

/// Words for a node that is refused.
#define lower_refuse(l, e, ...) graph_refuse((l)->out, e, __VA_ARGS__)

/// Fills l->out from l->node.
int lower_node(struct rknn_lowering *l, struct error *e);

/// How many outputs of the file's nodes need a tensor that the file does not have.
uint32_t lower_count_spares(const struct rknn_file *f);

/// Sets l->outputs. Such tensors are added to the graph, which has room for them.
int lower_spares(struct rknn_lowering *l, struct error *e);

/// Takes the first n inputs, which must all be there.
int lower_inputs(struct rknn_lowering *l, uint32_t n, struct error *e);

/// Sets l->out->axis to the node's axis of its first input, counted from the end when negative;
/// `absent` where the file has none.
int lower_axis(struct rknn_lowering *l, int64_t absent, struct error *e);

/// Integers of an input that is a constant, at most 2 * GRAPH_MAX_DIMS; *n is 0 when it is left
/// out.
int lower_ints(struct rknn_lowering *l, uint32_t input, int64_t *values, uint32_t *n,
               struct error *e);

/// The number that an input holds; false: it is no constant of one element.
bool lower_number(const struct rknn_lowering *l, uint32_t input, float *ret);

/// Gives a tensor of one input the room of `batch`, and refuses nodes that are not known to do with
/// each input what they do with one.
void lower_batch(struct graph_tensor *t, uint32_t batch);
int lower_check_batch(const struct rknn_lowering *l, struct error *e);

/// The place of a text attribute's value among n names; refuses others.
int lower_pick(const struct rknn_lowering *l, const char *attr, const char *absent,
               const char *const *names, uint32_t n, uint32_t *ret, struct error *e);

/// Whether a tensor's elements are integers or truth values, not quantized numbers.
bool lower_is_integers(const struct graph_tensor *t);

/// Whether its elements are bytes that stand for real numbers, and come from a node or an input.
bool lower_is_bytes(const struct graph_tensor *t);

/// Makes the node a reference operator of its first n_in inputs; `ints` are copied.
int lower_emit_ref(struct rknn_lowering *l, enum graph_ref_op op, uint32_t n_in,
                   const int64_t *ints, uint32_t n_ints, struct error *e);

/// The operator that `text` begins with and that is an activation; the longest of several. NULL:
/// none.
const struct rknn_operator *rknn_activation(const char *text);

/// The activations named in `suffix`, in order. "Add" is taken with `addend` (-1: refused). A
/// convolution's may lack numbers then (NAN), which its register commands have.
int lower_posts(struct rknn_lowering *l, const char *suffix, int32_t addend, struct error *e);

/// Fills what a convolution in fp16 lacks; refuses what lacks numbers still.
void lower_fp16_posts(struct rknn_lowering *l);
int lower_check_posts(struct rknn_lowering *l, struct error *e);

/// The factor in front of a convolution's table in fp16; NaN: it has none.
float lower_fp16_gain(const struct rknn_lowering *l);

/// Whether the table is the activation for some factor, and for this gain; NaN: for some gain, too.
bool lower_table_is(const struct graph_post *p, const struct graph_lut *lut, double gain);

/// Refuses a convolution in fp16 whose table, looked up at sums times a gain, is not known to hold
/// the activation of its name. `said`: the gain, NaN where registers do not say it.
int lower_check_table(struct rknn_lowering *l, float said, struct error *e);

/// Sets l->out->chains of what has been lowered.
int lower_chains(struct rknn_lowering *l, struct error *e);

/// Whether its registers say how it computes. A converter's always do.
bool lower_has_program(const struct rknn_lowering *l);

/// Refuses a node of the NPU that should only move bytes and whose registers change them.
int lower_copies(struct rknn_lowering *l, struct error *e);

/// Of a Resize of the NPU that interpolates: whether its tasks take the parts of pixels that its
/// attributes say, and how they round halves.
int lower_phases(struct rknn_lowering *l, struct error *e);

/// Whether an exSoftmax13 is one by what its tasks do.
bool lower_is_softmax(const struct rknn_lowering *l);

/// Refuses a node of the NPU whose operator's name would be believed: no file at hand shows by
/// which registers it is computed. After lower_chains().
int lower_check_read(const struct rknn_lowering *l, struct error *e);

// What the rows of the table (rknn_ops.c) name. The row's inputs are there, l->out->op is set, and
// the rest of *l->out is theirs to fill. Those that say nothing here take no argument.
rknn_lower lower_plain; // nothing is to be filled
rknn_lower lower_unary, lower_two, lower_cast, lower_convert, lower_mat_mul, lower_ex_mat_mul;
rknn_lower lower_arithmetic;                  // REF_ADD, …, for integers
rknn_lower lower_ref;                         // REF_OP_…, of as many inputs as the row has
rknn_lower lower_ref_binary, lower_ref_unary; // REF_EQUAL, …; REF_NOT, …
rknn_lower lower_conv, lower_pool;            // of images
rknn_lower lower_attention;
rknn_lower lower_resize, lower_upsample, lower_grid_sample;
rknn_lower lower_norm, lower_layer_norm, lower_ex_norm, lower_instance_norm;
rknn_lower lower_concat, lower_transpose, lower_slice, lower_pad, lower_gather;
rknn_lower lower_space; // 1: to depth
rknn_lower lower_gather_nd, lower_one_hot, lower_trilu, lower_cum_sum;
rknn_lower lower_scatter;   // REF_OP_SCATTER_…
rknn_lower lower_recurrent; // REF_LSTM, …
rknn_lower lower_along;     // the axis where the file has none
rknn_lower lower_arg_reduce, lower_top_k, lower_softmax, lower_log_softmax;
rknn_lower lower_hardmax, lower_lrn;
rknn_lower lower_reduction, lower_mean; // REF_SUM, …
