// A convolution is split into tasks by lines of its output and by blocks of its channels. So all
// files have it; the sizes that follow from each other are in as many registers as there are units:
//
//     CNA: image, kernel, output ---> CORE: output ---> DPU: output ---> what is written
//                                                       RDMA: what is added
#include "npu/model/rknn/regs/check/rknn_tiles.h"

// Shapes are those of the file's tensors; a batch repeats all of it. What a task may leave out
// holds what an earlier one of the node has set (rknn_walk).

// A task, and what its registers must say.
struct tile {
    const struct rknn_regs *regs;
    const struct rknn_state *s;
    const struct rknn_agree_conv *c;
    uint32_t less;          // what sizes in the CNA are short of
    uint32_t width, height; // of its output
};

static uint32_t bits(uint32_t value, unsigned high, unsigned low)
{
    return value >> low & ((2u << (high - low)) - 1);
}

static bool is_set(const struct tile *t, enum rknn_register reg)
{
    uint32_t value;
    return rknn_regs_get(t->regs, reg, &value);
}

// A register that the node never sets is not looked at: what it holds is not this node's.
static int check(const struct tile *t, enum rknn_register reg, bool right, struct error *e)
{
    if (right || !is_set(t, reg))
        return 0;
    return rknn_regs_refuse(t->regs, reg, t->s->value[reg],
                            "a task's size or place that does not fit its tensors", e);
}

// The last block of channels may be stored as if it was full.
static bool is_aligned(uint32_t n, uint32_t of)
{
    for (uint32_t to = 1; to <= 64; to *= 2)
        if (n == (of + to - 1) / to * to)
            return true;
    return false;
}

// The output's width, height and pixels, which every unit on the way has: they count from 0 or, in
// the CNA, as `less` says.
static int check_output(const struct tile *t, struct error *e)
{
    const uint32_t *v = t->s->value;
    uint32_t w = t->width, h = t->height, less = t->less;
    bool sized = t->regs->chip->generation != CHIP_GEN_RK3566;
    uint32_t size = (h - 1) << 16 | (w - 1);
    int r = check(t, DPU_DATA_CUBE_WIDTH, w == t->c->y->dims[3], e);
    r = r < 0 ? r : check(t, DPU_DATA_CUBE_HEIGHT, h <= t->c->y->dims[2], e);
    r = r < 0 ? r : check(t, DPU_DATA_CUBE_NOTCH, v[DPU_DATA_CUBE_NOTCH] == 0, e);
    r = r < 0 ? r : check(t, CORE_DATAOUT_SIZE_0, v[CORE_DATAOUT_SIZE_0] == size, e);
    r = r < 0 ? r : check(t, CNA_DATA_SIZE2, bits(v[CNA_DATA_SIZE2], 10, 0) + less == w, e);
    r = r < 0 ? r : check(t, CNA_DATA_SIZE3, bits(v[CNA_DATA_SIZE3], 21, 0) + less == w * h, e);
    return r < 0 || !sized ? r : check(t, DPU_WRITE_SIZE_1, v[DPU_WRITE_SIZE_1] == size, e);
}

// Of RK3562 the core may work on more channels than are written.
// Of the others both count the same blocks.
static int check_channels(const struct tile *t, struct error *e)
{
    const uint32_t *v = t->s->value;
    enum chip_generation g = t->regs->chip->generation;
    uint32_t channels = bits(v[DPU_DATA_CUBE_CHANNEL], 12, 0);
    uint32_t core = v[CORE_DATAOUT_SIZE_1] & 0xffff;
    int r = check(t, CORE_DATAOUT_SIZE_1,
                  core == channels || (g == CHIP_GEN_RK3562 && core > channels), e);
    if (r < 0 || g != CHIP_GEN_RK3588)
        return r;
    return check(t, DPU_WRITE_SIZE_0, bits(v[DPU_WRITE_SIZE_0], 12, 0) == channels, e);
}

// From one block of channels to the next one. RK3562 writes the output of packed pixels by lines in
// a file of container 2.
static int check_strides(const struct tile *t, bool packed, struct error *e)
{
    static const uint32_t units[CHIP_N_GENERATIONS] = {1, 16, 16, 1, 1};
    const uint32_t *v = t->s->value;
    enum chip_generation g = t->regs->chip->generation;
    uint32_t atom = g == CHIP_GEN_RK3566 ? 8 : 16;
    uint64_t plane = (uint64_t)t->c->y->dims[2] * t->c->y->dims[3];
    uint64_t stride = (uint64_t)v[DPU_DST_SURF_STRIDE] * units[g];
    bool right = stride == plane * atom || stride == (plane + 3) / 4 * 4 * atom;
    bool odd = packed && g == CHIP_GEN_RK3562;
    return odd ? 0 : check(t, DPU_DST_SURF_STRIDE, right, e);
}

