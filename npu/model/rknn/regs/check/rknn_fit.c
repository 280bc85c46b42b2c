#include "npu/model/rknn/regs/check/rknn_fit.h"

int rknn_fit(const struct rknn_regs *regs, const struct rknn_state *task, enum rknn_register reg,
             bool right, struct error *e)
{
    uint32_t value;
    if (right || !rknn_regs_get(regs, reg, &value))
        return 0;
    return rknn_regs_refuse(regs, reg, task->value[reg],
                            "a task's size or place that does not fit its tensors", e);
}

uint32_t rknn_fit_atom(const struct rknn_regs *regs)
{
    return regs->chip->generation == CHIP_GEN_RK3566 ? 8 : 16;
}

bool rknn_fit_plane(const struct rknn_regs *regs, uint64_t pixels, uint64_t bytes)
{
    uint64_t atom = rknn_fit_atom(regs);
    return bytes == pixels * atom || bytes == (pixels + 3) / 4 * 4 * atom;
}

bool rknn_fit_own_plane(const struct rknn_regs *regs, uint64_t pixels, uint64_t bytes,
                        bool of_input, bool single)
{
    uint64_t whole = of_input || pixels <= 1 ? pixels : (pixels + 3) / 4 * 4;
    return single ? rknn_fit_plane(regs, pixels, bytes) : bytes == whole * rknn_fit_atom(regs);
}

bool rknn_fit_plane_of(const struct rknn_regs *regs, const struct rknn_tensor *t, uint64_t bytes)
{
    bool single = t->n_native == 5 && t->native[1] == 1;
    return rknn_fit_own_plane(regs, (uint64_t)t->dims[2] * t->dims[3], bytes,
                              t->kind == RKNN_KIND_INPUT, single);
}

uint64_t rknn_fit_bytes(const struct rknn_regs *regs, const struct rknn_state *task,
                        enum rknn_register reg)
{
    enum chip_generation g = regs->chip->generation;
    bool atoms = g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562;
    return (uint64_t)task->value[reg] * (atoms ? 16 : 1);
}

bool rknn_fit_blocks(uint64_t n, uint64_t of)
{
    for (uint64_t to = 1; to <= 64; to *= 2)
        if (n == (of + to - 1) / to * to)
            return true;
    return false;
}

uint32_t rknn_fit_stride_lines(const struct rknn_regs *regs, uint32_t kind)
{
    enum { ONE_BY_ONE = 1 << 29 };
    return regs->chip->generation == CHIP_GEN_RK3566 || kind & ONE_BY_ONE ? 1 : 4;
}

bool rknn_fit_halves(const struct rknn_regs *regs, uint32_t kind)
{
    enum { HALVES = 1 << 16 | 1 << 14 };
    return regs->chip->generation == CHIP_GEN_RK3562 && (kind & HALVES) == HALVES;
}
