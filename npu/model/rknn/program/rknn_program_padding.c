// Weights of channels that are not there. A convolution pads these with the input's zero point, as
// all others; what that adds to sums is taken back by weights that are minus their own zero point,
// which is how later toolkits write them. Those up to 1.2 (container 1) wrote 0, and whoever ran
// their programs filled them in. Facts: docs/rknn-format.md.
#include <inttypes.h>
#include <string.h>

#include "npu/model/rknn/program/rknn_program_parts.h"
#include "npu/model/rknn/regs/rknn_registers.h"

#define OLDEST 1 // container's version

// RK3588's order of weights: blocks of kernels; in them blocks of channels, positions, kernels.
#define BLOCK        32
#define LAST_BLOCK   64 // of which DATA_SIZE1 says how many channels there are
#define TABLE_GROUP  8  // kernels in a record of the table behind a convolution
#define TABLE_BYTES  64
#define TABLE_ZEROES 32 // where in a record: 16 bits for each kernel

#define CONV_OTHER    0xfffu // CONV_CON1: one of these is set: not int8, or no plain convolution
#define PACKED_PIXELS 7      // bits 12 to 15 less this: channels of packed pixels
#define ZEROES_TABLE  1u     // BS_OW_CFG: zero points are in the table
#define ZEROES_NONE   2u

struct program_padding {
    uint64_t weights, table; // in the constants
    uint32_t positions, kernels, channels, present;
    uint32_t zeroes; // BS_OW_CFG
    int16_t zero;    // of all kernels, negated
};

// The last value that the task sets; 0: it sets none.
static uint32_t task_value(const struct program_reader *r, const struct rknn_program_task *t,
                           enum rknn_register reg)
{
    uint32_t value = 0, at = rknn_register_at(r->chip, reg);
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++)
        if ((r->p->commands[i] & 0xffff) == at)
            value = rknn_command_value(r->p->commands[i]);
    return value;
}

// False: there is nothing to fill in.
static bool read_padding(const struct program_reader *r, const struct rknn_program_task *t,
                         struct program_padding *d)
{
    uint32_t size = task_value(r, t, CNA_WEIGHT_SIZE2);
    uint32_t conv = task_value(r, t, CNA_CONV_CON1), packed = conv >> 12 & 0xf;
    uint32_t each = task_value(r, t, CNA_WEIGHT_SIZE1);
    d->positions = (size >> 16 & 0x1f) * (size >> 24 & 0x1f);
    d->zeroes = task_value(r, t, DPU_BS_OW_CFG);
    if (!d->positions || conv & CONV_OTHER || d->zeroes & ZEROES_NONE)
        return false;
    d->kernels = size & 0x3fff;
    d->channels = each / d->positions;
    d->zero = (int16_t)task_value(r, t, DPU_BS_OW_OP);
    d->present = packed > PACKED_PIXELS
                     ? packed - PACKED_PIXELS
                     : (d->channels ? d->channels - 1 : 0) / LAST_BLOCK * LAST_BLOCK +
                           (task_value(r, t, CNA_DATA_SIZE1) >> 16) + 1;
    return d->present < d->channels;
}

static int check_padding(const struct program_reader *r, const struct rknn_program_task *t,
                         const struct program_padding *d, struct error *e)
{
    uint64_t end = r->p->constants_size;
    uint64_t weights = (uint64_t)d->kernels * d->channels * d->positions;
    uint64_t table = d->zeroes & ZEROES_TABLE
                         ? align_up(d->kernels, TABLE_GROUP) / TABLE_GROUP * TABLE_BYTES
                         : 0;
    if (d->weights <= end && weights <= end - d->weights && d->table <= end &&
        table <= end - d->table)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "node %s: its %" PRIu64 " bytes of weights are not where its task has them",
                     r->f->nodes[t->node].name, weights);
}

