#!/usr/bin/python3
"""Every bit of every register that npu/emu knows, changed in small programs of our own writer: it ends the task, or changes
what comes out, or a table says that it does nothing (npu/emu/emu_registers.c) and it does nothing."""
import collections
import pathlib
import tempfile
import unittest

import numpy as np

from npuref import Unsupported, emulator, program
from rknnwriter import Model, Quant, ops
from support import rknn_reader

CHIPS = ("rk3588", "rk3566", "rk3562", "rk3576", "rv1106")
BLOCKS = {1: program.CNA, 2: 2, 3: program.CORE, 4: program.DPU, 5: program.DPU_RDMA, 6: program.PPU, 7: program.PPU_RDMA}
TABLE_WINDOW = (0x4100, 0x4104)  # what is written there are points of tables
BLOCK_SIZE, PAGE = 0x200, 0x1000
IN, OUT = Quant(0.05, -3), Quant(0.1, 7)
# Registers with bits that are read, and that show nothing in these programs.
LATENT = {
    "only packed pixels, or an operand, are converted by them": "CVT_CON1 CVT_CON2 CVT_CON3 CVT_CON4 CVT_CON5 CVT_OFFSET CVT_OFFSET_1 "
    "CVT_OFFSET_2 CVT_OFFSET_3",
    "kernels, channels and pixels beyond those that are used": "CONV_CON1 DATA_SIZE1 DATA_CHANNEL_REAL WEIGHT_SIZE2 CORE_SIZE1 CUBE_CHANNEL "
    "WDMA_SIZE_0 RDMA_CHANNEL POOL_IN_WIDTH POOL_IN_HEIGHT POOL_IN_CHANNEL",
    "of depthwise convolutions alone, or the same for them": "WEIGHT_SIZE0 CORE_MISC FEATURE_MODE",
    "copies of the pad value": "PAD_CON1",
    "less than what these numbers are rounded to": "BS_MUL_CFG BN_MUL_CFG BN_ALU_CFG EW_CVT_SCALE EW_CVT_OFFSET OUT_CVT_SHIFT OUT_CVT_SCALE "
    "POOL_RECIP_WIDTH POOL_RECIP_HEIGHT POOL_PAD_VALUE DATA_FORMAT",
    "bounds that no number reaches": "BS_RELUX_CMP BN_RELUX_CMP EW_RELUX_CMP BS_LOW_0 BS_HIGH_0 BS_LOW_1 BS_HIGH_1 BN_LOW_0 BN_HIGH_0 BN_LOW_1 "
    "BN_HIGH_1 EW_LOW_0 EW_HIGH_0 EW_LOW_1 EW_HIGH_1",
    "beyond the ends of tables": "LUT_LE_SLOPE_SCALE LUT_LE_SLOPE_SHIFT LUT_LO_SLOPE_SCALE LUT_LO_SLOPE_SHIFT LUT_BELOW_SHIFT "
    "LUT_ABOVE_SHIFT",
    "of one block of channels, or of lines without gaps": "SURFACE_STRIDE LINE_STRIDE DST_SURF_STRIDE POOL_DST_SURF_STRIDE POOL_SRC_SURF_STRIDE "
    "RDMA_SURF_NOTCH RDMA_EW_SURF_NOTCH RDMA_EW_SURF_STRIDE",
    "of writes that are no cubes": "SURFACE_ADD STREAM_PIECE BS_OW_CFG OFFSET_PEND",
    "what BN reads from memory": "RDMA_NRDMA_CFG RDMA_BN_ADDR RDMA_BN_CONFIG_ADDR",
    "of pixels that are repeated": "RDMA_SRC_DMA_CFG RDMA_FEATURE_MODE",
}
LATENT_NAMES = {name for names in LATENT.values() for name in names.split()}


