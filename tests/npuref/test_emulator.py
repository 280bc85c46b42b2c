"""npu/emu: its rules for programs and faults, public board measurements (../shared/npu-vectors) through whole
programs, and the nodes of all shared files against the software NPU."""
import collections
import json
import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np

from npuref import Unsupported, emulator, registers
from npuref.files import FILES, MODELS, dump_of
from npuref.judge import Judge
from npuref.emulator import AMOUNT, BARRIER, DPU_INTERRUPT, ENABLE, LINK, PPU_INTERRUPT, command
from npuref.program import CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, Task

VECTORS = MODELS.parent / "npu-vectors"
CONV, FROM_MEMORY, POOL = CNA | CORE | DPU | DPU_RDMA, DPU | DPU_RDMA, PPU | PPU_RDMA
PING_PONG, CLEARED = 0xE, 0x30
SOURCE, TARGET_AT, WEIGHTS, TABLE, CONFIG, SIZE = 0x1000, 0x8000, 0x10000, 0x18000, 0x20000, 0x40000
ATOM = 16
# Modes of the DPU and its reader: FEATURE_MODE, RDMA_FEATURE_MODE.
READS_CORE, READS_MEMORY = {0x400C: 4, 0x5044: 0x10}, {0x400C: 5, 0x5044: 1}
OFF = {"BS_CFG": 1, "BN_CFG": 1, "EW_CFG": 1}
# Nodes that differ by more than one rounding, by the type of what comes out, and why: in each of them the emulator does
# what the file's commands say.
INT8, FP16 = 3, 10
EXPLAINED = {
    ("AddRelu", FP16): "the commands add the second operand to itself where the first one is broadcast",
    ("ConvExSwish", FP16): "tables give whole numbers, of which the software NPU keeps fractions",
    ("exSoftmax13", FP16): "a table, whole numbers of 2^-15, and sums of fp16, where the software NPU rounds once",
    ("exSDPAttention", INT8): "weights near a half become the other step: scores, sums and quotients are fp16",
}
# Files whose programs for several cores are run as well, the cores one after the other in each node.
SEVERAL_CORES = {"pp_human_segv2_custom_argmax.rk3588": (2, 3), "pp_human_segv2_custom_argmax.rk3576": (2,)}
# What comes of each file, a row each; RKNND_WRITE_TABLE=1 writes it anew.
WRITES = bool(os.environ.get("RKNND_WRITE_TABLE"))
NODES = pathlib.Path(__file__).resolve().parents[2] / "docs/emulator-nodes.md"
# Files that the software NPU does not run.
NOT_RUN = {"multiple_input_demo_container2.rk3588": "weights are compressed", "rknpu1_mnist.rv1126": "other hardware"}


class Memory:
    def __init__(self):
        self.bytes = np.zeros(SIZE, np.uint8)


class Rig:
    """A chip with some memory, and programs written by hand."""

    def __init__(self, chip="rk3588", generation=registers.RK3588):
        self.memory, self.generation = Memory(), generation
        self.emulator = emulator.Emulator(chip, self.memory)

    def put(self, at, values):
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self.memory.bytes[at : at + raw.size] = raw

    def get(self, at, count, kind=np.int8):
        return self.memory.bytes[at : at + count * np.dtype(kind).itemsize].view(kind).copy()

    def writes(self, named):
        for name, value in named.items():
            offset = name if isinstance(name, int) else registers.TABLE[name][self.generation]
            for v in value if isinstance(value, list) else [value]:
                yield offset, v

    def run(self, enable, named):
        self.emulator.run(Task(0, enable, list(self.writes(named))))


def size(c, h, w):
    """Registers of a DPU that works on this cube."""
    return {"CUBE_CHANNEL": c - 1, "CUBE_HEIGHT": h - 1, "CUBE_WIDTH": w - 1, "WDMA_SIZE_0": c - 1,
            "WDMA_SIZE_1": (h - 1) << 16 | (w - 1), "DST_SURF_STRIDE": h * w * ATOM, "DST_ADDR": TARGET_AT}


def copy(c, h, w, **more):
    """A memory program that changes nothing."""
    return {**size(c, h, w), **OFF, **READS_MEMORY, "RDMA_CHANNEL": c - 1, "RDMA_HEIGHT": h - 1, "RDMA_WIDTH": w - 1,
            "SRC_ADDR": SOURCE, "ERDMA_CFG": 1, "OUT_CVT_SCALE": 1, **more}


