"""Whole programs for RK3588: convolutions of int8 and float16, with their fused Add (int8), activation or lookup table
(int8); windows' largest values (int8, float16) and averages (int8); Add of two tensors of one shape."""
from ..pack import align, is_picture
from .parts import BANK, HALF, POINTER, POOL, POOL_READ, Size, add_values, kernel, loading, pool_task, product_values, task, written

_ATOM = 16

# Registers in the order in which programs set them.
_CNA = [
    0x1040, 0x1104, 0x1100, 0x100C, 0x4004, 0x5004, 0x100C, 0x1010, 0x1014, 0x1020, 0x1024, 0x1028, 0x102C, 0x1030,
    0x1034, 0x1038, 0x1040, 0x1044, 0x104C, 0x1050, 0x1054, 0x1058, 0x105C, 0x1060, 0x1064, 0x1068, 0x1070, 0x1074,
    0x1078, 0x107C, 0x1080, 0x1084, 0x1088, 0x1100, 0x1104, 0x1110, *range(0x1140, 0x1180, 4), 0x1180, 0x1184,
]
_CORE = [0x3010, 0x3014, 0x3018, 0x301C, 0x3030]
_DPU = [
    0x400C, 0x4010, 0x4014, 0x4020, 0x4024, 0x4030, 0x4034, 0x4038, 0x403C, *range(0x4040, 0x408C, 4),
    *range(0x4090, 0x40B0, 4), 0x40C0, 0x40C4, *range(0x4100, 0x4130, 4),
]
_RDMA = [
    0x500C, 0x5010, 0x5014, 0x5018, 0x501C, 0x5020, 0x5028, 0x502C, 0x5034, 0x5038, 0x5040, 0x5044, 0x5048, 0x504C,
    0x5064, 0x5068, 0x506C,
]
CONVOLUTION, MEMORY = _CNA + _CORE + _DPU + _RDMA, [0x4004, 0x5004, *_DPU, *_RDMA]
_LUT = {0x4108: 0x68, 0x410C: 0x50500, 0x4110: -0x4000, 0x411C: 0x4000}  # where tables lie


