// Which nodes to keep in float.
#pragma once

#include "quant/quant.h"

/// As rknnd_quant_propose(); lists are not made anew.
int quant_propose(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                  const rknnd_quant_goal *goal, rknnd_quant_proposal *ret, struct error *e);
