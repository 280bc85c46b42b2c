// A network as the executor takes it: tensors and nodes in the order of execution. Every model
// format is turned into this form.
#pragma once

#include "base/bytes.h"
#include "npu/model/graph_ref.h"
#include "npu/model/pool.h"
#include "tensor/custom_node.h"
#include "tensor/tensor.h"

#define GRAPH_MAX_DIMS  8
#define GRAPH_MAX_POST  4
#define GRAPH_NO_OFFSET UINT64_MAX

struct graph_tensor {
    const char *name;
    enum tensor_type type;
    uint32_t n_dims;
    uint32_t dims[GRAPH_MAX_DIMS]; // images: N, C, H, W
    uint64_t n_elems;
    size_t size;        // bytes, packed
    bool channels_last; // 4-D, and in memory as N, H, W, C; else in the order of dims
    bool quantized;     // real = (stored - zp) * scale
    float scale;
    int32_t zp;
    // A real is stored as round(real / scale) + zp, ONNX's rule; else as round(real / scale + zp),
    // the chips'. Ties, which go to the even integer, differ where zp is odd.
    bool rounds_before_zp;
    bool counts_from_0; // rounds_before_zp: ONNX Runtime computes with these numbers as unsigned
                        // ones

    bool natural; // int64 that stands for uint64: operators refuse to read or make negative numbers

    bool nibbles; // bytes that stand for numbers of 4 bits

    // Of a constant: what the file holds. `unpack` turns it into n_elems packed elements as dims
    // say; NULL: that is what it already is.
    bool constant;
    struct bytes data;
    void (*unpack)(const struct graph_tensor *t, void *dst);
    const void *packing; // for unpack

    // Of any other: where it lives.
    uint64_t arena_offset; // offset in the arena; GRAPH_NO_OFFSET: the executor finds one
    uint64_t arena_bytes;  // bytes there
    uint32_t stride_align; // of a model input: its width stride on the device is a multiple of this
};

// All operators. To add one: a row here (and what is particular to it in graph_node), and a file
// npu/sim/ops/op_NAME.c that defines the struct op (npu/sim/exec/step.h). What reads models then
// makes such nodes: a row of onnx_operators.h or rknn_ops.c.
//
// X(GRAPH_…, the struct op that computes it, ESTIMATE_… (estimate.h): what it costs on the chip,
//   BATCH_…: whether it does with each of several inputs what it does with one)
// clang-format off
#define GRAPH_OPS(X) \
    X(CONV, op_conv, CONV, EACH) \
    X(CONV_TRANSPOSE, op_conv, CONV, EACH) \
    X(MAX_POOL, op_pool, WHOLE, EACH) \
    X(AVERAGE_POOL, op_pool, WHOLE, EACH) \
    X(ADD, op_binary, VALUES, EACH) \
    X(SUB, op_binary, WHOLE, EACH) \
    X(MUL, op_binary, WHOLE, EACH) \
    X(DIV, op_binary, WHOLE, EACH) \
    X(POW, op_binary, WHOLE, EACH) \
    X(MOD, op_binary, WHOLE, NONE) \
    X(MAX, op_binary, WHOLE, EACH) \
    X(MIN, op_binary, WHOLE, EACH) \
    X(PRELU, op_binary, VALUES, EACH) \
    X(UNARY, op_unary, VALUES, EACH) /* one of graph_post_kind */ \
    X(CONCAT, op_concat, VALUES, AXIS) \
    X(SPLIT, op_split, WHOLE, AXIS) \
    X(SLICE, op_slice, WHOLE, NONE) \
    X(PAD, op_pad, WHOLE, BEGIN) \
    X(EXPAND, op_expand, WHOLE, EACH) \
    X(RESHAPE, op_reshape, WHOLE, EACH) \
    X(TRANSPOSE, op_transpose, WHOLE, PERM) \
    X(RESIZE, op_resize, WHOLE, EACH) \
    X(BATCH_NORM, op_norm, WHOLE, EACH) \
    X(SOFTMAX, op_softmax, WHOLE, AXIS) \
    X(LOG_SOFTMAX, op_log_softmax, WHOLE, NONE) \
    X(LAYER_NORM, op_layer_norm, WHOLE, NONE) \
    X(GLU, op_glu, WHOLE, AXIS) \
    X(REDUCE_MEAN, op_reduce_mean, WHOLE, AXES) \
    X(ARG_MAX, op_arg_max, WHOLE, AXIS) \
    X(CONVERT, op_convert, WHOLE, EACH) /* Cast, DequantizeLinear */ \
    X(EX_MAT_MUL, op_ex_mat_mul, WHOLE, NONE) /* exMatMul of .rknn files */ \
    X(GRID_SAMPLE, op_grid_sample, WHOLE, NONE) \
    X(TOP_K, op_top_k, WHOLE, NONE) \
    X(GATHER, op_gather, WHOLE, NONE) \
    X(GATHER_ELEMENTS, op_gather_elements, WHOLE, NONE) \
    X(CUSTOM, op_custom, WHOLE, NONE) /* a program or plugin computes it */ \
    X(MAT_MUL, op_mat_mul, WHOLE, NONE) \
    X(REF, op_ref, WHOLE, NONE) /* one of graph_ref.h */ \
    X(QUANTIZE, op_quantize, WHOLE, NONE) \
    X(MAP, op_map, WHOLE, NONE) /* a table of 256 bytes */ \
    X(SIGNED_BYTES, op_signed_bytes, VALUES, NONE) /* int8 of bytes, padded with input 1 */ \
    X(OBSERVE, op_observe, WHOLE, NONE) /* for calibrations */ \
    X(DYNAMIC_QUANTIZE, op_dynamic_quantize, VALUES, NONE) \
    X(LATE, op_late, WHOLE, NONE) /* a run decides what it does */ \
    X(PROGRAM, op_program, WHOLE, NONE) /* by the file's own register program */
