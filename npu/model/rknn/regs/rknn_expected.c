// Tables of registers, and of what they hold in files of each generation of chips.
#include "npu/model/rknn/regs/rknn_expected.h"

#define MAX_VALUES 9

#define ANY    0xff // generation
#define OLD    0xfe // RK3588, RK3566, RK3568
#define NEWER  0xfd // the others
#define TABLED 0xfc // all but RK3576 and RV1126B: parameters are in registers

struct expected {
    enum rknn_register reg;
    uint8_t generation;
    uint32_t mask; // bits that are compared
    uint8_t n;
    uint32_t values[MAX_VALUES];
};

#define ALL_BITS 0xffffffff

// Of CORE_MISC_CFG: which core, clocks, and (0x94) how packed pixels and rows are multiplied.
#define CORE_PACE 0x100fc094u
#define CORE_ROWS 0x14u

// Of all integer convolutions.
static const struct expected always[] = {
    // clang-format off
    {CNA_CONV_CON1, ANY, 0x2007f0, 1, {0}}, // int8
    {DPU_DATA_FORMAT, OLD, 0xffff000f, 1, {0}},
    {DPU_DATA_FORMAT, CHIP_GEN_RK3562, 0xffff03ff, 1, {0}},
    {DPU_DATA_FORMAT, CHIP_GEN_RV1106, 0xffff03ff, 1, {0x800000}},
    {DPU_DATA_FORMAT, CHIP_GEN_RK3576, ALL_BITS, 1, {0}},
    {DPU_BS_CFG, CHIP_GEN_RK3588, ~0xd0u, 1, {0x20100}}, // adds; its multiplier and Relu are read
    {DPU_BS_CFG, CHIP_GEN_RK3566, ~0xd0u, 1, {0x108}},
    {DPU_BS_ALU_CFG, ANY, ALL_BITS, 1, {0}},
    {DPU_SOURCE_OFFSET, ANY, ALL_BITS, 1, {0}},
    {DPU_BS_OW_CFG, OLD, 0x080f0000, 1, {0}}, // not transposed
    {DPU_BS_OW_CFG, CHIP_GEN_RK3562, 0x080f0000, 1, {0}},
    {DPU_BS_OW_CFG, CHIP_GEN_RV1106, 0x080f0000, 1, {0}},
    {DPU_BS_OW_CFG, CHIP_GEN_RK3576, 0x08000001, 1, {1}},
    {RDMA_BN_CFG, CHIP_GEN_RK3588, ALL_BITS, 1, {0}},
    {RDMA_BN_CFG, CHIP_GEN_RK3566, ALL_BITS, 1, {1}},
    {RDMA_BN_CFG, CHIP_GEN_RK3562, ALL_BITS, 1, {0}},
    {RDMA_BN_CFG, CHIP_GEN_RV1106, ALL_BITS, 1, {0}},
    {DPU_BN_ALU_CFG, ANY, ALL_BITS, 1, {0}},
    // Off; a table; an addition of an image (bit 28) or of a number for each channel, without (bit 9) or with a Relu.
    {DPU_EW_CFG, CHIP_GEN_RK3588, ALL_BITS, 6, {0x383, 0x302, 0x904200c0, 0x904202c0, 0x804200c0, 0x804202c0}},
    {DPU_EW_CFG, CHIP_GEN_RK3566, ALL_BITS, 6, {0x383, 0x302, 0x900000d0, 0x900002d0, 0x800000d0, 0x800002d0}},
    {DPU_EW_CFG, NEWER, ALL_BITS, 3, {0x10041c1, 0x1004140, 0x8002c0c0}},
    {DPU_EW_CVT_OFFSET, CHIP_GEN_RK3576, 0xffff0000, 1, {0}},
    {DPU_EW_CVT_OFFSET, CHIP_GEN_RK3562, 0xffff0000, 1, {0}},
    {DPU_EW_RELUX_CMP, ANY, ALL_BITS, 1, {0}},
    {DPU_BOUND_0, ANY, ALL_BITS, 1, {INT32_MAX}},
    {DPU_BOUND_2, ANY, ALL_BITS, 1, {INT32_MAX}},
    {DPU_BOUND_3, ANY, ALL_BITS, 1, {0x80000000}},
    {DPU_BOUND_5, ANY, ALL_BITS, 1, {0x80000000}},
    {DPU_BOUND_6, ANY, ALL_BITS, 1, {0x80000000}},
    {DPU_BOUND_7, ANY, ALL_BITS, 1, {INT32_MAX}},
    {DPU_BOUND_10, ANY, ALL_BITS, 1, {0x80000000}},
    {DPU_BOUND_11, ANY, ALL_BITS, 1, {INT32_MAX}},
    // clang-format on
};

