// Lookup tables: points from the tasks that load them, slopes beyond the ends from registers.
#include "npu/model/rknn/regs/rknn_lut.h"

// The slopes that continue it beyond its ends.
static void take_slopes(const struct rknn_regs *regs, struct graph_lut *lut)
{
    uint32_t below_scale = 0, below_shift = 0, above_scale = 0, above_shift = 0;
    rknn_regs_get(regs, DPU_LUT_LE_SLOPE_SCALE, &below_scale);
    rknn_regs_get(regs, DPU_LUT_LE_SLOPE_SHIFT, &below_shift);
    rknn_regs_get(regs, DPU_LUT_LO_SLOPE_SCALE, &above_scale);
    rknn_regs_get(regs, DPU_LUT_LO_SLOPE_SHIFT, &above_shift);
    // RK3576 and RV1126B have both halves of each register alike.
    above_shift >>= regs->chip->generation == CHIP_GEN_RK3576 ? 0 : 5;
    lut->slope[0] = (int16_t)below_scale;
    lut->slope_shift[0] = below_shift & 0x1f;
    lut->slope[1] = (int16_t)(above_scale >> 16);
    lut->slope_shift[1] = above_shift & 0x1f;
}

int rknn_lut_new(const struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n,
                 struct pool *pool, struct graph_lut **ret, struct error *e)
{
    int16_t points[2][RKNN_LUT_POINTS];
    if (!rknn_regs_lut(regs, f, n, points))
        return error_set(e, STATUS_MODEL_INVALID,
                         "its tasks do not load the lookup table of its activation");
    if (!rknn_regs_lut_range(regs))
        return error_set(e, STATUS_MODEL_INVALID,
                         "its lookup table covers a range that is not known");
    struct graph_lut *lut = pool_alloc(pool, 1, sizeof *lut);
    if (!lut)
        return error_no_memory(e, "a lookup table", sizeof *lut);
    memcpy(lut->below, points[0], sizeof lut->below);
    memcpy(lut->above, points[1], sizeof lut->above);
    take_slopes(regs, lut);
    *ret = lut;
    return 0;
}

bool rknn_lut_is_cut(const struct graph_lut *lut, const int32_t bounds[2])
{
    bool open = bounds[0] == INT32_MIN && bounds[1] == INT32_MAX;
    for (int i = 0; i < LUT_POINTS; i++)
        if (lut->below[i] < bounds[0] || lut->above[i] < bounds[0] || lut->below[i] > bounds[1] ||
            lut->above[i] > bounds[1])
            return true;
    return !open && (lut->slope[0] || lut->slope[1]) && bounds[1] < INT32_MAX;
}
