// Models for several samples at once, tried.
#pragma once

#include "quant/quant.h"

/// Writes the model in 8 bits, as it is planned now, for `batch` samples at once, whole or not at
/// all. Runs it and the one for a single sample on the server that contexts of this thread use.
int quant_several_write(struct rknnd_quant *q, const char *path, uint32_t batch, struct error *e);
