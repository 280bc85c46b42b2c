// How ONNX nodes become nodes of the graph: what the files of the ONNX front-end share.
#pragma once

#include "npu/model/graph_executor.h"
#include "npu/model/load_options.h"
#include "npu/model/onnx/onnx_file.h"
#include "npu/model/onnx/onnx_operators.h"

#define ONNX_MAX_SHAPE 64 // numbers of a shape, of axes, of pads

#define ONNX_MAX_DEPTH 24 // of graphs in nodes of graphs in nodes, and of functions in functions

// Nodes that loops may become, and their repetitions.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define ONNX_REPEATED_MAX 256
#else
#define ONNX_REPEATED_MAX 65536
#endif

// Bytes of a model's constants that were computed.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define ONNX_FOLDED_MAX ((uint64_t)1 << 20) // quick ones, many
#else
#define ONNX_FOLDED_MAX ((uint64_t)128 << 20)
#endif

struct onnx_expansion;
struct onnx_names;
struct onnx_operator;
struct onnx_sequence;

// What a dequantized tensor was made of.
struct onnx_origin {
    int32_t tensor;       // of floats
    int32_t q, scale, zp; // zp -1: none
    int64_t axis;
};

struct onnx_lowering {
    const struct onnx_file *f; // or the graph inside a node that is being lowered
    const struct load_options *options;
    const struct graph_executor *executor;
    uint32_t shape_set; // of the options
    struct graph *g;
    struct onnx_names *names;
    uint32_t room_tensors, room_nodes;
    struct onnx_origin *origins;
    uint32_t n_origins, room_origins;
    struct onnx_sequence *sequences; // lists of tensors (onnx_sequence.c)
    uint32_t n_sequences, room_sequences;
    uint64_t folded;           // bytes of constants that were computed
    uint32_t depth;            // of graphs inside nodes
    uint32_t n_repeated;       // of ONNX_REPEATED_MAX
    struct onnx_names *stated; // of f: names to f->values, then f->outputs; made when it is needed

    const struct onnx_node *node;
    const struct onnx_operator *operator;
    uint32_t n_in, n_out;
    int32_t in[ONNX_MAX_EDGES], out[ONNX_MAX_EDGES]; // tensors; -1: left out
};

// One operator of ONNX.
struct onnx_operator {
    const char *name;
    uint32_t min_inputs, max_inputs, max_outputs;
    int (*lower)(struct onnx_lowering *l, struct error *e);
    int64_t argument; // the lowering function's own
};

/// NULL: the operator is not known.
const struct onnx_operator *onnx_operator(const char *name);

/// Whether a node's domain is ONNX's own.
bool onnx_is_standard(const char *domain);