def products(channels, **more):
    """A convolution of one pixel with 1 x 1 kernels, whose sums the bias alone decides: weights are 0."""
    return {**size(channels, 1, 1), **OFF, **READS_CORE, "CORE_MISC": 1, "CVT_CON0": 0xB, "CONV_CON3": 9,
            "DATA_SIZE0": 1 << 16 | 1, "DATA_SIZE1": 15 << 16 | 32, "FEATURE_ADDR": SOURCE, "LINE_STRIDE": 4,
            "WEIGHT_SIZE0": 32 * channels, "WEIGHT_SIZE1": 32, "WEIGHT_SIZE2": 1 << 24 | 1 << 16 | channels,
            "WEIGHT_ADDR": WEIGHTS, "CORE_SIZE1": channels - 1, "BS_OW_CFG": 2, "BRDMA_CFG": 2,
            "BS_ADDR": TABLE, "OUT_CVT_SCALE": 1, **more}


def case(name):
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


def numbers(name, kind):
    return np.fromfile(VECTORS / name, kind)


class Programs(unittest.TestCase):
    def setUp(self):
        self.rig = Rig()
        self.rig.put(SOURCE, np.arange(64, dtype=np.int8))

    def test_memory_is_copied(self):
        self.rig.run(FROM_MEMORY, copy(16, 2, 2))
        np.testing.assert_array_equal(self.rig.get(TARGET_AT, 64), np.arange(64))

    def test_a_short_program_changes_the_one_two_before(self):
        start = {0x4004: PING_PONG, 0x5004: PING_PONG}
        self.rig.run(FROM_MEMORY, {**start, **copy(16, 2, 2)})
        self.rig.run(FROM_MEMORY, {**start, **copy(16, 1, 2)})
        self.rig.put(TARGET_AT, np.zeros(64, np.int8))
        self.rig.run(FROM_MEMORY, {"OUT_CVT_OFFSET": 1})
        np.testing.assert_array_equal(self.rig.get(TARGET_AT, 64), np.arange(1, 65))
        self.rig.run(FROM_MEMORY, {"OUT_CVT_OFFSET": 2})
        np.testing.assert_array_equal(self.rig.get(TARGET_AT, 33), [*range(2, 34), 33])

    def test_cleared_pointers_stay_at_one_group(self):
        cleared = {0x4004: CLEARED, 0x5004: CLEARED}
        self.rig.run(FROM_MEMORY, {**cleared, **copy(16, 2, 2)})
        self.rig.run(FROM_MEMORY, {**cleared, "OUT_CVT_OFFSET": 1})
        np.testing.assert_array_equal(self.rig.get(TARGET_AT, 64), np.arange(1, 65))

    def refused(self, words, enable, named):
        with self.assertRaisesRegex(Unsupported, words):
            self.rig.run(enable, named)

    def test_what_is_not_mapped_is_a_page_fault(self):
        self.refused("writing: page fault: 32 bytes at 0xf0000000", FROM_MEMORY, copy(16, 2, 2, DST_ADDR=0xF0000000))
        self.refused("reading: page fault", FROM_MEMORY, copy(16, 2, 2, SRC_ADDR=SIZE + 0x20000))

    def test_registers_that_nothing_reads_are_named(self):
        self.refused(r"\(0x4078\) holds 0x80000001: nothing here reads", FROM_MEMORY, copy(16, 2, 2) | {0x4078: 0x80000001})
        self.refused(r"\(0x4028\) holds 0x00000005: nothing here reads it", FROM_MEMORY, copy(16, 2, 2) | {0x4028: 5})

    def test_values_that_are_not_modelled_are_named(self):
        self.refused(r"DATA_FORMAT \(0x4010\) holds 0x00000002: a combination of precisions", FROM_MEMORY, copy(16, 2, 2, DATA_FORMAT=2))
        self.refused("a task that enables 0x10", DPU_RDMA, copy(16, 2, 2))
        self.refused("blocks 0x180 are not known", 0x180, copy(16, 2, 2))

    def test_bits_that_nothing_reads_are_named(self):
        self.refused(r"EW_CFG \(0x4070\) holds 0x00200001: nothing here reads its bits 0x00200000", FROM_MEMORY,
                     copy(16, 2, 2, EW_CFG=0x200001))
        self.refused(r"BS_CFG \(0x4040\) holds 0x00400001: nothing here reads its bits 0x00400000", FROM_MEMORY,
                     copy(16, 2, 2, BS_CFG=0x400001))

    def test_modes_fit_the_blocks(self):
        self.refused(r"FEATURE_MODE \(0x400c\) holds 0x00000004: not a mode", FROM_MEMORY, copy(16, 2, 2) | {0x400C: 4})
        self.refused(r"RDMA_FEATURE_MODE \(0x5044\) holds 0000000000: the main reader waits", CONV,
                     products(16, BS_CFG=0x20150) | {0x5044: 0})
        self.assertEqual(self.rig.emulator.result()[0], emulator.TIMEOUT)

    def test_channels_behind_the_last_one_are_filled(self):
        self.rig.run(FROM_MEMORY, copy(16, 2, 2, CUBE_CHANNEL=9 << 16 | 15) | {0x4014: 0xFF85})
        written = self.rig.get(TARGET_AT, 64).reshape(4, 16)
        np.testing.assert_array_equal(written[:, :10], np.arange(64).reshape(4, 16)[:, :10])
        self.assertEqual(set(written[:, 10:].ravel().tolist()), {-123})

    def test_an_operand_is_converted_before_it_is_multiplied(self):
        """As exMatMul does it: (x + 128) * 127 / 255, to the nearest; weights are 0 and the window's sum counts."""
        for x in (-128, -77, -1, 0, 44, 127):
            self.rig.put(SOURCE, np.array([x] + [-128] * 15, np.int8))
            lanes = {0x1050 + 4 * i: 0x7F80 << 16 | 128 for i in range(4)}
            self.rig.run(CONV, products(16, CVT_CON0=0x410410A, BS_CFG=0x52, BS_OW_CFG=0, OUT_CVT_SCALE=1,
                                        DATA_SIZE1=15 << 16 | 16) | {**lanes, 0x4054: 1, 0x1180: 0xFFFF})
            self.assertEqual(self.rig.get(TARGET_AT, 1)[0], round((x + 128) * 0x7F80 / 65536), x)
        self.refused(r"CVT_CON5 \(0x1180\)", CONV, products(16, CVT_CON0=0x410410A, BS_CFG=0x20150) | lanes | {0x1180: 1})

    def test_pixels_are_bytes_from_0_on_where_their_converter_works(self):
        """Of three channels, whose sum counts; the emulator divides by nothing, as nobody has measured how that is rounded."""
        lanes = {0x1050 + 4 * i: 0x4000FF80 for i in range(4)}
        packed = products(16, BS_CFG=0x52, BS_OW_CFG=0, DATA_SIZE1=15 << 16 | 16, CVT_CON0=0x38E38E0) | lanes | {
            0x100C: 0x2000A000, 0x4054: 1, 0x1180: 0xFFFF}
        for pixel in ((200, 100, 140), (0, 255, 131), (128, 127, 1)):
            self.rig.put(SOURCE, np.array(pixel, np.uint8))
            self.rig.run(CONV, packed)
            self.assertEqual(self.rig.get(TARGET_AT, 1)[0], sum(pixel) - 3 * 128, pixel)
        self.refused(r"CVT_CON5 \(0x1180\)", CONV, packed | {0x1180: 0})
        self.refused(r"CVT_CON3 \(0x1058\) .* pixels that are scaled", CONV, packed | {0x1058: 0x3FFFFF80})

    def test_commands_of_no_unit_are_refused(self):
        for bad in (0x1001 << 48 | 0x5018, 0x777 << 48 | 0x4010, 0x1001 << 48 | 0x4011, 0x101 << 48 | 0x30):
            with self.assertRaisesRegex(Unsupported, "word 0 of the program: .* is for no unit"):
                self.rig.emulator.run_words([bad, 0, 0, BARRIER, ENABLE | FROM_MEMORY << 16 | 8], 1)

    def test_a_program_that_starts_nothing_ends(self):
        with self.assertRaisesRegex(Unsupported, "starts no block"):
            words = [command(*w) for w in self.rig.writes(copy(16, 2, 2))]
            self.rig.emulator.run_words([*words, 0, 0, BARRIER, 0], len(words))

    def test_a_program_outside_of_memory_is_a_page_fault(self):
        with self.assertRaisesRegex(Unsupported, r"word 8192 of the program: page fault"):
            self.rig.emulator.run_words([0] * 8000, 1 << 15)


