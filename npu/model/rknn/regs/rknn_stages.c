// The units of the DPU behind an integer convolution: reads their registers into struct rknn_stages
// (formulas: rknn_stages.h; bits by chip: docs/rknn-format.md, Integer convolution).
//
//      CORE sum -> shift -> [BS: + bias, * mul, shift] -> [BN: * factor, shift] -> OUT_CVT or LUT
//
// Which registers hold these values differs by generation: one bs_*() function each, and
// bn_registers() or bn_memory(). The rule throughout: a bit pattern that no analysed file has is
// refused with the register's name. A wrong guess would give plausible but wrong outputs, which are
// far harder to notice.
#include "npu/model/rknn/regs/rknn_stages.h"

// Fields of the configuration registers of the BS and BN units.
#define UNIT_BYPASS      (1u << 0)
#define UNIT_ALU_BYPASS  (1u << 1)
#define UNIT_MUL_BYPASS  (1u << 4)
#define UNIT_MUL_PRELU   (1u << 5) // only negative values are multiplied
#define UNIT_RELU_BYPASS (1u << 6) // of RK3588, RK3566, RK3568
#define UNIT_RELUX       (1u << 7) // the Relu has an upper bound
#define UNIT_ALU_MEMORY  (1u << 8) // what is added comes from memory

// … of DPU_BS_OW_CFG on RK3588, RK3566, RK3568 …
#define OW_IN_TABLE (1u << 0)
#define OW_BYPASS   (1u << 1) // the inputs' sums are not used

// … and of their multipliers.
#define MUL_IN_TABLE   (1u << 0)
#define SHIFT_IN_TABLE (1u << 1)

// All that files of chips but RK3588, RK3566 and RK3568 say to the BS unit, shifts left out.
enum { BS_MULTIPLY = 0x120080, BS_MULTIPLY_RV1106 = 0x120180, BS_DEPTHWISE = 0x100092 };

#define ALGORITHM_ADD 2u // of a unit's ALU

static const char what_table[] = "what its bias table holds is not known";
static const char what_scale[] = "how it scales its sums is not known";

// Whether an activation is named in the fused operator ("ConvLeakyRelu").
static bool has(const struct rknn_conv_sources *s, const char *activation)
{
    return strstr(s->node->op, activation) != NULL;
}

static int need(const struct rknn_conv_sources *s, enum rknn_register reg, uint32_t *ret,
                struct error *e)
{
    return rknn_regs_need(s->regs, reg, ret, e);
}

// The value of a register; registers that are not set hold 0.
static uint32_t get(const struct rknn_conv_sources *s, enum rknn_register reg)
{
    uint32_t value = 0;
    rknn_regs_get(s->regs, reg, &value);
    return value;
}

// Whether the weights' zero points are interleaved with the weights.
static bool in_taps(const struct rknn_conv_sources *s)
{
    return s->packing->kind == PACKED_TAP_PAIRS || s->packing->kind == PACKED_TAP_SINGLE;
}

// Fields of a unit's configuration that do not fit together, on RK3588, RK3566, RK3568: a highest
// value without a Relu, a slope without a multiplier.
static bool is_contradiction(uint32_t config)
{
    return (config & UNIT_RELUX && config & UNIT_RELU_BYPASS) ||
           (config & UNIT_MUL_PRELU && config & UNIT_MUL_BYPASS);
}

// Depthwise weights have no sum of inputs that a zero point is multiplied with: it is subtracted
// from each of them before, on chips that have a register for it.
static bool zero_of_weights(const struct rknn_conv_sources *s, int16_t *nz, struct error *e)
{
    uint32_t value = 0;
    rknn_regs_get(s->regs, CNA_WEIGHT_ZERO, &value);
    *nz = (int16_t) - (int8_t)value;
    if (value == (value & 0xff) * 0x101u)
        return true;
    rknn_regs_refuse(s->regs, CNA_WEIGHT_ZERO, value, what_table, e);
    return false;
}

// ---- the bias unit -----------------------------------------------------------------------------

