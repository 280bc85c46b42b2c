// Ways to an NPU: which are tried, in which order.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tools/board/board_plan.h"
#include "tools/board/try.h"

#define TARGETS_MAX 8

/// Those that the plan asks for, of `chip`; *n of ret[]. A name that is none is refused.
int targets_fill(const struct board_plan *plan, const char *chip, struct target ret[TARGETS_MAX],
                 int *n, struct error *e);

/// Whether several cores can work on one run there.
bool target_joins_cores(const struct target *t);

/// Whether something can be hung there.
bool target_is_hardware(const struct target *t);
