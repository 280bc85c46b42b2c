// A convolution is split into tasks by lines of its output and by blocks of its channels. So all
// files have it; the sizes that follow from each other are in as many registers as there are units:
//
//     CNA: image, kernel, output ---> CORE: output ---> DPU: output ---> what is written
//                                                       RDMA: what is added
#include "npu/model/rknn/regs/check/rknn_tiles.h"

#include "npu/model/rknn/regs/check/rknn_fit.h"

// Shapes are those of the file's tensors; a batch repeats all of it. What a task may leave out
// holds what an earlier one of the node has set (rknn_walk).

// A task, and what its registers must say.
struct tile {
    const struct rknn_regs *regs;
    const struct rknn_state *s;
    const struct rknn_agree_conv *c;
    uint32_t less;          // what sizes in the CNA are short of
    uint32_t width, height; // of its output
    int32_t target;         // where the node's first task writes
    uint32_t target_base;
};

static int check(const struct tile *t, enum rknn_register reg, bool right, struct error *e)
{
    return rknn_fit(t->regs, t->s, reg, right, e);
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
    r = r < 0 ? r
              : check(t, DPU_DATA_CUBE_HEIGHT,
                      h <= t->c->y->dims[2] && v[DPU_DATA_CUBE_HEIGHT] == h - 1, e);
    r = r < 0 ? r : check(t, DPU_DATA_CUBE_NOTCH, v[DPU_DATA_CUBE_NOTCH] == 0, e);
    r = r < 0 ? r : check(t, CORE_DATAOUT_SIZE_0, v[CORE_DATAOUT_SIZE_0] == size, e);
    r = r < 0 ? r : check(t, CNA_DATA_SIZE2, rknn_bits(v[CNA_DATA_SIZE2], 10, 0) + less == w, e);
    r = r < 0 ? r
              : check(t, CNA_DATA_SIZE3, rknn_bits(v[CNA_DATA_SIZE3], 21, 0) + less == w * h, e);
    return r < 0 || !sized ? r : check(t, DPU_WRITE_SIZE_1, v[DPU_WRITE_SIZE_1] == size, e);
}

// RV1103, RV1106: whether as many channels are written as the task works on, or as are left of the
// output from its first one on.
static bool writes_rest(const struct tile *t)
{
    uint32_t core = (t->s->value[CORE_DATAOUT_SIZE_1] & 0xffff) + 1, all = t->c->y->dims[1];
    uint32_t written = rknn_bits(t->s->value[DPU_DATA_CUBE_CHANNEL], 28, 16) + 1;
    uint64_t surface = rknn_fit_bytes(t->regs, t->s, DPU_DST_SURF_STRIDE);
    uint64_t first =
        surface ? (t->s->value[DPU_DST_BASE] - t->target_base) / surface * rknn_fit_atom(t->regs)
                : 0;
    uint64_t left = first < all ? all - first : all;
    return written == core || (written == left && left < core);
}

// Of RK3562 the core may work on more channels than are written.
// Of the others both count the same blocks.
static int check_channels(const struct tile *t, struct error *e)
{
    const uint32_t *v = t->s->value;
    enum chip_generation g = t->regs->chip->generation;
    uint32_t channels = rknn_bits(v[DPU_DATA_CUBE_CHANNEL], 12, 0);
    uint32_t core = v[CORE_DATAOUT_SIZE_1] & 0xffff;
    int r = check(t, CORE_DATAOUT_SIZE_1,
                  core == channels || (g == CHIP_GEN_RK3562 && core > channels), e);
    if (r == 0 && g == CHIP_GEN_RV1106)
        return check(t, DPU_DATA_CUBE_CHANNEL, writes_rest(t), e);
    uint32_t size = v[DPU_WRITE_SIZE_0];
    uint32_t written = g == CHIP_GEN_RK3588 ? rknn_bits(size, 12, 0) : size >> 16;
    bool said = g == CHIP_GEN_RK3588 || g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562;
    return r < 0 || !said ? r : check(t, DPU_WRITE_SIZE_0, written == channels, e);
}