// RK3588, RK3566, RK3568: bias from memory, multiplier from memory or register, or bypassed. With
// the multiplier bypassed the bias contains nz already, so a table with nz would be a
// contradiction.
static int bs_rk3588(const struct rknn_conv_sources *s, struct rknn_stages *st, struct error *e)
{
    uint32_t config, multiplier, table, nz, format;
    if (need(s, DPU_BS_CFG, &config, e) < 0 || need(s, DPU_BS_MUL_CFG, &multiplier, e) < 0 ||
        need(s, DPU_BS_OW_CFG, &table, e) < 0 || need(s, DPU_BS_OW_OP, &nz, e) < 0)
        return STATUS_MODEL_INVALID;
    bool multiplies = !(config & UNIT_MUL_BYPASS);
    if (config & (UNIT_BYPASS | UNIT_ALU_BYPASS | UNIT_MUL_PRELU) || !(config & UNIT_ALU_MEMORY) ||
        is_contradiction(config))
        return rknn_regs_refuse(s->regs, DPU_BS_CFG, config, what_scale, e);
    if (multiplies && (multiplier & SHIFT_IN_TABLE))
        return rknn_regs_refuse(s->regs, DPU_BS_MUL_CFG, multiplier, what_scale, e);
    st->nz_in_table = table & OW_IN_TABLE;
    st->nz = table & OW_BYPASS ? 0 : (int16_t)nz;
    if (st->nz_in_table && (!multiplies || table & OW_BYPASS))
        return rknn_regs_refuse(s->regs, DPU_BS_OW_CFG, table, what_table, e);
    st->mul_in_table = multiplies && (multiplier & MUL_IN_TABLE);
    st->mul = multiplies ? (int16_t)(multiplier >> 16) : 1;
    st->bs_shift = st->bs_shift_negative = multiplies ? rknn_bits(multiplier, 13, 8) : 0;
    if (multiplies && rknn_regs_get(s->regs, DPU_DATA_FORMAT, &format))
        st->bs_shift_negative = rknn_bits(format, 9, 4);
    return 0;
}

// At least n bytes of the tensor that a register points to: some chips read parameters from memory
// instead of registers.
static int config_bytes(const struct rknn_conv_sources *s, enum rknn_register reg, size_t n,
                        const uint8_t **ret, struct error *e)
{
    int32_t index = rknn_regs_tensor(s->regs, reg);
    struct bytes b = index < 0 ? (struct bytes){0} : s->file->tensors[index].data;
    if (b.size < n)
        return error_set(e, STATUS_MODEL_INVALID,
                         "what register 0x%04x points to is missing, so its scale is not known",
                         rknn_register_at(s->chip, reg));
    *ret = b.data;
    return 0;
}

// Whether the bias unit shifts what nothing multiplies: then it is not known that it does.
static bool shifts_alone(const struct rknn_stages *st)
{
    return !st->mul_in_table && (st->bs_shift || st->bs_shift_negative);
}

// RK3576, RV1126B. BS_OW_CFG bits 16-19: 1, the table has mul (and nz) and the tensor begins with
// the two shifts; 2, one zero point serves all channels, at byte 0 of the tensor, and the shifts
// are at bytes 16 and 17.
static int bs_rk3576(const struct rknn_conv_sources *s, struct rknn_stages *st, struct error *e)
{
    uint32_t table, unit;
    const uint8_t *config;
    int r = need(s, DPU_BS_OW_CFG, &table, e);
    if (r == 0)
        r = need(s, DPU_BS_CFG, &unit, e);
    if (r != 0)
        return r;
    if (unit != BS_MULTIPLY && unit != BS_DEPTHWISE)
        return rknn_regs_refuse(s->regs, DPU_BS_CFG, unit, what_scale, e);
    uint32_t form = rknn_bits(table, 19, 16);
    if ((form != 1 && form != 2) || (form == 1 && s->packing->depthwise && !in_taps(s)))
        return rknn_regs_refuse(s->regs, DPU_BS_OW_CFG, table, what_table, e);
    r = config_bytes(s, RDMA_BS_CONFIG_BASE, 18, &config, e);
    if (r < 0)
        return r;
    const uint8_t *shifts = config + (form == 1 ? 0 : 16);
    st->mul_in_table = form == 1;
    st->nz_in_table = form == 1 && !in_taps(s);
    st->nz = form == 1 || in_taps(s) ? 0 : (int16_t)read_le16(config);
    if (form == 2 && s->packing->depthwise && !in_taps(s) && !zero_of_weights(s, &st->nz, e))
        return STATUS_MODEL_INVALID;
    st->mul = 1;
    st->bs_shift = shifts[0];
    st->bs_shift_negative = shifts[1];
    return shifts_alone(st) ? rknn_regs_refuse(s->regs, DPU_BS_OW_CFG, table, what_scale, e) : 0;
}

