// A tensor in blocks of channels is planes of width times height atoms. A task works on a rectangle
// of each plane; what it leaves out between two lines or planes is in notches:
//
//     plane of x          stride = width * height atoms, whole fours of atoms in most tensors
//     +----------------+
//     |     +------+   |  line notch = width of the plane - width of the task
//     |     | task |   |
//     |     +------+   |  plane notch = stride - width * height of the task
//     +----------------+
//
// So do all such tasks (about 1,120) of the shared files, but those of nodes that change shapes.
#include "npu/model/rknn/regs/check/rknn_places.h"

#include "npu/model/rknn/regs/check/rknn_fit.h"

// How closely nodes of an operator keep to their tensors' planes.
enum shape { SHAPE_OTHER, SHAPE_MOVED, SHAPE_KEPT };

struct task {
    const struct rknn_regs *regs;
    const struct rknn_file *f;
    const struct rknn_node *n;
    enum graph_op op; // what the node is
    const struct rknn_state *s;
    uint32_t width, height, channels; // of what it writes
};

static uint32_t size_in(const struct task *t, enum rknn_register reg)
{
    return rknn_bits(t->s->value[reg], 12, 0) + 1;
}

static int check(const struct task *t, enum rknn_register reg, bool right, struct error *e)
{
    return rknn_fit(t->regs, t->s, reg, right, e);
}

static enum shape shape_of(const struct rknn_node *n, enum graph_op op)
{
    static const char *const kept[] = {"Add",
                                       "AddRelu",
                                       "BatchNormalization",
                                       "BatchNormalizationRelu",
                                       "Cast",
                                       "Concat",
                                       "Mul",
                                       "Pow",
                                       "Split",
                                       "Sub",
                                       "exDataConvert"};
    static const char *const moved[] = {"Reshape", "Transpose"};
    if (op == GRAPH_UNARY)
        return SHAPE_KEPT;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strcmp(n->op, kept[i]) == 0)
            return SHAPE_KEPT;
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
        if (strcmp(n->op, moved[i]) == 0)
            return SHAPE_MOVED;
    return SHAPE_OTHER;
}

static const struct rknn_tensor *in_blocks(const struct rknn_file *f, int32_t tensor)
{
    const struct rknn_tensor *t = tensor < 0 ? NULL : &f->tensors[tensor];
    return t && t->n_dims == 4 && t->layout == RKNN_NC1HWC2 ? t : NULL;
}

static bool in_blocks_of_one(const struct rknn_tensor *t)
{
    return t->n_dims == 4 && t->layout == RKNN_NC1HWC2 && t->dims[0] == 1;
}

// Whether some tensor of these has planes of so many bytes; true, too, if none is in blocks.
static bool is_plane_of(const struct task *t, const int32_t *tensors, uint32_t n, uint64_t bytes)
{
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        const struct rknn_tensor *x = in_blocks(t->f, tensors[i]);
        if (x && rknn_fit_plane_of(t->regs, x, bytes))
            return true;
        any = any || x;
    }
    return !any;
}

// ---- the DPU ----

// The reader, the units and the writer see the same size.
static int check_sizes(const struct task *t, enum shape shape, struct error *e)
{
    enum { IN_ORDER = 25 }; // from this bit on: pixels or channels that are written elsewhere
    enum chip_generation g = t->regs->chip->generation;
    bool newer = g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562, kept = shape == SHAPE_KEPT;
    uint32_t whole = (t->channels + 7) / 8 * 8, written = t->s->value[DPU_WRITE_SIZE_0];
    uint32_t of_writer = g == CHIP_GEN_RK3588 ? rknn_bits(written, 12, 0) + 1 : (written >> 16) + 1;
    bool fits = g == CHIP_GEN_RK3588 ? of_writer == t->channels || (!kept && of_writer == whole)
                                     : of_writer == t->channels || g == CHIP_GEN_RV1106 || !kept;
    uint32_t mode = t->s->value[DPU_FEATURE_MODE_CFG], cube = t->s->value[DPU_DATA_CUBE_CHANNEL];
    int r = check(t, RDMA_HEIGHT, size_in(t, RDMA_HEIGHT) == t->height, e);
    // RV1103 and RV1106 have the writer's channels beside those of the units.
    if (r == 0 && kept && g == CHIP_GEN_RV1106)
        r = check(t, DPU_DATA_CUBE_CHANNEL, rknn_bits(cube, 28, 16) + 1 == t->channels, e);
    if (r == 0 && kept)
        r = check(t, DPU_FEATURE_MODE_CFG, mode >> IN_ORDER == 0, e);
    if (r == 0)
        r = check(t, DPU_DATA_CUBE_HEIGHT, t->s->value[DPU_DATA_CUBE_HEIGHT] == t->height - 1, e);
    if (r == 0 && (kept || g != CHIP_GEN_RV1106))
        r = check(t, RDMA_WIDTH, size_in(t, RDMA_WIDTH) == t->width, e);
    uint32_t read = size_in(t, RDMA_CHANNEL), atoms = (t->channels + 15) / 16 * 16;
    if (r == 0)
        r = check(t, RDMA_CHANNEL, read == t->channels || (newer && read == atoms), e);
    if (r == 0)
        r = check(t, DPU_WRITE_SIZE_0, fits, e);
    uint32_t size = (t->height - 1) << 16 | (t->width - 1);
    return r < 0 || !kept ? r
                          : check(t, DPU_WRITE_SIZE_1, t->s->value[DPU_WRITE_SIZE_1] == size, e);
}

