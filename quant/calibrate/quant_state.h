// An unfinished calibration in a file.
#pragma once

#include "quant/quant.h"

/// A number that stands for the model, what is looked at and `key`. `most`: values of a tensor and
/// sample that are counted.
uint64_t quant_state_fingerprint(const struct rknnd_quant *q, const char *key, uint32_t n_samples,
                                 uint32_t most);

/// *ret_done: samples that the file has, whose observations are taken; 0: it is not there, or of
/// something else.
int quant_state_load(struct rknnd_quant *q, const char *path, uint64_t fingerprint,
                     uint32_t *ret_done, struct error *e);
int quant_state_save(const struct rknnd_quant *q, const char *path, uint64_t fingerprint,
                     uint32_t done, struct error *e);
