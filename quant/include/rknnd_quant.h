// From a float ONNX model to one in 8 or 16 bits: ONNX with QuantizeLinear and DequantizeLinear,
// which runs in rknnd and in ONNX Runtime, and is what converters take as a quantized model. In C
// and C++; librknndquant.so, beside librknnrt.so, through which it runs the float model.
//
// Every function returns RKNN_SUCC or a negative RKNN_ERR_* code, with words in
// rknnd_quant_last_error(). A rknnd_quant is used by one thread at a time. Structs grow at their
// end and begin with their size, by the rules of rknnd.h: in what the program gives, what is 0 is
// the default.
#ifndef RKNND_QUANT_H
#define RKNND_QUANT_H

#include "rknnd.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rknnd_quant rknnd_quant;

/// Words for the last failure of a function of this header in this thread. Never NULL.
const char *rknnd_quant_last_error(void);

// How the range of a tensor is chosen from its values (SDK guide 3.1.7).
typedef enum rknnd_quant_algorithm {
    RKNND_QUANT_NORMAL,        // least and largest
    RKNND_QUANT_KL_DIVERGENCE, // the range whose distribution stays nearest
    RKNND_QUANT_MMSE           // the range with the least mean square error; of weights, too
} rknnd_quant_algorithm;

// What is done to the model before, each of which can be left out.
typedef enum rknnd_quant_pass {
    RKNND_QUANT_BATCH_NORM = 1,      // batch normalizations go into the weights before them
    RKNND_QUANT_ACTIVATIONS = 2,     // nothing is stored between a product and its Relu or Clip
    RKNND_QUANT_EQUALIZATION = 4,    // channels of neighbouring weights get like ranges; tensors in
                                     // between have factors, and names that end in _equalized
    RKNND_QUANT_BIAS_CORRECTION = 8, // mean errors of rounded weights go into the biases
    RKNND_QUANT_COMPARISON = 16      // mmse only where outputs are as near as by normal: models are
                                     // run on some of the samples after the calibration
} rknnd_quant_pass;

/// The passes that an optimization level of the manuals (0 to 3, config()'s optimization_level)
/// leaves out: 3 none, 2 the equalization, 1 that and the bias correction, 0 all.
int rknnd_quant_find_level(uint32_t level, uint32_t *without);

// What layers compute with. Float ones are as in the float model; boards have them in float16.
typedef enum rknnd_quant_type {
    RKNND_QUANT_FLOAT16 = 0,
    RKNND_QUANT_INT8 = 8,
    RKNND_QUANT_INT16 = 16
} rknnd_quant_type;

// What all layers have that nothing else was chosen for (config()'s quantized_dtype).
typedef enum rknnd_quant_dtype {
    RKNND_QUANT_W8A8,
    RKNND_QUANT_W16A16I,    // int16
    RKNND_QUANT_W16A16I_DFP // int16, symmetric, all scales are powers of two
} rknnd_quant_dtype;

/// By its name in the manuals, older ones too ("asymmetric_quantized-8"). RKNN_ERR_PARAM_INVALID:
/// there is none, or it is one that is not made here, with the reason.
int rknnd_quant_find_dtype(const char *name, rknnd_quant_dtype *dtype);

// Of one input: it becomes (x - mean) / deviation in the model, which so takes pixels.
typedef struct rknnd_quant_normalization {
    uint32_t struct_size;
    uint32_t n_values;      // channels, or 1 for all
    const char *input;      // its name; NULL: the first one
    const float *mean;      // n_values; NULL: 0
    const float *deviation; // n_values; NULL: 1
} rknnd_quant_normalization;
RKNND_LIST_OF(rknnd_quant_normalization)

typedef struct rknnd_quant_options {
    uint32_t struct_size;
    rknnd_quant_algorithm algorithm;
    uint32_t per_layer; // 1: one scale for each weight; 0: one for each of its outputs
    uint32_t without;   // rknnd_quant_pass that are left out
    uint32_t symmetric; // 1: zero points of tensors are 0
    uint32_t n_floats;
    const char *const *floats;        // nodes, by their names or their outputs', that stay float
    const rknnd_list *normalizations; // of rknnd_quant_normalization, the program's; NULL: none
    rknnd_quant_dtype dtype;
    uint32_t n_int16s;
    const char *const *int16s; // nodes, by their names or their outputs', that are int16
    const char *target;        // a chip ("rk3588"), in any case: what it cannot compute is refused;
                               // NULL: any
    uint32_t external_data;    // 1: weights of what is written go to OUTPUT.data, as they do anyway
                               // in models of more than 2 GB
} rknnd_quant_options;

