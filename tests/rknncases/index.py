"""Values picked by number or place, whole numbers, comparisons: the ends of detectors."""

import numpy as np

from rknnwriter import Model, Quant, ops
from rknnwriter.slots import Scalar, Table
from . import EXACT, HALF, case
from .eltwise import A, SHAPE, one

_RNG = np.random.default_rng(5)


def _one(name, function, *args, error=EXACT, **options):
    case("index", name, error)(lambda: one(function, *args, **options))


_one("gather", ops.gather, [3, 0, 19, 3])
_one("gather_rows", ops.gather, [[5, 0], [1, 1]], axis=2)
_one("gather_last", ops.gather, [0], axis=3)
_one("gather_negative", ops.gather, [-1, -20], axis=1)
_one("gather_flat", ops.gather, [7, 2, 2], axis=1, shape=(3, 9))
_one("gather_elements", ops.gather_elements, _RNG.integers(0, 6, (1, 20, 9, 7)), axis=2)
_one("gather_elements_3d", ops.gather_elements, _RNG.integers(0, 30, (2, 5, 4)), axis=1,
     shape=(2, 30, 4))


@case("index", "gather_of_a_typed_table", EXACT)
def _typed():
    m = one(ops.gather, [[5, 0], [1, 1]], axis=2)
    m.nodes[-1].slots.update({7: Scalar("B", 50), 8: Table({0: Scalar("i", 2)}), 9: None})
    return m


def _top_k(quant, k, shape, **how):
    m = Model("rk3588")
    for i, y in enumerate(ops.top_k(m, m.input("x", shape, quant), k, **how)):
        m.output(y, f"y{i}")
    return m


case("index", "top_k", EXACT)(lambda: _top_k(A, 5, (1, 300)))
case("index", "top_k_smallest", EXACT)(lambda: _top_k(A, 3, (2, 5, 9), axis=1, largest=False))
case("index", "top_k_channels", EXACT)(lambda: _top_k(A, 4, SHAPE, axis=1))
case("index", "top_k_all", EXACT)(lambda: _top_k(A, 700, (1, 700)))
case("index", "top_k_smallest_of_many", EXACT)(lambda: _top_k(A, 65, (3, 2000), largest=False))
case("index", "top_k_half", HALF)(lambda: _top_k(None, 7, (1, 50)))
case("index", "top_k_lines", EXACT)(lambda: _top_k(A, 16, (50, 300)))
case("index", "top_k_lines_smallest", EXACT)(lambda: _top_k(A, 6, (3, 40, 33), axis=1, largest=False))
case("index", "top_k_lines_half", HALF)(lambda: _top_k(None, 1, (35, 21)))


def _grid(quant, batch=1, **how):
    m = Model("rk3588")
    x = m.input("x", (batch, 20, 6, 7), quant)
    grid = m.input("grid", (batch, 4, 5, 2), None, "float16")
    m.output(ops.grid_sample(m, x, grid, **how), "y")
    return m


for _mode in ("bilinear", "nearest"):
    for _padding in ("zeros", "border", "reflection"):
        for _align in (False, True):
            case("index", f"grid_{_mode}_{_padding}_{int(_align)}", HALF)(
                lambda how={"mode": _mode, "padding": _padding, "align": _align}: _grid(None, **how))
case("index", "grid_int8", "1")(lambda: _grid(A))
case("index", "grid_batch", HALF)(lambda: _grid(None, 3))


@case("index", "best_boxes", EXACT)
def _best_boxes():
    """Classes and boxes of the best scores, as YOLOv10's end has them."""
    m = Model("rk3588")
    scores = m.input("scores", (1, 60, 8), Quant(1 / 256, -128))
    boxes = m.input("boxes", (1, 60, 4), A)
    best = ops.reduce(m, "ReduceMax", scores, (2,), keep=False, out=scores.quant)
    _, rows = ops.top_k(m, best, 20, axis=1)
    column = ops.reshape(m, rows, (1, 20, 1), cpu=True)
    picked = ops.gather_elements(m, scores, ops.tile(m, column, [1, 1, 8]))
    flat = ops.reshape(m, picked, (1, 160), cpu=True)
    top, index = ops.top_k(m, flat, 20, axis=1)
    m.output(ops.cast(m, ops.mod(m, index, [8]), "float32"), "classes")
    row = ops.reshape(m, ops.div(m, index, [8]), (1, 20, 1), cpu=True)
    near = ops.gather_elements(m, boxes, ops.tile(m, column, [1, 1, 4]))
    m.output(ops.gather_elements(m, near, ops.tile(m, row, [1, 1, 4])), "boxes_out")
    m.output(top, "scores_out")
    return m


def _numbers(name, function, error=EXACT):
    """On whole numbers -3 to 4 and more."""
    def build():
        m = Model("rk3568")
        x = m.input("x", (1, 40), Quant(0.25, 7))
        m.output(function(m, ops.cast(m, x, "int64")), "y")
        return m

    case("index", name, error)(build)


_numbers("cast", lambda m, x: x)
_numbers("cast_back", lambda m, x: ops.cast(m, x, "int8", out=Quant(0.25, 7)))
_numbers("cast_bool", lambda m, x: ops.cast(m, ops.cast(m, x, "bool"), "float32"))
_numbers("int_div", lambda m, x: ops.div(m, ops.mul(m, x, [1 << 40]), [3]))
_numbers("int_mod", lambda m, x: ops.mod(m, x, [5]))
_numbers("int_add", lambda m, x: ops.add(m, x, [1 << 40]))
_numbers("int_sub", lambda m, x: ops.sub(m, [1 << 40], x))
_numbers("int_max", lambda m, x: ops.maximum(m, x, [2]))
for _op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
    _numbers(f"int8_{_op.lower()}", lambda m, x, op=_op: ops.compare(m, op, x, [2], out=Quant(1.0)))
    _numbers(f"int_{_op.lower()}", lambda m, x, op=_op: ops.cast(m, ops.compare(m, op, x, [2]),
                                                                  "float32"))


def _mask(quant, error):
    def build():
        m = Model("rk3588")
        x = m.input("x", SHAPE, quant)
        m.output(ops.where(m, ops.compare(m, "Greater", x, [0.5]), x, [-1.0], out=quant), "y")
        return m

    case("index", f"where_{'int8' if quant else 'half'}", error)(build)


_mask(A, EXACT)
_mask(None, HALF)
_one("tile", ops.tile, [1, 2, 1, 3])