class Lower(unittest.TestCase):
    """RK3562: a convolution of packed pixels that makes an image's two halves at once, in a surface each."""

    def test_halves_of_an_image(self):
        rng, width, pad, rig = np.random.default_rng(2), 16, 5, Rig("rk3562", registers.RK3562)
        image, w = rng.integers(-9, 9, (4, width, 3)), rng.integers(-1, 2, (8, 3, 3, 3))
        rig.put(SOURCE, image.astype(np.int8))
        rig.put(SOURCE + image.size, np.full(width * 3, 99, np.int8))  # is the pad's place
        rig.put(WEIGHTS, np.pad(w, ((0, 0), (0, 0), (0, 0), (0, 1))).transpose(1, 2, 0, 3).astype(np.int8))
        bounds = {at + 4 * i: (0x80000000, 0x7FFFFFFF)[i] for at in (0x4048, 0x4058, 0x406C, 0x4074, 0x4088, 0x40A4) for i in (0, 1)}
        rig.run(CNA | CORE | DPU, {
            **size(32, 2, width), **bounds, "CONV_CON1": 0x3001E002, "CONV_CON3": 9, "CORE_MISC": 0x15, "CVT_CON0": 0xB,
            "DATA_SIZE0": width << 16 | 4, "DATA_SIZE1": 3, "DATA_CHANNEL_REAL": 3, "PAD_CON0": 0x1010101, "PAD_CON1": pad * 0x10101,
            "FEATURE_ADDR": SOURCE, "LINE_STRIDE": width * 3 // ATOM, "SURFACE_STRIDE": width * 3 // ATOM, "WEIGHT_ADDR": WEIGHTS,
            "WEIGHT_SIZE0": 288, "WEIGHT_SIZE1": 36, "WEIGHT_SIZE2": 3 << 24 | 3 << 16 | 8, "CORE_SIZE0": 1 << 16 | (width - 1),
            "CORE_SIZE1": 31, 0x400C: 0x1EC, "BS_CFG": 0x53, "BN_CFG": 0x13, "EW_CFG": 0x10041C1, "BS_OW_CFG": 2,
            "WDMA_SIZE_0": 31 << 16, "DST_SURF_STRIDE": 2 * width, "OUT_CVT_SCALE": 1})
        padded = np.pad(image, ((1, 1), (1, 1), (0, 0)), constant_values=pad)
        sums = sum(padded[y : y + 4, x : x + width] @ w[:, y, x].T for y in range(3) for x in range(3))
        written = rig.get(TARGET_AT, 4 * width * ATOM).reshape(4, width, ATOM)
        np.testing.assert_array_equal(written[..., :8], np.clip(sums, -128, 127))


