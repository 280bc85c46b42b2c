"""Element-wise operators, with broadcasting; activations on their own."""

import numpy as np

from .. import regs
from ..model import Quant, Tensor
from ..reference import load, reference, reference_stored, store
from .activation import SUFFIXES, activate, erf

__all__ = ["add", "sub", "mul", "div", "pow", "mod", "maximum", "minimum", "compare", "where",
           "logic", "activation", "gelu", "relu", "sigmoid", "tanh", "leaky_relu", "clip", "prelu",
           "hard_sigmoid", "unary", "batch_norm", "batch_norm_int8"]


def _task(m, node, cpu):
    if cpu:
        node.device = "cpu"
        return
    inputs = [t for t in node.inputs if t and not t.is_const]
    roles = {"input": inputs[0], "output": node.outputs[0],
             "addend": inputs[1] if len(inputs) > 1 else None}
    node.tasks = [regs.simple_task(m.chip, roles)]


def _operand(m, name, b, other):
    """Arrays become constants, as the toolkit leaves them (kind 5): floats beside floats."""
    if isinstance(b, Tensor):
        return b
    whole = isinstance(other, Tensor) and other.dtype in ("int32", "int64")
    return m.constant(name, np.asarray(b), other.dtype if whole else "float32")


def _binary(m, op, a, b, out, act, cpu, name):
    name = m.unique(name or op.lower())
    a, b = _operand(m, name + "_a", a, b), _operand(m, name + "_b", b, a)
    shape = np.broadcast_shapes(a.shape, b.shape)
    dtype = next(t.dtype for t in (a, b) if not t.is_const)
    y = m.activation(name + "_out", shape, out, dtype)
    node = m.add(op + SUFFIXES[act], [a, b], [y], name=f"{op}:{name}", fused=act is not None)
    _task(m, node, cpu)
    return y


def add(m, a, b, *, out=None, act=None, cpu=False, name=None):
    return _binary(m, "Add", a, b, out, act, cpu, name)


def sub(m, a, b, *, out=None, act=None, cpu=False, name=None):
    return _binary(m, "Sub", a, b, out, act, cpu, name)


def mul(m, a, b, *, out=None, act=None, cpu=False, name=None):
    return _binary(m, "Mul", a, b, out, act, cpu, name)


def div(m, a, b, *, out=None, cpu=True, name=None):
    return _binary(m, "Div", a, b, out, None, cpu, name)


def pow(m, a, b, *, out=None, cpu=False, name=None):
    return _binary(m, "Pow", a, b, out, None, cpu, name)


def mod(m, a, b, *, name=None):
    return _binary(m, "Mod", a, b, None, None, True, name)


def maximum(m, a, b, *, out=None, cpu=False, name=None):
    return _binary(m, "Max", a, b, out, None, cpu, name)


def minimum(m, a, b, *, out=None, cpu=False, name=None):
    return _binary(m, "Min", a, b, out, None, cpu, name)


_ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum,
               "Min": np.minimum, "Pow": np.power, "Mod": np.mod}
_FUSED = (None, "relu", "sigmoid", "swish", "hard_swish", "tanh", "gelu")


def _register(op, act):
    @reference(op + SUFFIXES[act])
    def _arithmetic(node, a, b):
        return activate(act, _ARITHMETIC[op](a, b))


for _op in _ARITHMETIC:
    for _act in _FUSED if _op in ("Add", "Sub", "Mul") else (None,):
        _register(_op, _act)


@reference("Div")
def _div(node, a, b):
    return np.trunc(a / b) if node.outputs[0].dtype.startswith("int6") else a / b


_COMPARE = {"Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal,
            "Greater": np.greater, "GreaterOrEqual": np.greater_equal}


def compare(m, op, a, b, *, out=None, name=None):
    """`op` is ONNX's name; the result is bool, or with `out`, its Quant, int8."""
    name = m.unique(name or op.lower())
    b = _operand(m, name + "_b", b, a)
    y = m.activation(name + "_out", np.broadcast_shapes(a.shape, b.shape), out,
                     None if out else "bool")
    _task(m, m.add(op, [a, b], [y], name=f"{op}:{name}"), True)
    return y


@reference(*_COMPARE)
def _compare(node, a, b):
    return _COMPARE[node.op](a, b)


_LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}


def logic(m, op, a, b=None, *, name=None):
    """And, Or, Xor of two truth values, Not of one."""
    name = m.unique(name or op.lower())
    inputs = [a] if b is None else [a, b]
    y = m.activation(name + "_out", np.broadcast_shapes(*(t.shape for t in inputs)), None, "bool")
    _task(m, m.add(op, inputs, [y], name=f"{op}:{name}"), True)
    return y


@reference(*_LOGIC)
def _logic(node, a, b):
    return _LOGIC[node.op](a != 0, b != 0)


@reference("Not")
def _not(node, a):
    return a == 0


def where(m, condition, a, b, *, out=None, name=None):
    name = m.unique(name or "where")
    b = _operand(m, name + "_b", b, a)
    shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
    y = m.activation(name + "_out", shape, out, a.dtype)
    _task(m, m.add("Where", [condition, a, b], [y], name="Where:" + name), True)
    return y


@reference("Where")
def _where(node, condition, a, b):
    return np.where(condition != 0, a, b)


