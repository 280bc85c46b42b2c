// What registers and tables say both, held against each other. A node's first task begins at the
// top left corner of its tensors, so that one is compared.
#include "npu/model/rknn/regs/rknn_agree.h"

#define DECONV_STEPS 0x3f00 // of CNA_CONV_CON3

// Two numbers of a window: of height and of width.
struct pair {
    uint32_t y, x;
};

static int disagree(const struct rknn_regs *regs, enum rknn_register reg, uint32_t value,
                    const char *what, struct pair said, struct pair known, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID,
                     "register %s (0x%04x) holds 0x%08x: %s %u, %u, but the node has %u, %u",
                     rknn_register_name(reg), rknn_register_at(regs->chip, reg), value, what,
                     said.y, said.x, known.y, known.x);
}

// Whether both say the same. What is more than a field can hold is not done in one step, so
// nothing is said of it.
static bool same(struct pair said, struct pair known, uint32_t highest)
{
    return known.y > highest || known.x > highest || (said.y == known.y && said.x == known.x);
}

static int agree_kernel(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                        struct error *e)
{
    uint32_t value, less = regs->chip->generation == CHIP_GEN_RK3576 ? 1 : 0;
    if (!rknn_regs_get(regs, CNA_WEIGHT_SIZE2, &value))
        return 0;
    struct pair said = {rknn_bits(value, 20, 16) + less, rknn_bits(value, 28, 24) + less};
    struct pair known = {c->window->kernel[0], c->window->kernel[1]};
    return same(said, known, 31)
               ? 0
               : disagree(regs, CNA_WEIGHT_SIZE2, value, "a kernel of", said, known, e);
}

// What stands for the step where the output is one line or column.
static bool single(uint32_t stride)
{
    return stride == 1 || stride == 7;
}

// Where the output is one line or column there is no step. A transposed convolution has its own in
// other fields.
static int agree_steps(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                       struct error *e)
{
    uint32_t value;
    if (!rknn_regs_get(regs, CNA_CONV_CON3, &value))
        return 0;
    struct pair stride = {rknn_bits(value, 5, 3), rknn_bits(value, 2, 0)};
    struct pair dilation = {rknn_bits(value, 25, 21) + 1, rknn_bits(value, 20, 16) + 1};
    struct pair known = {c->window->stride[0], c->window->stride[1]};
    struct pair apart = {c->window->dilation[0], c->window->dilation[1]};
    if (c->transposed && (stride.y != 1 || stride.x != 1))
        return rknn_regs_refuse(regs, CNA_CONV_CON3, value,
                                "over the image that it spreads it goes pixel by pixel", e);
    if (c->transposed)
        stride = (struct pair){rknn_bits(value, 13, 11) + 1, rknn_bits(value, 10, 8) + 1};
    known.y = c->y->dims[2] == 1 && single(stride.y) ? stride.y : known.y;
    known.x = c->y->dims[3] == 1 && single(stride.x) ? stride.x : known.x;
    if (!c->transposed && value & DECONV_STEPS)
        return rknn_regs_refuse(regs, CNA_CONV_CON3, value, "it is no transposed convolution", e);
    // Of one line or column no step leads to another: files say 1 then, or their attribute.
    apart.y = c->window->kernel[0] == 1 && dilation.y == 1 ? 1 : apart.y;
    apart.x = c->window->kernel[1] == 1 && dilation.x == 1 ? 1 : apart.x;
    if (!same(stride, known, 7))
        return disagree(regs, CNA_CONV_CON3, value, "strides", stride, known, e);
    return same(dilation, apart, 32)
               ? 0
               : disagree(regs, CNA_CONV_CON3, value, "dilations", dilation, apart, e);
}

// What a convolution pads its image with, of lines and columns before the first. A transposed one
// is a plain one over an image that is spread out, whose first window holds one pixel of it and
// what its own padding does not take away.
static struct pair padded(const struct rknn_agree_conv *c)
{
    const struct graph_window *w = c->window;
    struct pair pad = {w->pad[0], w->pad[1]};
    if (!c->transposed)
        return pad;
    return (struct pair){(w->kernel[0] - 1) * w->dilation[0] - pad.y,
                         (w->kernel[1] - 1) * w->dilation[1] - pad.x};
}