// RK3562, RV1103, RV1106: whether the table is full, has biases alone, or lacks zero points because
// they are interleaved with the weights. Bit 31 of BS_OW_OP (nz is added) must agree with how the
// weights are packed.
static int table_form(const struct rknn_conv_sources *s, struct rknn_stages *st, struct error *e)
{
    enum { TABLE_FULL = 1, TABLE_BIAS = 2 };
    uint32_t table, nz;
    if (need(s, DPU_BS_OW_CFG, &table, e) < 0 || need(s, DPU_BS_OW_OP, &nz, e) < 0)
        return STATUS_MODEL_INVALID;
    uint32_t form = rknn_bits(table, 1, 0);
    bool adds_nz = nz >> 31, subtracts = s->packing->depthwise && !in_taps(s) && !adds_nz;
    subtracts = subtracts && rknn_register_at(s->chip, CNA_WEIGHT_ZERO);
    if (form != TABLE_FULL && form != TABLE_BIAS)
        return rknn_regs_refuse(s->regs, DPU_BS_OW_CFG, table, what_table, e);
    if (!subtracts && (adds_nz == in_taps(s) || (!adds_nz && form == TABLE_BIAS)))
        return rknn_regs_refuse(s->regs, DPU_BS_OW_OP, nz, what_table, e);
    st->nz_in_table = form == TABLE_FULL && adds_nz;
    st->mul_in_table = form == TABLE_FULL;
    st->nz = form == TABLE_BIAS ? (int16_t)nz : 0;
    st->mul = 1;
    if (subtracts && !zero_of_weights(s, &st->nz, e))
        return STATUS_MODEL_INVALID;
    return 0;
}

// `shift`, `shift_negative`: the lowest of the five bits that hold the shift, in BS_CFG and
// BS_OW_OP. Apart from the shift, BS_CFG has one of three values in all files.
static int bs_by_form(const struct rknn_conv_sources *s, struct rknn_stages *st, unsigned shift,
                      unsigned shift_negative, struct error *e)
{
    uint32_t config;
    int r = table_form(s, st, e);
    if (r == 0)
        r = need(s, DPU_BS_CFG, &config, e);
    if (r != 0)
        return r;
    uint32_t rest = config & ~(UINT32_C(0x1f) << shift);
    uint32_t multiply = s->chip->generation == CHIP_GEN_RV1106 ? BS_MULTIPLY_RV1106 : BS_MULTIPLY;
    if (rest != multiply && rest != BS_DEPTHWISE)
        return rknn_regs_refuse(s->regs, DPU_BS_CFG, config, what_scale, e);
    st->bs_shift = rknn_bits(config, shift + 4, shift);
    uint32_t negative = get(s, DPU_BS_OW_OP);
    st->bs_shift_negative = rknn_bits(negative, shift_negative + 4, shift_negative);
    return shifts_alone(st) ? rknn_regs_refuse(s->regs, DPU_BS_OW_OP, negative, what_scale, e) : 0;
}

static int bs_rk3562(const struct rknn_conv_sources *s, struct rknn_stages *st, struct error *e)
{
    return bs_by_form(s, st, 8, 16, e);
}

static int bs_rv1106(const struct rknn_conv_sources *s, struct rknn_stages *st, struct error *e)
{
    return bs_by_form(s, st, 9, 24, e);
}

// ---- the unit behind it ------------------------------------------------------------------------

// What the BN unit's configuration may say. What adds only ever adds 0, so it must add.
static int check_bn_fields(const struct rknn_conv_sources *s, uint32_t config, struct error *e)
{
    bool old = s->chip->bn_relu_field, early = s->chip->generation == CHIP_GEN_RK3566;
    const uint32_t off = UNIT_BYPASS | UNIT_ALU_BYPASS | UNIT_MUL_BYPASS;
    uint32_t add = early ? ALGORITHM_ADD << 2 : ALGORITHM_ADD << 16;
    uint32_t algorithm = config & UNIT_ALU_BYPASS ? 0 : add;
    uint32_t fields = UNIT_ALU_BYPASS | UNIT_MUL_BYPASS | UNIT_MUL_PRELU;
    fields |= old ? UNIT_RELU_BYPASS | UNIT_RELUX : 0;
    uint32_t nothing = off | (old ? UNIT_RELU_BYPASS : 0);
    // A Relu behind the slope is in no file of RK3566 and RK3568; of RK3588's none has a slope.
    bool both = early && config & UNIT_MUL_PRELU && !(config & UNIT_RELU_BYPASS);
    bool known = config == nothing;
    if (!(config & UNIT_BYPASS))
        known = !both && (config & ~fields) == algorithm && !is_contradiction(config) &&
                (!old || (config | UNIT_BYPASS) != nothing);
    return known ? 0 : rknn_regs_refuse(s->regs, DPU_BN_CFG, config, what_scale, e);
}

