// BMP (Windows bitmaps, and OS/2's first form), uncompressed. All numbers are little-endian:
//
//   offset  0  "BM", file size (4), reserved (4, zero), offset of the pixels (4)
//          14  header size (4): 12 OS/2, 40 Windows; up to 124 for later versions
//          18  width, height (2 bytes each for OS/2, else 4), planes (2), bits per pixel (2)
//          30  compression (4), ..., number of colours (4, at 46)      not in OS/2's header
//          54  red, green, blue and alpha masks (4 each)               with bit fields
//     header   palette: blue, green, red (and a fourth byte but for OS/2) for each colour
//     pixels   rows padded to 4 bytes, the bottom row first unless the height is negative
//
// Nothing in the file is trusted: each offset is checked against the file's size before it is used.
#include <string.h>

#include "tools/image/image.h"
#include "tools/image/image_formats.h"

#define FILE_HEADER 14
#define CORE_HEADER 12 // OS/2's: sizes of 16 bits, a palette of 3 bytes a colour
#define INFO_HEADER 40
#define MASKS       12 // red, green and blue, behind an INFO_HEADER

enum { COMPRESSION_NONE, RLE8, RLE4, BIT_FIELDS, JPEG, PNG, ALPHA_BIT_FIELDS };

// One sample's bits in a pixel of 16 or 32 bits; mask 0: the picture has no such sample.
struct field {
    uint32_t mask;
    unsigned shift;
};

struct bmp {
    const uint8_t *bytes, *palette;
    size_t size, header, pixels, stride; // header: its size
    uint32_t width, height, depth, compression;
    bool from_top;
    uint32_t n_colours, colour_size;
    struct field fields[4]; // red, green, blue, alpha
};

// n bytes, little-endian.
static uint32_t read_number(const uint8_t *at, size_t n)
{
    uint32_t v = 0;
    while (n-- > 0)
        v = v << 8 | at[n];
    return v;
}

static int refuse_damaged(struct error *e, const char *what)
{
    return error_set(e, STATUS_INPUT_INVALID, "BMP: %s", what);
}

// Size, depth and compression. 124 bytes is the largest header (version 5). A negative height means
// that the top row comes first; INT32_MIN has no positive counterpart.
static int read_size(struct bmp *b, struct error *e)
{
    const uint8_t *at = b->bytes + FILE_HEADER + 4;
    bool core = b->header == CORE_HEADER;
    if (!core && (b->header < INFO_HEADER || b->header > 124))
        return error_set(e, STATUS_INPUT_INVALID, "BMP: a header of %zu bytes is unknown",
                         b->header);
    if (b->header > b->size - FILE_HEADER)
        return refuse_damaged(e, "it ends in its header");
    int32_t width = core ? (int32_t)read_number(at, 2) : (int32_t)read_number(at, 4);
    int32_t height = core ? (int32_t)read_number(at + 2, 2) : (int32_t)read_number(at + 4, 4);
    if (width <= 0 || height == 0 || height == INT32_MIN)
        return error_set(e, STATUS_INPUT_INVALID, "BMP: a size of %dx%d", width, height);
    b->width = (uint32_t)width;
    b->from_top = height < 0;
    b->height = (uint32_t)(height < 0 ? -height : height);
    b->depth = read_number(at + (core ? 6 : 10), 2);
    b->compression = core ? COMPRESSION_NONE : read_number(at + 12, 4);
    return 0;
}

// Only uncompressed pixels are read. The depths are searched as bytes in a string; memchr() looks
// at the low byte alone, hence the second test of the depth.
static int check_compression(const struct bmp *b, struct error *e)
{
    static const char *const names[] = {
        [RLE8] = "RLE8", [RLE4] = "RLE4", [JPEG] = "JPEG", [PNG] = "PNG"};
    bool fields = b->compression == BIT_FIELDS || b->compression == ALPHA_BIT_FIELDS;
    if (b->compression < sizeof names / sizeof *names && names[b->compression])
        return error_set(e, STATUS_INPUT_INVALID,
                         "BMP: compressed (%s), which is not read; save it uncompressed, or as "
                         "PNG",
                         names[b->compression]);
    if (b->compression != COMPRESSION_NONE && !fields)
        return error_set(e, STATUS_INPUT_INVALID, "BMP: compression %u is unknown", b->compression);
    if (!memchr("\1\4\x8\x10\x18\x20", (int)b->depth, 6) || b->depth > 32)
        return error_set(e, STATUS_INPUT_INVALID,
                         "BMP: %u bits a pixel; it can be 1, 4, 8, 16, 24 or 32", b->depth);
    if (fields && b->depth != 16 && b->depth != 32)
        return error_set(e, STATUS_INPUT_INVALID, "BMP: bit fields of %u bits a pixel", b->depth);
    return 0;
}

// The number of colours in the header may be 0 ("all") or larger than the depth can index; either
// means a full palette. Indices beyond a shorter one are refused when a pixel uses them.
static int read_palette(struct bmp *b, struct error *e)
{
    uint32_t full = 1u << b->depth;
    bool core = b->header == CORE_HEADER;
    uint32_t given = core ? 0 : read_number(b->bytes + FILE_HEADER + 32, 4);
    b->n_colours = given > 0 && given < full ? given : full;
    b->colour_size = core ? 3 : 4;
    b->palette = b->bytes + FILE_HEADER + b->header;
    if ((size_t)b->n_colours * b->colour_size > b->size - FILE_HEADER - b->header)
        return refuse_damaged(e, "it ends in its palette");
    return 0;
}