def convolution(chip, channels=16, outputs=16, kernel=3, **options):
    rng, m = np.random.default_rng(1), Model(chip, "bits")
    x = m.input("x", (1, channels, 2, 3), IN)
    if options.pop("addend", False):
        options["addend"] = x
    depthwise = options.get("group", 1) > 1
    y = ops.conv(m, x, rng.normal(size=(outputs, 1 if depthwise else channels, kernel, kernel)) * 0.2, rng.normal(size=outputs),
                 pad=kernel // 2, out=IN, **options)
    m.output(y, "out")
    return m


def half(chip):
    m = Model(chip, "bits")
    x = m.input("x", (1, 16, 2, 3), dtype="float16")
    m.output(ops.conv(m, x, np.random.default_rng(1).normal(size=(16, 16, 1, 1)), np.ones(16)), "out")
    return m


def sum_of_two(chip, **options):
    m = Model(chip, "bits")
    x = m.input("x", (1, 16, 2, 3), IN)
    m.output(ops.add(m, x, x, out=OUT, **options), "out")
    return m


def pool(chip):
    m = Model(chip, "bits")
    m.output(ops.max_pool(m, m.input("x", (1, 32, 4, 4), IN), 2, stride=2), "out")
    return m


# The writer has whole programs of these for each chip; pools, depthwise convolutions and fp16 for RK3588 alone.
PROGRAMS = {
    "plain": lambda chip: convolution(chip, form="plain"), "full": convolution, "relu": lambda chip: convolution(chip, act="relu"),
    "table": lambda chip: convolution(chip, act="swish"), "addend": lambda chip: convolution(chip, addend=True),
    "blocks": lambda chip: convolution(chip, channels=48, outputs=48, kernel=1), "sum": sum_of_two,
}
RK3588_PROGRAMS = {"depthwise": lambda chip: convolution(chip, group=16), "half": half, "pool": pool}


class Bench:
    """One task of a file, with the tables that it needs, on memory that is the same each time."""

    def __init__(self, chip, model):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.rknn"
            model.save(path)
            self.file = rknn_reader.read(path.read_bytes())
        self.chip, self.memory = chip, program.Memory(self.file)
        self.memory.bytes = self.memory.bytes[: -program.SPARE or None][: 1 << 16].copy()
        tasks = list(program.tasks(self.file, self.memory))
        self.tables = [t for t in tasks if any(r == TABLE_WINDOW[1] and v for r, v in t.writes)]
        self.task = next(t for t in tasks if t.enable and t.writes and t not in self.tables)
        # Programs as words: each is run thousands of times.
        self.table_words = [(emulator.commands(t.writes), t.enable) for t in self.tables]
        self.words, self.registers = emulator.commands(self.task.writes), np.array([r for r, _ in self.task.writes])
        self.start = self.filled()

    def filled(self):
        start = self.memory.bytes.copy()
        for t in self.file.inputs:
            at = self.memory.bases[t.name]
            start[at : at + t.size] = np.random.default_rng(5).integers(0, 56, t.size)  # as fp16 they are small
        return start

    def run(self, register=None, value=0):
        """What memory has then, or the words of the refusal."""
        self.memory.bytes[:] = self.start
        emu = emulator.Emulator(self.chip, self.memory)
        try:
            for words, enable in self.table_words:
                emu.run_commands(words, enable)
            words = self.words
            if register is not None:
                words = np.append(words[self.registers != register], emulator.commands([(register, value)]))
            emu.run_commands(words, self.task.enable)
            return self.memory.bytes.tobytes()
        except Unsupported as e:
            return str(e)
        finally:
            emu.close()


class Bits(unittest.TestCase):
    def setUp(self):
        self.library, self.shown, self.silent = emulator.library(), set(), collections.defaultdict(int)

    def registers_of(self, task, chip):
        for block in (b for b, enable in BLOCKS.items() if enable & task.enable):
            for at in range(block << 12, (block << 12) + BLOCK_SIZE, 4):
                if at & 0xFFF > 8 and at not in TABLE_WINDOW:
                    yield at, self.library.emulator_bits(chip, at, 0), self.library.emulator_bits(chip, at, 1)

    def change_each(self, bench, chip):
        before, now = bench.run(), dict(bench.task.writes)
        self.assertIsInstance(before, bytes, before)
        for at, known, inert in self.registers_of(bench.task, chip):
            changes = [inert] if inert else []
            for bit in [1 << i for i in range(32) if not inert >> i & 1 and (at, 1 << i) not in self.shown]:
                after = bench.run(at, now.get(at, 0) ^ bit)
                if after != before:
                    self.shown.add((at, bit))
                self.silent[at] |= bit if after == before else 0
                if not known & bit and not now.get(at, 0) & bit:
                    self.assertIsInstance(after, str, f"{at:#x} {bit:#x}")
                    self.assertIn(f"({at:#06x}) holds", after)
            for bits in changes:
                after = bench.run(at, now.get(at, 0) ^ bits)
                self.assertTrue(after == before or isinstance(after, str), f"{at:#x} has no effect by the table")

    def all_of(self, chip):
        programs = PROGRAMS | (RK3588_PROGRAMS if chip == "rk3588" else {})
        for make in programs.values():
            self.change_each(Bench(chip, make(chip)), chip.encode())
        latent = {self.library.emulator_name(chip.encode(), at).decode() for at, bits in self.silent.items()
                  if any(bits >> i & 1 and (at, 1 << i) not in self.shown for i in range(32))}
        self.assertEqual(latent - LATENT_NAMES, set())


for one in CHIPS:
    setattr(Bits, f"test_{one}", lambda self, chip=one: self.all_of(chip))

if __name__ == "__main__":
    unittest.main()
