// Models on a provider of npu/open: the digits example, against the emulator in this process, and
// shared files.
#pragma once

#include <stdint.h>

#include "npu/buffer/buffer.h"
#include "tests/support/sim_run.h"

#define DIGITS_SCORES 10

/// Opens with these options, which end with the file that says the chip, loads, runs twice and
/// ends; the first failure's status.
int digits_whole(const char *options, float scores[DIGITS_SCORES], struct error *e);

/// The same on a board of another chip, without results.
int digits_of_chip(const char *chip, const char *options, struct error *e);

const float *digits_expected(void);

/// The digits example whose picture is its native bytes (64 of int8), in a buffer at an offset of
/// 64, once with that as a dma-buf: a run, and what it takes for one.
struct digits_direct {
    struct sim_run s;
    struct npu_buffer buffer;
};
#define DIGITS_PICTURE 64

/// Opens; the bytes are always the same, and found nowhere else. digits_direct_done() also after a
/// failure.
int digits_direct_init(struct digits_direct *d, const char *options, struct error *e);
void digits_direct_done(struct digits_direct *d);
int digits_direct_run(struct digits_direct *d, const struct npu_buffer *dmabuf,
                      float scores[DIGITS_SCORES], struct error *e);

/// Runs a shared file with inputs that are always the same; *ret is malloc'ed: all its outputs, one
/// behind the other. *left: nodes that were the CPU's. NULL, and 0: there are no shared files.
int digits_shared(const char *options, const char *name, uint32_t core_mask, uint8_t **ret,
                  size_t *ret_size, unsigned *left, struct error *e);

/// Of a group of tests.
int digits_begin(void **state);
int digits_end(void **state);
