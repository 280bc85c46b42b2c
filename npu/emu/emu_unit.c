// What decoders of all chips share: registers by name, cubes in memory, coefficients, tables.
//
//   cubes          channels in atoms, pixels, lines, surfaces: emu_unit.h
//   coefficients   of BS, for a group of channels: | A, 32 bits each | B, 16 | C, 16 |, and of
//                  these only those that are fetched
//   tables         513 entries, 2^bits apart; between two a straight line, rounded down
//
// Tests: test_emulator.
#include "npu/emu/emu_unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define MAX_SIZE  65536u
#define MAX_SHIFT 46 // with it, sums of all stages fit 63 bits

uint32_t emu_get(const struct emu_unit *u, enum emu_register reg)
{
    uint32_t at = emu_register_at(u->chip->generation, reg);
    const uint32_t *block = u->block[at >> 12];
    return at && block ? block[(at & 0xfff) / 4] : 0;
}

static int refuse_at(uint32_t at, const char *name, uint32_t value, const char *why,
                     struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID, "register %s (%#06x) holds %#010x: %s", name, at,
                     value, why);
}

int emu_refuse(const struct emu_unit *u, enum emu_register reg, const char *why, struct error *e)
{
    return refuse_at(emu_register_at(u->chip->generation, reg), emu_register_name(reg),
                     emu_get(u, reg), why, e);
}

static int refuse_unread_at(const struct emu_unit *u, uint32_t at, uint32_t value, struct error *e)
{
    const char *name = emu_register_name_at(u->chip->generation, at);
    uint32_t known = emu_register_known_bits(u->chip->generation, at);
    if (!known)
        return refuse_at(at, name, value, "nothing here reads it", e);
    return error_set(e, STATUS_PARAM_INVALID,
                     "register %s (%#06x) holds %#010x: nothing here reads its bits %#010x", name,
                     at, value, value & ~known);
}

int emu_refuse_unread(const struct emu_unit *u, struct error *e)
{
    for (unsigned b = 0; b < EMU_N_BLOCKS; b++)
        for (unsigned i = 2; u->block[b] && i < EMU_BLOCK_REGS; i++) {
            uint32_t at = b << 12 | i * 4, value = u->block[b][i];
            if (value && (value & ~emu_register_known_bits(u->chip->generation, at)))
                return refuse_unread_at(u, at, value, e);
        }
    return 0;
}

int emu_check_shape(const struct emu_unit *u, const uint32_t shape[3], struct error *e)
{
    uint64_t n = 1;
    for (int i = 0; i < 3; i++) {
        if (!shape[i] || shape[i] > MAX_SIZE)
            return error_set(e, STATUS_PARAM_INVALID, "%s: a cube of %u x %u x %u", u->chip->name,
                             shape[0], shape[1], shape[2]);
        n *= shape[i];
    }
    if (n > u->limit)
        return error_set(e, STATUS_PARAM_INVALID, "%s: a cube of %u x %u x %u", u->chip->name,
                         shape[0], shape[1], shape[2]);
    return 0;
}

// ---- what the CNA is told ----

int emu_decode_pad(const struct emu_unit *u, enum emu_register reg, int8_t *ret, struct error *e)
{
    uint32_t value = emu_get(u, reg), low = value & 0xff, copied = low * 0x10101;
    *ret = (int8_t)value;
    uint32_t twice = low | low << 8, extended = (uint32_t)emu_signed(twice, 16);
    if (value == low || value == (uint32_t)*ret || value == (uint32_t)(uint16_t)*ret ||
        value == twice || value == extended || value == copied || value == (copied | low << 24))
        return 0;
    return emu_refuse(u, reg, "not the same in all channels", e);
}

