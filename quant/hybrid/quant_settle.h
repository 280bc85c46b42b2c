// Which ranges and scales of mmse stay, and which become those of `normal` again.
#pragma once

#include "quant/quant.h"

/// Runs models in 8 bits on some of the samples, so that what mmse chose is kept only where the
/// outputs are as near to the float model's as by `normal`, or nearer. After quant_floats_choose();
/// q->settled says what came out, and layouts are by that. Nothing is run where that is known.
int quant_settle(struct rknnd_quant *q, const rknnd_quant_samples *samples, struct error *e);

void quant_settled_done(struct quant_settled *s);