// How an image in blocks of channels is read: strides in pixels or in quarters of atoms, the second
// from a line's end on, in 28 bits.
static int check_image(const struct tile *t, bool packed, struct error *e)
{
    const uint32_t mask = 0xfffffff, *v = t->s->value;
    uint32_t width = t->c->x->dims[3], plane = t->c->x->dims[2] * width, whole = (plane + 3) & ~3u;
    uint32_t line = v[CNA_LINE_STRIDE] & mask, surface = v[CNA_SURF_STRIDE] & mask;
    int r = check(t, CNA_DATA_SIZE0, (v[CNA_DATA_SIZE0] >> 16) + t->less == width, e);
    if (r < 0 || packed)
        return r;
    const uint32_t surfaces[] = {plane - line,     whole - line, plane * 4 - line,
                                 whole * 4 - line, plane,        whole};
    bool right = false;
    for (size_t i = 0; i < sizeof surfaces / sizeof *surfaces; i++)
        right = right || surface == (surfaces[i] & mask);
    r = check(t, CNA_LINE_STRIDE, line == width || line == 4 * width, e);
    return r < 0 ? r : check(t, CNA_SURF_STRIDE, right, e);
}

// Bytes of a kernel: of all channels, or of those of a depthwise task.
static int check_weights(const struct tile *t, bool packed, struct error *e)
{
    const uint32_t *v = t->s->value;
    enum chip_generation g = t->regs->chip->generation;
    uint32_t taps = t->c->window->kernel[0] * t->c->window->kernel[1];
    uint32_t element = t->c->integer ? 1 : 2, each = v[CNA_WEIGHT_SIZE1] & 0x7ffff;
    uint32_t kernels = bits(v[CNA_WEIGHT_SIZE2], 13, 0) + t->less;
    uint32_t channels = (v[CORE_DATAOUT_SIZE_1] & 0xffff) + 1;
    bool fits = t->c->depthwise ? kernels == 1 || kernels == 2
                                : is_aligned(channels, kernels) || is_aligned(kernels, channels) ||
                                      kernels == t->c->y->dims[1];
    bool right =
        each % (taps * element) == 0 && is_aligned(each / (taps * element), t->c->x->dims[1]);
    int r = packed || t->c->depthwise ? 0 : check(t, CNA_WEIGHT_SIZE1, right, e);
    if (r == 0 && t->c->depthwise)
        r = check(t, CNA_WEIGHT_SIZE1, each % (taps * element) == 0, e);
    r = r < 0 ? r : check(t, CNA_WEIGHT_SIZE2, fits, e);
    if (r < 0 || (packed && g == CHIP_GEN_RK3562))
        return r;
    return check(t, CNA_WEIGHT_SIZE0, v[CNA_WEIGHT_SIZE0] == each * kernels, e);
}

// Channels of the image: all that are there, whole blocks of them, and those of the last 64.
static int check_depth(const struct tile *t, bool packed, struct error *e)
{
    const uint32_t *v = t->s->value;
    enum chip_generation g = t->regs->chip->generation;
    uint32_t stored = v[CNA_DATA_SIZE1] & 0xffff, real = v[CNA_DATA_SIZE1] >> 16 & 0x3fff;
    uint32_t all = t->c->x->dims[1];
    bool newer = g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562;
    bool right =
        is_aligned(stored + t->less, all) || (g == CHIP_GEN_RK3562 && is_aligned(stored + 1, all));
    if (packed)
        return 0;
    // RK3566 gives single pixels another form.
    int r = g == CHIP_GEN_RK3566
                ? 0
                : check(t, CNA_FC_DATA_SIZE1, (v[CNA_FC_DATA_SIZE1] & 0xffff) == stored, e);
    if (r < 0 || t->c->depthwise)
        return r;
    if (!newer)
        right = right && (real == all - 1 || real == (all - 1) % 64);
    return check(t, CNA_DATA_SIZE1, right, e);
}