// From one block of channels to the next one.
static int check_strides(const struct tile *t, struct error *e)
{
    uint64_t plane = (uint64_t)t->c->y->dims[2] * t->c->y->dims[3];
    uint32_t block = rknn_fit_atom(t->regs) / (t->c->integer ? 1 : 2);
    uint64_t bytes = rknn_fit_bytes(t->regs, t->s, DPU_DST_SURF_STRIDE);
    bool right = rknn_fit_own_plane(t->regs, plane, bytes, false, t->c->y->dims[1] <= block);
    if (rknn_fit_halves(t->regs, t->s->value[CNA_CONV_CON1]))
        right = bytes == (uint64_t)t->width * t->height * rknn_fit_atom(t->regs);
    return check(t, DPU_DST_SURF_STRIDE, right, e);
}

// Packed pixels: whether so many bytes are a line, padded to some number of pixels, and then to
// what strides count in.
static bool is_line(const struct tile *t, uint64_t bytes, uint32_t unit)
{
    const struct graph_tensor *x = t->c->x;
    uint32_t pixel = x->dims[1] * (t->c->integer ? 1 : 2);
    for (uint64_t to = 1; to <= 16; to *= 2)
        if (bytes == ((x->dims[3] + to - 1) / to * to * pixel + unit - 1) / unit * unit)
            return true;
    return false;
}

// From the upper half's first line to the lower one's; the padding above the image is no line of
// it.
static uint64_t lines_of_half(const struct tile *t)
{
    uint32_t top = t->s->value[CNA_PADDING] & 0xff;
    uint64_t lines = (uint64_t)t->height * t->c->window->stride[0];
    return lines > top ? lines - top : lines;
}

// RK3588 counts pixels, the others 8 or 16 bytes; RK3562, RV1103 and RV1106 have all of a task's
// lines as one.
static int check_packed_image(const struct tile *t, struct error *e)
{
    const uint32_t *v = t->s->value;
    uint32_t width = t->c->x->dims[3], plane = t->c->x->dims[2] * width;
    uint32_t lines = (v[CNA_DATA_SIZE0] & 0xffff) + t->less;
    uint64_t line = v[CNA_LINE_STRIDE] & 0xfffffff, surface = v[CNA_SURF_STRIDE] & 0xfffffff;
    bool right = true, far = true;
    switch (t->regs->chip->generation) {
    case CHIP_GEN_RK3588:
        right = line == width;
        far = surface == plane - width;
        break;
    case CHIP_GEN_RK3566:
        right = is_line(t, line * 8, 8);
        far = surface == plane;
        break;
    case CHIP_GEN_RK3576:
        right = is_line(t, line * 16, 16);
        far = surface == line * lines;
        break;
    case CHIP_GEN_RK3562:
    case CHIP_GEN_RV1106: {
        bool single = is_line(t, line * 16, 16);
        right = single || (lines && line % lines == 0 && is_line(t, line / lines * 16, 16));
        far = single ? surface == plane : surface == line;
        if (rknn_fit_halves(t->regs, v[CNA_CONV_CON1]))
            far = single && surface == line * lines_of_half(t);
        break;
    }
    default:
        break;
    }
    int r = check(t, CNA_LINE_STRIDE, right, e);
    return r < 0 ? r : check(t, CNA_SURF_STRIDE, far, e);
}

// Kernels of packed pixels have room for as many channels as are fetched at once. With kind 6 their
// lines are whole atoms.
static int check_packed_weights(const struct tile *t, struct error *e)
{
    static const uint32_t pixels[CHIP_N_GENERATIONS] = {16, 4, 4, 4, 8}; // bytes, of int8
    enum { LINES = 4 };
    const uint32_t *v = t->s->value, *kernel = t->c->window->kernel;
    enum chip_generation g = t->regs->chip->generation;
    bool newer = g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562;
    uint32_t pixel = pixels[g] * (newer && !t->c->integer ? 2 : 1), line = kernel[1] * pixel;
    uint32_t each = v[CNA_WEIGHT_SIZE1] & 0x7ffff;
    if (newer && v[CNA_CONV_CON1] & LINES)
        line = (line + 15) / 16 * 16;
    return check(t, CNA_WEIGHT_SIZE1, each == kernel[0] * line, e);
}

