// PNG and JPEG files, of the one size that a model takes: all pixels, or words.
#include <stdbool.h>
#include <stdlib.h>

#include "tools/cleanup.h"
#include "tools/image_formats.h"

#define SIDE 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

// The buffer is exactly as large as the picture, so that sanitizers see writes past its end.
static void read_picture(const uint8_t *data, size_t size, uint32_t channels)
{
    const struct image_size want = {SIDE, SIDE, channels};
    struct failure f = {0};
    cleanup(fclose_p) FILE *file = fmemopen((void *)(uintptr_t)data, size, "rb");
    cleanup(free_p) uint8_t *pixels = malloc((size_t)SIDE * SIDE * channels);
    check(file && pixels);
    int r = image_is_png(data, size) ? image_read_png(file, &want, pixels, &f)
                                     : image_read_jpeg(file, &want, pixels, &f);
    check(r == 0 || (r == f.code && f.text[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!image_is_png(data, size) && !image_is_jpeg(data, size))
        return 0;
    read_picture(data, size, 1);
    read_picture(data, size, 3);
    read_picture(data, size, 4);
    return 0;
}
