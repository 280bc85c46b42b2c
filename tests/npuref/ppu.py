"""The PPU: pools of int8, on its own reads (PPU_RDMA)."""
import numpy as np

from npuref import Unsupported
from npuref.dpu import Cube
from npuref.integers import field, rne, signed


def run(r, memory, lanes, data_format):
    if r.get(0x6084, 0) & 7 or r.get(0x7030, 0) != data_format:
        raise Unsupported(f"PPU data format {r.get(0x6084, 0):#x}, {r.get(0x7030, 0):#x}: not int8")
    width, height, channels = (field(r.get(at, 0), 12, 0) + 1 for at in (0x600C, 0x6010, 0x6014))
    out_width, out_height, out_channels = (field(r.get(at, 0), 12, 0) + 1 for at in (0x6018, 0x601C, 0x6020))
    method, kernel, pads = r.get(0x6024, 0), r.get(0x6034, 0), r.get(0x6040, 0)
    stride = field(kernel, 23, 20) + 1, field(kernel, 19, 16) + 1
    size = field(kernel, 11, 8) + 1, field(kernel, 3, 0) + 1
    top, left = field(pads, 6, 4), field(pads, 2, 0)
    source = Cube(r[0x701C], field(r.get(0x7028, 0), 31, 4) * 16, field(r.get(0x7024, 0), 31, 4) * 16, lanes)
    x = memory.at(source.addresses(channels, height, width)).astype(np.int64)
    kind = method & 3
    if kind not in (0, 1, 2):
        raise Unsupported(f"OPERATION_MODE_CFG {method:#x}")
    fill = {0: signed(r.get(0x6044, 0), 19), 1: -128, 2: 127}[kind]
    need = [(n - 1) * s + k for n, s, k in zip((out_height, out_width), stride, size)]
    padded = np.full((channels, max(need[0], top + height), max(need[1], left + width)), fill, np.int64)
    padded[:, top : top + height, left : left + width] = x
    seen = np.stack([padded[:, ky : ky + (out_height - 1) * stride[0] + 1 : stride[0],
                            kx : kx + (out_width - 1) * stride[1] + 1 : stride[1]]
                     for ky in range(size[0]) for kx in range(size[1])])
    if kind == 0:
        reciprocal = field(r.get(0x6038, 0), 16, 0) * field(r.get(0x603C, 0), 16, 0)
        y = rne(seen.sum(0) * reciprocal, 32)
    else:
        y = seen.max(0) if kind == 1 else seen.min(0)
    line = (out_width + field(method, 28, 16)) * lanes
    target = Cube(r[0x6070], field(r.get(0x607C, 0), 31, 4) * 16, line, lanes)
    memory.put(target.addresses(out_channels, out_height, out_width), y[:out_channels])