// clang-format on

enum graph_op {
#define X(symbol, kernel, cost, batch) GRAPH_##symbol,
    GRAPH_OPS(X)
#undef X
        GRAPH_OP_COUNT
};

// Whether a node computes each input of a batch, along dimension 0, on its own.
enum graph_batch {
    BATCH_NONE,  // not known to
    BATCH_EACH,  // element by element, or window by window
    BATCH_AXIS,  // unless its axis is the batch
    BATCH_PERM,  // unless it moves the batch
    BATCH_BEGIN, // unless it pads the batch
    BATCH_AXES,  // unless it reduces the batch
};

// What is done to each value: as an operator of its own (UNARY) or behind another one.
enum graph_post_kind {
    POST_RELU,
    POST_CLIP,       // alpha .. beta
    POST_LEAKY_RELU, // alpha
    POST_SIGMOID,
    POST_SWISH,        // x * sigmoid(x)
    POST_HARD_SIGMOID, // clip(alpha * x + beta, 0, 1)
    POST_HARD_SWISH,   // x * hard_sigmoid(x), alpha 1/6, beta 1/2
    POST_TANH,
    POST_EXP,
    POST_SQRT,
    POST_ABS,
    POST_NEG,
    POST_GELU,
    POST_GELU_TANH, // its approximation by tanh
    POST_ELU,       // alpha
    POST_SOFTPLUS,
    POST_MISH,
    POST_SWOOSH, // softplus(x - alpha) - 0.08 x - beta
    POST_ERF,
    POST_LOG,
    POST_FLOOR,
    POST_RECIPROCAL,
    POST_SIN,
    POST_COS,
    POST_SOFTSIGN, // x / (1 + |x|)
    POST_CEIL,
    POST_ROUND, // to nearest, ties to even
    POST_SIGN,
    POST_SCALE, // alpha * x + beta
    POST_ADD,   // + operand, which has the output's shape or one that broadcasts to it
    POST_LUT,   // the chip's lookup table, of integer convolutions
    POST_KIND_COUNT
};

// The chip's lookup table for activations: two tables of 513 points with straight lines between.
// A value enters as an integer; [-16384, 0] is covered by below[], [0, 16384] by above[], in steps
// of 32, straight lines beyond. What comes out, y, becomes the stored value.
#define LUT_POINTS 513

