// The chip's lookup table.
#include "npu/sim/simd/lut.h"

#include <math.h>

#define REACH 16384
#define STEP  32

static float between(const int16_t *points, float from_start)
{
    int i = (int)(from_start / STEP);
    if (i >= LUT_POINTS - 1)
        i = LUT_POINTS - 2;
    float part = (from_start - (float)i * STEP) / STEP;
    return (float)points[i] + part * (float)(points[i + 1] - points[i]);
}

float lut_value(const struct graph_lut *lut, float v)
{
    v = rintf(v);
    float y;
    if (v < -REACH)
        y = (float)lut->below[0] + (v + REACH) * lut->slope_below;
    else if (v < 0)
        y = between(lut->below, v + REACH);
    else if (v <= REACH)
        y = between(lut->above, v);
    else
        y = (float)lut->above[LUT_POINTS - 1] + (v - REACH) * lut->slope_above;
    return y * lut->out_scale + lut->out_offset;
}
