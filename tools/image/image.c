// Pictures in PNG, JPEG and BMP files: tells the format by the first bytes and hands the data to
// the reader of that format. Files are untrusted: each reader checks sizes before it allocates.
#include "tools/image/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/image/image_formats.h"

struct magic {
    const char *name;
    size_t at;
    const char *bytes;
    size_t size;
};

// "BM" alone begins too many other files: image_format() also wants the four reserved bytes at
// offset 6, which are 0 in every BMP.
static const struct magic readable[] = {
    {"PNG", 0, "\x89PNG\r\n\x1a\n", 8},
    {"JPEG", 0, "\xff\xd8\xff", 3},
    {"BMP", 0, "BM", 2},
};

// Recognized only to be refused by name; nothing here decodes them.
static const struct magic foreign[] = {
    {"GIF", 0, "GIF8", 4},         {"WebP", 8, "WEBP", 4},          {"TIFF", 0, "II*\0", 4},
    {"TIFF", 0, "MM\0*", 4},       {"HEIC", 4, "ftyphei", 7},       {"HEIC", 4, "ftypmif1", 8},
    {"AVIF", 4, "ftypavi", 7},     {"JPEG 2000", 4, "jP  \r\n", 6}, {"JPEG XL", 4, "JXL \r\n", 6},
    {"JPEG XL", 0, "\xff\x0a", 2}, {"PDF", 0, "%PDF-", 5},          {"SVG", 0, "<svg", 4},
    {"Netpbm", 0, "P6\n", 3},      {"Netpbm", 0, "P5\n", 3},
};

static const char *find_format(const struct magic *table, size_t n, const void *bytes, size_t size)
{
    for (size_t i = 0; i < n; i++)
        if (size >= table[i].at + table[i].size &&
            memcmp((const char *)bytes + table[i].at, table[i].bytes, table[i].size) == 0)
            return table[i].name;
    return NULL;
}

const char *image_format(const void *bytes, size_t size)
{
    const char *name = find_format(readable, sizeof readable / sizeof *readable, bytes, size);
    bool bmp = name && strcmp(name, "BMP") == 0;
    return bmp && (size < 10 || memcmp((const char *)bytes + 6, "\0\0\0\0", 4) != 0) ? NULL : name;
}

const char *image_foreign_format(const void *bytes, size_t size)
{
    return find_format(foreign, sizeof foreign / sizeof *foreign, bytes, size);
}

void image_done(struct image *i)
{
    free(i->pixels);
    *i = (struct image){0};
}

// Each side is bounded by itself first, so that their product cannot overflow 64 bits. The limit
// keeps a small file that claims a huge size from allocating gigabytes.
int image_alloc(struct image *ret, uint64_t width, uint64_t height, struct error *e)
{
    if (width == 0 || height == 0 || width > IMAGE_MAX_PIXELS || height > IMAGE_MAX_PIXELS ||
        width * height > IMAGE_MAX_PIXELS)
        return error_set(e, STATUS_INPUT_INVALID,
                         "a picture of %llux%llu; it can have %u million pixels at most",
                         (unsigned long long)width, (unsigned long long)height,
                         IMAGE_MAX_PIXELS / 1000000);
    ret->pixels = malloc((size_t)(width * height) * ret->channels);
    if (!ret->pixels)
        return error_no_memory(e, "a picture", 0);
    ret->width = (uint32_t)width;
    ret->height = (uint32_t)height;
    return 0;
}

// libpng and libjpeg read from a FILE: fmemopen() gives them the bytes without a copy. BMP files
// have no EXIF data, so only these two are turned upright.
static int read_stream(image_reader *reader, const void *bytes, size_t size, struct image *ret,
                       struct error *e)
{
    unsigned orientation = 1;
    cleanup(fclose_p) FILE *file = fmemopen((void *)(uintptr_t)bytes, size, "rb");
    if (!file)
        return error_set(e, STATUS_INPUT_INVALID, "%s", strerror(errno));
    int r = reader(file, ret, &orientation, e);
    return r ? r : image_turn(ret, orientation, e);
}

// Decodes into a local image, so that *ret stays untouched after a failure.
int image_decode(const void *bytes, size_t size, uint32_t channels, struct image *ret,
                 struct error *e)
{
    struct image i = {.channels = channels};
    const char *name = image_format(bytes, size);
    int r;
    if (!name)
        r = error_set(e, STATUS_INPUT_INVALID, "not a PNG, JPEG or BMP picture");
    else if (strcmp(name, "PNG") == 0)
        r = read_stream(image_read_png, bytes, size, &i, e);
    else if (strcmp(name, "JPEG") == 0)
        r = read_stream(image_read_jpeg, bytes, size, &i, e);
    else
        r = image_read_bmp(bytes, size, &i, e);
    if (r)
        image_done(&i);
    else
        *ret = i;
    return r;
}
