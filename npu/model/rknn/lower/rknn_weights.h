// How constants are packed in a .rknn file, and how they are unpacked.
#pragma once

#include "npu/model/graph.h"
#include "npu/model/rknn/rknn_file.h"
#include "tensor/chip.h"

enum rknn_packing_kind {
    PACKED_BLOCKS,     // blocks of O2 x I2 channels, each [H][W][O2][I2], with tails
    PACKED_ROWS,       // few input channels: [O1][ky][O2][kx*4+c, padded to 16]
    PACKED_TAP_PAIRS,  // depthwise with zero points: per tap and two channels w0 w1 nz0 nz1
    PACKED_TAP_SINGLE, // depthwise with zero points: per tap and channel w nz
    PACKED_NC1HWC2,    // planes of C2 channels
};

struct rknn_block {
    uint32_t o1, i1, h, w, o2, i2;
};

struct rknn_packing {
    enum rknn_packing_kind kind;
    uint32_t o, i, kh, kw; // logical; of depthwise weights o is the channels and i is 1
    bool depthwise;
    size_t element;                                          // bytes
    struct rknn_block main, input_tail, output_tail, corner; // o1 or i1 0: not there
    uint32_t c1, c2, plane;                                  // PACKED_NC1HWC2
};

// What a weight is for, and its logical shape.
enum rknn_weight_use {
    WEIGHT_PLAIN,                // [outputs, inputs, kh, kw]
    WEIGHT_DEPTHWISE,            // [1, channels, kh, kw]
    WEIGHT_TRANSPOSED,           // [inputs, outputs, kh, kw]
    WEIGHT_DEPTHWISE_TRANSPOSED, // [channels, 1, kh, kw]
};

/// Finds out how a weight (layout 65) is packed, and that all of it is there. Refuses packings that
/// are not known.
int rknn_weight_packing(struct rknn_packing *p, const struct rknn_tensor *t,
                        const struct chip *chip, enum rknn_weight_use use, struct error *e);

/// The same for a 4-D constant of layout 64. `rounded`: its size is rounded up to 64 bytes, as in
/// the lite container.
int rknn_plane_packing(struct rknn_packing *p, const struct rknn_tensor *t, bool rounded,
                       struct error *e);

/// For graph_tensor.unpack; packing is a struct rknn_packing.
void rknn_unpack(const struct graph_tensor *t, void *dst);

/// The blocks' room for input channels p->i to `columns`, of each output; not of depthwise weights.
void rknn_unpack_spare(const struct rknn_packing *p, const uint8_t *src, uint32_t columns,
                       uint8_t *dst);

/// Whether the blocks' room for further input channels holds one value for each output: whatever is
/// there, it is no weights. Refuses others.
int rknn_check_spare(const struct rknn_packing *p, const struct rknn_tensor *t, struct error *e);

/// Of int8 weights: whether that room is filled with the zero point, -nz[output], which leaves sums
/// as they are whatever lies in memory beside the input's last channel. `zeros`: or with 0, as old
/// toolkits do.
int rknn_check_spare_zeros(const struct rknn_packing *p, const struct rknn_tensor *t,
                           const int16_t *nz, bool zeros, struct error *e);

/// Of fp16 weights: that all are finite, and that room 0.
int rknn_check_halves(const struct rknn_packing *p, const struct rknn_tensor *t, struct error *e);

/// The zero points that PACKED_TAP_* keeps among the weights: nz[channel][ky][kx].
void rknn_unpack_tap_nz(const struct rknn_packing *p, const uint8_t *src, int16_t *nz);