static const struct expected depthwise[] = {
    // clang-format off
    {CNA_CONV_CON1, OLD, 0x0ffe0fff, 1, {3}},
    {CNA_CONV_CON1, CHIP_GEN_RK3576, 0x0fff0fff, 1, {1}},
    {CNA_CONV_CON1, CHIP_GEN_RK3562, 0x0fff0fff, 2, {1, 5}}, // bit 2: zero points beside weights
    {CNA_CONV_CON1, CHIP_GEN_RV1106, 0x0fff0fff, 1, {7}},
    {CORE_MISC_CFG, CHIP_GEN_RK3588, ~CORE_PACE, 1, {3}},
    {CORE_MISC_CFG, CHIP_GEN_RK3566, ~CORE_PACE, 1, {2}},
    {CORE_MISC_CFG, NEWER, ~CORE_PACE, 1, {0xa}},
    {CMAC_MISC_CFG, ANY, ALL_BITS, 1, {3}},
    {DPU_FEATURE_MODE_CFG, CHIP_GEN_RK3588, 0x1f, 1, {0x1c}},
    {DPU_FEATURE_MODE_CFG, CHIP_GEN_RV1106, 0x1f, 1, {0x1c}},
    {DPU_FEATURE_MODE_CFG, CHIP_GEN_RK3566, 0x1f, 1, {0x18}},
    {DPU_FEATURE_MODE_CFG, CHIP_GEN_RK3576, 0x1f, 1, {0xc}},
    {DPU_FEATURE_MODE_CFG, CHIP_GEN_RK3562, 0x1f, 1, {0xc}},
    // clang-format on
};

// Pixels of a model's input have several forms (2 and 6, each with bits 16 and 26 or without),
// which differ in how they are fetched.
#define PACKED_KINDS                                                                               \
    {                                                                                              \
        0, 2, 6, 0x10002, 0x10006, 0x4000002, 0x4000006, 0x4010002, 0x4010006                      \
    }

static const struct expected dense[] = {
    // clang-format off
    {CNA_CONV_CON1, OLD, 0x0ffe0fff, 1, {0}},
    {CNA_CONV_CON1, CHIP_GEN_RV1106, 0x0fff0fff, 1, {0}},
    {CNA_CONV_CON1, CHIP_GEN_RK3562, 0x0fff0fff, 9, PACKED_KINDS},
    {CNA_CONV_CON1, CHIP_GEN_RK3576, 0x0fff0fff, 9, PACKED_KINDS},
    {CORE_MISC_CFG, CHIP_GEN_RK3588, ~CORE_PACE, 1, {1}},
    {CORE_MISC_CFG, CHIP_GEN_RK3566, ~CORE_PACE, 1, {0}},
    {CORE_MISC_CFG, NEWER, ~CORE_PACE, 1, {1}},
    {CMAC_MISC_CFG, ANY, ALL_BITS, 1, {1}},
    {DPU_FEATURE_MODE_CFG, CHIP_GEN_RK3566, 0x1f, 1, {8}},
    {DPU_FEATURE_MODE_CFG, CHIP_GEN_RK3588, 0x1f, 1, {4}},
    {DPU_FEATURE_MODE_CFG, NEWER, 0x17, 1, {4}},
    // clang-format on
};

