"""What a board's CPU computes: operators of ONNX that the NPU does not have."""

import numpy as np

from rknnwriter import Model, ops
from . import HALF, case
from .spoil import refuse

_RNG = np.random.default_rng(11)
_SHAPE = (1, 6, 5, 7)


def _node(op, *constants, shape=_SHAPE, out=None, **attrs):
    m = Model("rk3588")
    x = m.input("x", shape, None, "float16")
    m.output(ops.on_cpu(m, op, [x, *constants], out or shape, **attrs), "y")
    return m


def _case(name, op, *constants, **how):
    case("cpu", name, HALF)(lambda: _node(op, *constants, **how))


for _op in ("Tan", "Sinh", "Cosh", "Atan", "Asinh", "Celu", "Selu", "Softsign", "ThresholdedRelu", "Shrink"):
    _case(_op.lower(), _op)
_case("celu_alpha", "Celu", alpha=0.5)
_case("shrink_bias", "Shrink", lambd=0.25, bias=0.125)
_case("thresholded_half", "ThresholdedRelu", alpha=0.5)
_case("dropout", "Dropout", ratio=0.25)
for _mode in ("nearest", "linear"):
    _case(f"upsample_{_mode}", "Upsample", np.array([1.0, 1.0, 2.0, 3.0]), out=(1, 6, 10, 21), mode=_mode)
_case("lrn", "LRN", size=5, alpha=0.5)
_case("lrn_even", "LRN", size=2, alpha=0.5, beta=0.5, bias=2.0)
for _axis in (1, -1):
    _case(f"cum_sum_{_axis % 4}", "CumSum", [_axis])
_case("cum_sum_reverse", "CumSum", [2], reverse=1)
_case("cum_sum_exclusive", "CumSum", [2], exclusive=1)
_case("cum_sum_both", "CumSum", [3], exclusive=1, reverse=1)
_case("trilu", "Trilu", [1])
_case("trilu_lower", "Trilu", [-2], upper=0)
_case("gather_nd", "GatherND", np.array([[0, 3], [0, 5], [0, 0]]), out=(3, 5, 7))
_case("gather_nd_deep", "GatherND", np.array([[0, 3, 4, 6], [0, 5, 0, 1]]), out=(2,))
_case("scatter_nd", "ScatterND", np.array([[0, 3], [0, 5]]), _RNG.normal(size=(2, 5, 7)))
_case("scatter_nd_add", "ScatterND", np.array([[0, 3, 1], [0, 3, 1]]), _RNG.normal(size=(2, 7)), reduction="add")
_case("scatter_elements", "ScatterElements", _RNG.permutation(5).reshape(1, 1, 5, 1).repeat(2, 1)[:, :, :3],
      _RNG.normal(size=(1, 2, 3, 1)), axis=2)
_case("log_sum_exp", "ReduceLogSumExp", axes=[1], keepdims=1, out=(1, 1, 5, 7))


@case("cpu", "one_hot", HALF)
def _one_hot():
    m = Model("rk3588")
    x = ops.cast(m, m.input("x", (1, 12), None, "float16"), "int64")
    m.output(ops.on_cpu(m, "OneHot", [x, [4], np.array([-0.5, 1.5])], (1, 12, 4), axis=-1), "y")
    return m


def _weights(gates, directions, hidden=6, inputs=5):
    return [_RNG.normal(size=size) / 2 for size in
            ((directions, gates * hidden, inputs), (directions, gates * hidden, hidden), (directions, 2 * gates * hidden))]


for _op, _gates in (("GRU", 3), ("LSTM", 4)):
    for _direction, _count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        _case(f"{_op.lower()}_{_direction}", _op, *_weights(_gates, _count), shape=(8, 2, 5), out=(8, _count, 2, 6),
              direction=_direction, hidden_size=6)
_case("gru_before_reset", "GRU", *_weights(3, 1), shape=(8, 2, 5), out=(8, 1, 2, 6), hidden_size=6, linear_before_reset=1)


def _refuse(name, words, op, *constants, **how):
    refuse(f"cpu_{name}", words, lambda: _node(op, *constants, **how))


_refuse("cum_sum_axis", "it has no valid axis", "CumSum", [4])
_refuse("cum_sum_axes", "holds 2 numbers, one is expected", "CumSum", [1, 2])
_refuse("scatter_max", 'reduction "max" is not supported', "ScatterND", np.array([[0, 3]]), np.zeros((1, 5, 7)), reduction="max")
_refuse("gather_nd_batch", "batch_dims -1 is out of range", "GatherND", np.array([[0]]), out=(1, 6, 5, 7), batch_dims=-1)
_refuse("gather_nd_shape", "do not fit", "GatherND", np.array([[0, 3]]), out=(2, 5, 7))
_refuse("lrn_size", "size 0 is out of range", "LRN")
_refuse("trilu_far", "is out of range", "Trilu", [1 << 40])
_refuse("one_hot_shape", "it has no valid axis", "OneHot", [4], np.zeros(2))
_refuse("gru_hidden", "its hidden_size is not that of its weights", "GRU", *_weights(3, 1), shape=(8, 2, 5), out=(8, 1, 2, 6),
        hidden_size=7)
_refuse("gru_functions", "functions of its own (activations)", "GRU", *_weights(3, 1), shape=(8, 2, 5), out=(8, 1, 2, 6),
        hidden_size=6, activations=["Relu", "Tanh"])
_refuse("gru_flat", "is not of real numbers in three dimensions", "GRU", *_weights(3, 1), shape=(8, 10), out=(8, 1, 2, 6))
