// Pixels that a file's programs read as int8, read as bytes from 0 on by the chip's own converter.
#pragma once

#include "npu/open/open_model.h"

/// Sets port->flips of a model's input (in m->pool), where all tasks that have an address of it
/// (`marked`, by number) can be changed so, and no other task would notice; else leaves it empty.
int direct_pixels_find(struct npu_model *m, struct open_port *port, const bool *marked,
                       struct error *e);