// How an image in blocks of channels is read: lines in atoms; planes in pixels, of RK3588 from the
// first line's end on, in 28 bits.
static int check_image(const struct tile *t, bool packed, struct error *e)
{
    const uint32_t mask = 0xfffffff, *v = t->s->value;
    enum chip_generation g = t->regs->chip->generation;
    uint32_t width = t->c->x->dims[3], plane = t->c->x->dims[2] * width;
    uint32_t atom = rknn_fit_atom(t->regs), block = atom / (t->c->integer ? 1 : 2);
    uint32_t line = v[CNA_LINE_STRIDE] & mask, surface = v[CNA_SURF_STRIDE] & mask;
    uint32_t before = g == CHIP_GEN_RK3588 ? line : 0;
    int r = check(t, CNA_DATA_SIZE0, (v[CNA_DATA_SIZE0] >> 16) + t->less == width, e);
    if (r < 0 || packed)
        return r < 0 ? r : check_packed_image(t, e);
    bool right = rknn_fit_own_plane(t->regs, plane, (uint64_t)((surface + before) & mask) * atom,
                                    t->c->of_input, t->c->x->dims[1] <= block);
    uint32_t lines = rknn_fit_stride_lines(t->regs, v[CNA_CONV_CON1]);
    r = check(t, CNA_LINE_STRIDE, line == width * lines, e);
    return r < 0 ? r : check(t, CNA_SURF_STRIDE, right, e);
}

// As many kernels as channels, of which the core may make whole blocks; an odd number may have one
// more, and RK3576 and RV1126B fill up blocks of them. A task may have the rest of what tasks of
// whole blocks have left.
static bool is_kernels(const struct tile *t, uint32_t kernels, uint32_t channels)
{
    uint32_t all = t->c->y->dims[1];
    bool filled = t->regs->chip->generation == CHIP_GEN_RK3576 && rknn_fit_blocks(kernels, all);
    bool rest = kernels < all && (all - kernels) % 16 == 0 && rknn_fit_blocks(channels, kernels);
    bool pair = all % 2 && kernels == all + 1;
    return kernels == channels || kernels == all || pair || rest || (channels == all && filled);
}

// Bytes of a kernel: of all channels, or of those of a depthwise task.
static int check_weights(const struct tile *t, bool packed, struct error *e)
{
    const uint32_t *v = t->s->value;
    enum chip_generation g = t->regs->chip->generation;
    uint32_t taps = t->c->window->kernel[0] * t->c->window->kernel[1];
    uint32_t element = t->c->integer ? 1 : 2, each = v[CNA_WEIGHT_SIZE1] & 0x7ffff;
    uint32_t kernels = rknn_bits(v[CNA_WEIGHT_SIZE2], 13, 0) + t->less;
    uint32_t channels = (v[CORE_DATAOUT_SIZE_1] & 0xffff) + 1;
    bool fits = t->c->depthwise ? kernels == 1 || kernels == 2 : is_kernels(t, kernels, channels);
    bool right =
        each % (taps * element) == 0 && rknn_fit_blocks(each / (taps * element), t->c->x->dims[1]);
    int r = packed ? check_packed_weights(t, e) : 0;
    if (r == 0 && !packed && !t->c->depthwise)
        r = check(t, CNA_WEIGHT_SIZE1, right, e);
    if (r == 0 && t->c->depthwise)
        r = check(t, CNA_WEIGHT_SIZE1, each % (taps * element) == 0, e);
    r = r < 0 ? r : check(t, CNA_WEIGHT_SIZE2, fits, e);
    if (r < 0 || (packed && g == CHIP_GEN_RK3562))
        return r;
    return check(t, CNA_WEIGHT_SIZE0, v[CNA_WEIGHT_SIZE0] == each * kernels, e);
}

