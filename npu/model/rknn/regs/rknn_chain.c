// Registers of work in memory, task by task. What no analysed file has is refused with the
// register's name, as for convolutions (rknn_stages.c).
#include "npu/model/rknn/regs/rknn_chain.h"

#include <math.h>

#include "npu/model/rknn/regs/rknn_expected.h"
#include "npu/model/rknn/regs/rknn_lut.h"

// Fields of the configuration registers of the BS and BN units.
#define UNIT_BYPASS      (1u << 0)
#define UNIT_ALU_BYPASS  (1u << 1)
#define UNIT_MUL_BYPASS  (1u << 4)
#define UNIT_MUL_PRELU   (1u << 5)
#define UNIT_RELU_BYPASS (1u << 6)
#define UNIT_RELUX       (1u << 7)
#define UNIT_ALU_MEMORY  (1u << 8)

#define MUL_IN_MEMORY 3u // of their multipliers: the factor, or the shift, or both

static const char unknown[] = "what that does to a tensor in memory is not known";

struct source {
    const struct rknn_regs *regs;
    const struct rknn_file *f;
    const struct rknn_state *state;
    bool vector; // BN may add a number of each channel's own, which is left out
};

static uint32_t get(const struct source *s, enum rknn_register reg)
{
    return s->state->value[reg];
}

static int refuse(const struct source *s, enum rknn_register reg, struct error *e)
{
    return rknn_regs_refuse(s->regs, reg, get(s, reg), unknown, e);
}

static void pass(struct graph_scaling stage[2])
{
    stage[0] = stage[1] = (struct graph_scaling){1, 0};
}

// ---- RK3588, RK3566, RK3568 ----

// A unit's registers.
struct unit {
    enum rknn_register cfg, alu, mul, relux;
    unsigned negative_shift; // the lowest bit, in DPU_DATA_FORMAT
};

// RK3588 has the operation of its adder, 2, elsewhere than the others.
static bool adds(const struct source *s, uint32_t cfg)
{
    return s->regs->chip->generation == CHIP_GEN_RK3588 ? (cfg & 0xf000c) == 0x20000
                                                        : (cfg & 0xf000c) == 8;
}

// Whether BN adds a number of each channel's own, and nothing else is to be read of it.
static bool adds_vector(const struct source *s, enum rknn_register unit)
{
    enum { READ_ADDEND = 2, RK3576_EACH = 0x924, RK3576_READ_EACH = 0x100 };
    uint32_t cfg = get(s, DPU_BN_CFG), reads = get(s, RDMA_BN_CFG);
    if (!s->vector || unit != DPU_BN_CFG)
        return false;
    if (s->regs->chip->generation == CHIP_GEN_RK3576)
        return cfg == RK3576_EACH && reads == RK3576_READ_EACH;
    return s->regs->chip->bn_relu_field && cfg & UNIT_ALU_MEMORY && cfg & UNIT_MUL_BYPASS &&
           cfg & UNIT_RELU_BYPASS && get(s, DPU_BN_ALU_CFG) == 0 && reads == READ_ADDEND;
}

static int read_unit(const struct source *s, const struct unit *u, int32_t *add,
                     struct graph_scaling stage[2], int32_t bounds[2], struct error *e)
{
    uint32_t cfg = get(s, u->cfg), mul = get(s, u->mul);
    pass(stage);
    *add = 0;
    bounds[0] = INT32_MIN;
    bounds[1] = INT32_MAX;
    if (cfg & UNIT_BYPASS)
        return 0;
    bool added = !(cfg & UNIT_ALU_BYPASS), multiplied = !(cfg & UNIT_MUL_BYPASS);
    if (adds_vector(s, u->cfg))
        cfg &= ~UNIT_ALU_MEMORY;
    bool relu = !(cfg & UNIT_RELU_BYPASS);
    if (cfg & (UNIT_MUL_PRELU | UNIT_ALU_MEMORY) || (added && !adds(s, cfg)) ||
        (!relu && cfg & UNIT_RELUX))
        return refuse(s, u->cfg, e);
    if (multiplied && mul & MUL_IN_MEMORY)
        return refuse(s, u->mul, e);
    *add = added ? (int32_t)get(s, u->alu) : 0;
    if (multiplied) {
        stage[0] = stage[1] = (struct graph_scaling){(int16_t)(mul >> 16), rknn_bits(mul, 13, 8)};
        stage[1].shift = get(s, DPU_DATA_FORMAT) >> u->negative_shift & 0x3f;
    }
    if (relu) {
        bounds[0] = 0;
        bounds[1] = cfg & UNIT_RELUX ? (int32_t)get(s, u->relux) : INT32_MAX;
    }
    return 0;
}

