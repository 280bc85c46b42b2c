"""Softmax, reductions, normalization, matrix products, type conversion."""

import numpy as np

from .. import regs
from ..model import Tensor
from ..reference import reference

__all__ = ["attention", "softmax", "softmax11", "log_softmax", "hardmax", "argmax", "argmin", "reduce", "reduce_mean", "layer_norm", "norm",
           "instance_norm", "glu", "matmul", "mat_mul", "convert", "cast", "custom"]


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


def _along(m, op, x, axis, out, cpu):
    name = m.unique(op.lower())
    y = m.activation(name + "_out", x.shape, out, x.dtype)
    return _node(m, op, [x], [y], name, {"axis": axis}, cpu)


def softmax11(m, x, *, axis=1, out=None, cpu=True):
    """Softmax as ONNX 11 has it: on the CPU over everything from the axis on."""
    return _along(m, "Softmax", x, axis, out, cpu)


def log_softmax(m, x, *, axis=-1, out=None, cpu=True):
    return _along(m, "LogSoftmax", x, axis, out, cpu)


def hardmax(m, x, *, axis=1, out=None, cpu=False):
    return _along(m, "Hardmax", x, axis, out, cpu)


@reference("Softmax")
def _softmax11(node, x):
    axis = node.attrs["axis"]
    axes = axis if node.device == "npu" else tuple(range(axis % x.ndim, x.ndim))
    e = np.exp(x - x.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


@reference("LogSoftmax")
def _log_softmax(node, x):
    return np.log(_softmax(node, x))


@reference("Hardmax")
def _hardmax(node, x):
    axis = node.attrs["axis"]
    best = np.expand_dims(x.argmax(axis), axis)
    return (np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            == best).astype(float)


def argmax(m, x, *, axis=1, keep=True, last=False, op="ArgMax", name=None):
    """last: of equal values the last one counts."""
    name = m.unique(name or op.lower())
    shape = [1 if i == axis else d for i, d in enumerate(x.shape) if keep or i != axis]
    y = m.activation(name + "_out", shape, None, "int64")
    attrs = {"axis": axis, "keepdims": int(keep)} | ({"select_last_index": 1} if last else {})
    return _node(m, op, [x], [y], name, attrs, cpu=True)


def argmin(m, x, **how):
    return argmax(m, x, op="ArgMin", **how)


@reference("ArgMax", "ArgMin")
def _argmax(node, x):
    axis, x = node.attrs["axis"], x if node.op == "ArgMax" else -x
    found = x.argmax(axis)
    if node.attrs.get("select_last_index"):
        found = x.shape[axis] - 1 - np.flip(x, axis).argmax(axis)
    return found.reshape(node.outputs[0].shape)


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


def norm(m, x, scale=None, bias=None, *, mode=None, axes=None, epsilon=1e-5, out=None, name=None):
    """exNorm over the channels of each pixel, or over images (axes 1, 2, 3); `scale` and `bias` of
    each channel. Without `mode` and `axes` the file does not say them."""
    name = m.unique(name or "norm")
    parts = [m.constant(f"{name}_{part}", np.reshape(v, (1, -1, 1, 1)), "float32")
             if v is not None else None for part, v in (("scale", scale), ("bias", bias))]
    while parts and parts[-1] is None:
        parts.pop()
    y = m.activation(name + "_out", x.shape, out, x.dtype)
    attrs = {"epsilon": float(np.float32(epsilon))}
    attrs.update({k: v for k, v in (("mode", mode), ("axes", axes)) if v is not None})
    return _node(m, "exNorm", [x, *parts], [y], name, attrs)


@reference("exNorm")
def _norm(node, x, scale=None, bias=None):
    axes = tuple(node.attrs.get("axes", [1]))
    if node.attrs.get("mode") != "rms":
        x = x - x.mean(axes, keepdims=True)
    y = x / np.sqrt((x * x).mean(axes, keepdims=True) + node.attrs["epsilon"])
    return y * (1 if scale is None else scale) + (0 if bias is None else bias)


def instance_norm(m, x, scale, bias, *, epsilon=1e-5, out=None, cpu=True, name=None):
    name = m.unique(name or "instancenorm")
    parts = [m.constant(f"{name}_{part}", v, "float32")
             for part, v in (("scale", scale), ("bias", bias))]
    y = m.activation(name + "_out", x.shape, out, x.dtype)
    attrs = {"epsilon": float(np.float32(epsilon))}
    return _node(m, "InstanceNormalization", [x, *parts], [y], name, attrs, cpu)


@reference("InstanceNormalization")
def _instance_norm(node, x, scale, bias):
    axes, each = tuple(range(2, x.ndim)), (-1,) + (1,) * (x.ndim - 2)
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True)
                                                    + node.attrs["epsilon"])
    return y * scale.reshape(each) + bias.reshape(each)


