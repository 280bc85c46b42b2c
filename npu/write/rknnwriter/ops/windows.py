"""Sliding windows, shared by convolutions and pools."""

import numpy as np


def pair(value):
    return (value, value) if np.isscalar(value) else tuple(int(v) for v in value)


def four(value):
    """Pads as (top, left, bottom, right)."""
    if np.isscalar(value):
        return (value,) * 4
    return tuple(int(v) for v in (tuple(value) * 2 if len(value) == 2 else value))


def out_size(size, kernel, stride, dilation, pads, ceil=False):
    """(h, w) of the result."""
    result = []
    for axis in range(2):
        span = size[axis] + pads[axis] + pads[axis + 2] - dilation[axis] * (kernel[axis] - 1) - 1
        if span < 0:
            raise ValueError(f"a window does not fit into a picture of {size[0]}x{size[1]} and its padding")
        n = -(-span // stride[axis]) if ceil else span // stride[axis]
        # A window may not begin beyond the picture and its leading pad.
        if ceil and n * stride[axis] >= size[axis] + pads[axis]:
            n -= 1
        result.append(n + 1)
    return tuple(result)


def windows(x, kernel, stride, dilation, pads, fill, size):
    """[N, C, OH, OW, kh, kw] of x[N, C, H, W] padded with `fill`; `size` is (OH, OW)."""
    n, c, h, w = x.shape
    reach = [(size[a] - 1) * stride[a] + dilation[a] * (kernel[a] - 1) + 1 for a in range(2)]
    canvas = np.full((n, c, max(reach[0], h + pads[0]), max(reach[1], w + pads[1])), fill, x.dtype)
    canvas[:, :, pads[0] : pads[0] + h, pads[1] : pads[1] + w] = x
    span = [dilation[a] * (kernel[a] - 1) + 1 for a in range(2)]
    view = np.lib.stride_tricks.sliding_window_view(canvas, span, axis=(2, 3))
    view = view[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    return view[:, :, : size[0], : size[1]]
