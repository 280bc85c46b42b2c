// Facts: docs/rknn-format.md. In blocks of channels, planes are padded to four atoms, except those
// of one pixel and of a model's inputs; pixels of up to 4 channels are packed.
#include "npu/model/rknn/program/rknn_layout.h"

#define PIXEL_CHANNELS 4
#define PLANE_ATOMS    4

static uint32_t bytes_of_type(uint8_t type)
{
    switch (type) {
    case RKNN_U8:
    case RKNN_I8:
    case RKNN_BOOL:
        return 1;
    case RKNN_I16:
    case RKNN_F16:
        return 2;
    case RKNN_F32:
    case RKNN_I32:
        return 4;
    case RKNN_I64:
    case RKNN_U64:
        return 8;
    default:
        return 0;
    }
}

// Elements in the order of the dimensions.
static void set_plain(struct rknn_memory_layout *l, const struct rknn_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        n = __builtin_mul_overflow(n, t->dims[i], &n) ? UINT64_MAX : n;
    if (t->n_dims != 4) {
        l->n = l->c = l->h = 1;
        l->w = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
    }
    l->block = 1;
    l->column = 1;
    l->row = l->w;
    l->plane = l->row * l->h;
    l->image = l->plane * l->c;
}

// Lines of pixels, for whom no program says how they lie (rknn_pixels.c): RK3566, RK3568, RK3576
// and RV1126B pad them.
static void set_pixels(struct rknn_memory_layout *l, const struct rknn_tensor *t,
                       const struct chip *chip)
{
    bool padded = (chip->generation == CHIP_GEN_RK3566 || chip->generation == CHIP_GEN_RK3576) &&
                  t->stride_align;
    l->block = l->c;
    l->column = l->c;
    l->row = (padded ? align_up(l->w, t->stride_align) : l->w) * l->column;
    l->plane = l->image = l->row * l->h;
}

static void set_blocks(struct rknn_memory_layout *l, const struct rknn_tensor *t)
{
    uint64_t pixels = (uint64_t)l->h * l->w;
    bool padded = t->kind != RKNN_KIND_INPUT && pixels > 1;
    l->block = t->native[4];
    l->column = l->block;
    l->row = l->w * l->column;
    l->plane = (padded ? align_up(pixels, PLANE_ATOMS) : pixels) * l->block;
    l->image = l->plane * t->native[1];
}

static bool is_blocks(const struct rknn_memory_layout *l, const struct rknn_tensor *t)
{
    return t->n_native == 5 && t->n_dims == 4 && t->native[0] == l->n && t->native[2] == l->h &&
           t->native[3] == l->w && t->native[4] && t->native[4] <= 64 &&
           (uint64_t)t->native[1] * t->native[4] >= l->c;
}

// Bytes up to the last element; 0: too many.
static uint64_t measure_layout(const struct rknn_memory_layout *l)
{
    unsigned __int128 elements = (unsigned __int128)l->image * (l->n - 1) +
                                 (unsigned __int128)((l->c - 1) / l->block) * l->plane +
                                 (uint64_t)(l->h - 1) * l->row + (uint64_t)(l->w - 1) * l->column +
                                 l->block;
    return elements * l->element > UINT32_MAX ? 0 : (uint64_t)elements * l->element;
}

void rknn_layout_set_line(struct rknn_memory_layout *l, uint64_t bytes)
{
    l->row = bytes / l->element;
    l->plane = l->image = l->row * l->h;
    l->size = measure_layout(l);
}

