// How a tensor lies in the NPU's memory, as programs of files read and write it.
//
// Elements are counted, not bytes. Dense data beside it are packed: NHWC, or in the order of the
// dimensions.
#pragma once

#include "npu/model/rknn/rknn_file.h"
#include "tensor/chip.h"

// Element (n, c, h, w) is at n*image + c/block*plane + c%block + h*row + w*column.
struct rknn_memory_layout {
    uint32_t n, c, h, w;
    uint32_t block; // channels beside each other
    uint64_t image, plane, row, column;
    uint64_t size;    // bytes, up to the last element
    uint32_t element; // bytes
    bool flipped;     // int8 stored as bytes from 0 on: the chip takes 128 off
};

/// STATUS_MODEL_INVALID when it is not known, with the tensor's name.
int rknn_layout_of(struct rknn_memory_layout *l, const struct rknn_tensor *t,
                   const struct chip *chip, struct error *e);

/// Of pixels: lines lie so many bytes apart, at least as many as they have.
void rknn_layout_set_line(struct rknn_memory_layout *l, uint64_t bytes);

/// Both take all elements. Channels that fill the last block are set to 0.
void rknn_layout_put(const struct rknn_memory_layout *l, bool nhwc, const void *dense,
                     void *memory);
void rknn_layout_get(const struct rknn_memory_layout *l, bool nhwc, const void *memory,
                     void *dense);

/// Whether dense data, NHWC or NC1HWC2 without padding, are what is in memory, byte for byte.
bool rknn_layout_is_native(const struct rknn_memory_layout *l);