static int read_older(const struct source *s, struct graph_chain *c, struct error *e)
{
    static const struct unit bs = {DPU_BS_CFG, DPU_BS_ALU_CFG, DPU_BS_MUL_CFG, DPU_BS_RELUX_CMP, 4};
    static const struct unit bn = {DPU_BN_CFG, DPU_BN_ALU_CFG, DPU_BN_MUL_CFG, DPU_BN_RELUX_CMP,
                                   10};
    int r = read_unit(s, &bs, &c->bs_add, c->bs, c->bounds[0], e);
    return r < 0 ? r : read_unit(s, &bn, &c->bn_add, c->bn, c->bounds[1], e);
}

// ---- RK3562, RK3576, RV1126B, RV1103, RV1106 ----

enum { NEWER_BS_OFF = 0x53, NEWER_BS_ON = 0x100012, SHIFTS = 0x3f00 };

// Without a factor nothing is multiplied, nor shifted.
static int newer_from_registers(const struct source *s, struct graph_chain *c, struct error *e)
{
    bool rv1106 = s->regs->chip->generation == CHIP_GEN_RV1106;
    uint32_t factor = get(s, DPU_BS_MUL_CFG), bs = get(s, DPU_BS_CFG);
    uint32_t shift = rv1106 ? rknn_bits(bs, 13, 9) : rknn_bits(bs, 12, 8),
             more = get(s, DPU_BS_OW_OP);
    c->bs_add = (int32_t)get(s, rv1106 ? DPU_SOURCE_OFFSET : DPU_BS_ALU_CFG);
    if (factor & 0xffff)
        return refuse(s, DPU_BS_MUL_CFG, e);
    if (!factor)
        return shift ? refuse(s, DPU_BS_CFG, e) : 0;
    c->bs[0] = (struct graph_scaling){(int16_t)(factor >> 16), shift};
    shift = rv1106 ? rknn_bits(more, 28, 24) : rknn_bits(more, 21, 16);
    c->bs[1] = (struct graph_scaling){c->bs[0].factor, shift};
    return 0;
}

// What is added, the factor and the shifts are at bytes 0, 32 and 48 of a tensor.
static int newer_from_memory(const struct source *s, struct graph_chain *c, struct error *e)
{
    enum { READ_ADDEND = 2, READ_FACTOR_TOO = 0x1a, FACTOR_AT = 32, SHIFTS_AT = 48, LEAST = 50 };
    int32_t index = s->state->tensor[RDMA_BS_CONFIG_BASE];
    struct bytes b = index < 0 ? (struct bytes){0} : s->f->tensors[index].data;
    uint32_t reads = get(s, RDMA_BS_CFG);
    bool multiplies = reads == READ_FACTOR_TOO;
    if ((!multiplies && reads != READ_ADDEND) || b.size < LEAST)
        return refuse(s, RDMA_BS_CFG, e);
    c->bs_add = (int16_t)read_le16(b.data);
    for (int i = 0; i < 2 && multiplies; i++)
        c->bs[i] = (struct graph_scaling){(int16_t)read_le16(b.data + FACTOR_AT),
                                          b.data[SHIFTS_AT + i] & 0x3fu};
    return 0;
}

// Pairs of registers, lowest and highest. Those that are not set hold 0.
static void bound_by_pair(const struct source *s, enum rknn_register first, int32_t bounds[2])
{
    int32_t low = (int32_t)get(s, first), high = (int32_t)get(s, first + 1);
    if (!low && !high)
        return;
    bounds[0] = bounds[0] > low ? bounds[0] : low;
    bounds[1] = bounds[1] < high ? bounds[1] : high;
}