int rknn_layout_of(struct rknn_memory_layout *l, const struct rknn_tensor *t,
                   const struct chip *chip, struct error *e)
{
    struct rknn_memory_layout made = {.element = bytes_of_type(t->type)};
    bool four = t->n_dims == 4;
    made.n = four ? t->dims[0] : 1;
    made.c = four ? t->dims[1] : 1;
    made.h = four ? t->dims[2] : 1;
    made.w = four ? t->dims[3] : 1;
    bool packed = t->kind == RKNN_KIND_INPUT && t->n_native == 5 && t->native[1] == 1 &&
                  t->native[4] == made.c && made.c <= PIXEL_CHANNELS;
    if (!made.element || !made.n || !made.c || !made.h || !made.w)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s: type %u of %u dimensions in memory",
                         t->name, t->type, t->n_dims);
    if (t->layout == RKNN_NC1HWC2 && !is_blocks(&made, t))
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s: its blocks of channels do not fit its shape", t->name);
    if (packed)
        set_pixels(&made, t, chip);
    else if (t->layout == RKNN_NC1HWC2)
        set_blocks(&made, t);
    else if (t->layout == RKNN_NCHW || t->layout == RKNN_NO_LAYOUT)
        set_plain(&made, t);
    else
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s: layout %u is not known", t->name,
                         t->layout);
    made.size = made.w ? measure_layout(&made) : 0;
    if (!made.size)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s has more than 4 GB", t->name);
    *l = made;
    return 0;
}

// ---- copies ----

static uint64_t element_place(const struct rknn_memory_layout *l, uint32_t n, uint32_t c,
                              uint32_t h, uint32_t w)
{
    return n * l->image + c / l->block * l->plane + c % l->block + h * l->row + w * l->column;
}

static uint64_t dense_of(const struct rknn_memory_layout *l, bool nhwc, uint32_t n, uint32_t c,
                         uint32_t h, uint32_t w)
{
    uint64_t line = (uint64_t)n * (nhwc ? l->h : l->c) + (nhwc ? h : c);
    uint64_t at = line * (nhwc ? l->w : l->h) + (nhwc ? w : h);
    return at * (nhwc ? l->c : l->w) + (nhwc ? c : w);
}

static void move_element(uint32_t size, void *to, const void *from)
{
    switch (size) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, 8);
    }
}

// Calls a copy of one element for each; `in`: into memory.
static void copy_all(const struct rknn_memory_layout *l, bool nhwc, uint8_t *memory, uint8_t *dense,
                     bool in)
{
    uint64_t step = (nhwc ? 1 : (uint64_t)l->h * l->w) * l->element;
    for (uint32_t n = 0; n < l->n; n++)
        for (uint32_t h = 0; h < l->h; h++)
            for (uint32_t w = 0; w < l->w; w++) {
                uint8_t *d = dense + dense_of(l, nhwc, n, 0, h, w) * l->element;
                for (uint32_t c = 0; c < l->c; c++, d += step) {
                    uint8_t *m = memory + element_place(l, n, c, h, w) * l->element;
                    move_element(l->element, in ? m : d, in ? d : m);
                }
            }
}

static void flip_bytes(const struct rknn_memory_layout *l, uint8_t *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n && l->flipped; i++)
        bytes[i] ^= 0x80;
}

// The last block's channels that the tensor does not have.
static void clear_rest(const struct rknn_memory_layout *l, uint8_t *memory)
{
    uint32_t blocks = (l->c + l->block - 1) / l->block, rest = blocks * l->block - l->c;
    for (uint32_t n = 0; n < l->n && rest; n++)
        for (uint32_t h = 0; h < l->h; h++)
            for (uint32_t w = 0; w < l->w; w++)
                memset(memory + (element_place(l, n, l->c - 1, h, w) + 1) * l->element, 0,
                       (size_t)rest * l->element);
}

void rknn_layout_put(const struct rknn_memory_layout *l, bool nhwc, const void *dense, void *memory)
{
    clear_rest(l, memory);
    copy_all(l, nhwc, memory, (uint8_t *)dense, true);
    flip_bytes(l, memory, l->size);
}

void rknn_layout_get(const struct rknn_memory_layout *l, bool nhwc, const void *memory, void *dense)
{
    copy_all(l, nhwc, (uint8_t *)memory, dense, false);
    flip_bytes(l, dense, (uint64_t)l->n * l->c * l->h * l->w);
}

bool rknn_layout_is_native(const struct rknn_memory_layout *l)
{
    return !l->flipped && l->row == l->w * l->column && l->plane == l->h * l->row;
}
