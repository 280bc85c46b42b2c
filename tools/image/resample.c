// Resamples pictures with a separable triangle filter: first every row along x into floats, then
// along y. Output pixel i of an axis has its centre at
//
//   c = start + (i + 0.5) * scale          scale = input length / output length
//   out[i] = sum_k w_k in[k] / sum_k w_k   w_k = max(0, 1 - |k + 0.5 - c| / r), r = max(scale, 1)
//
// Enlarging (r = 1), that is bilinear interpolation; shrinking, the triangle widens with the scale
// and averages all input pixels, so that nothing aliases. Sums are in float and are rounded once,
// at the end.
#include "tools/image/resample.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"

// One output pixel's filter: `n` input pixels from `first` on, and their weights, which sum up to
// 1.
struct tap {
    uint32_t first, n;
    const float *weights;
};

struct axis {
    struct tap *taps; // one for each output pixel
    float *weights;   // of all
};

static void axis_done(struct axis *a)
{
    free(a->taps);
    free(a->weights);
}

// The taps are the pixels whose centres are within the radius, cut at the picture's border and
// normalized afterwards. There is at least one, also for a window smaller than a pixel.
static void fill_tap(struct tap *t, float *weights, double center, double radius, uint32_t size)
{
    double sum = 0;
    double first = fmax(0, floor(center - radius + 0.5));
    double end = fmin(size, floor(center + radius + 0.5));
    t->first = (uint32_t)fmin(first, size - 1);
    t->n = end > first + 1 ? (uint32_t)(end - first) : 1;
    for (uint32_t i = 0; i < t->n; i++)
        sum += fmax(0, 1 - fabs(t->first + i + 0.5 - center) / radius);
    for (uint32_t i = 0; i < t->n; i++)
        weights[i] = sum > 0
                         ? (float)(fmax(0, 1 - fabs(t->first + i + 0.5 - center) / radius) / sum)
                         : 1.0f / (float)t->n;
    t->weights = weights;
}

// The filters of `n` output pixels over [start, start + length) of `size` input pixels. `room`
// bounds the taps of one: a triangle of 2 * radius, and rounding at either end.
static int axis_init(struct axis *a, uint32_t n, double start, double length, uint32_t size,
                     struct error *e)
{
    double scale = length / n, radius = fmax(scale, 1);
    size_t room = (size_t)(2 * radius) + 3;
    *a = (struct axis){.taps = calloc(n, sizeof *a->taps),
                       .weights = calloc((size_t)n * room, sizeof *a->weights)};
    if (!a->taps || !a->weights)
        return error_no_memory(e, "a picture", 0);
    for (uint32_t i = 0; i < n; i++)
        fill_tap(&a->taps[i], a->weights + i * room, start + (i + 0.5) * scale, radius, size);
    return 0;
}

// Filters one row along x: `width` output pixels, channels interleaved.
static void squeeze_row(const uint8_t *row, uint32_t channels, const struct axis *columns,
                        uint32_t width, float *to)
{
    for (uint32_t x = 0; x < width; x++, to += channels) {
        const struct tap *t = &columns->taps[x];
        const uint8_t *from = row + (size_t)t->first * channels;
        for (uint32_t c = 0; c < channels; c++)
            to[c] = 0;
        for (uint32_t i = 0; i < t->n; i++)
            for (uint32_t c = 0; c < channels; c++)
                to[c] += t->weights[i] * *from++;
    }
}

// One output row: the weighted sum of the rows of its tap, row by row so that the compiler
// vectorizes the inner loop. The sum begins at 0.5, so that the cast to bytes rounds.
static void add_rows(const struct tap *t, const float *rows, size_t length, float *sum, uint8_t *to)
{
    for (size_t x = 0; x < length; x++)
        sum[x] = 0.5f;
    for (uint32_t i = 0; i < t->n; i++)
        for (size_t x = 0; x < length; x++)
            sum[x] += t->weights[i] * rows[(t->first + i) * length + x];
    for (size_t x = 0; x < length; x++)
        to[x] = sum[x] >= 255 ? 255 : (uint8_t)sum[x];
}

// Both passes. `between` holds the rows of the first pass as floats; of a cropped picture only
// those that the second one reads.
static int squeeze_byte(const struct image *from, const struct axis *columns,
                        const struct axis *rows, uint8_t *to, size_t stride, uint32_t width,
                        uint32_t height, struct error *e)
{
    size_t length = (size_t)width * from->channels, row = (size_t)from->width * from->channels;
    // Taps move downwards only: the first row is the first tap's, the last one the last tap's.
    uint32_t first = rows->taps[0].first, end = rows->taps[height - 1].first;
    end += rows->taps[height - 1].n;
    cleanup(free_p) float *between = calloc((size_t)(end - first) * length, sizeof *between);
    cleanup(free_p) float *sum = calloc(length, sizeof *sum);
    if (!between || !sum)
        return error_no_memory(e, "a picture", 0);
    for (uint32_t y = first; y < end; y++)
        squeeze_row(from->pixels + y * row, from->channels, columns, width,
                    between + (y - first) * length);
    for (uint32_t y = 0; y < height; y++) {
        const struct tap t = {rows->taps[y].first - first, rows->taps[y].n, rows->taps[y].weights};
        add_rows(&t, between, length, sum, to + y * stride);
    }
    return 0;
}

int resample(const struct image *from, const struct resample_window *window, uint8_t *to,
             size_t stride, uint32_t width, uint32_t height, struct error *e)
{
    struct axis columns = {0}, rows = {0};
    int r = axis_init(&columns, width, window->x, window->width, from->width, e);
    if (r == 0)
        r = axis_init(&rows, height, window->y, window->height, from->height, e);
    if (r == 0)
        r = squeeze_byte(from, &columns, &rows, to, stride, width, height, e);
    axis_done(&columns);
    axis_done(&rows);
    return r;
}