def glu(m, x, *, axis=1, out=None, cpu=False, name=None):
    """exGlu: the first half of an axis times the sigmoid of the second."""
    name = m.unique(name or "glu")
    shape = [d // 2 if i == axis else d for i, d in enumerate(x.shape)]
    y = m.activation(name + "_out", shape, out, x.dtype)
    return _node(m, "exGlu", [x], [y], name, {"axis": axis}, cpu)


@reference("exGlu")
def _glu(node, x):
    a, b = np.split(x, 2, node.attrs["axis"])
    return a / (1 + np.exp(-b))


def matmul(m, a, b, *, out=None, scale=None, addend=None, name=None):
    """exMatMul: out[n, o, 0, w] = sum over k of a[n, k, 0, o] * b[n, k, 0, w] (* scale, or
    + addend, which is what a third input is unless the file says otherwise)."""
    name = m.unique(name or "matmul")
    y = m.activation(name + "_out", (a.shape[0], a.shape[3], 1, b.shape[3]), out, a.dtype)
    attrs, inputs, third = {}, [a, b], addend if scale is None else scale
    if scale is not None:
        attrs["c_type"] = "mul"
    if third is not None:
        inputs.append(third if isinstance(third, Tensor)
                      else m.constant(name + "_third", third, "float32"))
    return _node(m, "exMatMul", inputs, [y], name, attrs)


@reference("exMatMul")
def _matmul(node, a, b, third=None):
    y = np.einsum("nkxo,nkxw->noxw", a, b)
    if third is None:
        return y
    return y * third if node.attrs.get("c_type") == "mul" else y + third


def attention(m, q, k, v, *, scale=0.25, out=None, name=None):
    """exSDPAttention: each head's values [h, e, 0, j], weighted by softmax over j of scale * q k."""
    name = m.unique(name or "attention")
    y = m.activation(name + "_out", (q.shape[0], v.shape[1], 1, q.shape[3]), out, q.dtype)
    return _node(m, "exSDPAttention", [q, k, v], [y], name, {"scale": float(scale)})


@reference("exSDPAttention")
def _attention(node, q, k, v):
    products = np.einsum("hdxi,hdxj->hij", q, k) * node.attrs["scale"]
    p = np.exp(products - products.max(2, keepdims=True))
    return np.einsum("hij,hexj->hexi", p / p.sum(2, keepdims=True), v)


def mat_mul(m, a, b, *, out=None, name=None):
    """MatMul of ONNX, on the CPU."""
    name = m.unique(name or "matmul")
    b = b if isinstance(b, Tensor) else m.constant(name + "_b", b, "float32")
    shape = np.matmul(np.zeros(a.shape), np.zeros(b.shape)).shape
    y = m.activation(name + "_out", shape, out, a.dtype)
    return _node(m, "MatMul", [a, b], [y], name, cpu=True)


@reference("MatMul")
def _mat_mul(node, a, b):
    return np.matmul(a, b)


def convert(m, x, *, out=None, dtype=None, name=None, op="exDataConvert"):
    """Between int8 (with `out`) and float16."""
    name = m.unique(name or "convert")
    y = m.activation(name + "_out", x.shape, out, dtype or ("int8" if out else "float16"))
    return _node(m, op, [x], [y], name)


@reference("DataConvert")
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
