// Which chip this is, and its NPU's driver.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "npu/npu.h"

struct board {
    char chip[32]; // "rk3588"
    uint32_t n_cores;
    bool small;       // chip.small
    char driver[128]; // its version as the kernel tells it; "": it does not tell us
};

/// `compatible` is the device tree's file: names with a zero byte behind each, the board's own
/// first and the chip's last ("radxa,rock-5b", "rockchip,rk3588"). A chip that is not known counts
/// as one with a single core. STATUS_DEVICE_UNAVAILABLE: no such file, or no Rockchip chip in it.
int board_read(const char *compatible, struct board *ret, struct error *e);

/// Where the driver's version may stand.
int board_list_paths(npu_add_path *add, void *owner, struct error *e);
