// A node's commands, decoded once for all who walk through its tasks.
#pragma once

#include "npu/model/rknn/regs/rknn_registers.h"
#include "npu/model/rknn/rknn_file.h"

#define RKNN_LUT_POINTS 513

enum rknn_unit { RKNN_OF_DPU, RKNN_OF_PPU };

// Fields of DPU_LUT_ACCESS_CFG.
#define RKNN_LUT_WRITES(value) ((value) >> 17 & 1)
#define RKNN_LUT_TABLE(value)  ((value) >> 16 & 1)
#define RKNN_LUT_FROM(value)   ((value) & ~0x30000u) // the first point's number, and unknown bits

struct rknn_command {
    uint32_t unit, reg, value;
};

/// One 64-bit command; containers 1 and 2 have the fields in another order (rknn_commands.h).
static inline struct rknn_command rknn_decode(const struct rknn_file *f, const uint8_t *p)
{
    uint64_t c = read_le64(p);
    if (f->container.blobs)
        return (struct rknn_command){(uint32_t)c & 0xffff, (uint32_t)(c >> 16) & 0xffff,
                                     (uint32_t)(c >> 32)};
    return (struct rknn_command){(uint32_t)(c >> 48), (uint32_t)c & 0xffff, (uint32_t)(c >> 16)};
}

// What one command sets.
struct rknn_set {
    uint32_t value; // of one that takes an address, the offset in the tensor
    int32_t tensor; // whose address it takes; -1: none
    uint32_t reg;   // enum rknn_register
};

// Of a task: sets[first] to sets[first + n - 1]. Of the DPU and of the PPU: whether it works, and
// whether it clears their pointers.
struct rknn_listed {
    size_t first, n;
    bool works[2], clears[2];
    bool table; // it loads a lookup table, and runs nothing else
};

// The registers as they are when a task runs: those that were never set hold 0. And the tensors
// whose addresses they take, -1: none.
struct rknn_state {
    uint32_t value[RKNN_REGISTER_COUNT];
    int32_t tensor[RKNN_REGISTER_COUNT];
};

// A node's commands that set known registers, decoded once for all who walk through its tasks; and
// what the DPU and the PPU see in each task that they work in.
struct rknn_list {
    const struct rknn_node *node;
    struct rknn_set *sets;
    struct rknn_listed *tasks;
    struct rknn_state *states[2];
    size_t n_states[2], room_of_states[2];
    size_t n_sets, room_of_sets, room_of_tasks;
    uint32_t access, points[2]; // of lookup tables: all that chose one, and what each has
};

/// Makes it that of the node. `known`: of each register's address / 4 which one it is, plus 1; 0:
/// not known.
int rknn_list_make(struct rknn_list *l, const uint16_t *known, const struct rknn_file *f,
                   const struct rknn_node *n, struct error *e);
void rknn_list_free(struct rknn_list *l); // NULL is fine
