// How RK3588's DPU is told what to do, and those of RK3566 and RK3568, which differ in few. Decodes
// only: emu_dpu.c and emu_real.c have the arithmetic. Tests: test_emulator.
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "npu/emu/emu_unit.h"

enum { BYPASS = 1 << 0, ALU_BYPASS = 1 << 1, MUL_BYPASS = 1 << 4, PRELU = 1 << 5 };
#define ATOM 16 // of all chips but RK3566 and RK3568

enum { RELU_BYPASS = 1 << 6, RELUX = 1 << 7, FROM_MEMORY = 1 << 8 };
enum { ALU_MAX = 0, ALU_MIN = 1, ALU_ADD = 2, ALU_DIV = 3, ALU_SUB = 4 };

// Bytes of a pixel's atom: on RK3568, too, four numbers of 32 bits lie together.
static uint32_t atom_of(const struct emu_unit *u, enum emu_precision precision)
{
    return emu_precision_bytes(precision) == 4 ? ATOM : u->chip->atom;
}

// A stride in bytes, of whole atoms.
static int64_t bytes_of(const struct emu_unit *u, enum emu_register reg)
{
    return emu_get(u, reg) / u->chip->atom * u->chip->atom;
}

// ---- DPU: BS and BN ----

// Of BRDMA_CFG: A, B and C of each channel.
static int read_coefficients(const struct emu_unit *u, uint32_t channels, bool real,
                             struct emu_operand abc[3], struct error *e)
{
    uint32_t use = emu_get_field(u, EMU_RDMA_BRDMA_CFG, 3, 1);
    if (use != 0 && use != 1 && use != 4 && (use != 7 || real))
        return emu_refuse(u, EMU_RDMA_BRDMA_CFG, "another set of coefficients", e);
    return use ? emu_read_table(u, emu_get(u, EMU_RDMA_BS_ADDR), channels, use, real, abc, e) : 0;
}

static int check_adds(const struct emu_unit *u, enum emu_register reg, struct error *e)
{
    uint32_t cfg = emu_get(u, reg);
    uint32_t how = emu_is_rk3568(u) ? emu_field(cfg, 3, 2) : emu_field(cfg, 19, 16);
    return how == ALU_ADD ? 0 : emu_refuse(u, reg, "an operation that is not known", e);
}

// 0 has the same bits as a float. Bounds of real numbers are floats' bits, too; without any, they
// are infinite.
static void decode_bounds(uint32_t cfg, uint32_t highest, bool real, struct emu_multiply *m)
{
    if (real) {
        m->low = (int32_t)float_bits(-INFINITY);
        m->high = (int32_t)float_bits(INFINITY);
    }
    m->prelu = cfg & PRELU;
    if (!(cfg & RELU_BYPASS))
        m->low = 0;
    if (cfg & RELUX)
        m->high = (int32_t)highest;
}

// A factor: of 16 bits, a whole number, fp16 or bf16.
static int32_t factor_of(const struct emu_unit *u, uint32_t mul, bool real)
{
    if (!real)
        return emu_signed(mul >> 16, 16);
    bool bf16 = emu_get_field(u, EMU_DATA_FORMAT, 2, 0) == EMU_BF16;
    uint16_t value = (uint16_t)(mul >> 16);
    return (int32_t)float_bits(bf16 ? emu_bf16_float(value) : emu_half_float(value));
}

// Hands what was read over to the stage, or frees it.
static struct emu_operand choose_operand(bool used, struct emu_operand *read, int32_t all,
                                         bool each)
{
    struct emu_operand o = {EMU_NONE, 0, NULL};
    if (used && each) {
        o = *read;
        read->each = NULL;
    } else if (used) {
        o = (struct emu_operand){EMU_ALL, all, NULL};
    }
    return o;
}

