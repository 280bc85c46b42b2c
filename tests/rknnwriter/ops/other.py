"""Softmax, reductions, normalization, matrix products, type conversion."""

import numpy as np

from .. import regs
from ..model import Tensor
from ..reference import reference

__all__ = ["softmax", "argmax", "reduce", "reduce_mean", "layer_norm", "matmul", "convert", "cast",
           "custom"]


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


def reduce(m, op, x, axes, *, keep=True, out=None, cpu=True, name=None):
    """`op` is ONNX's name. Without `keep` the dimensions are gone."""
    name = m.unique(name or op.lower())
    shape = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
    y = m.activation(name + "_out", shape, out, x.dtype)
    return _node(m, op, [x], [y], name, {"axes": list(axes), "keepdims": int(keep)}, cpu)


def reduce_mean(m, x, axes, *, cpu=False, **how):
    return reduce(m, "ReduceMean", x, axes, cpu=cpu, **how)


_REDUCTIONS = {"ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min,
               "ReduceSum": np.sum, "ReduceProd": np.prod,
               "ReduceL1": lambda x, *how, **more: np.abs(x).sum(*how, **more),
               "ReduceL2": lambda x, *how, **more: np.sqrt((x * x).sum(*how, **more)),
               "ReduceSumSquare": lambda x, *how, **more: (x * x).sum(*how, **more)}


@reference(*_REDUCTIONS)
def _reduce(node, x):
    axes, keep = tuple(node.attrs["axes"]), bool(node.attrs["keepdims"])
    return _REDUCTIONS[node.op](x, axes, keepdims=keep)


def layer_norm(m, x, scale, bias=None, *, axis=-1, epsilon=1e-5, op="LayerNormalization", cpu=False,
               out=None, name=None):
    name = m.unique(name or "layernorm")
    parts = [m.constant(f"{name}_{part}", v, "float32")
             for part, v in (("scale", scale), ("bias", bias)) if v is not None]
    y = m.activation(name + "_out", x.shape, out, x.dtype)
    attrs = {"axis": axis, "epsilon": float(np.float32(epsilon))}
    return _node(m, op, [x, *parts], [y], name, attrs, cpu)


@reference("LayerNormalization", "exLayerNorm")
def _layer_norm(node, x, scale, bias=0.0):
    axis = node.attrs["axis"]
    axes = tuple(range(axis + x.ndim if axis < 0 else axis, x.ndim))
    mean, spread = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    y = (x - mean) / np.sqrt(spread + node.attrs["epsilon"])
    return y * scale + bias


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


def cast(m, x, dtype, *, out=None, name=None):
    """Cast on the CPU: floats lose their fraction where they become integers."""
    name = m.unique(name or "cast")
    y = m.activation(name + "_out", x.shape, out, dtype)
    number = {"float32": 1, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}[dtype]
    return _node(m, "Cast", [x], [y], name, {"to": number}, cpu=True)


@reference("Cast")
def _cast(node, x):
    dtype = node.outputs[0].dtype
    return x != 0 if dtype == "bool" else np.trunc(x) if dtype in ("int32", "int64") else x


def custom(m, op, inputs, shapes, attrs, *, outs=None, dtype=None, name=None):
    """A custom operator `cst…` on the CPU; `outs`: each output's quantization. Its reference is its
    inventor's."""
    name = m.unique(name or op)
    outputs = [m.activation(f"{name}_out{i}", s, outs and outs[i], dtype or inputs[0].dtype)
               for i, s in enumerate(shapes)]
    _node(m, op, inputs, outputs, name, attrs, cpu=True)
    return outputs
