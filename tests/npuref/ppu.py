"""The PPU: pools of int8, on its own reads (PPU_RDMA)."""
import numpy as np

from npuref.dpu import Cube
from npuref.integers import rne, signed

AVERAGE, MAX, MIN = range(3)


def size_of(unit, *names):
    return tuple(unit.get(name, 12, 0) + 1 for name in names)


def stride_of(unit, name):
    return unit.get(name, 31, 4) * 16


def run(unit, memory):
    if unit.get("POOL_FORMAT", 2, 0):
        unit.refuse("POOL_FORMAT", "not int8")
    if unit.get("POOL_SRC_FORMAT") != unit.pool_format:
        unit.refuse("POOL_SRC_FORMAT", "not int8")
    channels, height, width = size_of(unit, "POOL_IN_CHANNEL", "POOL_IN_HEIGHT", "POOL_IN_WIDTH")
    out_shape = size_of(unit, "POOL_OUT_CHANNEL", "POOL_OUT_HEIGHT", "POOL_OUT_WIDTH")
    stride = unit.get("POOL_KERNEL", 23, 20) + 1, unit.get("POOL_KERNEL", 19, 16) + 1
    size = unit.get("POOL_KERNEL", 11, 8) + 1, unit.get("POOL_KERNEL", 3, 0) + 1
    top, left = unit.get("POOL_PAD", 6, 4), unit.get("POOL_PAD", 2, 0)
    source = Cube(unit.get("POOL_SRC_ADDR"), stride_of(unit, "POOL_SRC_SURF_STRIDE"),
                  stride_of(unit, "POOL_SRC_LINE_STRIDE"), unit.lanes)
    x = memory.at(source.addresses(channels, height, width)).astype(np.int64)
    kind = unit.get("POOL_MODE", 1, 0)
    if kind not in (AVERAGE, MAX, MIN):
        unit.refuse("POOL_MODE")
    if kind == AVERAGE and unit.get("POOL_PAD"):
        unit.refuse("POOL_PAD", "an average with pads")
    fill = {AVERAGE: signed(unit.get("POOL_PAD_VALUE"), 19), MAX: -128, MIN: 127}[kind]
    need = [(n - 1) * s + k for n, s, k in zip(out_shape[1:], stride, size)]
    padded = np.full((channels, max(need[0], top + height), max(need[1], left + width)), fill, np.int64)
    padded[:, top : top + height, left : left + width] = x
    seen = np.stack([padded[:, ky : ky + (out_shape[1] - 1) * stride[0] + 1 : stride[0],
                            kx : kx + (out_shape[2] - 1) * stride[1] + 1 : stride[1]]
                     for ky in range(size[0]) for kx in range(size[1])])
    if kind == AVERAGE:
        reciprocal = unit.get("POOL_RECIP_WIDTH", 16, 0) * unit.get("POOL_RECIP_HEIGHT", 16, 0)
        y = rne(seen.sum(0) * reciprocal, 32)
    else:
        y = seen.max(0) if kind == MAX else seen.min(0)
    line = (out_shape[2] + unit.get("POOL_MODE", 28, 16)) * unit.lanes
    target = Cube(unit.get("POOL_DST_ADDR"), stride_of(unit, "POOL_DST_SURF_STRIDE"), line, unit.lanes)
    memory.put(target.addresses(*out_shape), y[: out_shape[0]])
