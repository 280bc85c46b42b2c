// How RK3562's registers say a task, and those of RK3576 and RV1126B, which hold most sizes less
// one and keep shifts and single operands in memory (the configuration tensor).
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "npu/emu/emu_unit.h"

#define LANES 16

// The configuration tensor of RK3576: bytes of it that are known.
enum { CONFIG_SHIFT = 0, CONFIG_NEGATIVE_SHIFT = 1, CONFIG_FACTOR = 32, CONFIG_FACTOR_SHIFTS = 48 };
#define CONFIG_BYTES 64

static bool is_rk3576(const struct emu_unit *u)
{
    return u->chip->generation == EMU_RK3576;
}

// ---- CNA and CORE ----

static int check_conv(const struct emu_unit *u, struct error *e)
{
    uint32_t mode = emu_get_field(u, EMU_CONV_CON1, 3, 0);
    if (emu_get_field(u, EMU_CONV_CON1, is_rk3576(u) ? 11 : 9, 4))
        return emu_refuse(u, EMU_CONV_CON1, "not int8", e);
    if (is_rk3576(u) ? mode != 0 && mode != 1 && mode != 6 : mode > 2 && mode != 5)
        return emu_refuse(u, EMU_CONV_CON1, "a convolution of another kind", e);
    if (emu_get_field(u, EMU_CONV_CON3, 27, 6))
        return emu_refuse(u, EMU_CONV_CON3, "more than strides", e);
    return 0;
}

static int decode_converter(const struct emu_unit *u, struct emu_conv *c, struct error *e)
{
    if (emu_get(u, EMU_CVT_CON0) == 0xb)
        return 0;
    // (x - 128) * 0x4000 >> 14
    if (emu_get(u, EMU_CVT_CON1) != 0x40004000 || emu_get(u, EMU_CVT_OFFSET) != 0xffffff80)
        return emu_refuse(u, EMU_CVT_CON1, "inputs that are converted by more than 128", e);
    c->minus_128 = true;
    return 0;
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
    c->kernel_block = u->chip->kernel_block;
    c->channel_block = 32;
    c->depthwise_block = u->chip->depthwise_block;
}

static void decode_feature(const struct emu_unit *u, uint32_t packed, struct emu_conv *c)
{
    uint32_t less = u->chip->less_one;
    uint64_t base = emu_get(u, EMU_FEATURE_ADDR);
    c->size[1] = emu_get_field(u, EMU_DATA_SIZE0, 31, 16) + less;
    c->size[0] = emu_get_field(u, EMU_DATA_SIZE0, 15, 0) + less;
    if (packed) {
        c->channels = 4;
        c->present = packed;
        int64_t line = is_rk3576(u) ? (int64_t)emu_get(u, EMU_LINE_STRIDE) * LANES
                                    : (int64_t)c->size[1] * packed;
        c->feature = (struct emu_cube){base, 0, line, packed, packed, 1};
        c->rows_of_16 = less == 1;
        return;
    }
    c->channels = emu_get_field(u, EMU_DATA_SIZE1, 13, 0) + less;
    c->present = emu_get(u, EMU_DATA_CHANNEL_REAL) + less;
    int64_t line =
        emu_get(u, EMU_LINE_STRIDE) / (emu_get_field(u, EMU_CONV_CON1, 29, 29) ? 1 : 4) * LANES;
    // Rows of the task before may still be in the chip: the tile begins that many lines earlier.
    int64_t kept = (int64_t)c->size[0] - (emu_get_field(u, EMU_DMA_SIZE, 15, 0) + less);
    c->feature = (struct emu_cube){base - (uint64_t)(kept * line),
                                   (int64_t)emu_get(u, EMU_SURFACE_STRIDE) * LANES,
                                   line,
                                   LANES,
                                   LANES,
                                   1};
}

int emu_conv_rk3562(const struct emu_unit *u, struct emu_conv *ret, struct error *e)
{
    int r = check_conv(u, e);
    if (r < 0)
        return r;
    uint32_t mode = emu_get_field(u, EMU_CONV_CON1, 3, 0), pads = emu_get(u, EMU_PAD_CON0);
    uint32_t packed = emu_get_field(u, EMU_CONV_CON1, 15, 12);
    *ret = (struct emu_conv){
        .depthwise = mode == 1 || (mode == 5 && !is_rk3576(u)), // 5: weights in pairs
        .stride = {emu_get_field(u, EMU_CONV_CON3, 5, 3), emu_get_field(u, EMU_CONV_CON3, 2, 0)},
        .dilation = {1, 1},
        .pad_top = pads & 0xff,
        .pad_left = pads >> 8 & 0xff,
        .pad_value = (int8_t)emu_get(u, EMU_PAD_CON1),
        .out = {emu_get_field(u, EMU_CORE_SIZE1, 15, 0) + 1,
                emu_get_field(u, EMU_CORE_SIZE0, 31, 16) + 1,
                emu_get_field(u, EMU_CORE_SIZE0, 15, 0) + 1},
        .clip = emu_get_field(u, EMU_CLIP_TRUNCATE, 4, 0),
    };
    decode_kernels(u, ret);
    decode_feature(u, packed > 7 ? packed - 7 : 0, ret);
    r = emu_check_shape(u, ret->out, e);
    return r < 0 ? r : decode_converter(u, ret, e);
}