struct graph_lut {
    int16_t below[LUT_POINTS], above[LUT_POINTS];
    int16_t slope[2];        // below and above the tables: y changes by slope / 2^slope_shift
    uint32_t slope_shift[2]; // less than 32
    int32_t out_factor;      // stored = y * out_factor / 2^out_shift + out_offset
    uint32_t out_shift;      // less than 64
    int32_t out_offset;
};

struct graph_post {
    enum graph_post_kind kind;
    float alpha, beta;
    int32_t operand; // tensor of POST_ADD
    const struct graph_lut *lut;
};

struct graph_window {
    uint32_t kernel[2], stride[2], dilation[2]; // height, width; dilation 1: dense
    uint32_t pad[4];                            // top, left, bottom, right
    uint32_t groups;
    bool count_pad; // AveragePool: padding counts as elements
};

struct graph_layer_norm {
    float epsilon;
    // What is normalized: the dimensions from the node's axis on, or channels-last images pixel by
    // pixel or as a whole, with a scale and a bias for each channel, which may be left out.
    enum { NORM_TAIL, NORM_PIXELS, NORM_IMAGES } image;
    bool rms; // without the mean
    bool sum; // with rms: by the root of the sum of squares, epsilon at least (unit length)
};

// x * factor / 2^shift, to the nearest integer, ties to even.
struct graph_scaling {
    int32_t factor;
    uint32_t shift; // less than 64
};

// What the chips make of sums: integers of 32 bits that saturate, rounded by each scaling. [0] is
// for numbers that are not negative, [1] for negative ones.
//   v      = sum * mul[o] / 2^mul_shift
//   w      = v scaled by `bn`, within `bounds`
//   x      = w + (addend + addend_offset) scaled by `addend`, within `sum_bounds`
//   stored = x scaled by `out`, + zp before it is rounded, saturated
struct graph_stages {
    // Sums, nz[o] * S in them and the bias not, lose so many bits, to the nearest, halves to even;
    // that is part of mul_shift, and biases are multiples of 2^sum_shift.
    uint32_t sum_shift;
    int16_t *mul; // of each output channel
    uint32_t mul_shift[2];
    struct graph_scaling bn[2];
    int32_t bounds[2]; // lowest and highest
    bool has_addend;   // else a POST_ADD is of real numbers
    int32_t addend_offset;
    struct graph_scaling addend;
    int32_t sum_bounds[2];
    struct graph_scaling out;
    int32_t zp;
};

// An addition or a product of two int8 as the chips do it, in the same way:
//   stored = ((a + offset[0]) scaled + (b + offset[1]) scaled) scaled by `out`, + zp, saturated
struct graph_sum {
    bool product; // of both, instead of their sum
    int32_t offset[2];
    struct graph_scaling operand[2]; // of each input
    struct graph_scaling out;
    int32_t zp;
};

// What the chips make of the bytes of one tensor in memory: integers of 32 bits that saturate,
// rounded by each scaling. [0] is for numbers that are not negative, [1] for negative ones.
//   v      = (x + bs_add) scaled by `bs`                  within bounds[0]
//   w      = (v * factor + bn_add) / 2^shift, by `bn`     within bounds[1]
//   w      = the table's, at w
//   stored = w scaled by `out`, + zp before it is rounded, saturated
struct graph_chain {
    int32_t bs_add, bn_add;
    struct graph_scaling bs[2], bn[2];
    int32_t bounds[2][2];        // lowest and highest
    const struct graph_lut *lut; // has `out`, too; NULL: none
    struct graph_scaling out;
    int32_t zp;
};

// An integer convolution: real = scale[o] * (Σ (x - zp_x) * (w + nz[o]) + bias[o]).
struct graph_conv_quant {
    uint32_t n;    // output channels
    double *scale; // without the roundings of a float, which could move a sum over a half
    int32_t *bias;
    int16_t *nz;     // one for each output channel, or one for each element of a depthwise weight
    bool nz_in_taps; // then [n][kh][kw]
    bool in_output_units; // scale is divided by the output's; outputs are computed in floats, as
                          // ONNX Runtime does
    // The output is int32: the sums as they are; or float32, made of them as told below. The image
    // has no padding. Inputs, each of which may be -1:
    //   3   its zero point, which only a run knows: one number, as the image had before it was int8
    //   4   the scale of a float32 output, one number
    //   5   what is added to it, a constant of one float for each output channel
    bool sums;
    bool bias_holds_zp;          // bias contains -zp_x * Σ (w + nz) already
    struct graph_stages *stages; // how the chip gets from sums to stored values; NULL: it is no
                                 // chip's
};

