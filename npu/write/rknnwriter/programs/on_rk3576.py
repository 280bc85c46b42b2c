"""Whole programs for RK3576 and RV1126B: int8 convolutions with their fused Add, activation or lookup table, and Add."""
import struct

from ..pack import align
from .parts import LOW, POINTER, POOL_READ, UNIT_SHIFT, Size, add_values, far_pads, kernel, loading, pool_with_edges, task, written
from .on_rk3562 import BOUNDS, bounds

_CNA = [
    0x1004, 0x3004, 0x1038, 0x4004, 0x5004, 0x100C, 0x1010, 0x1014, 0x1018, *range(0x101C, 0x10A0, 4), 0x1100, 0x1104,
    0x1110, 0x1140, 0x1144, 0x118C,
]
_DPU = [
    0x400C, 0x4010, 0x4014, 0x4018, 0x401C, 0x4020, 0x4024, 0x4028, 0x402C, 0x4030, 0x4034, 0x4038, 0x403C, 0x4044,
    0x4048, 0x404C, 0x4050, *range(0x4058, 0x4098, 4), 0x409C, 0x40A4, 0x40A8, *range(0x40AC, 0x40C4, 4), 0x40C8, 0x40CC,
    0x40D0, *range(0x4100, 0x4124, 4), 0x4130, 0x4140, 0x4144, 0x4148, 0x414C, 0x4150, 0x4154, 0x4160, 0x4170, 0x4174,
    0x4184, 0x4188, 0x418C, 0x4190, 0x4194,
]
_RDMA = [
    0x500C, 0x5010, 0x5014, 0x5018, 0x501C, 0x5020, 0x5024, 0x5028, 0x502C, 0x5030, 0x5034, 0x5038, 0x5040, 0x5044,
    0x5048, 0x504C, 0x5064, 0x506C, 0x5078, 0x507C,
]
CONVOLUTION = _CNA + [0x3018, 0x301C, 0x3020, 0x3024] + _DPU + _RDMA
MEMORY = [0x4004, 0x5004, *_DPU, *_RDMA]
_BOUNDS = {r: v for r, v in BOUNDS.items() if r in _DPU}


def _write(y):
    out = Size(y)
    width, height = out.last
    return {
        **_BOUNDS, 0x401C: out.plane, 0x4020: width, 0x4024: height, 0x402C: out.c - 1, 0x4030: (out.c - 1) << 16 | 0x710,
        0x4034: out.corner, 0x40B8: out.plane, 0x40D0: 0x40FFFF, 0x500C: width, 0x5010: height,
        0x5014: out.c - 1, 0x5034: 0x41,
    }


def _tables(node):
    first, last = node.params.lut.tables[0][0], node.params.lut.tables[1][-1]
    ends = [(v & 0xFFFF) << 16 | v & 0xFFFF for v in (int(first), int(last))]
    return {
        0x4108: 0x2000006, 0x410C: 0x50500, **{r: -0x4000 for r in range(0x4110, 0x4120, 4)},
        **{r: 0x4000 for r in range(0x4140, 0x4150, 4)}, 0x4188: ends[0] & 0xFFFF0000, 0x418C: ends[0],
        0x4190: ends[1] & 0xFFFF0000, 0x4194: ends[1],
    }


