// What is not in the list may well be right, and is computed by the node's own program then.
//
// Real numbers need no factors and zero points, so there is one value of each register for
// each thing that a unit does.
#include "npu/model/rknn/regs/check/rknn_real.h"

#define MAX_VALUES 4

// What a node's operator has its units do.
enum {
    ANY = 0,
    BIAS = 1,
    RELU = 2,
    TABLE = 4,
    ADDS = 8,
    ADDS_RELU = 16,
    SLOPE = 32,
    CLIP = 64,
    MULTIPLIES = 128
};

// What EW does. Values of other units only go with that: a gain into a table, a bias.
enum { BY_EW = TABLE | ADDS | ADDS_RELU | MULTIPLIES };

// Chips.
#define ON(g)    (1u << CHIP_GEN_##g)
#define EARLY    ON(RK3566)
#define LATE     (ON(RK3562) | ON(RK3576))
#define NO_EARLY (~EARLY)
#define EVERY    (~0u)

// Values that the converter gives; those that not every node may have say of which they are.
// Registers that were never set hold 0, which is a value of its own for none of the units: a unit
// that is configured by 0 would add, multiply and clamp all at once. A scale of 0 is refused where
// the node sets it.
static const struct {
    enum rknn_register reg;
    uint32_t value;
    unsigned of;
    unsigned on; // which chips
} known[] = {
    {DPU_BS_CFG, 0x53, ANY, EVERY},
    {DPU_BS_CFG, 0x20150, BIAS | ADDS, EVERY}, // RK3588
    {DPU_BS_CFG, 0x158, BIAS, EVERY},          // RK3566, RK3568
    {DPU_BS_OW_OP, 0, ANY, EVERY},
    {DPU_BN_CFG, 0x53, ANY, EVERY},
    {DPU_BN_CFG, 0x13, ANY, EVERY},  // RK3562
    {DPU_BN_CFG, 0x903, ANY, EVERY}, // RK3576, RV1126B
    {DPU_BN_CFG, 0x12, RELU, EVERY},
    {DPU_BN_CFG, 0x902, RELU | CLIP, EVERY}, // RK3576, RV1126B: bounds, which rknn_posts.c reads
    {DPU_BN_CFG, 0x62, SLOPE, EVERY},        // RK3588, RK3566, RK3568
    {DPU_BN_CFG, 0x92, CLIP, EVERY},         // the same chips
    {DPU_BN_CFG, 0x20040, TABLE, NO_EARLY},
    {DPU_BN_CFG, 0x48, TABLE, EARLY}, // RK3566, RK3568, as bytes have it
    {DPU_EW_CFG, 0x383, ANY, EVERY},
    {DPU_EW_CFG, 0x10041c1, ANY, EVERY}, // RK3562, RK3576, RV1126B
    {DPU_EW_CFG, 0x302, TABLE, EVERY},
    {DPU_EW_CFG, 0x283, ADDS, EVERY}, // what BS adds
    {DPU_EW_CFG, 0x2d0, ADDS, EARLY},
    {DPU_EW_CFG, 0x100002d0, ADDS, EARLY}, // of an image, as bytes have it, which set bit 31
    {DPU_EW_CFG, 0x100000d0, ADDS_RELU, EARLY},
    {DPU_EW_CFG, 0x0002c0c0, ADDS, LATE}, // as differences of halves and sums of bytes have it
    {DPU_EW_CFG, 0x108202c0, ADDS, EVERY},
    {DPU_EW_CFG, 0x108200c0, ADDS_RELU, EVERY},
    {DPU_EW_CFG, 0x8003c4, MULTIPLIES, EVERY}, // RK3588, with one number for each channel
    {DPU_EW_CVT_OFFSET, 0, ANY, EVERY},
    {DPU_EW_CVT_SCALE, 1, ANY, EVERY},
    {DPU_OUT_CVT_OFFSET, 0, ANY, EVERY},
    {DPU_OUT_CVT_SCALE, 1, ANY, EVERY},
    {DPU_OUT_CVT_SCALE, 0x10001, ANY, EVERY},
    {DPU_OUT_CVT_SHIFT, 0, ANY, EVERY},
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

// False: what its units do is read elsewhere, or not known to be read.
static bool find_duty(const char *op, unsigned *ret)
{
    static const char *const moves[] = {"Concat", "Reshape", "Slice", "Split", "Transpose"};
    static const char *const plain[] = {"Conv",     "ConvAdd",  "ConvAddRelu",
                                        "ConvClip", "ConvRelu", "ConvLeakyRelu"};
    bool conv = begins(op, "Conv") && !begins(op, "ConvTranspose"), table = conv;
    bool adds = strstr(op, "Add") != NULL, slope = strcmp(op, "ConvLeakyRelu") == 0;
    bool relu = strstr(op, "Relu") != NULL && !slope && !strstr(op, "PRelu");
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (strcmp(op, moves[i]) == 0) {
            *ret = ANY;
            return true;
        }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        table = table && strcmp(op, plain[i]) != 0;
    *ret = (conv ? BIAS : 0) | (relu && !adds ? RELU : 0) | (table ? TABLE : 0) |
           (adds ? (relu ? ADDS_RELU : ADDS) : 0) | (slope ? SLOPE : 0) |
           (strcmp(op, "ConvClip") == 0 ? CLIP : 0) | (strcmp(op, "Mul") == 0 ? MULTIPLIES : 0);
    return conv || strcmp(op, "Add") == 0 || strcmp(op, "AddRelu") == 0 || strcmp(op, "Mul") == 0 ||
           strcmp(op, "Relu") == 0;
}

#define N_KNOWN (sizeof known / sizeof *known)

// What the list says of a value.
struct said {
    bool always; // any node may have it
    unsigned of; // or those of these duties
};

static bool is_on(const struct rknn_regs *regs, unsigned on)
{
    return on >> regs->chip->generation & 1;
}

// `first`: the first of the register's rows, which lie together; *end: behind the last one.
static struct said look_up(const struct rknn_regs *regs, size_t first, uint32_t value, size_t *end)
{
    struct said s = {0};
    size_t i = first;
    for (; i < N_KNOWN && known[i].reg == known[first].reg; i++)
        if (known[i].value == value && is_on(regs, known[i].on)) {
            s.always = s.always || !known[i].of;
            s.of |= known[i].of;
        }
    *end = i;
    return s;
}

// What a value of a register shows its unit to do.
static unsigned duties_of(enum rknn_register reg, uint32_t value)
{
    unsigned found = 0;
    for (size_t i = 0; i < N_KNOWN; i++)
        if (known[i].reg == reg && known[i].value == value)
            found |= known[i].of;
    return found;
}

// Whether the units do what the operator's name says.
static int all_done(const struct rknn_regs *regs, const struct rknn_node *n, unsigned duty,
                    unsigned done, struct error *e)
{
    uint32_t any;
    if (!(duty & ~done) || !rknn_regs_get(regs, DPU_EW_CFG, &any) ||
        !rknn_regs_get(regs, DPU_BN_CFG, &any))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID, "its registers do not do all that \"%s\" says",
                     n->op);
}

