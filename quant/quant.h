// What rknnd_quant_* functions work on.
#pragma once

#include "quant/calibrate/quant_choose.h"
#include "quant/calibrate/quant_server.h"
#include "quant/include/rknnd_quant.h"
#include "quant/model/quant_model.h"
#include "quant/plan/quant_chip.h"
#include "quant/plan/quant_plan.h"
#include "quant/quant_parallel.h"

// How tensors are stored, by group of a plan.
struct quant_layout {
    struct quant_range *ranges;
    struct quant_form *forms;
};

// A range that replaces a calibration's; of each edge.
struct quant_edit {
    bool set;
    struct quant_range range;
};

// Of a node's noise: mean squares in units of what is usual.
struct quant_noise_parts {
    double weight, input, output;
};

// What mmse did not bring the outputs nearer by, and so is as `normal` has it (quant_settle.h).
struct quant_settled {
    bool known;
    bool *tensors; // of each edge that stands for a group of `plan`: its range
    bool *weights; // of each node: its weight's scales
};

struct rknnd_quant {
    struct quant_model model; // float
    char *path;               // it was read from
    struct quant_index index;
    struct quant_plan plan; // as it is opened, by which it is calibrated
    struct quant_plan now;  // with other choices of layers
    enum quant_algorithm algorithm;
    bool per_layer, corrects_bias, fuses_activations, settles, parts;
    struct quant_store store;      // of layers that nothing else was chosen for
    const struct quant_chip *chip; // NULL: any
    struct quant_choice *choices;  // of the options
    uint32_t n_choices;
    bool calibrated;
    uint32_t n_clients; // of the calibration: as many threads search for ranges
    // Once calibrated:
    struct observer *seen;        // of each edge that is observed
    struct quant_layout base;     // of `plan`, as the calibration chose
    struct quant_layout layout;   // of `now`
    struct quant_opening opening; // of the float model, which is compared with later
    struct quant_settled settled;
    float **searched;          // of each node: scales of its weight by mmse; NULL: none
    struct quant_edit *edits;  // of each edge
    struct quant_choice *more; // choices besides those of the options; one block with the names
    uint32_t n_more;
    struct quant_noise_parts *noise;   // of each node; NULL: not measured
    const char **proposed;             // names of the model
    double goal, cosine, plain_cosine; // of the proposal; goal 0: there is none
    const char **between;              // the last answer
    rknnd_quant_summary summary;
    rknnd_list *tensors, *nodes;
    rknnd_list *layers;     // NULL: nothing was compared, or it has changed since
    char single_words[256]; // why a server takes no inputs of layers
};

/// How a tensor of so many bits is stored.
static inline struct quant_store quant_store_of(const struct rknnd_quant *q, uint8_t bits)
{
    struct quant_store store = q->store;
    store.bits = bits;
    return store;
}

/// Whether the scales of a product's weight are searched for.
static inline bool quant_searches_weight(const struct rknnd_quant *q, uint32_t node)
{
    return q->algorithm == QUANT_ALGORITHM_MMSE &&
           !(q->settled.weights && q->settled.weights[node]);
}

// Public functions, wherever they are.
#define QUANT_EXPORT __attribute__((visibility("default")))

/// The end of every public function: keeps a failure's words, and returns `r`.
int quant_keep(int r, const struct error *e);

/// `size` bytes of ours from what a program, perhaps of another version, has given (NULL: zeros).
/// Fails if it sets what is not known here.
int quant_take(void *ours, uint32_t size, const void *theirs, const char *what, struct error *e);

/// How many clients run `n` of the samples at the same time, QUANT_MOST_CLIENTS at most.
uint32_t quant_clients(const rknnd_quant_samples *samples, uint32_t n);

/// Tells the program what is done from now on.
static inline void quant_stage(const rknnd_quant_samples *samples, const char *words)
{
    if (samples->stage)
        samples->stage(samples->user, words);
}

/// A failure that is about a sample: its name stands before the words. Returns `code`.
int quant_sample_failed(const rknnd_quant_samples *samples, uint32_t sample, int code,
                        const char *words, struct error *e);

/// Whether a tensor is an input of the model, or only float nodes (normalizing) lie between.
bool quant_is_first(const struct rknnd_quant *q, const struct quant_edge *edge);

/// Fails where writing `path` would replace a file that the model was read from.
int quant_check_output(const struct rknnd_quant *q, const char *path, struct error *e);

/// Fails where there is no calibration yet.
int quant_check_calibrated(const struct rknnd_quant *q, struct error *e);

/// A list of n structs of `stride` bytes, which begin with their size, in one block; NULL: no
/// memory.
rknnd_list *quant_list_new(size_t n, size_t stride, struct error *e);

/// Makes both lists anew (quant_lists.c). Without a calibration there are no tensors.
int quant_lists_make(struct rknnd_quant *q, struct error *e);

/// The model in 8 bits as it is planned now; quant_model_done() also after a failure, and before
/// `q` changes.
int quant_make(struct rknnd_quant *q, struct quant_model *ret, struct error *e);