enum graph_coordinates {
    COORDINATES_HALF_PIXEL,
    COORDINATES_PYTORCH_HALF_PIXEL,
    COORDINATES_ALIGN_CORNERS,
    COORDINATES_ASYMMETRIC,
    COORDINATES_HALF_PIXEL_NN, // tf_half_pixel_for_nn
};

enum graph_interpolation { INTERPOLATE_NEAREST, INTERPOLATE_LINEAR, INTERPOLATE_CUBIC };

// Away from the zero point, towards it, or to the even stored value.
enum graph_halves { HALVES_AWAY, HALVES_TOWARDS, HALVES_EVEN };

enum graph_nearest_mode { NEAREST_ROUND_DOWN, NEAREST_ROUND_UP, NEAREST_FLOOR, NEAREST_CEIL };

struct graph_resize {
    enum graph_interpolation mode;
    enum graph_coordinates coordinates;
    enum graph_nearest_mode nearest;
    float cubic_a;
    float scale[2];       // of height and width; 0: as the sizes say
    bool exclude_outside; // cubic: only pixels of the image count
    // How the chip rounds halves of bytes where an image becomes a whole number of times larger: of
    // each of these lines and columns, which repeat. NULL: to the even stored value.
    uint32_t phases[2];
    const enum graph_halves *halves; // [phases[0]][phases[1]]
};

/// The pixel that a position between two is rounded to, as `nearest` of a graph_resize says. A half
/// is what is within a millionth of one, as in ONNX Runtime, since positions are floats.
float graph_nearest(enum graph_nearest_mode nearest, float at);

struct graph;
struct graph_node;

// A node of which a run decides what it does: the values of some of its inputs are sizes or axes,
// or choose a branch.
struct graph_late {
    uint32_t decides; // a bit for each of these inputs, of the first 32
    /// Makes the graph that does the node's work for given values. values[i]: the elements of input
    /// i, packed in the order of its dimensions, where that decides; they are copied. ret's inputs
    /// are the node's others that are not constants, in order, and its outputs those that the node
    /// has; types and shapes are those of g's tensors. Any thread. On failure ret is empty.
    int (*make)(const struct graph *g, const struct graph_node *n, const void *const *values,
                struct graph *ret, struct error *e);
    const void *reader; // make's own
};