static int decode_bs(const struct emu_unit *u, uint32_t channels, struct emu_dpu *d,
                     struct error *e)
{
    struct emu_multiply *m = &d->bs;
    uint32_t cfg = emu_get(u, EMU_BS_CFG), mul = emu_get(u, EMU_BS_MUL_CFG);
    *m = (struct emu_multiply){EMU_NO_BOUNDS};
    decode_bounds(BYPASS | RELU_BYPASS, 0, d->real, m);
    if (cfg & BYPASS)
        return 0;
    struct emu_operand abc[3] = {{EMU_NONE, 0, NULL}};
    int r = read_coefficients(u, channels, d->real, abc, e);
    if (r == 0 && !(cfg & ALU_BYPASS))
        r = check_adds(u, EMU_BS_CFG, e);
    bool adds = !(cfg & ALU_BYPASS), multiplies = !(cfg & MUL_BYPASS);
    bool windows = d->from_core && !d->real && !emu_get_field(u, EMU_BS_OW_CFG, 1, 1);
    if (r == 0 && ((multiplies && (mul & 1) && !abc[2].kind) ||
                   (adds && (cfg & FROM_MEMORY) && !abc[0].kind)))
        r = emu_refuse(u, EMU_BS_CFG, "coefficients that nothing fetches", e);
    m->add = choose_operand(adds, &abc[0], (int32_t)emu_get(u, EMU_BS_ALU_CFG), cfg & FROM_MEMORY);
    m->window = choose_operand(windows, &abc[1], emu_signed(emu_get(u, EMU_BS_OW_OP), 16),
                               emu_get_field(u, EMU_BS_OW_CFG, 0, 0));
    m->factor = choose_operand(multiplies, &abc[2], factor_of(u, mul, d->real), mul & 1);
    if (multiplies) {
        m->shift = emu_field(mul, 13, 8);
        m->negative_shift = emu_get_field(u, EMU_DATA_FORMAT, 9, 4);
    }
    for (int i = 0; i < 3; i++)
        free(abc[i].each);
    decode_bounds(cfg, emu_get(u, EMU_BS_RELUX_CMP), d->real, m);
    return r < 0 ? r : emu_check_shifts(u, m, e);
}

// What BN adds: a number, or one for each channel in memory. It comes behind the factor: tables of
// files whose inputs have a zero point are led to by x * factor - zero point * factor.
static int decode_bn_add(const struct emu_unit *u, uint32_t channels, struct emu_dpu *d,
                         struct error *e)
{
    d->bn.add = (struct emu_operand){EMU_ALL, (int32_t)emu_get(u, EMU_BN_ALU_CFG), NULL};
    int r = check_adds(u, EMU_BN_CFG, e);
    if (r < 0 || !(emu_get(u, EMU_BN_CFG) & FROM_MEMORY))
        return r;
    if (emu_get_field(u, EMU_RDMA_NRDMA_CFG, 4, 1) != 1)
        return emu_refuse(u, EMU_RDMA_NRDMA_CFG, "another set of coefficients", e);
    struct emu_operand abc[3];
    r = emu_read_table(u, emu_get(u, EMU_RDMA_BN_ADDR), channels, 1, d->real, abc, e);
    if (r == 0)
        d->bn.add = abc[0];
    return r;
}

static int decode_bn(const struct emu_unit *u, uint32_t channels, struct emu_dpu *d,
                     struct error *e)
{
    struct emu_multiply *m = &d->bn;
    uint32_t cfg = emu_get(u, EMU_BN_CFG), mul = emu_get(u, EMU_BN_MUL_CFG);
    *m = (struct emu_multiply){.adds_last = true, EMU_NO_BOUNDS};
    decode_bounds(BYPASS | RELU_BYPASS, 0, d->real, m);
    if (cfg & BYPASS)
        return 0;
    int r = cfg & ALU_BYPASS ? 0 : decode_bn_add(u, channels, d, e);
    if (r < 0)
        return r;
    if (!(cfg & MUL_BYPASS)) {
        m->factor = (struct emu_operand){EMU_ALL, factor_of(u, mul, d->real), NULL};
        if (mul & 1)
            r = emu_read_slopes(u, d, cfg & PRELU && cfg & ALU_BYPASS, e);
        if (r < 0)
            return r;
        m->shift = emu_field(mul, 13, 8);
        m->negative_shift = emu_get_field(u, EMU_DATA_FORMAT, 15, 10);
    }
    decode_bounds(cfg, emu_get(u, EMU_BN_RELUX_CMP), d->real, m);
    return emu_check_shifts(u, m, e);
}