// Pixels between two lines that are read.
static int check_lines(const struct task *t, struct error *e)
{
    enum chip_generation g = t->regs->chip->generation;
    bool apart = g == CHIP_GEN_RK3576 || g == CHIP_GEN_RK3562, right = false, any = false;
    enum rknn_register reg = apart ? RDMA_LINE_NOTCH : RDMA_SRC_DMA_CFG;
    uint32_t notch = apart ? t->s->value[reg] : t->s->value[reg] >> 19;
    for (uint32_t i = 0; i < t->n->n_inputs; i++) {
        const struct rknn_tensor *x = in_blocks(t->f, t->n->inputs[i]);
        right = right || (x && t->width + notch == x->dims[3]);
        any = any || x;
    }
    return check(t, reg, right || !any || t->height == 1, e);
}

// What is read: the operands' planes. Of one operand EW may still look up a table.
static int check_source(const struct task *t, struct error *e)
{
    enum { BYPASS = 1 };
    if (check_lines(t, e) < 0)
        return STATUS_MODEL_INVALID;
    uint64_t task = (uint64_t)t->width * t->height * rknn_fit_atom(t->regs);
    uint64_t notch = rknn_fit_bytes(t->regs, t->s, RDMA_SURF_NOTCH);
    int r =
        check(t, RDMA_SURF_NOTCH, is_plane_of(t, t->n->inputs, t->n->n_inputs, notch + task), e);
    if (r < 0 || t->op == GRAPH_UNARY || t->s->value[DPU_EW_CFG] & BYPASS)
        return r;
    uint64_t second = rknn_fit_bytes(t->regs, t->s, RDMA_EW_SURF_STRIDE);
    return check(t, RDMA_EW_SURF_STRIDE, is_plane_of(t, t->n->inputs, t->n->n_inputs, second), e);
}

static int check_target(const struct task *t, struct error *e)
{
    const int32_t *outputs = t->n->outputs;
    uint64_t stride = rknn_fit_bytes(t->regs, t->s, DPU_DST_SURF_STRIDE);
    uint32_t notch = t->s->value[DPU_DATA_CUBE_NOTCH];
    const struct rknn_tensor *y = t->n->n_outputs ? in_blocks(t->f, outputs[0]) : NULL;
    int r = check(t, DPU_DST_SURF_STRIDE, is_plane_of(t, outputs, t->n->n_outputs, stride), e);
    if (r < 0 || !y)
        return r;
    bool right = t->width + rknn_bits(notch, 12, 0) == y->dims[3];
    r = check(t, DPU_DATA_CUBE_NOTCH, right && (!(notch >> 16) || notch >> 16 == (notch & 0xffff)),
              e);
    return r < 0 ? r : check(t, DPU_DATA_CUBE_HEIGHT, t->height <= y->dims[2], e);
}

// ---- addresses of container 0x1004; other containers say whose they are ----