def _unary(m, op, x, out, cpu, name, attrs=None, constants=()):
    name = m.unique(name or op.lower())
    y = m.activation(name + "_out", x.shape, out or (x.quant if op == "Relu" else None), x.dtype)
    extra = [None if value is None else m.constant(f"{name}_{i}", value, "float32")
             for i, value in enumerate(constants)]
    node = m.add(op, [x, *extra], [y], name=f"{op}:{name}", attrs=attrs or {})
    _task(m, node, cpu)
    return y


def activation(m, x, act, *, out=None, cpu=False, name=None):
    """One without numbers of its own, by the names of `SUFFIXES`."""
    return _unary(m, SUFFIXES[act], x, out, cpu, name)


def unary(m, op, x, *, out=None, cpu=True, name=None):
    """`op` is ONNX's name."""
    return _unary(m, op, x, out, cpu, name)


def hard_sigmoid(m, x, alpha, beta, *, out=None, cpu=False, name=None):
    attrs = {"alpha": float(np.float32(alpha)), "beta": float(np.float32(beta))}
    return _unary(m, "HardSigmoid", x, out, cpu, name, attrs)


def gelu(m, x, *, approximate="none", out=None, cpu=False, name=None):
    return _unary(m, "exGelu", x, out, cpu, name, {"approximate": approximate})


def relu(m, x, **how):
    return activation(m, x, "relu", **how)


def sigmoid(m, x, **how):
    return activation(m, x, "sigmoid", **how)


def tanh(m, x, **how):
    return activation(m, x, "tanh", **how)


def leaky_relu(m, x, alpha, *, out=None, cpu=False, name=None):
    return _unary(m, "LeakyRelu", x, out, cpu, name, {"alpha": float(np.float32(alpha))})


def clip(m, x, low, high, *, out=None, cpu=False, name=None):
    """None: no bound."""
    return _unary(m, "Clip", x, out, cpu, name, constants=(low, high))


def prelu(m, x, slopes, *, out=None, cpu=False, name=None):
    """One slope per channel."""
    slopes = np.asarray(slopes, "<f4").reshape(-1, 1, 1)
    return _unary(m, "PRelu", x, out, cpu, name, constants=(slopes,))


def _register_alone(act):
    @reference(SUFFIXES[act])
    def _alone(node, x):
        return activate(act, x)


for _act in ("relu", "sigmoid", "tanh", "swish", "hard_swish", "gelu", "mish", "elu", "softplus",
             "swoosh_l", "swoosh_r"):
    _register_alone(_act)


_UNARY = {"Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Abs": np.abs, "Neg": np.negative,
          "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Sign": np.sign, "Sin": np.sin,
          "Cos": np.cos, "Reciprocal": np.reciprocal, "Erf": erf, "Identity": np.positive, "PassThrough": np.positive}


@reference(*_UNARY)
def _alone(node, x):
    return _UNARY[node.op](x)


@reference("HardSigmoid")
def _hard_sigmoid(node, x):
    return np.clip(x * node.attrs["alpha"] + node.attrs["beta"], 0, 1)


@reference("exGelu")
def _gelu(node, x):
    return activate("gelu_tanh" if node.attrs["approximate"] == "tanh" else "gelu", x)


@reference("LeakyRelu")
def _leaky_relu(node, x):
    return activate("leaky_relu", x, node.attrs["alpha"])


@reference("Clip")
def _clip(node, x, low, high):
    bounds = (-np.inf if low is None else low, np.inf if high is None else high)
    return np.clip(x, *bounds)


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


def batch_norm_int8(m, x, gamma, beta, *, out, act=None, name=None):
    """Of int8, on the NPU: scale and bias count quantized units, the bias holds the input's zero
    point."""
    name = m.unique(name or "batchnorm")
    gamma = np.asarray(gamma)
    step = Quant(np.abs(gamma).max() / 32767)
    scale = np.rint(gamma / step.scale).astype(int)
    bias = np.rint(np.asarray(beta) / (x.quant.scale * step.scale)) - x.quant.zero_point * scale
    channels = len(gamma)
    constants = [m.constant(name + "_scale", scale, "int16", step),
                 m.constant(name + "_bias", bias, "int32"),
                 m.constant(name + "_mean", np.zeros(channels), "int32"),
                 m.constant(name + "_var", np.ones(channels), "int16")]
    y = m.activation(name + "_out", x.shape, out, x.dtype)
    node = m.add("BatchNormalization" + ("Relu" if act == "relu" else ""), [x, *constants], [y],
                 name="BatchNormalization:" + name, attrs={}, params=step)
    node.tasks = [regs.conv_task(m.chip, regs.scaling(
        m.chip, x.quant.scale * step.scale / out.scale, out.zero_point), {"output": y})]
    return y


@reference_stored("BatchNormalization", "BatchNormalizationRelu")
def _batch_norm(node, x, *parts):
    y, q = node.outputs[0], node.params
    if q is None:
        return store(y, _batch_norm_real(node, load(node.inputs[0], x), *parts))
    scale, bias = (p.astype(np.float64).reshape(-1, 1, 1) for p in parts[:2])
    real = (x * scale + bias) * node.inputs[0].quant.scale * q.scale
    return store(y, np.maximum(real, 0) if node.op.endswith("Relu") else real)


def _batch_norm_real(node, x, *parts):
    gamma, beta, mean, variance = (p.reshape(-1, *[1] * (x.ndim - 2)) for p in parts)
    y = (x - mean) / np.sqrt(variance + node.attrs["epsilon"]) * gamma + beta
    return np.maximum(y, 0) if node.op.endswith("Relu") else y
