"""Operators that pick values by number or place: Gather, GatherElements, TopK, GridSample, Tile."""

import numpy as np

from ..model import Tensor
from ..reference import reference

__all__ = ["gather", "gather_elements", "top_k", "grid_sample", "tile"]


def _cpu(m, op, inputs, outputs, name, attrs):
    return m.add(op, inputs, outputs, name=f"{op}:{name}", attrs=attrs, device="cpu")


def _indices(m, name, indices):
    if isinstance(indices, Tensor):
        return indices
    return m.constant(name + "_indices", indices, "int64")


def gather(m, x, indices, *, axis=1, name=None):
    """A single number takes the axis away; the file has it as a list of one."""
    name = m.unique(name or "gather")
    numbers = _indices(m, name, indices)
    picked = 0 if np.isscalar(indices) else np.zeros(numbers.shape, int)
    shape = np.take(np.zeros(x.shape, "?"), picked, axis).shape
    y = m.activation(name + "_out", shape, x.quant, x.dtype)
    _cpu(m, "Gather", [x, numbers], [y], name, {"axis": axis})
    return y


@reference("Gather")
def _gather(node, x, indices):
    return np.take(x, indices.astype(int), node.attrs["axis"]).reshape(node.outputs[0].shape)


def gather_elements(m, x, indices, *, axis=1, name=None):
    name = m.unique(name or "gatherelements")
    numbers = _indices(m, name, indices)
    y = m.activation(name + "_out", numbers.shape, x.quant, x.dtype)
    _cpu(m, "GatherElements", [x, numbers], [y], name, {"axis": axis})
    return y


@reference("GatherElements")
def _gather_elements(node, x, indices):
    return np.take_along_axis(x, indices.astype(int), node.attrs["axis"])


def top_k(m, x, k, *, axis=-1, largest=True, name=None):
    """Values and int64 indices, sorted; equal values by index."""
    name = m.unique(name or "topk")
    count = m.constant(name + "_k", [k], "int64")
    shape = list(x.shape)
    shape[axis] = k
    values = m.activation(name + "_values", shape, x.quant, x.dtype)
    indices = m.activation(name + "_indices", shape, None, "int64")
    _cpu(m, "TopK", [x, count], [values, indices], name,
         {"axis": axis, "largest": int(largest), "sorted": 1})
    return values, indices


@reference("TopK")
def _top_k(node, x, k):
    a = node.attrs
    order = np.argsort(-x if a["largest"] else x, a["axis"], kind="stable")
    order = np.take(order, np.arange(int(k[0])), a["axis"])
    return np.take_along_axis(x, order, a["axis"]), order


def grid_sample(m, x, grid, *, mode="bilinear", padding="zeros", align=False, out=None, name=None):
    """`grid` is [N, H, W, 2]: x and y in [-1, 1]."""
    name = m.unique(name or "gridsample")
    n, h, w, _ = grid.shape
    y = m.activation(name + "_out", (n, x.shape[1], h, w), out or x.quant, x.dtype)
    _cpu(m, "GridSample", [x, grid], [y], name,
         {"align_corners": int(align), "mode": mode, "padding_mode": padding})
    return y


def _reflect(at, low, high):
    if high <= low:
        return np.zeros_like(at)
    inside = np.mod(at - low, 2 * (high - low))
    return low + np.where(inside > high - low, 2 * (high - low) - inside, inside)


def _pixels(v, size, attrs):
    """Where in the image, along one axis, a grid's numbers lie."""
    if attrs["align_corners"]:
        at, ends = (v + 1) / 2 * (size - 1), (0, size - 1)
    else:
        at, ends = ((v + 1) * size - 1) / 2, (-0.5, size - 0.5)
    if attrs["padding_mode"] == "reflection":
        at = _reflect(at, *ends)
    return at if attrs["padding_mode"] == "zeros" else np.clip(at, 0, size - 1)


def _fetch(image, y, x):
    """image[C, H, W] at whole places; zeros outside."""
    h, w = image.shape[1:]
    there = (y >= 0) & (y < h) & (x >= 0) & (x < w)
    values = image[:, np.clip(y, 0, h - 1).astype(int), np.clip(x, 0, w - 1).astype(int)]
    return np.where(there, values, 0.0)


def _sample(image, grid, attrs):
    x = _pixels(grid[..., 0], image.shape[2], attrs)
    y = _pixels(grid[..., 1], image.shape[1], attrs)
    if attrs["mode"] == "nearest":
        return _fetch(image, np.rint(y), np.rint(x))
    top, left = np.floor(y), np.floor(x)
    result = np.zeros((len(image), *y.shape))
    for dy in (0, 1):
        for dx in (0, 1):
            weight = (1 - abs(y - top - dy)) * (1 - abs(x - left - dx))
            result += weight * _fetch(image, top + dy, left + dx)
    return result


@reference("GridSample")
def _grid_sample(node, x, grid):
    return np.stack([_sample(image, g, node.attrs) for image, g in zip(x, grid)])


def tile(m, x, repeats, *, name=None):
    name = m.unique(name or "tile")
    counts = m.constant(name + "_repeats", repeats, "int64")
    y = m.activation(name + "_out", np.tile(np.zeros(x.shape, "?"), repeats).shape, x.quant, x.dtype)
    _cpu(m, "Tile", [x, counts], [y], name, {})
    return y


@reference("Tile")
def _tile(node, x, repeats):
    return np.tile(x, repeats.astype(int))