// Bytes that a tensor takes where it is joined with others: those of whole blocks, or of its
// elements.
static uint64_t bytes_of(const struct rknn_tensor *t)
{
    uint64_t n = t->type == RKNN_I8 || t->type == RKNN_U8 ? 1 : 2;
    if (t->layout == RKNN_NC1HWC2)
        return t->size;
    for (uint32_t i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    return n;
}

// Whether the tensors are one behind the other in what they are joined to: nothing is in front of
// the dimension in which their sizes differ.
static bool is_stacked(const struct rknn_tensor *part, const struct rknn_tensor *all)
{
    uint32_t i = 0;
    if (part->layout == RKNN_NC1HWC2 || all->layout == RKNN_NC1HWC2)
        return in_blocks_of_one(part) && in_blocks_of_one(all);
    while (i < part->n_dims && i < all->n_dims && part->dims[i] == 1 && all->dims[i] == 1)
        i++;
    return part->n_dims == all->n_dims && i < all->n_dims && part->dims[i] != all->dims[i];
}

// Which of the tensors an address is in; -1: none. *ret_before: bytes of those before it.
static int32_t find_owner(const struct task *t, const int32_t *tensors, uint32_t n,
                          enum rknn_register reg, uint64_t *ret_offset, uint64_t *ret_before)
{
    *ret_before = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (rknn_file_offset(t->f, tensors[i], t->s->value[reg], ret_offset))
            return tensors[i];
        *ret_before += tensors[i] < 0 ? 0 : bytes_of(&t->f->tensors[tensors[i]]);
    }
    return -1;
}

// The second operand is the other input, which is read from where the first one is. One that is
// repeated is no image of the output's size: of that only the tensor is looked at.
static int check_second(const struct task *t, int32_t first, uint64_t offset, struct error *e)
{
    enum { BYPASS = 1 };
    uint64_t read, spare;
    if (t->op == GRAPH_UNARY || t->s->value[DPU_EW_CFG] & BYPASS || t->n->n_inputs != 2 ||
        !t->s->value[RDMA_EW_BASE])
        return 0;
    int32_t other = t->n->inputs[t->n->inputs[0] == first];
    if (other < 0 || t->f->tensors[other].data.size)
        return 0;
    const struct rknn_tensor *x = &t->f->tensors[first], *y = &t->f->tensors[other];
    bool inside = find_owner(t, &other, 1, RDMA_EW_BASE, &read, &spare) == other;
    bool alike = in_blocks_of_one(x) && in_blocks_of_one(y) &&
                 memcmp(x->dims, y->dims, 4 * sizeof *x->dims) == 0;
    return check(t, RDMA_EW_BASE, inside && (!alike || read == offset), e);
}

// A task takes bytes of an input to where they are in the output. In a batch, parts of each image
// are in turn, and what is not in blocks has other sizes: of those only the tensor is looked at.
static int check_addresses(const struct task *t, struct error *e)
{
    bool joins = strcmp(t->n->op, "Concat") == 0, splits = strcmp(t->n->op, "Split") == 0;
    uint64_t read, written, before, spare;
    if (t->f->container.kind != RKNN_LITE || !t->s->value[RDMA_SRC_BASE] ||
        !t->s->value[DPU_DST_BASE])
        return 0;
    int32_t x = find_owner(t, t->n->inputs, t->n->n_inputs, RDMA_SRC_BASE, &read, &before);
    if (!joins)
        before = 0;
    if (x < 0)
        return check(t, RDMA_SRC_BASE, false, e);
    int32_t y = find_owner(t, t->n->outputs, t->n->n_outputs, DPU_DST_BASE, &written, &spare);
    if (y < 0)
        return check(t, DPU_DST_BASE, false, e);
    if (check_second(t, x, read, e) < 0)
        return STATUS_MODEL_INVALID;
    const struct rknn_tensor *from = &t->f->tensors[x], *to = &t->f->tensors[y];
    bool single =
        joins ? is_stacked(from, to)
              : (splits ? is_stacked(to, from) : in_blocks_of_one(from) && in_blocks_of_one(to));
    return check(t, DPU_DST_BASE, !single || read + before == written + (splits ? spare : 0), e);
}

// What converts tensors that are in no blocks takes their elements in a row, as planes that follow
// each other without a gap.
static int check_row(const struct task *t, struct error *e)
{
    uint64_t bytes = (uint64_t)t->width * t->height * rknn_fit_atom(t->regs);
    uint64_t stride = rknn_fit_bytes(t->regs, t->s, DPU_DST_SURF_STRIDE);
    int r = check(t, DPU_DST_SURF_STRIDE, stride == bytes, e);
    r = r < 0 ? r : check(t, RDMA_SURF_NOTCH, !t->s->value[RDMA_SURF_NOTCH], e);
    return r < 0 ? r : check(t, DPU_DATA_CUBE_NOTCH, !t->s->value[DPU_DATA_CUBE_NOTCH], e);
}