/// Reads a float model and plans what is to be done. Whatever `options` (NULL: all 0) points to is
/// copied. RKNN_ERR_MODEL_INVALID: it is damaged, is quantized already, or has nothing to quantize.
int rknnd_quant_open(const char *path, const rknnd_quant_options *options, rknnd_quant **quant);
void rknnd_quant_free(rknnd_quant *quant);

/// Writes a model, quantized or not, with the normalizations of `options` (NULL: none) in it, for
/// `batch` samples at once (0 or 1: as it is), which become the first dimension of its inputs and
/// outputs. Nothing is calibrated. RKNN_ERR_MODEL_INVALID: a node may mix samples.
int rknnd_quant_convert(const char *path, const rknnd_quant_options *options, uint32_t batch,
                        const char *output);

// Where the calibration's inputs come from. Functions get `user`; a negative RKNN_ERR_* code of
// theirs ends the calibration with it.
typedef struct rknnd_quant_samples {
    uint32_t struct_size;
    uint32_t n;           // samples: sets of inputs
    uint32_t n_clients;   // that run at the same time; 0: 2
    uint32_t keeps_state; // 1: `state` stays at the end, and the next calibration runs nothing
    /// The model is open (its inputs may be asked for). May be NULL.
    int (*begin)(void *user, rknn_context context);
    /// Fills inputs[n_inputs] as for rknn_inputs_set(). From several threads at the same time.
    int (*read)(void *user, uint32_t sample, uint32_t n_inputs, rknn_input *inputs);
    /// Frees what read() has filled.
    void (*release)(void *user, uint32_t n_inputs, rknn_input *inputs);
    /// So many are done. Not 0: the calibration ends with RKNN_ERR_FAIL. May be NULL.
    int (*progress)(void *user, uint32_t done);
    void *user;
    // A file in which an unfinished calibration is kept from time to time; one that fits this model
    // and `key` is gone on with. It is removed at the end, unless `keeps_state`. NULL: none.
    const char *state;
    const char *key;     // stands for the samples; NULL: ""
    uint32_t by_dumps;   // 1: values come here also from servers that could look at them themselves
    uint32_t all_values; // 1: histograms have all values; 0: of large tensors some, evenly spread
    /// What failures call a sample: up to `size` bytes with the 0 at the end. From several threads.
    /// NULL: "sample 2", counted from 0.
    void (*describe)(void *user, uint32_t sample, char *text, uint32_t size);
    /// What is done from now on, in a few words that last ("loading"): so programs can tell where
    /// the time goes. From the calling thread. May be NULL.
    void (*stage)(void *user, const char *words);
} rknnd_quant_samples;

/// Runs the float model on the samples, on the server that contexts of this thread use, and looks
/// at every tensor that is to be stored, where the server has nodes for that there, else by dumps.
/// Bounds and means are of all values. Holds histograms and, with dumps, of each client one tensor.
/// RKNN_ERR_FAIL: a tensor is not finite.
int rknnd_quant_calibrate(rknnd_quant *quant, const rknnd_quant_samples *samples);

/// RKNN_ERR_PARAM_INVALID where writing `output` would replace a file that `model` is read from:
/// itself, or one that its weights lie in (OUTPUT.data counts, too). All functions that write ask
/// this; programs ask before a long calibration. 0 for a model that cannot be read.
int rknnd_quant_check_output(const char *model, const char *output);

/// Writes the quantized model, whole or not at all. After rknnd_quant_calibrate(), as often as
/// wanted.
int rknnd_quant_write(rknnd_quant *quant, const char *path);

/// The same for `batch` samples at once (0 or 1: as it is), which become the first dimension of its
/// inputs and outputs. Tried with unlike samples on the server that contexts of this thread use:
/// each has to come out as it does alone. RKNN_ERR_MODEL_INVALID: a node may mix samples, or does.
int rknnd_quant_write_batch(rknnd_quant *quant, const char *path, uint32_t batch);

