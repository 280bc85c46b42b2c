"""Whole programs for RK3562: int8 convolutions with their fused Add, activation or lookup table, and Add."""
from .parts import HIGH, LOW, POINTER, POOL_READ, Size, add_values, far_pads, kernel, loading, pool_with_edges, task, written

_CNA = [
    0x1004, 0x3004, 0x1038, 0x4004, 0x5004, 0x100C, 0x1010, 0x1014, 0x1018, *range(0x101C, 0x109C, 4), 0x1100, 0x1104,
    0x1110, 0x1140, 0x1144, 0x118C,
]
_DPU = [
    0x400C, 0x4010, 0x4014, 0x4018, 0x401C, 0x4020, 0x4024, 0x4028, 0x402C, 0x4030, 0x4034, 0x4038, 0x403C,
    *range(0x4040, 0x40C4, 4), 0x40C8, 0x40CC, *range(0x4100, 0x4130, 4),
]
_RDMA = [
    0x500C, 0x5010, 0x5014, 0x5018, 0x501C, 0x5020, 0x5028, 0x502C, 0x5034, 0x5038, 0x5040, 0x5044, 0x5048, 0x504C,
    0x5064, 0x506C, 0x5078, 0x507C,
]
_REST = [0x8028, 0x802C]
CONVOLUTION = _CNA + [0x3018, 0x301C, 0x3020, 0x3024] + _DPU + _RDMA + _REST
MEMORY = [0x4004, 0x5004, *_DPU, *_RDMA, *_REST]
BOUNDS = {  # of every unit, where nothing is cut off
    0x4048: LOW, 0x404C: HIGH, 0x4058: LOW, 0x405C: HIGH, 0x406C: LOW, 0x4070: HIGH, 0x4074: LOW, 0x4078: HIGH,
    0x4088: LOW, 0x408C: HIGH, 0x40A4: LOW, 0x40A8: HIGH,
}
_TABLES = {0x4108: 0x160, 0x410C: 0x50500, 0x4110: -0x4000, 0x411C: 0x4000}


def bounds(params):
    """A Relu cuts off behind the unit of the activation, or behind that of the addend."""
    if params.act != "relu":
        return {}
    return {0x4088: 0, 0x40A4: 0} if params.addend and not params.add_last else {0x406C: 0, 0x4074: 0}


def _write(y, channels):
    out = Size(y)
    width, height = out.last
    return {
        **BOUNDS, 0x401C: out.plane, 0x4020: width, 0x4024: height, 0x402C: out.c - 1, 0x4030: (out.c - 1) << 16 | 3,
        0x4034: out.corner, 0x40B8: out.plane, 0x500C: width, 0x5010: height, 0x5014: channels - 1, 0x5034: 1,
        0x8028: 0xC, 0x802C: 0xFFFFFFFF,
    }


def _depthwise(node, size, out):
    """Weights and their zero points are two kernels, one beside the other."""
    kh, kw, _, each, weights = kernel(node)
    return {
        0x100C: 0x10000005, 0x1010: min(size.h, kh + 1) << 4, 0x101C: weights, 0x1020: 0x20000000 | each // 2,
        0x1024: kw << 24 | kh << 16 | 2, 0x3018: 0xA, 0x400C: 0x1EC, 0x4030: (out.c - 1) << 16 | 7, 0x4044: 0, 0x40B8: 2 * out.plane,
        0x501C: 0xA, 0x5044: 0x7812,
    }


