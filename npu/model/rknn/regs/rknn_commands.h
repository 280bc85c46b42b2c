// The register commands of one node, as the registers' values.
//
// A command is 8 bytes, little-endian:
//
//     container 6 and lite       bits  0-15 address   16-47 value        48-63 unit
//     containers 1 and 2         bits  0-15 unit      16-31 address      32-63 value
#pragma once

#include "npu/model/rknn/regs/rknn_list.h"

#define RKNN_REGS 16384 // addresses go in steps of four

// Used again for one node after the other.
struct rknn_regs {
    const struct chip *chip;
    struct rknn_list *list; // of the node that is loaded
    uint32_t value[RKNN_REGS];
    uint32_t owner[RKNN_REGS];  // value is valid for the load of this number
    int32_t tensor[RKNN_REGS];  // whose address the value is relative to; -1: it is no address
    uint32_t varies[RKNN_REGS]; // bits in which the tasks disagree
    uint32_t load;
    bool checks;      // whether what tasks do to memory is looked at: not of attention
    bool names_units; // commands say which unit a register is in
    // Which register is where on this chip, and which of its bits may hold anything.
    uint16_t place[RKNN_REGISTER_COUNT]; // address / 4; 0: the chip lacks it
    uint16_t reg[RKNN_REGS];             // enum rknn_register + 1; 0: none that is known
    uint32_t any[RKNN_REGS];
};

/// NULL: no memory.
struct rknn_regs *rknn_regs_new(const struct chip *chip);
void rknn_regs_free(struct rknn_regs *regs); // NULL is fine

/// Takes the commands of the node's tasks. The first value written to a register stays: later tasks
/// only work on other parts of the same tensors. STATUS_MODEL_INVALID, with the node's name: a
/// command that is neither read nor known to change no value (rknn_registers.h).
int rknn_regs_load(struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n,
                   struct error *e);

/// Of the node that is loaded: its values, and in which bits they differ, are from now on those of
/// the tasks behind the first one alone. Walks go through all as before.
int rknn_regs_load_rest(struct rknn_regs *regs, const struct rknn_file *f,
                        const struct rknn_node *n, struct error *e);

/// The bits of a register in which the values differ that the node's tasks write.
uint32_t rknn_regs_varies(const struct rknn_regs *regs, enum rknn_register reg);

/// False: the node's commands do not set it, or the chip does not have it.
bool rknn_regs_get(const struct rknn_regs *regs, enum rknn_register reg, uint32_t *ret);

/// The value that the k-th of the node's tasks writes to a register; false: it writes none.
bool rknn_regs_of_task(const struct rknn_regs *regs, const struct rknn_file *f,
                       const struct rknn_node *n, uint32_t k, enum rknn_register reg,
                       uint32_t *ret);

/// As rknn_regs_get(); STATUS_MODEL_INVALID when it is not set.
int rknn_regs_need(const struct rknn_regs *regs, enum rknn_register reg, uint32_t *ret,
                   struct error *e);

/// STATUS_MODEL_INVALID: "register NAME (0x4050) holds 0x00000007: WHAT".
int rknn_regs_refuse(const struct rknn_regs *regs, enum rknn_register reg, uint32_t value,
                     const char *what, struct error *e);

// The way through a node's tasks.
struct rknn_walk {
    const struct rknn_list *list;
    bool pools; // tasks of the PPU instead; to be set before the first task
    size_t next;
};

/// Through the tasks of the node that is loaded (regs->list), which must not change on the way.
void rknn_walk_begin(struct rknn_walk *w, const struct rknn_regs *regs);

/// The next task that works on tensors, by the DPU (or the PPU); valid as long as the node is
/// loaded. NULL: there is none.
const struct rknn_state *rknn_walk_next(struct rknn_walk *w);

/// The tensor that an address register points into; -1: it is not set, or the file does not say.
int32_t rknn_regs_tensor(const struct rknn_regs *regs, enum rknn_register reg);

/// Whether the lookup tables cover the usual range, or the chip has no registers for it that are
/// known, or nothing is said.
bool rknn_regs_lut_range(const struct rknn_regs *regs);

/// The two tables (for negative and positive values) that the node's tasks load. False: it loads
/// none, or not both whole.
bool rknn_regs_lut(const struct rknn_regs *regs, const struct rknn_file *f,
                   const struct rknn_node *n, int16_t ret[2][RKNN_LUT_POINTS]);
