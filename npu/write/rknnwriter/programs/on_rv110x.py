"""Whole programs for RV1103 and RV1106: int8 convolutions with their fused Add, activation or lookup table, and Add.
What a Relu behind an addend sets is not known."""
from .on_rk3562 import pool  # noqa: F401, is the same
from .parts import HIGH, LOW, POINTER, Size, add_values, kernel, loading, task, written

_CNA = [
    0x1004, 0x3004, 0x1040, 0x4004, 0x5004, 0x100C, 0x1010, 0x1014, 0x101C, 0x1020, 0x1024, 0x1028, 0x102C, 0x1030,
    0x1034, 0x1038, 0x103C, 0x1040, 0x1044, 0x1048, 0x104C, 0x1050, 0x1054, 0x1058, 0x105C, 0x1060, 0x1064, 0x1068,
    0x106C, 0x1070, 0x1074, 0x1078, 0x107C, 0x1080, 0x1084, 0x1088, 0x108C, 0x1094, 0x1100, 0x1104, 0x1110, 0x1140,
    0x1144, 0x1184, 0x1188, 0x118C,
]
_DPU = [
    0x400C, 0x4010, 0x4014, 0x4018, 0x401C, 0x4020, 0x4024, 0x4028, 0x402C, 0x4030, 0x4034, 0x4038, 0x403C,
    *range(0x4040, 0x408C, 4), *range(0x4090, 0x40A4, 4), 0x40C0, 0x40C4, *range(0x40D8, 0x40F0, 4),
    *range(0x4100, 0x4130, 4),
]
_RDMA = [
    0x500C, 0x5010, 0x5014, 0x5018, 0x501C, 0x5020, 0x5028, 0x502C, 0x5034, 0x5038, 0x5040, 0x5044, 0x5048, 0x504C,
    0x5064, 0x5068, 0x506C,
]
_REST = [0x8028, 0x802C]
CONVOLUTION = _CNA + [0x3010, 0x3014, 0x3018, 0x301C] + _DPU + _RDMA + _REST
MEMORY = [0x4004, 0x5004, *_DPU, *_RDMA, *_REST]
_BOUNDS = {  # of every unit, where nothing is cut off
    0x401C: HIGH, 0x4028: HIGH, 0x402C: HIGH, 0x404C: LOW, 0x406C: LOW, 0x407C: LOW, 0x40D8: LOW, 0x40DC: HIGH,
    0x40E0: LOW, 0x40E4: HIGH, 0x40E8: LOW, 0x40EC: HIGH,
}