static uint8_t minus_zero(const struct program_padding *d, const uint8_t *constants,
                          uint32_t kernel)
{
    const uint8_t *record = constants + d->table + kernel / TABLE_GROUP * TABLE_BYTES;
    int16_t nz = d->zeroes & ZEROES_TABLE
                     ? (int16_t)read_le16(record + TABLE_ZEROES + kernel % TABLE_GROUP * 2)
                     : d->zero;
    return (uint8_t)-nz;
}

static void fill_kernel(const struct program_padding *d, uint8_t *constants, uint32_t kernel)
{
    uint32_t first = kernel / BLOCK * BLOCK, n = d->kernels - first;
    uint64_t at = d->weights + (uint64_t)first * d->channels * d->positions;
    uint8_t value = minus_zero(d, constants, kernel);
    n = n < BLOCK ? n : BLOCK;
    for (uint32_t c = 0; c < d->channels; c += BLOCK) {
        uint32_t width = d->channels - c < BLOCK ? d->channels - c : BLOCK;
        uint32_t known = d->present <= c ? 0 : d->present - c < width ? d->present - c : width;
        for (uint32_t i = 0; i < d->positions; i++)
            memset(constants + at + ((uint64_t)i * n + kernel - first) * width + known, value,
                   width - known);
        at += (uint64_t)n * width * d->positions;
    }
}

// Patches are in the order of tasks. False: no address in the constants.
static bool find_constants(const struct program_reader *r, const struct rknn_program_task *t,
                           enum rknn_register reg, uint64_t *next, uint64_t *ret)
{
    const struct rknn_program *p = r->p;
    bool found = false;
    while (*next < p->n_patches && p->patches[*next].command < t->first)
        ++*next;
    for (uint64_t i = *next; i < p->n_patches && p->patches[i].command < t->first + t->n_commands;
         i++)
        if (p->patches[i].part == RKNN_PART_CONSTANTS &&
            (p->commands[p->patches[i].command] & 0xffff) == rknn_register_at(r->chip, reg)) {
            *ret = p->patches[i].offset;
            found = true;
        }
    return found;
}

static bool is_known(const struct rknn_program *p, uint64_t weights)
{
    for (uint32_t i = 0; i < p->n_paddings; i++)
        if (p->paddings[i].weights == weights)
            return true;
    return false;
}

static int add_padding(struct program_reader *r, const struct rknn_program_task *t, uint64_t *next,
                       struct error *e)
{
    struct rknn_program *p = r->p;
    struct program_padding d = {0};
    if (!find_constants(r, t, CNA_DCOMP_ADDR0, next, &d.weights) || !read_padding(r, t, &d) ||
        is_known(p, d.weights))
        return 0;
    if (d.zeroes & ZEROES_TABLE && !find_constants(r, t, RDMA_BS_BASE, next, &d.table))
        return error_set(e, STATUS_MODEL_INVALID, "node %s: its task has no table of zero points",
                         r->f->nodes[t->node].name);
    p->paddings[p->n_paddings++] = d;
    return check_padding(r, t, &d, e);
}

int program_find_paddings(struct program_reader *r, struct error *e)
{
    struct rknn_program *p = r->p;
    uint64_t next = 0;
    int s = 0;
    if (r->f->container.version != OLDEST)
        return 0;
    if (r->chip->generation != CHIP_GEN_RK3588)
        return error_set(e, STATUS_MODEL_INVALID,
                         "its weights are those of a toolkit up to 1.2, whose order on %s is not "
                         "known: convert the model with a newer one",
                         r->chip->name);
    p->paddings = pool_alloc(&p->pool, p->n_tasks, sizeof *p->paddings);
    if (!p->paddings)
        return error_no_memory(e, "the model's programs", 0);
    for (uint32_t i = 0; i < p->n_tasks && s == 0; i++)
        s = add_padding(r, &p->tasks[i], &next, e);
    return s;
}

void program_fill_paddings(const struct rknn_program *p, uint8_t *constants)
{
    for (uint32_t i = 0; i < p->n_paddings; i++)
        for (uint32_t k = 0; k < p->paddings[i].kernels; k++)
            fill_kernel(&p->paddings[i], constants, k);
}
