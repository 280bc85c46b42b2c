"""Operators that move values: reshape, transpose, concat, split, slice, pad, expand, resize."""

import numpy as np

from .. import regs
from ..reference import reference

__all__ = ["reshape", "squeeze", "transpose", "concat", "split", "slice_", "pad", "expand", "resize",
           "depth_to_space", "space_to_depth"]


def _node(m, op, inputs, outputs, name, attrs=None, cpu=False):
    node = m.add(op, inputs, outputs, name=f"{op}:{name}", attrs=attrs or {})
    if cpu:
        node.device = "cpu"
    else:
        first = next(t for t in inputs if not t.is_const)
        node.tasks = [regs.simple_task(m.chip, {"input": first, "output": outputs[0]})]
    return node


def reshape(m, x, shape, *, cpu=False, alias=False, name=None):
    """alias: an NPU node without tasks, the output lies where the input does."""
    name = m.unique(name or "reshape")
    target = m.constant(name + "_shape", list(shape), "int64")
    y = m.activation(name + "_out", np.zeros(x.shape).reshape(shape).shape, x.quant, x.dtype)
    node = _node(m, "Reshape", [x, target], [y], name, {"allowzero": 0}, cpu)
    if alias:
        if pack_order(x) != pack_order(y):
            raise ValueError("the bytes of an alias must mean the same in both shapes")
        node.tasks, y.alias = [], x
    return y


def pack_order(t):
    """What an alias may not change: how channels and pixels lie."""
    if t.layout != "nc1hwc2":
        return t.layout
    return t.native[1], t.native[2] * t.native[3], t.native[4]


def squeeze(m, x, op, shape, *, name=None):
    """Squeeze, Unsqueeze or Flatten, to `shape`."""
    name = m.unique(name or op.lower())
    y = m.activation(name + "_out", shape, x.quant, x.dtype)
    _node(m, op, [x], [y], name, cpu=True)
    return y


@reference("Reshape", "Squeeze", "Unsqueeze", "Flatten")
def _reshape(node, x, shape=None):
    return x.reshape(node.outputs[0].shape)


def transpose(m, x, perm=None, *, cpu=False, name=None):
    """Without `perm` the file has none, and dimensions are reversed."""
    name = m.unique(name or "transpose")
    y = m.activation(name + "_out", [x.shape[p] for p in perm or range(len(x.shape))[::-1]], x.quant, x.dtype)
    _node(m, "Transpose", [x], [y], name, {"perm": list(perm)} if perm else {}, cpu)
    return y


@reference("Transpose")
def _transpose(node, x):
    return x.transpose(node.attrs.get("perm"))