// RK3562's factor towards a table is in registers.
static int newer_to_table_registers(const struct source *s, struct graph_chain *c, struct error *e)
{
    uint32_t mul = get(s, DPU_BN_MUL_CFG);
    if (mul & MUL_IN_MEMORY)
        return refuse(s, DPU_BN_MUL_CFG, e);
    c->bn_add = (int32_t)get(s, DPU_BN_ALU_CFG);
    c->bn[0] = (struct graph_scaling){(int16_t)(mul >> 16), rknn_bits(mul, 13, 8)};
    c->bn[1] = (struct graph_scaling){c->bn[0].factor, rknn_bits(get(s, DPU_DATA_FORMAT), 15, 10)};
    return 0;
}

// RK3576's and RV1126B's are in memory: what is added at bytes 0 and 16, the factor and the shifts
// at 32 and 48.
static int newer_to_table_memory(const struct source *s, struct graph_chain *c, struct error *e)
{
    enum { READ_BOTH = 0x1a, AGAIN_AT = 16, FACTOR_AT = 32, SHIFTS_AT = 48, LEAST = 50 };
    int32_t index = s->state->tensor[RDMA_BN_BASE];
    struct bytes b = index < 0 ? (struct bytes){0} : s->f->tensors[index].data;
    if (get(s, RDMA_BN_CFG) != READ_BOTH || b.size < LEAST ||
        read_le32(b.data) != read_le32(b.data + AGAIN_AT))
        return refuse(s, RDMA_BN_CFG, e);
    c->bn_add = (int32_t)read_le32(b.data);
    for (int i = 0; i < 2; i++)
        c->bn[i] = (struct graph_scaling){(int16_t)read_le16(b.data + FACTOR_AT),
                                          b.data[SHIFTS_AT + i] & 0x3fu};
    return 0;
}

// What is added at bytes 0 and 16 of a tensor, and nothing else.
static int newer_addend_memory(const struct source *s, struct graph_chain *c, struct error *e)
{
    enum { READ_ADDEND = 2, AGAIN_AT = 16, LEAST = 20 };
    int32_t index = s->state->tensor[RDMA_BN_BASE];
    struct bytes b = index < 0 ? (struct bytes){0} : s->f->tensors[index].data;
    if (get(s, RDMA_BN_CFG) != READ_ADDEND || b.size < LEAST ||
        read_le32(b.data) != read_le32(b.data + AGAIN_AT))
        return refuse(s, RDMA_BN_CFG, e);
    c->bn_add = (int32_t)read_le32(b.data);
    return 0;
}

// BN: off, but for a Relu that the bounds have; or a factor towards a table; or an addition.
static int read_newer_bn(const struct source *s, struct graph_chain *c, struct error *e)
{
    enum { RK3562_OFF = 0x13, RK3562_RELU = 0x12, RK3562_TABLE = 0x20000 };
    enum { RK3576_OFF = 0x903, RK3576_RELU = 0x902, RK3576_TABLE = 0x20, RK3576_ADDS = 0x920 };
    uint32_t cfg = get(s, DPU_BN_CFG);
    bool rk3562 = s->regs->chip->generation != CHIP_GEN_RK3576;
    if (rk3562 ? cfg == RK3562_OFF || cfg == RK3562_RELU : cfg == RK3576_OFF || cfg == RK3576_RELU)
        return 0;
    if (adds_vector(s, DPU_BN_CFG))
        return 0;
    if (!rk3562 && cfg == RK3576_ADDS)
        return newer_addend_memory(s, c, e);
    if (cfg != (rk3562 ? RK3562_TABLE : RK3576_TABLE))
        return refuse(s, DPU_BN_CFG, e);
    return rk3562 ? newer_to_table_registers(s, c, e) : newer_to_table_memory(s, c, e);
}