static bool all_in_blocks(const struct rknn_file *f, const int32_t *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (tensors[i] >= 0 && !in_blocks(f, tensors[i]))
            return false;
    return true;
}

static int check_moves(struct task *t, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    enum shape shape = shape_of(t->n, t->op);
    struct rknn_walk w;
    bool blocks = shape == SHAPE_KEPT && all_in_blocks(t->f, t->n->outputs, t->n->n_outputs);
    bool row = !blocks && strcmp(t->n->op, "exDataConvert") == 0;
    if (shape == SHAPE_OTHER)
        return 0;
    rknn_walk_begin(&w, t->regs);
    while ((t->s = rknn_walk_next(&w)) != NULL) {
        // What comes from a convolution's sums has its places elsewhere.
        if (!(t->s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY))
            continue;
        t->width = size_in(t, DPU_DATA_CUBE_WIDTH);
        t->height = size_in(t, DPU_DATA_CUBE_HEIGHT);
        t->channels = size_in(t, DPU_DATA_CUBE_CHANNEL);
        if (check_sizes(t, shape, e) < 0 || (shape == SHAPE_KEPT && check_addresses(t, e) < 0) ||
            (row && check_row(t, e) < 0) ||
            (blocks && (check_source(t, e) < 0 || check_target(t, e) < 0)))
            return STATUS_MODEL_INVALID;
    }
    return 0;
}

// ---- the PPU ----

// Of a window's task: how much of the image it must have at least, in one direction, unless it has
// all of it: the last window may lie beyond (ceil_mode).
static uint32_t reach(uint32_t n, uint32_t stride, uint32_t kernel, uint32_t pads)
{
    uint32_t taken = (n - 1) * stride + kernel;
    return taken > pads ? taken - pads : 0;
}

// Both units of the pool see the same image, which is large enough for what is written.
static int check_image(const struct task *t, const struct rknn_tensor *x, struct error *e)
{
    const uint32_t *v = t->s->value, kernel = v[PPU_KERNEL_CFG], pads = v[PPU_PADDING_CFG];
    uint32_t w = size_in(t, PPU_IN_WIDTH), h = size_in(t, PPU_IN_HEIGHT);
    uint32_t c = size_in(t, PPU_IN_CHANNEL);
    uint32_t across = reach(t->width, rknn_bits(kernel, 19, 16) + 1, rknn_bits(kernel, 3, 0) + 1,
                            rknn_bits(pads, 2, 0) + rknn_bits(pads, 10, 8));
    uint32_t down = reach(t->height, rknn_bits(kernel, 23, 20) + 1, rknn_bits(kernel, 11, 8) + 1,
                          rknn_bits(pads, 6, 4) + rknn_bits(pads, 14, 12));
    int r = check(t, PPU_RDMA_IN_WIDTH, size_in(t, PPU_RDMA_IN_WIDTH) == w, e);
    r = r < 0 ? r : check(t, PPU_RDMA_IN_HEIGHT, size_in(t, PPU_RDMA_IN_HEIGHT) == h, e);
    r = r < 0 ? r : check(t, PPU_RDMA_IN_CHANNEL, size_in(t, PPU_RDMA_IN_CHANNEL) == c, e);
    r = r < 0 ? r : check(t, PPU_OUT_CHANNEL, t->channels == c, e);
    r = r < 0 ? r : check(t, PPU_IN_WIDTH, w == x->dims[3] || (w < x->dims[3] && w >= across), e);
    return r < 0 ? r : check(t, PPU_IN_HEIGHT, h == x->dims[2] || (h < x->dims[2] && h >= down), e);
}

// Behind the code of what it works in is the stride of planes of indices, which nobody writes: that
// of the output's planes. RK3566 and RK3568 have it in steps of 8, where others read from the DPU.
static bool is_format(const struct task *t, uint32_t code)
{
    enum { PRECISION = 7, FROM_DPU = 8 };
    uint32_t format = t->s->value[PPU_DATA_FORMAT], stride = t->s->value[PPU_DST_SURF_STRIDE];
    bool index = t->regs->chip->generation == CHIP_GEN_RK3566 && stride & FROM_DPU;
    return (format & PRECISION) == code && (!(format & FROM_DPU) || index);
}