def convolution(node):
    values, tensors = written(node.tasks[0])
    x, y = node.inputs[0], node.outputs[0]
    size, out = Size(x), Size(y)
    kh, kw, kernels, each, weights = kernel(node)
    each_has = node.params.form != "plain"  # a factor and a zero point of its own
    line, channels = -(-size.w * size.held // 64), -(-out.c // 16) * 16  # `line`: of the buffer's entries
    made = {
        **_write(y, channels), **{r: POINTER for r in (0x1004, 0x3004, 0x4004, 0x5004)},
        0x1038: 8, 0x100C: 0x10000000, 0x1010: min(size.h, kh + 1) << 4 | 4, 0x1018: 0x180707, 0x101C: weights,
        0x1020: 0x20000000 | each, 0x1024: kw << 24 | kh << 16 | kernels, 0x1028: size.c, 0x102C: size.w << 16 | size.h,
        0x1030: out.w, 0x1034: out.pixels, 0x103C: line << 16, 0x1040: 0xE000000,
        0x1044: size.w << 16 | line, 0x1048: 0xB, 0x104C: 0x10001, 0x1050: 0x10001, 0x106C: 0x20,
        0x1078: size.w << 16 | size.h, 0x107C: size.c, 0x1084: x.quant.zero_point, 0x108C: 0xF400F, 0x1090: size.w * 4,
        0x1094: size.plane, 0x1098: size.plane, 0x118C: (size.w - 1) << 16 | size.w - 1,
        0x3018: 1, 0x301C: out.corner, 0x3020: channels - 1, 0x400C: 0x1E4, 0x4044: int(each_has), 0x40C0: 0x4440102,
        0x501C: 0xE if each_has else 2, 0x5044: 0x7810,
    }
    made |= bounds(node.params)
    values[0x1080] |= far_pads(node)
    if node.attrs["group"] > 1:
        made |= _depthwise(node, size, out)
    if 0x5038 in tensors:
        made |= {0x5034: 0x40000004, 0x5040: Size(tensors[0x5038]).plane, 0x5044: 0x7818}
    if node.lut_tasks:
        made |= _TABLES
    return task(CONVOLUTION, made | values, {r: (t, 0) for r, t in tensors.items()}, 0x1D)


def add(node, _model):
    a, b, y = *node.inputs, node.outputs[0]
    out = Size(y)
    values = add_values(a, b, y, 0)
    factor, shift = values[0x4048] >> 16, values[0x4048] >> 8 & 0x3F
    made = {
        **_write(y, out.held), 0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x1E5, 0x4038: 0x100012 | shift << 8,
        0x4040: values[0x4044], 0x4044: factor << 16, 0x4054: shift << 16, 0x4060: 0x13, 0x407C: 0x8002C0C0, 0x4080: values[0x4074] & 0xFFFF,
        0x4084: values[0x4078], 0x4088: 0 if node.op == "AddRelu" else LOW, 0x40A4: 0 if node.op == "AddRelu" else LOW,
        0x40AC: values[0x4080], 0x40B0: values[0x4084] | 0x10000, 0x40B4: values[0x4088], 0x40C0: 0x4440002,
        0x5034: 0x40000004, 0x5040: Size(b).plane, 0x504C: Size(a).gap, 0x5044: 0x7809,
    }
    return task(MEMORY, made, {0x4018: (y, 0), 0x5018: (a, 0), 0x5038: (b, 0)}, 0x18)


def pool(node):
    last = {0x8028: 0xC, 0x802C: 0xFFFFFFFF}
    return pool_with_edges(node, range(0x6054, 0x6070, 4), [*POOL_READ, *last], {0x60DC: 3, 0x7030: 0x40} | last)


def tables(node):
    made = {
        **BOUNDS, 0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x1E5, 0x401C: 1, 0x402C: 0xF, 0x4030: 0xF0003, 0x4038: 0x53,
        0x4050: 2, 0x4060: 0x13, 0x407C: 0x10041C1, 0x4084: 1, 0x40B0: 0x10001, 0x40B8: 1, 0x40C0: 0x4440002, 0x4108: 1,
        0x5014: 0xF, 0x5034: 1, 0x5044: 0x7809, 0x8028: 0xC, 0x802C: 0xFFFFFFFF,
    }
    return loading(node, MEMORY, made, 0x4018)
