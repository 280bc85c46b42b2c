// PNG, by libpng.
#include <png.h>
#include <stdlib.h>

#include "tools/cleanup.h"
#include "tools/image_formats.h"

// BT.601 luma in libpng's fixed point (100,000 = 1).
#define RED_WEIGHT   29900
#define GREEN_WEIGHT 58700

static void on_error(png_structp png, png_const_charp text)
{
    failure_set(png_get_error_ptr(png), EXIT_INPUT, "PNG: %s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

// Any kind of PNG to 8 bits and the wanted channels.
static void set_transforms(png_structp png, png_infop info, uint32_t channels)
{
    bool colour = (png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR) != 0;
    png_set_expand(png);
    png_set_scale_16(png);
    if (channels == 1 && colour)
        png_set_rgb_to_gray_fixed(png, PNG_ERROR_ACTION_NONE, RED_WEIGHT, GREEN_WEIGHT);
    if (channels >= 3 && !colour)
        png_set_gray_to_rgb(png);
    if (channels == 4)
        png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
    else
        png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

// Behind setjmp: nothing here may own memory.
static int read_rows(png_structp png, png_infop info, FILE *file, const struct image_size *size,
                     png_bytepp rows, struct failure *f)
{
    if (setjmp(png_jmpbuf(png)))
        return f->code;
    png_init_io(png, file);
    png_set_user_limits(png, size->width > 65536 ? size->width : 65536,
                        size->height > 65536 ? size->height : 65536);
    png_read_info(png, info);
    int r =
        image_check_size(size, png_get_image_width(png, info), png_get_image_height(png, info), f);
    if (r)
        return r;
    set_transforms(png, info, size->channels);
    if (png_get_rowbytes(png, info) != (size_t)size->width * size->channels)
        png_error(png, "unexpected form of rows");
    png_read_image(png, rows);
    png_read_end(png, NULL);
    return 0;
}

int image_read_png(FILE *file, const struct image_size *size, uint8_t *pixels, struct failure *f)
{
    cleanup(free_p) png_bytepp rows = calloc(size->height, sizeof *rows);
    if (!rows)
        return failure_no_memory(f);
    for (uint32_t y = 0; y < size->height; y++)
        rows[y] = pixels + (size_t)y * size->width * size->channels;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, f, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int r = info ? read_rows(png, info, file, size, rows, f) : failure_no_memory(f);
    png_destroy_read_struct(&png, &info, NULL);
    return r;
}
