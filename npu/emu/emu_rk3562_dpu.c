// How RK3562's registers say what the DPU does, and those of RK3576 and RV1126B, which keep shifts
// and single operands in memory (configuration tensors), and those of RV1103 and RV1106. Decodes
// only: emu_dpu.c has the arithmetic. Tests: test_emulator.
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "npu/emu/emu_unit.h"

#define LANES 16

static bool is_rk3576(const struct emu_unit *u)
{
    return u->chip->generation == EMU_RK3576;
}

static bool is_rv1106(const struct emu_unit *u)
{
    return u->chip->generation == EMU_RV1106;
}

static int64_t stride_of(const struct emu_unit *u, enum emu_register reg)
{
    return (int64_t)emu_get(u, reg) * u->chip->stride_unit;
}

// Of a stage: the higher of two low ones, the lower of two high ones. Of real numbers only programs
// without bounds are known, whose registers hold the same as those for whole numbers.
static int decode_bounds(const struct emu_unit *u, const enum emu_register reg[4], bool real,
                         int32_t ret[2], struct error *e)
{
    int32_t low[2] = {(int32_t)emu_get(u, reg[0]), (int32_t)emu_get(u, reg[2])};
    int32_t high[2] = {(int32_t)emu_get(u, reg[1]), (int32_t)emu_get(u, reg[3])};
    ret[0] = low[0] > low[1] ? low[0] : low[1];
    ret[1] = high[0] < high[1] ? high[0] : high[1];
    if (!real)
        return 0;
    for (int i = 0; i < 4; i++)
        if ((int32_t)emu_get(u, reg[i]) != (i % 2 ? INT32_MAX : INT32_MIN))
            return emu_refuse(u, reg[i], "a bound of real numbers", e);
    ret[0] = (int32_t)float_bits(-INFINITY);
    ret[1] = (int32_t)float_bits(INFINITY);
    return 0;
}

// ---- operands of BS and BN ----

// What a stage reads: bits of BRDMA_CFG and NRDMA_CFG. On RK3576 single operands lie in a
// configuration tensor, those that there are one after the other.
enum { ONE_A = 1 << 1, ONE_B = 1 << 2, ONE_C = 1 << 3, SHIFTS = 1 << 4 };
enum { EACH_SHIFT = 8, EACH = 7 << EACH_SHIFT };
enum { A_BYTES = 32, ITEM_BYTES = 16 };

struct operands {
    struct emu_operand abc[3];
    uint32_t shift, negative_shift;
};

static const uint8_t *next_item(const struct emu_unit *u, uint64_t *at, uint32_t bytes,
                                struct error *e)
{
    const uint8_t *item = emu_memory_at(u->memory, *at, bytes, e);
    *at += bytes;
    return item;
}

static struct emu_operand one_operand(int32_t value)
{
    return (struct emu_operand){EMU_ALL, value, NULL};
}

static int read_configuration(const struct emu_unit *u, uint32_t use, uint64_t at, bool real,
                              struct operands *o, struct error *e)
{
    const uint8_t *item = NULL;
    int r = 0;
    if (use & ONE_A && (item = next_item(u, &at, A_BYTES, e)))
        o->abc[0] = one_operand((int32_t)read_le32(item));
    for (int i = 1; i < 3; i++)
        if (use & ((uint32_t)ONE_A << i) && (item = next_item(u, &at, ITEM_BYTES, e)))
            o->abc[i] = one_operand(real ? (int32_t)float_bits(emu_half_float(read_le16(item)))
                                         : (int16_t)read_le16(item));
    if (use & SHIFTS && (item = next_item(u, &at, ITEM_BYTES, e))) {
        o->shift = item[0] & 0x3f;
        o->negative_shift = item[1] & 0x3f;
    }
    if (use & (ONE_A | ONE_B | ONE_C | SHIFTS) && !item)
        r = error_prefix(e, "a configuration tensor");
    return r;
}

static int read_operands(const struct emu_unit *u, enum emu_register use_reg, uint64_t config,
                         uint64_t table, uint32_t channels, bool real, struct operands *o,
                         struct error *e)
{
    uint32_t use = emu_get(u, use_reg);
    if (use & ~(uint32_t)(ONE_A | ONE_B | ONE_C | SHIFTS | EACH) ||
        (use >> EACH_SHIFT & use >> 1 & 7))
        return emu_refuse(u, use_reg, "another set of operands", e);
    int r = read_configuration(u, use, config, real, o, e);
    if (r == 0 && use & EACH)
        r = emu_read_table(u, table, channels, use >> EACH_SHIFT & 7, real, o->abc, e);
    return r;
}