// ---- DPU: BS and BN ----

// How BS_CFG without its shift says where additions and factors come from.
static const struct {
    uint32_t cfg;
    bool memory, multiplies; // coefficients of each channel, else single ones
} ways[] = {
    {0x120080, true, true},  {0x100092, true, false}, {0x100090, true, false},
    {0x120090, true, false}, {0x100012, false, true},
};

static int read_coefficients(const struct emu_unit *u, uint32_t channels, struct emu_operand abc[3],
                             struct error *e)
{
    enum { NOTHING, GROUPS_WITH_B, GROUPS, DENSE, N_FORMS };
    static const uint32_t uses[2][N_FORMS] = {{0, 0xe, 0xa, 2}, {0, 0x710, 0x510, 0x110}};
    uint32_t use = emu_get(u, EMU_RDMA_BRDMA_CFG);
    const uint32_t *known = uses[is_rk3576(u)];
    uint64_t base = emu_get(u, EMU_RDMA_BS_ADDR);
    if (use == known[GROUPS_WITH_B] || use == known[GROUPS])
        return emu_read_groups(u, base, channels, use == known[GROUPS_WITH_B], abc, e);
    if (use == known[DENSE])
        return emu_read_dense(u, base, channels, 4, false, &abc[0], e);
    return use == known[NOTHING] || (use == 1 && !is_rk3576(u))
               ? 0
               : emu_refuse(u, EMU_RDMA_BRDMA_CFG, "another set of coefficients", e);
}

// What a memory program adds, multiplies with and shifts by.
static void single_operands(const struct emu_unit *u, const uint8_t *config, struct emu_multiply *m)
{
    if (!is_rk3576(u)) {
        uint32_t factor = emu_get_field(u, EMU_BS_MUL_CFG, 31, 16);
        m->add = (struct emu_operand){EMU_ALL, (int32_t)emu_get(u, EMU_BS_ALU_CFG), NULL};
        if (factor)
            m->factor = (struct emu_operand){EMU_ALL, emu_signed(factor, 16), NULL};
        return;
    }
    m->add = (struct emu_operand){EMU_ALL, (int16_t)read_le16(config), NULL};
    m->shift = m->negative_shift = 0;
    if (emu_get_field(u, EMU_RDMA_BRDMA_CFG, 3, 3)) {
        m->factor = (struct emu_operand){EMU_ALL, (int16_t)read_le16(config + CONFIG_FACTOR), NULL};
        m->shift = config[CONFIG_FACTOR_SHIFTS] & 0x3f;
        m->negative_shift = config[CONFIG_FACTOR_SHIFTS + 1] & 0x3f;
    }
}

// What is multiplied with the sum of the inputs.
static void decode_window(const struct emu_unit *u, const uint8_t *config, struct emu_operand *b,
                          struct emu_multiply *m)
{
    uint32_t ow = emu_get(u, EMU_BS_OW_CFG);
    bool each = true;
    int32_t all = 0;
    if (is_rk3576(u) && emu_field(ow, 19, 16) == 2) {
        each = false;
        all = (int16_t)read_le16(config);
    } else if (!is_rk3576(u) && !(ow & 1)) {
        each = false;
        all = emu_signed(emu_get_field(u, EMU_BS_OW_OP, 15, 0), 16);
        if (emu_field(ow, 1, 0) == 2 && !all)
            return;
    }
    if (!each) {
        m->window = (struct emu_operand){EMU_ALL, all, NULL};
    } else if (b->kind) {
        m->window = *b;
        b->each = NULL;
    }
}

static void decode_table(const struct emu_unit *u, const uint8_t *config, bool from_core,
                         struct emu_operand abc[3], struct emu_multiply *m)
{
    m->add = abc[0];
    m->factor = abc[2];
    abc[0].each = abc[2].each = NULL;
    if (from_core)
        decode_window(u, config, &abc[1], m);
    if (is_rk3576(u)) {
        m->shift = config[CONFIG_SHIFT] & 0x3f;
        m->negative_shift = config[CONFIG_NEGATIVE_SHIFT] & 0x3f;
    } else {
        m->shift = emu_get_field(u, EMU_BS_CFG, 12, 8);
        m->negative_shift = emu_get_field(u, EMU_BS_OW_OP, 21, 16);
    }
}

