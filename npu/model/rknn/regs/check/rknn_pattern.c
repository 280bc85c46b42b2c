// Where a task reads is a cube in blocks of channels on all chips. What it writes has one of five
// forms, of which files' own programs show what they do, as what one task writes the next one
// reads:
//
//     cube         lines of atoms, which may have gaps between them
//     apart        lines of pixels that have gaps between them: the writer is told of lines of one
//     moved        atoms stay whole, pixels become surfaces, lines become pixels, surfaces lines
//     transposed   the pixels of a channel come to lie side by side
//     stream       atoms one behind the other, of a line's last one only some bytes
//
// Each is a sum of counters times strides. Where strides do not contain each other (two pixels
// could be written to one place) the form is not known, and refused.
#include "npu/model/rknn/regs/check/rknn_pattern.h"

#include "npu/model/rknn/regs/check/rknn_fit.h"

#define WIDE 16 // bytes of an atom, but of bytes and halves on RK3566 and RK3568

struct task {
    const struct rknn_regs *regs;
    const struct rknn_state *s;
    enum chip_generation generation;
    uint32_t atom;
    uint32_t element;                 // bytes
    uint32_t channels, height, width; // of what is read
    uint32_t repeat[2];               // each line and each pixel is written so often
};

static uint32_t value_of(const struct task *t, enum rknn_register reg)
{
    return t->s->value[reg];
}

static uint32_t size_in(const struct task *t, enum rknn_register reg, unsigned low)
{
    return rknn_bits(value_of(t, reg), low + 12, low) + 1;
}

static int refuse_register(const struct task *t, enum rknn_register reg, const char *why,
                           struct error *e)
{
    return rknn_regs_refuse(t->regs, reg, value_of(t, reg), why, e);
}

// RK3576, RV1126B and RK3562 count strides in atoms.
static bool counts_atoms(const struct task *t)
{
    return t->generation == CHIP_GEN_RK3576 || t->generation == CHIP_GEN_RK3562;
}

static uint64_t stride_of(const struct task *t, enum rknn_register reg)
{
    bool old = t->generation == CHIP_GEN_RK3588 || t->generation == CHIP_GEN_RK3566;
    uint64_t bytes = rknn_fit_bytes(t->regs, t->s, reg);
    return old ? bytes / t->atom * t->atom : bytes;
}

// ---- addresses ----

// As a byte of the arena. What lies elsewhere is nowhere in it, and so are addresses of no tensor.
static uint64_t address_of(const struct rknn_file *f, const struct rknn_state *s,
                           enum rknn_register reg)
{
    const struct rknn_container *c = &f->container;
    if (c->kind == RKNN_LITE)
        return (uint64_t)s->value[reg] - c->registers.size - c->scratch.size - c->weights.size;
    const struct rknn_tensor *t = s->tensor[reg] < 0 ? NULL : &f->tensors[s->tensor[reg]];
    bool inside = t && !t->data.size;
    return inside ? (uint64_t)t->offset + s->value[reg] : UINT64_MAX / 2;
}

// ---- what is read ----

static uint32_t bytes_of(uint32_t precision)
{
    static const uint8_t bytes[8] = {1, 2, 2, 2, 4, 4, 0, 0};
    return bytes[precision & 7];
}

// Elements of more than 8 bits stay as they are; of others it is known what becomes of them
// (rknn_chain.c).
static int check_values(const struct task *t, struct error *e)
{
    const uint32_t precisions = 0xfc000007;
    if (!(value_of(t, DPU_DATA_FORMAT) & precisions))
        return 0;
    if ((value_of(t, DPU_OUT_CVT_SCALE) & 0xffff) != 1)
        return refuse_register(t, DPU_OUT_CVT_SCALE, "it scales what it moves", e);
    if (value_of(t, DPU_OUT_CVT_SHIFT))
        return refuse_register(t, DPU_OUT_CVT_SHIFT, "it scales what it moves", e);
    return value_of(t, DPU_OUT_CVT_OFFSET)
               ? refuse_register(t, DPU_OUT_CVT_OFFSET, "it adds to what it moves", e)
               : 0;
}

