// Pictures of any size for inputs of one size.
#pragma once

#include "tools/image/resample.h"

enum image_fit {
    IMAGE_FIT_EXACT, // another size is refused
    IMAGE_LETTERBOX, // the whole picture in its proportions, in the middle, colour around it
    IMAGE_STRETCH,   // the whole picture, not in its proportions
    IMAGE_CROP,      // its middle, in its proportions, as much as fills the input
};

// What was done with a picture.
struct image_fitted {
    enum image_fit fit;                              // IMAGE_FIT_EXACT: it had the size
    uint32_t from_width, from_height;                // of the picture, upright
    uint32_t width, height;                          // of the input
    struct resample_window window;                   // of the picture
    uint32_t left, top, fitted_width, fitted_height; // the rectangle of the input it fills
    uint8_t colour[4];                               // of the rest
};

/// "letterbox", "stretch" or "crop".
const char *image_fit_name(enum image_fit fit);

/// Puts the picture into width x height pixels of its channels; `colour` is that of what it leaves
/// free (letterbox), its alpha 255. A size that IMAGE_FIT_EXACT refuses is named with what to do.
int image_place(const struct image *from, enum image_fit fit, const uint8_t colour[3],
                uint32_t width, uint32_t height, uint8_t *to, struct image_fitted *ret,
                struct error *e);
