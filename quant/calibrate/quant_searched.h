// Scales of weights that mmse finds, kept for all models that are made of one calibration.
#pragma once

#include "quant/quant.h"

/// Fills q->searched, on as many threads as q->n_clients. Without mmse there is nothing to do.
int quant_searched_make(struct rknnd_quant *q, struct error *e);
void quant_searched_done(struct rknnd_quant *q);