// Lines of the image that the task's part of the output takes, those of the borders left out.
static int check_lines(const struct tile *t, bool packed, struct error *e)
{
    const struct graph_window *w = t->c->window;
    const uint32_t *v = t->s->value;
    enum chip_generation g = t->regs->chip->generation;
    bool newer = g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562, wide = newer || g == CHIP_GEN_RV1106;
    enum rknn_register reg = newer ? CNA_PADDING : CNA_PAD_CON0;
    uint32_t side = wide ? 8 : 4, mask = (1u << side) - 1;
    uint32_t top = v[reg] & mask, left = v[reg] >> side & mask;
    uint32_t lines = (v[CNA_DATA_SIZE0] & 0xffff) + t->less, fetched = v[CNA_FC_DATA_SIZE0];
    uint64_t taken = (uint64_t)(t->height - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0];
    bool padded = (top == 0 || top == w->pad[0] || w->pad[0] > mask) &&
                  (left == w->pad[1] || w->pad[1] > mask);
    int r = check(t, reg, padded, e);
    r = r < 0 ? r : check(t, CNA_DATA_SIZE0, lines <= t->c->x->dims[2], e);
    r = r < 0 ? r : check(t, CNA_DATA_SIZE0, (uint64_t)lines + top + w->pad[2] > taken, e);
    if (r < 0 || packed || g == CHIP_GEN_RK3566)
        return r;
    bool same = fetched >> 16 == v[CNA_DATA_SIZE0] >> 16 && (fetched & 0xffff) + t->less <= lines;
    return check(t, CNA_FC_DATA_SIZE0, same, e);
}

// What is added is as large as what it is added to.
static int check_addend(const struct tile *t, struct error *e)
{
    enum { BYPASS = 1 };
    const uint32_t *v = t->s->value;
    if (v[DPU_EW_CFG] & BYPASS || !t->c->addend)
        return 0;
    int r = check(t, RDMA_WIDTH, bits(v[RDMA_WIDTH], 12, 0) + 1 == t->width, e);
    return r < 0 ? r : check(t, RDMA_HEIGHT, bits(v[RDMA_HEIGHT], 12, 0) + 1 == t->height, e);
}

// Packed pixels are images as cameras give them, read by a form of their own: of these only the
// output, the lines and the weights are held against the tensors.
static int check_tile(const struct tile *t, struct error *e)
{
    enum { PACKED = 0xf000, PACKED_KINDS = 6 };
    uint32_t kind = t->s->value[CNA_CONV_CON1];
    bool newer = t->regs->chip->generation == CHIP_GEN_RK3562 ||
                 t->regs->chip->generation == CHIP_GEN_RK3576;
    bool packed = kind & PACKED || (newer && !t->c->depthwise && kind & PACKED_KINDS);
    int r = check_output(t, e);
    r = r < 0 ? r : check_channels(t, e);
    r = r < 0 ? r : check_strides(t, packed, e);
    r = r < 0 ? r : check_image(t, packed, e);
    r = r < 0 ? r : check_depth(t, packed, e);
    r = r < 0 ? r : check_lines(t, packed, e);
    r = r < 0 ? r : check_weights(t, packed, e);
    return r < 0 ? r : check_addend(t, e);
}

// Lines times channels, summed up over the tasks, are those of the output, or of its whole blocks
// of channels: no task is left out, and none writes what another one has written.
int rknn_tiles_agree(const struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_node *n, const struct rknn_agree_conv *c, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    struct rknn_walk w;
    uint64_t lines = 0;
    struct tile t = {
        .regs = regs, .c = c, .less = regs->chip->generation == CHIP_GEN_RK3576 ? 1 : 0};
    uint32_t value;
    bool said = rknn_regs_get(regs, CORE_DATAOUT_SIZE_0, &value) &&
                rknn_regs_get(regs, DPU_DATA_CUBE_WIDTH, &value) &&
                rknn_regs_get(regs, DPU_DATA_CUBE_CHANNEL, &value);
    rknn_walk_begin(&w, regs, f, n);
    while (said && (t.s = rknn_walk_next(&w)) != NULL) {
        if (t.s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY)
            continue;
        t.width = bits(t.s->value[DPU_DATA_CUBE_WIDTH], 12, 0) + 1;
        t.height = bits(t.s->value[DPU_DATA_CUBE_HEIGHT], 12, 0) + 1;
        lines += (uint64_t)t.height * (bits(t.s->value[DPU_DATA_CUBE_CHANNEL], 12, 0) + 1);
        if (check_tile(&t, e) < 0)
            return STATUS_MODEL_INVALID;
    }
    uint32_t height = c->y->dims[2];
    bool whole = height && lines % height == 0 && lines / height <= UINT32_MAX &&
                 is_aligned((uint32_t)(lines / height), c->y->dims[1]);
    if (!said || whole || c->y->dims[0] != 1)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "its tasks write %llu lines of channels, its output has %u of %u channels",
                     (unsigned long long)lines, height, c->y->dims[1]);
}