// Bits that hold no padding: RK3566 and RK3568 have what is padded with there.
static int agree_padding(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                         struct error *e)
{
    static const struct {
        enum rknn_register reg;
        uint32_t side, others; // bits of one side, and of neither
    } forms[CHIP_N_GENERATIONS] = {[CHIP_GEN_RK3588] = {CNA_PAD_CON0, 4, 0xffffff00},
                                   [CHIP_GEN_RK3576] = {CNA_PADDING, 8, 0},
                                   [CHIP_GEN_RK3562] = {CNA_PADDING, 8, 0},
                                   [CHIP_GEN_RV1106] = {CNA_PAD_CON0, 8, 0xffff0000},
                                   [CHIP_GEN_RK3566] = {CNA_PAD_CON0, 4, 0xff00}};
    enum rknn_register reg = forms[regs->chip->generation].reg;
    uint32_t value, side = forms[regs->chip->generation].side;
    if (!rknn_regs_get(regs, reg, &value))
        return 0;
    struct pair said = {rknn_bits(value, side - 1, 0), rknn_bits(value, 2 * side - 1, side)};
    struct pair known = padded(c);
    if (value & forms[regs->chip->generation].others && known.y <= 15 && known.x <= 15)
        return rknn_regs_refuse(regs, reg, value, "what it pads is not known", e);
    return same(said, known, 15) ? 0 : disagree(regs, reg, value, "padding of", said, known, e);
}

// What stands for the input's zero points at its borders: one byte, with its sign or repeated.
// RK3566 and RK3568 have it beside the padding.
static int agree_pad_value(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                           struct error *e)
{
    bool beside = regs->chip->generation == CHIP_GEN_RK3566;
    enum rknn_register reg = beside ? CNA_PAD_CON0 : CNA_PAD_CON1;
    uint32_t value;
    if (!c->integer || !rknn_regs_get(regs, reg, &value))
        return 0;
    uint32_t v = beside ? value >> 16 : value, known = (uint32_t)c->x->zp;
    uint32_t byte = known & 0xff, width = beside ? 0xffff : 0xffffffff;
    const uint32_t forms[] = {known & width, ((known << 8) | byte) & width, byte * 0x10101,
                              known & 0xffff};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (v == forms[i])
            return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "register %s (0x%04x) holds 0x%08x: its input's zero point is %d",
                     rknn_register_name(reg), rknn_register_at(regs->chip, reg), value, c->x->zp);
}

// Each channel by itself, or all of them together; of integers or of real numbers.
static int agree_kind(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                      struct error *e)
{
    enum { DEPTHWISE = 2, LINES = 28 }; // the last: from that bit on
    const uint32_t precisions = 0xfc000007;
    uint32_t value;
    if (rknn_regs_get(regs, CORE_MISC_CFG, &value) && !(value & DEPTHWISE) == c->depthwise)
        return rknn_regs_refuse(regs, CORE_MISC_CFG, value,
                                c->depthwise ? "a depthwise convolution is expected"
                                             : "a depthwise convolution is not expected",
                                e);
    if (rknn_regs_get(regs, DPU_DATA_FORMAT, &value) && !(value & precisions) != c->integer)
        return rknn_regs_refuse(regs, DPU_DATA_FORMAT, value, "precisions that its tensors lack",
                                e);
    bool spreads = regs->chip->bn_relu_field && rknn_regs_get(regs, CNA_CONV_CON1, &value) &&
                   (value >> 16 & 1) != c->transposed;
    if (spreads)
        return rknn_regs_refuse(regs, CNA_CONV_CON1, value, "whether it is transposed", e);
    if (c->transposed && rknn_regs_get(regs, CNA_CONV_CON1, &value) &&
        (value | rknn_regs_varies(regs, CNA_CONV_CON1)) >> LINES)
        return rknn_regs_refuse(regs, CNA_CONV_CON1, value, "lines that are not known", e);
    return 0;
}

static int differing(const struct rknn_regs *regs, enum rknn_register reg, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID,
                     "register %s (0x%04x) holds different values in its tasks: what that does is "
                     "not known",
                     rknn_register_name(reg), rknn_register_at(regs->chip, reg));
}

// Real numbers are padded with 0, have no zero points, and lose no bits of their sums.
static int agree_plain_half(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                            struct error *e)
{
    bool beside = regs->chip->generation == CHIP_GEN_RK3566;
    const struct {
        enum rknn_register reg;
        uint32_t mask;
    } zeros[] = {{beside ? CNA_PAD_CON0 : CNA_PAD_CON1, beside ? 0xffff0000 : UINT32_MAX},
                 {CNA_WEIGHT_ZERO, UINT32_MAX},
                 {CORE_CLIP_TRUNCATE, UINT32_MAX}};
    uint32_t value;
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros && !c->transposed; i++)
        if (rknn_regs_get(regs, zeros[i].reg, &value) &&
            (value & zeros[i].mask || rknn_regs_varies(regs, zeros[i].reg) & zeros[i].mask))
            return rknn_regs_refuse(regs, zeros[i].reg, value, "it convolves real numbers", e);
    return 0;
}

