// PRelu: BN multiplies negative numbers with a slope of their channel, which lies in memory
// (BN_MUL_CFG bit 0). Slopes are of 16 bits, one behind the other: 2^-14 each, or fp16. Whether
// bit 15 of an integer is a sign was measured by nobody, so that slopes from 2 on are refused, as
// are negative ones.
//
// Tests: test_written (Edited).
#include "npu/emu/emu_unit.h"

int emu_read_slopes(const struct emu_unit *u, struct emu_dpu *d, bool alone, struct error *e)
{
    enum { FACTORS = 4 };
    uint32_t use = emu_get_field(u, EMU_RDMA_NRDMA_CFG, 4, 1);
    struct emu_operand abc[3];
    if (!alone)
        return emu_refuse(u, EMU_BN_MUL_CFG, "factors of each channel that are no slopes", e);
    if (use != FACTORS)
        return emu_refuse(u, EMU_RDMA_NRDMA_CFG, "another set of coefficients", e);
    int r = emu_read_table(u, emu_get(u, EMU_RDMA_BN_ADDR), d->shape[0], FACTORS, d->real, abc, e);
    if (r < 0)
        return error_prefix(e, "slopes");
    d->bn.factor = abc[2];
    for (uint32_t c = 0; c < d->shape[0] && !d->real; c++)
        if (abc[2].each[c] < 0)
            return error_set(e, STATUS_PARAM_INVALID,
                             "the slope of channel %u is 0x%04x: whether that is negative is not "
                             "known",
                             c, (unsigned)(uint16_t)abc[2].each[c]);
    return 0;
}
