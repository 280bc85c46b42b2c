// How far an output's tasks write.
#pragma once

#include "npu/open/open_model.h"

/// NULL: the tasks that have an address of the output (`marked`, by number) write nothing behind
/// its end. Else why that is not sure, static text.
const char *direct_extent_judge(const struct npu_model *m, const struct open_port *port,
                                const bool *marked);
