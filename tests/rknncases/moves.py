"""Operators that move values: every axis, every chip's block, NPU and CPU."""

from rknnwriter import Model, Quant, ops
from rknnwriter.chips import CHIPS
from . import EXACT, case
from .eltwise import A, B, SHAPE, one


def _one(name, function, *args, **options):
    case("moves", name)(lambda: one(function, *args, **options))


def several(function, shapes, quants, chip="rk3588", **how):
    m = Model(chip)
    inputs = [m.input(f"x{i}", s, q) for i, (s, q) in enumerate(zip(shapes, quants))]
    m.output(function(m, inputs, **how), "y")
    return m


def _concat(name, shapes, **options):
    quants = (A, B, Quant.of_range(-1, 1))
    case("moves", name)(lambda: several(ops.concat, shapes, quants, out=Quant.of_range(-5, 3),
                                        **options))


def _splits(sizes, quants, chip="rk3588", **how):
    m = Model(chip)
    x = m.input("x", SHAPE, A)
    for i, part in enumerate(ops.split(m, x, sizes, out=quants, **how)):
        m.output(part, f"y{i}")
    return m


for _chip in CHIPS:
    _concat(f"concat_{_chip}", ((1, 20, 4, 5), (1, 3, 4, 5), (1, 16, 4, 5)), chip=_chip)
    _one(f"transpose_{_chip}", ops.transpose, (0, 2, 1, 3), chip=_chip)
    _one(f"reshape_{_chip}", ops.reshape, (1, 10, 12, 7), chip=_chip)
    _one(f"resize_{_chip}", ops.resize, (9, 11), chip=_chip)
    _one(f"pad_{_chip}", ops.pad, [0, 0, 1, 2, 0, 0, 3, 1], chip=_chip)
    _one(f"expand_{_chip}", ops.expand, SHAPE, shape=(1, 20, 1, 1), chip=_chip)
    case("moves", f"split_{_chip}")(lambda chip=_chip: _splits(
        (3, 16, 1), (B, A, Quant.of_range(-1, 1)), chip))
_concat("concat_rows", ((1, 20, 4, 5), (1, 20, 2, 5)), axis=2)
_concat("concat_columns", ((1, 20, 4, 5), (1, 20, 4, 3)), axis=3)
_concat("concat_batch", ((3, 20, 4, 5), (3, 3, 4, 5)))
_concat("concat_3d", ((1, 20, 4), (1, 20, 7)), axis=2)
_concat("concat_first", ((1, 20, 4, 5), (2, 20, 4, 5)), axis=0)
_concat("concat_cpu", ((1, 20, 4, 5), (1, 3, 4, 5)), cpu=True)


case("moves", "split")(lambda: _splits((3, 16, 1), None))
case("moves", "split_scales")(lambda: _splits((10, 10), (B, Quant.of_range(-1, 1))))
case("moves", "split_rows")(lambda: _splits((2, 4), None, axis=2))
for _perm in ((0, 3, 1, 2), (0, 2, 3, 1), (0, 1, 3, 2), (0, 3, 2, 1), (1, 2, 0, 3)):
    _one("transpose_" + "".join(map(str, _perm)), ops.transpose, _perm)
_one("transpose_reversed", ops.transpose, cpu=True)
_one("transpose_cpu", ops.transpose, (0, 2, 3, 1), cpu=True)
_one("reshape_2d", ops.reshape, (1, 840), cpu=True)
_one("reshape_3d", ops.reshape, (20, 6, 7), cpu=True)
_one("reshape_alias", ops.reshape, (1, 20, 7, 6), alias=True)
_one("slice", ops.slice_, [2, 1], [17, 6], [1, 3])
_one("slice_steps", ops.slice_, [0], [7], [3], [2])
for _step in (2, 3, 4):
    _one(f"slice_channels_{_step}", ops.slice_, [1], [40], [1], [_step], shape=(1, 40, 5, 7))
_one("pad", ops.pad, [0, 0, 1, 2, 0, 0, 3, 1])
_one("pad_value", ops.pad, [0, 0, 1, 1, 0, 0, 1, 1], -1.0)
_one("pad_channels", ops.pad, [0, 3, 0, 0, 0, 5, 0, 0])
_one("expand", ops.expand, SHAPE, shape=(1, 20, 1, 1))
_one("expand_rows", ops.expand, SHAPE, shape=(1, 20, 6, 1))
for _mode in ("DCR", "CRD"):
    _one(f"depth_to_space_{_mode}", ops.depth_to_space, 2, mode=_mode, shape=(2, 12, 4, 5))
    _one(f"depth_to_space_3_{_mode}", ops.depth_to_space, 3, mode=_mode, shape=(1, 18, 4, 5))