static int read_newer(const struct source *s, struct graph_chain *c, struct error *e)
{
    static const enum rknn_register pairs[] = {DPU_BS_LOW_0, DPU_BS_LOW_1, DPU_BN_LOW_0,
                                               DPU_BN_LOW_1};
    uint32_t bs = get(s, DPU_BS_CFG);
    bool registers = s->regs->chip->generation != CHIP_GEN_RK3576;
    const int32_t any[2][2] = {{INT32_MIN, INT32_MAX}, {INT32_MIN, INT32_MAX}};
    memcpy(c->bounds, any, sizeof any);
    pass(c->bs);
    pass(c->bn);
    for (size_t i = 0;
         i < sizeof pairs / sizeof *pairs && rknn_register_at(s->regs->chip, pairs[i]); i++)
        bound_by_pair(s, pairs[i], c->bounds[i >= 2]);
    if (s->regs->chip->generation == CHIP_GEN_RV1106)
        bound_by_pair(s, DPU_BOUND_8, c->bounds[1]);
    int r = read_newer_bn(s, c, e);
    if (r < 0 || bs == NEWER_BS_OFF)
        return r;
    if ((registers ? bs & ~(uint32_t)SHIFTS : bs) != NEWER_BS_ON)
        return refuse(s, DPU_BS_CFG, e);
    return registers ? newer_from_registers(s, c, e) : newer_from_memory(s, c, e);
}

// ---- all chips ----

// EW: off, or by the table. Behind it the newer chips have bounds, which are one with those before
// it where there is no table.
static int read_table(const struct source *s, const struct rknn_node *n, struct graph *g,
                      struct graph_chain *c, struct error *e)
{
    static const uint32_t off[] = {0x383, 0x10041c1},
                          on[2][3] = {{0x302, 0x300, 0x400302}, {0x1004140, 0x1004140, 0x1004140}};
    bool newer = !s->regs->chip->bn_relu_field;
    uint32_t ew = get(s, DPU_EW_CFG);
    int32_t bounds[2] = {INT32_MIN, INT32_MAX};
    if (newer) {
        bound_by_pair(s, DPU_EW_LOW_0, bounds);
        bound_by_pair(s, DPU_EW_LOW_1, bounds);
    }
    if (ew == off[newer]) {
        c->bounds[1][0] = bounds[0] > c->bounds[1][0] ? bounds[0] : c->bounds[1][0];
        c->bounds[1][1] = bounds[1] < c->bounds[1][1] ? bounds[1] : c->bounds[1][1];
        return 0;
    }
    if (ew != on[newer][0] && ew != on[newer][1] && ew != on[newer][2])
        return refuse(s, DPU_EW_CFG, e);
    struct graph_lut *lut;
    int r = rknn_lut_new(s->regs, s->f, n, &g->pool, &lut, e);
    if (r < 0)
        return r;
    lut->out_factor = c->out.factor;
    lut->out_shift = c->out.shift;
    lut->out_offset = c->zp;
    c->lut = lut;
    if (rknn_lut_is_cut(lut, bounds))
        return refuse(s, DPU_EW_LOW_0, e);
    return rknn_expected_table(s->regs, e);
}

// A negative factor, a shift of more bits, and the other rule for ties, are in no file.
static int read_out(const struct source *s, struct graph_chain *c, struct error *e)
{
    uint32_t scale = get(s, DPU_OUT_CVT_SCALE), shift = get(s, DPU_OUT_CVT_SHIFT);
    if (rknn_bits(scale, 15, 15))
        return refuse(s, DPU_OUT_CVT_SCALE, e);
    if (shift >> 6)
        return refuse(s, DPU_OUT_CVT_SHIFT, e);
    c->out = (struct graph_scaling){(int32_t)rknn_bits(scale, 15, 0), shift};
    c->zp = (int32_t)get(s, DPU_OUT_CVT_OFFSET);
    return 0;
}

static int read_chain(const struct source *s, const struct rknn_node *n, struct graph *g,
                      struct graph_chain *c, struct error *e)
{
    *c = (struct graph_chain){0};
    int r = s->regs->chip->bn_relu_field ? read_older(s, c, e) : read_newer(s, c, e);
    r = r < 0 ? r : read_out(s, c, e);
    return r < 0 ? r : read_table(s, n, g, c, e);
}

