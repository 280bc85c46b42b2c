"""Native layouts: NC1HWC2 activations, layout-65 weights, bias tables."""

import numpy as np

DTYPES = {"float32": "<f4", "float16": "<f2", "int8": "i1", "uint8": "u1", "int16": "<i2",
          "int32": "<i4", "int64": "<i8", "bool": "?"}


def itemsize(dtype):
    return np.dtype(DTYPES[dtype]).itemsize


def align(value, step):
    return -(-value // step) * step


# ---- activations ----------------------------------------------------------------------------


def is_picture(shape):
    """Inputs of 1, 3 or 4 channels stay NHWC on the device."""
    return len(shape) == 4 and shape[1] in (1, 3, 4)


def activation_shape(chip, dtype, shape, is_input):
    """The native shape of a 4-D activation."""
    n, c, h, w = shape
    if is_input and is_picture(shape):
        return [n, 1, h, w, c]
    c2 = chip.c2.get(dtype, 16)
    return [n, align(c, c2) // c2, h, w, c2]


def activation_bytes(chip, dtype, shape, is_input, block=1):
    """Bytes it takes in the arena. Convolutions write whole blocks of `block` channels."""
    size = itemsize(dtype)
    if len(shape) != 4:
        return align(int(np.prod(shape)) * size, 64)
    n, c1, h, w, c2 = activation_shape(chip, dtype, shape, is_input)
    if is_input and is_picture(shape):
        return n * h * align(w, chip.c2[dtype]) * c2 * size
    plane = h * w if h * w == 1 else align(h * w, 4)
    return n * align(c1 * c2, block) * plane * size


def to_nc1hwc2(array, c2):
    """A logical NCHW array as [N, C1, H, W, C2], zeros in the spare channels."""
    n, c, h, w = array.shape
    padded = np.zeros((n, align(c, c2), h, w), array.dtype)
    padded[:, :c] = array
    return padded.reshape(n, -1, c2, h, w).transpose(0, 1, 3, 4, 2).copy()


# ---- weights --------------------------------------------------------------------------------


def _tail(count, block, smallest):
    """Channels left over, rounded up to a power of two that the hardware reads at once."""
    size = smallest
    while size < count:
        size *= 2
    return min(size, block)


def _split(count, block, tail):
    """[(blocks, size)]: the full blocks and what is left; a tail as large as a block is one."""
    full, rest = divmod(count, block)
    if rest and tail(rest) == block:
        full, rest = full + 1, 0
    parts = [(full, block)] if full else []
    return parts + ([(1, tail(rest))] if rest else [])


def weight_blocks(chip, dtype, o, i, first):
    """The output and input parts of a convolution's weights: ([(blocks, O2)], [(blocks, I2)])."""
    outputs = _split(o, chip.o2[dtype], lambda n: min(chip.round_o(dtype, n, first),
                                                      chip.o2[dtype]))
    if first and chip.first_i2 and i <= chip.first_i2:
        return outputs, [(1, chip.first_i2)]
    inputs = _split(i, chip.i2[dtype], lambda n: _tail(n, chip.i2[dtype], chip.c2[dtype]))
    return outputs, inputs


def depthwise_blocks(chip, dtype, channels):
    """[(blocks, size)] of a depthwise convolution's channels."""
    block = chip.depthwise_block // (itemsize(dtype) if chip.family == "rk3588" else 1)
    if chip.family == "rk3576":
        return _split(channels, block, lambda n: align(n, 16))
    parts = _split(channels, block, lambda n: _tail(n, block, chip.c2[dtype]))
    return parts if parts[0][1] == block else [(0, block)] + parts


def native_shape(outputs, inputs, kh, kw):
    """The native shape: one block of six numbers for each pair of an output and an input part."""
    shape = []
    for o_blocks, o2 in outputs:
        for i_blocks, i2 in inputs:
            shape += [o_blocks, i_blocks, kh, kw, o2, i2]
    return shape


def channels(parts):
    return sum(blocks * size for blocks, size in parts)


def _with_spare(weight, o_total, i_total, zero):
    """Room for whole blocks: spare input channels hold the weights' zero points, others 0."""
    o, i, kh, kw = weight.shape
    padded = np.zeros((o_total, i_total, kh, kw), weight.dtype)
    if zero is not None:
        padded[:o] = np.asarray(zero, weight.dtype)[:, None, None, None]
    padded[:o, :i] = weight
    return padded


def pack_weights(weight, outputs, inputs, zero=None):
    """[O, I, kh, kw] in memory order: by output block, its input blocks, then [H][W][O2][I2].
    `zero`: the stored value that means 0, per output channel."""
    padded = _with_spare(weight, channels(outputs), channels(inputs), zero)
    chunks, o_at = [], 0
    for o_blocks, o2 in outputs:
        for _ in range(o_blocks):
            i_at = 0
            for i_blocks, i2 in inputs:
                for _ in range(i_blocks):
                    block = padded[o_at : o_at + o2, i_at : i_at + i2]
                    chunks.append(block.transpose(2, 3, 0, 1).tobytes())
                    i_at += i2
            o_at += o2
    return b"".join(chunks)


def pack_first(weight, outputs, zero):
    """The other packing of RK3576 and RV1126B at the picture's side: [O1][ky][O2][kx*4+c], rows
    padded to 16, the same number of spare bytes behind."""
    if len(outputs) > 1:
        raise ValueError("how rows of a tail of output channels are packed is not known")
    padded = _with_spare(weight, channels(outputs), 4, zero)
    o, _, kh, kw = padded.shape
    rows = np.zeros((o, kh, align(kw * 4, 16)), weight.dtype)
    rows[:, :, : kw * 4] = padded.transpose(0, 2, 3, 1).reshape(o, kh, kw * 4)
    chunks, at = [], 0
    for blocks, o2 in outputs:
        for _ in range(blocks):
            chunks.append(rows[at : at + o2].transpose(1, 0, 2).tobytes())
            at += o2
    data = b"".join(chunks)
    return data + bytes(len(data))


def pack_depthwise_nz(weight, nz, parts, width):
    """Per tap `width` weights, then their nz, then the next channels; block by block."""
    _, count, kh, kw = weight.shape
    both = np.zeros((kh, kw, channels(parts), 2), np.int8)
    both[:, :, :count, 0] = weight[0].transpose(1, 2, 0)
    both[:, :, :count, 1] = np.where(nz == 128, -128, nz)
    chunks, at = [], 0
    for blocks, size in parts:
        for _ in range(blocks):
            block = both[:, :, at : at + size].reshape(kh, kw, size // width, width, 2)
            chunks.append(block.transpose(0, 1, 2, 4, 3).tobytes())
            at += size
    return b"".join(chunks)


# ---- bias tables ----------------------------------------------------------------------------


def _padded(values, count, dtype):
    out = np.zeros(count, dtype)
    out[: len(values)] = values
    return out


def written_at_once(chip, depthwise):
    """Channels of int8, for all of which a convolution reads its table."""
    return (depthwise and chip.depthwise_out) or chip.bias_align


def full_table(chip, bias, nz, mul, depthwise=False):
    """Per group: i32 bias, i16 nz, i16 mul."""
    g, count = chip.bias_group, align(len(bias), written_at_once(chip, depthwise))
    columns = (_padded(bias, count, "<i4"), _padded(nz, count, "<i2"), _padded(mul, count, "<i2"))
    return b"".join(c[at : at + g].tobytes() for at in range(0, count, g) for c in columns)


def depthwise_table(chip, bias, mul):
    """Per group: i32 bias, i16 mul, nothing else."""
    g, count = chip.bias_group, align(len(bias), chip.depthwise_out)
    columns = (_padded(bias, count, "<i4"), _padded(mul, count, "<i2"))
    return b"".join(c[at : at + g].tobytes() for at in range(0, count, g) for c in columns)


def plain_table(bias, count_align, dtype):
    return _padded(bias, align(len(bias), count_align), dtype).tobytes()
