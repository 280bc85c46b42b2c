// Sets how this thread's next models are loaded.
#pragma once

#include "tools/ui/text_list.h"

/// `shapes` are the values of --shape: "NAME=1x3x224x224".
int load_options_set(const struct text_list *shapes, struct error *e);