def concat(m, parts, *, axis=1, out=None, cpu=False, bare=False, name=None):
    """bare: without BSON."""
    name = m.unique(name or "concat")
    shape = list(parts[0].shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    y = m.activation(name + "_out", shape, out, parts[0].dtype)
    _node(m, "Concat", parts, [y], name, {"axis": axis}, cpu).fused = bare
    return y


@reference("Concat")
def _concat(node, *parts):
    return np.concatenate(parts, node.attrs["axis"])


def split(m, x, sizes, *, axis=1, out=None, cpu=False, name=None):
    """`out`: a Quant for each part, or None to keep the input's."""
    name = m.unique(name or "split")
    sizes_tensor = m.constant(name + "_sizes", sizes, "int64")
    quants = out or [x.quant] * len(sizes)
    parts = []
    for i, (size, quant) in enumerate(zip(sizes, quants)):
        shape = list(x.shape)
        shape[axis] = size
        parts.append(m.activation(f"{name}_out{i}", shape, quant, x.dtype))
    _node(m, "Split", [x, sizes_tensor], parts, name, {"axis": axis, "split": list(sizes)}, cpu)
    return parts


@reference("Split")
def _split(node, x, sizes):
    return np.split(x, np.cumsum(node.attrs["split"])[:-1], node.attrs["axis"])


def slice_(m, x, starts, ends, axes, steps=None, *, cpu=True, name=None):
    name = m.unique(name or "slice")
    steps = steps or [1] * len(starts)
    window = [slice(None)] * len(x.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        window[axis] = slice(start, end, step)
    numbers = [m.constant(f"{name}_{part}", v, "int64") for part, v in
               (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))]
    y = m.activation(name + "_out", np.zeros(x.shape, "?")[tuple(window)].shape, x.quant, x.dtype)
    node = _node(m, "Slice", [x, *numbers], [y], name, cpu=cpu)
    node.params = tuple(window)
    return y


@reference("Slice")
def _slice(node, x, *numbers):
    return x[node.params]


def pad(m, x, pads, value=0.0, *, mode="constant", cpu=False, name=None):
    """`pads` begin and end per axis, as ONNX lists them."""
    name = m.unique(name or "pad")
    half = len(pads) // 2
    shape = [d + pads[i] + pads[i + half] for i, d in enumerate(x.shape)]
    amounts = m.constant(name + "_pads", pads, "int64")
    fill = m.constant(name + "_value", np.float32(value), "float32")
    y = m.activation(name + "_out", shape, x.quant, x.dtype)
    _node(m, "Pad", [x, amounts, fill], [y], name, {"mode": mode}, cpu)
    return y


@reference("Pad")
def _pad(node, x, pads, value):
    pads = pads.astype(int)
    half = len(pads) // 2
    widths, mode = list(zip(pads[:half], pads[half:])), node.attrs["mode"]
    values = {"constant_values": float(value.ravel()[0])} if mode == "constant" else {}
    return np.pad(x, widths, mode, **values)


def expand(m, x, shape, *, cpu=False, name=None):
    name = m.unique(name or "expand")
    target = m.constant(name + "_shape", list(shape), "int64")
    y = m.activation(name + "_out", shape, x.quant, x.dtype)
    _node(m, "Expand", [x, target], [y], name, cpu=cpu)
    return y


@reference("Expand")
def _expand(node, x, shape):
    return np.broadcast_to(x, node.outputs[0].shape)


def resize(m, x, size=None, *, scales=None, mode="linear", coordinates="half_pixel",
           nearest="floor", cubic=None, cpu=False, name=None):
    """To (height, width), or by the scales of both. mode linear, cubic or nearest, which rounds as
    `nearest` says. cubic: its coefficient, if not the usual one, and whether only pixels of the image
    count."""
    name = m.unique(name or "resize")
    scales = np.asarray([1, 1, *scales] if scales else [], "<f4")
    shape = (*x.shape[:2], *(size or np.floor(x.shape[2:] * scales[2:])))
    ends = [m.constant(f"{name}_roi", np.zeros(0), "float32"),
            m.constant(f"{name}_scales", scales, "float32")]
    ends += [m.constant(name + "_sizes", shape, "int64")] if size else []
    y = m.activation(name + "_out", shape, x.quant, x.dtype)
    attrs = {"coordinate_transformation_mode": coordinates, "mode": mode, "nearest_mode": nearest}
    if cubic:
        attrs.update({"cubic_coeff_a": cubic[0], "exclude_outside": int(cubic[1])})
    node = _node(m, "Resize", [x, *ends], [y], name, attrs, cpu)
    node.params = scales[2:] if scales.size else np.divide(y.shape[2:], x.shape[2:])
    return y


def _source(size, out, scale, coordinates):
    """Where each output position lies in the input."""
    i = np.arange(out)
    if coordinates == "align_corners":
        return i * (size - 1) / max(out - 1, 1)
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "pytorch_half_pixel" and out == 1:
        return np.zeros(1)
    return (i + 0.5) / scale - 0.5


_ROUND = {"floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda at: np.ceil(at - 0.5),
          "round_prefer_ceil": lambda at: np.floor(at + 0.5)}


def _cubic(t, a):
    t = np.abs(t)
    near, far = ((a + 2) * t - (a + 3)) * t * t + 1, (((t - 5) * t + 8) * t - 4) * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def _resize_axis(x, axis, out, scale, attrs):
    size = x.shape[axis]
    at = _source(size, out, scale, attrs["coordinate_transformation_mode"])
    if attrs["mode"] == "nearest":
        places = _ROUND[attrs["nearest_mode"]](at)
        return np.take(x, np.clip(places, 0, size - 1).astype(int), axis)
    if attrs["mode"] == "cubic":
        matrix = np.zeros((out, size))
        inside = attrs.get("exclude_outside")
        for i, place in enumerate(at):
            for k in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
                weight = _cubic(place - k, attrs.get("cubic_coeff_a", -0.75))
                matrix[i, min(max(k, 0), size - 1)] += 0 if inside and not 0 <= k < size else weight
        matrix /= matrix.sum(1, keepdims=True)
        return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    at = np.clip(at, 0, size - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, size - 1)
    weight = (at - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    return np.take(x, low, axis) * (1 - weight) + np.take(x, high, axis) * weight


@reference("Resize")
def _resize(node, x, *unused):
    h, w = node.outputs[0].shape[2:]
    rows = _resize_axis(x, 2, h, node.params[0], node.attrs)
    return _resize_axis(rows, 3, w, node.params[1], node.attrs)


def depth_to_space(m, x, block, *, mode="DCR", name=None):
    name = m.unique(name or "depthtospace")
    n, c, h, w = x.shape
    y = m.activation(name + "_out", (n, c // block**2, h * block, w * block), x.quant, x.dtype)
    _node(m, "DepthToSpace", [x], [y], name, {"blocksize": block, "mode": mode}, True)
    return y


@reference("DepthToSpace")
def _depth_to_space(node, x):
    b, (n, c, h, w) = node.attrs["blocksize"], x.shape
    if node.attrs["mode"] == "DCR":
        parts = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(node.outputs[0].shape)


def space_to_depth(m, x, block, *, name=None):
    name = m.unique(name or "spacetodepth")
    n, c, h, w = x.shape
    y = m.activation(name + "_out", (n, c * block**2, h // block, w // block), x.quant, x.dtype)
    _node(m, "SpaceToDepth", [x], [y], name, {"blocksize": block}, True)
    return y


@reference("SpaceToDepth")
def _space_to_depth(node, x):
    b, (n, c, h, w) = node.attrs["blocksize"], x.shape
    parts = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(node.outputs[0].shape)