static void operands_done(struct operands *o)
{
    for (int i = 0; i < 3; i++)
        free(o->abc[i].each);
}

// Hands an operand over.
static struct emu_operand take_operand(struct emu_operand *o)
{
    struct emu_operand taken = *o;
    *o = (struct emu_operand){EMU_NONE, 0, NULL};
    return taken;
}

// ---- BS ----

static int is_one_of(uint32_t value, const uint32_t *known, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (known[i] == value)
            return 1;
    return 0;
}

#define IS_ONE_OF(value, ...)                                                                      \
    is_one_of(value, (const uint32_t[]){__VA_ARGS__},                                              \
              sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static int bs_operands_rk3576(const struct emu_unit *u, uint32_t channels, bool real,
                              struct operands *o, struct error *e)
{
    return read_operands(u, EMU_RDMA_BRDMA_CFG, emu_get(u, EMU_RDMA_BS_CONFIG_ADDR),
                         emu_get(u, EMU_RDMA_BS_ADDR), channels, real, o, e);
}

// RK3562 has single operands and shifts in registers.
static int bs_operands_rk3562(const struct emu_unit *u, uint32_t channels, bool real,
                              struct operands *o, struct error *e)
{
    uint32_t use = emu_get(u, EMU_RDMA_BRDMA_CFG), ow = emu_get(u, EMU_BS_OW_CFG);
    uint32_t factor = emu_get_field(u, EMU_BS_MUL_CFG, 31, 16);
    if (!IS_ONE_OF(use, 0, 1, 2, 0xa, 0xe))
        return emu_refuse(u, EMU_RDMA_BRDMA_CFG, "another set of operands", e);
    int r = use >> 1 ? emu_read_table(u, emu_get(u, EMU_RDMA_BS_ADDR), channels, use >> 1, real,
                                      o->abc, e)
                     : 0;
    if (!(use & 2))
        o->abc[0] = one_operand((int32_t)emu_get(u, EMU_BS_ALU_CFG));
    if (!(use & 8) && factor)
        o->abc[2] = one_operand(real ? (int32_t)float_bits(emu_half_float((uint16_t)factor))
                                     : emu_signed(factor, 16));
    if (!(use & 4) && !(ow & 1))
        o->abc[1] = one_operand(emu_signed(emu_get(u, EMU_BS_OW_OP), 16));
    o->shift =
        is_rv1106(u) ? emu_get_field(u, EMU_BS_CFG, 13, 9) : emu_get_field(u, EMU_BS_CFG, 12, 8);
    o->negative_shift = is_rv1106(u) ? emu_get_field(u, EMU_BS_OW_OP, 28, 24)
                                     : emu_get_field(u, EMU_BS_OW_OP, 21, 16);
    return r;
}

// What else BS_CFG says stands in what is read, too.
static int check_bs(const struct emu_unit *u, struct error *e)
{
    uint32_t shift = is_rk3576(u) ? 0 : is_rv1106(u) ? 0x3e00 : 0x1f00;
    uint32_t cfg = emu_get(u, EMU_BS_CFG) & ~shift;
    if (is_rv1106(u) && cfg == 0x120180)
        return 0;
    if (!IS_ONE_OF(cfg, 0x120080, 0x120090, 0x100092, 0x100090, 0x100012, 0x20040, 0x52))
        return emu_refuse(u, EMU_BS_CFG, "a combination that is not known", e);
    return 0;
}

static int decode_bs(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    static const enum emu_register reg[] = {EMU_BS_LOW_0, EMU_BS_HIGH_0, EMU_BS_LOW_1,
                                            EMU_BS_HIGH_1};
    struct operands o = {0};
    int32_t bounds[2];
    int r = decode_bounds(u, reg, d->real, bounds, e);
    d->bs = (struct emu_multiply){.low = bounds[0], .high = bounds[1]};
    if (r < 0 || emu_get(u, EMU_BS_CFG) & 1)
        return r;
    r = check_bs(u, e);
    if (r == 0)
        r = (is_rk3576(u) ? bs_operands_rk3576 : bs_operands_rk3562)(u, d->shape[0], d->real, &o,
                                                                     e);
    d->bs.add = take_operand(&o.abc[0]);
    d->bs.factor = take_operand(&o.abc[2]);
    if (d->from_core)
        d->bs.window = take_operand(&o.abc[1]);
    d->bs.shift = o.shift;
    d->bs.negative_shift = o.negative_shift;
    operands_done(&o);
    if (r == 0 && !d->real && !d->bs.factor.kind && (o.shift || o.negative_shift))
        return emu_refuse(u, EMU_BS_CFG, "a shift of what nothing multiplies", e);
    return r < 0 ? r : emu_check_shifts(u, &d->bs, e);
}

// ---- BN ----

static int decode_bn_rk3576(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    enum { PRELU = 1 << 10 };
    struct emu_multiply *m = &d->bn;
    struct operands o = {0};
    uint32_t cfg = emu_get(u, EMU_BN_CFG);
    if (!IS_ONE_OF(cfg, 0x2, 0x20, 0x402, 0x920, 0x924))
        return emu_refuse(u, EMU_BN_CFG, "a combination that is not known", e);
    int r = read_operands(u, EMU_RDMA_NRDMA_CFG, emu_get(u, EMU_RDMA_BN_CONFIG_ADDR),
                          emu_get(u, EMU_RDMA_BN_ADDR), d->shape[0], d->real, &o, e);
    if (r == 0 && o.abc[1].kind)
        r = emu_refuse(u, EMU_RDMA_NRDMA_CFG, "another set of operands", e);
    m->add = take_operand(&o.abc[0]);
    m->factor = take_operand(&o.abc[2]);
    m->prelu = cfg & PRELU;
    m->shift = o.shift;
    m->negative_shift = o.negative_shift;
    operands_done(&o);
    return r;
}

static int decode_bn_rk3562(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t cfg = emu_get(u, EMU_BN_CFG), mul = emu_get(u, EMU_BN_MUL_CFG);
    if (!IS_ONE_OF(cfg, 0x2, 0x20000, 0x22))
        return emu_refuse(u, EMU_BN_CFG, "a combination that is not known", e);
    d->bn.adds_last = true;
    if (cfg == 0x20000)
        d->bn.add = one_operand((int32_t)emu_get(u, EMU_BN_ALU_CFG));
    d->bn.factor = one_operand(d->real ? (int32_t)float_bits(emu_half_float((uint16_t)(mul >> 16)))
                                       : emu_signed(mul >> 16, 16));
    d->bn.prelu = cfg == 0x22;
    d->bn.shift = emu_field(mul, 13, 8);
    d->bn.negative_shift = emu_get_field(u, EMU_DATA_FORMAT, 15, 10);
    return mul & 1 ? emu_read_slopes(u, d, d->bn.prelu, e) : 0;
}

static int decode_bn(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    static const enum emu_register reg[] = {EMU_BN_LOW_0, EMU_BN_HIGH_0, EMU_BN_LOW_1,
                                            EMU_BN_HIGH_1};
    uint32_t cfg = emu_get(u, EMU_BN_CFG);
    int32_t bounds[2];
    int r = decode_bounds(u, reg, d->real, bounds, e);
    d->bn = (struct emu_multiply){.low = bounds[0], .high = bounds[1]};
    bool slopes = emu_get(u, EMU_BN_MUL_CFG) & 1;
    if (r == 0 && !is_rk3576(u) && !slopes && emu_get(u, EMU_RDMA_NRDMA_CFG))
        r = emu_refuse(u, EMU_RDMA_NRDMA_CFG, "another set of operands", e);
    if (r < 0 || IS_ONE_OF(cfg, 0x903, 0x902, 0x13, 0x12))
        return r;
    r = (is_rk3576(u) ? decode_bn_rk3576 : decode_bn_rk3562)(u, d, e);
    return r < 0 ? r : emu_check_shifts(u, &d->bn, e);
}

// ---- EW ----

// Each number stands there four times, and must be the same.
static int check_copies(const struct emu_unit *u, const enum emu_register *reg, size_t n,
                        uint32_t value, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (emu_get(u, reg[i]) != value)
            return emu_refuse(u, reg[i], "not as the registers beside it", e);
    return 0;
}

static int decode_lut_rk3576(const struct emu_unit *u, struct emu_lut_side ret[2], struct error *e)
{
    static const enum emu_register starts[] = {EMU_LUT_START_1, EMU_LUT_START_2, EMU_LUT_START_3};
    static const enum emu_register ends[] = {EMU_LUT_END_1, EMU_LUT_END_2, EMU_LUT_END_3};
    int32_t start = (int32_t)emu_get(u, EMU_LUT_LE_START), end = (int32_t)emu_get(u, EMU_LUT_END);
    uint32_t below = emu_get_field(u, EMU_LUT_BELOW_VALUE_1, 15, 0);
    uint32_t above = emu_get_field(u, EMU_LUT_ABOVE_VALUE_1, 15, 0);
    uint32_t below_slope = emu_get_field(u, EMU_LUT_BELOW_SLOPE, 15, 0);
    uint32_t above_slope = emu_get_field(u, EMU_LUT_ABOVE_SLOPE, 15, 0);
    uint32_t below_shift = emu_get_field(u, EMU_LUT_BELOW_SHIFT, 4, 0);
    uint32_t above_shift = emu_get_field(u, EMU_LUT_ABOVE_SHIFT, 4, 0);
    if (emu_get(u, EMU_LUT_CFG) != 0x02000006)
        return emu_refuse(u, EMU_LUT_CFG, "tables of another kind", e);
    const struct {
        enum emu_register reg;
        uint32_t value;
    } copies[] = {{EMU_LUT_BELOW_VALUE_0, below << 16},
                  {EMU_LUT_BELOW_VALUE_1, below << 16 | below},
                  {EMU_LUT_ABOVE_VALUE_0, above << 16},
                  {EMU_LUT_ABOVE_VALUE_1, above << 16 | above},
                  {EMU_LUT_BELOW_SLOPE, below_slope << 16 | below_slope},
                  {EMU_LUT_BELOW_SLOPE_1, below_slope << 16 | below_slope},
                  {EMU_LUT_ABOVE_SLOPE, above_slope << 16 | above_slope},
                  {EMU_LUT_ABOVE_SLOPE_1, above_slope << 16 | above_slope},
                  {EMU_LUT_BELOW_SHIFT, below_shift * 0x01010101},
                  {EMU_LUT_ABOVE_SHIFT, above_shift * 0x01010101}};
    int r = check_copies(u, starts, 3, (uint32_t)start, e);
    if (r == 0)
        r = check_copies(u, ends, 3, (uint32_t)end, e);
    for (size_t i = 0; r == 0 && i < sizeof copies / sizeof *copies; i++)
        r = check_copies(u, &copies[i].reg, 1, copies[i].value, e);
    if (r < 0)
        return r;
    ret[0] = (struct emu_lut_side){.entries = u->lut[0],
                                   .start = start,
                                   .outer = emu_signed(below, 16),
                                   .slope = emu_signed(below_slope, 16),
                                   .bits = emu_get_field(u, EMU_LUT_INFO, 15, 8),
                                   .slope_shift = below_shift};
    ret[1] = (struct emu_lut_side){.entries = u->lut[1],
                                   .end = end,
                                   .outer = emu_signed(above, 16),
                                   .slope = emu_signed(above_slope, 16),
                                   .bits = emu_get_field(u, EMU_LUT_INFO, 23, 16),
                                   .slope_shift = above_shift};
    return emu_check_lut(u, ret, e);
}

// The second operand: a cube, or a value for each channel.
static int read_operand(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t cfg = emu_get(u, EMU_RDMA_ERDMA_CFG), bytes = emu_precision_bytes(d->in);
    struct emu_cube cube = {emu_get(u, EMU_RDMA_EW_ADDR),
                            stride_of(u, EMU_RDMA_EW_SURF_STRIDE),
                            (int64_t)d->shape[2] * LANES,
                            LANES / bytes,
                            LANES,
                            bytes,
                            false};
    if (cfg & 1 || emu_field(cfg, 3, 2) != bytes || emu_field(cfg, 31, 30) > 1)
        return emu_refuse(u, EMU_RDMA_ERDMA_CFG, "an operand of another precision", e);
    d->ew.one_per_channel = !emu_field(cfg, 31, 30);
    if (d->ew.one_per_channel)
        return emu_read_second(u, &cube, (uint32_t[]){d->shape[0], 1, 1}, d->real, &d->ew, e);
    return emu_read_second(u, &cube, d->shape, d->real, &d->ew, e);
}

// Operations that are known, of int8 or of real numbers. Bits 16 to 19 say what RK3588's do: files
// have 0 for a maximum, 2 for a sum and 4 for a difference, and with 1 it is a minimum. Bit 31 is
// int8's. The softmax of two files divides by its sum with the last one.
static bool find_operation(uint32_t cfg, bool real, enum emu_ew *ret)
{
    static const struct {
        uint32_t cfg;
        enum emu_ew op;
        bool real;
    } known[] = {{0x8002c0c0, EMU_EW_ADD, false}, {0x8000c0c4, EMU_EW_MUL, false},
                 {0x810f4094, EMU_EW_MUL, false}, {0x81004094, EMU_EW_MUL, false},
                 {0x8000c0c0, EMU_EW_MAX, false}, {0x8001c0c0, EMU_EW_MIN, false},
                 {0x8004c0c0, EMU_EW_SUB, false}, {0x0000c0c0, EMU_EW_MAX, true},
                 {0x0001c0c0, EMU_EW_MIN, true},  {0x0002c0c0, EMU_EW_ADD, true},
                 {0x0004c0c0, EMU_EW_SUB, true},  {0x810021c8, EMU_EW_DIV, true}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].cfg == cfg && known[i].real == real) {
            *ret = known[i].op;
            return true;
        }
    *ret = cfg == 0x01004140 ? EMU_EW_LUT : EMU_EW_NONE;
    return cfg == 0x01004140 || cfg == 0x010041c1;
}

