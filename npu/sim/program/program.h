// Nodes of a .rknn file, computed by the file's own register programs on npu/emu: for those that
// the reader of the file does not understand (docs/decisions/0052).
//
// Memory of the NPU, as npu/model/rknn/program has it: commands and constants once for a model, the
// arena for each node that runs.
#pragma once

#include <stdatomic.h>

#include "npu/model/graph.h"
#include "npu/model/rknn/program/rknn_layout.h"
#include "npu/model/rknn/program/rknn_program.h"

struct graph_programs {
    const struct rknn_file *file;
    const struct chip *chip;
    struct rknn_program program;
    uint64_t bases[RKNN_N_PARTS];
    uint64_t limit; // of one task, as emu_npu_limit() has it
    uint8_t *commands, *constants;
    // Of each of the file's inputs. `unknown`: why programs that read it are not to be run.
    struct program_input {
        struct rknn_memory_layout layout;
        const char *unknown;
    } * inputs;
    struct pool pool;
};

/// Both must outlive it. STATUS_MODEL_INVALID: not all of the file's programs are understood well
/// enough to be run.
int program_new(const struct rknn_file *f, const struct chip *chip, struct graph_programs **ret,
                struct error *e);
void program_free(struct graph_programs *p); // NULL is fine

/// Bytes that it holds; NULL: 0.
size_t program_size(const struct graph_programs *p);

// A tensor that a node takes or gives: where it is for the node's program, and for the executor.
struct program_port {
    uint32_t tensor;
    struct rknn_memory_layout layout;
    uint64_t offset; // in the arena
    bool nhwc;
    size_t size; // bytes of one input of a batch, packed
};

/// Of a tensor of the file that is in the arena.
int program_port(const struct graph_programs *p, const struct graph_tensor *t, uint32_t tensor,
                 struct program_port *ret, struct error *e);

// One run of a node, of one input of a batch.
struct program_run {
    const struct graph_programs *p;
    uint32_t node; // of the file
    uint32_t n_inputs, n_outputs;
    const struct program_port *inputs, *outputs;
    const uint8_t *const *from; // n_inputs, packed
    uint8_t *const *to;         // n_outputs
    uint8_t fill;               // what the arena holds beside the inputs: any bytes below 64
    const atomic_bool *stop;
};

/// Computes the outputs. STATUS_MODEL_INVALID, with the register's name: the program does something
/// that the emulator does not model. Any thread.
int program_run(const struct program_run *r, struct error *e);