// Whether an address register points into this tensor.
static bool is_in(const struct rknn_state *s, const struct rknn_file *f, enum rknn_register reg,
                  int32_t tensor)
{
    uint64_t offset;
    if (s->tensor[reg] >= 0)
        return s->tensor[reg] == tensor;
    return rknn_file_offset(f, tensor, s->value[reg], &offset);
}

// Whether a task of integers reads one tensor in memory and writes the other.
static bool is_between(const struct rknn_state *s, const struct rknn_file *f, int32_t from,
                       int32_t to)
{
    enum { FROM_MEMORY = 1 };
    const uint32_t precisions = 0xfc000007;
    return s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY &&
           !(s->value[DPU_DATA_FORMAT] & precisions) && is_in(s, f, RDMA_SRC_BASE, from) &&
           is_in(s, f, DPU_DST_BASE, to);
}

// The registers that a chain is read from.
static bool alike(const struct rknn_state *a, const struct rknn_state *b)
{
    static const enum rknn_register read[] = {
        DPU_BS_CFG,        DPU_BS_ALU_CFG,    DPU_BS_MUL_CFG, DPU_BS_RELUX_CMP, DPU_BS_OW_OP,
        RDMA_BS_CFG,       DPU_BN_CFG,        DPU_BN_ALU_CFG, DPU_BN_MUL_CFG,   DPU_BN_RELUX_CMP,
        DPU_DATA_FORMAT,   DPU_EW_CFG,        DPU_BS_LOW_0,   DPU_BS_HIGH_0,    DPU_BS_LOW_1,
        DPU_BS_HIGH_1,     DPU_BN_LOW_0,      DPU_BN_HIGH_0,  DPU_BN_LOW_1,     DPU_BN_HIGH_1,
        DPU_EW_LOW_0,      DPU_EW_HIGH_0,     DPU_EW_LOW_1,   DPU_EW_HIGH_1,    DPU_OUT_CVT_SCALE,
        DPU_OUT_CVT_SHIFT, DPU_OUT_CVT_OFFSET};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (a->value[read[i]] != b->value[read[i]])
            return false;
    return a->tensor[RDMA_BS_CONFIG_BASE] == b->tensor[RDMA_BS_CONFIG_BASE];
}

int rknn_chain(const struct rknn_regs *regs, const struct rknn_file *f, const struct rknn_node *n,
               int32_t from, int32_t to, struct graph *g, const struct graph_chain **ret,
               struct error *e)
{
    int r = rknn_chain_with(regs, f, n, (const int32_t[]){from, to}, g, ret, NULL, e);
    uint32_t address;
    bool said = rknn_regs_get(regs, DPU_DST_BASE, &address) && address;
    if (r < 0 || *ret || f->container.kind != RKNN_LITE || !said)
        return r;
    return error_set(e, STATUS_MODEL_INVALID, "none of its tasks takes %s to %s",
                     f->tensors[from].name, f->tensors[to].name);
}

int rknn_chain_with(const struct rknn_regs *regs, const struct rknn_file *f,
                    const struct rknn_node *n, const int32_t ends[2], struct graph *g,
                    const struct graph_chain **ret, struct bytes *added, struct error *e)
{
    int32_t from = ends[0], to = ends[1];
    struct rknn_walk w;
    struct rknn_state first;
    bool found = false;
    const struct rknn_state *next;
    rknn_walk_begin(&w, regs);
    *ret = NULL;
    while ((next = rknn_walk_next(&w)) != NULL) {
        if (!is_between(next, f, from, to))
            continue;
        bool same = !found || alike(&first, next);
        if (!same)
            return error_set(e, STATUS_MODEL_INVALID,
                             "its tasks do different things to the same tensor, which is not "
                             "known");
        first = *next;
        found = true;
    }
    if (!found)
        return 0;
    struct graph_chain *c = pool_alloc(&g->pool, 1, sizeof *c);
    if (!c)
        return error_no_memory(e, "a chain of stages", sizeof *c);
    const struct source s = {regs, f, &first, added != NULL};
    int r = read_chain(&s, n, g, c, e);
    if (added) {
        bool apart = regs->chip->generation == CHIP_GEN_RK3576;
        int32_t index = first.tensor[apart ? RDMA_BN_DATA_BASE : RDMA_BN_BASE];
        bool each = adds_vector(&s, DPU_BN_CFG);
        *added = each && index >= 0 ? f->tensors[index].data : (struct bytes){0};
    }
    *ret = r == 0 ? c : NULL;
    return r;
}