// ---- DPU: EW ----

// Two readers share a cube's surfaces: one has the even, one the odd ones. ret is for free().
static int read_shared(const struct emu_unit *u, const uint32_t shape[3], uint32_t bytes, bool real,
                       struct emu_second *ret, struct error *e)
{
    static const enum emu_register base[] = {EMU_RDMA_SRC_ADDR, EMU_RDMA_EW_ADDR};
    static const enum emu_register notch[] = {EMU_RDMA_SURF_NOTCH, EMU_RDMA_EW_SURF_NOTCH};
    uint32_t atom = u->chip->atom, lanes = atom / bytes;
    size_t plane = (size_t)shape[1] * shape[2], n = shape[0] * plane * sizeof(float);
    ret->values = real ? NULL : malloc(n);
    ret->real = real ? malloc(n) : NULL;
    if (!ret->values && !ret->real)
        return error_no_memory(e, "an operand", n);
    for (uint32_t c = 0; c < shape[0]; c += lanes) {
        unsigned reader = c / lanes % 2;
        int64_t step = (int64_t)plane * atom + (int32_t)emu_get(u, notch[reader]);
        struct emu_cube cube = {emu_get(u, base[reader]) + (uint64_t)(c / lanes / 2 * step),
                                0,
                                (int64_t)shape[2] * atom,
                                lanes,
                                atom,
                                bytes,
                                false};
        uint32_t part[3] = {shape[0] - c < lanes ? shape[0] - c : lanes, shape[1], shape[2]};
        int r = real ? emu_cube_read_real(u->memory, &cube, part, ret->real + c * plane, e)
                     : emu_cube_read_integers(u->memory, &cube, part, ret->values + c * plane, e);
        if (r < 0)
            return error_prefix(e, "what two readers share");
    }
    return 0;
}

static int read_operand(const struct emu_unit *u, const struct emu_dpu *d, struct emu_second *s,
                        struct error *e)
{
    uint32_t mode = emu_get_field(u, EMU_EW_CFG, 29, 28), atom = u->chip->atom;
    uint32_t bytes = d->real ? 2 : 1;
    if (emu_get_field(u, EMU_RDMA_ERDMA_CFG, 0, 0) || !emu_get_field(u, EMU_EW_CFG, 6, 6))
        return emu_refuse(u, EMU_RDMA_ERDMA_CFG, "no operand in memory", e);
    if (emu_get_field(u, EMU_RDMA_ERDMA_CFG, 31, 30) != mode)
        return emu_refuse(u, EMU_RDMA_ERDMA_CFG, "not the kind of operand of EW_CFG", e);
    if (!emu_is_rk3568(u) && emu_get_field(u, EMU_RDMA_ERDMA_CFG, 3, 2) != bytes)
        return emu_refuse(u, EMU_RDMA_ERDMA_CFG, "an operand of another precision", e);
    struct emu_cube cube = {emu_get(u, EMU_RDMA_EW_ADDR),
                            bytes_of(u, EMU_RDMA_EW_SURF_STRIDE),
                            0,
                            atom / bytes,
                            atom,
                            bytes,
                            emu_get_field(u, EMU_DATA_FORMAT, 28, 26) == EMU_BF16};
    if (mode == 0) {
        s->one_per_channel = true;
        return emu_read_second(u, &cube, (uint32_t[]){d->shape[0], 1, 1}, d->real, s, e);
    }
    if (mode != 1)
        return emu_refuse(u, EMU_EW_CFG, "an operand of another kind", e);
    if (d->from_core && cube.bf16)
        return emu_refuse(u, EMU_DATA_FORMAT, "an operand of bf16 behind the core", e);
    if (d->from_core && !emu_is_rk3568(u))
        return read_shared(u, d->shape, bytes, d->real, s, e);
    cube.line = (int64_t)(d->shape[2] + emu_get_field(u, EMU_RDMA_HEIGHT, 28, 16)) * atom;
    return emu_read_second(u, &cube, d->shape, d->real, s, e);
}

