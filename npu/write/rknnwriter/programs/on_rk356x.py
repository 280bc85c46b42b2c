"""Whole programs for RK3566 and RK3568: int8 convolutions with their fused Add, activation or lookup table, and Add."""
from .parts import POINTER, Size, add_values, banks, kernel, loading, task, written

_ATOM, _BANKS = 8, 8
_CNA = [
    0x1004, 0x2004, 0x3004, 0x1040, 0x4004, 0x5004, 0x100C, 0x1010, 0x1014, 0x1018, 0x1020, 0x1024, 0x1028, 0x102C,
    0x1030, 0x1034, 0x1038, 0x1040, 0x1044, 0x104C, 0x1050, 0x1054, 0x1058, 0x105C, 0x1060, 0x1064, 0x1068, 0x1070,
    0x1074, 0x1078, 0x107C, 0x1080, 0x1084, 0x1088, 0x1100, 0x1104, *range(0x1110, 0x1150, 4),
    *range(0x1210, 0x1234, 4), 0x200C,
]
_CORE = [0x300C, 0x3010, 0x3014, 0x302C]
_DPU = [
    0x400C, 0x4010, 0x4014, 0x4020, 0x4024, 0x4030, 0x4034, 0x4038, 0x403C, *range(0x4040, 0x408C, 4),
    *range(0x4090, 0x40B0, 4), 0x40C0, 0x40C4, *range(0x4100, 0x4130, 4),
]
_RDMA = [*range(0x500C, 0x502C + 4, 4), 0x5030, 0x5034, 0x5038, 0x503C, 0x5040, 0x5044, 0x5048, 0x504C, 0x5064, 0x5068]
CONVOLUTION, MEMORY = _CNA + _CORE + _DPU + _RDMA, [0x4004, 0x5004, *_DPU, *_RDMA]


def _operand(out):
    """An addend: a surface at a time."""
    step = out.plane * _ATOM
    return {0x5034: 0x40000000, 0x5040: step, 0x503C: step - 8}


def _write(y, channels, surfaces):
    out = Size(y, _ATOM)
    step, (width, height) = out.plane * _ATOM, out.last
    return {
        0x4024: step, 0x4030: width, 0x4034: height, 0x403C: (channels - 1) << 16 | channels - 1,
        0x40C0: surfaces * step, 0x500C: width, 0x5010: height, 0x5014: channels - 1, 0x5028: 1, 0x5068: 0x1010101,
    }


def convolution(node):
    values, tensors = written(node.tasks[0])
    x, y = node.inputs[0], node.outputs[0]
    size, out = Size(x, _ATOM), Size(y, _ATOM)
    kh, kw, kernels, each, weights = kernel(node)
    held = each // (kh * kw)
    pixels = size.plane * held
    for_pixels, _ = banks(pixels, weights, _BANKS)
    shares = (_BANKS - for_pixels) << 4 | for_pixels
    made = {
        **_write(y, -(-out.c // 16) * 16, 2),
        **{r: POINTER for r in (0x1004, 0x2004, 0x3004, 0x4004, 0x5004)},
        0x1040: shares, 0x1010: min(size.h, kh + 1) << 4, 0x1020: size.w << 16 | size.h, 0x1024: (size.c - 1) << 16 | held,
        0x1028: out.w, 0x102C: out.pixels, 0x1030: weights, 0x1034: each, 0x1038: kw << 24 | kh << 16 | kernels,
        0x1044: size.w << 16 | -(-size.w * held // 32), 0x104C: 0xA, **{r: 0x10000 for r in range(0x1050, 0x1060, 4)},
        0x1078: 0x171C07, 0x107C: size.w, 0x1080: size.plane, 0x1084: size.w << 16 | size.h, 0x1088: held,
        0x200C: 1, 0x3010: out.corner, 0x3014: -(-out.c // 16) * 16 - 1, 0x400C: 0x108, 0x4070: 0x383, 0x4078: 1,
        0x501C: 0xE if values[0x4048] & 1 else 2, 0x5024: -(-out.c // 16) * 16 - 1, 0x5034: 1, 0x5044: 0x4000,
    }
    if 0x5038 in tensors:
        made |= _operand(out)
    if node.lut_tasks:
        made |= {0x4108: 0x68, 0x410C: 0x50500, 0x4110: -0x4000, 0x411C: 0x4000}
    return task(CONVOLUTION, made | values, {r: (t, 0) for r, t in tensors.items()}, 0x1F)


def add(node):
    a, b, y = *node.inputs, node.outputs[0]
    out = Size(y, _ATOM)
    values = add_values(a, b, y, 0x900002D0 if node.op == "Add" else 0x900000D0)
    made = {
        **_write(y, out.held, 1), 0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x109, 0x4050: 2, 0x4060: 0x53,
        **values, 0x4040: 0x48, **_operand(out), 0x501C: 1, 0x5044: 0x4001,
    }
    return task(MEMORY, made, {0x4020: (y, 0), 0x5018: (a, 0), 0x5038: (b, 0)}, 0x18)


def tables(node):
    made = {
        0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x109, 0x4024: _ATOM, 0x403C: 0x70007, 0x4040: 0x53, 0x4050: 2,
        0x4060: 0x53, 0x4070: 0x383, 0x4078: 1, 0x4084: 1, 0x40C0: _ATOM, 0x5014: 7, 0x501C: 1, 0x5028: 1, 0x5034: 1,
        0x5044: 0x4001, 0x5068: 0x1010101,
    }
    return loading(node, MEMORY, made, 0x4020)