class Races(unittest.TestCase):
    """Two cores that copy lines; whatever one does to the other's is told from its own."""

    def setUp(self):
        self.rig = Rig()
        self.rig.put(SOURCE, np.arange(64, dtype=np.int8))
        self.rig.emulator.watch()

    def copy(self, core, source, target, **more):
        named = copy(16, 1, 2, SRC_ADDR=source, DST_ADDR=target, **more)
        self.rig.emulator.run(Task(0, FROM_MEMORY, list(self.rig.writes(named)), core))

    def refused(self, words, *task, **more):
        with self.assertRaisesRegex(Unsupported, words):
            self.copy(*task, **more)

    def test_reading_what_another_core_has_just_written(self):
        self.copy(0, SOURCE, TARGET_AT)
        self.refused("reading: core 1 reads 0x8000, which core 0 has written", 1, TARGET_AT, TARGET_AT + 64)
        self.copy(0, TARGET_AT, TARGET_AT + 64)  # its own
        self.rig.emulator.meet()
        self.copy(1, TARGET_AT, TARGET_AT + 64)

    def test_changing_what_another_core_has_just_read_or_written(self):
        self.copy(0, SOURCE, TARGET_AT)
        self.refused("core 1 changes 0x1000, which core 0 has written or read", 1, SOURCE + 32, SOURCE)
        self.refused("core 1 changes 0x8000, which core 0 has written or read", 1, SOURCE + 32, TARGET_AT, OUT_CVT_OFFSET=9)

    def test_writing_the_same_and_beside_it(self):
        self.copy(0, SOURCE, TARGET_AT)
        self.copy(1, SOURCE, TARGET_AT)
        self.copy(0, TARGET_AT, TARGET_AT + 64)
        self.copy(1, SOURCE, TARGET_AT + 32)