static void decode_bounds(const struct emu_unit *u, enum emu_register low_0,
                          enum emu_register high_0, enum emu_register low_1,
                          enum emu_register high_1, int32_t ret[2])
{
    int32_t low[2] = {(int32_t)emu_get(u, low_0), (int32_t)emu_get(u, low_1)};
    int32_t high[2] = {(int32_t)emu_get(u, high_0), (int32_t)emu_get(u, high_1)};
    ret[0] = low[0] > low[1] ? low[0] : low[1];
    ret[1] = high[0] < high[1] ? high[0] : high[1];
}

static int find_way(const struct emu_unit *u, size_t *ret, struct error *e)
{
    uint32_t cfg = emu_get(u, EMU_BS_CFG) & ~0x1f00u;
    for (*ret = 0; *ret < sizeof ways / sizeof *ways; ++*ret)
        if (ways[*ret].cfg == cfg)
            return 0;
    return emu_refuse(u, EMU_BS_CFG, "a combination that is not known", e);
}

static int decode_bs(const struct emu_unit *u, uint32_t channels, bool from_core,
                     struct emu_multiply *m, struct error *e)
{
    static const uint8_t none[CONFIG_BYTES];
    const uint8_t *config = none;
    struct emu_operand abc[3] = {{EMU_NONE, 0, NULL}};
    int32_t bounds[2];
    size_t way;
    decode_bounds(u, EMU_BS_LOW_0, EMU_BS_HIGH_0, EMU_BS_LOW_1, EMU_BS_HIGH_1, bounds);
    *m = (struct emu_multiply){.low = bounds[0], .high = bounds[1]};
    if (emu_get(u, EMU_BS_CFG) & 1)
        return 0;
    int r = find_way(u, &way, e);
    if (r == 0 && is_rk3576(u)) {
        config = emu_memory_at(u->memory, emu_get(u, EMU_RDMA_BS_CONFIG_ADDR), CONFIG_BYTES, e);
        r = config ? 0 : error_prefix(e, "the configuration of BS");
    }
    if (r == 0 && ways[way].memory)
        r = read_coefficients(u, channels, abc, e);
    // Where the reader fetches no factors, or nothing, there is nothing to multiply, or to do.
    if (r == 0 && ways[way].memory) {
        decode_table(u, config, from_core, abc, m);
    } else if (r == 0) {
        m->shift = emu_get_field(u, EMU_BS_CFG, 12, 8);
        m->negative_shift = emu_get_field(u, EMU_BS_OW_OP, 21, 16);
        single_operands(u, config, m);
        if (from_core)
            decode_window(u, config, &abc[1], m);
    }
    for (int i = 0; i < 3; i++)
        free(abc[i].each);
    return r < 0 ? r : emu_check_shifts(u, m, e);
}

static int decode_bn(const struct emu_unit *u, struct emu_multiply *m, struct error *e)
{
    uint32_t cfg = emu_get(u, EMU_BN_CFG), mul = emu_get(u, EMU_BN_MUL_CFG);
    int32_t bounds[2];
    decode_bounds(u, EMU_BN_LOW_0, EMU_BN_HIGH_0, EMU_BN_LOW_1, EMU_BN_HIGH_1, bounds);
    *m = (struct emu_multiply){.low = bounds[0], .high = bounds[1]};
    if (cfg == 0x20000 && !(mul & 1)) {
        m->factor = (struct emu_operand){EMU_ALL, emu_signed(mul >> 16, 16), NULL};
        m->shift = emu_field(mul, 13, 8);
        m->negative_shift = emu_get_field(u, EMU_DATA_FORMAT, 15, 10);
        return emu_check_shifts(u, m, e);
    }
    if (cfg != 0x903 && cfg != 0x902 && cfg != 0x13 && cfg != 0x12)
        return emu_refuse(u, EMU_BN_CFG, "a combination that is not known", e);
    return 0;
}

// ---- DPU: EW, reads and writes ----

