"""From float weights to what the file says of an int8 convolution."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass
class Addend:
    """How a fused Add's operand enters: (x + offset) * scale >> shift."""

    offset: int
    scale: int
    shift: int


@dataclass
class ConvParams:
    weight: np.ndarray  # int8 [O, I, kh, kw]; depthwise [1, C, kh, kw]
    nz: np.ndarray  # i16 per output channel: the weights' zero points, negated
    mul: np.ndarray  # Q14 per output channel
    bias: np.ndarray  # i32, with the input's zero point in it
    scale: int
    shift: int
    out_offset: int
    chip: object = None  # that it is for
    form: str = "full"  # "full", "depthwise", "plain": what the table holds
    act: str = None
    alpha: float = 0.0  # of LeakyRelu, a multiple of 2^-14
    leaky_shift: int = 0  # what LeakyRelu shifts by, so that the output conversion does not
    depthwise: bool = False
    addend: Addend = None
    add_last: bool = False  # behind the activation
    lut: object = None
    sum_shift: int = 0  # RK3576, RV1126B: sums are shifted by this before the bias is added
    gain: tuple = None  # RK3562, RK3576, RV1126B: (factor, shift) behind the bias unit

    @property
    def factor(self):
        """Per channel: output steps for one step of the accumulator."""
        mul = np.ones(len(self.mul)) if self.form == "plain" else self.mul / 2.0**14
        gain, shift = self.gain or (1, 0)
        return mul * gain / 2.0**shift * self.scale / 2.0**self.shift


def shifted(x, shift):
    """Integers over 2^shift, to the nearest, ties to even: what the chips' units do."""
    x, one = np.asarray(x, np.int64), np.int64(1) << np.int64(shift)
    whole = x >> np.int64(shift)
    twice = 2 * (x - whole * one)
    return whole + ((twice > one) | ((twice == one) & (whole & 1 == 1)))


def saturated(x):
    return np.clip(x, -(2**31), 2**31 - 1)


def fixed_point(value):
    """(scale, shift) with value = scale / 2^shift and 15 bits of scale."""
    if not 2.0**-40 < value < 2.0**14:
        raise ValueError(f"factor {value} is out of a convolution's range")
    shift = 14 - int(np.floor(np.log2(value)))
    scale = int(np.rint(value * 2.0**shift))
    return (scale, shift) if scale < 1 << 15 else (scale >> 1, shift - 1)


def _scales(weight, per_channel, symmetric):
    """Per channel (scale, zero point) of [O, …] float weights."""
    flat = weight.reshape(len(weight), -1) if per_channel else weight.reshape(1, -1)
    low, high = np.minimum(flat.min(1), 0), np.maximum(flat.max(1), 0)
    if symmetric:
        scale, zero = np.maximum(-low, high) / 127, np.zeros(len(flat))
    else:
        scale = (high - low) / 255
        zero = np.rint(-128 - low / np.where(scale > 0, scale, 1))
    scale = np.where(scale > 0, scale, max(scale.max(), 1e-6))
    repeat = len(weight) // len(flat)
    return np.repeat(scale, repeat), np.repeat(np.clip(zero, -128, 127), repeat).astype(int)


def quantize(weight, bias, in_quant, out_quant, form="full", symmetric=False):
    """ConvParams for float weights [O, I, kh, kw] (depthwise: [C, 1, kh, kw], form "depthwise")."""
    per_channel = form != "plain"
    step, zero = _scales(weight, per_channel, symmetric)
    spread = (slice(None), None, None, None)
    stored = np.clip(np.rint(weight / step[spread]) + zero[spread], -128, 127).astype(np.int8)
    mul = np.clip(np.rint(step / step.max() * 2**14), 1, 2**14).astype(int)
    real_step = step.max() * (mul / 2.0**14 if per_channel else 1)
    scale, shift = fixed_point(in_quant.scale * step.max() / out_quant.scale)
    sums = (stored.astype(np.int64) - zero[spread]).sum((1, 2, 3))
    total = np.rint(bias / (in_quant.scale * real_step)) - in_quant.zero_point * sums
    if np.abs(total).max() >= 2**31:
        raise ValueError("a bias does not fit 32 bits")
    return ConvParams(stored, -zero, mul, total.astype(np.int64), scale, shift,
                      out_quant.zero_point, form=form)


def shift_sums(p, shift):
    """`p` with what follows the sums shifted by less."""
    return replace(p, bias=np.rint(p.bias / 2.0**shift).astype(np.int64), sum_shift=shift,
                   shift=p.shift - shift)


def multiply(p, factor, shift):
    """`p` with a factor behind the bias unit, and as much less behind that."""
    scale, left = fixed_point(p.scale / 2.0**p.shift * 2.0**shift / factor)
    return replace(p, gain=(factor, shift), scale=scale, shift=left)


def addend(params, quant, out_quant):
    """The operand's conversion, so that both conversions together are quant / out_quant."""
    ratio = quant.scale / out_quant.scale * 2.0**params.shift / params.scale
    return Addend(-quant.zero_point, *fixed_point(ratio))