static int decode_ew(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    enum { LUT_BYPASS = 1 << 7, CVT_BYPASS = 1 << 8, EW_RELU_BYPASS = 1 << 9, MULTIPLY = 1 << 2 };
    uint32_t cfg = emu_get(u, EMU_EW_CFG), scale = emu_get(u, EMU_EW_CVT_SCALE);
    d->ew = (struct emu_second){.op = EMU_EW_NONE, .factor = 1};
    d->ew_low = d->real ? (int32_t)float_bits(-INFINITY) : INT32_MIN;
    d->ew_high = d->real ? (int32_t)float_bits(INFINITY) : INT32_MAX;
    if (cfg & BYPASS)
        return 0;
    if (!(cfg & EW_RELU_BYPASS))
        d->ew_low = 0;
    if (emu_field(cfg, 10, 10))
        d->ew_high = (int32_t)emu_get(u, EMU_EW_RELUX_CMP);
    if (!(cfg & LUT_BYPASS)) {
        d->ew.op = EMU_EW_LUT;
        return emu_decode_lut(u, 0x68, d->lut, e);
    }
    if (cfg & ALU_BYPASS)
        return 0;
    uint32_t how = emu_is_rk3568(u) ? emu_field(cfg, 4, 3) : emu_field(cfg, 19, 16);
    static const enum emu_ew ops[] = {[ALU_MAX] = EMU_EW_MAX,
                                      [ALU_MIN] = EMU_EW_MIN,
                                      [ALU_ADD] = EMU_EW_ADD,
                                      [ALU_DIV] = EMU_EW_DIV,
                                      [ALU_SUB] = EMU_EW_SUB};
    d->ew.op = cfg & MULTIPLY ? EMU_EW_MUL : how <= ALU_SUB ? ops[how] : EMU_EW_NONE;
    if (d->ew.op == EMU_EW_NONE || (d->ew.op == EMU_EW_DIV && (!d->real || emu_is_rk3568(u))))
        return emu_refuse(u, EMU_EW_CFG, "an operation that is not known", e);
    if (!(cfg & CVT_BYPASS)) {
        d->ew.offset = (int32_t)emu_get(u, EMU_EW_CVT_OFFSET);
        d->ew.factor = emu_signed(scale, 16);
        d->ew.shift = emu_field(scale, 21, 16);
    }
    if (d->real && (d->ew.offset || d->ew.factor != 1 || d->ew.shift))
        return emu_refuse(u, EMU_EW_CVT_SCALE, "a real operand that is converted", e);
    return read_operand(u, d, &d->ew, e);
}

// ---- DPU: what it reads and writes ----

// Of a cube that has twice as many surfaces as what is written (fp32 of fp16, fp16 of int8) the
// second reader takes the odd ones, and there is no second operand.
static int decode_combined(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t bytes = emu_precision_bytes(d->in);
    if (!d->real || d->in == EMU_BF16 || bytes != 2 * emu_precision_bytes(d->out) ||
        !(emu_get(u, EMU_EW_CFG) & BYPASS))
        return emu_refuse(u, EMU_FEATURE_MODE, "two sources that are combined", e);
    if (emu_get_field(u, EMU_RDMA_ERDMA_CFG, 3, 2) != (bytes == 4 ? 3u : 2u) ||
        emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 31, 19))
        return emu_refuse(u, EMU_RDMA_ERDMA_CFG, "two sources of another kind", e);
    struct emu_second both = {.op = EMU_EW_NONE};
    int r = read_shared(u, d->shape, bytes, true, &both, e);
    d->main = both.real;
    return r;
}

static int decode_source(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t atom = atom_of(u, d->in);
    if (emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 13, 0)) {
        int r = emu_decode_repeat(u, d, e);
        if (r < 0)
            return r;
    }
    if (emu_get_field(u, EMU_FEATURE_MODE, 31, 31))
        return decode_combined(u, d, e);
    int64_t line = (int64_t)d->shape[2] + emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 31, 19);
    d->source = (struct emu_cube){
        .base = emu_get(u, EMU_RDMA_SRC_ADDR),
        .surface = ((d->shape[1] - 1) * line + d->shape[2]) * atom +
                   (int32_t)emu_get(u, EMU_RDMA_SURF_NOTCH),
        .line = line * atom,
        .lanes = atom / emu_precision_bytes(d->in),
        .pixel = atom,
        .bytes = emu_precision_bytes(d->in),
        .bf16 = d->in == EMU_BF16,
    };
    return 0;
}

