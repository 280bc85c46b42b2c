// What a provider makes of a model file, for people.
#pragma once

#include "npu/open/provider/provider.h"
#include "tensor/chip.h"

/// A text of model_describe, with the nodes that are left to the CPU, and why, as "left_to_cpu",
/// and with what can stay in dma-bufs as "in_place". The text is freed if another one is returned;
/// a file that cannot be run keeps it.
char *open_describe(struct provider *p, const struct chip *wanted, struct bytes file, char *text);
