// The executor, as the readers of model files use it.
#pragma once

#include "npu/model/graph_executor.h"

extern const struct graph_executor sim_executor;