int emu_decode_packed_line(const struct emu_unit *u, uint32_t rows, uint32_t bytes, int64_t *ret,
                           struct error *e)
{
    enum { ATOM_BYTES = 16 };
    uint32_t atoms = emu_get(u, EMU_LINE_STRIDE);
    bool together = rows && atoms % rows == 0 && (uint64_t)atoms / rows * ATOM_BYTES >= bytes;
    *ret = (int64_t)(together ? atoms / rows : atoms) * ATOM_BYTES;
    return *ret >= bytes
               ? 0
               : emu_refuse(u, EMU_LINE_STRIDE, "less than lines of packed pixels have", e);
}

void emu_decode_lane_shifts(const struct emu_unit *u, struct emu_conv *c)
{
    uint32_t shifts = emu_get(u, EMU_CVT_CON0) >> 4;
    for (int i = 0; i < EMU_LANES; i++)
        c->lanes[i].shift = shifts >> 6 * i & 0x3f;
}

const enum emu_register emu_lane_offsets[EMU_LANES] = {EMU_CVT_OFFSET, EMU_CVT_OFFSET_1,
                                                       EMU_CVT_OFFSET_2, EMU_CVT_OFFSET_3};

int emu_decode_lanes_apart(const struct emu_unit *u, struct emu_conv *c, bool packed,
                           uint32_t bypassed, struct error *e)
{
    uint32_t cfg = emu_get(u, EMU_CVT_CON0);
    if (cfg == bypassed)
        return 0;
    if (!packed || emu_field(cfg, 3, 0))
        return emu_refuse(u, EMU_CVT_CON0, "inputs that are converted in another way", e);
    emu_decode_lane_shifts(u, c);
    for (int i = 0; i < EMU_LANES; i++) {
        enum emu_register factors = i < 2 ? EMU_CVT_CON1 : EMU_CVT_CON2;
        c->lanes[i].factor = (int32_t)(emu_get(u, factors) >> i % 2 * 16 & 0xffff);
        c->lanes[i].offset = (int32_t)emu_get(u, emu_lane_offsets[i]);
    }
    c->converts = true;
    return 0;
}

// ---- cubes ----

uint32_t emu_precision_bytes(enum emu_precision precision)
{
    bool two = precision == EMU_INT16 || precision == EMU_FP16 || precision == EMU_BF16;
    return precision == EMU_INT8 ? 1 : two ? 2 : 4;
}

static size_t bytes_of(const struct emu_cube *cube)
{
    return cube->bytes ? cube->bytes : 1;
}

static uint8_t *bytes_at(const struct emu_memory *m, uint64_t at, size_t size, bool write,
                         struct error *e)
{
    return write ? emu_memory_to(m, at, size, e) : emu_memory_at(m, at, size, e);
}

// One line of one block of lanes; NULL with words when it is not mapped. What lies between pixels
// that are apart is not touched.
static uint8_t *line_at(const struct emu_memory *m, const struct emu_cube *cube, uint32_t block,
                        uint32_t y, uint32_t width, uint32_t lanes, bool write, struct error *e)
{
    uint64_t at = cube->base + (uint64_t)(block * cube->surface + y * cube->line);
    size_t one = lanes * bytes_of(cube);
    uint8_t *line = NULL;
    if (cube->pixel <= EMU_GRAIN)
        return bytes_at(m, at, (size_t)(width - 1) * cube->pixel + one, write, e);
    for (uint32_t x = width; x-- > 0;)
        if (!(line = bytes_at(m, at + (uint64_t)x * cube->pixel, one, write, e)))
            return NULL;
    return line;
}

// Between a line of one block of lanes and the channels' planes, from element `at` on.
static void copy_line(const struct emu_cube *cube, uint8_t *line, uint8_t *planes, size_t at,
                      size_t plane, uint32_t width, uint32_t lanes, bool write)
{
    size_t n = bytes_of(cube);
    for (uint32_t x = 0; x < width; x++, line += cube->pixel)
        for (uint32_t i = 0; i < lanes; i++) {
            uint8_t *element = planes + (at + i * plane + x) * n;
            memcpy(write ? line + i * n : element, write ? element : line + i * n, n);
        }
}