struct graph_node {
    enum graph_op op;
    const char *name, *type; // type: as the file calls it
    bool on_cpu;
    uint32_t n_tasks;   // that one core of the NPU does it in; 0: not known
    uint32_t program;   // from 1: the file's node by whose register program it can be done; 0: none
    const char *unread; // PROGRAM: why it is not done otherwise
    uint32_t n_inputs, n_outputs;
    const int32_t *inputs, *outputs; // tensor indices; -1: unused. Convolution: x, weight, [bias]
    uint32_t n_attributes;           // of nodes that others may compute
    const struct custom_attribute *attributes;
    uint32_t custom; // its number, from 1, among those nodes; 0: only the executor computes it
    uint32_t n_post;
    struct graph_post post[GRAPH_MAX_POST];
    // How the chip makes bytes of bytes, activations included: of each input of Concat, each output
    // of Split, else one. Any of them, and all, may be NULL: through real numbers.
    const struct graph_chain *const *chains;
    union {
        struct {
            struct graph_window window;     // convolutions and pools
            struct graph_conv_quant *quant; // integer convolutions; NULL: real numbers
        };
        struct {
            int32_t axis; // Concat, Split, Softmax, ArgMax, Gather, TopK, LayerNormalization, Glu
            bool largest; // TopK
            struct graph_layer_norm layer_norm;
        };
        struct {
            uint32_t perm[GRAPH_MAX_DIMS];
            // What the input is seen as, where `perm` is of other dimensions than its own, and the
            // output of other ones than these turned. graph_tensor_split() divides both so. 0: not.
            uint32_t n_apart, apart[GRAPH_MAX_DIMS];
        };
        struct {
            bool bins;         // counts of all values
            uint32_t channels; // 0: their sums are not wanted
            bool tails;        // are handed over as well
            uint32_t stride;   // between values that are handed over; 0: none is
        } observe;
        struct {
            int64_t start[GRAPH_MAX_DIMS], step[GRAPH_MAX_DIMS]; // of every dimension
        } slice;
        struct {
            uint32_t begin[GRAPH_MAX_DIMS];
            float value; // real
            enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } mode;
        } pad;
        // SignedBytes: y = x for int8, x - 128 for uint8; in front of height and width of an image
        // are these lines of input 1, which is as x is, and behind what the output has more.
        uint32_t lines[2];
        struct graph_resize resize;
        struct {
            float epsilon;
            // BatchNormalization of integers: scale and bias are of quantized units, the bias holds
            // what the input's zero point takes: (stored * scale + bias) steps of both scales.
            bool integer;
            // … which the chip scales by this, zp added before it is rounded; factor 0: not said.
            struct graph_scaling out;
        } norm;
        struct {
            bool align_corners, nearest, cubic; // neither: bilinear
            enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION } outside;
        } grid;
        struct graph_late late;
        const struct graph_sum *sum; // Add, Mul of int8; NULL: of real numbers
        const int8_t *map;           // Map: what becomes of each of 256 stored bytes
        struct {
            bool multiply; // exMatMul: the product is multiplied by input 2, else that is added
            // Of int8: input 1 is multiplied by this and rounded to an int8 before (0: it is not).
            float factor;
            // What comes out is that of the scales times this, which is nearly 1 (0: it is not).
            float gain;
        } ex_product;
        uint32_t axes; // ReduceMean: a bit for each dimension
        struct {
            enum graph_ref_op op;
            const int64_t *ints; // what they mean is the operator's affair
            uint32_t n_ints;
            float reals[REF_MAX_REALS];
            bool dequantize; // quantized tensors are the real numbers that they stand for
        } ref;
        struct {
            float alpha, beta; // MatMul: alpha * A * B + beta * input 2
            bool transpose[2];
        } product;
    };
};

// The register programs of a file's nodes; they are the executor's affair. NULL in a graph: what is
// not understood is refused.
struct graph_programs;

struct graph {
    struct pool pool; // holds everything below
    uint32_t n_tensors, n_nodes, n_inputs, n_outputs;
    struct graph_tensor *tensors;
    struct graph_node *nodes;
    const uint32_t *inputs, *outputs;           // tensor indices
    const struct tensor_preprocess *preprocess; // n_inputs
    uint64_t arena_size;                        // that the places need
    const struct graph_programs *programs;      // outlive the graph
};

void graph_done(struct graph *g);

/// Moves the tensors to where more can be appended, `room` in all.
int graph_make_room(struct graph *g, uint64_t room, struct error *e);

/// Fills n_elems and size from type and dims. STATUS_MODEL_INVALID when they overflow.
int graph_tensor_measure(struct graph_tensor *t, struct error *e);

/// Writes a constant's elements to dst (t->size bytes).
void graph_tensor_unpack(const struct graph_tensor *t, void *dst);

/// A constant's elements as real numbers. dst takes n_elems.
void graph_tensor_floats(const struct graph_tensor *t, float *dst);

/// A constant's elements as integers. dst takes n_elems.
int graph_tensor_ints(const struct graph_tensor *t, int64_t *dst, uint32_t max, uint32_t *ret_n,
                      struct error *e);

/// Steps in elements, in memory, of each dimension.
void graph_tensor_strides(const struct graph_tensor *t, int64_t strides[GRAPH_MAX_DIMS]);

/// The same of n dimensions that the tensor is reshaped to, where these only divide its own. False:
/// one of them is of several, or the sizes differ.
bool graph_tensor_split(const struct graph_tensor *t, const uint32_t *dims, uint32_t n,
                        int64_t strides[GRAPH_MAX_DIMS]);

/// STATUS_MODEL_INVALID in the form "node NAME (TYPE): …".
int graph_refuse(const struct graph_node *n, struct error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
