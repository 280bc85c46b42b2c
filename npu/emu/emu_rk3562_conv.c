// How RK3562's registers say a convolution, and those of RK3576 and RV1126B, which hold most sizes
// less one. Decodes only: emu_conv.c has the arithmetic. Tests: test_emulator.
#include "npu/emu/emu_unit.h"

#define LANES      16
#define REAL_BLOCK 16 // kernels and channels of fp16 that lie together

static bool is_rk3576(const struct emu_unit *u)
{
    return u->chip->generation == EMU_RK3576;
}

// Both precisions of CONV_CON1, and bit 21, which all programs of fp16 have and no others.
static int decode_precision(const struct emu_unit *u, bool *ret_real, struct error *e)
{
    enum { ALL_FP16 = EMU_FP16 << 3 | EMU_FP16 };
    uint32_t precision = emu_get_field(u, EMU_CONV_CON1, is_rk3576(u) ? 11 : 9, 4);
    *ret_real = emu_get_field(u, EMU_CONV_CON1, 21, 21);
    if (precision != (*ret_real ? ALL_FP16 : 0))
        return emu_refuse(u, EMU_CONV_CON1, "neither int8 nor fp16", e);
    return 0;
}

// Two halves of packed pixels at once, each with the kernels: one file of RK3562 has it so, whose
// tasks read and write what that makes of them.
enum { HALVES = 1 << 16 | 1 << 14 };

static bool has_halves(const struct emu_unit *u)
{
    return !is_rk3576(u) && (emu_get(u, EMU_CONV_CON1) & HALVES) == HALVES;
}

// What CORE_MISC says of the same.
static uint32_t expected_misc(const struct emu_unit *u, bool real, bool packed, bool depthwise)
{
    if (depthwise)
        return 0xa;
    if (has_halves(u))
        return 0x15;
    return (real ? 0x200u : 1) | (packed && is_rk3576(u) ? 0x80u : 0);
}

static int check_conv(const struct emu_unit *u, bool real, struct error *e)
{
    uint32_t mode = emu_get_field(u, EMU_CONV_CON1, 3, 0);
    if (is_rk3576(u) ? mode > 2 && mode != 6 : mode > 2 && mode != 5)
        return emu_refuse(u, EMU_CONV_CON1, "a convolution of another kind", e);
    bool packed = emu_get_field(u, EMU_CONV_CON1, 15, 12), depthwise = mode == 1 || mode == 5;
    if (real && mode != (packed ? 2 : 0))
        return emu_refuse(u, EMU_CONV_CON1, "a convolution of fp16 of another kind", e);
    // Bit 28, where RK3576 has it, is known to change nothing.
    if ((emu_get(u, EMU_CORE_MISC) & ~(is_rk3576(u) ? 0x10000000u : 0)) !=
        expected_misc(u, real, packed, depthwise))
        return emu_refuse(u, EMU_CORE_MISC, "not the kind of convolution of CONV_CON1", e);
    uint32_t zero = emu_get(u, EMU_WEIGHT_ZERO);
    if (emu_field(zero, 15, 8) != emu_field(zero, 7, 0))
        return emu_refuse(u, EMU_WEIGHT_ZERO, "not the same twice", e);
    if (emu_get_field(u, EMU_CONV_CON1, 16, 16) && (!has_halves(u) || real || mode != 2))
        return emu_refuse(u, EMU_CONV_CON1, "a convolution of another kind", e);
    if (emu_get(u, EMU_CONV_CON3) & EMU_NO_STEPS & 0x0fffffff) // above: how many cores share it
        return emu_refuse(u, EMU_CONV_CON3, "more than strides and dilations", e);
    return 0;
}

static int decode_converter(const struct emu_unit *u, struct emu_conv *c, bool packed,
                            struct error *e)
{
    enum { BYPASS = 1 << 0, SIGNED = 1 << 3 };
    // Files' packed fp16 have other bits beside these, and an offset of a tensor that is elsewhere.
    if (c->real && packed && emu_get_field(u, EMU_CVT_CON0, 3, 0) == (BYPASS | SIGNED))
        return 0;
    int r = emu_decode_lanes_apart(u, c, packed, 0xb, e);
    for (int i = 0; i < EMU_LANES && r == 0 && c->converts; i++)
        if (c->lanes[i].offset < INT16_MIN || c->lanes[i].offset > INT16_MAX)
            return emu_refuse(u, emu_lane_offsets[i], "an offset that leaves nothing of the input",
                              e);
    return r;
}

static void decode_kernels(const struct emu_unit *u, struct emu_conv *c)
{
    uint32_t size = emu_get(u, EMU_WEIGHT_SIZE2);
    if (is_rk3576(u)) {
        c->kernels = emu_field(size, 15, 0) + 1;
        c->kernel[0] = emu_field(size, 23, 16) + 1;
        c->kernel[1] = emu_field(size, 31, 24) + 1;
    } else {
        c->kernels = emu_field(size, 13, 0);
        c->kernel[0] = emu_field(size, 20, 16);
        c->kernel[1] = emu_field(size, 28, 24);
    }
    c->weights = emu_get(u, EMU_WEIGHT_ADDR);
    c->weight_bytes = emu_get(u, EMU_WEIGHT_SIZE0);
    c->bytes_per_kernel = emu_get_field(u, EMU_WEIGHT_SIZE1, 15, 0);
    c->paired = c->depthwise && c->weight_bytes == 2 * c->bytes_per_kernel;
    c->weight_zero = (int8_t)emu_get(u, EMU_WEIGHT_ZERO);
    c->kernel_block = c->real ? REAL_BLOCK : u->chip->kernel_block;
    c->channel_block = c->real ? REAL_BLOCK : 32;
    c->depthwise_block = u->chip->depthwise_block;
}

