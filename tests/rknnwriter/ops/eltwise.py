"""Element-wise operators, with broadcasting; activations on their own."""

import numpy as np

from .. import regs
from ..model import Tensor
from ..reference import reference
from .activation import activate

__all__ = ["add", "sub", "mul", "div", "pow", "relu", "sigmoid", "tanh", "leaky_relu", "clip",
           "prelu", "batch_norm"]


def _task(m, node, cpu):
    if cpu:
        node.device = "cpu"
        return
    inputs = [t for t in node.inputs if not t.is_const]
    roles = {"input": inputs[0], "output": node.outputs[0],
             "addend": inputs[1] if len(inputs) > 1 else None}
    node.tasks = [regs.simple_task(m.chip, roles)]


def _operand(m, name, b):
    """Arrays become float constants, as the toolkit leaves them (kind 5)."""
    return b if isinstance(b, Tensor) else m.constant(name, np.asarray(b, "<f4"), "float32")


def _binary(m, op, a, b, out, act, cpu, name):
    name = m.unique(name or op.lower())
    a, b = _operand(m, name + "_a", a), _operand(m, name + "_b", b)
    shape = np.broadcast_shapes(a.shape, b.shape)
    dtype = next(t.dtype for t in (a, b) if not t.is_const)
    y = m.activation(name + "_out", shape, out, dtype)
    node = m.add(op + ("Relu" if act == "relu" else ""), [a, b], [y], name=f"{op}:{name}",
                 fused=act is not None)
    _task(m, node, cpu)
    return y


def add(m, a, b, *, out=None, act=None, cpu=False, name=None):
    return _binary(m, "Add", a, b, out, act, cpu, name)


def sub(m, a, b, *, out=None, cpu=False, name=None):
    return _binary(m, "Sub", a, b, out, None, cpu, name)


def mul(m, a, b, *, out=None, cpu=False, name=None):
    return _binary(m, "Mul", a, b, out, None, cpu, name)


def div(m, a, b, *, out=None, cpu=True, name=None):
    return _binary(m, "Div", a, b, out, None, cpu, name)


def pow(m, a, b, *, out=None, cpu=False, name=None):
    return _binary(m, "Pow", a, b, out, None, cpu, name)


@reference("Add")
def _add(node, a, b):
    return a + b


@reference("AddRelu")
def _add_relu(node, a, b):
    return np.maximum(a + b, 0)


@reference("Sub")
def _sub(node, a, b):
    return a - b


@reference("Mul")
def _mul(node, a, b):
    return a * b


@reference("Div")
def _div(node, a, b):
    return a / b


@reference("Pow")
def _pow(node, a, b):
    return a**b


def _unary(m, op, x, out, cpu, name, attrs=None, constants=()):
    name = m.unique(name or op.lower())
    y = m.activation(name + "_out", x.shape, out or (x.quant if op == "Relu" else None), x.dtype)
    extra = [m.constant(f"{name}_{i}", value, "float32") for i, value in enumerate(constants)]
    node = m.add(op, [x, *extra], [y], name=f"{op}:{name}", attrs=attrs or {})
    _task(m, node, cpu)
    return y


def relu(m, x, *, out=None, cpu=False, name=None):
    return _unary(m, "Relu", x, out, cpu, name)


def sigmoid(m, x, *, out=None, cpu=False, name=None):
    return _unary(m, "Sigmoid", x, out, cpu, name)


def tanh(m, x, *, out=None, cpu=False, name=None):
    return _unary(m, "Tanh", x, out, cpu, name)


def leaky_relu(m, x, alpha, *, out=None, cpu=False, name=None):
    return _unary(m, "LeakyRelu", x, out, cpu, name, {"alpha": float(np.float32(alpha))})


def clip(m, x, low, high, *, out=None, cpu=False, name=None):
    return _unary(m, "Clip", x, out, cpu, name, constants=(low, high))


def prelu(m, x, slopes, *, out=None, cpu=False, name=None):
    """One slope per channel."""
    slopes = np.asarray(slopes, "<f4").reshape(-1, 1, 1)
    return _unary(m, "PRelu", x, out, cpu, name, constants=(slopes,))


@reference("Relu")
def _relu(node, x):
    return activate("relu", x)


@reference("Sigmoid")
def _sigmoid(node, x):
    return activate("sigmoid", x)


@reference("Tanh")
def _tanh(node, x):
    return np.tanh(x)


@reference("LeakyRelu")
def _leaky_relu(node, x):
    return activate("leaky_relu", x, node.attrs["alpha"])


@reference("Clip")
def _clip(node, x, low, high):
    return np.clip(x, low, high)


@reference("PRelu")
def _prelu(node, x, slopes):
    return np.where(x < 0, x * slopes, x)


def batch_norm(m, x, gamma, beta, mean, variance, *, epsilon=1e-5, out=None, act=None, cpu=False,
               name=None):
    name = m.unique(name or "batchnorm")
    parts = zip(("gamma", "beta", "mean", "var"), (gamma, beta, mean, variance))
    constants = [m.constant(f"{name}_{part}", value, "float32") for part, value in parts]
    y = m.activation(name + "_out", x.shape, out, x.dtype)
    node = m.add("BatchNormalization" + ("Relu" if act == "relu" else ""), [x, *constants], [y],
                 name="BatchNormalization:" + name,
                 attrs={"epsilon": float(np.float32(epsilon)), "training_mode": 0})
    _task(m, node, cpu)
    return y


@reference("BatchNormalization", "BatchNormalizationRelu")
def _batch_norm(node, x, *parts):
    gamma, beta, mean, variance = (p[:, None, None] for p in parts)
    y = (x - mean) / np.sqrt(variance + node.attrs["epsilon"]) * gamma + beta
    return np.maximum(y, 0) if node.op.endswith("Relu") else y
