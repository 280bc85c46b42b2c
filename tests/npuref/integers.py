"""The roundings of the NPU's stages, on arrays of 64-bit integers."""
import numpy as np


def rne(x, shift):
    """x / 2^shift to the nearest integer, ties to even. shift: a number or an array."""
    x, shift = np.broadcast_arrays(np.asarray(x, np.int64), np.asarray(shift, np.int64))
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    low = x & ((np.int64(1) << shift) - 1)
    r = (x + half) >> shift
    return np.where((shift > 0) & (low == half), r & ~np.int64(1), r)


def rha(x, shift):
    """The same, ties away from zero."""
    x = np.asarray(x, np.int64)
    if shift == 0:
        return x
    return np.sign(x) * ((np.abs(x) + (np.int64(1) << (shift - 1))) >> shift)


def saturated(x, bits):
    return np.clip(x, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def split_shift(x, positive, negative):
    """A shift of its own for negative numbers; nothing is rounded where it is 0."""
    return rne(x, np.where(x >= 0, positive, negative))


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def field(value, high, low):
    return value >> low & ((1 << (high - low + 1)) - 1)