static int take_sizes(struct task *t, struct error *e)
{
    uint32_t format = value_of(t, DPU_DATA_FORMAT), out = rknn_bits(format, 31, 29);
    uint32_t in =
        t->regs->chip->bn_relu_field ? rknn_bits(format, 28, 26) : rknn_bits(format, 2, 0);
    t->element = bytes_of(out);
    t->channels = size_in(t, RDMA_CHANNEL, 0);
    t->height = size_in(t, RDMA_HEIGHT, 0);
    t->width = size_in(t, RDMA_WIDTH, 0);
    t->repeat[0] = t->repeat[1] = 1;
    if (!t->element)
        return refuse_register(t, DPU_DATA_FORMAT, "it moves elements of an unknown size", e);
    if (check_values(t, e) < 0)
        return STATUS_MODEL_INVALID;
    uint32_t again = value_of(t, RDMA_SRC_DMA_CFG) & 0x3fff,
             reader = value_of(t, RDMA_FEATURE_MODE_CFG);
    uint32_t read = rknn_bits(reader, 17, 15);
    if (!again)
        return in == out && read == in
                   ? 0
                   : refuse_register(t, DPU_DATA_FORMAT,
                                     "it moves elements and makes others of them", e);
    // The nearest pixels of an image that becomes larger.
    uint32_t high = rknn_bits(again, 5, 3), wide = rknn_bits(again, 2, 0);
    if (again != (1u << 12 | high << 9 | wide << 6 | high << 3 | wide) ||
        t->channels * bytes_of(read) != t->atom)
        return refuse_register(t, RDMA_SRC_DMA_CFG, "how it repeats pixels is not known", e);
    t->repeat[0] = high + 1;
    t->repeat[1] = wide + 1;
    t->channels = t->atom / t->element;
    return 0;
}

static void take_source(const struct task *t, struct rknn_pattern *p)
{
    bool apart = counts_atoms(t);
    uint64_t notch = apart ? value_of(t, RDMA_LINE_NOTCH) : value_of(t, RDMA_SRC_DMA_CFG) >> 19;
    uint64_t behind = value_of(t, RDMA_SURF_NOTCH);
    p->atom = t->element == 4 ? WIDE : t->atom;
    p->width = t->width;
    p->pixels = t->width * t->height;
    p->bytes = t->channels * t->element;
    p->line = (t->width + notch) * p->atom;
    if (apart) // 28 bits with a sign
        behind = (uint64_t)(((int64_t)(behind & 0xfffffff) ^ 0x8000000) - 0x8000000) * WIDE;
    else
        behind = (uint64_t)(int64_t)(int32_t)behind;
    p->surface = (uint64_t)(t->height - 1) * p->line + (uint64_t)t->width * p->atom + behind;
}

// ---- what is written ----

// A counter behind those there are; one that goes on where the last one ends is part of that.
static void add_digit(struct rknn_pattern *p, uint64_t n, uint64_t stride, bool channel,
                      uint32_t weight)
{
    struct rknn_digit *last = p->n_digits ? &p->digits[p->n_digits - 1] : NULL;
    if (n > 1 && last && last->channel == channel && weight && last->n * last->stride == stride &&
        last->n * last->weight == weight)
        last->n *= n;
    else if (n > 1)
        p->digits[p->n_digits++] = (struct rknn_digit){n, stride, weight, channel};
}

static uint64_t count_surfaces(const struct rknn_pattern *p, uint32_t atom)
{
    return (p->bytes + atom - 1) / atom;
}

