// Every kind of PNG, JPEG and BMP becomes the right bytes; damaged ones are refused, not half read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h>
#include <math.h>
#include <png.h>
#include <unistd.h>
#include <zlib.h>

#include "tools/image/image.h"
#include "tools/image/image_formats.h"

#define WIDTH  19
#define HEIGHT 13
#define ALPHA  0x5a

static char path[] = "/tmp/test_image.XXXXXX";

static void save(const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static size_t load(uint8_t *ret, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(ret, 1, size, file);
    fclose(file);
    return n;
}

static int read_picture(uint32_t channels, struct image *ret, struct error *e)
{
    static uint8_t bytes[1 << 17];
    size_t size = load(bytes, sizeof bytes);
    assert_in_range(size, 0, sizeof bytes - 1);
    return image_decode(bytes, size, channels, ret, e);
}

// A sample of `depth` bits at a place, and what it is in 8 bits.
static unsigned sample(unsigned depth, unsigned x, unsigned y, unsigned channel)
{
    unsigned v = (x * 37 + y * 11 + channel * 101) & 0xff;
    return depth == 16 ? v * 257 : v >> (8 - depth);
}

static unsigned in_8_bits(unsigned depth, unsigned v)
{
    return v * 255 / ((1u << depth) - 1);
}

static void put_sample(uint8_t *row, unsigned depth, unsigned index, unsigned v)
{
    if (depth == 16) {
        row[2 * index] = (uint8_t)(v >> 8);
        row[2 * index + 1] = (uint8_t)v;
    } else {
        unsigned per_byte = 8 / depth, shift = 8 - depth * (index % per_byte + 1);
        row[index / per_byte] = (uint8_t)(row[index / per_byte] | v << shift);
    }
}

struct kind {
    int colour_type;
    unsigned depth;
    int interlace;
    bool transparent; // palette with tRNS
};

static unsigned channels_of(const struct kind *k)
{
    static const unsigned n[] = {1, 0, 3, 1, 2, 0, 4};
    return n[k->colour_type];
}

static unsigned sample_of(const struct kind *k, unsigned x, unsigned y, unsigned channel)
{
    bool alpha = (k->colour_type & PNG_COLOR_MASK_ALPHA) && channel == channels_of(k) - 1;
    return alpha ? (k->depth == 16 ? ALPHA * 257 : ALPHA) : sample(k->depth, x, y, channel);
}

static void set_palette(png_structp png, png_infop info, const struct kind *k)
{
    png_color colours[256];
    uint8_t alphas[256];
    for (unsigned i = 0; i < 256; i++) {
        colours[i] = (png_color){(uint8_t)(255 - i), (uint8_t)(i * 3), (uint8_t)(i ^ 0x55)};
        alphas[i] = ALPHA;
    }
    png_set_PLTE(png, info, colours, 1 << k->depth);
    if (k->transparent)
        png_set_tRNS(png, info, alphas, 1 << k->depth, NULL);
}

static void write_png(const struct kind *k)
{
    static uint8_t pixels[HEIGHT][WIDTH * 8];
    png_bytep rows[HEIGHT];
    FILE *file = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_true(file);
    assert_true(info);
    memset(pixels, 0, sizeof pixels);
    for (unsigned y = 0; y < HEIGHT; y++) {
        rows[y] = pixels[y];
        for (unsigned x = 0; x < WIDTH; x++)
            for (unsigned c = 0; c < channels_of(k); c++)
                put_sample(rows[y], k->depth, x * channels_of(k) + c, sample_of(k, x, y, c));
    }
    png_init_io(png, file);
    png_set_IHDR(png, info, WIDTH, HEIGHT, (int)k->depth, k->colour_type, k->interlace, 0, 0);
    if (k->colour_type == PNG_COLOR_TYPE_PALETTE)
        set_palette(png, info, k);
    png_set_rows(png, info, rows);
    png_write_png(png, info, 0, NULL);
    png_destroy_write_struct(&png, &info);
    fclose(file);
}

// Red, green, blue, alpha in 8 bits.
static void wanted_pixel(const struct kind *k, unsigned x, unsigned y, unsigned ret[4])
{
    unsigned n = channels_of(k);
    bool alpha = k->transparent || (k->colour_type & PNG_COLOR_MASK_ALPHA);
    ret[3] = alpha ? ALPHA : 255;
    for (unsigned c = 0; c < 3; c++)
        ret[c] = in_8_bits(k->depth, sample_of(k, x, y, n >= 3 ? c : 0));
    if (k->colour_type == PNG_COLOR_TYPE_PALETTE) {
        unsigned i = sample(k->depth, x, y, 0);
        ret[0] = 255 - i;
        ret[1] = i * 3 & 0xff;
        ret[2] = i ^ 0x55;
    }
}

static void check_png(const struct kind *k, uint32_t channels)
{
    struct image image;
    struct error e = {0};
    bool alpha = k->transparent || (k->colour_type & PNG_COLOR_MASK_ALPHA);
    assert_int_equal(read_picture(channels, &image, &e), 0);
    assert_int_equal(image.width, WIDTH);
    assert_int_equal(image.height, HEIGHT);
    assert_int_equal(image.lost_alpha, alpha && channels != 4);
    for (unsigned y = 0; y < HEIGHT; y++)
        for (unsigned x = 0; x < WIDTH; x++) {
            unsigned want[4];
            const uint8_t *got = image.pixels + (y * WIDTH + x) * channels;
            wanted_pixel(k, x, y, want);
            double luma = 0.299 * want[0] + 0.587 * want[1] + 0.114 * want[2];
            if (channels == 1)
                assert_cmp(fabs(got[0] - luma), <, 0.51);
            else
                for (unsigned c = 0; c < channels; c++)
                    assert_int_equal(got[c], want[c]);
        }
    image_done(&image);
}

static void every_kind_of_png(void **state)
{
    (void)state;
    static const struct {
        int colour_type;
        unsigned depth;
        bool transparent;
    } kinds[] = {{0, 1, 0},  {0, 2, 0},  {0, 4, 0}, {0, 8, 0}, {0, 16, 0}, {2, 8, 0},
                 {2, 16, 0}, {3, 1, 0},  {3, 2, 1}, {3, 4, 0}, {3, 8, 0},  {3, 8, 1},
                 {4, 8, 0},  {4, 16, 0}, {6, 8, 0}, {6, 16, 0}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int interlace = 0; interlace < 2; interlace++) {
            const struct kind k = {kinds[i].colour_type, kinds[i].depth, interlace,
                                   kinds[i].transparent};
            write_png(&k);
            check_png(&k, 1);
            check_png(&k, 3);
            check_png(&k, 4);
        }
}

// Left half one colour, right half another; smooth enough to survive as JPEG.
static void write_jpeg(int components, bool progressive)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    uint8_t row[32 * 4];
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = jpeg.image_height = 32;
    jpeg.input_components = components;
    jpeg.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    for (int c = 0; c < components; c++) // full chroma, so that colours keep to their half
        jpeg.comp_info[c].h_samp_factor = jpeg.comp_info[c].v_samp_factor = 1;
    if (progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (int x = 0; x < 32; x++)
        for (int c = 0; c < components; c++)
            row[x * components + c] = (uint8_t)(x < 16 ? 200 - 60 * c : 30 + 90 * c);
    while (jpeg.next_scanline < 32) {
        JSAMPROW rows[1] = {row};
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(file);
}

static void check_jpeg(bool gray, uint32_t channels)
{
    struct image image;
    struct error e = {0};
    assert_int_equal(read_picture(channels, &image, &e), 0);
    assert_int_equal(image.width, 32);
    assert_int_equal(image.height, 32);
    assert_false(image.turned);
    assert_false(image.lost_alpha);
    for (unsigned i = 0; i < 32 * 32; i++) {
        double want[4] = {0, 0, 0, 255};
        for (int c = 0; c < 3; c++)
            want[c] = i % 32 < 16 ? 200 - 60 * (gray ? 0 : c) : 30 + 90 * (gray ? 0 : c);
        if (channels == 1)
            want[0] = 0.299 * want[0] + 0.587 * want[1] + 0.114 * want[2];
        for (uint32_t c = 0; c < channels; c++)
            assert_cmp(fabs(image.pixels[i * channels + c] - want[c]), <=, 3);
    }
    image_done(&image);
}

static void every_kind_of_jpeg(void **state)
{
    (void)state;
    for (int progressive = 0; progressive < 2; progressive++)
        for (int components = 1; components <= 3; components += 2) {
            write_jpeg(components, progressive);
            check_jpeg(components == 1, 1);
            check_jpeg(components == 1, 3);
            check_jpeg(components == 1, 4);
        }
}

// Adobe's way, which libjpeg writes: what is stored is the light that is left.
static void cmyk_becomes_rgb(void **state)
{
    (void)state;
    write_jpeg(4, false);
    for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
        struct image image;
        struct error e = {0};
        assert_int_equal(read_picture(channels, &image, &e), 0);
        for (unsigned i = 0; i < 32 * 32; i++) {
            double k = i % 32 < 16 ? 20 : 44, want[4] = {0, 0, 0, 255}; // 30 + 90 * 3 - 256
            for (int c = 0; c < 3; c++)
                want[c] = (i % 32 < 16 ? 200 - 60 * c : 30 + 90 * c) * k / 255;
            if (channels == 1)
                want[0] = 0.299 * want[0] + 0.587 * want[1] + 0.114 * want[2];
            for (uint32_t c = 0; c < channels; c++)
                assert_cmp(fabs(image.pixels[i * channels + c] - want[c]), <=, 3);
        }
        image_done(&image);
    }
}

static void check_refused(const char *words)
{
    struct image image;
    struct error e = {0};
    assert_int_equal(read_picture(3, &image, &e), STATUS_INPUT_INVALID);
    if (!strstr(e.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, e.text);
}

static void what_is_no_picture_is_refused(void **state)
{
    (void)state;
    save((const uint8_t *)"GIF89a..", 8);
    check_refused("not a PNG, JPEG or BMP");
    assert_string_equal(image_foreign_format("GIF89a..", 8), "GIF");
    assert_string_equal(image_foreign_format("RIFF....WEBPVP8 ", 16), "WebP");
    assert_null(image_foreign_format("RIFF....WEB", 11));
    save((const uint8_t *)"", 0);
    check_refused("not a PNG, JPEG or BMP");
}

// A size that would take all memory is refused by its header.
static void huge_png_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[16384];
    const struct kind png = {PNG_COLOR_TYPE_RGB, 8, 0, false};
    write_png(&png);
    size_t size = load(bytes, sizeof bytes);
    memcpy(bytes + 16, "\0\1\0\0\0\1\0\0", 8); // 65536 x 65536
    uint32_t crc = (uint32_t)crc32(crc32(0, NULL, 0), bytes + 12, 17);
    for (int i = 0; i < 4; i++)
        bytes[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
    save(bytes, size);
    check_refused("a picture of 65536x65536");
}

static void check_truncations(void)
{
    static uint8_t bytes[16384];
    size_t size = load(bytes, sizeof bytes);
    assert_in_range(size, 100, sizeof bytes - 1);
    for (size_t n = 8; n < size; n++) {
        save(bytes, n);
        check_refused("");
    }
}

static void truncated_pictures_are_refused(void **state)
{
    (void)state;
    const struct kind png = {PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_ADAM7, false};
    write_png(&png);
    check_truncations();
    write_jpeg(3, false);
    check_truncations();
    write_jpeg(3, true);
    check_truncations();
}

// A flipped bit in the compressed data changes a checksum.
static void damaged_png_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[16384];
    const struct kind png = {PNG_COLOR_TYPE_RGB, 8, 0, false};
    write_png(&png);
    size_t size = load(bytes, sizeof bytes);
    for (size_t i = 33; i < size - 12; i++) { // between IHDR and IEND
        bytes[i] ^= 0x10;
        save(bytes, size);
        check_refused("PNG: ");
        bytes[i] ^= 0x10;
    }
}

// ---- EXIF
// ----------------------------------------------------------------------------------------

// A corner of a picture that stands upright: 3 x 2, each pixel different.
static const uint8_t upright[6] = {10, 60, 110, 160, 210, 250};

// Where pixel x, y of the upright picture is stored, by the words of EXIF: which side of the
// upright picture the stored row 0 and column 0 are.
static void stored_place(unsigned orientation, unsigned x, unsigned y, unsigned *ret_column,
                         unsigned *ret_row)
{
    enum side { TOP, RIGHT, BOTTOM, LEFT };
    static const enum side row_0[] = {0, TOP, TOP, BOTTOM, BOTTOM, LEFT, RIGHT, RIGHT, LEFT};
    static const enum side column_0[] = {0, LEFT, RIGHT, RIGHT, LEFT, TOP, TOP, BOTTOM, BOTTOM};
    const unsigned distance[] = {[TOP] = y, [BOTTOM] = 1 - y, [LEFT] = x, [RIGHT] = 2 - x};
    *ret_row = distance[row_0[orientation]];
    *ret_column = distance[column_0[orientation]];
}

static void pictures_are_turned_upright(void **state)
{
    (void)state;
    for (unsigned orientation = 1; orientation <= 8; orientation++) {
        bool swapped = orientation >= 5;
        struct error e = {0};
        struct image image = {.channels = 1};
        assert_int_equal(image_alloc(&image, swapped ? 2 : 3, swapped ? 3 : 2, &e), 0);
        for (unsigned i = 0; i < 6; i++) {
            unsigned column, row;
            stored_place(orientation, i % 3, i / 3, &column, &row);
            image.pixels[row * image.width + column] = upright[i];
        }
        assert_int_equal(image_turn(&image, orientation, &e), 0);
        assert_int_equal(image.turned, orientation != 1);
        assert_int_equal(image.width, 3);
        assert_int_equal(image.height, 2);
        assert_memory_equal(image.pixels, upright, sizeof upright);
        image_done(&image);
    }
}

static void orientation_is_found_in_exif_data(void **state)
{
    (void)state;
    static const uint8_t little[] = "II*\0\x8\0\0\0\2\0\0\1\3\0\1\0\0\0\7\0\0\0"
                                    "\x12\1\3\0\1\0\0\0\6\0\0\0";
    static const uint8_t big[] = "MM\0*\0\0\0\x8\0\1\1\x12\0\3\0\0\0\1\0\x8\0\0";
    assert_int_equal(image_exif_orientation(little, sizeof little), 6);
    assert_int_equal(image_exif_orientation(big, sizeof big), 8);
    for (size_t n = 0; n < 30; n++) // the tag is in the second entry
        assert_int_equal(image_exif_orientation(little, n), 1);
    uint8_t odd[sizeof big];
    memcpy(odd, big, sizeof big);
    odd[19] = 9; // no such orientation
    assert_int_equal(image_exif_orientation(odd, sizeof odd), 1);
    memcpy(odd + 4, "\xff\xff\xff\xff", 4); // a directory outside
    assert_int_equal(image_exif_orientation(odd, sizeof odd), 1);
}

static void add_exif(void)
{
    static const uint8_t exif[] = "\xff\xe1\0\x22"
                                  "Exif\0\0MM\0*\0\0\0\x8\0\1\1\x12\0\3\0\0\0\1\0\3\0\0\0\0\0";
    static uint8_t bytes[16384];
    size_t size = load(bytes, sizeof bytes - sizeof exif), n = 0x22 + 2;
    memmove(bytes + 2 + n, bytes + 2, size - 2);
    memcpy(bytes + 2, exif, n);
    save(bytes, size + n);
}

static void jpeg_is_turned_as_its_exif_says(void **state)
{
    (void)state;
    struct image image;
    struct error e = {0};
    write_jpeg(1, false);
    add_exif();
    assert_int_equal(read_picture(1, &image, &e), 0);
    assert_true(image.turned);
    assert_cmp(abs(image.pixels[0] - 30), <=, 3);
    assert_cmp(abs(image.pixels[31] - 200), <=, 3);
    image_done(&image);
}

// ---- BMP
// -----------------------------------------------------------------------------------------

struct bmp_kind {
    unsigned header, depth, compression;
    bool from_top;
    uint32_t masks[4];
};

static void put(uint8_t **at, uint32_t v, size_t n)
{
    for (; n > 0; n--, v >>= 8)
        *(*at)++ = (uint8_t)v;
}

// What the writer means by a pixel: for palettes the index is that of a picture of one channel.
static void bmp_pixel(const struct bmp_kind *k, unsigned x, unsigned y, unsigned ret[4])
{
    for (unsigned c = 0; c < 3; c++)
        ret[c] = k->depth == 16 ? (sample(5, x, y, c) * 510 + 31) / 62 : sample(8, x, y, c);
    ret[3] = k->masks[3] ? ALPHA : 255;
    if (k->depth <= 8) {
        unsigned i = sample(k->depth, x, y, 0);
        ret[0] = 255 - i, ret[1] = i * 3 & 0xff, ret[2] = i ^ 0x55;
    }
}

static uint32_t bmp_word(const struct bmp_kind *k, unsigned x, unsigned y)
{
    static const uint32_t usual[2][4] = {{0x7c00, 0x3e0, 0x1f}, {0xff0000, 0xff00, 0xff}};
    const uint32_t *masks = k->compression ? k->masks : usual[k->depth != 16];
    uint32_t word = 0;
    for (unsigned c = 0; c < 4; c++) {
        uint32_t v = c == 3 ? ALPHA : sample(k->depth == 16 ? 5 : 8, x, y, c);
        word |= masks[c] ? v * (masks[c] & -masks[c]) : 0;
    }
    return word;
}

static void put_bmp_row(const struct bmp_kind *k, unsigned y, uint8_t *row)
{
    for (unsigned x = 0; x < WIDTH; x++) {
        uint8_t *at = row + x * k->depth / 8;
        if (k->depth < 8)
            put_sample(row, k->depth, x, sample(k->depth, x, y, 0));
        else
            put(&at, k->depth == 8 ? sample(8, x, y, 0) : bmp_word(k, x, y), k->depth / 8);
    }
}

static void write_bmp(const struct bmp_kind *k)
{
    static uint8_t bytes[8192];
    uint8_t *at = bytes;
    bool core = k->header == 12;
    size_t colour = core ? 3 : 4, n_colours = k->depth <= 8 ? 1u << k->depth : 0;
    size_t masks = k->compression && k->header == 40 ? 12 : 0;
    size_t start = 14 + k->header + masks + n_colours * colour;
    size_t stride = (WIDTH * k->depth + 31) / 32 * 4;
    memset(bytes, 0, sizeof bytes);
    put(&at, 'B' | 'M' << 8, 2);
    put(&at, (uint32_t)(start + stride * HEIGHT), 4);
    put(&at, 0, 4);
    put(&at, (uint32_t)start, 4);
    put(&at, k->header, 4);
    put(&at, WIDTH, core ? 2 : 4);
    put(&at, k->from_top ? (uint32_t)-HEIGHT : HEIGHT, core ? 2 : 4);
    put(&at, 1, 2);
    put(&at, k->depth, 2);
    if (!core)
        put(&at, k->compression, 4);
    at = bytes + 14 + 40;
    for (unsigned c = 0; c < (k->header > 40 ? 4u : 3u) && k->compression; c++)
        put(&at, k->masks[c], 4);
    at = bytes + start - n_colours * colour;
    for (unsigned i = 0; i < n_colours; i++) {
        put(&at, (i ^ 0x55) & 0xff, 1);
        put(&at, i * 3 & 0xff, 1);
        put(&at, 255 - i, 1);
        at += colour - 3;
    }
    for (unsigned y = 0; y < HEIGHT; y++)
        put_bmp_row(k, y, bytes + start + (k->from_top ? y : HEIGHT - 1 - y) * stride);
    save(bytes, start + stride * HEIGHT);
}

static void check_bmp(const struct bmp_kind *k, uint32_t channels)
{
    struct image image;
    struct error e = {0};
    if (read_picture(channels, &image, &e))
        fail_msg("%u bits, header %u: %s", k->depth, k->header, e.text);
    assert_int_equal(image.width, WIDTH);
    assert_int_equal(image.height, HEIGHT);
    assert_int_equal(image.lost_alpha, k->masks[3] && channels != 4);
    for (unsigned i = 0; i < WIDTH * HEIGHT; i++) {
        unsigned want[4];
        const uint8_t *got = image.pixels + i * channels;
        bmp_pixel(k, i % WIDTH, i / WIDTH, want);
        double luma = 0.299 * want[0] + 0.587 * want[1] + 0.114 * want[2];
        if (channels == 1)
            assert_cmp(fabs(got[0] - luma), <, 0.51);
        for (uint32_t c = 0; c < channels && channels > 1; c++)
            assert_int_equal(got[c], want[c]);
    }
    image_done(&image);
}

static void every_kind_of_bmp(void **state)
{
    (void)state;
    static const struct bmp_kind kinds[] = {
        {12, 1, 0, false, {0}},
        {12, 8, 0, false, {0}},
        {12, 24, 0, false, {0}},
        {40, 1, 0, false, {0}},
        {40, 4, 0, true, {0}},
        {40, 8, 0, false, {0}},
        {40, 8, 0, true, {0}},
        {40, 16, 0, true, {0}},
        {40, 24, 0, false, {0}},
        {40, 24, 0, true, {0}},
        {40, 32, 0, true, {0}},
        {124, 24, 0, false, {0}},
        {40, 32, 3, false, {0xff000000, 0xff0000, 0xff00}},
        {40, 16, 3, false, {0x1f, 0x3e0, 0x7c00}},
        {124, 32, 3, true, {0xff0000, 0xff00, 0xff, 0xff000000}},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        write_bmp(&kinds[i]);
        check_bmp(&kinds[i], 1);
        check_bmp(&kinds[i], 3);
        check_bmp(&kinds[i], 4);
    }
}

// Changes `n` bytes of a good BMP.
static void check_patched(size_t at, const char *with, size_t n, const char *words)
{
    static uint8_t bytes[8192];
    static const struct bmp_kind k = {40, 8, 0, false, {0}};
    write_bmp(&k);
    size_t size = load(bytes, sizeof bytes);
    memcpy(bytes + at, with, n);
    save(bytes, size);
    check_refused(words);
}

static void odd_bmp_is_refused(void **state)
{
    (void)state;
    check_patched(30, "\1", 1, "RLE8");
    check_patched(30, "\2", 1, "RLE4");
    check_patched(30, "\4", 1, "JPEG");
    check_patched(30, "\7", 1, "compression 7");
    check_patched(28, "\3", 1, "3 bits a pixel");
    check_patched(28, "\1\1", 2, "257 bits a pixel");
    check_patched(14, "\x10", 1, "header of 16 bytes");
    check_patched(18, "\0", 1, "a size of 0x13");
    check_patched(18, "\xff\xff\xff\xff", 4, "a size of -1x13");
    check_patched(22, "\0\0\0\x80", 4, "a size of 19x-2147483648");
    check_patched(18, "\0\0\x10", 3, "more than its");
    check_patched(10, "\0\0\x10", 3, "more than its");
    check_patched(46, "\2", 1, "of a palette of 2");
}

static void truncated_bmp_is_refused(void **state)
{
    (void)state;
    static const struct bmp_kind kinds[] = {{40, 8, 0, false, {0}},
                                            {12, 24, 0, false, {0}},
                                            {40, 32, 3, false, {0xff, 0xff00, 0xff0000}}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        write_bmp(&kinds[i]);
        check_truncations();
    }
}

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_png),
        cmocka_unit_test(every_kind_of_jpeg),
        cmocka_unit_test(cmyk_becomes_rgb),
        cmocka_unit_test(what_is_no_picture_is_refused),
        cmocka_unit_test(huge_png_is_refused),
        cmocka_unit_test(truncated_pictures_are_refused),
        cmocka_unit_test(damaged_png_is_refused),
        cmocka_unit_test(pictures_are_turned_upright),
        cmocka_unit_test(orientation_is_found_in_exif_data),
        cmocka_unit_test(jpeg_is_turned_as_its_exif_says),
        cmocka_unit_test(every_kind_of_bmp),
        cmocka_unit_test(odd_bmp_is_refused),
        cmocka_unit_test(truncated_bmp_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
