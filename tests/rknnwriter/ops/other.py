"""Softmax, reductions, matrix products, type conversion, indexing."""

import numpy as np

from .. import regs
from ..model import Tensor
from ..reference import reference

__all__ = ["softmax", "argmax", "reduce_mean", "matmul", "convert", "gather", "custom"]


def _node(m, op, inputs, outputs, name, attrs=None, cpu=False, params=None):
    node = m.add(op, inputs, outputs, name=f"{op}:{name}", attrs=attrs or {}, params=params)
    if cpu:
        node.device = "cpu"
    else:
        roles = {"input": inputs[0], "output": outputs[0]}
        node.tasks = [regs.simple_task(m.chip, roles)]
    return outputs[0]


def softmax(m, x, *, axis=1, out=None, cpu=False, name=None):
    name = m.unique(name or "softmax")
    y = m.activation(name + "_out", x.shape, out, x.dtype)
    return _node(m, "exSoftmax13", [x], [y], name, {"axis": axis}, cpu)


@reference("exSoftmax13")
def _softmax(node, x):
    axis = node.attrs["axis"]
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def argmax(m, x, *, axis=1, name=None):
    name = m.unique(name or "argmax")
    shape = [1 if i == axis else d for i, d in enumerate(x.shape)]
    y = m.activation(name + "_out", shape, None, "int64")
    return _node(m, "ArgMax", [x], [y], name, {"axis": axis, "keepdims": 1}, cpu=True)


@reference("ArgMax")
def _argmax(node, x):
    return np.expand_dims(x.argmax(node.attrs["axis"]), node.attrs["axis"])


def reduce_mean(m, x, axes, *, out=None, cpu=False, name=None):
    name = m.unique(name or "reducemean")
    shape = [1 if i in axes else d for i, d in enumerate(x.shape)]
    y = m.activation(name + "_out", shape, out, x.dtype)
    return _node(m, "ReduceMean", [x], [y], name, {"axes": list(axes), "keepdims": 1}, cpu)


@reference("ReduceMean")
def _reduce_mean(node, x):
    return x.mean(tuple(node.attrs["axes"]), keepdims=True)


def matmul(m, a, b, *, out=None, scale=None, name=None):
    """exMatMul: out[n, o, 0, w] = sum over k of a[n, k, 0, o] * b[n, k, 0, w] (* scale)."""
    name = m.unique(name or "matmul")
    y = m.activation(name + "_out", (a.shape[0], a.shape[3], 1, b.shape[3]), out, a.dtype)
    attrs, inputs = {}, [a, b]
    if scale is not None:
        attrs["c_type"] = "mul"
        inputs.append(scale if isinstance(scale, Tensor)
                      else m.constant(name + "_scale", scale, "float32"))
    return _node(m, "exMatMul", inputs, [y], name, attrs)


@reference("exMatMul")
def _matmul(node, a, b, scale=None):
    y = np.einsum("nkxo,nkxw->noxw", a, b)
    return y if scale is None else y * scale


def convert(m, x, *, out=None, dtype=None, name=None):
    """exDataConvert between int8 (with `out`) and float16."""
    name = m.unique(name or "convert")
    y = m.activation(name + "_out", x.shape, out, dtype or ("int8" if out else "float16"))
    return _node(m, "exDataConvert", [x], [y], name)


@reference("exDataConvert")
def _convert(node, x):
    return x


def gather(m, x, indices, *, axis=1, name=None):
    name = m.unique(name or "gather")
    numbers = m.constant(name + "_indices", indices, "int64")
    shape = np.take(np.zeros(x.shape, "?"), indices, axis).shape
    y = m.activation(name + "_out", shape, x.quant, x.dtype)
    return _node(m, "Gather", [x, numbers], [y], name, {"axis": axis}, cpu=True)


@reference("Gather")
def _gather(node, x, indices):
    return np.take(x, indices.astype(int), node.attrs["axis"])


def custom(m, op, inputs, shapes, attrs, *, outs=None, dtype=None, name=None):
    """A custom operator `cst…` on the CPU; `outs`: each output's quantization. Its reference is its
    inventor's."""
    name = m.unique(name or op)
    outputs = [m.activation(f"{name}_out{i}", s, outs and outs[i], dtype or inputs[0].dtype)
               for i, s in enumerate(shapes)]
    _node(m, op, inputs, outputs, name, attrs, cpu=True)
    return outputs
