// The register programs of a .rknn file, made ready to run from an NPU's memory.
//
// Whoever runs them has three parts of memory: the commands, constants (which programs only read),
// and the arena, where everything else is: inputs, outputs, what is between, and constants that
// programs write to. Patches say which commands take an address in one of these. All writes to
// registers of addresses are accounted for: each is zero or patched, else the file is refused.
// Facts: docs/rknn-format.md.
#pragma once

#include "npu/model/rknn/rknn_file.h"
#include "tensor/chip.h"

#define RKNN_MAX_CORES  3
#define RKNN_PART_ALIGN 64 // of tensors in a part; parts themselves begin at pages
#define RKNN_NO_TENSOR  UINT32_MAX

enum rknn_part { RKNN_PART_COMMANDS, RKNN_PART_CONSTANTS, RKNN_PART_ARENA, RKNN_N_PARTS };

// Where a tensor is. RKNN_N_PARTS: in no memory of the NPU.
struct rknn_place {
    enum rknn_part part;
    uint64_t offset;
};

// A command whose value is to be the address of this byte of a part.
struct rknn_patch {
    uint64_t command;
    uint64_t offset;
    enum rknn_part part;
    uint32_t tensor; // that it leads into; RKNN_NO_TENSOR: to another program, or the file does not
                     // say
};

// One program: commands [first, first + n_commands), then the trailer that leads to the next one.
struct rknn_program_task {
    uint32_t node;
    uint32_t enable;     // blocks that it starts
    uint32_t interrupts; // those of which the last one says that it is done
    uint32_t n_commands;
    uint64_t first;
};

struct rknn_range {
    uint32_t first, n;
};

// What is done by a set of cores. Each core has a chain of tasks of its own.
struct rknn_schedule {
    uint32_t n_cores;               // 0: the file has none
    const struct rknn_range *tasks; // [node * n_cores + core]
};

// What was found in the commands; for those who check it.
struct rknn_program_counts {
    uint64_t addresses; // writes to registers of addresses
    uint64_t patched;   // of those, that are patched
    uint64_t links;     // from program to program
};

struct program_padding;

struct rknn_program {
    struct pool pool; // of what follows
    const struct rknn_file *file;
    uint64_t n_commands, n_patches;
    uint64_t *commands; // not patched
    struct rknn_patch *patches;
    uint32_t n_tasks;
    struct rknn_program_task *tasks;
    struct rknn_place *places; // of each of the file's tensors
    uint64_t constants_size, arena_size;
    struct program_padding *paddings; // in constants
    uint32_t n_paddings;
    // one[i]: of one core that is core i; several[n]: of cores 0 to n + 1 together.
    struct rknn_schedule one[RKNN_MAX_CORES], several[RKNN_MAX_CORES - 1];
    struct rknn_program_counts counts;
};

/// Reads and checks. `f` must outlive p. STATUS_MODEL_INVALID, with the task or the tensor and what
/// is wrong with it, for whatever could not be run as it is. On failure p is empty.
int rknn_program_open(struct rknn_program *p, const struct rknn_file *f, const struct chip *chip,
                      struct error *e);
void rknn_program_done(struct rknn_program *p);

/// Writes constants_size bytes.
void rknn_program_constants(const struct rknn_program *p, uint8_t *constants);

/// Writes those constants that are in the arena (of arena_size bytes); the rest is left alone.
void rknn_program_arena(const struct rknn_program *p, uint8_t *arena);

/// Where it has written: of the first tensor from *tensor on, which is set. False: of none.
bool rknn_program_arena_part(const struct rknn_program *p, uint32_t *tensor, uint64_t *offset,
                             uint64_t *size);

/// Writes the commands (n_commands) for parts at these addresses of the NPU. STATUS_PARAM_INVALID
/// when an address does not fit into a register.
int rknn_program_relocate(const struct rknn_program *p, const uint64_t bases[RKNN_N_PARTS],
                          uint64_t *commands, struct error *e);

/// What a trailer says of the length of the next program, which has n commands and a trailer.
uint32_t rknn_program_amount(const struct chip *chip, uint32_t n_commands);

/// The bits of a command's value, and the rest of the command around another value.
static inline uint32_t rknn_command_value(uint64_t command)
{
    return (uint32_t)(command >> 16);
}

static inline uint64_t rknn_command_with(uint64_t command, uint32_t value)
{
    return (command & ~((uint64_t)UINT32_MAX << 16)) | (uint64_t)value << 16;
}
