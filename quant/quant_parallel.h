// Independent parts of work, on several threads.
#pragma once

#include <stdint.h>

#include "base/error.h"

#define QUANT_MOST_CLIENTS 64 // and threads

/// Processors that this program may use: threads for what has no clients to ask how many.
uint32_t quant_processors(void);

/// Part i of some; from several threads at the same time.
typedef int quant_part(void *user, uint32_t i, struct error *e);

/// Does parts 0 to n - 1 on up to n_threads threads, the calling one among them. After a failure no
/// more parts begin; of those that failed the first one's words are told.
int quant_parallel(uint32_t n_threads, uint32_t n, quant_part *part, void *user, struct error *e);
