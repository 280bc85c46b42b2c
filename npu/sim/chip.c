// What is known of each chip. The figures are those of docs/rknn-format.md.
#include "npu/sim/chip.h"

#include <strings.h>

#define KB 1024

// clang-format off
static const struct chip chips[] = {
    // name      target   cores c2  group  macs       MHz   SRAM    DDR  conv    bias
    {"rk3588",  "rk3588",  3, 16, 8,  8, 1024, 512,  1000, 956 * KB, 12, 0x4080, BIAS_RK3588},
    {"rk3576",  "rk3576",  2, 16, 8,  8, 1024, 512,  1000, 0,        12, 0x40ac, BIAS_RK3576},
    {"rk3568",  "rk3566",  1,  8, 4,  4,  512, 256,  1000, 0,         8, 0x4080, BIAS_RK3588},
    {"rk3566",  "rk3566",  1,  8, 4,  4,  512, 256,   900, 0,         8, 0x4080, BIAS_RK3588},
    {"rk3562",  "rk3562",  1, 16, 8,  4,  512, 256,   900, 0,         8, 0x40ac, BIAS_RK3562},
    {"rv1126b", "rv1126b", 1, 16, 8,  8, 1024, 512,  1000, 0,         8, 0x40ac, BIAS_RK3576},
    {"rv1103",  "rv1106",  1, 16, 8,  4,  256, 128,   420, 0,         4, 0x4080, BIAS_RV1106},
    {"rv1106",  "rv1106",  1, 16, 8,  4,  256, 128,   420, 0,         4, 0x4080, BIAS_RV1106},
};
// clang-format on

const struct chip *chip_find(const char *name)
{
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (strcasecmp(chips[i].name, name) == 0)
            return &chips[i];
    return 0;
}

const char *chip_names(void)
{
    return "rk3588, rk3576, rk3568, rk3566, rk3562, rv1126b, rv1103, rv1106";
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

uint64_t chip_conv_cycles(const struct chip *chip, bool half, uint64_t pixels, uint64_t taps,
                          uint64_t inputs, uint64_t outputs, bool depthwise)
{
    // 32 channels are taken in at a time, so many come out:
    uint64_t lanes = (half ? chip->macs_half : chip->macs_int8) / 32;
    if (depthwise)
        return pixels * taps * ceil_div(outputs, 32);
    uint64_t steps = taps * ceil_div(inputs, 32), least = lanes == 16 && !half ? 4 : 1;
    return pixels * (steps > least ? steps : least) * ceil_div(outputs, lanes);
}
