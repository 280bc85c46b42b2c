"""The DPU: BS, BN, EW or table, output conversion, write. What the registers say comes as a Plan."""
import dataclasses

import numpy as np

from npuref import Unsupported
from npuref.integers import rha, rne, saturated, split_shift

# The offset joins before the last shift (matters for exact ties alone; measured on RV1106).
OFFSET_INSIDE = True
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


class Cube:
    """Where a tensor of bytes lies: lanes of channels in an atom, atoms in lines, lines in surfaces."""

    def __init__(self, base, surface, line, lanes, pixel=None):
        self.base, self.surface, self.line, self.lanes = base, surface, line, lanes
        self.pixel = pixel or lanes

    def addresses(self, channels, height, width):
        c, y, x = np.ogrid[:channels, :height, :width]
        at = (self.base + c // self.lanes * self.surface + y * self.line + x * self.pixel +
              c % self.lanes)
        return np.broadcast_to(at, (channels, height, width))


@dataclasses.dataclass
class Multiply:
    """add (behind the factor, in the BN unit), multiply, then a shift of its own for negative numbers. None: left
    out."""
    add: object = None
    window: object = None  # times the sum of inputs, added too
    factor: object = None
    shift: int = 0
    negative_shift: int = 0
    prelu: bool = False  # the factor is for negative numbers alone
    add_last: bool = False
    low: int = LOWEST
    high: int = HIGHEST

    def __call__(self, v, window_sums=None, clip=0):
        if self.window is not None and window_sums is not None:
            v = v + self.window * window_sums
        v = rne(v, clip)  # how it is rounded is not known: the way that brings twins of RK3576 nearest to each other
        if self.add is not None and not self.add_last:
            v = v + self.add
        if self.factor is not None:
            v = np.where(v >= 0, v, v * self.factor) if self.prelu else v * self.factor
            v = v + self.add if self.add is not None and self.add_last else v
            v = split_shift(v, self.shift, self.negative_shift)
        return np.clip(saturated(v, 32), self.low, self.high)


@dataclasses.dataclass
class Operand:
    """The second input of EW: e' = ((e + offset) * factor) >> shift, then op."""
    values: object
    op: object
    offset: int = 0
    factor: int = 1
    shift: int = 0

    def __call__(self, v):
        return saturated(self.op(v, rne((self.values + self.offset) * self.factor, self.shift)), 32)


@dataclasses.dataclass
class Side:
    """One of the two tables: entries every 2^bits from start on, and the slope beyond the outer end."""
    entries: object
    start: int
    end: int
    bits: int
    slope: int
    slope_shift: int


@dataclasses.dataclass
class Tables:
    """Negative numbers by one table, the others by the other one, straight lines between the entries."""
    negative: Side
    positive: Side

    def __call__(self, v):
        return np.where(v < 0, self._side(self.negative, v), self._side(self.positive, v))

    def _side(self, side, v):
        if side.end - side.start != 512 << side.bits:
            raise Unsupported(f"a table from {side.start} to {side.end}, a point every 2^{side.bits}")
        t = np.asarray(side.entries, np.int64)
        u = np.clip(v - side.start, 0, 512 << side.bits)
        i = np.minimum(u >> side.bits, 511)
        y = t[i] + ((t[i + 1] - t[i]) * (u - (i << side.bits)) >> side.bits)
        outer = np.minimum(v - side.start, 0) if side is self.negative else np.maximum(v - side.end, 0)
        return y + (outer * side.slope >> side.slope_shift)


@dataclasses.dataclass
class Plan:
    shape: tuple  # channels, height, width
    source: object  # Cube, or None: from the core
    bs: Multiply
    bn: Multiply
    ew: object  # Operand, Tables or None
    ew_clamp: tuple
    scale: int
    shift: int
    offset: int
    away: bool  # ties go away from zero
    target: Cube
    channels: int  # that are written


def run(plan, memory, core=None):
    """core: (sums, sums of inputs, bits that they lose) of a convolution, where the main input does not come from memory."""
    channels, height, width = plan.shape
    if core is not None:
        if core[0].shape[1:] != (height, width):
            raise Unsupported(f"a core of {core[0].shape} for a DPU of {plan.shape}")
        # The DPU works on whole groups of channels; a core on two at least.
        more = ((0, max(channels - core[0].shape[0], 0)), (0, 0), (0, 0))
        v, window_sums = (np.pad(part[:channels], more) for part in core[:2])
        clip = core[2]
    else:
        v, window_sums, clip = memory.at(plan.source.addresses(*plan.shape)).astype(np.int64), None, 0
    v = plan.bn(plan.bs(v, window_sums, clip))
    if plan.ew:
        v = plan.ew(v)
    v = np.clip(v, *plan.ew_clamp) * plan.scale
    rounded = rha if plan.away else rne
    if OFFSET_INSIDE:
        v = rounded(v + (np.int64(plan.offset) << plan.shift), plan.shift)
    else:
        v = rounded(v, plan.shift) + plan.offset
    n = min(plan.channels, channels)
    memory.put(plan.target.addresses(n, height, width), saturated(v, 8)[:n])