// Half precision, and the kind of convolution that says it once more, which is that of all tasks.
// Newer chips have more kinds for packed pixels.
static int agree_half(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                      struct error *e)
{
    enum { HALF = 2, OLD_DEPTHWISE = 3, PACKED = 2, ALSO_PACKED = 6 };
    enum { DEPTHWISE = 1, WITH_ZEROS = 5 };
    uint32_t value, of_input, processing, kind;
    if (!rknn_regs_get(regs, CNA_CONV_CON1, &value))
        return 0;
    if (rknn_regs_varies(regs, CNA_CONV_CON1) & 0xfff)
        return differing(regs, CNA_CONV_CON1, e);
    of_input = rknn_bits(value, 6, 4);
    processing = regs->chip->generation == CHIP_GEN_RK3566 ? rknn_bits(value, 10, 8)
                                                           : rknn_bits(value, 9, 7);
    kind = rknn_bits(value, 3, 0);
    bool old = kind == (c->depthwise ? OLD_DEPTHWISE : 0);
    bool newer = c->depthwise ? kind == DEPTHWISE || kind == WITH_ZEROS
                              : kind == 0 || kind == PACKED || kind == ALSO_PACKED;
    bool known = regs->chip->bn_relu_field ? old : newer;
    return known && of_input == HALF && processing == HALF
               ? 0
               : rknn_regs_refuse(regs, CNA_CONV_CON1, value, "it convolves real numbers otherwise",
                                  e);
}

enum { PACKED_PIXELS = 0xf000 }; // of CNA_CONV_CON1

// Packed pixels, which only a model's input has, have as many channels as the image.
static int agree_packed(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                        struct error *e)
{
    enum { PACKED_KINDS = 6, FIRST_PACKED = 8 };
    enum { IN_HALVES = 1 << 16, OF_HALVES = 4 }; // of RK3562 in container 2
    enum chip_generation g = regs->chip->generation;
    uint32_t kind = 0;
    rknn_regs_get(regs, CNA_CONV_CON1, &kind);
    bool packed = kind & PACKED_PIXELS, newer = !regs->chip->bn_relu_field;
    uint32_t field = rknn_bits(kind, 15, 12), channels = FIRST_PACKED + c->x->dims[1] - 1;
    // RK3562's two cores may take half of the pixels each (container 2), which another bit says.
    uint32_t halves = kind & IN_HALVES ? channels | OF_HALVES : channels;
    bool said = newer && g != CHIP_GEN_RV1106 && !c->depthwise && kind & PACKED_KINDS;
    if ((packed && !c->of_input) || (said && !packed))
        return rknn_regs_refuse(regs, CNA_CONV_CON1, kind, "only inputs have packed pixels", e);
    if (rknn_regs_varies(regs, CNA_CONV_CON1) & PACKED_PIXELS)
        return differing(regs, CNA_CONV_CON1, e);
    return !packed || field == channels || field == halves
               ? 0
               : rknn_regs_refuse(regs, CNA_CONV_CON1, kind, "pixels of as many channels", e);
}

// Sums have a second shift, which is as large as the first one. RK3562, RV1103 and RV1106 have 1
// there where pixels are packed.
static int agree_second_shift(const struct rknn_regs *regs, struct error *e)
{
    enum chip_generation g = regs->chip->generation;
    uint32_t kind = 0, value;
    rknn_regs_get(regs, CNA_CONV_CON1, &kind);
    if (!rknn_regs_get(regs, CORE_CLIP_TRUNCATE, &value))
        return 0;
    bool one = kind & PACKED_PIXELS && (g == CHIP_GEN_RK3562 || g == CHIP_GEN_RV1106);
    return (one ? value == 0x20 : rknn_bits(value, 9, 5) == rknn_bits(value, 4, 0))
               ? 0
               : rknn_regs_refuse(regs, CORE_CLIP_TRUNCATE, value, "its second shift is not known",
                                  e);
}