// Transposed: surfaces are one channel's, SURFACE_ADD is the step to the next eight. Where elements
// of 16 bits are taken apart into bytes, the two eights of a surface are a line apart, and
// SURFACE_ADD is the step to what comes next, be it surfaces or pixels.
static int decode_transposed(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t rows = emu_get_field(u, EMU_WDMA_SIZE_1, 28, 16) + 1;
    uint32_t columns = emu_get_field(u, EMU_WDMA_SIZE_1, 12, 0) + 1;
    int64_t line = (int64_t)(columns + emu_get_field(u, EMU_CUBE_NOTCH, 12, 0)) * ATOM;
    int64_t add = bytes_of(u, EMU_SURFACE_ADD);
    bool words = emu_get_field(u, EMU_WDMA_SIZE_0, 27, 27);
    uint32_t per = words ? ATOM / 2 : ATOM;
    uint32_t surfaces = (d->shape[0] + 7) / 8;
    uint32_t groups = (uint32_t)(((uint64_t)d->shape[1] * d->shape[2] + per - 1) / per);
    struct emu_target *t = &d->target;
    *t = (struct emu_target){.kind = EMU_TRANSPOSED,
                             .cube = {.base = emu_get(u, EMU_DST_ADDR), .bytes = 2},
                             .unit = words ? 2 : 1,
                             .rows = 8,
                             .row = bytes_of(u, EMU_DST_SURF_STRIDE),
                             .blocks = words ? 1 : 2,
                             .block = line,
                             .outer = add,
                             .line = line,
                             .columns = columns};
    d->channels = d->shape[0];
    if (words && (uint64_t)rows * columns == groups)
        return 0;
    t->columns = 1;
    t->line = add;
    if (words ? rows * columns == 1 : columns == 1 && rows == 2 && (surfaces == 1 || groups == 1)) {
        t->outer = words ? add * groups : add;
        return 0;
    }
    return emu_refuse(u, EMU_WDMA_SIZE_1, "a transposed write of another size", e);
}

// Atoms stay whole: pixels of a line become surfaces, lines columns, surfaces lines.
// RK3568's surfaces follow each other.
static int decode_moved(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    bool old = emu_is_rk3568(u);
    enum emu_register size = old ? EMU_CUBE_HEIGHT : EMU_WDMA_SIZE_1;
    uint32_t columns = emu_get_field(u, size, 12, 0) + 1;
    uint32_t notch = emu_get_field(u, EMU_CUBE_NOTCH, 12, 0);
    d->target = (struct emu_target){.kind = EMU_MOVED,
                                    .cube = {.base = emu_get(u, EMU_DST_ADDR), .bytes = 2},
                                    .row = bytes_of(u, EMU_DST_SURF_STRIDE),
                                    .line = (int64_t)(columns + notch) * u->chip->atom,
                                    .atom = u->chip->atom};
    d->channels = d->shape[0];
    if (columns != d->shape[1] || (old && columns != 1))
        return emu_refuse(u, size, "a transposed write of another size", e);
    return 0;
}

// Outputs as RK3568 makes them for programs.
static int decode_stream_rk3568(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    d->target = (struct emu_target){
        .kind = EMU_STREAM,
        .cube = {.base = emu_get(u, EMU_DST_ADDR), .bytes = emu_precision_bytes(d->out)},
        .together = emu_get_field(u, EMU_BS_OW_CFG, 4, 2) + 1};
    d->channels = d->shape[0];
    if (emu_get_field(u, EMU_FEATURE_MODE, 29, 26))
        return emu_refuse(u, EMU_FEATURE_MODE, "a stream of atoms that are cut", e);
    return 0;
}

