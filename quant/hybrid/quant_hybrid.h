// A plan as a table for people, and back.
#pragma once

#include "quant/quant.h"

/// As rknnd_quant_write_table().
int quant_hybrid_write(const struct rknnd_quant *q, const char *path, struct error *e);

/// As rknnd_quant_read_table(); lists are not made anew.
int quant_hybrid_read(struct rknnd_quant *q, const char *path, struct error *e);
