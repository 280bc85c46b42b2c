// The DPU writes whole atoms of 16 bytes, as many surfaces of them as the channels ask for that a
// register names; some files' tasks write more channels than the tensor has, into room that the
// arena has behind it. A program that leaves the register out has it from one of the two tasks
// before it: both are looked at.
#include "npu/open/direct/direct_extent.h"
#include "npu/model/rknn/regs/rknn_registers.h"

#define ATOM 16

// Where each generation says how many channels are written, less one; and bits that must be 0, or
// it writes elsewhere than in lines of atoms: transposed, moved, as a stream, or 32-bit numbers.
static const struct {
    enum rknn_register channels;
    unsigned shift;
    struct {
        enum rknn_register reg;
        uint32_t mask;
    } others[4];
} writers[CHIP_N_GENERATIONS] = {
    [CHIP_GEN_RK3588] = {DPU_WRITE_SIZE_0,
                         0,
                         {{DPU_BS_OW_CFG, 1u << 27}, {DPU_FEATURE_MODE_CFG, 0x7e000000}}},
    [CHIP_GEN_RK3566] = {DPU_DATA_CUBE_CHANNEL,
                         0,
                         {{DPU_BS_OW_CFG, 1u << 27}, {DPU_FEATURE_MODE_CFG, 0x7e000000}}},
    [CHIP_GEN_RK3576] = {DPU_WRITE_SIZE_0,
                         16,
                         {{DPU_BS_OW_CFG, 3u << 20}, {DPU_FEATURE_MODE_CFG, 1u << 25}}},
    [CHIP_GEN_RK3562] = {DPU_WRITE_SIZE_0,
                         16,
                         {{DPU_BS_OW_CFG, 3u << 20},
                          {DPU_FEATURE_MODE_CFG, 1u << 25},
                          {DPU_DATA_FORMAT, 4}}},
    [CHIP_GEN_RV1106] = {DPU_DATA_CUBE_CHANNEL,
                         16,
                         {{DPU_BS_OW_CFG, 3u << 20},
                          {DPU_FEATURE_MODE_CFG, 1u << 25},
                          {DPU_DATA_FORMAT, 4},
                          {DPU_DATA_CUBE_WIDTH, 1u << 20}}},
};

// The highest value that the task may see in bits of a register; false: none is known.
static bool highest(const struct npu_model *m, uint32_t task, enum rknn_register reg,
                    unsigned shift, uint32_t mask, uint32_t *ret)
{
    const struct rknn_program *p = &m->program;
    uint32_t at = rknn_register_at(m->chip, reg), found = 0;
    *ret = 0;
    for (uint32_t t = task + 1; t-- > 0 && found < 2;) {
        const struct rknn_program_task *one = &p->tasks[t];
        bool sets = false;
        for (uint64_t i = one->first; i < one->first + one->n_commands; i++)
            if ((p->commands[i] & 0xffff) == at) {
                uint32_t value = rknn_command_value(p->commands[i]) >> shift & mask;
                *ret = value > *ret ? value : *ret;
                sets = true;
            }
        found = sets && t == task ? 2 : found + sets;
    }
    return found != 0;
}

// Bytes that lie in whole surfaces; of other tensors, all in a row.
// A row of numbers that is written as one atom behind the other has to end with a whole atom.
static bool fits(const struct rknn_memory_layout *l, uint32_t n_channels)
{
    uint32_t lanes = ATOM / l->element, surfaces = (n_channels + lanes - 1) / lanes;
    if (l->block * l->element == ATOM)
        return surfaces <= (l->c + l->block - 1) / l->block;
    return l->h == 1 && l->n == 1 && (uint64_t)surfaces * ATOM <= l->size &&
           l->c * l->w <= n_channels;
}

// Tasks that only read it are held to the same, which refuses a little more than it had to.
static const char *judge_task(const struct npu_model *m, const struct open_port *port,
                              uint32_t task)
{
    unsigned gen = m->chip->generation;
    uint32_t found;
    for (size_t i = 0; i < sizeof writers->others / sizeof *writers->others; i++)
        if (writers[gen].others[i].mask &&
            highest(m, task, writers[gen].others[i].reg, 0, writers[gen].others[i].mask, &found) &&
            found)
            return "the NPU does not write it in lines of atoms";
    if (!highest(m, task, writers[gen].channels, writers[gen].shift, 0x1fff, &found))
        return "how many channels the NPU writes is not known";
    return fits(&port->layout, found + 1) ? NULL : "the NPU writes more channels than it has";
}

// Elements of 64 bits are no output of the DPU's.
const char *direct_extent_judge(const struct npu_model *m, const struct open_port *port,
                                const bool *marked)
{
    const char *why = port->layout.element > ATOM / 4 ? "its elements are of 64 bits" : NULL;
    for (uint32_t t = 0; t < m->program.n_tasks && !why; t++)
        if (marked[t])
            why = judge_task(m, port, t);
    return why;
}
