"""npu/emu: its rules for programs and faults, public board measurements (../shared/npu-vectors) through whole
programs, and the nodes of all shared files against the software NPU."""
import collections
import json
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
# Nodes of fp16 that differ by more than one rounding, and why: in each of them the emulator does what the file's
# commands say.
EXPLAINED = {
    "AddRelu": "the commands add the second operand to itself where the first one is broadcast",
    "ConvExSwish": "tables give whole numbers, of which the software NPU keeps fractions",
}
FP16 = 10
# Files whose programs for several cores are run as well, the cores one after the other in each node.
SEVERAL_CORES = {"pp_human_segv2_custom_argmax.rk3588": (2, 3), "pp_human_segv2_custom_argmax.rk3576": (2,)}
# File -> nodes that are judged, values of these that differ by a step or one rounding, and explained nodes. What is not
# judged has its reason in docs/testing.md.
JUDGED = {
    "BCResNet-t2-simplified.rk3588": (127, 15, 14), "a_relu.rk3576": (1, 0, 0), "bias_k3.rk3576": (1, 0, 0),
    "chain.rk3576": (4, 0, 0), "conv2d.rk3576": (1, 0, 0), "deconv_depthwise.rk3566": (98, 0, 0),
    "densenet_ctc.rk3588": (127, 0, 0), "dw.rk3576": (1, 0, 0), "dwbig_112.rk3576": (1, 0, 0),
    "lpd_yolov8n.rk3562": (98, 0, 0), "lpd_yolov8n.rk3588": (98, 0, 0), "lprnet.rk3568": (51, 966, 0),
    "lprnet7_int8.rk3568": (46, 0, 0), "lprnet_us.rk3562": (49, 0, 0), "lprnet_us.rk3576": (49, 0, 0),
    "lprnet_us.rk3588": (41, 0, 0), "mobilenetv2.rk3562": (55, 0, 0), "multiple_input_demo.rk3562": (2, 0, 0),
    "multiple_input_demo.rk3566_rk3568": (2, 0, 0), "multiple_input_demo.rk3576": (2, 0, 0),
    "multiple_input_demo.rk3588": (2, 0, 0), "multiple_input_demo.rv1126b": (2, 0, 0),
    "multiple_input_demo_container2.rk3562": (1, 0, 0), "osnet_container1.rk3588": (327, 0, 0),
    "osnet_l2norm.rk3588": (240, 0, 0), "pp_human_segv2_custom_argmax.rk3562": (98, 0, 0),
    "pp_human_segv2_custom_argmax.rk3566_rk3568": (98, 0, 0),
    "pp_human_segv2_custom_argmax.rk3576": (98, 0, 0), "pp_human_segv2_custom_argmax.rk3588": (98, 11534, 0),
    "ppocrv2_det.rk3566": (101, 0, 0), "ppocrv4_det_int8.rk3576": (168, 0, 0), "ppocrv4_det_int8.rk3588": (168, 0, 0),
    "pq_oc.rk3576": (1, 0, 0), "retinaface.rv1106": (79, 0, 0), "retinaface.rv1126b": (77, 0, 0),
    "retinaface320.rk3566": (71, 2880, 0), "retinaface320.rk3576": (77, 0, 0), "sub2_after_mul.rk3588": (8, 1, 1),
    "sub_after_block1.rk3588": (11, 1, 2), "sub_fix_after_pad.rk3588": (11, 1, 0),
    "sub_fix_after_swish.rk3588": (12, 1, 1), "test_bcblock.rk3588": (6, 1, 0), "test_conv_c1.rk3588": (1, 0, 0),
    "test_conv_c16.rk3588": (1, 23, 0), "test_stack_2.rk3588": (14, 1, 0), "yolo26n_attention.rk3588": (155, 0, 0),
    "yolo26n_seven_sections.rv1106": (153, 0, 0), "yolov5n_silu.rk3588": (85, 0, 0), "yolov8.rv1103": (98, 0, 0),
}


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
        self.refused(r"\(0x4014\) holds 0x00000005: nothing here reads it", FROM_MEMORY, copy(16, 2, 2) | {0x4014: 5})

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
    """The runs of docs/board-testing.md that settle a switch (tensor/arithmetic.h), each with both of its answers."""

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
    """Each NPU node of each file that the software NPU runs, with the inputs that this has there."""

    def is_explained(self, judge, verdict):
        return verdict.node.op in EXPLAINED and judge.file.tensors[verdict.node.outputs[0]].type == FP16

    def check(self, path):
        nodes, off, explained = JUDGED[path.stem]
        with tempfile.TemporaryDirectory() as name:
            dump = dump_of(path, pathlib.Path(name))
            judge = EmulatorJudge(path, dump)
            verdicts = judge.all()
            for cores in SEVERAL_CORES.get(path.stem, ()):
                shared = EmulatorJudge(path, dump, cores).all()
                self.assertEqual([(v.refused, v.differing) for v in shared], [(v.refused, v.differing) for v in verdicts],
                                 f"{path.name} on {cores} cores")
        judged = [v for v in verdicts if not v.refused]
        large = [v for v in judged if v.largest > 1]
        for v in large:
            self.assertTrue(self.is_explained(judge, v), f"{path.name}, node {v.node.name} ({v.node.op}): "
                            f"{v.differing} of {v.values} values differ")
        differing = sum(v.differing for v in judged if v.largest <= 1)
        equal = sum(not v.differing for v in judged)
        print(f"{path.stem:44} {len(verdicts):4} nodes on the NPU {len(judged):4} judged {equal:4} equal "
              f"{len(judged) - equal - len(large):4} within a step {len(large):3} explained", flush=True)
        for reason, n in collections.Counter(v.refused for v in verdicts if v.refused).items():
            print(f"    {n} not judged: {reason}")
        self.assertGreaterEqual(len(judged), nodes)
        self.assertLessEqual(differing, off, path.name)
        self.assertLessEqual(len(large), explained, path.name)

    def test_each_node_is_what_the_software_npu_computes(self):
        for stem in JUDGED:
            with self.subTest(stem):
                self.check(FILES[stem])


if __name__ == "__main__":
    sys.exit(unittest.main())
