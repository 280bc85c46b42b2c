// Puts QuantizeLinear and DequantizeLinear into a model.
#pragma once

#include "quant/plan/quant_plan.h"
#include "quant/plan/quant_weights.h"

struct quant_rewrite_plan {
    const struct quant_plan *plan;
    const struct quant_index *index;
    const struct quant_form *forms; // of each edge; edges of a group have the same
    const double *const *means;     // of each edge's channels; NULL, or an entry NULL: none
    const uint32_t *n_means;
    struct quant_weight_options weights;
    const bool *plain_weights; // of each node: scales are not searched for; NULL: none
    float *const *searched;    // of each node, or NULL: what a search for its scales has found
};

/// Changes the model; the index and the plan are of no use afterwards. Tensors keep their names.
int quant_rewrite(struct quant_model *m, const struct quant_rewrite_plan *p, struct error *e);

/// Drops constants that nobody reads.
int quant_rewrite_prune(struct quant_model *m, struct error *e);