def _cna(node, x, y):
    size, out = Size(x), Size(y)
    kh, kw, kernels, each, weights = kernel(node)
    depthwise, packed = node.attrs["group"] > 1, x.kind == "input" and is_picture(x.shape)
    held = each // (kh * kw * size.bytes)
    line = size.w if packed else 4 * size.w
    entries = size.w * size.h if packed else -(-size.w * held * size.bytes // 64)
    zero = x.quant.zero_point if x.quant else 0
    for_weights = min(-(-weights // BANK), 10)
    return {
        0x1040: for_weights << 4 | 12 - for_weights,
        0x100C: (0x60000000 | 7 + size.c << 12) * packed | 0x120 * size.half | 3 * depthwise,
        0x1010: size.h << 4, 0x1020: size.w << 16 | size.h, 0x1024: (size.c - 1) % 64 << 16 | held,
        0x1028: out.w, 0x102C: out.w * out.h, 0x1030: weights, 0x1034: each,
        0x1038: kw << 24 | kh << 16 | kernels, 0x1044: entries, 0x104C: 0xB,
        **{r: 0x10000 for r in range(0x1050, 0x1060, 4)}, 0x1078: 0xF000F,
        0x107C: line, 0x1080: (size.w * (size.h - 1) if packed else size.plane - line) & 0xFFFFFFF,
        0x1084: size.w << 16 | size.h, 0x1088: held,
        0x1184: zero & 0xFF | (zero & 0xFF) << 8 | 0xFFFF0000 * (zero < 0) if depthwise else zero,
        0x3010: 0x200 * size.half | 2 * depthwise | (not size.half), 0x3014: out.last[1] << 16 | out.last[0],
    }


def _write(y, channels, factor):
    out = Size(y)
    width, height = out.last
    return {
        0x4024: out.plane * _ATOM, 0x4030: width, 0x4034: height, 0x403C: (out.c - 1) << 16 | channels - 1,
        0x4058: channels - 1, 0x405C: height << 16 | width, 0x40C0: factor * out.plane * _ATOM,
        0x500C: width, 0x5010: height, 0x5014: channels - 1, 0x5068: 0x1010101,
    }


def convolution(node):
    values, tensors = written(node.tasks[0])
    x, y = node.inputs[0], node.outputs[0]
    half, depthwise = x.dtype == "float16", node.attrs["group"] > 1
    channels = align(y.shape[1], (64 if depthwise else 32) // Size(x).bytes)
    each = values[0x4048] & 1  # a factor and a zero point for each channel
    values = {
        **_cna(node, x, y), **_write(y, channels, 4 if depthwise else 2), 0x3018: channels - 1,
        0x400C: 0x1FC if depthwise else 0x1E4, 0x4010: HALF, 0x4070: 0x383, 0x4078: 1,
        0x501C: 0xE if each else 2, 0x5034: 1, 0x5044: (0x17850 if half else 0x7810) | 6 * depthwise, **values,
    }
    if node.lut_tasks:
        values |= _LUT | {r: v for r, v in values.items() if 0x4100 < r < 0x4130}
    if depthwise:
        values[0x4050] = 0x36E if half or not each else 0x36D
    addresses = {r: (t, 0) for r, t in tensors.items()}
    if 0x5038 in tensors:  # surfaces by turns
        addend = Size(tensors[0x5038])
        plane, next_but_one = addend.plane * _ATOM, (2 * addend.plane - addend.pixels) * _ATOM
        addresses |= {0x5018: (tensors[0x5038], 0), 0x5038: (tensors[0x5038], plane)}
        values |= {0x5034: 0x40000004, 0x5040: plane, 0x5044: 0x7D00, 0x504C: next_but_one, 0x506C: next_but_one}
    return task(CONVOLUTION, values | {0x4004: POINTER, 0x5004: POINTER}, addresses, 0x1D)


def part(node, first, end, cores):
    """The rows from `first` up to `end` of a convolution with strides of 1 that `cores` begin together."""
    whole, x, y = convolution(node), Size(node.inputs[0]), Size(node.outputs[0])
    pad = node.attrs["kernel_shape"][0] // 2
    top, bottom = max(first - pad, 0), min(end + pad, x.h)
    rows, height = end - first, bottom - top
    values = {
        0x1010: (cores - 1) << 28 | height << 4, 0x1020: x.w << 16 | height, 0x102C: y.w * rows,
        0x1068: pad << 4 | max(pad - first, 0), 0x1084: x.w << 16 | height, 0x3014: (rows - 1) << 16 | y.w - 1,
        0x4034: rows - 1, 0x405C: (rows - 1) << 16 | y.w - 1, 0x5010: rows - 1,
    }
    moved = {0x1070: top * x.w * _ATOM, 0x4020: first * y.w * _ATOM}
    whole.commands = [(target, r, values.get(r, v)) for target, r, v in whole.commands]
    whole.relocations = [(t, i, offset + moved.get(whole.commands[i][1], 0)) for t, i, offset in whole.relocations]
    return whole


def pool(node):
    half, average = Size(node.inputs[0]).half, node.op == "AveragePool"
    if half and average:
        return None
    zero = node.inputs[0].quant.zero_point if average else 0
    edges = {0x6044: zero, 0x6048: 7 * (zero < 0)}  # one number of 35 bits
    return pool_task(node, [*POOL, *POOL_READ], {0x60DC: 3, 0x7030: 2 if half else 1} | edges)


_ADD_FLOAT16 = {0x4010: HALF, 0x4040: 0x53, 0x4070: 0x108202C0, 0x4078: 1, 0x4084: 0x10001, 0x5034: 0x40000008,
                0x5044: 0x17849}


def _add_int8(a, b, y):
    return {**add_values(a, b, y, 0x904202C0), 0x4040: 0x20040, 0x5034: 0x40000004, 0x5044: 0x7801}


def add(node, _model):
    a, b, y = *node.inputs, node.outputs[0]
    out, first, second = Size(y), Size(a), Size(b)
    values = {
        0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x1E5, 0x4050: 2, 0x4060: 0x53,
        **_write(y, align(out.c, out.lanes), 1), **(_ADD_FLOAT16 if out.half else _add_int8(a, b, y)),
        0x5040: second.plane * _ATOM, 0x504C: first.gap * _ATOM, 0x506C: second.gap * _ATOM,
    }
    if node.op == "AddRelu":
        values[0x4070] &= ~0x200
    return task(MEMORY, values, {0x4020: (y, 0), 0x5018: (a, 0), 0x5038: (b, 0)}, 0x18)


def product(node):
    """The second operand has one number for each channel."""
    a, b, y = *node.inputs, node.outputs[0]
    out = Size(y)
    values = {
        0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x1E5, 0x4040: 0x20050, 0x4050: 2, 0x4060: 0x53, **_write(y, align(out.c, out.lanes), 1),
        **product_values(a, b, y, 0x804002C4), 0x5034: 4, 0x5040: _ATOM, 0x5044: 0x7801, 0x504C: Size(a).gap * _ATOM,
    }
    return task(MEMORY, values, {0x4020: (y, 0), 0x5018: (a, 0), 0x5038: (b, 0)}, 0x18)


def tables(node):
    values = {
        0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x1E5, 0x4024: _ATOM, 0x403C: 0xF000F, 0x4040: 0x53, 0x4050: 2,
        0x4058: 0xF, 0x4060: 0x53, 0x4070: 0x383, 0x4078: 1, 0x4084: 1, 0x40C0: _ATOM, 0x5014: 0xF, 0x5034: 1,
        0x5044: 0x7801, 0x5068: 0x1010101,
    }
    return loading(node, MEMORY, values, 0x4020)