// The BN unit, where registers set it up. A LeakyRelu multiplies negative values alone, the scale
// into a lookup table multiplies all; a Relu needs no factor. In most other nodes the unit is
// bypassed. A Relu that the operator's name does not contain would be lost, so it is refused.
static int bn_registers(const struct rknn_conv_sources *s, struct rknn_stages *st, struct error *e)
{
    uint32_t config = get(s, DPU_BN_CFG), factor = 0;
    if (!rknn_regs_get(s->regs, DPU_BN_CFG, &config))
        config = UNIT_BYPASS;
    bool on = !(config & UNIT_BYPASS), multiplies = on && !(config & UNIT_MUL_BYPASS);
    if (check_bn_fields(s, config, e) < 0)
        return STATUS_MODEL_INVALID;
    bool relu = on && s->chip->bn_relu_field && !(config & UNIT_RELU_BYPASS) && !has(s, "Relu");
    if (relu && !has(s, "Clip"))
        return rknn_regs_refuse(s->regs, DPU_BN_CFG, config, what_scale, e);
    st->bn = !multiplies ? BN_OFF : config & UNIT_MUL_PRELU ? BN_NEGATIVES : BN_ALL;
    if ((st->bn == BN_NEGATIVES) != has(s, "LeakyRelu"))
        return rknn_regs_refuse(s->regs, DPU_BN_CFG, config, what_scale, e);
    if (!multiplies)
        return 0;
    if (need(s, DPU_BN_MUL_CFG, &factor, e) < 0)
        return STATUS_MODEL_INVALID;
    if (factor & (MUL_IN_TABLE | SHIFT_IN_TABLE))
        return rknn_regs_refuse(s->regs, DPU_BN_MUL_CFG, factor, what_scale, e);
    st->bn_factor = (int16_t)(factor >> 16);
    st->bn_shift = st->bn_shift_negative = rknn_bits(factor, 13, 8);
    if (rknn_regs_get(s->regs, DPU_DATA_FORMAT, &factor))
        st->bn_shift_negative = rknn_bits(factor, 15, 10);
    return 0;
}

// RK3576 and RV1126B have the factor and its shifts in memory, at bytes 0, 16 and 17; where a
// lookup table follows, behind 32 bytes of addends, which must be 0. The configuration values are
// those that occur in files.
static int bn_memory(const struct rknn_conv_sources *s, struct rknn_stages *st, struct error *e)
{
    enum { CFG_OFF = 0x903, CFG_RELU = 0x902, CFG_FACTOR = 2, CFG_LUT = 0x20, CFG_LEAKY = 0x402 };
    enum { READ_FACTOR = 0x18, READ_ADDEND_TOO = 0x1a, ADDEND_BYTES = 32 };
    uint32_t config = CFG_OFF, reads = get(s, RDMA_BN_CFG);
    const uint8_t *p;
    rknn_regs_get(s->regs, DPU_BN_CFG, &config);
    bool leaky = config == CFG_LEAKY, lut = config == CFG_LUT;
    if (config == CFG_OFF || config == CFG_RELU)
        return has(s, "LeakyRelu") ? rknn_regs_refuse(s->regs, DPU_BN_CFG, config, what_scale, e)
                                   : 0;
    if ((!leaky && !lut && config != CFG_FACTOR) || leaky != has(s, "LeakyRelu"))
        return rknn_regs_refuse(s->regs, DPU_BN_CFG, config, what_scale, e);
    if (reads != (lut ? READ_ADDEND_TOO : READ_FACTOR))
        return rknn_regs_refuse(s->regs, RDMA_BN_CFG, reads, what_scale, e);
    int r = config_bytes(s, RDMA_BN_BASE, (lut ? ADDEND_BYTES : 0) + 18, &p, e);
    if (r < 0)
        return r;
    for (int i = 0; lut && i < ADDEND_BYTES; i++)
        if (p[i])
            return error_set(e, STATUS_MODEL_INVALID,
                             "something is added in front of its lookup table, which is not known");
    p += lut ? ADDEND_BYTES : 0;
    st->bn = leaky ? BN_NEGATIVES : BN_ALL;
    st->bn_factor = (int16_t)read_le16(p);
    st->bn_shift = p[16];
    st->bn_shift_negative = p[17];
    return 0;
}