// Arithmetic by another name whose registers add: the name would be believed.
static int check_name(const struct rknn_regs *regs, const struct rknn_node *n, struct error *e)
{
    enum { PRECISION = 7, FP16 = 2, FROM_MEMORY = 1 };
    struct rknn_walk w;
    const struct rknn_state *s;
    if (strstr(n->op, "Add") || begins(n->op, "Conv") || begins(n->op, "ex"))
        return 0;
    rknn_walk_begin(&w, regs);
    while ((s = rknn_walk_next(&w)) != NULL)
        if (s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY &&
            (s->value[DPU_DATA_FORMAT] & PRECISION) == FP16 &&
            duties_of(DPU_EW_CFG, s->value[DPU_EW_CFG]) & (ADDS | ADDS_RELU))
            return rknn_regs_refuse(regs, DPU_EW_CFG, s->value[DPU_EW_CFG], "it adds", e);
    return 0;
}

// The one form of a product that is known.
static bool has_number_for_each_channel(const struct rknn_file *f, const struct rknn_node *n)
{
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        const struct rknn_tensor *t = n->inputs[i] < 0 ? NULL : &f->tensors[n->inputs[i]];
        if (t && t->n_dims == 4 && t->dims[2] == 1 && t->dims[3] == 1)
            return true;
    }
    return false;
}