_one("space_to_depth", ops.space_to_depth, 2, shape=(2, 5, 4, 6))
_one("space_to_depth_3", ops.space_to_depth, 3, shape=(1, 3, 6, 9))


def _of_four_runs(function, *args, shape, **options):
    m = one(function, *args, shape=shape, **options)
    m.batch = 4
    return m


for _mode in ("DCR", "CRD"):
    case("moves", f"depth_to_space_batch_{_mode}")(lambda mode=_mode: _of_four_runs(
        ops.depth_to_space, 2, mode=mode, shape=(1, 12, 4, 5)))
case("moves", "space_to_depth_batch")(lambda: _of_four_runs(ops.space_to_depth, 2, shape=(1, 3, 6, 8)))
for _mode in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
    _one(f"resize_linear_{_mode}", ops.resize, (12, 14), coordinates=_mode)
    _one(f"resize_linear_down_{_mode}", ops.resize, (3, 4), coordinates=_mode)
# Weights are sixteenths, and many results lie between two steps: the even stored value is taken.
for _zp, _shape, _size in ((4, (1, 2, 6, 7), (24, 28)), (7, (1, 20, 6, 7), (48, 56)),
                           (-9, (2, 16, 3, 5), (6, 10)), (-128, (1, 9, 5, 4), (40, 8))):
    case("moves", f"resize_ties_{_zp}", EXACT)(lambda zp=_zp, shape=_shape, size=_size: one(
        ops.resize, size, shape=shape, quant=Quant(1, zp)))
_one("resize_nearest", ops.resize, (12, 14), mode="nearest", coordinates="asymmetric")
_one("resize_nearest_odd", ops.resize, (9, 10), mode="nearest", coordinates="asymmetric")
_one("resize_nearest_down", ops.resize, (3, 3), mode="nearest", coordinates="asymmetric")
for _chip in CHIPS:
    _one(f"nearest_{_chip}", ops.resize, (12, 14), mode="nearest", coordinates="asymmetric",
         chip=_chip)
for _mode in ("half_pixel", "pytorch_half_pixel", "align_corners"):
    _one(f"resize_nearest_{_mode}", ops.resize, (9, 10), mode="nearest", coordinates=_mode)
for _round in ("ceil", "round_prefer_floor", "round_prefer_ceil"):
    _one(f"resize_nearest_{_round}", ops.resize, (8, 14), mode="nearest", nearest=_round)
    _one(f"resize_nearest_down_{_round}", ops.resize, (3, 3), mode="nearest", nearest=_round,
         coordinates="align_corners")
for _mode in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
    _one(f"resize_cubic_{_mode}", ops.resize, (9, 15), mode="cubic", coordinates=_mode)
_one("resize_batch", ops.resize, (9, 10), shape=(3, 8, 6, 7))
_one("pad_edge", ops.pad, [0, 0, 1, 2, 0, 0, 3, 1], mode="edge")
_one("pad_reflect", ops.pad, [0, 0, 1, 2, 0, 0, 3, 1], mode="reflect", cpu=True)
_one("pad_wrap", ops.pad, [0, 25, 1, 2, 0, 0, 3, 1], mode="wrap", cpu=True)
_one("slice_backwards", ops.slice_, [-1], [-6], [3], [-1])
_one("slice_batch", ops.slice_, [1, 0], [3, 10], [0, 1], shape=(3, 20, 4, 5))
_one("expand_more_dims", ops.expand, (2, 3, 24), shape=(3, 1))
_one("transpose_batch", ops.transpose, (0, 2, 3, 1), shape=(3, 20, 4, 5))
_one("transpose_3d", ops.transpose, (0, 2, 1), shape=(1, 9, 24))
_one("transpose_5d", ops.transpose, (0, 2, 1, 4, 3), shape=(1, 2, 10, 3, 4))
_one("reshape_5d", ops.reshape, (1, 2, 10, 6, 7), cpu=True)