static int decode_ew(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    static const enum emu_register reg[] = {EMU_EW_LOW_0, EMU_EW_HIGH_0, EMU_EW_LOW_1,
                                            EMU_EW_HIGH_1};
    uint32_t cfg = emu_get(u, EMU_EW_CFG), scale = emu_get(u, EMU_EW_CVT_SCALE);
    int32_t bounds[2];
    int r = decode_bounds(u, reg, d->real, bounds, e);
    if (r < 0)
        return r;
    d->ew_low = bounds[0];
    d->ew_high = bounds[1];
    if (!find_operation(cfg, d->real, &d->ew.op))
        return emu_refuse(u, EMU_EW_CFG, "an operation that is not known", e);
    if (d->ew.op == EMU_EW_NONE)
        return 0;
    if (d->ew.op == EMU_EW_LUT)
        return is_rk3576(u) ? decode_lut_rk3576(u, d->lut, e)
                            : emu_decode_lut(u, is_rv1106(u) ? 0x68 : 0x160, d->lut, e);
    d->ew.offset = emu_signed(emu_get(u, EMU_EW_CVT_OFFSET), 16);
    d->ew.factor = emu_signed(scale, 16);
    d->ew.shift = emu_field(scale, 21, 16);
    if (d->real && (d->ew.offset || d->ew.factor != 1 || d->ew.shift))
        return emu_refuse(u, EMU_EW_CVT_SCALE, "a real operand that is converted", e);
    return read_operand(u, d, e);
}

