// A .rknn file as tables: what the flatbuffer says, of either kind, under one set of names.
//
// Everything is checked for being inside the file and within the limits below; whether it makes
// sense as a network is for rknn_graph.h. Facts: docs/rknn-format.md.
#pragma once

#include <jansson.h>
#include <string.h>

#include "npu/model/pool.h"
#include "npu/model/rknn/flatbuf.h"
#include "npu/model/rknn/rknn_container.h"

#define RKNN_MAX_TENSORS 65536
#define RKNN_MAX_NODES   16384
#define RKNN_MAX_EDGES   4096 // inputs or outputs of one node
#define RKNN_MAX_DIMS    8
#define RKNN_MAX_NATIVE  24

#define RKNN_RELOCATION_BYTES 24 // of containers 1 and 2

enum rknn_type { // numbers of ONNX
    RKNN_F32 = 1,
    RKNN_U8 = 2,
    RKNN_I8 = 3,
    RKNN_I16 = 5,
    RKNN_I32 = 6,
    RKNN_I64 = 7,
    RKNN_BOOL = 9,
    RKNN_F16 = 10,
    RKNN_U64 = 13,
};

enum rknn_layout { RKNN_NO_LAYOUT = 0, RKNN_NCHW = 2, RKNN_NC1HWC2 = 64, RKNN_WEIGHT = 65 };

enum rknn_tensor_kind {
    RKNN_KIND_INPUT = 1,
    RKNN_KIND_OUTPUT,
    RKNN_KIND_ACTIVATION,
    RKNN_KIND_CONSTANT,
    RKNN_KIND_CPU_CONSTANT,
    RKNN_KIND_LUT_PROGRAM,
    RKNN_KIND_COMMANDS,
    RKNN_KIND_SUBTASK_CONSTANT,
    RKNN_KIND_REGISTERS,
    RKNN_KIND_TASKS,
};

struct rknn_tensor {
    const char *name;
    uint8_t type, layout, kind;
    bool compressed;
    uint32_t n_native, n_dims;
    uint32_t native[RKNN_MAX_NATIVE], dims[RKNN_MAX_DIMS]; // dims: logical, NCHW or N-D
    uint32_t n_scales; // 0: not quantized; more than 1: per channel
    float min, max, scale;
    int32_t zp;
    uint32_t size, offset; // in the arena
    uint32_t stride_align; // of an input's width, in elements; 0: none
    struct bytes data;     // of a constant; empty: none
    int odd_slot;          // of its table, which nobody understands; -1: none
    uint32_t odd_value;
};

#define RKNN_MAX_ASKED 32

// Names of the attributes that the lowering of the node at hand has asked for.
struct rknn_asked {
    const char *names[RKNN_MAX_ASKED];
    uint32_t n;
};

struct rknn_node {
    const char *op, *name;
    uint8_t device; // 0: CPU, 2: NPU
    uint32_t n_inputs, n_outputs;
    int32_t *inputs, *outputs; // tensor indices, -1: unused
    uint8_t attr_type;
    struct fb_table attr;
    struct bytes bson;
    struct rknn_asked *asked;     // one for all nodes
    uint32_t said_tasks;          // of one core, as the node states it; 0: it does not
    uint32_t first_task, n_tasks; // of one core; in `tasks`, or in blobs of containers 1 and 2
};

/// Whether the node marks an end of the graph: it computes nothing.
static inline bool rknn_node_is_end(const struct rknn_node *n)
{
    return strcmp(n->op, "InputOperator") == 0 || strcmp(n->op, "OutputOperator") == 0;
}

struct rknn_preprocess {
    float mean[4], std[4]; // of the first channels
    int32_t order[4];
    bool more; // other channels are changed as well
    bool same; // all channels are changed alike, and keep their order
};

// A run of register commands: u64 each, 16 bits of register number first or, in blobs of
// containers 1 and 2, the register in bits 16–31 and its value above.
struct rknn_task {
    struct bytes commands;
    uint64_t first_command;   // its number in the file's register commands, container 6
    struct bytes relocations; // containers 1 and 2: 24 bytes each, a register and a tensor first
    uint32_t node;
};

// Whose address a register command takes, and from which of its bytes on.
struct rknn_relocation {
    int32_t tensor; // -1: nobody's, or the file does not say
    uint32_t offset;
};

struct rknn_file {
    struct rknn_container container;
    struct fb fb;
    struct pool pool;

    const char *platform, *toolkit, *chip, *framework, *custom_string;
    uint32_t compiler_version; // major*10000 + minor*100 + patch
    const char *attrs_text;    // a Python literal
    const char *input_json, *output_json, *custom_ops;
    const char *shapes; // "static_shape", or nothing in old files; others are not understood
    uint32_t batch; // rknn_batch_size: how many times what the tensors say a run takes and gives
    uint64_t weight_size, internal_size; // as the file says them; 0: it does not

    uint32_t n_tensors, n_nodes, n_inputs, n_outputs, n_tasks;
    struct rknn_tensor *tensors;
    struct rknn_node *nodes;
    uint32_t *inputs, *outputs;          // tensor indices
    struct rknn_preprocess *preprocess;  // n_inputs
    struct rknn_task *tasks;             // of one core, sorted by node
    struct rknn_relocation *relocations; // of each register command; NULL: not said
    uint64_t n_relocations;
};

/// Reads all tables. `file` must stay as long as f. On failure f needs no rknn_file_done, but may
/// have it; f->container.kind is valid.
int rknn_file_open(struct rknn_file *f, struct bytes file, struct error *e);
void rknn_file_done(struct rknn_file *f);

/// Of the k-th command of a task, which writes register `reg`. What it takes replaces its value.
struct rknn_relocation rknn_file_relocation(const struct rknn_file *f, const struct rknn_task *task,
                                            size_t k, uint32_t reg);

/// Container 0x1004 has addresses in one block: commands, constants of sub-tasks, weights and then
/// the arena. Whether one is in a tensor of the arena; *ret: at which of its bytes. False: another
/// container, too.
bool rknn_file_offset(const struct rknn_file *f, int32_t tensor, uint32_t address, uint64_t *ret);
