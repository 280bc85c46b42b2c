// `rknnctl board-test`: what there is, what each way to the NPU answers, and what follows of it.
#pragma once

#include "base/error.h"
#include "tools/board/board_plan.h"

/// Does all of it within ten minutes. What is wrong with a device is a result and no failure.
int board_test_execute(const struct board_plan *plan, struct error *e);

/// Prints what there is to try on a chip.
int board_test_list(const struct board_plan *plan, struct error *e);
