// How the registers of RV1106 and RV1103 say a convolution; their DPU is told as RK3562's
// (emu_rk3562_dpu.c).
// Decodes only: emu_conv.c has the arithmetic. Tests: test_emulator.
#include "npu/emu/emu_unit.h"

#define LANES 16

static int check_conv(const struct emu_unit *u, struct error *e)
{
    uint32_t mode = emu_get_field(u, EMU_CONV_CON1, 11, 0);
    if ((mode != 0 && mode != 7) || emu_get_field(u, EMU_CONV_CON1, 16, 16))
        return emu_refuse(u, EMU_CONV_CON1, "a convolution of another kind", e);
    if (emu_get(u, EMU_CORE_MISC) != (mode ? 0xau : 1u))
        return emu_refuse(u, EMU_CORE_MISC, "not the kind of convolution of CONV_CON1", e);
    if (emu_get(u, EMU_CONV_CON3) & EMU_NO_STEPS)
        return emu_refuse(u, EMU_CONV_CON3, "more than strides and dilations", e);
    return 0;
}

// Offsets join before the shift.
static int decode_converter(const struct emu_unit *u, struct emu_conv *c, bool packed,
                            struct error *e)
{
    int r = emu_decode_lanes_apart(u, c, packed, 9, e);
    for (int i = 0; i < EMU_LANES; i++)
        c->lanes[i].order = EMU_OFFSET_SECOND;
    return r;
}

static int decode_feature(const struct emu_unit *u, uint32_t packed, struct emu_conv *c,
                          struct error *e)
{
    uint64_t base = emu_get(u, EMU_FEATURE_ADDR);
    int64_t line = emu_get(u, EMU_LINE_STRIDE) / 4 * LANES;
    c->feature = (struct emu_cube){
        base, (int64_t)emu_get(u, EMU_SURFACE_STRIDE) * LANES, line, LANES, LANES, 1, false};
    if (!packed)
        return 0;
    c->feature = (struct emu_cube){base, 0, 0, packed, packed, 1, false};
    return emu_decode_packed_line(u, c->size[0], c->size[1] * packed, &c->feature.line, e);
}

int emu_conv_rv1106(const struct emu_unit *u, struct emu_conv *ret, struct error *e)
{
    int r = check_conv(u, e);
    if (r < 0)
        return r;
    uint32_t packed = emu_get_field(u, EMU_CONV_CON1, 15, 12), pads = emu_get(u, EMU_PAD_CON0);
    uint32_t width = emu_get_field(u, EMU_DATA_SIZE0, 26, 16);
    packed = packed > 7 ? packed - 7 : 0;
    *ret = (struct emu_conv){
        .channels = packed ? EMU_LANES : emu_get_field(u, EMU_DATA_SIZE1, 15, 0),
        .present = packed ? packed : emu_get_field(u, EMU_DATA_SIZE1, 29, 16) + 1,
        .size = {emu_get_field(u, EMU_DATA_SIZE0, 10, 0), width},
        .depthwise = emu_get_field(u, EMU_CONV_CON1, 3, 0) == 7,
        .kernel = {emu_get_field(u, EMU_WEIGHT_SIZE2, 20, 16),
                   emu_get_field(u, EMU_WEIGHT_SIZE2, 28, 24)},
        .stride = {emu_get_field(u, EMU_CONV_CON3, 5, 3), emu_get_field(u, EMU_CONV_CON3, 2, 0)},
        .dilation = {emu_get_field(u, EMU_CONV_CON3, 25, 21) + 1,
                     emu_get_field(u, EMU_CONV_CON3, 20, 16) + 1},
        .spread = {emu_get_field(u, EMU_CONV_CON3, 13, 11) + 1,
                   emu_get_field(u, EMU_CONV_CON3, 10, 8) + 1},
        .pad_top = pads & 0xff,
        .pad_left = pads >> 8 & 0xff,
        .out = {emu_get_field(u, EMU_CORE_SIZE1, 15, 0) + 1,
                emu_get_field(u, EMU_CORE_SIZE0, 31, 16) + 1,
                emu_get_field(u, EMU_CORE_SIZE0, 15, 0) + 1},
        .kernels = emu_get_field(u, EMU_WEIGHT_SIZE2, 13, 0),
        .weights = emu_get(u, EMU_WEIGHT_ADDR),
        .weight_bytes = emu_get(u, EMU_WEIGHT_SIZE0),
        .bytes_per_kernel = emu_get_field(u, EMU_WEIGHT_SIZE1, 18, 0),
        .kernel_block = u->chip->kernel_block,
        .channel_block = 32,
        .depthwise_block = u->chip->depthwise_block,
        .clip = emu_get_field(u, EMU_CLIP_TRUNCATE, 4, 0),
    };
    ret->paired = ret->alternating = ret->depthwise;
    r = decode_feature(u, packed, ret, e);
    if (r == 0)
        r = emu_check_shape(u, ret->out, e);
    if (r == 0)
        r = emu_decode_pad(u, EMU_PAD_CON1, &ret->pad_value, e);
    return r < 0 ? r : decode_converter(u, ret, packed, e);
}
