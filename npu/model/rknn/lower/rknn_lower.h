// What the parts of rknn_graph() share: rknn_graph.c, rknn_nodes.c, rknn_posts.c, rknn_conv.c,
// rknn_spare.c, rknn_ref.c.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/regs/rknn_commands.h"
#include "npu/model/rknn/rknn_attrs.h"

struct rknn_lowering {
    const struct rknn_file *f;
    const struct chip *chip;
    struct graph *g;
    struct rknn_regs *regs;

    // The node at hand, its inputs without those that only the chip needs, its outputs with those
    // that the file left out, and what it becomes.
    const struct rknn_node *node;
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

/// Convolutions and transposed ones; `suffix` is what follows in the operator's name.
int lower_conv(struct rknn_lowering *l, const char *suffix, struct error *e);
int lower_pool(struct rknn_lowering *l, const char *suffix, struct error *e);

/// Add, Sub, …, of real numbers or of integers; l->out->op says which.
int lower_arithmetic(struct rknn_lowering *l, const char *suffix, struct error *e);
int lower_cast(struct rknn_lowering *l, struct error *e);
int lower_softmax(struct rknn_lowering *l, struct error *e);
/// Gather of lines of a constant.
int lower_gather_from_table(struct rknn_lowering *l, struct error *e);
int lower_mean(struct rknn_lowering *l, struct error *e);
int lower_layer_norm(struct rknn_lowering *l, struct error *e);

/// Operators that have no kernel of their own, by their names in ONNX. Refuses what is none.
int lower_ref(struct rknn_lowering *l, struct error *e);

/// Whether the operator is an activation and nothing else.
bool lower_is_activation(const char *op);

/// The activations named in `suffix`, in order. "Add" is taken with `addend` (-1: refused). A
/// convolution's may lack numbers then (NAN), which its register commands have.
int lower_posts(struct rknn_lowering *l, const char *suffix, int32_t addend, struct error *e);

/// Fills what a convolution of half precision lacks; refuses what lacks numbers still.
void lower_half_posts(struct rknn_lowering *l);
int lower_check_posts(struct rknn_lowering *l, struct error *e);