// ---- copies ----

// What a shift multiplies with: reckoned once for all bytes.
static double inverse(uint32_t shift)
{
    return ldexp(1, -(int)shift);
}

// To the nearest, ties to even. Doubles hold what bytes become by factors of 16 bits.
static int64_t scaled(int64_t v, int32_t factor, double power)
{
    return (int64_t)nearbyint((double)v * factor * power);
}

static int64_t bounded(int64_t v, const int32_t bounds[2])
{
    return v < bounds[0] ? bounds[0] : v > bounds[1] ? bounds[1] : v;
}

void rknn_chain_map(const struct graph_chain *c, int8_t map[256])
{
    static const int32_t bytes[2] = {INT8_MIN, INT8_MAX};
    const double bs[2] = {inverse(c->bs[0].shift), inverse(c->bs[1].shift)};
    const double bn[2] = {inverse(c->bn[0].shift), inverse(c->bn[1].shift)};
    const double out = inverse(c->out.shift);
    const int64_t zp = (int64_t)ldexp(c->zp, (int)c->out.shift);
    for (int x = INT8_MIN; x <= INT8_MAX; x++) {
        int64_t v = x + c->bs_add;
        v = bounded(scaled(v, c->bs[v < 0].factor, bs[v < 0]), c->bounds[0]);
        v = v * c->bn[v < 0].factor + c->bn_add;
        v = bounded(scaled(v, 1, bn[v < 0]), c->bounds[1]);
        v = v * c->out.factor + zp;
        map[(uint8_t)x] = (int8_t)bounded(scaled(v, 1, out), bytes);
    }
}

static bool is_one(const struct graph_scaling stage[2])
{
    return stage[0].factor == 1 && !stage[0].shift && stage[1].factor == 1 && !stage[1].shift;
}

// Whether nothing at all is done, as in most that copies.
static bool is_off(const struct graph_chain *c)
{
    bool bounded = c->bounds[0][0] > INT8_MIN || c->bounds[0][1] < INT8_MAX ||
                   c->bounds[1][0] > INT8_MIN || c->bounds[1][1] < INT8_MAX;
    return !bounded && !c->bs_add && !c->bn_add && !c->zp && is_one(c->bs) && is_one(c->bn) &&
           c->out.factor == 1 && !c->out.shift;
}

// All 256 bytes are tried where that is not plain to see: it takes 10,000 instructions.
static bool copies(const struct graph_chain *c)
{
    int8_t map[256];
    if (c->lut)
        return false;
    if (is_off(c))
        return true;
    rknn_chain_map(c, map);
    for (int i = 0; i < 256; i++)
        if (map[i] != (int8_t)i)
            return false;
    return true;
}

int rknn_chain_copies(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, struct graph *g, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    const uint32_t precisions = 0xfc000007;
    struct rknn_walk w;
    const struct rknn_state *state;
    rknn_walk_begin(&w, regs);
    while ((state = rknn_walk_next(&w)) != NULL) {
        struct graph_chain c;
        if (!(state->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY) ||
            state->value[DPU_DATA_FORMAT] & precisions)
            continue;
        if (read_chain(&(struct source){regs, f, state, false}, n, g, &c, e) < 0)
            return STATUS_MODEL_INVALID;
        if (!copies(&c))
            return error_set(e, STATUS_MODEL_INVALID,
                             "its registers change the values that it moves (%s 0x%08x, %s 0x%08x)",
                             rknn_register_name(DPU_OUT_CVT_SCALE), state->value[DPU_OUT_CVT_SCALE],
                             rknn_register_name(DPU_OUT_CVT_OFFSET),
                             state->value[DPU_OUT_CVT_OFFSET]);
    }
    return 0;
}
