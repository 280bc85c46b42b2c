// Turns pictures upright. Cameras store pixels as the sensor delivers them and note the camera's
// position in EXIF data, a TIFF structure without a picture:
//
//   0  "II*\0" little-endian or "MM\0*" big-endian
//   4  offset of the first directory: number of entries (2), then 12 bytes for each:
//      tag (2), type (2), count (4), value (4; a short is in its first two bytes)
//
// The data is untrusted: offsets are checked, and what makes no sense means "upright".
#include <stdlib.h>
#include <string.h>

#include "tools/image/image.h"
#include "tools/image/image_formats.h"

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT      3
#define ENTRY_SIZE      12

static unsigned read_number(const uint8_t *at, size_t n, bool big)
{
    unsigned v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | at[big ? i : n - 1 - i];
    return v;
}

unsigned image_exif_orientation(const uint8_t *data, size_t size)
{
    if (size < 10 || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return 1;
    bool big = *data == 'M';
    size_t at = read_number(data + 4, 4, big);
    if (at > size - 2)
        return 1;
    size_t n = read_number(data + at, 2, big);
    for (at += 2; n > 0 && size - at >= ENTRY_SIZE; n--, at += ENTRY_SIZE) {
        unsigned value = read_number(data + at + 8, 2, big);
        if (read_number(data + at, 2, big) == TAG_ORIENTATION &&
            read_number(data + at + 2, 2, big) == TYPE_SHORT)
            return value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

// Copies pixel by pixel: (x, y) is in the upright picture, (column, row) in the stored one.
// Orientations 5 to 8 are transposed; the tables say where in the stored picture the upright one's
// first row and column begin.
int image_turn(struct image *i, unsigned orientation, struct error *e)
{
    static const bool from_right[9] = {[2] = true, [3] = true, [7] = true, [8] = true};
    static const bool from_below[9] = {[3] = true, [4] = true, [6] = true, [7] = true};
    struct image turned = *i;
    bool swapped = orientation >= 5;
    if (orientation == 1)
        return 0;
    turned.pixels = NULL;
    int r = image_alloc(&turned, swapped ? i->height : i->width, swapped ? i->width : i->height, e);
    if (r)
        return r;
    uint8_t *to = turned.pixels;
    for (uint32_t y = 0; y < turned.height; y++)
        for (uint32_t x = 0; x < turned.width; x++, to += i->channels) {
            uint32_t column = swapped ? y : x, row = swapped ? x : y;
            column = from_right[orientation] ? i->width - 1 - column : column;
            row = from_below[orientation] ? i->height - 1 - row : row;
            memcpy(to, i->pixels + ((size_t)row * i->width + column) * i->channels, i->channels);
        }
    turned.turned = true;
    image_done(i);
    *i = turned;
    return 0;
}