// RK3588's transposed write. Where elements of 16 bits are taken apart into bytes, the two eights
// of a surface are a line apart, and SURFACE_ADD is the step to what comes next, be it surfaces or
// pixels.
static int transpose_rk3588(const struct task *t, struct rknn_pattern *p)
{
    uint32_t rows = size_in(t, DPU_WRITE_SIZE_1, 16), columns = size_in(t, DPU_WRITE_SIZE_1, 0);
    uint64_t line = (uint64_t)(columns + rknn_bits(value_of(t, DPU_DATA_CUBE_NOTCH), 12, 0)) * WIDE;
    uint64_t next = stride_of(t, DPU_SURFACE_ADD), outer = next;
    bool words = rknn_bits(value_of(t, DPU_WRITE_SIZE_0), 27, 27);
    uint32_t unit = words ? 2 : 1, per = WIDE / unit, groups = (p->pixels + per - 1) / per;
    uint32_t wide = columns;
    if (!words || (uint64_t)rows * columns != groups) {
        bool single = rows * columns == 1;
        bool pair = columns == 1 && rows == 2 && (t->channels <= 8 || groups == 1);
        if (words ? !single : !pair)
            return RKNN_PATTERN_UNREAD;
        outer = words ? next * groups : next;
        wide = 1;
    }
    add_digit(p, unit, 1, true, 1);
    add_digit(p, 8, stride_of(t, DPU_DST_SURF_STRIDE), true, unit);
    add_digit(p, words ? 1 : 2, line, true, 8 * unit);
    add_digit(p, count_surfaces(p, WIDE), outer, true, WIDE);
    add_digit(p, per, unit, false, 1);
    add_digit(p, wide, WIDE, false, per);
    add_digit(p, (groups + wide - 1) / wide, wide == columns && words ? line : next, false,
              per * wide);
    return 0;
}

// RK3576: a line is one channel's.
static void transpose_rk3576(const struct task *t, struct rknn_pattern *p)
{
    uint32_t columns = size_in(t, DPU_WRITE_SIZE_1, 0), per = WIDE / t->element;
    uint64_t line = (uint64_t)(columns + rknn_bits(value_of(t, DPU_DATA_CUBE_NOTCH), 12, 0)) * WIDE;
    uint32_t groups = (p->pixels + per - 1) / per;
    add_digit(p, t->element, 1, true, 1);
    add_digit(p, t->channels, stride_of(t, DPU_DST_SURF_STRIDE), true, t->element);
    add_digit(p, per, t->element, false, 1);
    add_digit(p, columns, WIDE, false, per);
    add_digit(p, (groups + columns - 1) / columns, line, false, per * columns);
}

// RK3562, RV1103 and RV1106 take elements of 32 bits apart into bytes. SURFACE_ADD is the step to
// what comes next: to more pixels, or, of those of one atom, to the next surface.
static int transpose_rk3562(const struct task *t, struct rknn_pattern *p)
{
    uint32_t rows = size_in(t, DPU_WRITE_SIZE_1, 16), columns = size_in(t, DPU_WRITE_SIZE_1, 0);
    uint64_t half = (uint64_t)(columns + rknn_bits(value_of(t, DPU_DATA_CUBE_NOTCH), 12, 0)) * WIDE;
    uint64_t next = stride_of(t, DPU_SURFACE_ADD);
    if (columns != 1 || rows != 2 || (t->channels > 4 && p->pixels > WIDE))
        return RKNN_PATTERN_UNREAD;
    add_digit(p, 8, stride_of(t, DPU_DST_SURF_STRIDE), true, 1);
    add_digit(p, 2, half, true, 8);
    if (t->channels > 4)
        add_digit(p, count_surfaces(p, WIDE), next, true, WIDE);
    add_digit(p, WIDE, 1, false, 1);
    add_digit(p, (p->pixels + WIDE - 1) / WIDE, next, false, WIDE);
    return 0;
}

// RK3566 and RK3568 say the number of columns, which is one, where their cubes have a height.
static int write_moved(const struct task *t, struct rknn_pattern *p, struct error *e)
{
    bool old = t->generation == CHIP_GEN_RK3566;
    enum rknn_register reg = old ? DPU_DATA_CUBE_HEIGHT : DPU_WRITE_SIZE_1;
    uint32_t columns = size_in(t, reg, 0);
    uint64_t line =
        (uint64_t)(columns + rknn_bits(value_of(t, DPU_DATA_CUBE_NOTCH), 12, 0)) * t->atom;
    if (columns != t->height || (old && columns != 1))
        return refuse_register(t, reg, "what it transposes is not known", e);
    add_digit(p, t->atom, 1, true, 1);
    add_digit(p, count_surfaces(p, t->atom), line, true, t->atom);
    add_digit(p, t->width, stride_of(t, DPU_DST_SURF_STRIDE), false, 1);
    add_digit(p, t->height, t->atom, false, t->width);
    return 0;
}

