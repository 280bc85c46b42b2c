// What rknnd_quant_* functions work on.
#pragma once

#include "quant/calibrate/quant_range.h"
#include "quant/include/rknnd_quant.h"
#include "quant/model/quant_model.h"
#include "quant/plan/quant_plan.h"

struct rknnd_quant {
    struct quant_model model; // float until it is written
    struct quant_index index;
    struct quant_plan plan;
    enum quant_algorithm algorithm;
    bool per_layer, symmetric, corrects_bias;
    // Of each edge, once calibrated:
    struct quant_observer *seen;   // those that are observed
    struct quant_observer *groups; // of each group all of its tensors together
    struct quant_range *ranges;    // by group
    struct quant_form *forms;      // by group
    bool calibrated, written;
    rknnd_quant_summary summary;
    rknnd_list *tensors, *nodes;
};
