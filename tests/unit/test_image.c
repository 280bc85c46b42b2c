// Every kind of PNG and JPEG becomes the right bytes; damaged ones are refused, not half read.
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

#include "tools/image.h"

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
    assert_true(file && info);
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
    static uint8_t pixels[HEIGHT * WIDTH * 4 + 1];
    struct failure f = {0};
    const struct image_size size = {WIDTH, HEIGHT, channels};
    memset(pixels, 0xee, sizeof pixels);
    assert_int_equal(image_read(path, &size, pixels, &f), 0);
    for (unsigned y = 0; y < HEIGHT; y++)
        for (unsigned x = 0; x < WIDTH; x++) {
            unsigned want[4];
            const uint8_t *got = pixels + (y * WIDTH + x) * channels;
            wanted_pixel(k, x, y, want);
            double luma = 0.299 * want[0] + 0.587 * want[1] + 0.114 * want[2];
            if (channels == 1)
                assert_true(fabs(got[0] - luma) < 1.01); // libpng cuts, it does not round
            else
                for (unsigned c = 0; c < channels; c++)
                    assert_int_equal(got[c], want[c]);
        }
    assert_int_equal(pixels[HEIGHT * WIDTH * channels], 0xee);
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
    static uint8_t pixels[32 * 32 * 4];
    struct failure f = {0};
    const struct image_size size = {32, 32, channels};
    assert_int_equal(image_read(path, &size, pixels, &f), 0);
    for (unsigned i = 0; i < 32 * 32; i++) {
        double want[4] = {0, 0, 0, 255};
        for (int c = 0; c < 3; c++)
            want[c] = i % 32 < 16 ? 200 - 60 * (gray ? 0 : c) : 30 + 90 * (gray ? 0 : c);
        if (channels == 1)
            want[0] = 0.299 * want[0] + 0.587 * want[1] + 0.114 * want[2];
        for (uint32_t c = 0; c < channels; c++)
            assert_true(fabs(pixels[i * channels + c] - want[c]) <= 3);
    }
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

static void check_refused(uint32_t width, uint32_t height, const char *words)
{
    uint8_t pixels[32 * 32 * 3];
    struct failure f = {0};
    const struct image_size size = {width, height, 3};
    assert_int_equal(image_read(path, &size, pixels, &f), EXIT_INPUT);
    assert_non_null(strstr(f.text, words));
}

static void what_is_not_wanted_is_refused(void **state)
{
    (void)state;
    const struct kind png = {PNG_COLOR_TYPE_RGB, 8, 0, false};
    write_png(&png);
    check_refused(WIDTH, HEIGHT + 1, "19x13");
    write_jpeg(3, false);
    check_refused(31, 32, "32x32");
    write_jpeg(4, false); // CMYK
    check_refused(32, 32, "JPEG: ");
    save((const uint8_t *)"GIF89a..", 8);
    check_refused(32, 32, "neither");
    save((const uint8_t *)"", 0);
    check_refused(32, 32, "neither");
}

static void check_truncations(uint32_t width, uint32_t height)
{
    static uint8_t bytes[16384];
    size_t size = load(bytes, sizeof bytes);
    assert_in_range(size, 100, sizeof bytes - 1);
    for (size_t n = 8; n < size; n++) {
        save(bytes, n);
        check_refused(width, height, "");
    }
}

static void truncated_pictures_are_refused(void **state)
{
    (void)state;
    const struct kind png = {PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_ADAM7, false};
    write_png(&png);
    check_truncations(WIDTH, HEIGHT);
    write_jpeg(3, false);
    check_truncations(32, 32);
    write_jpeg(3, true);
    check_truncations(32, 32);
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
        check_refused(WIDTH, HEIGHT, "PNG: ");
        bytes[i] ^= 0x10;
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
        cmocka_unit_test(what_is_not_wanted_is_refused),
        cmocka_unit_test(truncated_pictures_are_refused),
        cmocka_unit_test(damaged_png_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
