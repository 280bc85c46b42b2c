// Fits pictures of any size into inputs of one size: works out which window of the picture goes to
// which rectangle of the input, then leaves the interpolation to resample().
//
//   letterbox  scale = min(W/w, H/h)   the whole picture, centred, padding around it
//   crop       scale = max(W/w, H/h)   the picture's centred part that fills the input
//   stretch    each axis by its own scale
//
// with w x h the picture and W x H the input.
#include "tools/image/image_fit.h"

#include <math.h>
#include <string.h>

const char *image_fit_name(enum image_fit fit)
{
    static const char *const names[] = {"exact", "letterbox", "stretch", "crop"};
    return names[fit];
}

// The scaled side in pixels, rounded to nearest as detectors' own preprocessing does; at least 1,
// so that a very long picture does not vanish, and never more than the input has room for.
static uint32_t scale_side(uint32_t side, double scale, uint32_t room)
{
    double n = rint(side * scale);
    return n < 1 ? 1 : n > room ? room : (uint32_t)n;
}

static void plan_letterbox(struct image_fitted *p)
{
    double scale = fmin((double)p->width / p->from_width, (double)p->height / p->from_height);
    p->fitted_width = scale_side(p->from_width, scale, p->width);
    p->fitted_height = scale_side(p->from_height, scale, p->height);
    p->left = (p->width - p->fitted_width) / 2;
    p->top = (p->height - p->fitted_height) / 2;
}

// The window is in the picture's pixels and may begin between two of them; fmin() removes what
// rounding adds beyond the picture.
static void plan_crop(struct image_fitted *p)
{
    double scale = fmax((double)p->width / p->from_width, (double)p->height / p->from_height);
    struct resample_window *w = &p->window;
    w->width = fmin(p->width / scale, p->from_width);
    w->height = fmin(p->height / scale, p->from_height);
    w->x = (p->from_width - w->width) / 2;
    w->y = (p->from_height - w->height) / 2;
}

static void fill_pad(const struct image_fitted *p, uint32_t channels, uint8_t *to)
{
    for (size_t i = 0; i < (size_t)p->width * p->height; i++, to += channels)
        memcpy(to, p->colour, channels);
}

// A picture of the right size is copied, whatever `fit` says, so that its pixels stay exact.
int image_place(const struct image *from, enum image_fit fit, const uint8_t colour[3],
                uint32_t width, uint32_t height, uint8_t *to, struct image_fitted *ret,
                struct error *e)
{
    bool same = from->width == width && from->height == height;
    size_t stride = (size_t)width * from->channels;
    struct image_fitted p = {.fit = same ? IMAGE_FIT_EXACT : fit,
                             .from_width = from->width,
                             .from_height = from->height,
                             .width = width,
                             .height = height,
                             .window = {0, 0, from->width, from->height},
                             .fitted_width = width,
                             .fitted_height = height,
                             .colour = {colour[0], colour[1], colour[2], 255}};
    if (!same && fit == IMAGE_FIT_EXACT)
        return error_set(e, STATUS_INPUT_INVALID,
                         "the picture is %ux%u, the model takes %ux%u (width x height); give "
                         "--fit letterbox (all of it, with a border), --fit stretch or --fit crop",
                         from->width, from->height, width, height);
    int r = 0;
    if (p.fit == IMAGE_LETTERBOX)
        plan_letterbox(&p);
    else if (p.fit == IMAGE_CROP)
        plan_crop(&p);
    if (p.fit == IMAGE_LETTERBOX)
        fill_pad(&p, from->channels, to);
    if (same)
        memcpy(to, from->pixels, stride * height);
    else
        r = resample(from, &p.window, to + p.top * stride + (size_t)p.left * from->channels, stride,
                     p.fitted_width, p.fitted_height, e);
    if (r == 0)
        *ret = p;
    return r;
}