// A depthwise task fetches the channels that it writes.
static int check_own_depth(const struct tile *t, uint32_t stored, uint32_t real, struct error *e)
{
    enum chip_generation g = t->regs->chip->generation;
    bool newer = g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562;
    uint32_t written = rknn_bits(t->s->value[DPU_DATA_CUBE_CHANNEL], 12, 0) + 1,
             n = stored + t->less;
    uint32_t all = t->c->x->dims[1];
    bool whole = n == all || n % 8 == 0;
    bool right = rknn_fit_blocks(n, written) || (rknn_fit_blocks(written, n) && whole);
    if (!newer)
        right = right && (real == all - 1 || real == (all - 1) % 64 || real == stored - 1 ||
                          real == (stored - 1) % 64);
    return check(t, CNA_DATA_SIZE1, right, e);
}

// Channels of the image: all that are there, whole blocks of them, and those of the last 64.
static int check_depth(const struct tile *t, bool packed, struct error *e)
{
    const uint32_t *v = t->s->value;
    enum chip_generation g = t->regs->chip->generation;
    uint32_t stored = v[CNA_DATA_SIZE1] & 0xffff, real = v[CNA_DATA_SIZE1] >> 16 & 0x3fff;
    uint32_t all = t->c->x->dims[1];
    bool newer = g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562;
    bool right = rknn_fit_blocks(stored + t->less, all) ||
                 (g == CHIP_GEN_RK3562 && rknn_fit_blocks(stored + 1, all));
    if (packed)
        return 0;
    // RK3566 gives single pixels another form.
    int r = g == CHIP_GEN_RK3566
                ? 0
                : check(t, CNA_FC_DATA_SIZE1, (v[CNA_FC_DATA_SIZE1] & 0xffff) == stored, e);
    if (r < 0 || t->c->depthwise)
        return r < 0 ? r : check_own_depth(t, stored, real, e);
    if (!newer)
        right = right && (real == all - 1 || real == (all - 1) % 64);
    return check(t, CNA_DATA_SIZE1, right, e);
}

// The output's line that the task begins with; the node's first task begins with the first one.
// False: the task writes elsewhere, which says nothing of lines.
static bool first_line(const struct tile *t, uint64_t *ret)
{
    uint64_t line = (uint64_t)t->width * rknn_fit_atom(t->regs);
    uint64_t surface = rknn_fit_bytes(t->regs, t->s, DPU_DST_SURF_STRIDE);
    uint32_t to = t->s->value[DPU_DST_BASE];
    if (t->s->tensor[DPU_DST_BASE] != t->target || to < t->target_base)
        return false;
    uint64_t at = to - t->target_base;
    *ret = (surface ? at % surface : at) / line;
    return true;
}

// What is padded above the task's lines: less where it begins farther down. Halves lie otherwise.
static bool is_top(const struct tile *t, uint32_t top, uint32_t pad)
{
    uint64_t line;
    if (rknn_fit_halves(t->regs, t->s->value[CNA_CONV_CON1]) || !first_line(t, &line))
        return top == 0 || top == pad;
    uint64_t before = line * t->c->window->stride[0];
    return top == (before < pad ? pad - before : 0);
}

// Only what begins with the image's first line is padded above it: the file says where in its
// tensor an address is, where container 0x1004 does not (rknn_bases.c).
static bool begins_at_top(const struct tile *t, bool packed)
{
    uint64_t pixels = (uint64_t)t->c->x->dims[2] * t->c->x->dims[3];
    uint64_t at = t->s->value[CNA_FEATURE_BASE], atom = rknn_fit_atom(t->regs);
    if (t->s->tensor[CNA_FEATURE_BASE] < 0 || !at)
        return true;
    return !packed && pixels &&
           (at % (pixels * atom) == 0 || at % ((pixels + 3) / 4 * 4 * atom) == 0);
}

