// Largest channels of real numbers, as the softmax of files takes them: of each pixel of a line in
// memory, written one number behind the other; or, on RK3576, of a core's sums.
//
// There the DPU counts atoms of eight channels, so that a pixel of 16 kernels is two of them, and
// each has a largest number of its own:
//
//     memory   pixel 0: | largest of kernels 0 to 7 | of 8 to 15 | OFFSET_PEND ... |
//              pixel 1: ...
//
// A task behind it takes the largest of that. Which of the eight count is a question
// (CHIP_CORE_MAXIMA): the one file that has it gives kernels to the first four, nothing to the
// others, and fills what there is beside its channels with the least number. Tests: test_halves.
#include "npu/emu/emu_unit.h"

enum { EIGHT = 8, KERNELS = 16, HALF_BYTES = 2 };

int emu_decode_maxima(const struct emu_unit *u, struct emu_dpu *ret, struct error *e)
{
    uint32_t bytes = emu_precision_bytes(ret->out);
    if (ret->out != EMU_FP16 || !ret->real || ret->from_core || ret->shape[1] != 1 ||
        !emu_get_field(u, EMU_FEATURE_MODE, 25, 25) || emu_get_field(u, EMU_FEATURE_MODE, 31, 26))
        return emu_refuse(u, EMU_FEATURE_MODE, "maxima that are written in another way", e);
    if (emu_get(u, EMU_STREAM_PIECE))
        return emu_refuse(u, EMU_STREAM_PIECE, "maxima that are written in pieces", e);
    ret->maxima = ret->shape[0];
    ret->channels = 1;
    ret->target.cube = (struct emu_cube){
        emu_get(u, EMU_DST_ADDR), 0, (int64_t)ret->shape[2] * bytes, 1, bytes, bytes, false};
    return 0;
}

// What is changed on the way is a channel's own, and of these there are twice as many as the DPU
// counts.
static bool changes_sums(const struct emu_dpu *d)
{
    return d->bs.add.kind || d->bs.factor.kind || d->bn.add.kind || d->bn.factor.kind ||
           d->ew.op != EMU_EW_NONE;
}

static int check_way(const struct emu_unit *u, const struct emu_dpu *d, struct error *e)
{
    enum { FROM_CORE = 0x40000000, IN_PIECES = 0x120000 };
    if (d->out != EMU_FP16 || !d->real)
        return emu_refuse(u, EMU_DATA_FORMAT, "maxima of another precision", e);
    if ((emu_get(u, EMU_FEATURE_MODE) & 0xfe000000) != FROM_CORE)
        return emu_refuse(u, EMU_FEATURE_MODE, "maxima that are written in another way", e);
    if (emu_get(u, EMU_BS_OW_CFG) != IN_PIECES)
        return emu_refuse(u, EMU_BS_OW_CFG, "maxima that are written in another way", e);
    if (emu_get(u, EMU_CUBE_NOTCH))
        return emu_refuse(u, EMU_CUBE_NOTCH, "maxima with gaps between them", e);
    uint32_t fill = emu_get_field(u, EMU_OFFSET_PEND, 15, 0);
    if (fill >> 8 != (fill & 0xff)) // whether bytes are filled or halves is not known
        return emu_refuse(u, EMU_OFFSET_PEND, "not the same byte twice", e);
    return changes_sums(d) ? emu_refuse(u, EMU_BS_CFG, "maxima of sums that are changed", e) : 0;
}

// All sizes are the line's that the core has; its registers are those of d->shape then.
int emu_decode_core_maxima(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t kernels = emu_get_field(u, EMU_CORE_SIZE1, 15, 0) + 1;
    uint32_t pixels = emu_get_field(u, EMU_CORE_SIZE0, 15, 0) + 1, each = KERNELS / EIGHT;
    int r = check_way(u, d, e);
    if (r < 0)
        return r;
    if (kernels != KERNELS)
        return emu_refuse(u, EMU_CORE_SIZE1, "maxima of other than 16 kernels", e);
    if (emu_get_field(u, EMU_CORE_SIZE0, 31, 16))
        return emu_refuse(u, EMU_CORE_SIZE0, "maxima of more than a line", e);
    if (d->shape[0] != EIGHT)
        return emu_refuse(u, EMU_CUBE_CHANNEL, "maxima of other than eight channels", e);
    if (d->shape[1] != 1 || d->shape[2] != each * pixels)
        return emu_refuse(u, EMU_CUBE_WIDTH, "not the atoms of the core's line", e);
    if (emu_get(u, EMU_STREAM_PIECE) != each * HALF_BYTES)
        return emu_refuse(u, EMU_STREAM_PIECE, "pieces that are not a pixel's maxima", e);
    if (emu_get(u, EMU_WDMA_SIZE_1) != (pixels - 1) << 16)
        return emu_refuse(u, EMU_WDMA_SIZE_1, "not the size of the core's line", e);
    if (emu_get_field(u, EMU_WDMA_SIZE_0, 31, 16))
        return emu_refuse(u, EMU_WDMA_SIZE_0, "maxima of more than one surface", e);
    d->shape[0] = kernels;
    d->shape[2] = pixels;
    d->maxima = EIGHT;
    d->real_channels = each;
    d->channels = EIGHT;
    d->behind = (uint16_t)emu_get(u, EMU_OFFSET_PEND);
    uint32_t atom = u->chip->atom;
    d->target.cube = (struct emu_cube){.base = emu_get(u, EMU_DST_ADDR),
                                       .surface = (int64_t)pixels * atom,
                                       .line = (int64_t)pixels * atom,
                                       .lanes = EIGHT,
                                       .pixel = atom,
                                       .bytes = HALF_BYTES};
    return 0;
}
