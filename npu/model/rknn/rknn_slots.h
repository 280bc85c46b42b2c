// Which slots of a file's tables are known: "nothing unread" for what is no register.
#pragma once

#include "npu/model/rknn/flatbuf.h"
#include "npu/model/rknn/rknn_container.h"

enum rknn_table {
    RKNN_ROOT,
    RKNN_SIZES,
    RKNN_GRAPH,
    RKNN_PREPROCESS,
    RKNN_TENSOR,
    RKNN_NODE,
    RKNN_TASK,
    RKNN_BUFFER,
};

/// The first slot that says something and of which nobody knows what; -1: there is none. What it
/// says is *ret_value: a number, or where a reference points to.
int rknn_unknown_slot(const struct rknn_container *c, enum rknn_table which,
                      const struct fb_table *t, uint32_t *ret_value);

/// Refuses a table with such a slot; `what` names it.
int rknn_check_slots(const struct rknn_container *c, enum rknn_table which,
                     const struct fb_table *t, const char *what, struct error *e);
