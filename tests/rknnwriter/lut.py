"""Activations of int8 convolutions by lookup table: two tables of 513 int16 entries over
[-16384, 0] and [0, 16384] in steps of 32, then the output conversion."""

from dataclasses import dataclass, replace

import numpy as np

from .ops.activation import activate
from .quantize import fixed_point

FUNCTIONS = ("sigmoid", "swish", "hard_swish", "hard_sigmoid", "tanh", "gelu", "mish", "elu",
             "softplus", "swoosh_l", "swoosh_r")
_TOP = 16384


@dataclass
class Lut:
    gain: int  # register 0x4068: what the accumulator is multiplied and shifted by
    tables: list  # two of 513 int16


def fit(p, act, in_quant, out_quant, reach=8.0):
    """`p` with tables that cover real inputs in [-reach, reach]."""
    acc_step = p.scale / 2.0**p.shift * out_quant.scale  # real value of acc * mul / 2^14 = 1
    scale, shift = fixed_point(acc_step * _TOP / reach)
    grid = np.linspace(-reach, reach, 1025)
    real = activate(act, grid)
    step = np.abs(real).max() / 32767
    tables = np.rint(real / step).astype(int)
    out_scale, out_shift = fixed_point(step / out_quant.scale)
    return replace(p, scale=out_scale, shift=out_shift,
                   lut=Lut(scale << 16 | shift << 8, [tables[:513], tables[512:]]))


def steps(p, acc):
    """The accumulator's values through gain, tables and output conversion: output steps from 0."""
    gain, shift = p.lut.gain >> 16, p.lut.gain >> 8 & 0x3F
    mul = 1.0 if p.form == "plain" else np.asarray(p.mul)[:, None, None] / 2.0**14
    v = np.clip(np.rint(acc * mul * gain / 2.0**shift), -_TOP, _TOP)
    table = np.concatenate([p.lut.tables[0], p.lut.tables[1][1:]])
    looked_up = np.interp(v, np.arange(-_TOP, _TOP + 1, 32), table)
    return looked_up * p.scale / 2.0**p.shift
