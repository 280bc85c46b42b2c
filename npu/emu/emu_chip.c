// The chips: a row each, of what their generation's decoders ask for (struct emu_chip).
#include <string.h>
#include <strings.h>

#include "npu/emu/emu_npu.h"
#include "npu/emu/emu_unit.h"

#define LIKE_RK3568                                                                                \
    .generation = EMU_RK3568, .atom = 8, .kernel_block = 16, .depthwise_block = 32, .group = 4,    \
    .fetch_scale = 1, .task_bits = 12, .task_status = EMU_PC_TASK_STATUS, .conv = emu_conv_rk3588, \
    .dpu = emu_dpu_rk3588
#define LIKE_RK3576                                                                                \
    .generation = EMU_RK3576, .atom = 16, .kernel_block = 32, .depthwise_block = 64, .group = 8,   \
    .pool_format = 0x40, .fetch_scale = 2, .task_bits = 16,                                        \
    .task_status = EMU_PC_TASK_STATUS_LATER, .less_one = 1, .stride_unit = 16,                     \
    .conv = emu_conv_rk3562, .dpu = emu_dpu_rk3562

#define LIKE_RV1106                                                                                \
    .generation = EMU_RV1106, .atom = 16, .kernel_block = 16, .depthwise_block = 32, .group = 4,   \
    .pool_format = 0x40, .fetch_scale = 2, .task_bits = 16, .task_status = EMU_PC_TASK_STATUS,     \
    .stride_unit = 1, .conv = emu_conv_rv1106, .dpu = emu_dpu_rk3562

static const struct emu_chip chips[] = {
    {.name = "rk3588",
     .generation = EMU_RK3588,
     .atom = 16,
     .kernel_block = 32,
     .depthwise_block = 64,
     .group = 8,
     .pool_format = 1,
     .fetch_scale = 2,
     .task_bits = 12,
     .task_status = EMU_PC_TASK_STATUS,
     .conv = emu_conv_rk3588,
     .dpu = emu_dpu_rk3588},
    {.name = "rk3566", LIKE_RK3568},
    {.name = "rk3568", LIKE_RK3568},
    {.name = "rk3562",
     .generation = EMU_RK3562,
     .atom = 16,
     .kernel_block = 16,
     .depthwise_block = 32,
     .group = 4,
     .pool_format = 0x40,
     .fetch_scale = 2,
     .task_bits = 16,
     .task_status = EMU_PC_TASK_STATUS_LATER,
     .stride_unit = 16,
     .conv = emu_conv_rk3562,
     .dpu = emu_dpu_rk3562},
    {.name = "rv1103", LIKE_RV1106},
    {.name = "rv1106", LIKE_RV1106},
    {.name = "rk3576", LIKE_RK3576},
    {.name = "rv1126b", LIKE_RK3576},
};

const struct emu_chip *emu_chip_find(const char *name)
{
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (strcasecmp(name, chips[i].name) == 0)
            return &chips[i];
    return NULL;
}