// ---- what it reads and writes ----

static int decode_source(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    if (emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 13, 0)) {
        int r = emu_decode_repeat(u, d, e);
        if (r < 0)
            return r;
    }
    uint32_t bytes = emu_precision_bytes(d->in);
    bool old = is_rv1106(u);
    int64_t line = (int64_t)d->shape[2] + (old ? emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 31, 19)
                                               : emu_get(u, EMU_RDMA_SRC_LINE_NOTCH));
    int64_t notch = old ? (int32_t)emu_get(u, EMU_RDMA_SURF_NOTCH)
                        : (int64_t)emu_signed(emu_get(u, EMU_RDMA_SURF_NOTCH), 28) * LANES;
    int64_t surface = ((d->shape[1] - 1) * line + d->shape[2]) * LANES + notch;
    d->source = (struct emu_cube){
        emu_get(u, EMU_RDMA_SRC_ADDR), surface, line * LANES, LANES / bytes, LANES, bytes, false};
    return 0;
}

// RK3562 transposes bytes of elements of 32 bits: lines are the second eight of a surface's bytes,
// and SURFACE_ADD is the step to what comes next, be it pixels or, as RV1106 has it, surfaces; or
// moves whole atoms.
static int decode_transposed_rk3562(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t rows = emu_get_field(u, EMU_WDMA_SIZE_1, 28, 16) + 1;
    uint32_t columns = emu_get_field(u, EMU_WDMA_SIZE_1, 12, 0) + 1;
    int64_t line = (int64_t)(columns + emu_get_field(u, EMU_CUBE_NOTCH, 12, 0)) * LANES;
    uint32_t how = emu_get(u, EMU_BS_OW_CFG);
    int64_t add = (int64_t)(int32_t)emu_get(u, EMU_SURFACE_ADD) * u->chip->stride_unit;
    bool one_surface = d->shape[0] <= 4, one_atom = d->shape[1] * d->shape[2] <= LANES;
    bool moved = how == 0x3007fe;
    if (is_rv1106(u) && how == 0x80007fe) {
        moved = emu_get_field(u, EMU_CUBE_WIDTH, 20, 20);
        how = 0x2007fe;
    }
    d->target = (struct emu_target){
        .kind = moved ? EMU_MOVED : EMU_TRANSPOSED,
        .cube = {.base = emu_get(u, EMU_DST_ADDR), .bytes = 4},
        .unit = 1,
        .rows = 8,
        .row = stride_of(u, EMU_DST_SURF_STRIDE),
        .blocks = 2,
        .block = line,
        .columns = 1,
        .line = moved ? line : add,
        .outer = add,
    };
    d->channels = d->shape[0];
    if (how != 0x2007fe && !moved)
        return emu_refuse(u, EMU_BS_OW_CFG, "a write of 32 bits of another kind", e);
    if (moved ? columns != d->shape[1] : columns != 1 || rows != 2 || (!one_surface && !one_atom))
        return emu_refuse(u, EMU_WDMA_SIZE_1, "a transposed write of another size", e);
    return 0;
}