// RK3562 and RK3576 fetch the lower lines of a tile where upper ones are in the buffer already: its
// first line is as many lines in front of the address as are not fetched, and is the one that the
// output's first line begins with.
static bool begins_with_output(const struct tile *t, uint32_t top, uint32_t not_fetched)
{
    const uint32_t *v = t->s->value;
    const struct graph_window *w = t->c->window;
    uint64_t plane = ((uint64_t)t->c->x->dims[2] * t->c->x->dims[3] + 3) / 4 * 4;
    uint64_t in = v[CNA_SURF_STRIDE] & 0xfffffff, out = v[DPU_DST_SURF_STRIDE];
    uint32_t across = t->c->x->dims[3], along = t->c->y->dims[3];
    if (t->s->tensor[CNA_FEATURE_BASE] < 0 || t->s->tensor[DPU_DST_BASE] < 0)
        return true;
    if (!across || !along)
        return false;
    uint64_t from = v[CNA_FEATURE_BASE] / 16 % (in ? in : plane);
    uint64_t to = out ? v[DPU_DST_BASE] / 16 % out : v[DPU_DST_BASE] / 16;
    return from % across == 0 && to % along == 0 &&
           from / across + w->pad[0] == to / along * w->stride[0] + not_fetched + top;
}

// Whether the last line that is fetched is one of the image, and no other channels' first one.
// Planes may be filled up to fours of atoms.
static bool ends_in_image(const struct tile *t, bool packed, uint32_t fetched)
{
    uint64_t pixels = (uint64_t)t->c->x->dims[2] * t->c->x->dims[3];
    uint64_t at = t->s->value[CNA_FEATURE_BASE] / rknn_fit_atom(t->regs);
    uint32_t across = t->c->x->dims[3], down = t->c->x->dims[2];
    if (packed || t->s->tensor[CNA_FEATURE_BASE] < 0 || !pixels ||
        rknn_fit_halves(t->regs, t->s->value[CNA_CONV_CON1]))
        return true;
    return at % pixels / across + fetched <= down ||
           at % ((pixels + 3) / 4 * 4) / across + fetched <= down;
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
    bool padded =
        (w->pad[0] > mask || is_top(t, top, w->pad[0])) && (left == w->pad[1] || w->pad[1] > mask);
    int r = check(t, reg, padded && (!top || begins_at_top(t, packed)), e);
    if (r == 0 && rknn_fit_halves(t->regs, v[CNA_CONV_CON1]))
        r = check(t, reg, v[reg] >> 16 == (w->pad[3] << 8 | (top == w->pad[0] ? 0 : w->pad[2])), e);
    r = r < 0 ? r : check(t, CNA_DATA_SIZE0, lines <= t->c->x->dims[2], e);
    r = r < 0 ? r : check(t, CNA_DATA_SIZE0, (uint64_t)lines + top + w->pad[2] > taken, e);
    uint32_t fetched_lines = newer ? (fetched & 0xffff) + t->less : lines;
    r = r < 0 ? r : check(t, CNA_DATA_SIZE0, ends_in_image(t, packed, fetched_lines), e);
    if (r < 0 || packed || g == CHIP_GEN_RK3566)
        return r;
    fetched_lines = (fetched & 0xffff) + t->less;
    bool same = fetched >> 16 == v[CNA_DATA_SIZE0] >> 16 && fetched_lines <= lines;
    // Of a part of the image, lines may be in the buffer from the task before.
    bool enough = lines < t->c->x->dims[2] || (uint64_t)fetched_lines + top + w->pad[2] > taken;
    r = check(t, CNA_FC_DATA_SIZE0, same && enough, e);
    if (r < 0 || !newer || rknn_fit_halves(t->regs, v[CNA_CONV_CON1]))
        return r;
    return check(t, CNA_DATA_SIZE0, begins_with_output(t, top, lines - fetched_lines), e);
}

// Of an image that is spread out: what is fetched of it are lines that the task takes.
static int check_fetched(const struct tile *t, bool packed, struct error *e)
{
    const uint32_t *v = t->s->value;
    uint32_t lines = v[CNA_DATA_SIZE0] & 0xffff, fetched = v[CNA_FC_DATA_SIZE0];
    if (packed || t->regs->chip->generation == CHIP_GEN_RK3566)
        return 0;
    return check(t, CNA_FC_DATA_SIZE0,
                 fetched >> 16 == v[CNA_DATA_SIZE0] >> 16 && (fetched & 0xffff) <= lines, e);
}

