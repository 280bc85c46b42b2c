// The register commands of one node.
#include "npu/model/rknn/regs/rknn_commands.h"

#define LUT_ACCESS 0x4100 // bit 17: write, bit 16: which table; the rest counts from 0
#define LUT_DATA   0x4104

struct command {
    uint32_t reg, value;
};

static struct command decode(const struct rknn_file *f, const uint8_t *p)
{
    uint64_t c = read_le64(p);
    if (f->container.version == 2)
        return (struct command){(uint32_t)(c >> 16) & 0xffff, (uint32_t)(c >> 32)};
    return (struct command){(uint32_t)c & 0xffff, (uint32_t)(c >> 16)};
}

// A task that fills a lookup table runs nothing else: its other registers mean nothing.
static bool fills_lut(const struct rknn_file *f, struct bytes commands)
{
    for (size_t at = 0; at + 8 <= commands.size; at += 8) {
        struct command c = decode(f, commands.data + at);
        if (c.reg == LUT_ACCESS && c.value >> 17 & 1)
            return true;
    }
    return false;
}

void rknn_regs_load(struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n)
{
    regs->load++;
    for (uint32_t t = 0; t < n->n_tasks; t++) {
        const struct rknn_task *task = &f->tasks[n->first_task + t];
        struct bytes b = task->commands;
        if (fills_lut(f, b))
            continue;
        for (size_t at = 0; at + 8 <= b.size; at += 8) {
            struct command c = decode(f, b.data + at);
            uint32_t i = c.reg / 4;
            if (regs->owner[i] == regs->load)
                continue;
            regs->owner[i] = regs->load;
            regs->value[i] = c.value;
            regs->tensor[i] = rknn_file_relocation(f, task, at / 8, c.reg);
        }
    }
}

bool rknn_regs_get(const struct rknn_regs *regs, uint32_t reg, uint32_t *ret)
{
    uint32_t i = reg / 4 % RKNN_REGS;
    if (!regs->load || regs->owner[i] != regs->load)
        return false;
    *ret = regs->value[i];
    return true;
}

int32_t rknn_regs_tensor(const struct rknn_regs *regs, uint32_t reg)
{
    uint32_t i = reg / 4 % RKNN_REGS;
    return regs->load && regs->owner[i] == regs->load ? regs->tensor[i] : -1;
}

bool rknn_regs_lut_range(const struct rknn_regs *regs)
{
    // Where the tables begin and end, and in what steps they go, as powers of two.
    static const struct command usual[] = {
        {0x410c, 0x50500}, {0x4110, 0xffffc000}, {0x4114, 0}, {0x4118, 0}, {0x411c, 0x4000}};
    uint32_t value;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (rknn_regs_get(regs, usual[i].reg, &value) && value != usual[i].value)
            return false;
    return true;
}

bool rknn_regs_lut(const struct rknn_file *f, const struct rknn_node *n,
                   int16_t ret[2][RKNN_LUT_POINTS])
{
    uint32_t filled[2] = {0, 0}, table = 0;
    bool writing = false;
    for (uint32_t t = 0; t < n->n_tasks; t++) {
        struct bytes b = f->tasks[n->first_task + t].commands;
        for (size_t at = 0; at + 8 <= b.size; at += 8) {
            struct command c = decode(f, b.data + at);
            if (c.reg == LUT_ACCESS) {
                writing = c.value >> 17 & 1;
                table = c.value >> 16 & 1;
                filled[table] = writing ? 0 : filled[table];
            } else if (c.reg == LUT_DATA && writing && filled[table] < RKNN_LUT_POINTS) {
                ret[table][filled[table]++] = (int16_t)c.value;
            }
        }
    }
    return filled[0] == RKNN_LUT_POINTS && filled[1] == RKNN_LUT_POINTS;
}