/// STATUS_MODEL_INVALID in the form "node NAME (TYPE): …".
int onnx_refuse(const struct onnx_lowering *l, struct error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- the node's inputs and attributes ----

/// NULL: left out. Valid until the next tensor is made.
const struct graph_tensor *onnx_in(const struct onnx_lowering *l, uint32_t i);

bool onnx_has_attr(const struct onnx_lowering *l, const char *name);
int64_t onnx_int(const struct onnx_lowering *l, const char *name, int64_t otherwise);
float onnx_float(const struct onnx_lowering *l, const char *name, float otherwise);
bool onnx_text_is(const struct onnx_lowering *l, const char *name, const char *value,
                  const char *otherwise);

/// Empty: the attribute is not there.
struct bytes onnx_text(const struct onnx_lowering *l, const char *name);
/// A Resize's nearest_mode, or `otherwise` without it. False: it is not known.
bool onnx_nearest_mode(const struct onnx_lowering *l, const char *otherwise,
                       enum graph_nearest_mode *ret);
/// A list of texts. NULL: the attribute is not there.
const struct onnx_list *onnx_texts(const struct onnx_lowering *l, const char *name);
/// A list of integers. *ret_n is 0 when the attribute is not there. Numbers that no size or place
/// has (beyond 2^30; not of a Slice, which are cut off) are refused.
int onnx_ints(const struct onnx_lowering *l, const char *name, int64_t *dst, uint32_t *ret_n,
              struct error *e);
int onnx_floats(const struct onnx_lowering *l, const char *name, float *dst, uint32_t *ret_n,
                struct error *e);

/// Integers of input i, which must be a constant; *ret_n is 0 when it is left out.
int onnx_in_ints(const struct onnx_lowering *l, uint32_t i, int64_t *dst, uint32_t *ret_n,
                 struct error *e);
int onnx_in_floats(const struct onnx_lowering *l, uint32_t i, float *dst, uint32_t *ret_n,
                   struct error *e);

/// Axis attribute, counted from the end when negative; must be below n.
int onnx_axis(const struct onnx_lowering *l, int64_t axis, uint32_t n, int64_t *ret,
              struct error *e);

// ---- what is made ----

/// Sets type and shape of output i.
int onnx_shape(struct onnx_lowering *l, uint32_t i, enum tensor_type type, uint32_t n_dims,
               const uint32_t *dims, struct error *e);

/// As an input's.
int onnx_shape_like(struct onnx_lowering *l, uint32_t i, const struct graph_tensor *t,
                    struct error *e);

/// The shape that ONNX's broadcasting gives of two inputs.
int onnx_shape_broadcast(struct onnx_lowering *l, enum tensor_type type, uint32_t n,
                         struct error *e);

/// A tensor without type and shape yet. Negative: an error.
int32_t onnx_tensor_new(struct onnx_lowering *l, const char *name, struct error *e);

/// A tensor between nodes of one lowering. Negative: an error.
int32_t onnx_temporary(struct onnx_lowering *l, enum tensor_type type, uint32_t n_dims,
                       const uint32_t *dims, struct error *e);

/// A constant; data must live in the pool or the file.
int32_t onnx_constant(struct onnx_lowering *l, enum tensor_type type, uint32_t n_dims,
                      const uint32_t *dims, const void *data, struct error *e);

/// The same elements in another shape: a Reshape, or for constants another shape of the same data.
/// Negative: an error.
int32_t onnx_reshaped(struct onnx_lowering *l, int32_t tensor, uint32_t n_dims,
                      const uint32_t *dims, struct error *e);

/// `size` elements of a tensor along an axis; `keeps`: with that axis, else size is 1. Negative: an
/// error.
int32_t onnx_part(struct onnx_lowering *l, int32_t tensor, uint32_t axis, uint32_t start,
                  uint32_t size, bool keeps, struct error *e);

/// Output i becomes n tensors one behind the other along a new axis, which may be counted from the
/// end.
int onnx_stack(struct onnx_lowering *l, uint32_t i, const int32_t *parts, uint32_t n, int64_t axis,
               bool backwards, struct error *e);

/// Whether a tensor stands for a list of tensors.
bool onnx_is_sequence(const struct onnx_lowering *l, int32_t tensor);

/// Refuses such inputs of a node whose operator knows none.
int onnx_check_sequences(const struct onnx_lowering *l, struct error *e);

/// A new node. NULL with words when memory is short. Valid until the next one is made.
struct graph_node *onnx_emit(struct onnx_lowering *l, enum graph_op op, const int32_t *in,
                             uint32_t n_in, const int32_t *out, uint32_t n_out, struct error *e);

/// The usual form: the node's own inputs (the first n of them) to its own outputs.
struct graph_node *onnx_emit_own(struct onnx_lowering *l, enum graph_op op, uint32_t n_in,
                                 struct error *e);

/// A node that a reference operator (graph_ref.h) computes.
int onnx_emit_ref(struct onnx_lowering *l, enum graph_ref_op op, uint32_t n_in, const int64_t *ints,
                  uint32_t n_ints, struct error *e);

/// Makes output 0 the same tensor as `tensor`, or a copy where it must be one of its own.
int onnx_same(struct onnx_lowering *l, int32_t tensor, struct error *e);

/// As onnx_same(), of output i.
int onnx_same_as(struct onnx_lowering *l, uint32_t i, int32_t tensor, struct error *e);

/// Weights of DequantizeLinear are kept as the file holds them: computes such a constant's real
/// numbers. Nothing happens to other tensors.
int onnx_unpacked(struct onnx_lowering *l, int32_t tensor, struct error *e);

/// Turns t, a copy of the 8-bit weight w with that's data, into int8 in the order outputs, inputs,
/// window: 128 less where w is uint8. `transposed`: w's outputs are the last of two dimensions.
int onnx_int8_weight(struct pool *pool, const struct graph_tensor *w, bool transposed,
                     struct graph_tensor *t, struct error *e);

/// Emits the exact sums of products of bytes: y[o] = Σ (x - x_zp) * (w[o] - w_zp[o]), int32. zero
/// points are the node's inputs 2 and 3, of which onnx_sums_fit() is true. x: bytes, which are
/// taken as channels-last images of x_dims. y: images that are padded as the window says.
int onnx_emit_sums(struct onnx_lowering *l, int32_t x, const uint32_t x_dims[4], int32_t weight,
                   bool transposed, const struct graph_window *window, int32_t y, struct error *e);

/// Whether the node's inputs, the usual four, are of those: its image is not constant, its weight
/// and that's zero points (of `outputs` channels) are.
bool onnx_sums_fit(const struct onnx_lowering *l, uint32_t outputs);

/// Gives output i the data of a constant that is known at once.
int onnx_known(struct onnx_lowering *l, uint32_t i, const void *data, struct error *e);

static inline bool onnx_is_float(enum tensor_type type)
{
    return type == TENSOR_FLOAT32 || type == TENSOR_FLOAT16;
}

// ---- the groups of operators ----

#define X(name, fewest, most, outputs, lower, argument)                                            \
    int lower(struct onnx_lowering *l, struct error *e);
ONNX_OPERATORS(X)
#undef X

/// Convolutions and pools that graph nodes of images cannot do: slow.
int onnx_lower_any_conv_integer(struct onnx_lowering *l, struct error *e);
int onnx_lower_any_conv(struct onnx_lowering *l, struct error *e);
int onnx_lower_any_conv_transpose(struct onnx_lowering *l, struct error *e);
int onnx_lower_any_pool(struct onnx_lowering *l, struct error *e);

/// An operator that is done as several others, which take() takes one by one. NULL: it is none.
const struct onnx_expansion *onnx_expansion(const struct onnx_lowering *l,
                                            const struct onnx_node *n);
int onnx_expand(struct onnx_lowering *l, const struct onnx_expansion *x, const struct onnx_node *of,
                int (*take)(struct onnx_lowering *l, const struct onnx_node *n, struct error *e),
                struct error *e);

/// The node calls a function of the file, which is lowered in its place.
int onnx_lower_call(struct onnx_lowering *l, const struct onnx_function *function, struct error *e);

/// Refuses attributes that the node's operator does not have.
int onnx_check_attributes(const struct onnx_lowering *l, struct error *e);

/// Which of the node's operands, a bit for each, decide what it does, and are not known yet.
uint32_t onnx_late_operands(const struct onnx_lowering *l);

/// Leaves the node to be lowered in a run, when the operands `decides` are known. Outputs have the
/// types and shapes that the file states; refuses where it states none. `captured`: names besides
/// the node's inputs that it needs.
int onnx_lower_late(struct onnx_lowering *l, uint32_t decides, const char *const *captured,
                    uint32_t n_captured, struct error *e);

/// The same for a node whose input 0 is a truth value. Outputs have the shapes that true gives, or
/// false where true cannot be lowered; where neither can the node is refused.
int onnx_lower_choice(struct onnx_lowering *l, const char *const *captured, uint32_t n_captured,
                      struct error *e);

/// Lowers nodes one after the other, as those of a file.
int onnx_lower_nodes(struct onnx_lowering *l, const struct onnx_node *nodes, uint32_t n,
                     struct error *e);

/// The constants of l->f.
int onnx_lower_initializers(struct onnx_lowering *l, struct error *e);

/// The rest, after all nodes: outputs, quantized nodes, fusion.
int onnx_lower_outputs(struct onnx_lowering *l, struct error *e);

/// Computes a node whose inputs are all constants: its outputs become constants. Refuses what the
/// executor refuses.
int onnx_fold(struct onnx_lowering *l, const struct graph_node *n, struct error *e);

/// Chooses the order of 4-dimensional tensors in memory.
int onnx_order(struct graph *g, struct error *e);

/// Joins what a GELU is written as.
int onnx_gelu(struct graph *g, struct error *e);

/// Makes nodes between dequantization and quantization work on 8-bit numbers.
int onnx_qdq(struct onnx_lowering *l, struct error *e);

/// Joins nodes where one can do the work of several.
int onnx_fuse(struct graph *g, struct error *e);
