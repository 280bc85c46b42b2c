// The vendor's softmax, exSoftmax13: a net of its own, of up to 300 tasks that move its input to
// where channels are along its axis, and back, and between them
//
//     largest of each pixel -> difference -> e^x by a table -> sum of each pixel -> quotient
//
// Two files have it on an NPU, of RK3576 and of RV1126B, which have the same registers: each of its
// tasks must be one of theirs there. Of other chips no file is known; what they share is looked at.
#include "npu/model/rknn/lower/rknn_lower.h"

// Its net has a table of e^x; what has none is no such net, whatever its name.
static bool loads_table(const struct rknn_lowering *l)
{
    int16_t points[2][RKNN_LUT_POINTS];
    return rknn_regs_lut(l->regs, l->f, l->node, points);
}

// What it sums up by has a weight for each number along its axis. Other constants are none.
static bool sums_along_axis(const struct rknn_lowering *l)
{
    const struct graph_tensor *x = lower_input(l, 0);
    bool any = false, right = false;
    for (uint32_t i = 0; i < l->node->n_inputs && x; i++) {
        const struct rknn_tensor *t =
            l->node->inputs[i] < 0 ? NULL : &l->f->tensors[l->node->inputs[i]];
        if (!t || t->kind != RKNN_KIND_SUBTASK_CONSTANT || t->layout != RKNN_WEIGHT ||
            t->n_dims != 4)
            continue;
        any = true;
        right = right || t->dims[1] == x->dims[l->out->axis];
    }
    return !any || right;
}

enum { HALVES = 0x40000002, WORDS = 0x20000001 }; // of DPU_DATA_FORMAT
enum { OFF = 0x10041c1, DIFFERENCE = 0x4c0c0, BY_TABLE = 0x1004140 };
enum { QUOTIENT = 0x810021c8 }; // of DPU_EW_CFG

// Only a table's numbers are shifted on their way out; other halves stay what they are. RK3576 and
// RV1126B have what leads into the table in memory: an addend, a factor and shifts.
static bool keeps_halves(const struct rknn_lowering *l)
{
    enum { PRECISION = 7, FP16 = 2, SHIFT = 0xfff, BY_TABLE_OLD = 0x302, READ_ALL = 0x1a };
    struct rknn_walk w;
    const struct rknn_state *s;
    bool kept = true;
    rknn_walk_begin(&w, l->regs);
    while (kept && (s = rknn_walk_next(&w)) != NULL) {
        const uint32_t *v = s->value;
        if ((v[DPU_DATA_FORMAT] & PRECISION) != FP16)
            continue;
        if (v[DPU_EW_CFG] == BY_TABLE_OLD || v[DPU_EW_CFG] == BY_TABLE)
            kept = !l->chip->bn_in_memory || v[RDMA_BN_CFG] == READ_ALL;
        else
            kept = !(v[DPU_OUT_CVT_SHIFT] & SHIFT);
    }
    return kept;
}

// ---- RK3576, RV1126B ----

enum kind { MOVE, LARGEST, SUBTRACT, LOOK_UP, SUM, DIVIDE };

// What the units of a task hold. From memory: what the reader has besides; from the core: 0.
static const struct {
    enum kind kind;
    uint32_t mode, format, reader, writer, operation, shift, maxima;
} kinds[] = {
    {MOVE, 0x02000005, 0, 0x00009, 0x120000, OFF, 0, 0},
    {MOVE, 0x00000005, HALVES, 0x10049, 0x20000, OFF, 0, 0},
    {MOVE, 0x00000005, WORDS, 0x08029, 0x20000, OFF, 0, 0},
    {LARGEST, 0x02000005, HALVES, 0x10041, 0x120000, OFF, 0x40000000, 0x250000},
    {LARGEST, 0x40000004, HALVES, 0, 0x120000, OFF, 0x40000000, 0x250000},
    {SUBTRACT, 0x00000005, HALVES, 0x10049, 0x20000, DIFFERENCE, 0, 0},
    {LOOK_UP, 0x00000005, HALVES, 0x10049, 0x20000, BY_TABLE, 0xf00e, 0},
    {SUM, 0x40000004, HALVES, 0, 0x21011, OFF, 0, 0}, // or pixels that are picked
    {DIVIDE, 0x00000005, HALVES, 0x10049, 0x20000, QUOTIENT, 0, 0},
};

#define N_KINDS (sizeof kinds / sizeof *kinds)