// RK3588 has two readers for what is added, each of every second surface.
static int check_readers(const struct tile *t, struct error *e)
{
    const uint32_t *v = t->s->value;
    uint32_t atom = rknn_fit_atom(t->regs), surfaces = (t->c->y->dims[1] + atom - 1) / atom;
    uint64_t next_but_one = 2 * (uint64_t)v[RDMA_EW_SURF_STRIDE];
    uint64_t notch = next_but_one - (uint64_t)t->width * t->height * atom;
    if (t->regs->chip->generation != CHIP_GEN_RK3588 || !t->c->integer || surfaces <= 2)
        return 0;
    int r = check(t, RDMA_SURF_NOTCH, v[RDMA_SURF_NOTCH] == notch, e);
    return r < 0 ? r : check(t, RDMA_EW_SURF_NOTCH, v[RDMA_EW_SURF_NOTCH] == notch, e);
}

// What is added is as large as what it is added to.
static int check_addend(const struct tile *t, struct error *e)
{
    enum { BYPASS = 1 };
    const uint32_t *v = t->s->value;
    if (v[DPU_EW_CFG] & BYPASS || !t->c->addend)
        return 0;
    int r = check(t, RDMA_WIDTH, rknn_bits(v[RDMA_WIDTH], 12, 0) + 1 == t->width, e);
    r = r < 0 ? r : check(t, RDMA_HEIGHT, v[RDMA_HEIGHT] + 1 == t->height, e);
    uint64_t plane = (uint64_t)t->c->y->dims[2] * t->c->y->dims[3];
    uint64_t stride = rknn_fit_bytes(t->regs, t->s, RDMA_EW_SURF_STRIDE);
    r = r < 0 ? r : check(t, RDMA_EW_SURF_STRIDE, rknn_fit_plane(t->regs, plane, stride), e);
    return r < 0 ? r : check_readers(t, e);
}

// Real numbers of 32 bits, in front of and behind an activation by a table (RK3588): a task
// multiplies the two, each of which has atoms of twice the output's size.
static int check_product(const struct tile *t, struct error *e)
{
    enum { FLOATS_TO_HALVES = 0x54000005 };
    const uint32_t *v = t->s->value;
    uint64_t plane = (uint64_t)t->c->y->dims[2] * t->c->y->dims[3], stride = v[DPU_DST_SURF_STRIDE];
    uint64_t notch = 2 * stride - (uint64_t)t->width * t->height * rknn_fit_atom(t->regs);
    if (v[DPU_DATA_FORMAT] != FLOATS_TO_HALVES || t->regs->chip->generation != CHIP_GEN_RK3588)
        return 0;
    int r = check(t, DPU_DATA_CUBE_WIDTH, t->width == t->c->y->dims[3], e);
    r = r < 0 ? r : check(t, DPU_DATA_CUBE_HEIGHT, t->height <= t->c->y->dims[2], e);
    r = r < 0 ? r : check(t, DPU_DATA_CUBE_NOTCH, v[DPU_DATA_CUBE_NOTCH] == 0, e);
    r = r < 0 ? r : check(t, DPU_DST_SURF_STRIDE, rknn_fit_plane(t->regs, plane, stride), e);
    r = r < 0 ? r : check(t, RDMA_WIDTH, rknn_bits(v[RDMA_WIDTH], 12, 0) + 1 == t->width, e);
    r = r < 0 ? r : check(t, RDMA_HEIGHT, v[RDMA_HEIGHT] + 1 == t->height, e);
    r = r < 0 ? r : check(t, RDMA_SURF_NOTCH, v[RDMA_SURF_NOTCH] == notch, e);
    r = r < 0 ? r : check(t, RDMA_EW_SURF_STRIDE, v[RDMA_EW_SURF_STRIDE] == 2 * stride, e);
    return r < 0 ? r : check(t, RDMA_EW_SURF_NOTCH, v[RDMA_EW_SURF_NOTCH] == notch, e);
}

