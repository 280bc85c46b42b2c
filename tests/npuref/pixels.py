"""What a model's packed input is in memory: pixels, which the chip's converter makes the quantized input of."""
import numpy as np

from npuref import program

# Registers of the converter: (CVT_CON0, CVT_CON1, address of the input).
OLD, NEW, LITE = (0x104C, 0x1050, 0x1070), (0x1048, 0x104C, 0x1088), (0x104C, 0x1050, 0x1070, "lite")
LITE_OFFSETS = 0x101C, 0x1058, 0x105C, 0x106C
REGISTERS = {"rv1103": LITE, "rv1106": LITE, "rk3566": OLD, "rk3568": OLD, "rk3562": NEW, "rk3576": NEW, "rv1126b": NEW}
LANES, IDENTITY = 4, 0x4000


def signed16(value):
    return (value & 0xFFFF ^ 0x8000) - 0x8000


def signed32(value):
    return (value & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)


def lanes_of(chip, registers):
    """(factor, shift, offset) of each channel, of RV1106 the offset before the shift; None: the input is not
    converted, or by -128 alone."""
    con0, con1 = REGISTERS[chip][:2]
    cfg = registers.get(con0, 0)
    if not cfg or cfg & 8 or cfg & 0xF in (9, 0xA):  # 0: a short program, which leaves it as it is
        return None
    shifts = [cfg >> 4 + 6 * i & 0x3F for i in range(LANES)]
    if REGISTERS[chip] is OLD:
        words = [registers.get(con1 + 4 * i, 0) for i in range(LANES)]
        lanes = [(w >> 16, s, signed16(w)) for w, s in zip(words, shifts)]
    else:
        words = [registers.get(con1 + 4 * (i // 2), 0) >> 16 * (i % 2) & 0xFFFF for i in range(LANES)]
        lite = REGISTERS[chip] is LITE
        at = LITE_OFFSETS if lite else [con1 + 8 + 4 * i for i in range(LANES)]
        offsets = [signed32(registers.get(a, 0)) if lite else signed16(registers.get(a, 0)) for a in at]
        lanes = [(w, s, o / (1 << s) if lite else o) for w, s, o in zip(words, shifts, offsets)]
    return None if lanes[0] == (IDENTITY, 14, -128) else lanes


def converters(file):
    """{name of an input: its lanes}, of those that are converted by more than -128."""
    if file.chip not in REGISTERS or file.container not in (1, 2, 6, program.LITE):
        return {}
    memory, found = program.Memory(file), {}
    bases = {memory.bases[t.name]: t.name for t in file.inputs}
    for task in program.tasks(file, memory):
        registers = dict(task.writes)
        name = bases.get(registers.get(REGISTERS[file.chip][2]))
        if task.enable & program.CNA and name and (lanes := lanes_of(file.chip, registers)):
            found[name] = lanes
    return found


def convert(pixels, lanes):
    """uint8, CHW -> int8."""
    wide = [pixels[c].astype(np.int64) * lanes[c][0] for c in range(len(pixels))]
    rounded = [np.rint(w / (1 << lanes[c][1]) + lanes[c][2]) for c, w in enumerate(wide)]  # whole offsets change no tie
    return np.clip(np.stack(rounded), -128, 127).astype(np.int8)
