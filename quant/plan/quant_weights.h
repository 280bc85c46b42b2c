// Weights and biases as integers.
#pragma once

#include "quant/calibrate/quant_range.h"
#include "quant/model/quant_index.h"
#include "quant/plan/quant_plan.h"

struct quant_weight_options {
    bool per_channel; // a scale for each output, not one for all
    bool search;      // scales by least square error (mmse); in 8 bits
    struct quant_store store;
    const float *searched; // what quant_weights_search() found, if that is known; else NULL
    uint32_t n_threads;    // 0: the calling one alone. What comes out is the same
};

// Of one product. All malloc'ed.
struct quant_weights {
    size_t n, n_outputs;
    size_t n_bias; // of a ConvTranspose with groups: outputs of all of them
    uint32_t axis; // of the weight, that outputs lie on
    int16_t *weight;
    size_t n_scales; // 1, or n_outputs
    float *scales;
    int32_t *bias;      // NULL: without
    float *bias_scales; // input scale * scale; of 16 bits more where it would not fit
};

/// Quantizes the weight and bias of the product `n`, whose input has the scale `x_scale`. `means`
/// (NULL: none): of each of the input's n_means channels; what rounding the weights does to the
/// sums of such inputs goes into the bias.
int quant_weights_make(struct quant_weights *w, const struct quant_index *x, const Quant__Node *n,
                       float x_scale, const struct quant_weight_options *options,
                       const double *means, size_t n_means, struct error *e);
void quant_weights_done(struct quant_weights *w);

/// The scales that a search finds for the weight of the product `n`, one or one for each output:
/// whatever its input is stored as they are the same, so one search serves many models. malloc'ed.
int quant_weights_search(const struct quant_index *x, const Quant__Node *n,
                         const struct quant_weight_options *options, float **ret, struct error *e);

/// Refuses constants that are to be integers and have elements that are no finite numbers, before a
/// calibration would say that of its samples.
int quant_weights_check(const struct quant_model *m, const struct quant_index *x,
                        const struct quant_plan *p, struct error *e);
