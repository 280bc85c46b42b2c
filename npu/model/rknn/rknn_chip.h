// Which chip a .rknn file is for.
#pragma once

#include "npu/model/rknn/rknn_file.h"
#include "tensor/chip.h"

/// The chip that the file runs as on a device of chip `wanted`; NULL: on a device of any chip.
/// STATUS_TARGET_PLATFORM_UNMATCH when the file is for another one.
int rknn_find_chip(const struct chip *wanted, const struct rknn_file *f, const struct chip **ret,
                   struct error *e);