// A stream of whole atoms that is no other than a cube without gaps.
static bool is_dense(const struct emu_unit *u, const struct emu_dpu *d)
{
    uint32_t plane = d->shape[1] * d->shape[2] * u->chip->atom;
    return !emu_get_field(u, EMU_FEATURE_MODE, 29, 26) && !emu_get(u, EMU_CUBE_NOTCH) &&
           (bytes_of(u, EMU_DST_SURF_STRIDE) == plane ||
            d->shape[0] * emu_precision_bytes(d->out) <= u->chip->atom);
}

// Pixels that are read as few of each of many lines, and written as as many in a line, pixels an
// atom apart and surfaces SURFACE_ADD: so products get their operand's blocks of 32 kernels and
// channels.
static bool is_regrouped(const struct emu_unit *u, const struct emu_dpu *d)
{
    uint32_t rows = emu_get_field(u, EMU_WDMA_SIZE_1, 28, 16) + 1;
    uint32_t columns = emu_get_field(u, EMU_WDMA_SIZE_1, 12, 0) + 1;
    uint32_t surfaces = emu_get_field(u, EMU_WDMA_SIZE_0, 26, 16) + 1;
    uint32_t bytes = d->channels * emu_precision_bytes(d->out);
    return (uint64_t)rows * columns == (uint64_t)d->shape[1] * d->shape[2] &&
           emu_get_field(u, EMU_CUBE_HEIGHT, 12, 0) + 1 == rows &&
           emu_get_field(u, EMU_CUBE_WIDTH, 12, 0) + 1 == columns &&
           bytes_of(u, EMU_DST_SURF_STRIDE) == u->chip->atom && bytes == surfaces * u->chip->atom;
}

// Whether the cube's registers have the sizes that are read.
static bool is_of_cube_size(const struct emu_unit *u, const struct emu_dpu *d)
{
    return emu_get_field(u, EMU_CUBE_HEIGHT, 12, 0) + 1 == d->shape[1] &&
           emu_get_field(u, EMU_CUBE_WIDTH, 12, 0) + 1 == d->shape[2];
}

// Lines of atoms; or, where the writer is told of lines of one pixel, pixels with gaps between them
// (what a transposed convolution by parts makes).
static int decode_target(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    enum { OF_CHANNELS = 7 }; // what all maxima of files have in these bits of CUBE_HEIGHT
    bool old = emu_is_rk3568(u);
    bool transposed = emu_get_field(u, EMU_BS_OW_CFG, 27, 27);
    bool moved = emu_get_field(u, EMU_FEATURE_MODE, 30, 30);
    if (old && d->out == EMU_FP32 && !d->from_core && emu_get_field(u, EMU_FEATURE_MODE, 25, 25))
        return decode_stream_rk3568(u, d, e);
    if (emu_get_field(u, EMU_CUBE_HEIGHT, 24, 22))
        return emu_get_field(u, EMU_CUBE_HEIGHT, 24, 22) == OF_CHANNELS
                   ? emu_decode_maxima(u, d, e)
                   : emu_refuse(u, EMU_CUBE_HEIGHT, "maxima of another kind", e);
    if (emu_get_field(u, EMU_FEATURE_MODE, 29, 25) && !is_dense(u, d))
        return emu_refuse(u, EMU_FEATURE_MODE, "a stream of atoms", e);
    if (transposed || moved) {
        if ((old && transposed) || d->out != EMU_INT16 || (transposed && moved))
            return emu_refuse(u, moved ? EMU_FEATURE_MODE : EMU_BS_OW_CFG,
                              "a transposed write of another precision", e);
        return transposed ? decode_transposed(u, d, e) : decode_moved(u, d, e);
    }
    uint32_t atom = u->chip->atom, notch = emu_get_field(u, EMU_CUBE_NOTCH, 12, 0);
    uint32_t rows =
        old ? emu_get_field(u, EMU_CUBE_HEIGHT, 12, 0) : emu_get_field(u, EMU_WDMA_SIZE_1, 28, 16);
    uint32_t columns = emu_get_field(u, old ? EMU_CUBE_WIDTH : EMU_WDMA_SIZE_1, 12, 0);
    uint32_t repeat = d->target.repeat[1] ? d->target.repeat[1] : 1;
    d->channels = emu_get_field(u, old ? EMU_CUBE_CHANNEL : EMU_WDMA_SIZE_0, 12, 0) + 1;
    d->target.cube = (struct emu_cube){
        .base = emu_get(u, EMU_DST_ADDR),
        .surface = bytes_of(u, EMU_DST_SURF_STRIDE),
        .line = (int64_t)(d->shape[2] * repeat + notch) * atom,
        .lanes = atom / emu_precision_bytes(d->out),
        .pixel = atom,
        .bytes = emu_precision_bytes(d->out),
        .bf16 = d->out == EMU_BF16,
    };
    if (rows + 1 == d->shape[1] && columns + 1 == d->shape[2] * repeat)
        return 0;
    // The writer may count the same pixels by other lines, if none has a gap.
    bool as_many = (uint64_t)(rows + 1) * (columns + 1) == (uint64_t)d->shape[1] * d->shape[2];
    if (old && d->from_core && !notch && as_many)
        return 0;
    if (!old && !d->from_core && repeat == 1 && !notch && as_many && is_of_cube_size(u, d))
        return 0;
    if (!old && !d->from_core && repeat == 1 && is_regrouped(u, d)) {
        d->lines[0] = rows + 1;
        d->lines[1] = columns + 1;
        d->target.cube.line = (int64_t)(columns + 1 + notch) * atom;
        d->target.cube.surface = bytes_of(u, EMU_SURFACE_ADD);
        return 0;
    }
    if (rows + 1 != d->shape[1] || columns || repeat > 1)
        return emu_refuse(u, old ? EMU_CUBE_WIDTH : EMU_WDMA_SIZE_1, "not the size of the cube", e);
    d->channels /= d->shape[2];
    d->target.cube.line = bytes_of(u, EMU_SURFACE_ADD);
    d->target.cube.pixel = (1 + notch) * atom;
    return 0;
}