// How many channels the writer has.
static uint32_t written_channels(const struct task *t)
{
    switch (t->generation) {
    case CHIP_GEN_RK3588:
        return size_in(t, DPU_WRITE_SIZE_0, 0);
    case CHIP_GEN_RK3566:
        return size_in(t, DPU_DATA_CUBE_CHANNEL, 0);
    case CHIP_GEN_RV1106:
        return size_in(t, DPU_DATA_CUBE_CHANNEL, 16);
    default:
        return (value_of(t, DPU_WRITE_SIZE_0) >> 16) + 1;
    }
}

// RK3588: pixels that are read as few of each of many lines, and written as as many in a line.
static bool is_regrouped(const struct task *t, uint32_t rows, uint32_t columns)
{
    return t->generation == CHIP_GEN_RK3588 && t->repeat[0] == 1 &&
           (uint64_t)rows * columns == (uint64_t)t->height * t->width &&
           size_in(t, DPU_DATA_CUBE_HEIGHT, 0) == rows &&
           size_in(t, DPU_DATA_CUBE_WIDTH, 0) == columns &&
           stride_of(t, DPU_DST_SURF_STRIDE) == t->atom &&
           written_channels(t) * t->element ==
               (rknn_bits(value_of(t, DPU_WRITE_SIZE_0), 26, 16) + 1) * t->atom;
}

static void write_cube(const struct task *t, struct rknn_pattern *p, uint32_t columns,
                       uint64_t line, uint64_t pixel, uint64_t surface)
{
    uint32_t again = t->repeat[1];
    add_digit(p, t->atom, 1, true, 1);
    add_digit(p, count_surfaces(p, t->atom), surface, true, t->atom);
    add_digit(p, again, pixel, false, 0);
    add_digit(p, columns, pixel * again, false, 1);
    add_digit(p, p->pixels / columns, line, false, columns);
    add_digit(p, t->repeat[0], surface, false, 0);
}

// The writer may count the same pixels by other lines, if none has a gap.
static bool is_recounted(const struct task *t, uint32_t rows, uint32_t columns)
{
    return t->repeat[0] == 1 && t->repeat[1] == 1 && !(value_of(t, DPU_DATA_CUBE_NOTCH) & 0x1fff) &&
           (uint64_t)rows * columns == (uint64_t)t->height * t->width;
}

static int write_lines(const struct task *t, struct rknn_pattern *p, struct error *e)
{
    bool old = t->generation == CHIP_GEN_RK3566;
    enum rknn_register reg = old ? DPU_DATA_CUBE_WIDTH : DPU_WRITE_SIZE_1;
    uint32_t rows = old ? size_in(t, DPU_DATA_CUBE_HEIGHT, 0) : size_in(t, DPU_WRITE_SIZE_1, 16);
    uint32_t columns = size_in(t, reg, 0), wide = t->width * t->repeat[1];
    uint64_t notch = rknn_bits(value_of(t, DPU_DATA_CUBE_NOTCH), 12, 0);
    uint64_t surface = stride_of(t, DPU_DST_SURF_STRIDE);
    uint32_t channels = written_channels(t);
    bool regrouped = is_regrouped(t, rows, columns), whole = rows == t->height && columns == wide;
    bool recounted = !regrouped && is_recounted(t, rows, columns);
    bool apart = !whole && !regrouped && !recounted && rows == t->height && columns == 1 &&
                 t->repeat[1] == 1;
    if (apart && t->generation != CHIP_GEN_RV1106)
        channels /= t->width;
    if (!whole && !regrouped && !recounted && !apart)
        return refuse_register(t, reg, "a task's size that is not that of what it reads", e);
    if (!channels)
        return refuse_register(t, reg, "a task's size that is not that of what it reads", e);
    if (channels * t->element < p->bytes)
        p->bytes = channels * t->element;
    if (whole) {
        write_cube(t, p, t->width, (wide + notch) * t->atom, t->atom, surface);
    } else if (recounted) {
        write_cube(t, p, columns, (uint64_t)columns * t->atom, t->atom, surface);
    } else if (regrouped) {
        write_cube(t, p, columns, (columns + notch) * t->atom, t->atom,
                   stride_of(t, DPU_SURFACE_ADD));
    } else {
        uint64_t line = stride_of(t, DPU_SURFACE_ADD);
        if (t->generation == CHIP_GEN_RK3576) // only what is behind the last pixel
            line += ((t->width - 1) * (1 + notch) + 1) * WIDE;
        write_cube(t, p, t->width, line, (1 + notch) * t->atom, surface);
    }
    return 0;
}

