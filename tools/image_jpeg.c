// JPEG, by libjpeg.
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "tools/image_formats.h"

struct handler {
    struct jpeg_error_mgr base;
    jmp_buf back;
    struct failure *failure;
};

static void on_error(j_common_ptr jpeg)
{
    struct handler *h = (struct handler *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    h->base.format_message(jpeg, text);
    failure_set(h->failure, EXIT_INPUT, "JPEG: %s", text);
    longjmp(h->back, 1);
}

// A picture with damaged or missing data decodes to something else: refused, not warned about.
static void on_message(j_common_ptr jpeg, int level)
{
    if (level < 0)
        on_error(jpeg);
}

static void read_rows(struct jpeg_decompress_struct *jpeg, const struct image_size *size,
                      uint8_t *pixels)
{
    size_t stride = (size_t)size->width * size->channels;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = pixels + jpeg->output_scanline * stride;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
}

static J_COLOR_SPACE colour_space(uint32_t channels)
{
    return channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_EXT_RGBA;
}

int image_read_jpeg(FILE *file, const struct image_size *size, uint8_t *pixels, struct failure *f)
{
    struct jpeg_decompress_struct jpeg = {0};
    struct handler handler = {.failure = f};
    jpeg.err = jpeg_std_error(&handler.base);
    handler.base.error_exit = on_error;
    handler.base.emit_message = on_message;
    if (setjmp(handler.back)) {
        jpeg_destroy_decompress(&jpeg);
        return f->code;
    }
    jpeg_create_decompress(&jpeg);
    jpeg_stdio_src(&jpeg, file);
    jpeg_read_header(&jpeg, TRUE);
    int r = image_check_size(size, jpeg.image_width, jpeg.image_height, f);
    if (r == 0) {
        jpeg.out_color_space = colour_space(size->channels);
        read_rows(&jpeg, size, pixels);
    }
    jpeg_destroy_decompress(&jpeg);
    return r;
}
