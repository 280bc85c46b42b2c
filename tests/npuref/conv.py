"""CNA and CORE: sums of products, from features and weights in memory. What the registers say comes as
a Shape."""
import dataclasses

import numpy as np



@dataclasses.dataclass
class Shape:
    channels: int  # that are worked on
    real: int  # that are in memory; the others are the pad value
    height: int
    width: int
    feature: object  # a Cube; packed pixels are one whose lanes are their channels
    unsigned: bool  # the converter subtracts 128 from bytes without sign
    depthwise: bool
    kernel: tuple
    stride: tuple
    dilation: tuple
    pad_top: int
    pad_left: int
    pad_value: int
    out_height: int
    out_width: int
    out_channels: int
    kernels: int
    weights: int  # address
    weight_bytes: int
    bytes_per_kernel: int
    kernel_block: int = 32
    channel_block: int = 32
    depthwise_block: int = 64
    paired: bool = False  # depthwise weights: two of them, then what is added to each
    weight_zero: int = 0  # subtracted from every weight
    clip: int = 0  # bits that the sums lose on their way to the DPU (dpu.Multiply)
    spread: tuple = (1, 1)  # transposed: lines and columns from one pixel to the next, pad values between
    rows_of_16: bool = False  # packed pixels: a kernel's row takes whole 16 bytes, four for each pixel


def group_sizes(n, size):
    return [min(size, n - i) for i in range(0, n, size)]


def features(s, memory):
    """[channels, height, width], with the constant that stands for channels beyond the real ones."""
    n = min(s.real, s.channels)
    known = memory.at(s.feature.addresses(n, s.height, s.width)).astype(np.int64)
    if s.unsigned:
        known = (known & 0xFF) - 128
    values = np.full((s.channels, s.height, s.width), s.pad_value, np.int64)
    values[:n] = known
    return values


def depthwise_weights(s, memory):
    """[channels, kh, kw] of the weights, and of what is added to them."""
    kh, kw = s.kernel
    each = 2 if s.paired else 1
    blocks, at = [], s.weights
    for n in group_sizes(s.weight_bytes // (kh * kw * each), s.depthwise_block):
        block = memory.read(at, kh * kw * n * each, np.int8)
        if s.paired:
            block = block.reshape(kh, kw, n // 2, 2, 2).transpose(3, 2, 4, 0, 1).reshape(2, n, kh, kw)
        else:
            block = np.stack([block.reshape(kh, kw, n).transpose(2, 0, 1)] * 2)
        blocks.append(block)
        at += kh * kw * n * each
    w, added = np.concatenate(blocks, 1).astype(np.int64)
    return w - s.weight_zero, np.where(added == -128, 128, added)  # minus -128, in a byte


def kernel_weights(s, memory):
    """[kernels, channels, kh, kw]."""
    kh, kw = s.kernel
    if s.rows_of_16:
        return row_weights(s, memory)
    channels = s.bytes_per_kernel // (kh * kw)
    w, at, k = np.zeros((s.kernels, channels, kh, kw), np.int64), s.weights, 0
    for n in group_sizes(s.kernels, s.kernel_block):
        c = 0
        for m in group_sizes(channels, s.channel_block):
            block = memory.read(at, n * m * kh * kw, np.int8).reshape(kh, kw, n, m)
            w[k : k + n, c : c + m] = block.transpose(2, 3, 0, 1)
            at += block.size
            c += m
        k += n
    return w - s.weight_zero


def row_weights(s, memory):
    kh, kw = s.kernel
    row, blocks, at = -(-4 * kw // 16) * 16, [], s.weights
    for n in group_sizes(s.kernels, s.kernel_block):
        block = memory.read(at, kh * n * row, np.int8).reshape(kh, n, row)[:, :, : 4 * kw]
        blocks.append(block.reshape(kh, n, kw, 4).transpose(1, 3, 0, 2))
        at += kh * n * row
    return np.concatenate(blocks).astype(np.int64) - s.weight_zero


def spread(s, x):
    """The image of a transposed convolution, which is a plain one over it."""
    if s.spread == (1, 1):
        return x
    c, h, w = x.shape
    wide = np.full((c, (h - 1) * s.spread[0] + 1, (w - 1) * s.spread[1] + 1), s.pad_value, np.int64)
    wide[:, :: s.spread[0], :: s.spread[1]] = x
    return wide


def windows(s, x):
    """[channels, kh, kw, out_height, out_width]: what each tap sees."""
    x = spread(s, x)
    height, width = x.shape[1:]
    steps = [np.arange(n)[:, None] * d + np.arange(o) * t
             for n, d, o, t in zip(s.kernel, s.dilation, (s.out_height, s.out_width), s.stride)]
    need = [int(step.max()) + 1 for step in steps]
    padded = np.full((x.shape[0], max(need[0], s.pad_top + height), max(need[1], s.pad_left + width)),
                     s.pad_value, np.int64)
    padded[:, s.pad_top : s.pad_top + height, s.pad_left : s.pad_left + width] = x
    return padded[:, steps[0][:, None, :, None], steps[1][None, :, None, :]]


def sums(s, memory):
    return *full_sums(s, memory), s.clip


def full_sums(s, memory):
    """Sums of products [out_channels, out_height, out_width] and the sum of inputs behind each (of the
    channel where each has its own kernel)."""
    x = features(s, memory)
    if s.depthwise:
        w, added = depthwise_weights(s, memory)
        seen = windows(s, x[: min(s.out_channels, len(w), len(x))])
        total = np.einsum("ckl,cklyx->cyx", w[: len(seen)], seen)
        if s.paired:
            total += np.einsum("ckl,cklyx->cyx", added[: len(seen)], seen)
        return total, seen.sum((1, 2))
    w = kernel_weights(s, memory)
    if w.shape[1] > x.shape[0]:
        more = np.full((w.shape[1] - x.shape[0], *x.shape[1:]), s.pad_value, np.int64)
        x = np.concatenate([x, more])
    seen = windows(s, x[: w.shape[1]]).astype(np.float64)
    flat = seen.reshape(-1, s.out_height * s.out_width)
    total = w.reshape(w.shape[0], -1).astype(np.float64) @ flat  # exact: far below 2^53
    total = total.astype(np.int64).reshape(-1, s.out_height, s.out_width)[: s.out_channels]
    window_sums = flat.sum(0).astype(np.int64).reshape(s.out_height, s.out_width)
    return total, np.broadcast_to(window_sums, total.shape)