static int decode_ew(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    static const struct {
        uint32_t cfg;
        enum emu_ew op;
    } known[] = {{0x010041c1, EMU_EW_NONE},
                 {0x01004140, EMU_EW_LUT},
                 {0x8002c0c0, EMU_EW_ADD},
                 {0x8000c0c4, EMU_EW_MUL},
                 {0x8000c0c0, EMU_EW_MAX}};
    uint32_t cfg = emu_get(u, EMU_EW_CFG), scale = emu_get(u, EMU_EW_CVT_SCALE);
    int32_t bounds[2];
    decode_bounds(u, EMU_EW_LOW_0, EMU_EW_HIGH_0, EMU_EW_LOW_1, EMU_EW_HIGH_1, bounds);
    d->ew_low = bounds[0];
    d->ew_high = bounds[1];
    size_t i = 0;
    while (i < sizeof known / sizeof *known && known[i].cfg != cfg)
        i++;
    if (i == sizeof known / sizeof *known || (is_rk3576(u) && known[i].op == EMU_EW_LUT))
        return emu_refuse(u, EMU_EW_CFG, "an operation that is not known", e);
    d->ew.op = known[i].op;
    if (d->ew.op == EMU_EW_NONE)
        return 0;
    if (d->ew.op == EMU_EW_LUT)
        return emu_decode_lut(u, 0x160, d->lut, e);
    d->ew.offset = emu_signed(emu_get(u, EMU_EW_CVT_OFFSET), 16);
    d->ew.factor = emu_signed(scale, 16);
    d->ew.shift = emu_field(scale, 21, 16);
    struct emu_cube cube = {emu_get(u, EMU_RDMA_EW_ADDR),
                            (int64_t)emu_get(u, EMU_RDMA_EW_SURF_STRIDE) * LANES,
                            (int64_t)d->shape[2] * LANES,
                            LANES,
                            LANES,
                            1};
    return emu_read_second(u, &cube, d->shape, &d->ew, e);
}

static void decode_source(const struct emu_unit *u, struct emu_dpu *d)
{
    int64_t line = (int64_t)d->shape[2] + emu_get(u, EMU_RDMA_SRC_LINE_NOTCH);
    int64_t surface =
        (d->shape[1] - 1) * line + d->shape[2] + emu_signed(emu_get(u, EMU_RDMA_SURF_NOTCH), 28);
    d->source = (struct emu_cube){
        emu_get(u, EMU_RDMA_SRC_ADDR), surface * LANES, line * LANES, LANES, LANES, 1};
}

// Lines of atoms; or lines of pixels with gaps between them.
static int decode_target(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t notch = emu_get_field(u, EMU_CUBE_NOTCH, 12, 0), add = emu_get(u, EMU_SURFACE_ADD);
    uint32_t rows = emu_get_field(u, EMU_WDMA_SIZE_1, 28, 16) + 1;
    uint32_t columns = emu_get_field(u, EMU_WDMA_SIZE_1, 12, 0) + 1;
    int64_t line = (int64_t)d->shape[2] + notch;
    d->channels = emu_get_field(u, EMU_WDMA_SIZE_0, 31, 16) + 1;
    d->target = (struct emu_cube){emu_get(u, EMU_DST_ADDR),
                                  (int64_t)emu_get(u, EMU_DST_SURF_STRIDE) * LANES,
                                  line * LANES,
                                  LANES,
                                  LANES,
                                  1};
    if (rows == d->shape[1] && columns == d->shape[2])
        return 0;
    if (rows != d->shape[1] || columns != 1)
        return emu_refuse(u, EMU_WDMA_SIZE_1, "not the size of the cube", e);
    line = is_rk3576(u) ? (int64_t)(d->shape[2] - 1) * (1 + notch) + 1 + add : (int64_t)add;
    d->channels /= d->shape[2];
    d->target.line = line * LANES;
    d->target.pixel = (1 + notch) * LANES;
    return 0;
}

int emu_dpu_rk3562(const struct emu_unit *u, bool from_core, struct emu_dpu *ret, struct error *e)
{
    static const enum emu_register core[] = {EMU_CUBE_CHANNEL, EMU_CUBE_HEIGHT, EMU_CUBE_WIDTH};
    static const enum emu_register memory[] = {EMU_RDMA_CHANNEL, EMU_RDMA_HEIGHT, EMU_RDMA_WIDTH};
    *ret = (struct emu_dpu){.from_core = from_core};
    if (emu_get_field(u, EMU_DATA_FORMAT, 31, 26) || emu_get_field(u, EMU_DATA_FORMAT, 2, 0))
        return emu_refuse(u, EMU_DATA_FORMAT, "not int8", e);
    for (int i = 0; i < 3; i++)
        ret->shape[i] = emu_get_field(u, from_core ? core[i] : memory[i], 12, 0) + 1;
    int r = emu_check_shape(u, ret->shape, e);
    if (r == 0)
        r = decode_bs(u, ret->shape[0], from_core, &ret->bs, e);
    if (r == 0)
        r = decode_bn(u, &ret->bn, e);
    if (r == 0)
        r = decode_ew(u, ret, e);
    if (r < 0)
        return r;
    if (!from_core)
        decode_source(u, ret);
    r = decode_target(u, ret, e);
    return r < 0 ? r : emu_decode_conversion(u, ret, e);
}