// ---- bounds, and a second operand --------------------------------------------------------------

static void bound(int32_t bounds[2], int32_t low, int32_t high)
{
    bounds[0] = bounds[0] > low ? bounds[0] : low;
    bounds[1] = bounds[1] < high ? bounds[1] : high;
}

// RK3588, RK3566, RK3568: a Relu of a unit that is on, perhaps with an upper bound. What multiplies
// negative values does not cut them off.
static void bound_by_relu(const struct rknn_conv_sources *s, uint32_t config,
                          enum rknn_register highest, int32_t bounds[2])
{
    bool relu = !(config & (UNIT_BYPASS | UNIT_MUL_PRELU | UNIT_RELU_BYPASS));
    bool capped = relu && (config & UNIT_RELUX);
    bound(bounds, relu ? 0 : INT32_MIN, capped ? (int32_t)get(s, highest) : INT32_MAX);
}

// The other chips: pairs of registers.
static void bound_by_pair(const struct rknn_conv_sources *s, enum rknn_register first,
                          int32_t bounds[2])
{
    uint32_t low = 0, high = 0;
    if (rknn_regs_get(s->regs, first, &low) && rknn_regs_get(s->regs, first + 1, &high))
        bound(bounds, (int32_t)low, (int32_t)high);
}

static void bound_by_pairs(const struct rknn_conv_sources *s, enum rknn_register first,
                           int32_t bounds[2])
{
    bound_by_pair(s, first, bounds);
    bound_by_pair(s, first + 2, bounds);
}

// Bounds of BS count as those behind BN, which must do nothing then.
static int read_bounds(const struct rknn_conv_sources *s, struct rknn_stages *st, struct error *e)
{
    const int32_t any[2] = {INT32_MIN, INT32_MAX};
    int32_t bs[2] = {any[0], any[1]}, bn[2] = {any[0], any[1]};
    memcpy(st->sum_bounds, any, sizeof any);
    if (s->chip->bn_relu_field) {
        bound_by_relu(s, get(s, DPU_BS_CFG), DPU_BS_RELUX_CMP, bs);
        bound_by_relu(s, get(s, DPU_BN_CFG), DPU_BN_RELUX_CMP, bn);
    } else if (rknn_register_at(s->chip, DPU_BN_LOW_0)) {
        bound_by_pairs(s, DPU_BS_LOW_0, bs);
        bound_by_pairs(s, DPU_BN_LOW_0, bn);
        bound_by_pairs(s, DPU_EW_LOW_0, st->sum_bounds);
    } else {
        bound_by_pair(s, DPU_BOUND_8, bn);
    }
    bool bs_bounds = memcmp(bs, any, sizeof any) != 0;
    if (bs_bounds && (st->bn != BN_OFF || memcmp(bn, any, sizeof any) != 0))
        return rknn_regs_refuse(s->regs, DPU_BS_CFG, get(s, DPU_BS_CFG), what_scale, e);
    memcpy(st->bounds, bs_bounds ? bs : bn, sizeof any);
    return 0;
}

// EW as an addition of another tensor, after that was brought to the sums' units. These are all the
// values that files have for it, but for the Relu behind. RK3588's generation has an offset of 32
// bits, the others of 16.
static int read_addend(const struct rknn_conv_sources *s, struct rknn_stages *st, struct error *e)
{
    enum { RELU_BYPASS = 1 << 9 };
    static const uint32_t additions[] = {
        0x904200c0, // RK3588
        0x804200c0, // … of one number for each channel
        0x900000d0, // RK3566, RK3568
        0x800000d0, // … of one number for each channel
        0x8002c0c0, // the others
    };
    uint32_t config, scale, offset;
    if (need(s, DPU_EW_CFG, &config, e) < 0 || need(s, DPU_EW_CVT_SCALE, &scale, e) < 0 ||
        need(s, DPU_EW_CVT_OFFSET, &offset, e) < 0)
        return STATUS_MODEL_INVALID;
    bool known = false;
    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++)
        known = known || (config & ~(uint32_t)RELU_BYPASS) == additions[i];
    if (!known)
        return rknn_regs_refuse(s->regs, DPU_EW_CFG, config, "what it adds is not known", e);
    if (s->chip->bn_relu_field && (int32_t)offset != (int16_t)offset)
        return rknn_regs_refuse(s->regs, DPU_EW_CVT_OFFSET, offset, "no zero point is as far", e);
    st->has_addend = true;
    st->addend_offset = s->chip->bn_relu_field ? (int32_t)offset : (int16_t)offset;
    st->addend_factor = (int16_t)rknn_bits(scale, 15, 0);
    st->addend_shift = rknn_bits(scale, 21, 16);
    return 0;
}

