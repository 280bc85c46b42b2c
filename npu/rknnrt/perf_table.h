// Reads the runtime's table of layer times (RKNN_QUERY_PERF_DETAIL; SDK guide, table 3-2 and
// figures 5-17 and 8-6).
#pragma once

#include "base/bytes.h"
#include "npu/npu.h"

#define PERF_MAX_LAYERS 65536

// Zeroed: nothing.
struct perf {
    char *text; // the layers' strings point into it
    struct npu_layer *layers;
    size_t n;
};

/// Takes a text with one table of layers; what stands before its titles and after its layers is not
/// looked at. Columns are found by their titles, in any order; those that are not known are left
/// out, but OpType and Time(us) have to be there. Cells are under their
/// titles, or are as many words as there are titles. Cycles and traffic
/// that the table does not tell are 0; all traffic counts as read. STATUS_FAIL names the line that
/// is not understood.
int perf_parse(struct bytes text, struct perf *ret, struct error *e);

void perf_done(struct perf *p);
