"""Whole programs for RK3566 and RK3568: int8 convolutions with their fused Add, activation or lookup table, plain ones of
float16, Add, and Mul by a number for each channel."""
from ..pack import align
from .parts import HALF, POINTER, POOL_READ, Size, add_values, banks, kernel, loading, pool_with_edges, product_values, task, written

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


def _half(made, values, tensors, held, out):
    """Of float16, without a bias: nothing is read for the units behind the sums."""
    channels = align(out.c, out.lanes * 2)
    made |= {
        0x100C: 0x220, 0x1024: made[0x1024] & ~0xFFFF | held // 2, 0x200C: 0x2001, 0x300C: 0x2000, 0x3014: channels - 1, 0x4010: HALF,
        0x403C: (out.c - 1) << 16 | channels - 1,
    }
    order = [r for r in CONVOLUTION if r < 0x5000 and r not in (0x4058, 0x405C)]
    return task(order, made | values | {0x4040: 0x53, 0x4084: 1}, {r: (t, 0) for r, t in tensors.items()}, 0xF)


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
        0x501C: 0xE if values.get(0x4048, 0) & 1 else 2, 0x5024: -(-out.c // 16) * 16 - 1, 0x5034: 1, 0x5044: 0x4000,
    }
    if size.half:
        return _half(made, values, tensors, held, out)
    order = CONVOLUTION
    if node.attrs["group"] > 1:
        made |= {0x100C: 3, 0x200C: 3, 0x300C: 2, 0x400C: 0x138, 0x40C0: 4 * out.plane * _ATOM, 0x5044: 0x4006}
        values[0x4050] = 0x36D
        order = [r for r in CONVOLUTION if r not in (0x4058, 0x405C)]
    if 0x5038 in tensors:
        made |= _operand(Size(tensors[0x5038], _ATOM))
    if node.lut_tasks:
        made |= {0x4108: 0x68, 0x410C: 0x50500, 0x4110: -0x4000, 0x411C: 0x4000}
    return task(order, made | values, {r: (t, 0) for r, t in tensors.items()}, 0x1F)


def add(node, _model):
    a, b, y = *node.inputs, node.outputs[0]
    out = Size(y, _ATOM)
    values = add_values(a, b, y, 0x900002D0 if node.op == "Add" else 0x900000D0)
    made = {
        **_write(y, out.held, 1), 0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x109, 0x4050: 2, 0x4060: 0x53,
        **values, 0x4040: 0x48, **_operand(Size(b, _ATOM)), 0x501C: 1, 0x504C: Size(a, _ATOM).gap * _ATOM, 0x5044: 0x4001,
    }
    return task(MEMORY, made, {0x4020: (y, 0), 0x5018: (a, 0), 0x5038: (b, 0)}, 0x18)


def product(node):
    """The second operand has one number for each channel."""
    a, b, y = *node.inputs, node.outputs[0]
    made = {
        **_write(y, Size(y, _ATOM).held, 1), 0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x109, 0x4040: 0x58, 0x4050: 2, 0x4060: 0x53,
        **product_values(a, b, y, 0x800002C4), 0x501C: 1, 0x5040: _ATOM, 0x5044: 0x4001, 0x504C: Size(a, _ATOM).gap * _ATOM,
    }
    return task(MEMORY, made, {0x4020: (y, 0), 0x5018: (a, 0), 0x5038: (b, 0)}, 0x18)


def pool(node):
    return pool_with_edges(node, (), [*POOL_READ[:3], 0x7018, *POOL_READ[3:]], {0x60DC: 3, 0x7018: 1}, _ATOM)


def tables(node):
    made = {
        0x4004: POINTER, 0x5004: POINTER, 0x400C: 0x109, 0x4024: _ATOM, 0x403C: 0x70007, 0x4040: 0x53, 0x4050: 2,
        0x4060: 0x53, 0x4070: 0x383, 0x4078: 1, 0x4084: 1, 0x40C0: _ATOM, 0x5014: 7, 0x501C: 1, 0x5028: 1, 0x5034: 1,
        0x5044: 0x4001, 0x5068: 0x1010101,
    }
    return loading(node, MEMORY, made, 0x4020)
