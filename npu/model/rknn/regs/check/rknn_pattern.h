// Which bytes a task of the DPU takes from where to where, when it only moves them.
#pragma once

#include "npu/model/rknn/regs/rknn_commands.h"

// One of the counters of which an address that is written consists: it goes to n, in steps of
// `stride` bytes. It counts bytes of channels, or pixels, by `weight` each.
struct rknn_digit {
    uint64_t n, stride;
    uint32_t weight;
    bool channel;
};

#define RKNN_MAX_DIGITS 7

// Addresses are bytes of the arena.
struct rknn_pattern {
    // What is read: byte k of pixel p is at
    //     from + k / atom * surface + k % atom + p / width * line + p % width * atom
    uint64_t from, surface, line;
    uint32_t atom, width, pixels, bytes; // of each pixel
    // What is written: to + the sum of the digits, the largest stride first; where there are
    // pieces, each so many bytes begin a step behind those before.
    uint64_t to, size; // bytes from the first one to the last one
    uint64_t piece, step;
    uint32_t n_digits;
    struct rknn_digit digits[RKNN_MAX_DIGITS];
};

#define RKNN_PATTERN_UNREAD 1

/// RKNN_PATTERN_UNREAD: the task convolves, or writes in a way that files have and nobody has read
/// yet, the emulator neither. STATUS_MODEL_INVALID, with the register's name: in a way that no file
/// has.
int rknn_pattern_of(const struct rknn_regs *regs, const struct rknn_file *f,
                    const struct rknn_state *task, struct rknn_pattern *ret, struct error *e);

/// Where the byte comes from that the task writes at `at`; false: it writes none there.
bool rknn_pattern_find(const struct rknn_pattern *p, uint64_t at, uint64_t *ret);