// A mask must be one contiguous run of ones: low + 1 is then a power of two.
static bool set_field(struct field *ret, uint32_t mask)
{
    *ret = (struct field){mask, mask ? (unsigned)__builtin_ctz(mask) : 0};
    uint32_t low = mask >> ret->shift;
    return (low & (low + 1)) == 0;
}

// The masks of red, green, blue and alpha. Without bit fields 16-bit pixels are 5-5-5 and 32-bit
// ones 8-8-8, whose fourth byte is undefined and is not taken for alpha. Headers of 56 bytes and
// more hold an alpha mask.
static int read_fields(struct bmp *b, struct error *e)
{
    static const uint32_t usual[2][4] = {{0x7c00, 0x3e0, 0x1f}, {0xff0000, 0xff00, 0xff}};
    uint32_t masks[4] = {0};
    size_t room = b->size - FILE_HEADER;
    bool alpha = b->header >= 56 || b->compression == ALPHA_BIT_FIELDS;
    memcpy(masks, usual[b->depth == 32], sizeof masks);
    if (b->compression != COMPRESSION_NONE) {
        if (room < INFO_HEADER + MASKS + (alpha ? 4 : 0))
            return refuse_damaged(e, "it ends in its masks");
        for (size_t i = 0; i < (alpha ? 4 : 3); i++)
            masks[i] = read_number(b->bytes + FILE_HEADER + INFO_HEADER + 4 * i, 4);
    }
    for (size_t i = 0; i < 4; i++)
        if (!set_field(&b->fields[i], masks[i]) || (i < 3 && masks[i] == 0))
            return error_set(e, STATUS_INPUT_INVALID, "BMP: bit field 0x%08x", masks[i]);
    return 0;
}

// Scales a sample of any width to 0..255, rounded to nearest; a missing alpha is opaque.
static uint8_t read_sample(const struct field *field, uint32_t pixel)
{
    uint64_t largest = field->mask >> field->shift, v = (pixel & field->mask) >> field->shift;
    return (uint8_t)(largest ? (v * 255 + largest / 2) / largest : 255);
}

// One pixel as RGBA. Pixels of 1 and 4 bits fill a byte from its highest bits on. Palettes and
// 24-bit pixels are in the order blue, green, red.
static int get_pixel(const struct bmp *b, const uint8_t *row, uint32_t x, uint8_t ret[4],
                     struct error *e)
{
    ret[3] = 255;
    if (b->depth <= 8) {
        unsigned per_byte = 8 / b->depth, shift = 8 - b->depth * (x % per_byte + 1);
        uint32_t i = (uint32_t)row[x / per_byte] >> shift & ((1u << b->depth) - 1);
        if (i >= b->n_colours)
            return error_set(e, STATUS_INPUT_INVALID, "BMP: colour %u of a palette of %u", i,
                             b->n_colours);
        const uint8_t *colour = b->palette + (size_t)i * b->colour_size;
        for (size_t c = 0; c < 3; c++)
            ret[c] = colour[2 - c];
    } else if (b->depth == 24) {
        for (size_t c = 0; c < 3; c++)
            ret[c] = row[3 * (size_t)x + 2 - c];
    } else {
        uint32_t pixel = read_number(row + (size_t)x * (b->depth / 8), b->depth / 8);
        for (size_t c = 0; c < 4; c++)
            ret[c] = read_sample(&b->fields[c], pixel);
    }
    return 0;
}

// All rows, top first, in the image's channels.
static int convert_row(const struct bmp *b, struct image *image, struct error *e)
{
    uint8_t *to = image->pixels, pixel[4];
    for (uint32_t y = 0; y < b->height; y++) {
        uint32_t line = b->from_top ? y : b->height - 1 - y;
        const uint8_t *row = b->bytes + b->pixels + line * b->stride;
        for (uint32_t x = 0; x < b->width; x++, to += image->channels) {
            int r = get_pixel(b, row, x, pixel, e);
            if (r)
                return r;
            if (image->channels == 1)
                *to = image_luma(pixel[0], pixel[1], pixel[2]);
            else
                memcpy(to, pixel, image->channels);
        }
    }
    return 0;
}

int image_read_bmp(const uint8_t *bytes, size_t size, struct image *ret, struct error *e)
{
    struct bmp b = {.bytes = bytes, .size = size};
    if (size < FILE_HEADER + CORE_HEADER)
        return refuse_damaged(e, "it ends in its header");
    b.pixels = read_number(bytes + 10, 4);
    b.header = read_number(bytes + FILE_HEADER, 4);
    int r = read_size(&b, e);
    if (r == 0)
        r = check_compression(&b, e);
    if (r == 0)
        r = b.depth <= 8 ? read_palette(&b, e) : read_fields(&b, e);
    if (r)
        return r;
    // Rows are multiples of 4 bytes.
    b.stride = (size_t)(((uint64_t)b.width * b.depth + 31) / 32 * 4);
    if (b.pixels > size || (size - b.pixels) / b.stride < b.height)
        return error_set(e, STATUS_INPUT_INVALID,
                         "BMP: %ux%u pixels are more than its %zu bytes hold", b.width, b.height,
                         size);
    ret->lost_alpha = b.fields[3].mask != 0 && ret->channels != 4;
    r = image_alloc(ret, b.width, b.height, e);
    return r ? r : convert_row(&b, ret, e);
}
