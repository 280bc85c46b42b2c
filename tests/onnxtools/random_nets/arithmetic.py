"""Nodes that compute with single elements, along axes, or products of matrices."""
import numpy as np
from onnx import TensorProto

NAMED = {"LeakyRelu": {"alpha": (.01, .1, .3, -.2, 1.5)}, "Elu": {"alpha": (.5, 1.0, 2.0)},
         "HardSigmoid": {"alpha": (.2, .1667), "beta": (.5, .4)}, "Celu": {"alpha": (.5, 2.0)},
         "Selu": {"gamma": (1.2, 1.05)}, "ThresholdedRelu": {"alpha": (.1, .7)}}
SMOOTH = ("Relu", "Relu", "Sigmoid", "Sigmoid", "Tanh", "Erf", "Abs", "Neg", "Softplus", "Softsign", "HardSwish", "Sin", "Cos", "Atan",
          "Identity", "Asinh", "LeakyRelu", "Elu", "HardSigmoid", "Celu", "Selu")
FRAGILE = ("Floor", "Ceil", "Round", "Sign", "ThresholdedRelu")
POSITIVE, BOUNDED = ("Sqrt", "Log", "Reciprocal"), ("Exp", "Sinh", "Cosh")


def scalar(net, value):
    return net.constant(np.float32(value))


def broadcast(net, shape):
    """A shape that broadcasts to this one."""
    dims = [1 if net.chance.random() < .4 else d for d in shape]
    while dims and net.chance.random() < .3:
        dims.pop(0)
    return dims


def has_axes(shape):
    return len(shape) > 0


def function(net):
    if not (x := net.pick()):
        return None
    op = net.chance.choice((*SMOOTH, *FRAGILE, *POSITIVE, *BOUNDED))
    if op in POSITIVE:
        x = net.add("Add", [net.add("Abs", [x]), scalar(net, .5)])
    elif op in BOUNDED:
        x = net.add("Clip", [x, scalar(net, -3), scalar(net, 3)])
    attributes = {name: net.chance.choice(values) for name, values in NAMED.get(op, {}).items()}
    return net.add(op, [x], fragile=op in FRAGILE, **attributes)


def gated(net):
    """SiLU, Mish and GELU as exporters write them."""
    if not (x := net.pick()):
        return None
    kind = net.chance.randrange(3)
    if kind == 0:
        gate = net.add("Sigmoid", [x])
        return net.add("Mul", [x, gate] if net.chance.random() < .5 else [gate, x])
    if kind == 1:
        return net.add("Mul", [x, net.add("Tanh", [net.add("Softplus", [x])])])
    half = net.add("Erf", [net.add("Div", [x, scalar(net, 2 ** .5)])])
    return net.add("Mul", [net.add("Mul", [x, net.add("Add", [half, scalar(net, 1)])]), scalar(net, .5)])


def clip(net):
    if not (x := net.pick()):
        return None
    low = net.chance.choice((None, -1, 0, -.3))
    high = net.chance.choice((None, 1, 6, .4))
    bounds = ["" if bound is None else scalar(net, bound) for bound in (low, high)]
    return net.add("Clip", [x, *bounds])


def of_two(net):
    if not (x := net.pick()):
        return None
    shape = net.shapes[x]
    op = net.chance.choice(("Add", "Sub", "Mul", "Min", "Max", "Add", "Mul", "Sum", "Mean"))
    if net.chance.random() < .4 and (made := net.add(op, [x, net.pick()])):
        return made
    operands = [x, net.floats(*broadcast(net, shape))]
    net.chance.shuffle(operands)
    return net.add(op, operands)


def quotient(net):
    if not (x := net.pick()):
        return None
    op = net.chance.choice(("Div", "Pow", "Mod"))
    y = net.floats(*broadcast(net, net.shapes[x]), low=.3)
    if op == "Pow":
        x = net.add("Abs", [x])
    return net.add(op, [x, y], fragile=op == "Mod", **({"fmod": 1} if op == "Mod" else {}))


def parametric_relu(net):
    x = net.pick((3, 4))
    return x and net.add("PRelu", [x, net.floats(net.shapes[x][1], *[1] * (len(net.shapes[x]) - 2))])


def where(net):
    if not (x := net.pick()):
        return None
    condition = net.constant(net.rng.random(broadcast(net, net.shapes[x])) < .5)
    operands = [x, net.floats(*broadcast(net, net.shapes[x]))]
    net.chance.shuffle(operands)
    return net.add("Where", [condition, *operands])


def comparison(net):
    if not (x := net.pick()):
        return None
    op = net.chance.choice(("Greater", "Less") if net.opset < 12 else ("Greater", "Less", "GreaterOrEqual", "LessOrEqual"))
    truth = net.add(op, [x, net.floats(*broadcast(net, net.shapes[x]))])
    return truth and net.add("Cast", [truth], fragile=True, to=1)