// Of convolutions whose units are off.
static const struct expected no_factor[] = {
    {DPU_BN_MUL_CFG, ANY, ALL_BITS, 1, {0}},
    {DPU_DATA_FORMAT, TABLED, 0xfc00, 1, {0}},
    {DPU_DATA_FORMAT, CHIP_GEN_RV1106, 0xfc00, 1, {0}},
    {RDMA_BN_CFG, CHIP_GEN_RK3576, ALL_BITS, 1, {0}},
};
static const struct expected no_operand[] = {
    {DPU_EW_CVT_OFFSET, ANY, ALL_BITS, 1, {0}},
    {DPU_EW_CVT_SCALE, ANY, ALL_BITS, 1, {1}},
};
static const struct expected no_table[] = {
    {DPU_LUT_CFG, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_INFO, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LE_START, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LE_END, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LO_START, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LO_END, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_START_1, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_START_2, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_START_3, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_END_1, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_END_2, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_END_3, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LE_SLOPE_SCALE, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LE_SLOPE_SHIFT, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LO_SLOPE_SCALE, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LO_SLOPE_SHIFT, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LE_SLOPE_SCALE_1, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LO_SLOPE_SCALE_1, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LOW, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_LOW_1, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_HIGH, ANY, ALL_BITS, 1, {0}},
    {DPU_LUT_HIGH_1, ANY, ALL_BITS, 1, {0}},
};

// What leads beyond a table's outer ends is read; the inner ends have none.
static const struct expected with_table[] = {
    // clang-format off
    {DPU_LUT_CFG, OLD, ALL_BITS, 1, {0x68}},
    {DPU_LUT_CFG, CHIP_GEN_RV1106, ALL_BITS, 1, {0x68}},
    {DPU_LUT_CFG, CHIP_GEN_RK3562, ALL_BITS, 1, {0x160}},
    {DPU_LUT_CFG, CHIP_GEN_RK3576, ALL_BITS, 1, {0x2000006}},
    {DPU_LUT_START_1, ANY, ALL_BITS, 1, {0xffffc000}},
    {DPU_LUT_START_2, ANY, ALL_BITS, 1, {0xffffc000}},
    {DPU_LUT_START_3, ANY, ALL_BITS, 1, {0xffffc000}},
    {DPU_LUT_END_1, ANY, ALL_BITS, 1, {0x4000}},
    {DPU_LUT_END_2, ANY, ALL_BITS, 1, {0x4000}},
    {DPU_LUT_END_3, ANY, ALL_BITS, 1, {0x4000}},
    {DPU_LUT_LE_SLOPE_SCALE, TABLED, 0xffff0000, 1, {0}},
    {DPU_LUT_LE_SLOPE_SHIFT, TABLED, ~0x1fu, 1, {0}},
    {DPU_LUT_LO_SLOPE_SCALE, TABLED, 0xffff, 1, {0}},
    {DPU_LUT_LO_SLOPE_SHIFT, TABLED, ~0x3e0u, 1, {0}},
    // clang-format on
};

#define N_OF(table) (sizeof(table) / sizeof *(table))

static bool is_of(uint8_t rows, enum chip_generation g)
{
    bool old = g == CHIP_GEN_RK3588 || g == CHIP_GEN_RK3566;
    return rows == ANY || (rows == OLD && old) || (rows == NEWER && !old) ||
           (rows == TABLED && g != CHIP_GEN_RK3576) || rows == (uint8_t)g;
}

// Whether the weights' zero points are interleaved with the weights.
static bool in_taps(const struct rknn_packing *p)
{
    return p->kind == PACKED_TAP_PAIRS || p->kind == PACKED_TAP_SINGLE;
}

static const char unlike[] = "what that does here is not known";

