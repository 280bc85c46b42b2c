// What is known of each chip. The figures are those of docs/rknn-format.md.
#include "npu/model/chip.h"

#include <strings.h>

#define KB 1024

// clang-format off
static const struct chip chips[] = {
    // name, target, cores, c2 (8, 16 bits), bias, macs (8, 16 bits), MHz, SRAM, MB/s, depthwise, banks,
    // share: work, values; conversion, bias rule
    {"rk3588",  "rk3588",  3, 16, 8, 8, 1024, 512, 1000, 956 * KB, 12000, 64, 12, 608, true, 
     0x4080, BIAS_RK3588},
    {"rk3576",  "rk3576",  2, 16, 8, 8, 1024, 512, 1000,        0,  7464, 64, 12,   0, false,
     0x40ac, BIAS_RK3576},
    {"rk3568",  "rk3566",  1,  8, 4, 4,  512, 256, 1000,        0,  7459, 32,  8,   0, false,
     0x4080, BIAS_RK3588},
    {"rk3566",  "rk3566",  1,  8, 4, 4,  512, 256,  900,        0,  7459, 32,  8,   0, false,
     0x4080, BIAS_RK3588},
    {"rk3562",  "rk3562",  1, 16, 8, 4,  512, 256,  900,        0,  7464, 32,  8,   0, false,
     0x40ac, BIAS_RK3562},
    {"rv1126b", "rv1126b", 1, 16, 8, 8, 1024, 512, 1000,        0,  7464, 64, 12,   0, false,
     0x40ac, BIAS_RK3576},
    {"rv1103",  "rv1106",  1, 16, 8, 4,  512, 256,  420,        0,  1680, 32,  8,   0, false,
     0x4080, BIAS_RV1106},
    {"rv1106",  "rv1106",  1, 16, 8, 4,  512, 256,  420,        0,  1680, 32,  8,   0, false,
     0x4080, BIAS_RV1106},
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