// RK3576: surfaces are one channel's.
static void decode_transposed_rk3576(const struct emu_unit *u, struct emu_dpu *d)
{
    uint32_t columns = emu_get_field(u, EMU_WDMA_SIZE_1, 12, 0) + 1;
    d->channels = d->shape[0];
    d->target = (struct emu_target){
        .kind = EMU_TRANSPOSED,
        .cube = {.base = emu_get(u, EMU_DST_ADDR), .bytes = emu_precision_bytes(d->out)},
        .unit = emu_precision_bytes(d->out),
        .rows = UINT32_MAX,
        .row = stride_of(u, EMU_DST_SURF_STRIDE),
        .blocks = 1,
        .columns = columns,
        .line = (int64_t)(columns + emu_get_field(u, EMU_CUBE_NOTCH, 12, 0)) * LANES,
    };
}

// Lines of atoms; or lines of pixels with gaps between them.
static int decode_cube(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t notch = emu_get_field(u, EMU_CUBE_NOTCH, 12, 0), add = emu_get(u, EMU_SURFACE_ADD);
    uint32_t rows = emu_get_field(u, EMU_WDMA_SIZE_1, 28, 16) + 1;
    uint32_t columns = emu_get_field(u, EMU_WDMA_SIZE_1, 12, 0) + 1;
    uint32_t bytes = emu_precision_bytes(d->out);
    uint32_t width = d->shape[2] * (d->target.repeat[1] ? d->target.repeat[1] : 1);
    int64_t line = (int64_t)width + notch;
    if (emu_get_field(u, EMU_BS_OW_CFG, 21, 20))
        return emu_refuse(u, EMU_BS_OW_CFG, "a transposed write of another kind", e);
    d->channels = is_rv1106(u) ? emu_get_field(u, EMU_CUBE_CHANNEL, 28, 16) + 1
                               : emu_get_field(u, EMU_WDMA_SIZE_0, 31, 16) + 1;
    d->target.cube = (struct emu_cube){emu_get(u, EMU_DST_ADDR),
                                       stride_of(u, EMU_DST_SURF_STRIDE),
                                       line * LANES,
                                       LANES / bytes,
                                       LANES,
                                       bytes,
                                       false};
    if (rows == d->shape[1] && columns == width)
        return 0;
    if (rows != d->shape[1] || columns != 1 || width != d->shape[2])
        return emu_refuse(u, EMU_WDMA_SIZE_1, "not the size of the cube", e);
    line = is_rk3576(u) ? (int64_t)(d->shape[2] - 1) * (1 + notch) + 1 + add : (int64_t)add;
    if (!is_rv1106(u))
        d->channels /= d->shape[2];
    d->target.cube.line = line * u->chip->stride_unit;
    d->target.cube.pixel = (1 + notch) * LANES;
    return 0;
}