/// Writes the float model as it is calibrated, whole or not at all: its tensors have the names and,
/// where products were equalized, the factors of the quantized model's, so that the two can be
/// compared layer by layer. It computes what the original does, of pixels where that was asked for.
int rknnd_quant_write_float(rknnd_quant *quant, const char *path);

// ---- layers in floats (hybrid quantization) ----

/// Which nodes stay float besides those of the options, from now on, without another calibration;
/// n 0: no others. By their names or their outputs', as in the options; an activation that is
/// computed with the node before it stands for both. Lists of tensors and nodes are new ones.
int rknnd_quant_set_floats(rknnd_quant *quant, uint32_t n, const char *const *floats);

/// As rknnd_quant_set_floats(), with a type for each. A tensor has the fewest bits of the layers
/// that make and read it; it is float where all of them are.
int rknnd_quant_set_types(rknnd_quant *quant, uint32_t n, const char *const *layers,
                          const rknnd_quant_type *types);

/// The range of a tensor, and so of its group, in place of what the calibration chose. 0 is in it:
/// low <= 0 <= high, and low < high.
int rknnd_quant_set_range(rknnd_quant *quant, const char *tensor, float low, float high);

typedef struct rknnd_quant_goal {
    uint32_t struct_size;
    uint32_t n_samples; // that are run for each try, spread over all of them; 0: 8
    double cosine;      // of the outputs to the float model's, above 0, at most 1
    /// A try is done (the calibration's `user`). From several threads, one at a time. A try that
    /// misses the goal ends with the first sample that does: `cosine` is of those that were run.
    /// Not 0: RKNN_ERR_FAIL. May be NULL.
    int (*tried)(void *user, uint32_t n_floats, double cosine);
    rknnd_quant_type type; // what layers become: float16 (0), or int16
    uint32_t reserved;     // 0
} rknnd_quant_goal;

typedef struct rknnd_quant_proposal {
    uint32_t struct_size;
    uint32_t n_floats, n_tries;
    uint32_t reserved;
    const char *const *floats; // outputs of nodes; belongs to `quant`, until the next proposal
    double cosine;             // with them in floats
    double plain_cosine;       // without
} rknnd_quant_proposal;

/// Nodes to be kept in float so that the goal is reached: of those with most noise
/// (rknnd_quant_node) so many as reach it, less each that is not needed for that. Each try is run:
/// the cosine is the least of all outputs and samples, on the server that contexts of this thread
/// use. They are set, as by rknnd_quant_set_floats(). RKNN_ERR_FAIL: the goal is not reached even
/// with all but one product in floats; then none is set.
int rknnd_quant_propose(rknnd_quant *quant, const rknnd_quant_samples *samples,
                        const rknnd_quant_goal *goal, rknnd_quant_proposal *proposal);

/// Writes what there is to decide as a text that people edit (SDK guide 6.3.2): under
/// "custom_quantize_layers:" the nodes that rknnd_quant_set_types() has, each with its type, under
/// "quantize_parameters:" every tensor as it would be without them.
int rknnd_quant_write_table(rknnd_quant *quant, const char *path);

/// Reads it: layers get the types that they have there (float16, int16, int8), and ranges that
/// differ from the calibration's are set. Refuses, with the line, what it does not know; then
/// nothing has changed.
int rknnd_quant_read_table(rknnd_quant *quant, const char *path);

// A tensor that is int8 or int16.
typedef struct rknnd_quant_tensor {
    uint32_t struct_size;
    int32_t zp;
    const char *name;
    const char *node; // that computes it; "": an input of the model
    float scale;      // real value = (stored - zp) * scale
    float low, high;  // the range that is stored
    float min, max;   // what was seen; min > max: nothing, as others of its group were looked at
    uint32_t group;   // tensors of the same number have one scale
    uint32_t n_bins;  // of the histogram; 0: it was not looked at
    float bin_width;  // bin i holds values from (i - n_bins / 2) * bin_width on
    const uint64_t *bins;
    double error;  // mean square of what storing does to its values
    uint32_t bits; // 8 or 16
    uint32_t reserved;
    // Of what was seen, as `error` is; 0 without a histogram.
    double power;      // mean square of the values
    double clipped;    // share of the values that lie outside of what is stored, from 0 to 1
    double clip_error; // the part of `error` that those have
} rknnd_quant_tensor;
RKNND_LIST_OF(rknnd_quant_tensor)