// Bytes or halves, whose code the pool has; its reader has their width, from 1 on on RK3588.
static int check_precision(const struct task *t, const struct rknn_tensor *x, struct error *e)
{
    enum { WIDTH = 3, BYTES = 0, HALVES = 2 };
    uint32_t first = t->regs->chip->generation == CHIP_GEN_RK3588 ? 1 : 0;
    bool half = x->type == RKNN_F16;
    uint32_t width = t->s->value[PPU_RDMA_DATA_FORMAT] & WIDTH;
    if (!half && x->type != RKNN_I8)
        return 0;
    int r = check(t, PPU_DATA_FORMAT, is_format(t, half ? HALVES : BYTES), e);
    return r < 0 ? r : check(t, PPU_RDMA_DATA_FORMAT, half || width == first, e);
}

static int check_planes(const struct task *t, const struct rknn_tensor *x,
                        const struct rknn_tensor *y, struct error *e)
{
    const uint32_t *v = t->s->value;
    uint32_t gap = rknn_bits(v[PPU_MODE_CFG], 28, 16);
    int r = check_precision(t, x, e);
    r = r < 0 ? r
              : check(t, PPU_RDMA_LINE_STRIDE,
                      v[PPU_RDMA_LINE_STRIDE] == x->dims[3] * rknn_fit_atom(t->regs), e);
    r = r < 0 ? r
              : check(t, PPU_RDMA_SURF_STRIDE,
                      rknn_fit_plane_of(t->regs, x, v[PPU_RDMA_SURF_STRIDE]), e);
    r = r < 0 ? r
              : check(t, PPU_DST_SURF_STRIDE, rknn_fit_plane_of(t->regs, y, v[PPU_DST_SURF_STRIDE]),
                      e);
    r = r < 0 ? r : check(t, PPU_MODE_CFG, t->width + gap == y->dims[3], e);
    return r < 0 ? r : check(t, PPU_OUT_HEIGHT, t->height <= y->dims[2], e);
}

// What a window has of padding above and to the left, in that direction: less where it begins
// farther on.
static uint32_t padding_at(uint32_t first, uint32_t stride, uint32_t pad)
{
    return (uint64_t)first * stride < pad ? pad - first * stride : 0;
}

// The first task begins at the top left corner.
static int check_padding(const struct task *t, const struct rknn_tensor *y,
                         const struct rknn_state *first, struct error *e)
{
    const uint32_t *v = t->s->value, kernel = v[PPU_KERNEL_CFG],
                   pads = first->value[PPU_PADDING_CFG];
    uint64_t surface = v[PPU_DST_SURF_STRIDE];
    int r = check(t, PPU_DST_BASE, t->s->tensor[PPU_DST_BASE] == first->tensor[PPU_DST_BASE], e);
    if (r < 0 || !surface || !y->dims[3]) // an empty output has no places
        return r;
    uint64_t pixel =
        (v[PPU_DST_BASE] - first->value[PPU_DST_BASE]) % surface / rknn_fit_atom(t->regs);
    uint32_t top = padding_at((uint32_t)(pixel / y->dims[3]), rknn_bits(kernel, 23, 20) + 1,
                              rknn_bits(pads, 6, 4));
    uint32_t left = padding_at((uint32_t)(pixel % y->dims[3]), rknn_bits(kernel, 19, 16) + 1,
                               rknn_bits(pads, 2, 0));
    return check(t, PPU_PADDING_CFG,
                 rknn_bits(v[PPU_PADDING_CFG], 6, 4) == top &&
                     rknn_bits(v[PPU_PADDING_CFG], 2, 0) == left,
                 e);
}

// Whether an address is the tensor's first byte. Where neither the file nor the container says
// whose it is, nothing is said.
static bool is_start(const struct task *t, const struct rknn_state *s, enum rknn_register reg,
                     int32_t tensor)
{
    uint64_t offset;
    if (s->tensor[reg] >= 0)
        return s->tensor[reg] == tensor && s->value[reg] == 0;
    return t->f->container.kind != RKNN_LITE || !s->value[reg] ||
           (rknn_file_offset(t->f, tensor, s->value[reg], &offset) && offset == 0);
}