// OFFSET_PEND is what channels get that are written behind ORIG_CHANNEL: the softmax of
// exSDPAttention has the least fp16 there, so that no maximum sees them. Files copy a last surface
// in place, of as many channels as are real, for nothing but that. Where it is 0, channels that
// were read stay what they come to: nothing that is known reads them.
static int decode_behind(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t value = emu_get(u, EMU_OFFSET_PEND);
    uint32_t real = emu_get_field(u, EMU_CUBE_CHANNEL, 28, 16) + 1;
    bool read = d->from_core || d->shape[0] >= d->channels;
    if (emu_is_rk3568(u) || d->maxima || real >= d->channels || (!value && read))
        return 0;
    uint32_t lanes = u->chip->atom / emu_precision_bytes(d->out);
    if (real > d->shape[0] || d->channels > (d->shape[0] + lanes - 1) / lanes * lanes)
        return emu_refuse(u, EMU_CUBE_CHANNEL, "more channels than are read", e);
    if (d->target.kind != EMU_CUBE || emu_precision_bytes(d->out) > 2)
        return emu_refuse(u, EMU_OFFSET_PEND, "channels of another kind that are filled", e);
    d->real_channels = real;
    d->behind = (uint16_t)value;
    return 0;
}

static void decode_size(const struct emu_unit *u, struct emu_dpu *d)
{
    static const enum emu_register core[] = {EMU_CUBE_CHANNEL, EMU_CUBE_HEIGHT, EMU_CUBE_WIDTH};
    static const enum emu_register memory[] = {EMU_RDMA_CHANNEL, EMU_RDMA_HEIGHT, EMU_RDMA_WIDTH};
    if (d->from_core && emu_is_rk3568(u)) {
        d->shape[0] = emu_get_field(u, EMU_CORE_SIZE1, 15, 0) + 1;
        d->shape[1] = emu_get_field(u, EMU_CORE_SIZE0, 31, 16) + 1;
        d->shape[2] = emu_get_field(u, EMU_CORE_SIZE0, 15, 0) + 1;
        return;
    }
    for (int i = 0; i < 3; i++)
        d->shape[i] = emu_get_field(u, d->from_core ? core[i] : memory[i], 12, 0) + 1;
}

static bool is_real(const struct emu_unit *u, uint32_t precision)
{
    return precision == EMU_FP16 || precision == EMU_FP32 ||
           (precision == EMU_BF16 && !emu_is_rk3568(u));
}