static bool takes_halves(const struct rknn_file *f, const struct rknn_node *n)
{
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i] >= 0 && f->tensors[n->inputs[i]].type == RKNN_F16)
            return true;
    return false;
}

// One task: its values are known, and are those of the duty. Adds to *done what they show.
static int check_task(const struct rknn_regs *regs, const struct rknn_state *s, bool checked,
                      unsigned duty, unsigned *done, struct error *e)
{
    for (size_t i = 0, end; i < N_KNOWN; i = end) {
        enum rknn_register reg = known[i].reg;
        uint32_t value = s->value[reg], any;
        struct said said = look_up(regs, i, value, &end);
        *done |= said.of & (reg == DPU_EW_CFG ? BY_EW : ~(unsigned)BY_EW);
        if (!checked || said.always || said.of & duty)
            continue;
        bool nothing = !value && reg == DPU_OUT_CVT_SCALE && rknn_regs_get(regs, reg, &any) &&
                       (any == 0 || rknn_regs_varies(regs, reg));
        if (value || nothing)
            return rknn_regs_refuse(regs, reg, value, "what that does to real numbers is not known",
                                    e);
    }
    return 0;
}

// Newer chips bound what each unit gives, by two pairs of numbers that are compared as integers:
// floats, too, are in that order from 0 on. A Relu or a Clip has BN's, both pairs alike.
static int check_bounds(const struct rknn_regs *regs, const struct rknn_state *s, unsigned duty,
                        struct error *e)
{
    static const char unlike[] = "what that does to real numbers is not known";
    uint32_t any;
    for (int i = DPU_BS_LOW_0; i <= DPU_EW_HIGH_1; i++) {
        enum rknn_register reg = (enum rknn_register)i;
        bool high = (i - DPU_BS_LOW_0) % 2, bn = i >= DPU_BN_LOW_0 && i <= DPU_BN_HIGH_1;
        uint32_t none = high ? INT32_MAX : 0x80000000u, value = s->value[reg];
        bool relu = bn && duty & (RELU | CLIP);
        bool right = relu && !high               ? value == 0
                     : bn && high && duty & CLIP ? value == s->value[DPU_BN_HIGH_1]
                                                 : value == none;
        if (!right && rknn_regs_get(regs, reg, &any))
            return rknn_regs_refuse(regs, reg, value, unlike, e);
    }
    return 0;
}

int rknn_real_known(const struct rknn_regs *regs, const struct rknn_file *f,
                    const struct rknn_node *n, struct error *e)
{
    enum { PRECISION = 7, INT16 = 1, FP16 = 2 };
    struct rknn_walk w;
    const struct rknn_state *s;
    unsigned duty, done = BIAS;
    bool halves = takes_halves(f, n);
    if (halves && check_name(regs, n, e) < 0)
        return STATUS_MODEL_INVALID;
    // Pairs of bytes are moved as int16, too.
    if (!find_duty(n->op, &duty) || (!halves && duty != ANY))
        return 0;
    rknn_walk_begin(&w, regs);
    while ((s = rknn_walk_next(&w)) != NULL) {
        uint32_t precision = s->value[DPU_DATA_FORMAT] & PRECISION;
        bool checked = (halves && precision == FP16) || (precision == INT16 && duty == ANY);
        if (check_task(regs, s, checked, duty, &done, e) < 0 ||
            (checked && check_bounds(regs, s, duty, e) < 0))
            return STATUS_MODEL_INVALID;
    }
    if (halves && duty & done & MULTIPLIES && !has_number_for_each_channel(f, n))
        return error_set(e, STATUS_MODEL_INVALID,
                         "what its registers multiply is one number for each channel");
    return halves ? all_done(regs, n, duty, done, e) : 0;
}
