// Runs the float model on samples, and keeps what its tensors hold (observer.h).
#pragma once

#include "quant/quant.h"

/// Fills q->seen. *ret_resumed: samples that were done already.
int quant_calibrate(struct rknnd_quant *q, const rknnd_quant_samples *samples,
                    uint32_t *ret_resumed, struct error *e);

/// Once all is done that runs samples: keeps the calibration in samples->state, or removes that, as
/// it is wanted.
int quant_calibrate_end(const struct rknnd_quant *q, const rknnd_quant_samples *samples,
                        struct error *e);