// A Relu of the operator's name is some unit's; or what it would cut off does not fit the output's
// bytes, which begin with 0.
static int check_relu(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                      struct error *e)
{
    enum { RELU_BYPASS = 1 << 9, LOWEST = -128 };
    bool named = has(s, "Relu") && !has(s, "LeakyRelu") && !has(s, "PRelu");
    uint32_t any;
    bool said = s->chip->bn_relu_field || rknn_regs_get(s->regs, DPU_BN_LOW_0, &any) ||
                rknn_regs_get(s->regs, DPU_BOUND_8, &any); // our own writer may leave them out
    bool behind = s->chip->bn_relu_field && st->has_addend && !(get(s, DPU_EW_CFG) & RELU_BYPASS);
    if (!named || !said || behind || st->bounds[0] >= 0 || st->sum_bounds[0] >= 0 ||
        st->out_offset == LOWEST)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID, "none of its registers has its Relu");
}

// ---- all of them -------------------------------------------------------------------------------

// Only a LeakyRelu scales negative values otherwise than positive ones.
static int check_signs(const struct rknn_conv_sources *s, const struct rknn_stages *st,
                       struct error *e)
{
    if (st->bn == BN_NEGATIVES ||
        (st->bs_shift == st->bs_shift_negative && st->bn_shift == st->bn_shift_negative))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "%s of negative values shift by %u and %u, of others by %u and %u: %s",
                     s->output->name, st->bs_shift_negative, st->bn_shift_negative, st->bs_shift,
                     st->bn_shift, what_scale);
}

// *ret is written on success only. BS before BN: check_signs() needs the shifts of both.
int rknn_stages_read(const struct rknn_conv_sources *s, struct rknn_stages *ret, struct error *e)
{
    static int (*const bias_units[CHIP_N_GENERATIONS])(const struct rknn_conv_sources *,
                                                       struct rknn_stages *, struct error *) = {
        [CHIP_GEN_RK3588] = bs_rk3588, [CHIP_GEN_RK3576] = bs_rk3576, [CHIP_GEN_RK3562] = bs_rk3562,
        [CHIP_GEN_RV1106] = bs_rv1106, [CHIP_GEN_RK3566] = bs_rk3588,
    };
    uint32_t scale, shift, offset, truncate = get(s, CORE_CLIP_TRUNCATE);
    struct rknn_stages st = {.sum_shift = rknn_bits(truncate, 4, 0)};
    // Of the other chips' files all say that nothing is cut off.
    if (st.sum_shift && !s->chip->shifts_sums)
        return rknn_regs_refuse(s->regs, CORE_CLIP_TRUNCATE, truncate, what_scale, e);
    int r = bias_units[s->chip->generation](s, &st, e);
    if (r == 0)
        r = s->chip->bn_in_memory ? bn_memory(s, &st, e) : bn_registers(s, &st, e);
    if (r == 0)
        r = check_signs(s, &st, e);
    if (r < 0 || need(s, DPU_OUT_CVT_SCALE, &scale, e) < 0 ||
        need(s, DPU_OUT_CVT_SHIFT, &shift, e) < 0 || need(s, DPU_OUT_CVT_OFFSET, &offset, e) < 0)
        return STATUS_MODEL_INVALID;
    if (read_bounds(s, &st, e) < 0)
        return STATUS_MODEL_INVALID;
    if (has(s, "Add") && read_addend(s, &st, e) < 0)
        return STATUS_MODEL_INVALID;
    // A negative scale, a shift of more bits, and the other rule for ties, are in no file.
    if (rknn_bits(scale, 15, 15))
        return rknn_regs_refuse(s->regs, DPU_OUT_CVT_SCALE, scale, what_scale, e);
    if (shift >> 6)
        return rknn_regs_refuse(s->regs, DPU_OUT_CVT_SHIFT, shift, what_scale, e);
    st.out_scale = rknn_bits(scale, 15, 0);
    st.out_shift = rknn_bits(shift, 5, 0);
    st.out_offset = (int32_t)offset;
    r = check_relu(s, &st, e);
    if (r == 0)
        *ret = st;
    return r;
}