static int copy_cube(const struct emu_memory *m, const struct emu_cube *cube,
                     const uint32_t shape[3], uint8_t *planes, bool write, struct error *e)
{
    size_t plane = (size_t)shape[1] * shape[2];
    for (uint32_t c = 0; c < shape[0]; c += cube->lanes) {
        uint32_t lanes = shape[0] - c < cube->lanes ? shape[0] - c : cube->lanes;
        for (uint32_t y = 0; y < shape[1]; y++) {
            uint8_t *line = line_at(m, cube, c / cube->lanes, y, shape[2], lanes, write, e);
            if (!line)
                return error_prefix(e, write ? "writing" : "reading");
            copy_line(cube, line, planes, c * plane + (size_t)y * shape[2], plane, shape[2], lanes,
                      write);
        }
    }
    return 0;
}

int emu_cube_read(const struct emu_memory *m, const struct emu_cube *cube, const uint32_t shape[3],
                  void *dst, struct error *e)
{
    return copy_cube(m, cube, shape, dst, false, e);
}

int emu_cube_write(const struct emu_memory *m, const struct emu_cube *cube, const uint32_t shape[3],
                   const void *src, struct error *e)
{
    return copy_cube(m, cube, shape, (void *)src, true, e);
}

int emu_cube_read_integers(const struct emu_memory *m, const struct emu_cube *cube,
                           const uint32_t shape[3], int32_t *dst, struct error *e)
{
    size_t n = (size_t)shape[0] * shape[1] * shape[2], bytes = bytes_of(cube);
    uint8_t *raw = malloc(n * bytes);
    if (!raw)
        return error_no_memory(e, "a cube", n * bytes);
    int r = emu_cube_read(m, cube, shape, raw, e);
    for (size_t i = 0; r == 0 && i < n; i++)
        dst[i] = bytes == 1   ? (int8_t)raw[i]
                 : bytes == 2 ? (int16_t)read_le16(raw + 2 * i)
                              : (int32_t)read_le32(raw + 4 * i);
    free(raw);
    return r;
}

// ---- what the DPU is told ----

int emu_decode_conversion(const struct emu_unit *u, struct emu_dpu *ret, struct error *e)
{
    ret->scale = emu_signed(emu_get(u, EMU_OUT_CVT_SCALE), 16);
    ret->shift = emu_get_field(u, EMU_OUT_CVT_SHIFT, 5, 0);
    ret->offset = (int32_t)emu_get(u, EMU_OUT_CVT_OFFSET);
    ret->away = emu_get_field(u, EMU_OUT_CVT_SHIFT, 30, 30);
    if (ret->shift > MAX_SHIFT)
        return emu_refuse(u, EMU_OUT_CVT_SHIFT, "a shift that leaves nothing of the sums", e);
    if (emu_get(u, EMU_OUT_CVT_SHIFT) & ~0x4000003fu)
        return emu_refuse(u, EMU_OUT_CVT_SHIFT, "more than a shift of whole numbers", e);
    if (ret->offset < INT16_MIN || ret->offset > INT16_MAX)
        return emu_refuse(u, EMU_OUT_CVT_OFFSET, "no zero point of 8 or 16 bits", e);
    return 0;
}

// Bits of RDMA_FEATURE_MODE.
enum { FLYING = 1 << 0, MRDMA_DISABLE = 1 << 4 };

int emu_check_modes(const struct emu_unit *u, bool from_core, uint32_t conv, uint32_t depthwise,
                    uint32_t memory, struct error *e)
{
    uint32_t mode = emu_get_field(u, EMU_FEATURE_MODE, 4, 0);
    uint32_t rdma = emu_get(u, EMU_RDMA_FEATURE_MODE);
    if (from_core ? mode != conv && mode != depthwise : mode != memory)
        return emu_refuse(u, EMU_FEATURE_MODE, "not a mode for the blocks that are enabled", e);
    if (u->block[5] && !(rdma & FLYING) != from_core)
        return emu_refuse(u, EMU_RDMA_FEATURE_MODE, "not a mode for the blocks that are enabled",
                          e);
    // Seen on RK3588: the job hangs, unless the main reader fetches half of the second operand.
    if (u->block[5] && u->chip->generation == EMU_RK3588 && from_core && !(rdma & MRDMA_DISABLE) &&
        !emu_field(rdma, 10, 8))
        return error_set(e, STATUS_TIMEOUT,
                         "register RDMA_FEATURE_MODE (0x5044) holds %#010x: the main reader waits "
                         "for what comes from the core",
                         rdma);
    return 0;
}

