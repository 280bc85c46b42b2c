// `rknnctl quantize`: runs the float model on the samples of a list and writes the int8 model.
#pragma once

#include "rknnd_quant.h"
#include "tools/quantize/stages.h"
#include "tools/task.h"

#define QUANTIZE_CLIENTS 64

struct quantize_plan {
    struct task task;
    const char *dataset, *output, *state; // state NULL: beside the output
    rknnd_quant_options options;          // without what the lists below say
    struct text_list means, deviations;   // [INPUT=]NUMBER,… each
    struct text_list floats;              // nodes that stay float
    struct text_list int16s;              // nodes in 16 bits
    bool symmetric;                       // zero points of tensors are 0
    bool swaps_red_blue;                  // in pictures
    bool by_dumps;                        // values of tensors come to this program
    bool parts;                           // weights lie in a second file
    bool all_values;                      // are counted, of large tensors too
    uint32_t clients;
    uint32_t batch; // samples that the model takes at once; 0: one
    // Layers in floats. At most one of the three; a table's calibration stays beside it.
    const char *table_out;        // step 1: the proposal goes there, and no model is written
    const char *table_in;         // step 2: what stays float, and ranges, are taken from there
    bool proposes;                // both at once
    double goal;                  // cosine of the outputs; 0: not said
    rknnd_quant_type hybrid_type; // what proposed layers become
    const char *page;             // the report is written there; NULL: none
    const char *float_out;        // the float model as it is calibrated; NULL: not wanted
};

struct quantize_result {
    rknnd_quant *quant; // NULL: it came not so far
    rknnd_quant_summary summary;
    size_t n_samples;
    uint64_t calibrate_ns, total_ns;
    struct stages stages;
    bool proposed;
    double goal;
    rknnd_quant_proposal proposal;
};

/// quantize_done() also after a failure.
int quantize_execute(const struct quantize_plan *plan, struct quantize_result *result,
                     struct error *e);
void quantize_done(struct quantize_result *result);

/// Which nodes stay float and why, and how much was done; JSON, or a few lines.
int quantize_show(const struct quantize_plan *plan, const struct quantize_result *r, bool json,
                  struct error *e);
