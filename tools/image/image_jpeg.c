// JPEG, by libjpeg (turbo: JCS_EXT_RGBA is its extension). libjpeg reports errors by calling back,
// and the callback must not return: it longjmp()s to image_read_jpeg(). What is allocated in
// between therefore belongs to struct handler, the image or libjpeg, never to a local variable.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "tools/image/image.h"
#include "tools/image/image_formats.h"

#define EXIF_MARKER (JPEG_APP0 + 1)
#define EXIF_START  "Exif\0" // and the literal's own 0

// libjpeg's error manager with our own data behind it; jpeg->err points to its first member.
struct handler {
    struct jpeg_error_mgr base;
    jmp_buf back;
    struct error *failure;
    uint8_t *line; // of a CMYK picture
};

// Called by libjpeg for a fatal error; does not return.
static void on_error(j_common_ptr jpeg)
{
    struct handler *h = (struct handler *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    h->base.format_message(jpeg, text);
    error_set(h->failure, STATUS_INPUT_INVALID, "JPEG: %s", text);
    longjmp(h->back, 1);
}

// Negative levels are warnings about corrupt data. libjpeg would go on and fill in gray: a damaged
// picture is refused instead. Levels from 0 on are traces.
static void on_message(j_common_ptr jpeg, int level)
{
    if (level < 0)
        on_error(jpeg);
}

// Markers are kept only because jpeg_save_markers() was called before the header was read.
static unsigned orientation_of(const struct jpeg_decompress_struct *jpeg)
{
    const size_t n = sizeof EXIF_START;
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)
        if (m->marker == EXIF_MARKER && m->data_length > n && memcmp(m->data, EXIF_START, n) == 0)
            return image_exif_orientation(m->data + n, m->data_length - n);
    return 1;
}

static bool is_cmyk(const struct jpeg_decompress_struct *jpeg)
{
    return jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
}

static J_COLOR_SPACE colour_space(uint32_t channels)
{
    return channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_EXT_RGBA;
}

// One row of CMYK to gray, RGB or RGBA: each colour is (1 - ink) * (1 - K). Adobe's programs, which
// write nearly all CMYK files, store the inverse (`light`: 255 is no ink), and mark the file.
static void from_cmyk(const uint8_t *line, bool light, uint32_t width, uint32_t channels,
                      uint8_t *to)
{
    for (uint32_t x = 0; x < width; x++, line += 4, to += channels) {
        unsigned rgb[3], k = light ? line[3] : 255u - line[3];
        for (size_t c = 0; c < 3; c++)
            rgb[c] = ((light ? line[c] : 255u - line[c]) * k + 127) / 255;
        if (channels == 1)
            *to = image_luma(rgb[0], rgb[1], rgb[2]);
        for (size_t c = 0; c < 4 && channels > 1 && c < channels; c++)
            to[c] = c == 3 ? 255 : (uint8_t)rgb[c];
    }
}

// Decodes row by row straight into the image; CMYK needs the detour of a row of 4 bytes a pixel.
static void read_rows(struct jpeg_decompress_struct *jpeg, struct handler *h, struct image *image)
{
    size_t stride = (size_t)image->width * image->channels;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = image->pixels + jpeg->output_scanline * stride;
        JSAMPROW row = h->line ? h->line : to;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (h->line)
            from_cmyk(row, jpeg->saw_Adobe_marker, image->width, image->channels, to);
    }
    jpeg_finish_decompress(jpeg);
}

// An error comes back through setjmp: what is allocated here is the handler's or the image's.
static int read_all(struct jpeg_decompress_struct *jpeg, struct handler *h, struct image *image,
                    unsigned *ret_orientation)
{
    jpeg_read_header(jpeg, TRUE);
    int r = image_alloc(image, jpeg->image_width, jpeg->image_height, h->failure);
    if (r)
        return r;
    *ret_orientation = orientation_of(jpeg);
    jpeg->out_color_space = is_cmyk(jpeg) ? JCS_CMYK : colour_space(image->channels);
    if (is_cmyk(jpeg) && !(h->line = calloc(image->width, 4)))
        return error_no_memory(h->failure, "a picture", 0);
    read_rows(jpeg, h, image);
    return 0;
}

int image_read_jpeg(FILE *file, struct image *ret, unsigned *ret_orientation, struct error *e)
{
    struct jpeg_decompress_struct jpeg = {0};
    struct handler handler = {.failure = e};
    jpeg.err = jpeg_std_error(&handler.base);
    handler.base.error_exit = on_error;
    handler.base.emit_message = on_message;
    if (setjmp(handler.back)) {
        jpeg_destroy_decompress(&jpeg);
        free(handler.line);
        return e->code;
    }
    jpeg_create_decompress(&jpeg);
    jpeg_stdio_src(&jpeg, file);
    jpeg_save_markers(&jpeg, EXIF_MARKER, 0xffff);
    int r = read_all(&jpeg, &handler, ret, ret_orientation);
    jpeg_destroy_decompress(&jpeg);
    free(handler.line);
    return r;
}