int emu_check_reader(const struct emu_unit *u, enum emu_precision in, struct error *e)
{
    uint32_t said = emu_get_field(u, EMU_RDMA_FEATURE_MODE, 17, 15);
    if (!u->block[5] || emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 12, 12) || said == in)
        return 0;
    return emu_refuse(u, EMU_RDMA_FEATURE_MODE, "another precision than the DPU's", e);
}

int emu_decode_repeat(const struct emu_unit *u, struct emu_dpu *ret, struct error *e)
{
    uint32_t high = emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 5, 3) + 1;
    uint32_t wide = emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 2, 0) + 1;
    uint32_t bytes = emu_precision_bytes(ret->out);
    if (emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 13, 0) !=
        (1u << 12 | (high - 1) << 9 | (wide - 1) << 6 | (high - 1) << 3 | (wide - 1)))
        return emu_refuse(u, EMU_RDMA_SRC_DMA_CFG, "pixels that are repeated in another way", e);
    uint32_t in =
        emu_precision_bytes((enum emu_precision)emu_get_field(u, EMU_RDMA_FEATURE_MODE, 17, 15));
    if (ret->shape[0] * in != u->chip->atom)
        return emu_refuse(u, EMU_RDMA_CHANNEL, "more than one surface that is repeated", e);
    ret->shape[0] = u->chip->atom / bytes;
    ret->in = ret->out;
    ret->target.repeat[0] = high;
    ret->target.repeat[1] = wide;
    return 0;
}

int emu_check_shifts(const struct emu_unit *u, const struct emu_multiply *m, struct error *e)
{
    if (m->shift <= MAX_SHIFT && m->negative_shift <= MAX_SHIFT)
        return 0;
    return error_set(e, STATUS_PARAM_INVALID, "%s: shifts by %u and %u leave nothing of the sums",
                     u->chip->name, m->shift, m->negative_shift);
}

int emu_read_second(const struct emu_unit *u, const struct emu_cube *cube, const uint32_t shape[3],
                    bool real, struct emu_second *ret, struct error *e)
{
    size_t n = (size_t)shape[0] * shape[1] * shape[2];
    if (real) {
        ret->real = malloc(n * sizeof *ret->real);
        int r = ret->real ? emu_cube_read_real(u->memory, cube, shape, ret->real, e)
                          : error_no_memory(e, "an operand", n * sizeof *ret->real);
        return r < 0 ? error_prefix(e, "the second operand") : 0;
    }
    ret->values = malloc(n * sizeof *ret->values);
    int r = ret->values ? emu_cube_read_integers(u->memory, cube, shape, ret->values, e)
                        : error_no_memory(e, "an operand", n * sizeof *ret->values);
    return r < 0 ? error_prefix(e, "the second operand") : 0;
}

// ---- coefficients ----

static int new_each(struct emu_operand *o, uint32_t n, struct error *e)
{
    o->each = calloc(n, sizeof *o->each);
    o->kind = EMU_EACH;
    return o->each ? 0 : error_no_memory(e, "coefficients", n * sizeof *o->each);
}

static int32_t coefficient_at(const uint8_t *from, uint32_t bytes, bool real)
{
    if (bytes == 4)
        return (int32_t)read_le32(from);
    uint16_t value = read_le16(from);
    return real ? (int32_t)float_bits(emu_half_float(value)) : (int16_t)value;
}

