// Models on a provider of npu/open: the digits example, against the emulator in this process, and
// shared files.
#pragma once

#include <stdint.h>

#include "base/error.h"

#define DIGITS_SCORES 10

/// Opens with these options, which end with the file that says the chip, loads, runs twice and
/// ends; the first failure's status.
int digits_whole(const char *options, float scores[DIGITS_SCORES], struct error *e);

/// The same on a board of another chip, without results.
int digits_of_chip(const char *chip, const char *options, struct error *e);

const float *digits_expected(void);

/// Runs a shared file with inputs that are always the same; *ret is malloc'ed: all its outputs, one
/// behind the other. *left: nodes that were the CPU's. NULL, and 0: there are no shared files.
int digits_shared(const char *options, const char *name, uint32_t core_mask, uint8_t **ret,
                  size_t *ret_size, unsigned *left, struct error *e);

/// Of a group of tests.
int digits_begin(void **state);
int digits_end(void **state);
