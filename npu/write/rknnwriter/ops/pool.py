"""Pools."""

import numpy as np

from .. import regs
from ..quantize import shifted
from ..reference import load, reference, reference_stored, store
from .windows import four, out_size, pair, windows

_PPU = 0x60


def _pool(m, op, x, kernel, stride, pad, ceil, out, name, extra, dilation=(1, 1)):
    kernel, pads = pair(kernel), four(pad)
    stride = pair(stride if stride is not None else kernel)
    size = out_size(x.shape[2:], kernel, stride, dilation, pads, ceil)
    name = m.unique(name or op.lower())
    y = m.activation(name + "_out", (*x.shape[:2], *size), out, x.dtype)
    attrs = {"auto_pad": "NOTSET", "ceil_mode": int(ceil), "kernel_shape": list(kernel),
             "pads": list(pads), "strides": list(stride), **extra}
    node = m.add(op, [x], [y], name=f"{op}:{name}", attrs=attrs)
    node.tasks = [regs.simple_task(m.chip, {"input": x, "output": y}, _PPU)]
    return y


def max_pool(m, x, kernel, *, stride=None, pad=0, dilation=1, ceil=False, name=None):
    dilation = pair(dilation)
    return _pool(m, "MaxPool", x, kernel, stride, pad, ceil, x.quant, name,
                 {"dilations": list(dilation)}, dilation)


@reference_stored("MaxPool")
def _max_pool(node, x):
    a, lowest = node.attrs, -128 if x.dtype == np.int8 else -np.inf
    view = windows(x, a["kernel_shape"], a["strides"], a["dilations"], a["pads"], lowest,
                   node.outputs[0].shape[2:])
    return view.max((4, 5))


def average_pool(m, x, kernel, *, stride=None, pad=0, ceil=False, count_pad=True, out=None,
                 name=None):
    """count_pad: zeros of the pad count as members, those beyond it (ceil) do not."""
    return _pool(m, "AveragePool", x, kernel, stride, pad, ceil, out or x.quant, name,
                 {"count_include_pad": int(count_pad)})


def by_unit(node):
    """Whether the pool's unit does all of it: windows and padding as large as it has fields for. How its averages count
    padding is not known."""
    a, x, y = node.attrs, node.inputs[0], node.outputs[0]
    fits = max(*a["kernel_shape"], *a["strides"]) <= 16 and max(a["pads"]) <= 7
    if not fits or node.device != "npu" or x.quant != y.quant or x.dtype != y.dtype:
        return False
    if node.op == "AveragePool":
        return _has_reciprocals(node) and not any(a["pads"])
    return a["dilations"] == [1, 1]


def _has_reciprocals(node):
    """Whether it is the NPU's pool that makes all averages of bytes, each of a whole window."""
    a, x, y = node.attrs, node.inputs[0], node.outputs[0]
    kernel, stride, pads = a["kernel_shape"], a["strides"], a["pads"]
    whole = all((y.shape[2 + i] - 1) * stride[i] + kernel[i] <= x.shape[2 + i] + pads[i] + pads[2 + i] for i in range(2))
    counted = a["count_include_pad"] or not any(pads)
    return node.device == "npu" and x.dtype == y.dtype == "int8" and x.quant == y.quant and max(kernel) <= 16 and whole and counted


def _by_reciprocals(node, x):
    """Of stored numbers, to the nearest, ties to even, by sides' reciprocals of 16 bits."""
    a = node.attrs
    kh, kw = a["kernel_shape"]
    view = windows(x.astype(np.int64), (kh, kw), a["strides"], (1, 1), a["pads"], node.inputs[0].quant.zero_point,
                   node.outputs[0].shape[2:])
    return shifted(view.sum((4, 5)) * (0x10000 // kh) * (0x10000 // kw), 32).astype(np.int8)


@reference_stored("AveragePool")
def _average_pool(node, x):
    if _has_reciprocals(node):
        return _by_reciprocals(node, x)
    return store(node.outputs[0], _average(node, load(node.inputs[0], x)))


def _average(node, x):
    a = node.attrs
    size = node.outputs[0].shape[2:]
    args = (a["kernel_shape"], a["strides"], (1, 1), a["pads"])
    members = np.ones((1, 1, *x.shape[2:]))
    if a["count_include_pad"]:
        top, left, bottom, right = a["pads"]
        members = np.ones((1, 1, x.shape[2] + top + bottom, x.shape[3] + left + right))
        args_members = (*args[:3], (0, 0, 0, 0))
    else:
        args_members = args
    count = windows(members, *args_members, 0.0, size).sum((4, 5))
    return windows(x, *args, 0.0, size).sum((4, 5)) / count


def global_pool(m, op, x, *, out=None, name=None):
    """GlobalMaxPool or GlobalAveragePool under their own names, on the CPU."""
    name = m.unique(name or op.lower())
    y = m.activation(name + "_out", (*x.shape[:2], 1, 1), out or x.quant, x.dtype)
    m.add(op, [x], [y], name=f"{op}:{name}", device="cpu")
    return y


@reference("GlobalMaxPool")
def _global_max_pool(node, x):
    return x.max((2, 3), keepdims=True)


@reference("GlobalAveragePool")
def _global_average_pool(node, x):
    return x.mean((2, 3), keepdims=True)


def global_average_pool(m, x, *, out=None, name=None):
    return average_pool(m, x, x.shape[2:], stride=1, out=out, name=name)
