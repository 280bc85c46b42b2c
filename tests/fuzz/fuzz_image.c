// PNG, JPEG and BMP files: all pixels, or words.
#include <stdbool.h>
#include <stdlib.h>

#include "tools/image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

// The pixels are exactly as many as the picture has, so that sanitizers see writes past their end.
static void read_picture(const uint8_t *data, size_t size, uint32_t channels)
{
    struct image image = {0};
    struct error e = {0};
    int r = image_decode(data, size, channels, &image, &e);
    check(r == 0 || (r == e.code && e.text[0] && !image.pixels));
    image_done(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!image_format(data, size))
        return 0;
    read_picture(data, size, 1);
    read_picture(data, size, 3);
    read_picture(data, size, 4);
    return 0;
}