// RK3576: whole atoms, as RK3562 moves them.
static int decode_moved_rk3576(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t rows = emu_get_field(u, EMU_WDMA_SIZE_1, 28, 16) + 1;
    uint32_t columns = emu_get_field(u, EMU_WDMA_SIZE_1, 12, 0) + 1;
    uint32_t bytes = emu_precision_bytes(d->out), lanes = LANES / bytes;
    d->channels = d->shape[0];
    d->target = (struct emu_target){
        .kind = EMU_MOVED,
        .cube = {.base = emu_get(u, EMU_DST_ADDR), .bytes = bytes},
        .row = stride_of(u, EMU_DST_SURF_STRIDE),
        .line = (int64_t)(columns + emu_get_field(u, EMU_CUBE_NOTCH, 12, 0)) * LANES};
    if (d->out != EMU_INT16 || d->from_core)
        return emu_refuse(u, EMU_BS_OW_CFG, "a write that moves atoms of another precision", e);
    if (columns != d->shape[1] || rows != (d->shape[0] + lanes - 1) / lanes)
        return emu_refuse(u, EMU_WDMA_SIZE_1, "a transposed write of another size", e);
    return 0;
}

// RK3576: the largest channel of each pixel of a line, in memory or of the core.
static int decode_maxima(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    enum { OF_CHANNELS = 0x25 }; // what the files' have in these bits; single ones are not known
    if (emu_get_field(u, EMU_CUBE_HEIGHT, 21, 16) != OF_CHANNELS)
        return emu_refuse(u, EMU_CUBE_HEIGHT, "maxima of another kind", e);
    return d->from_core ? emu_decode_core_maxima(u, d, e) : emu_decode_maxima(u, d, e);
}