// One number for each channel, or an image: the reader says so on all chips, older ones' unit, too.
static int agree_addend(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                        struct error *e)
{
    enum { READS_IMAGE = 1 << 30, IMAGE = 1 << 28, RELU_BYPASS = 1 << 9 };
    uint32_t value;
    if (!c->addend)
        return 0;
    bool each = c->addend->n_dims == 4 && c->addend->dims[2] == 1 && c->addend->dims[3] == 1;
    bool pixel = c->y->dims[2] == 1 && c->y->dims[3] == 1; // either will do
    if (!pixel && rknn_regs_get(regs, RDMA_EW_CFG, &value) && !(value & READS_IMAGE) != each)
        return rknn_regs_refuse(regs, RDMA_EW_CFG, value,
                                each ? "it adds a number for each channel" : "it adds an image", e);
    if (!regs->chip->bn_relu_field || !rknn_regs_get(regs, DPU_EW_CFG, &value))
        return 0;
    if (!each && !(value & IMAGE))
        return rknn_regs_refuse(regs, DPU_EW_CFG, value, "it adds an image", e);
    if (!(value & RELU_BYPASS) && !c->relu_behind)
        return rknn_regs_refuse(regs, DPU_EW_CFG, value, "it has no Relu behind its addition", e);
    return 0;
}

// Only a model's inputs are converted on their way in.
static int agree_converter(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                           struct error *e)
{
    enum { BYPASS = 1 }; // but on RK3566 and RK3568, where the bit says that it converts
    uint32_t value;
    if (c->of_input || !rknn_regs_get(regs, CNA_CVT_CON0, &value) ||
        (value & BYPASS) == (regs->chip->generation != CHIP_GEN_RK3566))
        return 0;
    return rknn_regs_refuse(regs, CNA_CVT_CON0, value, "how it converts its input is not known", e);
}

// What is between sums and outputs is the same in all of the node's tasks.
static int agree_tasks(const struct rknn_regs *regs, struct error *e)
{
    static const struct {
        enum rknn_register reg;
        uint32_t mask;
    } stages[] = {
        {CNA_CONV_CON1, 0x0fff0fff},      {CNA_PAD_CON1, 0xffffffff},
        {CORE_MISC_CFG, 0xffffffff},      {DPU_FEATURE_MODE_CFG, 0x1f},
        {RDMA_BS_CFG, 0xffffffff},        {RDMA_BN_CFG, 0xffffffff},
        {DPU_BS_OW_CFG, 0x80f0003},       {CORE_CLIP_TRUNCATE, 0xffffffff},
        {CNA_CONV_CON3, 0xffffffff},      {CNA_WEIGHT_SIZE2, 0x1f1f0000},
        {DPU_DATA_FORMAT, 0xffffffff},    {DPU_BS_CFG, 0xffffffff},
        {DPU_BS_ALU_CFG, 0xffffffff},     {DPU_BS_MUL_CFG, 0xffffffff},
        {DPU_BS_OW_OP, 0xffffffff},       {DPU_BN_CFG, 0xffffffff},
        {DPU_BN_MUL_CFG, 0xffffffff},     {DPU_BN_RELUX_CMP, 0xffffffff},
        {DPU_BN_ALU_CFG, 0xffffffff},     {DPU_BS_RELUX_CMP, 0xffffffff},
        {CNA_WEIGHT_ZERO, 0xffffffff},    {DPU_EW_CFG, 0xffffffff},
        {DPU_EW_CVT_OFFSET, 0xffffffff},  {DPU_EW_CVT_SCALE, 0xffffffff},
        {DPU_OUT_CVT_OFFSET, 0xffffffff}, {DPU_OUT_CVT_SCALE, 0xffffffff},
        {DPU_OUT_CVT_SHIFT, 0xffffffff},  {RDMA_EW_CFG, 0x40000000},
        {CNA_PAD_CON0, 0xffff0000},
    };
    for (int reg = DPU_BS_LOW_0; reg <= DPU_BOUND_11; reg++)
        if (rknn_regs_varies(regs, (enum rknn_register)reg))
            return differing(regs, (enum rknn_register)reg, e);
    for (int reg = DPU_LUT_CFG; reg <= DPU_LUT_HIGH_1; reg++)
        if (rknn_regs_varies(regs, (enum rknn_register)reg))
            return differing(regs, (enum rknn_register)reg, e);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (rknn_regs_varies(regs, stages[i].reg) & stages[i].mask)
            return differing(regs, stages[i].reg, e);
    return 0;
}

int rknn_agree_window(const struct rknn_regs *regs, const struct rknn_agree_conv *c,
                      struct error *e)
{
    int r = agree_kernel(regs, c, e);
    r = r < 0 ? r : agree_steps(regs, c, e);
    r = r < 0 ? r : agree_padding(regs, c, e);
    r = r < 0 ? r : agree_pad_value(regs, c, e);
    r = r < 0 ? r : agree_kind(regs, c, e);
    return r < 0 ? r : agree_converter(regs, c, e);
}

