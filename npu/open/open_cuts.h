// Where a row of nodes, or a node of many tasks, can be cut: there others may use the NPU, and
// leave whatever they like in its registers, its tables and the buffer in front of its multipliers.
#pragma once

#include "npu/model/rknn/program/rknn_program.h"

struct open_cuts {
    bool *one[RKNN_MAX_CORES], *several[RKNN_MAX_CORES - 1]; // of each node: in front of it
    bool *tasks; // of each task that one core does: between it and the one before, of the same node
    bool *short_of; // likewise: it could be cut there if it wrote all registers
    // Likewise: the task, behind the file's own, with which a part begins there instead (each is
    // followed by those of the node's next tasks); 0: none. open_renew.h
    uint32_t *renewed;
};

/// Whether a part of a node may begin at the task, and with which record.
static inline bool open_cuts_inside(const struct open_cuts *cuts, uint32_t task)
{
    return cuts->tasks[task] || (cuts->renewed && cuts->renewed[task]);
}

static inline uint32_t open_cuts_record(const struct open_cuts *cuts, uint32_t task)
{
    return !cuts->tasks[task] && cuts->renewed && cuts->renewed[task] ? cuts->renewed[task] : task;
}

/// As the program's schedules; in `pool`. The tasks of nodes that a CPU computes (on_cpu) are not
/// run; NULL: all are.
int open_cuts_find(const struct rknn_program *p, const struct chip *chip, const bool *on_cpu,
                   struct pool *pool, struct open_cuts *ret, struct error *e);

/// The same, for a chain that is run as it is: a node that, behind one of the CPU's, would need
/// what was in the NPU before that becomes the CPU's, too, since other processes may have been
/// there.
int open_cuts_settle(const struct rknn_program *p, const struct chip *chip, bool *on_cpu,
                     struct pool *pool, struct open_cuts *ret, struct error *e);

/// Those of one of the program's schedules.
const bool *open_cuts_of(const struct open_cuts *cuts, const struct rknn_program *p,
                         const struct rknn_schedule *schedule);