// Registers that are not set hold 0 and are left alone.
static int check(const struct rknn_regs *regs, const struct expected *rows, size_t n,
                 struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        const struct expected *x = &rows[i];
        uint32_t value;
        bool found =
            !is_of(x->generation, regs->chip->generation) || !rknn_regs_get(regs, x->reg, &value);
        for (uint8_t k = 0; k < x->n && !found; k++)
            found = (value & x->mask) == x->values[k];
        if (!found)
            return rknn_regs_refuse(regs, x->reg, value, unlike, e);
    }
    return 0;
}

static int is(const struct rknn_regs *regs, enum rknn_register reg, uint32_t expected,
              struct error *e)
{
    uint32_t value;
    if (!rknn_regs_get(regs, reg, &value) || value == expected)
        return 0;
    return rknn_regs_refuse(regs, reg, value, unlike, e);
}

// ---- fields that follow from others ----

// How its writer is told of, which follows from how it is packed.
static int check_writer(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                        struct error *e)
{
    uint32_t value, core = 0;
    bool wide = s->packing->depthwise && !st->nz_in_table;
    rknn_regs_get(s->regs, CORE_MISC_CFG, &core);
    if (s->chip->generation == CHIP_GEN_RK3576 && rknn_regs_get(s->regs, DPU_BS_OW_CFG, &value) &&
        (value >> 1 & 1) != wide)
        return rknn_regs_refuse(s->regs, DPU_BS_OW_CFG, value, unlike, e);
    if (!s->packing->depthwise && rknn_regs_get(s->regs, DPU_FEATURE_MODE_CFG, &value) &&
        !s->chip->bn_relu_field && !(value & 8) != !(core & CORE_ROWS))
        return rknn_regs_refuse(s->regs, DPU_FEATURE_MODE_CFG, value, unlike, e);
    return 0;
}

// What is fetched from memory: bias, zero points, multipliers.
static int check_fetches(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                         struct error *e)
{
    uint32_t value,
        fetched = (s->bias ? 1u : 0) | (st->nz_in_table ? 2u : 0) | (st->mul_in_table ? 4u : 0);
    if (s->chip->generation != CHIP_GEN_RK3576)
        return is(s->regs, RDMA_BS_CFG, fetched << 1, e);
    if (!rknn_regs_get(s->regs, RDMA_BS_CFG, &value))
        return 0;
    uint32_t how = st->mul_in_table ? 0x10 : 0x14;
    return is(s->regs, RDMA_BS_CFG, fetched << 8 | how, e);
}

static int check_multiplier(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                            struct error *e)
{
    bool old = s->chip->bn_relu_field;
    uint32_t value, config = 0, unread = st->mul_in_table ? 0xffff0002 : 0;
    if (!old)
        return is(s->regs, DPU_BS_MUL_CFG, st->nz_in_table, e);
    rknn_regs_get(s->regs, DPU_BS_CFG, &config);
    bool off = config & 0x10; // the multiplier's bypass
    unread = off ? UINT32_MAX : unread;
    if (off && rknn_regs_get(s->regs, DPU_DATA_FORMAT, &value) && value & 0x3f0 &&
        (value & 0x3f0) != 0xe0)
        return rknn_regs_refuse(s->regs, DPU_DATA_FORMAT, value, unlike, e);
    if (rknn_regs_get(s->regs, DPU_BS_MUL_CFG, &value) && value & unread)
        return rknn_regs_refuse(s->regs, DPU_BS_MUL_CFG, value, unlike, e);
    return 0;
}