def _rv1126b(entries):
    """How it divides its buffer, of which the pixels' part is counted in 64 KB; `entries`: theirs, of 64 bytes."""
    count = -(-entries // 1024)
    return {0x1010: 0x3FFF, 0x1018: 0x40000000 | count << 8 | count, 0x1038: 8, 0x1040: count << 26}


def _depthwise(node, size, out):
    """Weights and their zero points are two kernels, one beside the other."""
    kh, kw, _, each, weights = kernel(node)
    held = align(size.c, 16 if size.c <= 16 else 32)
    line = -(-size.w * held // 64)
    return {
        0x100C: 1, 0x1018: 0x40000404, 0x101C: weights, 0x1020: each // 2, 0x1024: (kw - 1) << 24 | (kh - 1) << 16 | 1,
        0x1028: line * size.h << 16 | size.c - 1, 0x1030: each // 16 << 16 | out.w - 1, 0x103C: line << 16, 0x1040: 0x10000000,
        0x1044: size.w << 16 | line, 0x3018: 0x1000000A, 0x400C: 0x4000000C, 0x4030: (out.c - 1) << 16 | 0x310, 0x4044: 0,
        0x40B8: 4 * out.plane - out.pixels, 0x501C: 0x510, 0x5044: 0x40000012,
    }


def convolution(node):
    values, tensors = written(node.tasks[0])
    x, y = node.inputs[0], node.outputs[0]
    size, out = Size(x), Size(y)
    kh, kw, kernels, each, weights = kernel(node)
    each_has = node.params.form != "plain"  # a factor and a zero point of its own
    line = -(-size.w * size.held // 64)  # of the buffer's entries
    made = {
        **_write(y), **{r: POINTER for r in (0x1004, 0x3004, 0x4004, 0x5004)},
        0x1038: 7, 0x1010: 0xFFF, 0x1018: 0x40000505, 0x101C: weights, 0x1020: each,
        0x1024: (kw - 1) << 24 | (kh - 1) << 16 | kernels - 1, 0x1028: line * size.h << 16 | size.c - 1, 0x102C: (size.w - 1) << 16 | size.h - 1,
        0x1030: 2 * each << 16 | out.w - 1, 0x1034: out.pixels - 1, 0x103C: line << 16, 0x1040: 0x14000000,
        0x1044: size.w << 16 | line, 0x1048: 0xB, 0x104C: 0x10001, 0x1050: 0x10001,
        0x1078: (size.w - 1) << 16 | size.h - 1, 0x107C: size.c - 1, 0x1084: x.quant.zero_point, 0x108C: 0xF000F,
        0x1090: size.w * 4, 0x1094: size.plane, 0x1098: size.plane, 0x118C: (size.w - 1) << 16 | size.w - 1,
        0x3018: 0x10000001, 0x301C: out.corner, 0x3020: out.c - 1, 0x400C: 0x40000004, 0x4044: int(each_has), 0x40C0: 0x4440100,
        0x501C: 0x710 if each_has else 0x114, 0x5044: 0x40000010,
    }
    made |= bounds(node.params)
    values[0x1080] |= far_pads(node)
    order = CONVOLUTION
    if node.attrs["group"] > 1:
        made |= _depthwise(node, size, out)
        values[0x4050] = 0x13033 | (align(size.c, 16) - 1) % 64 // 16 << 8
        order = [r for r in CONVOLUTION if r not in (0x4064, 0x4068)]
    if node.params.chip.name == "rv1126b":
        made |= _rv1126b(made[0x1028] >> 16)
    if 0x5038 in tensors:
        plane = Size(tensors[0x5038]).plane
        made |= {0x5034: 0x50000044, 0x5040: plane, 0x5044: 0x40000018, 0x504C: plane, 0x506C: plane}
    if node.lut_tasks:
        made |= _tables(node)
    return task(order, made | values, {r: (t, 0) for r, t in tensors.items()}, 0x1D)


def _operand(a, y, model):
    """The first operand's zero point and factor, which other chips have in registers."""
    data = bytearray(64)
    struct.pack_into("<i", data, 0, -a.quant.zero_point)
    struct.pack_into("<h", data, 32, 1 << UNIT_SHIFT)
    half = len(data) // 2
    return model.packed_constant(f"{y.name}_NamedByInput_BsCfg_BScfgTensor", [1, half, 1, 1], "int16", [1, 1, 1, 1, half],
                                 bytes(data), "nc1hwc2")


def add(node, model):
    a, b = sorted(node.inputs, key=lambda t: -t.quant.scale)  # all files have the larger scale first: no shift for it
    y = node.outputs[0]
    out = Size(y)
    values, lowest = add_values(a, b, y, 0), 0 if node.op == "AddRelu" else LOW
    made = {
        **_write(y), 0x4004: POINTER, 0x5004: POINTER, 0x400C: 5, 0x4030: (out.c - 1) << 16 | 0xF00, 0x4038: 0x100012,
        0x4060: 0x903, 0x407C: 0x8002C0C0, 0x4080: values[0x4074] & 0xFFFF, 0x4084: values[0x4078], 0x4088: lowest,
        0x40A4: lowest, 0x40AC: values[0x4080], 0x40B0: values[0x4084] | 0x10000, 0x40B4: values[0x4088], 0x40B8: 0,
        0x40C0: 0x4440000, 0x501C: 0x1A, 0x5034: 0x40000044, 0x5040: Size(b).plane, 0x504C: Size(a).gap, 0x5044: 9,
    }
    return task(MEMORY, made, {0x4018: (y, 0), 0x5018: (a, 0), 0x5024: (_operand(a, y, model), 0), 0x5038: (b, 0)}, 0x18)


def pool(node):
    return pool_with_edges(node, (0x6054, 0x6058, 0x605C), POOL_READ, {0x7030: 0x40})


def tables(node):
    made = {
        **_BOUNDS, 0x4004: POINTER, 0x5004: POINTER, 0x400C: 5, 0x401C: 1, 0x402C: 0xF, 0x4030: 0xF0F00, 0x4038: 0x53,
        0x4044: 2, 0x4050: 0x20000, 0x4060: 0x903, 0x407C: 0x10041C1, 0x4084: 1, 0x40B0: 0x10001, 0x40C0: 0x4440000,
        0x40D0: 0x40FFFF, 0x4108: 0xFF0000, 0x5014: 0xF, 0x5034: 1, 0x5044: 9,
    }
    return loading(node, MEMORY, made, 0x4018)