class Jobs(unittest.TestCase):
    """Three programs that copy, each with another offset, chained by their trailers as in files."""

    START = {0x4004: PING_PONG, 0x5004: PING_PONG}
    STEP = 256  # words

    def setUp(self):
        self.rig = Rig()
        self.rig.put(SOURCE, np.arange(64, dtype=np.int8))
        self.counts = []
        self.chain(*(copy(16, 2, 2, DST_ADDR=TARGET_AT + 64 * i, OUT_CVT_OFFSET=i + 1) for i in range(3)))

    def chain(self, *programs):
        emu = self.rig.emulator
        words = [[command(*w) for w in self.rig.writes({**self.START, **p})] for p in programs]
        self.counts = [len(w) for w in words]
        for i, w in enumerate(words):
            link = [LINK | (i + 1) * self.STEP * 8 << 16, AMOUNT | ((len(words[i + 1]) + 4 + 1) // 2 - 1) << 16] \
                if i + 1 < len(words) else [0, 0]
            w += [*link, BARRIER, ENABLE | FROM_MEMORY << 16 | 8]
            emu.words[i * self.STEP : i * self.STEP + len(w)] = w

    def run_tasks(self, n, first=0, interrupt=DPU_INTERRUPT, core=0):
        self.rig.emulator.run_job([(i * self.STEP, self.counts[i], interrupt) for i in range(first, first + n)], core)

    def written(self):
        return [self.rig.get(TARGET_AT + 64 * i, 1)[0] for i in range(3)]

    def test_the_chain_goes_by_the_links_as_far_as_the_count(self):
        self.run_tasks(2)
        self.assertEqual(self.written(), [1, 2, 0])
        self.run_tasks(1, first=2)
        self.assertEqual(self.written(), [1, 2, 3])

    def test_each_group_has_an_interrupt_of_its_own(self):
        self.run_tasks(1)
        self.assertEqual(self.rig.emulator.result(), (emulator.DONE, 1, 0x100))
        self.run_tasks(1)
        self.assertEqual(self.rig.emulator.result(), (emulator.DONE, 1, 0x200))
        self.run_tasks(2)
        self.assertEqual(self.rig.emulator.result(), (emulator.DONE, 2, 0x300))

    def test_the_status_counts_tasks_modulo_their_number(self):
        self.run_tasks(3)
        self.assertEqual(self.rig.emulator.read(0x3C), 0)
        self.chain(copy(16, 2, 2), copy(16, 2, 2, DST_ADDR=0xF0000000), copy(16, 2, 2))
        with self.assertRaisesRegex(Unsupported, "task 2 of 3: writing: page fault"):
            self.run_tasks(3)
        self.assertEqual(self.rig.emulator.result()[:2], (emulator.PAGE_FAULT, 1))
        self.assertEqual(self.rig.emulator.read(0x3C), 1 << 12 | 2)

    def test_a_driver_that_waits_for_another_block_waits_for_ever(self):
        with self.assertRaisesRegex(Unsupported, "raised interrupts 0x100, and 0xc00 is waited for"):
            self.run_tasks(1, interrupt=PPU_INTERRUPT)
        self.assertEqual(self.rig.emulator.result()[0], emulator.WRONG_INTERRUPT)

    def test_a_chain_that_ends_too_early_is_a_timeout(self):
        self.rig.emulator.words[self.counts[0] : self.counts[0] + 2] = 0
        with self.assertRaisesRegex(Unsupported, "task 2 of 3: .*starts no block"):
            self.run_tasks(3)
        self.assertEqual(self.rig.emulator.result()[0], emulator.TIMEOUT)

    def test_cores_have_registers_of_their_own(self):
        self.run_tasks(2)
        self.chain({"OUT_CVT_OFFSET": 7})
        with self.assertRaisesRegex(Unsupported, r"\(0x400c\) holds 0000000000: not a mode"):
            self.run_tasks(1, core=1)  # which has no registers yet to change
        self.run_tasks(1)
        self.assertEqual(self.written(), [7, 2, 0])


class Switches(unittest.TestCase):
    """The runs of docs/board-testing.md that settle a switch (tensor/arithmetic.h), each with both of its answers. That of
    sums, which RK3588 does not shift, is in test_board_kit, that of a core's maxima in test_halves."""

    OUT_ZP, EW_SHIFT, SUM_SHIFT, LUT_IN, LUT_LINE, LUT_SLOPE, BN_ORDER, DECONV_PAD = range(8)

    def both(self, switch, run):
        found = []
        for choice in (None, 0, 1):
            rig = Rig()
            if choice is not None:
                rig.emulator.choose(switch, choice)
            found.append(run(rig).tolist())
        self.assertEqual(found[0], found[1], "the first is what is taken")
        return found[1:]

    def sums(self, values, **more):
        def run(rig):
            rig.put(TABLE, np.array(values, "<i4"))
            rig.run(CONV, products(len(values), BS_CFG=0x20150, **more))
            return rig.get(TARGET_AT, len(values))
        return run

    def table(self, values, points, **more):
        """Of a table with these points for numbers from 0 on, the last of which go on."""
        sums = self.sums(values, BN_CFG=0x20040, EW_CFG=0x302, LUT_CFG=0x68, LUT_INFO=0x50500,
                         LUT_LE_START=-16384, LUT_LO_END=16384, **{"BN_MUL_CFG": 1 << 16, **more})

        def run(rig):
            for side in range(2):
                filled = points + [points[-1]] * (513 - len(points)) if side else [0] * 513
                rig.run(FROM_MEMORY, {0x4004: CLEARED, "LUT_ACCESS_CFG": 1 << 17 | side << 16,
                                      "LUT_ACCESS_DATA": [p & 0xFFFF for p in filled]})
            return sums(rig)
        return run

    def test_out_zp(self):
        run = self.sums([1, 2, 3] + [0] * 13, OUT_CVT_SHIFT=1, OUT_CVT_OFFSET=1)
        before, behind = self.both(self.OUT_ZP, run)
        self.assertEqual((before[:3], behind[:3]), ([2, 2, 2], [1, 2, 3]))

    def test_ew_shift(self):
        def run(rig):
            rig.put(TABLE, np.zeros(16, "<i4"))
            rig.put(SOURCE, np.array([1, 3, -1] + [0] * 13, np.int8))
            rig.run(CONV, products(16, BS_CFG=0x20150, EW_CFG=0x904202C0, ERDMA_CFG=0x40000004, SRC_ADDR=SOURCE,
                                   EW_CVT_SCALE=1 << 16 | 1))
            return rig.get(TARGET_AT, 3)
        self.assertEqual(self.both(self.EW_SHIFT, run), [[0, 2, 0], [0, 1, -1]])

    def test_deconv_pad(self):
        """Two pixels of one channel that counts, and one between them."""
        def run(rig):
            rig.put(SOURCE, np.array([[7] + [0] * 15, [9] + [0] * 15], np.int8))
            rig.put(WEIGHTS, np.array([[1] + [0] * 31] * 16, np.int8))
            rig.put(TABLE, np.zeros(16, "<i4"))
            rig.run(CONV, {**products(16, BS_CFG=0x20150), **size(16, 1, 3), "CONV_CON1": 1 << 16,
                           "CONV_CON3": 9 | 1 << 8, "DATA_SIZE0": 2 << 16 | 1, "LINE_STRIDE": 8, "CORE_SIZE0": 2,
                           "PAD_CON1": 5})
            return rig.get(TARGET_AT, 3 * ATOM)[::ATOM]
        self.assertEqual(self.both(self.DECONV_PAD, run), [[7, 5, 9], [7, 0, 9]])

    def test_deconv_pad_of_rv1106(self):
        """The same there, where transposing has no bit of its own: what lies between is 0, as was measured, and around the image
        and in channels that are not there (whose weights are 1 here) the padding's value."""
        rig = Rig("rv1106")  # whose registers are RK3588's but for these
        lowest = dict.fromkeys((0x404C, 0x406C, 0x407C, 0x40D8, 0x40E0, 0x40E8), 1 << 31)
        highest = dict.fromkeys((0x401C, 0x4028, 0x402C, 0x40DC, 0x40E4, 0x40EC), 0x7FFFFFFF)
        rig.put(SOURCE, np.array([[7] + [99] * 15, [9] + [99] * 15], np.int8))
        rig.put(WEIGHTS, np.array([[1] * 2 + [0] * 30] * 16, np.int8))
        rig.run(CNA | CORE | DPU, {
            **products(16), **size(16, 1, 4), **lowest, **highest, "CUBE_CHANNEL": 15 << 16 | 15, "WDMA_SIZE_0": 3, "CONV_CON3": 9 | 1 << 8,
            "CVT_CON0": 9, "DATA_SIZE0": 2 << 16 | 1, "DATA_SIZE1": 32, "PAD_CON0": 1 << 8, "PAD_CON1": 5, "LINE_STRIDE": 8,
            "CORE_SIZE0": 3, "BS_CFG": 0x53, "BN_CFG": 0x13, "EW_CFG": 0x10041C1, "BRDMA_CFG": 0, "DATA_FORMAT": 0x800000})
        self.assertEqual(rig.get(TARGET_AT, 4 * ATOM)[::ATOM].tolist(), [10, 12, 5, 14])

    def test_lut_in(self):
        rows = self.both(self.LUT_IN, self.table([32 * 3 + 16] + [0] * 15, [0, 1, 2, 3, 4], BN_MUL_CFG=1 << 16 | 5 << 8))
        self.assertEqual([row[0] for row in rows], [0, 0])  # numbers 4 and 3, both in the table's first step
        rows = self.both(self.LUT_IN, self.table([63 * 2 + 1] + [0] * 15, [0, 32, 64, 96], BN_MUL_CFG=1 << 16 | 1 << 8))
        self.assertEqual([row[0] for row in rows], [64, 63])

    def test_lut_line(self):
        rows = self.both(self.LUT_LINE, self.table([16] + [0] * 15, [0, -1]))
        self.assertEqual([row[0] for row in rows], [-1, 0])

    def test_lut_slope(self):
        rows = self.both(self.LUT_SLOPE, self.table([16384 + 1] + [0] * 15, [0], LUT_LO_SLOPE_SCALE=0xFFFF << 16, LUT_LO_SLOPE_SHIFT=1 << 5))
        self.assertEqual([row[0] for row in rows], [-1, 0])

    def test_bn_order(self):
        rows = self.both(self.BN_ORDER, self.table([8] + [0] * 15, [0, 32, 64, 96], BN_MUL_CFG=2 << 16, BN_ALU_CFG=4))
        self.assertEqual([row[0] for row in rows], [20, 24])


@unittest.skipUnless(VECTORS.is_dir(), "skipped: ../shared/npu-vectors is not here")
class Vectors(unittest.TestCase):
    def test_ties_of_the_output_conversion(self):
        for shift in (1, 3):
            for away in (0, 1):
                name = f"rk3588_outcvt_tie_shift{shift}_round{away}"
                sums, expected = numbers(name + ".acc.i32", "<i4"), numbers(name + ".out.i32", "<i4")
                rig, n = Rig(), len(sums)
                rig.put(TABLE, sums)
                rig.run(CONV, products(n, BS_CFG=0x20150, OUT_CVT_SHIFT=away << 30 | shift))
                np.testing.assert_array_equal(rig.get(TARGET_AT, n), np.clip(expected, -128, 127), name)

    def test_shifts_of_their_own_for_negative_numbers(self):
        for c in case("rk3576_bs_signsplit")["cases"]:
            rig = Rig()
            rig.put(TABLE, np.array([c["acc"]] * 8, "<i4"))
            rig.put(TABLE + 48, np.array([c["C"]] * 8, "<i2"))
            # Half of what comes out of BS at most fits a byte: the rest is looked at in parts.
            for low in range(0, 18, 6):
                rig.run(CONV, products(8, BS_CFG=0x20140, BRDMA_CFG=0xE, BS_MUL_CFG=c["s_pos"] << 8 | 1,
                                       DATA_FORMAT=c["s_neg"] << 4, OUT_CVT_SHIFT=low))
                expected = np.clip(round(c["v"] / (1 << low)), -128, 127)  # Python rounds ties to even, too
                self.assertEqual(rig.get(TARGET_AT, 1)[0], expected, c)

    def test_tables(self):
        for path in sorted(VECTORS.glob("rv1103_lut_*.json")):
            c = json.loads(path.read_text(encoding="utf-8"))
            q, named, files = c["quant"], c["registers"], c["files"]
            sums = numbers(files["accumulator_int32"], "<i4")
            for name, tables in files["tables"].items():
                rig, n = Rig(), len(sums)
                rig.put(TABLE, sums)
                for at, side in enumerate(("LE", "LO")):
                    points = [int(v) & 0xFFFF for v in numbers(tables[side], "<i2")]
                    rig.run(FROM_MEMORY, {0x4004: CLEARED, "LUT_ACCESS_CFG": 1 << 17 | at << 16, "LUT_ACCESS_DATA": points})
                rig.run(CONV, products(
                    n, BS_CFG=0x20150, BN_CFG=0x20040 | 2, BN_MUL_CFG=q["bn_mult"] << 16 | q["bn_shift_pos"] << 8,
                    DATA_FORMAT=q["bn_shift_neg"] << 10, EW_CFG=0x302, LUT_CFG=0x68, LUT_INFO=0x50500,
                    LUT_LE_START=-16384, LUT_LO_END=16384, OUT_CVT_OFFSET=-128,
                    OUT_CVT_SCALE=int(named["0x4084"].split()[0], 16), OUT_CVT_SHIFT=int(named["0x4088"])))
                expected = numbers(files["expected_int8"][name], np.int8)
                np.testing.assert_array_equal(rig.get(TARGET_AT, n), expected, f"{path.stem} {name}")

    def test_pools(self):
        for path in sorted(VECTORS.glob("rk3588_pool_*.json")):
            c = json.loads(path.read_text(encoding="utf-8"))
            s, rig = c["shape"], Rig()
            blocks = -(-s["C"] // ATOM)
            x = numbers(c["files"]["input_int8"], np.int8).reshape(blocks, -1, s["IH"] * s["IW"])
            rig.put(SOURCE, x.transpose(0, 2, 1))
            rig.run(POOL, {
                "POOL_IN_WIDTH": s["IW"] - 1, "POOL_IN_HEIGHT": s["IH"] - 1, "POOL_IN_CHANNEL": s["C"] - 1,
                "POOL_OUT_WIDTH": s["OW"] - 1, "POOL_OUT_HEIGHT": s["OH"] - 1, "POOL_OUT_CHANNEL": s["C"] - 1,
                "POOL_MODE": {"avg": 0, "max": 1, "min": 2}[s["method"]],
                "POOL_KERNEL": (s["SY"] - 1) << 20 | (s["SX"] - 1) << 16 | (s["KH"] - 1) << 8 | s["KW"] - 1,
                "POOL_RECIP_WIDTH": 0x10000 // s["KW"], "POOL_RECIP_HEIGHT": 0x10000 // s["KH"],
                "POOL_PAD": s["PT"] << 4 | s["PL"], "POOL_SRC_FORMAT": 1, "POOL_SRC_ADDR": SOURCE,
                "POOL_SRC_LINE_STRIDE": s["IW"] * ATOM, "POOL_SRC_SURF_STRIDE": s["IW"] * s["IH"] * ATOM,
                "POOL_DST_ADDR": TARGET_AT, "POOL_DST_SURF_STRIDE": s["OW"] * s["OH"] * ATOM})
            expected = numbers(c["files"]["expected_int8"], np.int8).reshape(blocks, ATOM, -1).transpose(0, 2, 1)
            np.testing.assert_array_equal(rig.get(TARGET_AT, expected.size), expected.reshape(-1), path.stem)


class EmulatorJudge(Judge):
    def machine_for(self):
        return emulator.Emulator(self.file.chip, self.memory)


@unittest.skipUnless(MODELS.is_dir(), "skipped: ../shared/models is not here")
class Files(unittest.TestCase):
    """Each NPU node of each file that the software NPU runs, with the inputs that this has there (of a batch, the first)."""

    def is_explained(self, judge, verdict):
        return (verdict.node.op, judge.file.tensors[verdict.node.outputs[0]].type) in EXPLAINED

    def verdicts_of(self, path):
        with tempfile.TemporaryDirectory() as name:
            dump = dump_of(path, pathlib.Path(name))
            judge = EmulatorJudge(path, dump)
            verdicts = judge.all()
            for cores in SEVERAL_CORES.get(path.stem, ()):
                shared = EmulatorJudge(path, dump, cores).all()
                self.assertEqual([(v.refused, v.differing) for v in shared], [(v.refused, v.differing) for v in verdicts],
                                 f"{path.name} on {cores} cores")
        return judge, verdicts

    def row_of(self, path):
        """The file's row of the table: every node that differs by more than a step is explained."""
        judge, verdicts = self.verdicts_of(path)
        large = [v for v in verdicts if v.largest > 1]
        for v in large:
            self.assertTrue(self.is_explained(judge, v), f"{path.name}, node {v.node.name} ({v.node.op}): "
                            f"{v.differing} of {v.values} values differ")
        near = [v for v in verdicts if v.differing and v.largest <= 1]
        refused = [v for v in verdicts if v.refused]
        for reason, n in collections.Counter(v.refused for v in refused).items():
            print(f"{path.stem}: {n} not judged: {reason}", flush=True)
        equal = len(verdicts) - len(refused) - len(near) - len(large)
        off = f"{len(near)} ({sum(v.differing for v in near)} of {sum(v.values for v in near)})" if near else ""
        others = ", ".join(f"{n} {op}" for op, n in sorted(collections.Counter(v.node.op for v in refused).items()))
        return f"| {path.stem} | {judge.file.chip} | {len(verdicts)} | {equal} | {off} | {len(large) or ''} | {others} |"

    def test_each_node_is_what_the_software_npu_computes(self):
        before, *known = NODES.read_text(encoding="utf-8").splitlines()
        rows = {row.split(" | ")[0][2:]: row for row in known if " | r" in row}
        found = {}
        for stem in sorted(FILES.keys() - NOT_RUN.keys()):
            with self.subTest(stem):
                found[stem] = self.row_of(FILES[stem])
                if not WRITES:
                    self.assertEqual(found[stem], rows.get(stem), NODES.name)
        if WRITES:
            lines = [line for line in known if " | r" not in line]
            NODES.write_text("\n".join([before, *lines, *found.values(), ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(unittest.main())