// The zero point of the weights, which a table may have instead, beside a shift on some chips.
static int check_zero_point(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                            struct error *e)
{
    static const uint32_t others[CHIP_N_GENERATIONS] = {
        [CHIP_GEN_RK3562] = 0x801f0000, [CHIP_GEN_RV1106] = 0x9f000000};
    uint32_t value, weights = 0, more = others[s->chip->generation];
    rknn_regs_get(s->regs, CNA_WEIGHT_ZERO, &weights);
    bool subtracted = s->packing->depthwise && !st->nz_in_table && !in_taps(s->packing);
    if (weights && !subtracted)
        return rknn_regs_refuse(s->regs, CNA_WEIGHT_ZERO, weights, unlike, e);
    if (!rknn_regs_get(s->regs, DPU_BS_OW_OP, &value))
        return 0;
    bool elsewhere = subtracted && rknn_register_at(s->chip, CNA_WEIGHT_ZERO);
    int16_t nz = st->nz_in_table || elsewhere ? 0 : st->nz;
    uint32_t rest = value & ~more, zero = more ? (uint16_t)nz : (uint32_t)(int32_t)nz;
    bool told = rest == zero || (!more && rest == (uint16_t)nz);
    return told ? 0 : rknn_regs_refuse(s->regs, DPU_BS_OW_OP, value, unlike, e);
}

// EW adds where the node does, and looks up where it has a table.
static int check_operation(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                           const struct graph_lut *lut, struct error *e)
{
    enum { BYPASS = 1, OPERATION_BYPASS = 2, TABLE_BYPASS = 0x80, CONVERSION_BYPASS = 0x100 };
    uint32_t config = BYPASS;
    rknn_regs_get(s->regs, DPU_EW_CFG, &config);
    bool on = !(config & BYPASS), adds = on && !(config & (OPERATION_BYPASS | CONVERSION_BYPASS));
    bool looks_up = on && !(config & TABLE_BYPASS);
    if (adds == st->has_addend && (adds || looks_up == (lut != NULL)))
        return 0;
    return rknn_regs_refuse(s->regs, DPU_EW_CFG, config, unlike, e);
}

// Two registers that say the same.
static int alike(const struct rknn_regs *regs, enum rknn_register a, enum rknn_register b,
                 struct error *e)
{
    uint32_t value;
    return rknn_regs_get(regs, b, &value) ? is(regs, a, value, e) : 0;
}

// RK3576, RV1126B, RK3562 have two pairs of bounds at each unit.
static int check_pairs(const struct rknn_regs *regs, struct error *e)
{
    static const enum rknn_register first[] = {DPU_BS_LOW_0,  DPU_BS_HIGH_0, DPU_BN_LOW_0,
                                               DPU_BN_HIGH_0, DPU_EW_LOW_0,  DPU_EW_HIGH_0};
    for (size_t i = 0; i < N_OF(first); i++)
        if (alike(regs, first[i] + 2, first[i], e) < 0)
            return STATUS_MODEL_INVALID;
    return 0;
}

// RV1103, RV1106: 16 bits with or without their sign.
static int check_addend_offset(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                               struct error *e)
{
    uint32_t value;
    if (s->chip->generation != CHIP_GEN_RV1106 || !st->has_addend ||
        !rknn_regs_get(s->regs, DPU_EW_CVT_OFFSET, &value) || value == (uint16_t)st->addend_offset)
        return 0;
    return is(s->regs, DPU_EW_CVT_OFFSET, (uint32_t)st->addend_offset, e);
}

// RK3588, RK3566 and RK3568 have an upper bound where their Relu says so. On the other chips BN is
// bypassed where it neither multiplies nor bounds; RV1103 and RV1106 say its bounds twice.
static int check_bounds(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                        struct error *e)
{
    enum { BYPASS = 1, RELUX = 0x80 };
    uint32_t low, high = INT32_MAX, bs = 0, config = 0;
    rknn_regs_get(s->regs, DPU_BS_CFG, &bs);
    rknn_regs_get(s->regs, DPU_BN_CFG, &config);
    if (s->chip->bn_relu_field) {
        int r = bs & RELUX ? 0 : is(s->regs, DPU_BS_RELUX_CMP, 0, e);
        return r < 0 || config & RELUX ? r : is(s->regs, DPU_BN_RELUX_CMP, 0, e);
    }
    bool said =
        rknn_regs_get(s->regs, DPU_BN_LOW_1, &low) || rknn_regs_get(s->regs, DPU_BOUND_8, &low);
    if (!rknn_regs_get(s->regs, DPU_BN_HIGH_1, &high))
        rknn_regs_get(s->regs, DPU_BOUND_9, &high);
    bool bounded = said && (low != 0x80000000 || high != INT32_MAX);
    if (said && st->bn == BN_OFF && (config & BYPASS) == bounded)
        return rknn_regs_refuse(s->regs, DPU_BN_CFG, config, unlike, e);
    if (!rknn_regs_get(s->regs, DPU_BOUND_8, &low) || !rknn_regs_get(s->regs, DPU_BOUND_9, &high))
        return 0;
    int r = is(s->regs, DPU_BOUND_4, low, e);
    return r < 0 ? r : is(s->regs, DPU_BOUND_1, high, e);
}

