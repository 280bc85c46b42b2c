// PNG, by libpng, which reports errors by longjmp() to the setjmp() in read_all().
#include <png.h>
#include <stdlib.h>

#include "tools/image/image.h"
#include "tools/image/image_formats.h"

static void on_error(png_structp png, png_const_charp text)
{
    error_set(png_get_error_ptr(png), STATUS_INPUT_INVALID, "PNG: %s", text);
    png_longjmp(png, 1);
}

// Warnings are about ancillary chunks (colour profiles, text), which do not change the pixels.
static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

// Has libpng convert any kind of PNG to 8 bits and the wanted channels: palettes, tRNS and fewer
// than 8 bits are expanded, 16 bits scaled (not cut), alpha added as 255 or dropped.
static void set_transforms(png_structp png, png_infop info, uint32_t channels)
{
    bool colour = (png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR) != 0;
    png_set_expand(png);
    png_set_scale_16(png);
    if (channels >= 3 && !colour)
        png_set_gray_to_rgb(png);
    if (channels == 4)
        png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
    else
        png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

// An alpha channel, or a tRNS chunk (a transparent colour or palette entries).
static bool has_alpha(png_structp png, png_infop info)
{
    return (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) ||
           png_get_valid(png, info, PNG_INFO_tRNS);
}

static unsigned orientation_of(png_structp png, png_infop info)
{
    png_uint_32 size = 0;
    png_bytep data = NULL;
    return png_get_eXIf_1(png, info, &size, &data) ? image_exif_orientation(data, size) : 1;
}

// Colours become gray here: libpng would cut fractions off, which makes all pixels darker by half a
// level than other formats' and programs'.
static void make_gray(struct image *image)
{
    size_t n = (size_t)image->width * image->height;
    const uint8_t *from = image->pixels;
    for (size_t i = 0; i < n; i++, from += 3)
        image->pixels[i] = image_luma(from[0], from[1], from[2]);
    image->channels = 1;
    uint8_t *smaller = realloc(image->pixels, n);
    image->pixels = smaller ? smaller : image->pixels;
}

// Reads the pixels, and the orientation that may come after them. Everything after setjmp() must
// not own memory other than the image's, which the caller frees: an error jumps over any cleanup.
// Interlaced pictures are read in seven passes, each of which refines all rows.
static int read_all(png_structp png, png_infop info, FILE *file, struct image *image,
                    unsigned *ret_orientation, struct error *e)
{
    if (setjmp(png_jmpbuf(png)))
        return e->code;
    png_init_io(png, file);
    png_set_user_limits(png, IMAGE_MAX_PIXELS, IMAGE_MAX_PIXELS);
    png_read_info(png, info);
    bool colour = (png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR) != 0;
    bool to_gray = image->channels == 1 && colour;
    image->channels = to_gray ? 3 : image->channels;
    int r = image_alloc(image, png_get_image_width(png, info), png_get_image_height(png, info), e);
    if (r)
        return r;
    image->lost_alpha = has_alpha(png, info) && image->channels != 4;
    set_transforms(png, info, image->channels);
    size_t stride = (size_t)image->width * image->channels;
    // Transforms that gave longer rows than planned would overflow the pixels.
    if (png_get_rowbytes(png, info) != stride)
        png_error(png, "unexpected form of rows");
    bool interlaced = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    for (int pass = 0; pass < (interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1); pass++)
        for (uint32_t y = 0; y < image->height; y++)
            png_read_row(png, image->pixels + y * stride, NULL);
    png_read_end(png, info);
    if (to_gray)
        make_gray(image);
    *ret_orientation = orientation_of(png, info);
    return 0;
}

int image_read_png(FILE *file, struct image *ret, unsigned *ret_orientation, struct error *e)
{
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, e, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int r = info ? read_all(png, info, file, ret, ret_orientation, e)
                 : error_no_memory(e, "a picture", 0);
    png_destroy_read_struct(&png, &info, NULL);
    return r;
}