// A task pools what its first pixel of the output takes: the same block of channels, and as many
// steps down and to the right. The first one begins with both tensors.
static int check_taken(const struct task *t, const struct rknn_tensor *x,
                       const struct rknn_tensor *y, const struct rknn_state *first, struct error *e)
{
    const uint32_t *v = t->s->value, kernel = v[PPU_KERNEL_CFG];
    uint64_t surface = v[PPU_DST_SURF_STRIDE], atom = rknn_fit_atom(t->regs);
    if (!surface || !y->dims[3] || y->dims[0] != 1)
        return 0;
    uint64_t moved = v[PPU_DST_BASE] - first->value[PPU_DST_BASE], at = moved % surface / atom;
    uint64_t down = at / y->dims[3] * (rknn_bits(kernel, 23, 20) + 1);
    uint64_t right = at % y->dims[3] * (rknn_bits(kernel, 19, 16) + 1);
    uint32_t pads = first->value[PPU_PADDING_CFG];
    down -= down < rknn_bits(pads, 6, 4) ? down : rknn_bits(pads, 6, 4);
    right -= right < rknn_bits(pads, 2, 0) ? right : rknn_bits(pads, 2, 0);
    uint64_t taken = moved / surface * v[PPU_RDMA_SURF_STRIDE] + (down * x->dims[3] + right) * atom;
    uint64_t from = v[PPU_RDMA_SRC_BASE] - first->value[PPU_RDMA_SRC_BASE];
    bool same = t->s->tensor[PPU_RDMA_SRC_BASE] == first->tensor[PPU_RDMA_SRC_BASE];
    int r =
        check(t, PPU_DST_BASE,
              moved % surface % atom == 0 && is_start(t, first, PPU_DST_BASE, t->n->outputs[0]), e);
    return r < 0 ? r
                 : check(t, PPU_RDMA_SRC_BASE,
                         same && from == taken &&
                             is_start(t, first, PPU_RDMA_SRC_BASE, t->n->inputs[0]),
                         e);
}

// Pixels times channels, summed up over the tasks, are those of the output or of its whole blocks.
static int check_pool(struct task *t, struct error *e)
{
    const struct rknn_tensor *x = t->n->n_inputs ? in_blocks(t->f, t->n->inputs[0]) : NULL;
    const struct rknn_tensor *y = t->n->n_outputs ? in_blocks(t->f, t->n->outputs[0]) : NULL;
    struct rknn_walk w;
    uint64_t written = 0;
    uint32_t value;
    struct rknn_state first;
    bool said = rknn_regs_get(t->regs, PPU_OUT_WIDTH, &value) &&
                rknn_regs_get(t->regs, PPU_OUT_HEIGHT, &value) &&
                rknn_regs_get(t->regs, PPU_OUT_CHANNEL, &value);
    if (!x || !y || !said)
        return 0;
    rknn_walk_begin(&w, t->regs);
    w.pools = true;
    while ((t->s = rknn_walk_next(&w)) != NULL) {
        t->width = size_in(t, PPU_OUT_WIDTH);
        t->height = size_in(t, PPU_OUT_HEIGHT);
        t->channels = size_in(t, PPU_OUT_CHANNEL);
        if (!written)
            first = *t->s;
        written += (uint64_t)t->width * t->height * t->channels;
        if (check_padding(t, y, &first, e) < 0 || check_image(t, x, e) < 0 ||
            check_planes(t, x, y, e) < 0 || check_taken(t, x, y, &first, e) < 0)
            return STATUS_MODEL_INVALID;
    }
    uint64_t plane = (uint64_t)y->dims[2] * y->dims[3], whole = plane * y->dims[1];
    bool blocks = plane && written % plane == 0 && rknn_fit_blocks(written / plane, y->dims[1]);
    if (y->dims[0] != 1 || !written || blocks)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "its tasks write %llu pixels of channels, its output has %llu",
                     (unsigned long long)written, (unsigned long long)whole);
}

int rknn_places_agree(const struct rknn_regs *regs, const struct rknn_file *f,
                      const struct rknn_node *n, enum graph_op op, struct error *e)
{
    struct task t = {.regs = regs, .f = f, .n = n, .op = op};
    bool pool = strcmp(n->op, "MaxPool") == 0 || strcmp(n->op, "AveragePool") == 0;
    return pool ? check_pool(&t, e) : check_moves(&t, e);
}