static int decode_target(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    bool stream = emu_get_field(u, EMU_FEATURE_MODE, 25, 25);
    uint32_t core = is_rk3576(u) && d->from_core;
    if (is_rk3576(u) && emu_get_field(u, EMU_CUBE_HEIGHT, 21, 16))
        return decode_maxima(u, d, e);
    if (emu_get_field(u, EMU_FEATURE_MODE, 31, 30) != core ||
        (!stream && emu_get_field(u, EMU_FEATURE_MODE, 29, 26)))
        return emu_refuse(u, EMU_FEATURE_MODE, "a write of another kind", e);
    if (stream) {
        d->target = (struct emu_target){
            .kind = EMU_STREAM,
            .cube = {.base = emu_get(u, EMU_DST_ADDR), .bytes = emu_precision_bytes(d->out)},
            .tail = emu_get_field(u, EMU_FEATURE_MODE, 29, 26),
            .piece = emu_get(u, EMU_STREAM_PIECE)};
        d->channels = d->shape[0];
        if (d->target.piece == LANES)
            d->target.piece = 0;
        if (!is_rk3576(u))
            d->target.together = emu_get_field(u, EMU_BS_OW_CFG, 4, 2) + 1;
        if (d->target.piece && d->target.tail)
            return emu_refuse(u, EMU_STREAM_PIECE, "pieces of atoms that are cut", e);
        return 0;
    }
    if (d->out == EMU_FP32)
        return emu_refuse(u, EMU_FEATURE_MODE, "fp32 that is no stream", e);
    if (is_rv1106(u) && emu_get_field(u, EMU_CUBE_WIDTH, 20, 20) && d->out != EMU_INT32)
        return emu_refuse(u, EMU_CUBE_WIDTH, "a transposed write of another precision", e);
    if (!is_rk3576(u) && d->out == EMU_INT32)
        return decode_transposed_rk3562(u, d, e);
    if (is_rk3576(u) && emu_get_field(u, EMU_BS_OW_CFG, 21, 20) == 3)
        return decode_moved_rk3576(u, d, e);
    if (is_rk3576(u) && (emu_get(u, EMU_BS_OW_CFG) == 0x22ffff))
        decode_transposed_rk3576(u, d);
    else
        return decode_cube(u, d, e);
    return 0;
}

// RK3576: of 16 bits, whole atoms are written from memory, and behind the channels stands
// OFFSET_PEND. Files take maxima of whole atoms of which they have made fewer channels, in two
// ways: RK3576's fills them with the least fp16 by a task of its own; RV1126B's copies the real
// ones in place, as int16, with OFFSET_PEND 0, which does nothing else.
static int decode_behind(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t lanes = LANES / emu_precision_bytes(d->out), whole = (d->channels + lanes - 1) / lanes;
    if (!is_rk3576(u) || d->from_core || emu_precision_bytes(d->out) != 2 || d->in != d->out ||
        d->target.kind != EMU_CUBE || d->maxima)
        return !is_rk3576(u) || !emu_get(u, EMU_OFFSET_PEND) || d->maxima
                   ? 0
                   : emu_refuse(u, EMU_OFFSET_PEND, "channels of another kind that are filled", e);
    if (whole * lanes == d->channels)
        return 0;
    d->real_channels = d->channels;
    d->channels = whole * lanes;
    d->behind = (uint16_t)emu_get(u, EMU_OFFSET_PEND);
    return 0;
}

// int8, int16 that is moved, fp16, and fp16 of int8: as RK3588's bits are, what goes in has the
// precision that is worked with.
static int decode_format_rk3576(const struct emu_unit *u, uint32_t format, struct emu_dpu *d,
                                struct error *e)
{
    switch (format) {
    case 0:
        return 0;
    case 0x20000001:
        d->in = d->out = EMU_INT16;
        break;
    case 0x40000000:
        d->out = EMU_FP16;
        break;
    case 0x40000002:
        d->in = d->out = EMU_FP16;
        d->real = true;
        return 0;
    default:
        return emu_refuse(u, EMU_DATA_FORMAT, "a combination of precisions that is not known", e);
    }
    return d->from_core ? emu_refuse(u, EMU_DATA_FORMAT, "16 bits of a core of int8", e) : 0;
}