static bool is_integer(uint32_t precision)
{
    return precision == EMU_INT8 || precision == EMU_INT16 || precision == EMU_INT32;
}

// Of fp16 and bf16 the main reader has its own: what DATA_FORMAT says is that of operands and of
// factors. So the square root of exNorm multiplies a sum of bf16 by fp16.
static bool is_read_apart(const struct emu_unit *u, const struct emu_dpu *d)
{
    uint32_t said = emu_get_field(u, EMU_RDMA_FEATURE_MODE, 17, 15);
    return d->real && !d->from_core && u->block[5] && is_real(u, said) &&
           emu_precision_bytes((enum emu_precision)said) == 2 && emu_precision_bytes(d->in) == 2 &&
           (said == EMU_BF16 || d->in == EMU_BF16);
}

// All of one kind: whole numbers, or fp16, bf16 and fp32 in any combination.
static int decode_format(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    uint32_t in = emu_get_field(u, EMU_DATA_FORMAT, 28, 26);
    uint32_t out = emu_get_field(u, EMU_DATA_FORMAT, 31, 29);
    uint32_t work = emu_get_field(u, EMU_DATA_FORMAT, 2, 0);
    d->in = (enum emu_precision)in;
    d->out = (enum emu_precision)out;
    d->real = is_real(u, in) && is_real(u, work) && (is_real(u, out) || out == EMU_INT8);
    bool repeated = emu_get_field(u, EMU_RDMA_SRC_DMA_CFG, 12, 12);
    if (!d->real && !(is_integer(in) && (is_integer(out) || (is_real(u, out) && out != EMU_BF16)) &&
                      (in == work || repeated)))
        return emu_refuse(u, EMU_DATA_FORMAT, "a combination of precisions that is not known", e);
    if (is_read_apart(u, d))
        d->in = (enum emu_precision)emu_get_field(u, EMU_RDMA_FEATURE_MODE, 17, 15);
    return emu_check_reader(u, d->in, e);
}

static int decode_output(const struct emu_unit *u, struct emu_dpu *d, struct error *e)
{
    if (!d->real)
        return emu_decode_conversion(u, d, e);
    uint32_t shift = emu_get(u, EMU_OUT_CVT_SHIFT);
    bool lut = d->ew.op == EMU_EW_LUT;
    d->scale = emu_signed(emu_get(u, EMU_OUT_CVT_SCALE), 16);
    d->offset = (int32_t)emu_get(u, EMU_OUT_CVT_OFFSET);
    d->minus_exp = emu_field(shift, 19, 12);
    bool rounds = lut || d->maxima; // bit 30, of what is not rounded
    if (emu_field(shift, 11, 0) || (!rounds && emu_field(shift, 31, 30)))
        return emu_refuse(u, EMU_OUT_CVT_SHIFT, "a shift of real numbers", e);
    if (!lut && (d->scale != 1 || d->offset))
        return emu_refuse(u, EMU_OUT_CVT_SCALE, "real numbers that are scaled", e);
    return 0;
}

int emu_dpu_rk3588(const struct emu_unit *u, bool from_core, struct emu_dpu *ret, struct error *e)
{
    *ret = (struct emu_dpu){.from_core = from_core};
    int r = emu_is_rk3568(u) ? emu_check_modes(u, from_core, 0x08, 0x18, 0x09, e)
                             : emu_check_modes(u, from_core, 0x04, 0x1c, 0x05, e);
    if (r == 0)
        r = decode_format(u, ret, e);
    if (r < 0)
        return r;
    decode_size(u, ret);
    r = emu_check_shape(u, ret->shape, e);
    if (r == 0 && !from_core)
        r = decode_source(u, ret, e);
    if (r == 0)
        r = decode_bs(u, ret->shape[0], ret, e);
    if (r == 0)
        r = decode_bn(u, ret->shape[0], ret, e);
    if (r == 0)
        r = decode_ew(u, ret, e);
    if (r == 0)
        r = decode_target(u, ret, e);
    if (r == 0)
        r = decode_behind(u, ret, e);
    return r < 0 ? r : decode_output(u, ret, e);
}
