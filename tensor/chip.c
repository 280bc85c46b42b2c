// The chips. To add one, add a row: nothing else names chips, unless its registers are at addresses
// of their own (enum chip_generation). Figures are those of docs/rknn-format.md, where a comment
// does not say otherwise.
#include "tensor/chip.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define KB 1024

// Types of products (SDK guide, table 3-13), by their numbers.
#define MATMUL_FIRST ((1u << 1) | (1u << 2))
#define MATMUL_LATER (MATMUL_FIRST | (1u << 4))

// Chips that differ in their clock alone share what is between braces.
#define RK356X                                                                                     \
    .target = "rk3566", .n_cores = 1, .buffer_banks = 8, .c2_int8 = 8, .c2_fp16 = 4,               \
    .bias_group = 4, .macs_int8 = 512, .macs_fp16 = 256, .depthwise_int8 = 32,                     \
    .ddr_mb_per_s = 7459, .generation = CHIP_GEN_RK3566, .bn_relu_field = true,                    \
    .matmul = {.types = MATMUL_FIRST,                                                              \
               .a_unit = 8,                                                                        \
               .int8_n = 16,                                                                       \
               .fp16_n = 8,                                                                        \
               .fp16_k = 16,                                                                       \
               .n_unit = 16,                                                                       \
               .max_k = 10240}

#define RV110X                                                                                     \
    .target = "rv1106", .n_cores = 1, .mhz = 420, .small = true, .buffer_banks = 8, .c2_int8 = 16, \
    .c2_fp16 = 8, .bias_group = 4, .taps = CHIP_TAPS_SINGLE, .macs_int8 = 512, .macs_fp16 = 256,   \
    .depthwise_int8 = 32, .ddr_mb_per_s = 1680, .generation = CHIP_GEN_RV1106

// RV1126B has the NPU of RK3576, one core of it. It is not in the tables of matrix products: they
// are taken to lie as RK3576's.
#define RK3576_CORE                                                                                \
    .mhz = 1000, .buffer_banks = 12, .c2_int8 = 16, .c2_fp16 = 8, .bias_group = 8,                 \
    .packs_rows = true, .taps = CHIP_TAPS_PAIRS, .macs_int8 = 1024, .macs_fp16 = 512,              \
    .depthwise_int8 = 64, .ddr_mb_per_s = 7464, .generation = CHIP_GEN_RK3576,                     \
    .shifts_sums = true, .bn_in_memory = true,                                                     \
    .matmul = {.types = MATMUL_LATER | (1u << 5) | (1u << 7) | (1u << 8) | (1u << 11),             \
               .a_unit = 16,                                                                       \
               .int8_n = 32,                                                                       \
               .fp16_n = 16,                                                                       \
               .fp16_k = 32,                                                                       \
               .n_unit = 32,                                                                       \
               .segment = 4096,                                                                    \
               .transposes = true}

// The first one is chip_default().
static const struct chip chips[] = {
    {
        .name = "rk3588",
        .target = "rk3588",
        .n_cores = 3,
        .mhz = 1000,
        .sram_size = 956 * KB,
        .buffer_banks = 12,
        .c2_int8 = 16,
        .c2_fp16 = 8,
        .bias_group = 8,
        .macs_int8 = 1024,
        .macs_fp16 = 512,
        .depthwise_int8 = 64,
        .ddr_mb_per_s = 12000,
        .share_work = 608,
        .shares_values = true,
        .generation = CHIP_GEN_RK3588,
        .bn_relu_field = true,
        .matmul = {.types = MATMUL_LATER | (1u << 3) | (1u << 9) | (1u << 10),
                   .a_unit = 16,
                   .int8_n = 32,
                   .fp16_n = 16,
                   .fp16_k = 32,
                   .n_unit = 32,
                   .segment = 8192,
                   .transposes = true},
    },
    {.name = "rk3576", .target = "rk3576", .n_cores = 2, RK3576_CORE},
    {.name = "rk3568", .mhz = 1000, RK356X},
    {.name = "rk3566", .mhz = 900, RK356X},
    {
        .name = "rk3562",
        .target = "rk3562",
        .n_cores = 1,
        .mhz = 900,
        .buffer_banks = 8,
        .c2_int8 = 16,
        .c2_fp16 = 8,
        .bias_group = 4,
        .taps = CHIP_TAPS_PAIRS,
        .macs_int8 = 512,
        .macs_fp16 = 256,
        .depthwise_int8 = 32,
        .ddr_mb_per_s = 7464,
        .generation = CHIP_GEN_RK3562,
        .shifts_sums = true,
        .matmul = {.types = MATMUL_FIRST,
                   .a_unit = 16,
                   .int8_n = 16,
                   .fp16_n = 8,
                   .fp16_k = 32,
                   .n_unit = 16,
                   .max_k = 10240,
                   .transposes = true},
    },
    {.name = "rv1126b", .target = "rv1126b", .n_cores = 1, RK3576_CORE},
    {.name = "rv1103", RV110X},
    {.name = "rv1106", RV110X},
};

#define N_CHIPS (sizeof chips / sizeof *chips)

// The same chip with fewer pins (its data sheet); other letters are chips of their own (rv1103b).
static const char *chip_own_name(const char *name)
{
    return strcasecmp(name, "rk3588s") == 0 ? "rk3588" : name;
}

const struct chip *chip_find(const char *name)
{
    name = chip_own_name(name);
    for (size_t i = 0; i < N_CHIPS; i++)
        if (strcasecmp(chips[i].name, name) == 0)
            return &chips[i];
    return NULL;
}

const struct chip *chip_find_variant(const char *name)
{
    for (size_t i = 0; i < N_CHIPS; i++) {
        size_t n = strlen(chips[i].name);
        if (strncasecmp(chips[i].name, name, n) == 0 && !isdigit((unsigned char)name[n]))
            return &chips[i];
    }
    return NULL;
}

const struct chip *chip_default(void)
{
    return &chips[0];
}

const char *chip_names(char buffer[CHIP_NAMES_MAX])
{
    size_t used = 0;
    buffer[0] = 0;
    for (size_t i = 0; i < N_CHIPS && used < CHIP_NAMES_MAX; i++)
        used += (size_t)snprintf(buffer + used, CHIP_NAMES_MAX - used, "%s%s", i ? ", " : "",
                                 chips[i].name);
    return buffer;
}