// The kind of task in `kinds`; N_KINDS: none. Of DPU_DATA_CUBE_HEIGHT the height is left out, and
// of DPU_FEATURE_MODE_CFG, where bytes are moved, how many the last atom has.
static size_t find_kind(const uint32_t *v)
{
    enum { LAST_ATOM = 0x3c000000, MAXIMA = 0x3f0000, FROM_MEMORY = 1 };
    uint32_t mode = v[DPU_FEATURE_MODE_CFG];
    size_t i = 0;
    while (i < N_KINDS &&
           !((mode & (kinds[i].format ? UINT32_MAX : ~(uint32_t)LAST_ATOM)) == kinds[i].mode &&
             v[DPU_DATA_FORMAT] == kinds[i].format && v[DPU_BS_OW_CFG] == kinds[i].writer &&
             v[DPU_EW_CFG] == kinds[i].operation && v[DPU_OUT_CVT_SHIFT] == kinds[i].shift &&
             (v[DPU_DATA_CUBE_HEIGHT] & MAXIMA) == kinds[i].maxima &&
             (!(mode & FROM_MEMORY) || v[RDMA_FEATURE_MODE_CFG] == kinds[i].reader)))
        i++;
    return i;
}

static bool is_unbounded(const uint32_t *v)
{
    for (int reg = DPU_BS_LOW_0; reg <= DPU_EW_HIGH_1; reg++)
        if (v[reg] != ((reg - DPU_BS_LOW_0) % 2 ? INT32_MAX : 0x80000000))
            return false;
    return true;
}

// The units that do nothing, and those that the kind says.
static bool has_units(const uint32_t *v, enum kind kind)
{
    enum { BN_OFF = 0x903, BN_TO_TABLE = 0x20, READ_ALL = 0x1a, TWO_IMAGES = 0x40000048 };
    bool table = kind == LOOK_UP, two = kind == SUBTRACT || kind == DIVIDE;
    return v[DPU_BS_CFG] == 0x53 && v[DPU_BS_MUL_CFG] == 2 && v[RDMA_BS_CFG] == 0 &&
           v[DPU_BN_CFG] == (table ? BN_TO_TABLE : BN_OFF) &&
           (!table || v[RDMA_BN_CFG] == READ_ALL) && (v[DPU_EW_CVT_OFFSET] & 0xffff) == 0 &&
           v[DPU_EW_CVT_SCALE] == 1 && v[DPU_OUT_CVT_OFFSET] == (table ? 1 : 0) &&
           (v[DPU_OUT_CVT_SCALE] & 0xffff) == (table ? 0x4000 : 1) &&
           (two ? v[RDMA_EW_CFG] == TWO_IMAGES : v[RDMA_EW_CFG] & 1 || kind == SUM) &&
           is_unbounded(v);
}

// Halves of one pixel, or pixels of the input as they are; nothing is padded, added or cut off, and
// windows go on by one pixel; one task of each file says 0 there, and nothing in CNA_CONV_CON2.
static bool has_core(const uint32_t *v)
{
    static const uint32_t known[][3] = {// how it convolves, the core, the converter
                                        {0x20208122, 0x10000280, 0xe9},
                                        {0x20200120, 0x10000200, 0xb},
                                        {0x200120, 0x10000200, 0xb},
                                        {0x200120, 0x10000280, 0xe9}};
    enum { NEXT_PIXEL = 9 };
    bool goes_on = v[CNA_CONV_CON3] == NEXT_PIXEL || !(v[CNA_CONV_CON3] | v[CNA_CONV_CON2]);
    bool plain = goes_on && !v[CNA_PADDING] && !v[CNA_PAD_CON1] && !v[CNA_WEIGHT_ZERO] &&
                 !v[CORE_CLIP_TRUNCATE] && !(v[CNA_WEIGHT_SIZE2] & 0xffff0000);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (v[CNA_CONV_CON1] == known[i][0] && v[CORE_MISC_CFG] == known[i][1] &&
            v[CNA_CVT_CON0] == known[i][2])
            return plain;
    return false;
}

// In this order, each at least once, with others between them that move.
static bool has_known_tasks(const struct rknn_lowering *l)
{
    static const enum kind order[] = {LARGEST, SUBTRACT, LOOK_UP, SUM, DIVIDE};
    enum { FROM_MEMORY = 1, N_ORDER = sizeof order / sizeof *order };
    struct rknn_walk w;
    const struct rknn_state *s;
    size_t at = 0;
    rknn_walk_begin(&w, l->regs);
    while ((s = rknn_walk_next(&w)) != NULL) {
        size_t i = find_kind(s->value);
        bool known = i < N_KINDS && has_units(s->value, kinds[i].kind) &&
                     (s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY || has_core(s->value));
        if (!known)
            return false;
        if (at < N_ORDER && kinds[i].kind == order[at])
            at++;
        else if (kinds[i].kind == SUBTRACT || kinds[i].kind == LOOK_UP || kinds[i].kind == DIVIDE)
            return false;
    }
    return at == N_ORDER;
}

bool lower_is_softmax(const struct rknn_lowering *l)
{
    bool known = l->chip->generation != CHIP_GEN_RK3576 || has_known_tasks(l);
    return loads_table(l) && sums_along_axis(l) && keeps_halves(l) && known;
}