// Whole numbers, of which 32 bits are moved alone and read so, too; and what outputs are made of:
// bytes become fp32, and these are computed with.
static int decode_format(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    // Bits 23 and 24, which RV1106 sets, are known to change nothing; from 10 on is BN's shift.
    uint32_t format = emu_get(u, EMU_DATA_FORMAT) & ~(is_rv1106(u) ? 0x0180fc00u : 0xfc00u);
    if (is_rk3576(u))
        return decode_format_rk3576(u, format, d, e);
    switch (format) {
    case 0:
        return 0;
    case 0x40000002:
        d->in = d->out = EMU_FP16;
        d->real = true;
        return d->from_core && !is_rv1106(u) ? 0 : emu_refuse(u, EMU_DATA_FORMAT, "not int8", e);
    case 0x80000004:
        d->in = d->out = EMU_INT32;
        return 0;
    case 0xa0000000:
        d->out = EMU_FP32;
        return 0;
    case 0xa0000005:
        d->in = d->out = EMU_FP32;
        d->real = true;
        return d->from_core ? emu_refuse(u, EMU_DATA_FORMAT, "fp32 of a core of int8", e) : 0;
    default:
        return emu_refuse(u, EMU_DATA_FORMAT, "not int8", e);
    }
}

// RK3576's real numbers of whole ones, be it a table's or int8: what is converted as ever is then
// 2^-MINUS_EXP of a number. Of tables, which are read in fp32, only conversions that change nothing
// are known.
static int decode_output_rk3576(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t cfg = emu_get(u, EMU_OUT_CVT_SHIFT), shift = emu_field(cfg, 11, 0);
    d->scale = emu_signed(emu_get(u, EMU_OUT_CVT_SCALE), 16);
    d->offset = (int32_t)emu_get(u, EMU_OUT_CVT_OFFSET);
    d->shift = shift;
    d->minus_exp = emu_field(cfg, 19, 12);
    d->away = emu_field(cfg, 30, 30);
    if (emu_field(cfg, 31, 31) || shift > 31 || d->away)
        return emu_refuse(u, EMU_OUT_CVT_SHIFT, "a conversion of another kind", e);
    if (d->offset < INT16_MIN || d->offset > INT16_MAX)
        return emu_refuse(u, EMU_OUT_CVT_OFFSET, "no offset of 16 bits", e);
    if (!d->real)
        return 0;
    if (shift > 14 || d->scale != 1 << shift)
        return emu_refuse(u, EMU_OUT_CVT_SCALE, "a table that is scaled", e);
    d->scale = 1;
    return 0;
}

static int decode_output(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    if (is_rk3576(u) && d->out == EMU_FP16 && (!d->real || d->ew.op == EMU_EW_LUT))
        return decode_output_rk3576(u, d, e);
    int r = emu_decode_conversion(u, d, e);
    if (r < 0 || !d->real)
        return r;
    bool only_fp32 = !is_rk3576(u) && d->ew.op != EMU_EW_NONE;
    if (d->scale != 1 || d->offset || d->shift || (d->away && !d->maxima) || only_fp32)
        return emu_refuse(u, EMU_OUT_CVT_SCALE, "real numbers that are scaled", e);
    return 0;
}

int emu_dpu_rk3562(const struct emu_unit *u, bool from_core, struct emu_dpu *ret, struct error *e)
{
    static const enum emu_register core[] = {EMU_CUBE_CHANNEL, EMU_CUBE_HEIGHT, EMU_CUBE_WIDTH};
    static const enum emu_register memory[] = {EMU_RDMA_CHANNEL, EMU_RDMA_HEIGHT, EMU_RDMA_WIDTH};
    *ret = (struct emu_dpu){.from_core = from_core};
    int r = emu_check_modes(u, from_core, 0x04, is_rv1106(u) ? 0x1c : 0x0c, 0x05, e);
    if (r == 0)
        r = decode_format(u, ret, e);
    if (r == 0)
        r = emu_check_reader(u, ret->in, e);
    if (r < 0)
        return r;
    for (int i = 0; i < 3; i++)
        ret->shape[i] = emu_get_field(u, from_core ? core[i] : memory[i], 12, 0) + 1;
    r = emu_check_shape(u, ret->shape, e);
    if (r == 0 && !from_core)
        r = decode_source(u, ret, e);
    if (r == 0)
        r = decode_bs(u, ret, e);
    if (r == 0)
        r = decode_bn(u, ret, e);
    if (r == 0)
        r = decode_ew(u, ret, e);
    if (r == 0)
        r = decode_target(u, ret, e);
    if (r == 0)
        r = decode_behind(u, ret, e);
    return r < 0 ? r : decode_output(u, ret, e);
}
