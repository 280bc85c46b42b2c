// How RK3588's CNA and CORE say a convolution, and those of RK3566 and RK3568, which differ in few.
// Decodes only: emu_conv.c and emu_real.c have the arithmetic. Tests: test_emulator.
#include "npu/emu/emu_unit.h"

// Both precisions of CONV_CON1 and the core's are of one kind.
static int decode_precision(const struct emu_unit *u, bool *ret_real, struct error *e)
{
    uint32_t misc = emu_get(u, EMU_CORE_MISC) & ~2u; // bit 1: depthwise
    uint32_t in = emu_get_field(u, EMU_CONV_CON1, 6, 4);
    uint32_t work = emu_is_rk3568(u) ? emu_get_field(u, EMU_CONV_CON1, 10, 8)
                                     : emu_get_field(u, EMU_CONV_CON1, 9, 7);
    *ret_real = in == EMU_FP16 || (in == EMU_BF16 && !emu_is_rk3568(u));
    if (in != work || (in != EMU_INT8 && !*ret_real))
        return emu_refuse(u, EMU_CONV_CON1, "neither int8 nor fp16", e);
    if (misc != (emu_is_rk3568(u) ? (*ret_real ? 0x2000u : 0) : *ret_real ? in << 8 : 1))
        return emu_refuse(u, EMU_CORE_MISC, "not the precision of CONV_CON1", e);
    return 0;
}

static int check_conv(const struct emu_unit *u, struct error *e)
{
    if (emu_get(u, EMU_CLIP_TRUNCATE))
        return emu_refuse(u, EMU_CLIP_TRUNCATE, "sums that lose bits", e);
    uint32_t mode = emu_get_field(u, EMU_CONV_CON1, 3, 0);
    bool transposed = emu_get_field(u, EMU_CONV_CON1, 16, 16);
    if (mode != 0 && mode != 3)
        return emu_refuse(u, EMU_CONV_CON1, "a convolution of another kind", e);
    if (emu_get(u, EMU_CONV_CON3) & (EMU_NO_STEPS | (transposed ? 0 : EMU_DECONV_STEPS)))
        return emu_refuse(u, EMU_CONV_CON3, "more than strides and dilations", e);
    return 0;
}

// What RK3588 does to the first operand of a product (exMatMul, exSDPAttention), whose zero point
// no weights' table can have: all channels alike, (x + offset) * factor >> shift. That the offset
// comes first follows from its values: the zero point's opposite, and factors of 127 of the rest's
// largest.
static int decode_operand_converter(const struct emu_unit *u, struct emu_conv *c, struct error *e)
{
    enum { ALL_CHANNELS = 0xffff };
    emu_decode_lane_shifts(u, c);
    for (int i = 0; i < EMU_LANES; i++) {
        uint32_t lane = emu_get(u, (enum emu_register)(EMU_CVT_CON1 + i));
        c->lanes[i].factor = (int32_t)emu_field(lane, 31, 16);
        c->lanes[i].offset = emu_signed(lane, 16);
        c->lanes[i].order = EMU_OFFSET_FIRST;
        if (lane != emu_get(u, EMU_CVT_CON1) || c->lanes[i].shift != c->lanes[0].shift)
            return emu_refuse(u, EMU_CVT_CON1, "channels that are converted differently", e);
    }
    if (emu_get(u, EMU_CVT_CON5) != ALL_CHANNELS)
        return emu_refuse(u, EMU_CVT_CON5, "a converter of other channels", e);
    c->converts = true;
    return 0;
}

// Packed pixels on RK3588 (direct_pixels.c): whether offsets come first, and what is rounded, was
// measured by nobody, which does not matter as long as nothing is divided.
static int decode_pixel_converter(const struct emu_unit *u, struct emu_conv *c, struct error *e)
{
    enum { ALL_CHANNELS = 0xffff };
    emu_decode_lane_shifts(u, c);
    for (int i = 0; i < EMU_LANES; i++) {
        enum emu_register reg = (enum emu_register)(EMU_CVT_CON1 + i);
        c->lanes[i].factor = (int32_t)emu_get_field(u, reg, 31, 16);
        c->lanes[i].offset = emu_signed(emu_get(u, reg), 16);
        if (c->lanes[i].factor != INT64_C(1) << c->lanes[i].shift)
            return emu_refuse(u, reg, "pixels that are scaled", e);
    }
    if (emu_get(u, EMU_CVT_CON5) != ALL_CHANNELS)
        return emu_refuse(u, EMU_CVT_CON5, "a converter of other channels", e);
    c->converts = true;
    return 0;
}

// CVT_CON0 of a converter that works ends in 1 on RK3568, in 10 or 0 on RK3588.
static int decode_converter(const struct emu_unit *u, struct emu_conv *c, bool packed,
                            struct error *e)
{
    static const enum emu_register lanes[] = {EMU_CVT_CON1, EMU_CVT_CON2, EMU_CVT_CON3,
                                              EMU_CVT_CON4};
    uint32_t cfg = emu_get(u, EMU_CVT_CON0);
    if (cfg == (emu_is_rk3568(u) ? 0xa : 0xb))
        return 0;
    if (!emu_is_rk3568(u) && !packed && !c->real && emu_field(cfg, 3, 0) == 0xa)
        return decode_operand_converter(u, c, e);
    if (!emu_is_rk3568(u) && packed && !c->real && emu_field(cfg, 3, 0) == 0)
        return decode_pixel_converter(u, c, e);
    if (!emu_is_rk3568(u) || !packed || emu_field(cfg, 3, 0) != 1)
        return emu_refuse(u, EMU_CVT_CON0, "inputs that are converted in another way", e);
    emu_decode_lane_shifts(u, c);
    for (int i = 0; i < EMU_LANES; i++) {
        c->lanes[i].factor = (int32_t)emu_get_field(u, lanes[i], 31, 16);
        c->lanes[i].offset = emu_signed(emu_get(u, lanes[i]), 16);
    }
    c->converts = true;
    return 0;
}