// How many products of fp16 are summed before the sum is rounded is not known of these chips: of
// one pixel, and as many channels as lie together, it is all the same.
static int check_sums(const struct emu_unit *u, const struct emu_conv *c, struct error *e)
{
    if (!c->real || (c->kernel[0] == 1 && c->kernel[1] == 1 && c->channels <= REAL_BLOCK &&
                     c->bytes_per_kernel <= 2 * REAL_BLOCK && !c->depthwise))
        return 0;
    return emu_refuse(u, EMU_WEIGHT_SIZE2, "sums of fp16 of more than 16 products", e);
}

static int decode_packed(const struct emu_unit *u, uint32_t packed, struct emu_conv *c,
                         struct error *e)
{
    uint32_t bytes = c->real ? 2 : 1, pixel = packed * bytes;
    int64_t line = (int64_t)emu_get(u, EMU_LINE_STRIDE) * LANES;
    int r = is_rk3576(u) ? 0 : emu_decode_packed_line(u, c->size[0], c->size[1] * pixel, &line, e);
    c->channels = 4;
    c->present = packed;
    c->feature =
        (struct emu_cube){emu_get(u, EMU_FEATURE_ADDR), 0, line, packed, pixel, bytes, false};
    c->rows_of_16 = emu_get_field(u, EMU_CONV_CON1, 3, 0) == 6;
    return r;
}

static int decode_feature(const struct emu_unit *u, uint32_t packed, struct emu_conv *c,
                          struct error *e)
{
    uint32_t less = u->chip->less_one, bytes = c->real ? 2 : 1;
    uint64_t base = emu_get(u, EMU_FEATURE_ADDR);
    c->size[1] = emu_get_field(u, EMU_DATA_SIZE0, 31, 16) + less;
    c->size[0] = emu_get_field(u, EMU_DATA_SIZE0, 15, 0) + less;
    if (packed)
        return decode_packed(u, packed, c, e);
    c->channels = emu_get_field(u, EMU_DATA_SIZE1, 13, 0) + less;
    c->present = emu_get(u, EMU_DATA_CHANNEL_REAL) + less;
    int64_t line =
        emu_get(u, EMU_LINE_STRIDE) / (emu_get_field(u, EMU_CONV_CON1, 29, 29) ? 1 : 4) * LANES;
    // Rows of the task before may still be in the chip: the tile begins that many lines earlier.
    int64_t kept = (int64_t)c->size[0] - (emu_get_field(u, EMU_DMA_SIZE, 15, 0) + less);
    c->feature = (struct emu_cube){base - (uint64_t)(kept * line),
                                   (int64_t)emu_get(u, EMU_SURFACE_STRIDE) * LANES,
                                   line,
                                   LANES / bytes,
                                   LANES,
                                   bytes,
                                   false};
    return 0;
}

int emu_conv_rk3562(const struct emu_unit *u, struct emu_conv *ret, struct error *e)
{
    bool real;
    int r = decode_precision(u, &real, e);
    if (r == 0)
        r = check_conv(u, real, e);
    if (r < 0)
        return r;
    uint32_t mode = emu_get_field(u, EMU_CONV_CON1, 3, 0), pads = emu_get(u, EMU_PAD_CON0);
    uint32_t packed = emu_get_field(u, EMU_CONV_CON1, 15, 12);
    if (has_halves(u))
        packed &= 0xb;
    *ret = (struct emu_conv){
        .real = real,
        .depthwise = mode == 1 || (mode == 5 && !is_rk3576(u)), // 5: weights in pairs
        .stride = {emu_get_field(u, EMU_CONV_CON3, 5, 3), emu_get_field(u, EMU_CONV_CON3, 2, 0)},
        .spread = {emu_get_field(u, EMU_CONV_CON3, 13, 11) + 1,
                   emu_get_field(u, EMU_CONV_CON3, 10, 8) + 1},
        // Where RK3588 and RV1106 have them; of these chips nobody has measured it.
        .dilation = {emu_get_field(u, EMU_CONV_CON3, 25, 21) + 1,
                     emu_get_field(u, EMU_CONV_CON3, 20, 16) + 1},
        .pad_top = pads & 0xff,
        .pad_left = pads >> 8 & 0xff,
        .out = {emu_get_field(u, EMU_CORE_SIZE1, 15, 0) + 1,
                emu_get_field(u, EMU_CORE_SIZE0, 31, 16) + 1,
                emu_get_field(u, EMU_CORE_SIZE0, 15, 0) + 1},
        .clip = emu_get_field(u, EMU_CLIP_TRUNCATE, 4, 0),
    };
    if (has_halves(u)) {
        ret->lower_half = (uint64_t)emu_get(u, EMU_SURFACE_STRIDE) * LANES;
        ret->pad_bottom = pads >> 16 & 0xff;
        if (!ret->lower_half)
            return emu_refuse(u, EMU_SURFACE_STRIDE, "halves that are the same", e);
    }
    decode_kernels(u, ret);
    r = decode_feature(u, packed > 7 ? packed - 7 : 0, ret, e);
    if (r == 0)
        r = check_sums(u, ret, e);
    if (r == 0)
        r = emu_check_shape(u, ret->out, e);
    if (r == 0)
        r = emu_decode_pad(u, EMU_PAD_CON1, &ret->pad_value, e);
    return r < 0 ? r : decode_converter(u, ret, packed, e);
}