// What is behind the last byte of a line's last atom is left out, or what is behind `piece` bytes.
static int write_stream(const struct task *t, struct rknn_pattern *p, struct error *e)
{
    bool newest = counts_atoms(t);
    uint32_t tail = rknn_bits(value_of(t, DPU_FEATURE_MODE_CFG), 29, 26);
    uint64_t line = (uint64_t)t->width * WIDE - (tail ? WIDE - tail : 0);
    p->piece = newest && value_of(t, DPU_PLACE_1) != WIDE ? value_of(t, DPU_PLACE_1) : 0;
    p->step = align_up(p->piece, WIDE);
    if (p->piece && tail)
        return refuse_register(t, DPU_PLACE_1, "pieces of atoms that are cut", e);
    if (t->generation != CHIP_GEN_RK3576 && rknn_bits(value_of(t, DPU_BS_OW_CFG), 4, 2))
        return refuse_register(t, DPU_BS_OW_CFG, "a stream of several surfaces", e);
    add_digit(p, WIDE, 1, true, 1);
    add_digit(p, t->width, WIDE, false, 1);
    add_digit(p, t->height, line, false, t->width);
    add_digit(p, count_surfaces(p, WIDE), line * t->height, true, WIDE);
    p->size = line * t->height * count_surfaces(p, WIDE);
    if (p->piece)
        p->size = (p->size - 1) / p->piece * p->step + (p->size - 1) % p->piece + 1;
    return 0;
}

// Which of the forms it is, newer chips say in one register.
static int take_newer(const struct task *t, struct rknn_pattern *p, struct error *e)
{
    enum { MOVED = 0x3007fe, TRANSPOSED = 0x2007fe, EITHER = 0x80007fe, ALL_LANES = 0x22ffff };
    enum { WHOLE_ATOMS = 3 };
    uint32_t how = value_of(t, DPU_BS_OW_CFG), mode = value_of(t, DPU_FEATURE_MODE_CFG);
    if (!(mode >> 30) && rknn_bits(mode, 25, 25))
        return write_stream(t, p, e);
    if (mode >> 26)
        return refuse_register(t, DPU_FEATURE_MODE_CFG, "a write that is not known", e);
    if (t->generation == CHIP_GEN_RV1106 && how == EITHER)
        how = rknn_bits(value_of(t, DPU_DATA_CUBE_WIDTH), 20, 20) ? MOVED : TRANSPOSED;
    if (t->generation != CHIP_GEN_RK3576 && t->element == 4) {
        if (how == MOVED)
            return write_moved(t, p, e);
        return how == TRANSPOSED
                   ? transpose_rk3562(t, p)
                   : refuse_register(t, DPU_BS_OW_CFG, "a write that is not known", e);
    }
    if (t->generation == CHIP_GEN_RK3576 && how == ALL_LANES) {
        transpose_rk3576(t, p);
        return 0;
    }
    if (t->generation == CHIP_GEN_RK3576 && rknn_bits(how, 21, 20) == WHOLE_ATOMS &&
        t->element == 2)
        return write_moved(t, p, e);
    if (rknn_bits(how, 21, 20) && t->element == 1)
        return refuse_register(t, DPU_BS_OW_CFG, "a write that is not known", e);
    return rknn_bits(how, 21, 20) ? RKNN_PATTERN_UNREAD : write_lines(t, p, e);
}

