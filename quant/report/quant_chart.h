// A tensor's histogram as a picture, with the range that is stored.
#pragma once

#include <stdio.h>

#include "quant/include/rknnd_quant.h"

/// SVG for a tensor that has a histogram.
void quant_chart_histogram(FILE *out, const rknnd_quant_tensor *t);
