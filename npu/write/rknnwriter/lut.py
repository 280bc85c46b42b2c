"""Activations of int8 convolutions by lookup table: two tables of 513 int16 entries over
[-16384, 0] and [0, 16384] in steps of 32, then the output conversion."""

from dataclasses import dataclass, replace

import numpy as np

from .ops.activation import activate
from .quantize import fixed_point
from .regs import HALF_GAIN

FUNCTIONS = ("sigmoid", "swish", "hard_swish", "hard_sigmoid", "tanh", "gelu", "mish", "elu",
             "softplus", "swoosh_l", "swoosh_r")
_TOP = 16384


@dataclass
class Lut:
    gain: int  # register 0x4068: what the accumulator is multiplied and shifted by
    tables: list  # two of 513 int16
    slopes: tuple = None  # beyond both: (scale, shift) below and above; None: flat


def fit(p, act, in_quant, out_quant, reach=None):
    """`p` with tables that cover real inputs in [-reach, reach], with slopes beyond; without `reach`,
    in [-8, 8]."""
    sloping, reach = reach is not None, reach or 8.0
    acc_step = p.scale / 2.0**p.shift * out_quant.scale  # real value of acc * mul / 2^14 = 1
    scale, shift = fixed_point(acc_step * _TOP / reach)
    grid = np.linspace(-reach, reach, 1025)
    real = activate(act, grid)
    step = np.abs(real).max() / 32767
    tables = np.rint(real / step).astype(int)
    out_scale, out_shift = fixed_point(step / out_quant.scale)
    slopes = tuple(_slope((tables[b] - tables[a]) / 32) for a, b in ((0, 1), (-2, -1)))
    return replace(p, scale=out_scale, shift=out_shift,
                   lut=Lut(scale << 16 | shift << 8, [tables[:513], tables[512:]],
                           slopes if sloping else None))


def half_tables(act):
    """The tables of a float16 convolution whose activation ends in 1."""
    real = activate(act, np.arange(-_TOP, _TOP + 1, 32) / HALF_GAIN)
    tables = np.rint(real * 32767).astype(int)
    return [tables[:513], tables[512:]]


def _slope(value):
    """(scale, shift): 16 bits with sign, and at most 31."""
    return int(np.rint(value * 2**12)), 12


def _beyond(v, end, slope):
    scale, shift = slope
    return (v - end) * scale / 2.0**shift


def steps(p, acc):
    """The accumulator's values through gain, tables and output conversion: output steps from 0."""
    gain, shift = p.lut.gain >> 16, p.lut.gain >> 8 & 0x3F
    mul = 1.0 if p.form == "plain" else np.asarray(p.mul)[:, None, None] / 2.0**14
    v = np.rint(acc * mul * gain / 2.0**shift)
    table = np.concatenate([p.lut.tables[0], p.lut.tables[1][1:]])
    looked_up = np.interp(v, np.arange(-_TOP, _TOP + 1, 32), table)
    if p.lut.slopes:
        below, above = p.lut.slopes
        looked_up += _beyond(np.minimum(v, -_TOP), -_TOP, below)
        looked_up += _beyond(np.maximum(v, _TOP), _TOP, above)
    return looked_up * p.scale / 2.0**p.shift