// Of blocks of channels: that a stride is that of one line, and of RK3562 which tasks share the
// chip's buffer.
static bool is_known_lines(const struct tile *t, uint32_t kind)
{
    enum { FIRST = 28, SHARED = 1, ONE_BY_ONE = 2 };
    static const uint32_t known[CHIP_N_GENERATIONS] = {[CHIP_GEN_RK3588] = ONE_BY_ONE,
                                                       [CHIP_GEN_RK3576] = ONE_BY_ONE,
                                                       [CHIP_GEN_RK3562] = ONE_BY_ONE | SHARED};
    return !(kind >> FIRST & ~known[t->regs->chip->generation]);
}

// Packed pixels are images as cameras give them, read by a form of their own. IN_ORDER is a field
// from this bit on. Which lines of an image that is spread out are taken is not looked at.
static int check_tile(const struct tile *t, struct error *e)
{
    enum { PACKED = 0xf000, PACKED_KINDS = 6, IN_ORDER = 25, OWN = 0x20 };
    uint32_t kind = t->s->value[CNA_CONV_CON1];
    bool newer = t->regs->chip->generation == CHIP_GEN_RK3562 ||
                 t->regs->chip->generation == CHIP_GEN_RK3576;
    bool packed = kind & PACKED || (newer && !t->c->depthwise && kind & PACKED_KINDS);
    // Pixels and channels follow each other, which of one atom says nothing.
    uint32_t place = t->s->value[DPU_FEATURE_MODE_CFG] >> IN_ORDER, own = t->less ? OWN : 0;
    bool pixel = t->width * t->height == 1 && t->c->y->dims[1] <= rknn_fit_atom(t->regs);
    int r = check(t, CNA_CONV_CON1, packed || is_known_lines(t, kind), e);
    r = r < 0 ? r : check(t, DPU_FEATURE_MODE_CFG, place == own || pixel, e);
    r = r < 0 ? r : check_output(t, e);
    r = r < 0 ? r : check_channels(t, e);
    r = r < 0 ? r : check_strides(t, e);
    r = r < 0 ? r : check_image(t, packed, e);
    r = r < 0 ? r : check_depth(t, packed, e);
    r = r < 0 ? r : t->c->transposed ? check_fetched(t, packed, e) : check_lines(t, packed, e);
    r = r < 0 ? r : check_weights(t, packed, e);
    return r < 0 ? r : check_addend(t, e);
}

// Lines times channels, summed up over the tasks, are those of the output, or of its whole blocks
// of channels: no task is left out, and none writes what another one has written.
int rknn_tiles_agree(const struct rknn_regs *regs, const struct rknn_agree_conv *c, struct error *e)
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
    rknn_walk_begin(&w, regs);
    while (said && (t.s = rknn_walk_next(&w)) != NULL) {
        t.width = rknn_bits(t.s->value[DPU_DATA_CUBE_WIDTH], 12, 0) + 1;
        t.height = rknn_bits(t.s->value[DPU_DATA_CUBE_HEIGHT], 12, 0) + 1;
        if (t.s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY) {
            if (check_product(&t, e) < 0)
                return STATUS_MODEL_INVALID;
            continue;
        }
        if (!lines) {
            t.target = t.s->tensor[DPU_DST_BASE];
            t.target_base = t.s->value[DPU_DST_BASE];
        }
        lines += (uint64_t)t.height * (rknn_bits(t.s->value[DPU_DATA_CUBE_CHANNEL], 12, 0) + 1);
        if (check_tile(&t, e) < 0)
            return STATUS_MODEL_INVALID;
    }
    uint32_t height = c->y->dims[2];
    bool whole = height && lines % height == 0 && rknn_fit_blocks(lines / height, c->y->dims[1]);
    if (!said || whole || c->y->dims[0] != 1)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "its tasks write %llu lines of channels, its output has %u of %u channels",
                     (unsigned long long)lines, height, c->y->dims[1]);
}