static int take_older(const struct task *t, struct rknn_pattern *p, struct error *e)
{
    enum { INT16 = 1 };
    uint32_t mode = value_of(t, DPU_FEATURE_MODE_CFG);
    bool moved = rknn_bits(mode, 30, 30), transposed = value_of(t, DPU_BS_OW_CFG) >> 27 & 1;
    if (mode >> 31 || rknn_bits(mode, 29, 26))
        return refuse_register(t, DPU_FEATURE_MODE_CFG, "a write that is not known", e);
    if (!moved && !transposed)
        return write_lines(t, p, e);
    if ((moved && transposed) || (transposed && t->generation == CHIP_GEN_RK3566) ||
        rknn_bits(value_of(t, DPU_DATA_FORMAT), 31, 29) != INT16)
        return refuse_register(t, DPU_DATA_FORMAT, "it transposes elements of another size", e);
    return moved ? write_moved(t, p, e) : transpose_rk3588(t, p);
}

// What the last counters count beyond what is read is not written.
static void cut_digits(struct rknn_pattern *p)
{
    for (uint32_t i = 0; i < p->n_digits; i++) {
        struct rknn_digit *d = &p->digits[i];
        uint64_t all = d->channel ? p->bytes : p->pixels;
        uint64_t most = d->weight ? (all + d->weight - 1) / d->weight : d->n;
        d->n = d->n < most ? d->n : most;
    }
}

// The largest stride first; each must contain what is below it. A stream's are in order.
static bool order_digits(struct rknn_pattern *p)
{
    bool ordered = p->size;
    cut_digits(p);
    for (uint32_t i = 1; i < p->n_digits; i++)
        for (uint32_t k = i; k > 0 && p->digits[k].stride > p->digits[k - 1].stride; k--) {
            struct rknn_digit d = p->digits[k];
            p->digits[k] = p->digits[k - 1];
            p->digits[k - 1] = d;
        }
    p->size = ordered ? p->size : 1;
    for (uint32_t i = p->n_digits; i-- > 0 && !ordered;) {
        if (p->digits[i].stride < p->size)
            return false;
        p->size += (p->digits[i].n - 1) * p->digits[i].stride;
    }
    return true;
}

int rknn_pattern_of(const struct rknn_regs *regs, const struct rknn_file *f,
                    const struct rknn_state *task, struct rknn_pattern *ret, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    struct task t = {
        .regs = regs, .s = task, .generation = regs->chip->generation, .atom = rknn_fit_atom(regs)};
    *ret = (struct rknn_pattern){.from = address_of(f, task, RDMA_SRC_BASE),
                                 .to = address_of(f, task, DPU_DST_BASE)};
    if (!(task->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY))
        return RKNN_PATTERN_UNREAD;
    int r = take_sizes(&t, e);
    if (r < 0)
        return r;
    take_source(&t, ret);
    r = regs->chip->bn_relu_field ? take_older(&t, ret, e) : take_newer(&t, ret, e);
    if (r == 0 && !order_digits(ret))
        r = refuse_register(&t, DPU_DST_SURF_STRIDE, "it writes to one place twice", e);
    return r;
}

bool rknn_pattern_find(const struct rknn_pattern *p, uint64_t at, uint64_t *ret)
{
    uint64_t rest = at - p->to, pixel = 0, byte = 0;
    if (rest >= p->size || (p->piece && rest % p->step >= p->piece))
        return false;
    rest = p->piece ? rest / p->step * p->piece + rest % p->step : rest;
    for (uint32_t i = 0; i < p->n_digits; i++) {
        const struct rknn_digit *d = &p->digits[i];
        uint64_t digit = rest / d->stride;
        if (digit >= d->n)
            return false;
        rest -= digit * d->stride;
        *(d->channel ? &byte : &pixel) += digit * d->weight;
    }
    *ret = p->from + byte / p->atom * p->surface + byte % p->atom + pixel / p->width * p->line +
           pixel % p->width * p->atom;
    return rest == 0 && byte < p->bytes && pixel < p->pixels;
}
