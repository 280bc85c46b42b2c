// Tasks for a driver that starts each one by itself: a program that sets only what has changed
// since the last task of its group of registers becomes one that sets all.
#pragma once

#include "npu/open/provider/provider.h"

/// Says of each task of a chain why the driver cannot end it (provider_ops.judge).
int rocket_expand_judge(const uint64_t *commands, struct provider_task *tasks, uint32_t n,
                        struct error *e);

struct rocket_program {
    uint64_t first; // word
    uint32_t words; // with the trailer; 0: the driver cannot run it
};

/// Programs of a chain's tasks. *words is malloc'ed; programs[i] is of tasks[i], and begins at
/// whole 64 bytes.
int rocket_expand(const uint64_t *commands, const struct provider_task *tasks, uint32_t n,
                  struct rocket_program *programs, uint64_t **words, uint64_t *n_words,
                  struct error *e);