static struct emu_cube feature_of(const struct emu_unit *u, uint32_t packed, uint32_t width,
                                  uint32_t bytes)
{
    uint32_t atom = u->chip->atom;
    int64_t lines = emu_get_field(u, EMU_LINE_STRIDE, 27, 0);
    struct emu_cube cube = {emu_get(u, EMU_FEATURE_ADDR), 0, 0, atom / bytes, atom, bytes, false};
    if (packed) {
        cube.lanes = packed;
        cube.pixel = packed * bytes;
        cube.line = lines * (emu_is_rk3568(u) ? atom : cube.pixel);
        return cube;
    }
    if (emu_is_rk3568(u)) {
        cube.line = lines * atom;
        cube.surface = (int64_t)emu_get_field(u, EMU_SURFACE_STRIDE, 27, 0) * atom;
        return cube;
    }
    // The step to the next surface counts from where the reader is: behind a line, or behind four.
    bool by_line = emu_get_field(u, EMU_CONV_CON1, 29, 29);
    int64_t step = emu_signed(emu_get_field(u, EMU_SURFACE_STRIDE, 27, 0), 28);
    cube.surface = (step + (by_line ? (int64_t)width : lines)) * atom;
    cube.line = (by_line ? lines : lines / 4) * atom;
    return cube;
}

int emu_conv_rk3588(const struct emu_unit *u, struct emu_conv *ret, struct error *e)
{
    bool real;
    int r = decode_precision(u, &real, e);
    if (r == 0)
        r = check_conv(u, e);
    if (r < 0)
        return r;
    uint32_t half = real ? 2 : 1; // channels that the chip works on at once are half as many
    uint32_t packed = emu_get_field(u, EMU_CONV_CON1, 15, 12), pad = emu_get(u, EMU_PAD_CON0);
    packed = packed > 7 ? packed - 7 : 0;
    uint32_t width = emu_get_field(u, EMU_DATA_SIZE0, 26, 16);
    uint32_t channels = emu_get_field(u, EMU_DATA_SIZE1, 15, 0);
    if (!channels)
        return emu_refuse(u, EMU_DATA_SIZE1, "no channels", e);
    *ret = (struct emu_conv){
        .channels = channels,
        .real = real,
        .present = packed ? packed
                          : (channels - 1) / (64 / half) * (64 / half) +
                                emu_get_field(u, EMU_DATA_SIZE1, 29, 16) + 1,
        .size = {emu_get_field(u, EMU_DATA_SIZE0, 10, 0), width},
        .feature = feature_of(u, packed, width, half),
        .depthwise = emu_get_field(u, EMU_CONV_CON1, 3, 0) == 3,
        .kernel = {emu_get_field(u, EMU_WEIGHT_SIZE2, 20, 16),
                   emu_get_field(u, EMU_WEIGHT_SIZE2, 28, 24)},
        .stride = {emu_get_field(u, EMU_CONV_CON3, 5, 3), emu_get_field(u, EMU_CONV_CON3, 2, 0)},
        .dilation = {emu_get_field(u, EMU_CONV_CON3, 25, 21) + 1,
                     emu_get_field(u, EMU_CONV_CON3, 20, 16) + 1},
        .spread = {emu_get_field(u, EMU_CONV_CON3, 13, 11) + 1,
                   emu_get_field(u, EMU_CONV_CON3, 10, 8) + 1},
        .pad_top = pad & 0xf,
        .pad_left = pad >> 4 & 0xf,
        .pad_value = (int8_t)(pad >> 16), // RK3568
        .out = {emu_get_field(u, EMU_CORE_SIZE1, 15, 0) + 1,
                emu_get_field(u, EMU_CORE_SIZE0, 31, 16) + 1,
                emu_get_field(u, EMU_CORE_SIZE0, 15, 0) + 1},
        .kernels = emu_get_field(u, EMU_WEIGHT_SIZE2, 13, 0),
        .weights = emu_get(u, EMU_WEIGHT_ADDR),
        .weight_bytes = emu_get(u, EMU_WEIGHT_SIZE0),
        .bytes_per_kernel = emu_get_field(u, EMU_WEIGHT_SIZE1, 18, 0),
        .kernel_block = u->chip->kernel_block / half,
        .channel_block = 32,
        .depthwise_block = u->chip->depthwise_block / half,
    };
    ret->feature.bf16 = real && emu_get_field(u, EMU_CONV_CON1, 6, 4) == EMU_BF16;
    r = emu_check_shape(u, ret->out, e);
    if (r == 0 && emu_is_rk3568(u) && (int16_t)(pad >> 16) != ret->pad_value)
        r = emu_refuse(u, EMU_PAD_CON0, "a pad value of more than 8 bits", e);
    if (r == 0 && !emu_is_rk3568(u))
        r = emu_decode_pad(u, EMU_PAD_CON1, &ret->pad_value, e);
    return r < 0 ? r : decode_converter(u, ret, packed, e);
}