def conversion(net):
    """To whole numbers or truth values, and mostly back."""
    if not (x := net.pick()):
        return None
    kind = net.chance.choice((TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8))
    low = 0 if kind == TensorProto.UINT8 else -120
    x = net.add("Clip", [net.add("Mul", [x, scalar(net, 30)]), scalar(net, low), scalar(net, 120)])
    y = net.add("Cast", [x], fragile=True, to=kind)
    if kind == TensorProto.BOOL and net.chance.random() < .5:
        y = net.add("Not", [y], fragile=True)
    if kind != TensorProto.BOOL and net.chance.random() < .4:
        y = net.add("Cast", [y], fragile=True, to=net.chance.choice((TensorProto.INT32, TensorProto.INT64)))
    return net.add("Cast", [y], fragile=True, to=TensorProto.FLOAT) if net.chance.random() < .8 else y


def one_hot(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    rank = len(net.shapes[x])
    index = net.add("ArgMax", [x], fragile=True, axis=net.chance.randrange(rank), keepdims=0)
    depth = net.integers(net.chance.choice((2, 5, 16)))
    return index and net.add("OneHot", [index, depth, net.floats(2)], fragile=True, axis=net.chance.randrange(-rank, rank))


def norm(net):
    if not (x := net.pick((3, 4))):
        return None
    shape = net.shapes[x]
    kind, channels = net.chance.randrange(4 if net.opset >= 18 else 3), shape[1]
    if kind == 0:
        return net.add("BatchNormalization", [x, *(net.floats(channels) for _ in range(3)), net.floats(channels, low=.2)], epsilon=1e-3)
    if kind == 1 or net.opset < 17:
        return net.add("InstanceNormalization", [x, net.floats(channels), net.floats(channels)], epsilon=1e-2)
    if kind == 3:
        groups = net.chance.choice([n for n in range(1, channels + 1) if channels % n == 0])
        each = channels if net.opset >= 21 else groups
        return net.add("GroupNormalization", [x, net.floats(each), net.floats(each)], epsilon=1e-2, num_groups=groups)
    axis = net.chance.randrange(1, len(shape))
    return net.add("LayerNormalization", [x, net.floats(*shape[axis:]), net.floats(*shape[axis:])], epsilon=1e-2,
                   axis=net.chance.choice((axis, axis - len(shape))))


def softmax(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    rank = len(net.shapes[x])
    return net.add(net.chance.choice(("Softmax", "LogSoftmax")), [x], axis=net.chance.randrange(-rank, rank))


def reduction(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    rank = len(net.shapes[x])
    axes = net.chance.sample(range(-rank, 0), net.chance.randint(1, rank))
    axes = [a + rank if net.chance.random() < .5 else a for a in axes]
    op = net.chance.choice(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"))
    keep = net.chance.randrange(2)
    if op == "ReduceSum" and net.opset >= 13:
        return net.add(op, [x, net.integers(axes)], keepdims=keep)
    return net.add(op, [x], axes=axes, keepdims=keep)


def index_of_extreme(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    rank = len(net.shapes[x])
    return net.add(net.chance.choice(("ArgMax", "ArgMin")), [x], axis=net.chance.randrange(-rank, rank), keepdims=net.chance.randrange(2))


def running_sum(net):
    if not (x := net.pick(fits=has_axes)):
        return None
    rank = len(net.shapes[x])
    return net.add("CumSum", [x, net.integers(net.chance.randrange(-rank, rank))], exclusive=net.chance.randrange(2),
                   reverse=net.chance.randrange(2))


def product(net):
    if not (x := net.pick(fits=lambda shape: len(shape) >= 2)):
        return None
    shape, width = net.shapes[x], net.chance.choice((1, 2, 5, 8, 16))
    if len(shape) == 2 and net.chance.random() < .5:
        turned = net.chance.randrange(2)
        weight = net.floats(*((width, shape[1]) if turned else (shape[1], width)))
        bias = net.floats(*net.chance.choice(((width,), (1, width), (1,), (shape[0], 1), (shape[0], width))))
        return net.add("Gemm", [x, weight, bias], transB=turned, alpha=net.chance.choice((1.0, .5)), beta=net.chance.choice((1.0, 2.0)))
    kind, batch = net.chance.randrange(4), broadcast(net, shape[:-2])
    if kind == 0:
        other = net.add("Transpose", [x], perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
        return net.add("MatMul", [x, other] if net.chance.random() < .5 else [other, x])
    if kind == 1:
        return net.add("MatMul", [net.floats(*batch, width, shape[-2]), x])
    return net.add("MatMul", [x, net.floats(*batch, shape[-1], width) if kind == 2 else net.floats(shape[-1])])


def recurrent(net):
    if not (x := net.pick((3,))):
        return None
    op, gates = net.chance.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    direction = net.chance.choice(("forward", "reverse", "bidirectional"))
    n, hidden, width = 1 + (direction == "bidirectional"), net.chance.choice((3, 8)), net.shapes[x][2]
    weights = [net.floats(n, gates * hidden, width), net.floats(n, gates * hidden, hidden), net.floats(n, 2 * gates * hidden)]
    more = {"linear_before_reset": net.chance.randrange(2)} if op == "GRU" else {}
    return net.add(op, [x, *weights], 3 if op == "LSTM" else 2, hidden_size=hidden, direction=direction, **more)


ALL = (function, function, function, gated, clip, of_two, of_two, quotient, parametric_relu, where, comparison, conversion, one_hot, norm, softmax, reduction,
       index_of_extreme, running_sum, product, recurrent)
