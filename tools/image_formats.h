// Between image.c and its readers.
#pragma once

#include <stdio.h>

#include "tools/image.h"

/// `file` stands at its start and stays open.
int image_read_png(FILE *file, const struct image_size *size, uint8_t *pixels, struct failure *f);
int image_read_jpeg(FILE *file, const struct image_size *size, uint8_t *pixels, struct failure *f);

int image_check_size(const struct image_size *want, uint32_t width, uint32_t height,
                     struct failure *f);