int rknn_agree_conv(const struct rknn_regs *regs, const struct rknn_agree_conv *c, struct error *e)
{
    int r = rknn_agree_window(regs, c, e);
    if (r == 0)
        r = c->integer ? agree_second_shift(regs, e) : agree_half(regs, c, e);
    if (r == 0)
        r = agree_packed(regs, c, e);
    if (r == 0 && !c->integer)
        r = agree_plain_half(regs, c, e);
    if (r == 0 && c->integer)
        r = agree_addend(regs, c, e);
    return r < 0 || !c->integer ? r : agree_tasks(regs, e);
}

static int agree_pool_window(const struct rknn_regs *regs, const struct graph_window *w,
                             const struct graph_tensor *y, uint32_t kernel, struct error *e)
{
    struct pair said = {rknn_bits(kernel, 11, 8) + 1, rknn_bits(kernel, 3, 0) + 1};
    struct pair known = {w->kernel[0], w->kernel[1]};
    if (w->dilation[0] != 1 || w->dilation[1] != 1)
        return rknn_regs_refuse(regs, PPU_KERNEL_CFG, kernel, "pixels of a window are side by side",
                                e);
    if (!same(said, known, 16))
        return disagree(regs, PPU_KERNEL_CFG, kernel, "a kernel of", said, known, e);
    said = (struct pair){rknn_bits(kernel, 23, 20) + 1, rknn_bits(kernel, 19, 16) + 1};
    known = (struct pair){w->stride[0], w->stride[1]};
    known.y = y->dims[2] == 1 ? said.y : known.y;
    known.x = y->dims[3] == 1 ? said.x : known.x;
    return same(said, known, 16)
               ? 0
               : disagree(regs, PPU_KERNEL_CFG, kernel, "strides", said, known, e);
}

// An average multiplies with 2^16 over its window's sides; fp16 has numbers of its own.
static int agree_reciprocals(const struct rknn_regs *regs, const struct graph_window *w,
                             struct error *e)
{
    static const enum rknn_register at[2] = {PPU_RECIP_HEIGHT, PPU_RECIP_WIDTH};
    uint32_t value;
    for (int i = 0; i < 2; i++)
        if (rknn_regs_get(regs, at[i], &value) && value != 0x10000 / w->kernel[i])
            return rknn_regs_refuse(regs, at[i], value, "what it divides by is not known", e);
    return 0;
}

int rknn_agree_pool(const struct rknn_regs *regs, const struct graph_window *w, bool average,
                    const struct graph_tensor *y, struct error *e)
{
    uint32_t mode, kernel, padding;
    if (!rknn_regs_get(regs, PPU_MODE_CFG, &mode) ||
        !rknn_regs_get(regs, PPU_KERNEL_CFG, &kernel) ||
        !rknn_regs_get(regs, PPU_PADDING_CFG, &padding))
        return 0;
    if (rknn_regs_varies(regs, PPU_MODE_CFG) & 0xb)
        return differing(regs, PPU_MODE_CFG, e);
    if (rknn_bits(mode, 1, 0) != (average ? 0 : 1))
        return rknn_regs_refuse(regs, PPU_MODE_CFG, mode, "another pool than the node's", e);
    // RK3576 and RV1126B: an average of what is not padding.
    if (rknn_bits(mode, 3, 3) && (!average || w->count_pad))
        return rknn_regs_refuse(regs, PPU_MODE_CFG, mode, "whether padding counts", e);
    if (rknn_regs_varies(regs, PPU_KERNEL_CFG))
        return differing(regs, PPU_KERNEL_CFG, e);
    bool large = w->kernel[0] > RKNN_POOL_MAX_KERNEL || w->kernel[1] > RKNN_POOL_MAX_KERNEL;
    if (average && large && y->type == TENSOR_INT8)
        return rknn_regs_refuse(regs, PPU_KERNEL_CFG, kernel,
                                "an average in several steps, each of which is rounded", e);
    int r = agree_pool_window(regs, w, y, kernel, e);
    if (r == 0 && average && y->type == TENSOR_INT8)
        r = agree_reciprocals(regs, w, e);
    struct pair said = {rknn_bits(padding, 6, 4), rknn_bits(padding, 2, 0)};
    struct pair known = {w->pad[0], w->pad[1]};
    return r < 0 || same(said, known, 7)
               ? r
               : disagree(regs, PPU_PADDING_CFG, padding, "padding of", said, known, e);
}