/// The tensors, after rknnd_quant_calibrate(). *tensors, of rknnd_quant_tensor, belongs to `quant`,
/// and lasts until floats or ranges are set.
int rknnd_quant_get_tensors(const rknnd_quant *quant, const rknnd_list **tensors);

typedef struct rknnd_quant_node {
    uint32_t struct_size;
    uint32_t quantized; // 1: it computes with integers
    const char *name, *op;
    const char *output; // its first
    const char *reason; // why it is not, in words; "": it is, or no such operator ever is
    // Once something was proposed: mean squares of what storing its inputs, its output and its
    // weights in 8 bits does, added up, each in units of what is usual there, squared: the distance
    // from 0 that a tenth of a tensor's values is beyond; the median of an output's weights.
    double noise;
    rknnd_quant_type type;
    uint32_t reserved;
    double weight_noise, input_noise, output_noise; // its parts
} rknnd_quant_node;
RKNND_LIST_OF(rknnd_quant_node)

/// The nodes of the model as it is calibrated. *nodes belongs to `quant`, and lasts as tensors do.
int rknnd_quant_get_nodes(const rknnd_quant *quant, const rknnd_list **nodes);

typedef struct rknnd_quant_summary {
    uint32_t struct_size;
    uint32_t n_nodes, n_quantized; // of the model as it is planned
    uint32_t n_folded;             // batch normalizations
    uint32_t n_equalized;          // pairs of products
    uint32_t n_tensors;            // that are int8
    uint32_t n_constant_inputs;    // that were one number in all samples
    uint32_t n_resumed;            // samples that an earlier calibration had done
    uint32_t n_compared;           // models that were run to compare mmse with normal
    uint32_t n_normal_tensors;     // whose range is that of normal, as mmse's was no better
    uint32_t n_normal_weights;     // likewise
} rknnd_quant_summary;
int rknnd_quant_get_summary(const rknnd_quant *quant, rknnd_quant_summary *summary);

// ---- how exact it is ----

// A tensor of the model in 8 bits beside the float model's, both run on samples.
typedef struct rknnd_quant_layer {
    uint32_t struct_size;
    uint32_t bits; // that it is stored in: 8, 16; 0: as a real number
    const char *tensor, *node, *op;
    uint32_t n_samples; // that were compared
    uint32_t n_single; // that were compared for the last two; 0: the server does not take inputs of
                       // layers
    // With the errors of all nodes before.
    double cosine; // the least of the samples
    double
        sqnr; // of all samples together: 10 log10(values' squares / differences'), INFINITY: equal
    // The same where each node computes with the float model's values, so that its own errors show.
    double single_cosine, single_sqnr;
} rknnd_quant_layer;
RKNND_LIST_OF(rknnd_quant_layer)

/// Runs the float model and the one in 8 bits, as it is planned now, on `n_samples` (0: 8) of the
/// samples, spread over all of them, on the server that contexts of this thread use. The samples'
/// progress counts them. *layers, of rknnd_quant_layer in the order of nodes, belongs to `quant`,
/// and lasts until floats or ranges are set.
int rknnd_quant_compare(rknnd_quant *quant, const rknnd_quant_samples *samples, uint32_t n_samples,
                        const rknnd_list **layers);

// What the page says of where things come from; NULL: it is not said.
typedef struct rknnd_quant_about {
    uint32_t struct_size;
    uint32_t n_samples; // of the calibration; 0: it is not said
    const char *model, *dataset, *maker, *date;
} rknnd_quant_about;

/// Writes a page for browsers, whole or not at all, that needs nothing but itself and runs no
/// script: layers' errors (after rknnd_quant_compare()), histograms with the chosen ranges, what
/// clipping costs, which layers to keep in float and why, what the samples were like. `about` may
/// be NULL.
int rknnd_quant_write_page(rknnd_quant *quant, const rknnd_quant_about *about, const char *path);

/// Nodes that lie on a way from tensor `from` to tensor `to`, for rknnd_quant_set_floats(): names
/// of their outputs. *names belongs to `quant`, until the next call. RKNN_ERR_PARAM_INVALID: the
/// model as it is calibrated has no such tensor, or no way.
int rknnd_quant_find_between(rknnd_quant *quant, const char *from, const char *to, uint32_t *n,
                             const char *const **names);

#ifdef __cplusplus
}
#endif

#endif