def _write(y, channels, surfaces):
    out = Size(y)
    width, height = out.last
    return {
        **_BOUNDS, 0x4024: out.plane * 16, 0x4030: width, 0x4034: height, 0x403C: (channels - 1) << 16 | channels - 1,
        0x4058: (channels // 16 - 1) << 16 | 3, 0x405C: out.corner, 0x40C0: surfaces * out.plane * 16, 0x500C: width,
        0x5010: height, 0x5014: channels - 1, 0x5034: 1, 0x5068: 0x1010101, 0x8028: 0xC, 0x802C: 0xFFFFFFFF,
    }


def _depthwise(node, size, out, channels):
    """Weights and their zero points are two kernels, one beside the other."""
    kh, kw, _, each, _ = kernel(node)
    held = each // (2 * kh * kw)
    line = size.w * held // 32
    return {
        0x100C: 7, 0x1010: 0xE, 0x1024: (size.c - 1) << 16 | held, 0x1034: each // 2, 0x1038: kw << 24 | kh << 16 | 2,
        0x103C: line << 16, 0x1044: size.w << 16 | line, 0x1088: held, 0x1188: each // 4, 0x3010: 0xA, 0x400C: 0x1FC,
        0x4058: (channels // 16 - 1) << 16 | 7, 0x40C0: 2 * out.plane * 16, 0x501C: 0xA, 0x5044: 0x7816,
    }


def convolution(node):
    if node.params.act == "relu" and node.params.addend and not node.params.add_last:
        return None  # no file shows where a Relu behind an addend cuts off
    values, tensors = written(node.tasks[0])
    x, y = node.inputs[0], node.outputs[0]
    size, out = Size(x), Size(y)
    kh, kw, kernels, each, weights = kernel(node)
    held, channels = each // (kh * kw), -(-out.c // 16) * 16
    made = {
        **_write(y, channels, 1), **{r: POINTER for r in (0x1004, 0x3004, 0x4004, 0x5004)},
        0x1040: 8, 0x1010: min(size.h, kh + 1) << 4, 0x1020: size.w << 16 | size.h, 0x1024: (size.c - 1) << 16 | held,
        0x1028: out.w, 0x102C: out.pixels, 0x1030: weights, 0x1034: each, 0x1038: kw << 24 | kh << 16 | kernels,
        0x103C: size.w * held // 32 * 8 << 16, 0x1044: size.w << 16 | size.w * held // 32, 0x1048: 0x1C000000,
        0x104C: 9, 0x1050: 0x10001, 0x1054: 0x10001, 0x1078: 0x400F400F, 0x107C: size.w * 4, 0x1080: size.plane,
        0x1084: size.w << 16 | size.h, 0x1088: held, 0x1184: x.quant.zero_point & 0xFFFF, 0x1188: each // 2,
        0x118C: (size.w - 1) << 16 | size.w - 1, 0x3010: 1, 0x3014: out.corner, 0x3018: channels - 1,
        0x400C: 0x1E4, 0x501C: 0xE if node.params.form != "plain" else 2, 0x5044: 0x7810,
    }
    if node.attrs["group"] > 1:
        made |= _depthwise(node, size, out, channels)
    if node.params.act == "relu":
        made |= {0x406C: 0, 0x40E0: 0}
    if 0x5038 in tensors:
        made |= {0x5034: 0x40000004, 0x5040: Size(tensors[0x5038]).plane * 16, 0x5044: 0x907818}
    if node.lut_tasks:
        made |= {0x4108: 0x68, 0x410C: 0x50500, 0x4110: -0x4000, 0x411C: 0x4000}
    return task(CONVOLUTION, made | values, {r: (t, 0) for r, t in tensors.items()}, 0x1D)


def add(node, _model):
    if node.op != "Add":
        return None
    a, b, y = *node.inputs, node.outputs[0]
    out = Size(y)
    values = add_values(a, b, y, 0x8002C0C0)
    factor, shift = values[0x4048] >> 16, values[0x4048] >> 8 & 0x3F
    made = {
        **_write(y, out.held, 1), 0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x1E5, 0x4010: 0x800000,
        **{r: v for r, v in values.items() if r not in (0x4010, 0x4044)}, 0x4018: values[0x4044], 0x4074: values[0x4074] & 0xFFFF,
        0x4040: 0x100012 | shift << 9, 0x4048: factor << 16, 0x4054: shift << 24, 0x4050: 0x30000000, 0x4060: 0x13, 0x5034: 0x40000004,
        0x5040: Size(b).plane * 16, 0x504C: Size(a).gap * 16, 0x5044: 0x907809,
    }
    return task(MEMORY, made, {0x4020: (y, 0), 0x5018: (a, 0), 0x5038: (b, 0)}, 0x18)


def tables(node):
    made = {
        **_BOUNDS, 0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x1E5, 0x4010: 0x800000, 0x4024: 16, 0x403C: 0xF000F,
        0x4040: 0x53, 0x4050: 0x30000002, 0x4058: 3, 0x4060: 0x13, 0x4070: 0x10041C1, 0x4078: 1, 0x4084: 0x10001,
        0x40C0: 16, 0x4108: 1, 0x5014: 0xF, 0x5034: 1, 0x5044: 0x907809, 0x5068: 0x1010101, 0x8028: 0xC,
        0x802C: 0xFFFFFFFF,
    }
    return loading(node, MEMORY, made, 0x4020)
