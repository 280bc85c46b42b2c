// Cross-layer equalization.
#pragma once

#include "quant/model/quant_model.h"

/// Convolutions that follow each other, with at most a Relu in between: what makes a channel of the
/// first one's weights small and that of the second one's large moves from the one to the other,
/// which changes no result (factors pass a Relu). Tensors in between then have factors, and names
/// that end in QUANT_EQUALIZED (quant_model.h). *ret_n: pairs.
int quant_equalize(struct quant_model *m, uint32_t *ret_n, struct error *e);