// RK3576, RV1126B have both halves of each register alike, and say what is beyond the ends.
static int check_wide_table(const struct rknn_conv_sources *s, const struct graph_lut *lut,
                            struct error *e)
{
    uint32_t low = (uint16_t)lut->below[0], high = (uint16_t)lut->above[LUT_POINTS - 1];
    uint32_t below = (uint16_t)lut->slope[0] * 0x10001u;
    uint32_t above = (uint16_t)lut->slope[1] * 0x10001u;
    struct {
        enum rknn_register reg;
        uint32_t value;
    } rows[] = {
        {DPU_LUT_LE_SLOPE_SCALE, below},
        {DPU_LUT_LE_SLOPE_SCALE_1, below},
        {DPU_LUT_LO_SLOPE_SCALE, above},
        {DPU_LUT_LO_SLOPE_SCALE_1, above},
        {DPU_LUT_LE_SLOPE_SHIFT, lut->slope_shift[0] * 0x1010101u},
        {DPU_LUT_LO_SLOPE_SHIFT, lut->slope_shift[1] * 0x1010101u},
        {DPU_LUT_LOW, low << 16},
        {DPU_LUT_LOW_1, low * 0x10001u},
        {DPU_LUT_HIGH, high << 16},
        {DPU_LUT_HIGH_1, high * 0x10001u},
    };
    for (size_t i = 0; i < N_OF(rows); i++)
        if (is(s->regs, rows[i].reg, rows[i].value, e) < 0)
            return STATUS_MODEL_INVALID;
    return 0;
}

int rknn_expected(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                  const struct graph_lut *lut, struct error *e)
{
    const struct rknn_regs *regs = s->regs;
    int r = check(regs, always, N_OF(always), e);
    if (r == 0)
        r = s->packing->depthwise ? check(regs, depthwise, N_OF(depthwise), e)
                                  : check(regs, dense, N_OF(dense), e);
    if (r == 0 && st->bn == BN_OFF)
        r = check(regs, no_factor, N_OF(no_factor), e);
    if (r == 0 && !st->has_addend)
        r = check(regs, no_operand, N_OF(no_operand), e);
    if (r == 0)
        r = check_operation(s, st, lut, e);
    if (r == 0)
        r = lut ? check(regs, with_table, N_OF(with_table), e)
                : check(regs, no_table, N_OF(no_table), e);
    if (r == 0 && lut && s->chip->generation == CHIP_GEN_RK3576)
        r = check_wide_table(s, lut, e);
    if (r == 0)
        r = check_writer(s, st, e);
    if (r == 0)
        r = check_fetches(s, st, e);
    if (r == 0)
        r = check_multiplier(s, st, e);
    if (r == 0)
        r = check_zero_point(s, st, e);
    if (r == 0)
        r = check_pairs(regs, e);
    if (r == 0)
        r = check_addend_offset(s, st, e);
    return r < 0 ? r : check_bounds(s, st, e);
}

int rknn_expected_table(const struct rknn_regs *regs, struct error *e)
{
    return check(regs, with_table, N_OF(with_table), e);
}
