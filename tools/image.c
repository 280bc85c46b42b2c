// Pictures in PNG and JPEG files.
#include "tools/image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/cleanup.h"
#include "tools/image_formats.h"

bool image_is_png(const uint8_t *magic, size_t n)
{
    return n >= 8 && memcmp(magic, "\x89PNG\r\n\x1a\n", 8) == 0;
}

bool image_is_jpeg(const uint8_t *magic, size_t n)
{
    return n >= 3 && memcmp(magic, "\xff\xd8\xff", 3) == 0;
}

int image_check_size(const struct image_size *want, uint32_t width, uint32_t height,
                     struct failure *f)
{
    if (width == want->width && height == want->height)
        return 0;
    return failure_set(f, EXIT_INPUT,
                       "the picture is %ux%u, the model takes %ux%u (width x height); resize it",
                       width, height, want->width, want->height);
}

int image_read(const char *path, const struct image_size *size, uint8_t *pixels, struct failure *f)
{
    uint8_t magic[IMAGE_MAGIC_SIZE];
    cleanup(fclose_p) FILE *file = fopen(path, "rbe");
    if (!file)
        return failure_set(f, EXIT_INPUT, "%s", strerror(errno));
    size_t n = fread(magic, 1, sizeof magic, file);
    rewind(file);
    if (image_is_png(magic, n))
        return image_read_png(file, size, pixels, f);
    if (image_is_jpeg(magic, n))
        return image_read_jpeg(file, size, pixels, f);
    return failure_set(f, EXIT_INPUT, "neither a PNG nor a JPEG picture");
}