int emu_read_table(const struct emu_unit *u, uint64_t address, uint32_t channels, unsigned which,
                   bool real, struct emu_operand abc[3], struct error *e)
{
    static const uint32_t bytes[] = {4, 2, 2};
    uint32_t n = u->chip->group, size = 0, last = (channels - 1) % n + 1, begin[3], end = 0;
    for (int i = 0; i < 3; i++)
        if (which >> i & 1) {
            begin[i] = size;
            end = size + last * bytes[i];
            size += n * bytes[i];
        }
    const uint8_t *from =
        emu_memory_at(u->memory, address, (size_t)((channels - 1) / n) * size + end, e);
    if (!from)
        return error_prefix(e, "coefficients");
    for (int i = 0; i < 3; i++) {
        if (!(which >> i & 1))
            continue;
        int r = new_each(&abc[i], channels, e);
        if (r < 0)
            return r;
        for (uint32_t c = 0; c < channels; c++)
            abc[i].each[c] = coefficient_at(from + (size_t)(c / n) * size + begin[i] +
                                                (size_t)(c % n) * bytes[i],
                                            bytes[i], real);
    }
    return 0;
}

int emu_decode_lut(const struct emu_unit *u, uint32_t cfg, struct emu_lut_side ret[2],
                   struct error *e)
{
    if (emu_get(u, EMU_LUT_CFG) != cfg)
        return emu_refuse(u, EMU_LUT_CFG, "tables of another kind", e);
    ret[0] = (struct emu_lut_side){
        .entries = u->lut[0],
        .start = (int32_t)emu_get(u, EMU_LUT_LE_START),
        .end = (int32_t)emu_get(u, EMU_LUT_LE_END),
        .outer = u->lut[0][0],
        .bits = emu_get_field(u, EMU_LUT_INFO, 15, 8),
        .slope = emu_signed(emu_get(u, EMU_LUT_LE_SLOPE_SCALE), 16),
        .slope_shift = emu_get_field(u, EMU_LUT_LE_SLOPE_SHIFT, 4, 0),
    };
    ret[1] = (struct emu_lut_side){
        .entries = u->lut[1],
        .start = (int32_t)emu_get(u, EMU_LUT_LO_START),
        .end = (int32_t)emu_get(u, EMU_LUT_LO_END),
        .outer = u->lut[1][EMU_LUT_POINTS - 1],
        .bits = emu_get_field(u, EMU_LUT_INFO, 23, 16),
        .slope = emu_signed(emu_get_field(u, EMU_LUT_LO_SLOPE_SCALE, 31, 16), 16),
        .slope_shift = emu_get_field(u, EMU_LUT_LO_SLOPE_SHIFT, 9, 5),
    };
    return emu_check_lut(u, ret, e);
}

int emu_check_lut(const struct emu_unit *u, const struct emu_lut_side ret[2], struct error *e)
{
    for (int i = 0; i < 2; i++)
        if (ret[i].bits > 20 || (int64_t)ret[i].end - ret[i].start != (int64_t)(EMU_LUT_POINTS - 1)
                                                                          << ret[i].bits)
            return emu_refuse(u, EMU_LUT_INFO, "the table's steps do not fill its range", e);
    return 0;
}

static int64_t on_line(unsigned choice, int64_t v, uint32_t shift)
{
    return choice == CHIP_LINE_TOWARDS_ZERO && v < 0 ? -(-v >> shift) : v >> shift;
}

int64_t emu_lut_at(const struct emu_lut_side *s, int64_t v, bool below)
{
    if (below ? v < s->start : v >= s->end)
        return s->outer +
               on_line(s->beyond, (v - (below ? s->start : s->end)) * s->slope, s->slope_shift);
    int64_t last = (int64_t)(EMU_LUT_POINTS - 1) << s->bits, u = v - s->start;
    u = u < 0 ? 0 : u > last ? last : u;
    int64_t i = u >> s->bits < EMU_LUT_POINTS - 2 ? u >> s->bits : EMU_LUT_POINTS - 2;
    int64_t step = s->entries[i + 1] - s->entries[i];
    return s->entries[i] + on_line(s->line, step * (u - (i << s->bits)), s->bits);
}
