"""npu/emu: programs of fp16 by hand, one for each thing that the softmax of files is made of: maxima of channels, what
stands behind the last one, differences, quotients, products of few channels, and fp16 of int8."""
import sys
import unittest

import numpy as np

from npuref import Unsupported, registers
from npuref.program import CNA, CORE, DPU, DPU_RDMA
from npuref.test_emulator import ATOM, FROM_MEMORY, SOURCE, TABLE, TARGET_AT, WEIGHTS, Rig, copy

LANES, PIXELS, LEAST = 8, 5, 0xFBFF
OPERAND = 0x2000
CORE_MAXIMA = 8  # the switch, in tensor/arithmetic.h


def atoms(values):
    """[channels, pixels] in surfaces of atoms."""
    channels, pixels = values.shape
    padded = np.zeros((-(-channels // LANES) * LANES, pixels), np.float16)
    padded[:channels] = values
    return padded.reshape(-1, LANES, pixels).transpose(0, 2, 1).copy()


def some(channels, pixels=PIXELS):
    return np.random.default_rng(3).normal(-2, 1, (channels, pixels)).astype(np.float16)


class RK3588(unittest.TestCase):
    HALVES = {"DATA_FORMAT": 0x48000002, 0x5044: 0x17841, "OUT_CVT_SCALE": 0x10001}
    WORDS = {"DATA_FORMAT": 0x24000001, 0x5044: 0xF821}
    MAXIMA = {0x400C: 0x2000005, "CUBE_HEIGHT": 7 << 22, "OUT_CVT_SCALE": 1, 0x4088: 1 << 30}
    DIFFERENCE, QUOTIENT = 0x108402C0, 0x108303C0
    FILL = {"CUBE_CHANNEL": 3 << 16 | 3, "WDMA_SIZE_0": 7}  # four channels of eight that are written

    def setUp(self):
        self.rig = self.new_rig()

    @staticmethod
    def new_rig():
        return Rig()

    def program(self, channels, **more):
        return copy(channels, 1, PIXELS, **more)

    def numbers(self, count):
        return self.rig.get(TARGET_AT, count, np.float16)

    def test_maxima_are_one_number_for_each_pixel(self):
        x = some(16)
        self.rig.put(SOURCE, atoms(x))
        self.rig.put(TARGET_AT, np.full(PIXELS + 1, 77, np.float16))
        self.rig.run(FROM_MEMORY, {**self.program(16), **self.HALVES, **self.MAXIMA})
        np.testing.assert_array_equal(self.numbers(PIXELS + 1), [*x.max(0), 77])

    def test_maxima_of_another_kind_are_refused(self):
        self.rig.put(SOURCE, atoms(some(16)))
        for wrong in (self.MAXIMA["CUBE_HEIGHT"] & (self.MAXIMA["CUBE_HEIGHT"] - 1), self.MAXIMA["CUBE_HEIGHT"] | 1):
            with self.assertRaisesRegex(Unsupported, "maxima"):
                self.rig.run(FROM_MEMORY, {**self.program(16), "RDMA_HEIGHT": wrong & 1, **self.HALVES, **self.MAXIMA, "CUBE_HEIGHT": wrong})

    def test_a_copy_in_place_fills_what_is_behind(self):
        x = some(LANES)
        self.rig.put(SOURCE, atoms(x))
        for least in (LEAST, 0):
            self.rig.run(FROM_MEMORY, {**self.program(4, DST_ADDR=SOURCE), **self.WORDS, **self.FILL, 0x4014: least})
            x[4:] = np.array(least, np.uint16).view(np.float16)
            np.testing.assert_array_equal(self.rig.get(SOURCE, x.size, np.float16), atoms(x).ravel())

    def test_what_is_filled_was_read_but_for_the_last_atom(self):
        with self.assertRaisesRegex(Unsupported, "more channels than are read"):
            self.rig.run(FROM_MEMORY, {**self.program(4, DST_ADDR=SOURCE), **self.WORDS, **self.FILL, "WDMA_SIZE_0": LANES, 0x4014: LEAST})

    def test_two_operands(self):
        x, y = some(LANES), some(LANES)[::-1] + np.float16(7)
        self.rig.put(SOURCE, atoms(x))
        self.rig.put(OPERAND, atoms(y))
        for cfg, expected in ((self.DIFFERENCE, x.astype(np.float32) - y), (self.QUOTIENT, x.astype(np.float32) / y)):
            self.rig.run(FROM_MEMORY, {**self.program(LANES), **self.HALVES, "EW_CFG": cfg, "EW_CVT_SCALE": 1,
                                       "ERDMA_CFG": 0x40000008, "EW_ADDR": OPERAND,
                                       "EW_SURF_STRIDE": PIXELS * self.UNIT})
            np.testing.assert_array_equal(self.numbers(x.size), atoms(expected.astype(np.float16)).ravel())

    def test_bf16_is_read_and_written(self):
        """As the square root of a norm has it: the main reader's precision is its own."""
        x = some(LANES)
        self.rig.put(SOURCE, atoms(x))
        square = {"EW_CFG": 0x108003C4, "EW_CVT_SCALE": 1, "ERDMA_CFG": 0x40000008, "EW_SURF_STRIDE": PIXELS * ATOM}
        self.rig.run(FROM_MEMORY, {**self.program(LANES, DST_ADDR=OPERAND), **self.HALVES, **square, "EW_ADDR": SOURCE,
                                   "DATA_FORMAT": 0x68000002})
        bits = (x.astype(np.float32) ** 2).view(np.uint32).astype(np.uint64)
        rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        np.testing.assert_array_equal(self.rig.get(OPERAND, x.size, np.uint16), rounded.T.ravel())
        self.rig.run(FROM_MEMORY, {**self.program(LANES, SRC_ADDR=OPERAND), **self.HALVES, 0x5044: 0x1F869,
                                   "BS_CFG": 0x42, "BS_MUL_CFG": 0xB800 << 16})
        halves = (rounded.astype(np.uint32) << 16).view(np.float32) * np.float32(-0.5)
        np.testing.assert_array_equal(self.numbers(x.size), atoms(halves.astype(np.float16)).ravel())

    UNIT = ATOM  # what strides of the DPU count in


class RK3576(RK3588):
    HALVES = {"DATA_FORMAT": 0x40000002, 0x5044: 0x10049, "OUT_CVT_SCALE": 0x10001}
    WORDS = {"DATA_FORMAT": 0x20000001, 0x5044: 0x8029}
    MAXIMA = {0x400C: 0x2000005, "CUBE_HEIGHT": 0x25 << 16, "OUT_CVT_SCALE": 1, 0x40B4: 1 << 30}
    DIFFERENCE, QUOTIENT = 0x0004C0C0, 0x810021C8
    FILL = {"WDMA_SIZE_0": 3 << 16}
    UNIT = 1
    BOUNDS = {low + 4 * i: (0x80000000, 0x7FFFFFFF)[i] for low in (0x4048, 0x4058, 0x406C, 0x4074, 0x4088, 0x40A4) for i in (0, 1)}
    FROM_CORE = CNA | CORE | DPU
    # RK3588's alone; here WDMA_SIZE_0 says how many are real.
    test_bf16_is_read_and_written = test_what_is_filled_was_read_but_for_the_last_atom = None

    @staticmethod
    def new_rig():
        return Rig("rk3576", registers.RK3576)

    def program(self, channels, **more):
        off = {"BS_CFG": 0x53, "BN_CFG": 0x903, "EW_CFG": 0x10041C1, "DST_SURF_STRIDE": PIXELS, "WDMA_SIZE_0": (channels - 1) << 16}
        return {**copy(channels, 1, PIXELS), **off, **self.BOUNDS, **more}

    def product(self, channels, kernels, **more):
        """1 x 1, of as many pixels."""
        line = {"DATA_SIZE0": (PIXELS - 1) << 16, "DMA_SIZE": (PIXELS - 1) << 16, "LINE_STRIDE": 4 * PIXELS,
                "SURFACE_STRIDE": PIXELS, "FEATURE_ADDR": SOURCE}
        return {**size_of(kernels), **self.BOUNDS, **line, "CONV_CON1": 0x200120, "CONV_CON3": 9, "CORE_MISC": 0x200,
                "CVT_CON0": 0xB, "DATA_SIZE1": channels - 1, "DATA_CHANNEL_REAL": channels - 1,
                "WEIGHT_ADDR": WEIGHTS, "WEIGHT_SIZE0": kernels * LANES * 2, "WEIGHT_SIZE1": LANES * 2,
                "WEIGHT_SIZE2": kernels - 1, "CORE_SIZE0": PIXELS - 1, "CORE_SIZE1": kernels - 1, 0x400C: 0x40000004,
                "DATA_FORMAT": 0x40000002, "BS_OW_CFG": 0x20000, "OUT_CVT_SCALE": 0x10001, **more}

    def test_products_of_few_channels(self):
        x, w = some(6), some(LANES, 6)
        self.rig.put(SOURCE, atoms(x))
        self.rig.put(WEIGHTS, np.pad(w, ((0, 0), (0, 2)), constant_values=9))  # channels that are not there count for nothing
        self.rig.run(self.FROM_CORE, self.product(6, LANES))
        expected = (w.astype(np.float64) @ x.astype(np.float64)).astype(np.float32).astype(np.float16)
        np.testing.assert_array_equal(self.numbers(expected.size), atoms(expected).ravel())

    def test_packed_pixels(self):
        x, w = some(3), some(LANES, 3)
        self.rig.put(SOURCE, x.T.copy())
        self.rig.put(WEIGHTS, np.pad(w, ((0, 0), (0, 1))))
        # The converter is off, whatever else its register says.
        packed = {"CONV_CON1": 0x2020A122, "CORE_MISC": 0x280, "CVT_CON0": 0xE38E9, "CVT_OFFSET": -104, "LINE_STRIDE": 2,
                  "WEIGHT_SIZE0": LANES * 8, "WEIGHT_SIZE1": 8}
        self.rig.run(self.FROM_CORE, self.product(4, LANES, **packed))
        expected = (w.astype(np.float64) @ x.astype(np.float64)).astype(np.float32).astype(np.float16)
        np.testing.assert_array_equal(self.numbers(expected.size), atoms(expected).ravel())

    # Of two atoms of eight kernels for each pixel, as the softmax of a file takes them.
    CORE_MAXIMA = {"BS_OW_CFG": 0x120000, "CUBE_CHANNEL": 7, "CUBE_HEIGHT": 0x25 << 16, "CUBE_WIDTH": 2 * PIXELS - 1, "WDMA_SIZE_0": 0,
                   "WDMA_SIZE_1": (PIXELS - 1) << 16, 0x4014: 0xFBFB, 0x40B4: 1 << 30, 0x40CC: 4}

    def put_spread(self, rig, x):
        """Four channels to the first half of each atom, and nothing to the other one, as the file has it."""
        w = np.zeros((16, LANES), np.float16)
        w[[0, 1, 2, 3, 8, 9, 10, 11], range(LANES)] = 1
        rig.put(SOURCE, atoms(x))
        rig.put(WEIGHTS, w)

    def test_maxima_of_a_core(self):
        """Switch core-maxima: numbers below 0 beside zeros, which count or do not."""
        x, found = -np.abs(some(LANES)), []
        for choice in (None, 0, 1):
            rig = self.new_rig()
            if choice is not None:
                rig.emulator.choose(CORE_MAXIMA, choice)
            self.put_spread(rig, x)
            rig.put(TARGET_AT, np.full(LANES * PIXELS + 1, 77, np.float16))
            rig.run(self.FROM_CORE, {**self.product(LANES, 16), **self.CORE_MAXIMA})
            found.append(rig.get(TARGET_AT, LANES * PIXELS + 1, np.float16))
        expected = np.full((PIXELS, LANES), np.uint16(0xFBFB).view(np.float16))
        expected[:, 0], expected[:, 1] = x[:4].max(0), x[4:].max(0)
        self.assertTrue((expected < 0).all())
        np.testing.assert_array_equal(found[1], [*expected.ravel(), 77])
        np.testing.assert_array_equal(found[0], found[1], "the first is what is taken")
        expected[:, :2] = 0
        np.testing.assert_array_equal(found[2], [*expected.ravel(), 77])

    def test_maxima_of_a_core_of_another_kind_are_refused(self):
        for changed, why in (({0x4014: 0xFBFF}, "not the same byte twice"), ({0x40CC: 2}, "pieces that are not"), ({0x40CC: 0}, "pieces that are not"),
                             ({"CORE_SIZE1": 7}, "other than 16 kernels"), ({"CUBE_CHANNEL": 15}, "other than eight channels"),
                             ({"CUBE_WIDTH": PIXELS - 1}, "not the atoms of"), ({"WDMA_SIZE_1": PIXELS - 1}, "not the size of"),
                             ({"CORE_SIZE0": 1 << 16 | (PIXELS - 1)}, "more than a line"), ({"CUBE_NOTCH": 1}, "with gaps"),
                             ({"WDMA_SIZE_0": 7 << 16}, "more than one surface"), ({"BS_OW_CFG": 0x20000}, "written in another way"),
                             ({0x400C: 0x42000004}, "written in another way"), ({"CUBE_HEIGHT": 0x24 << 16}, "of another kind"),
                             ({"BS_CFG": 0x100090, "BRDMA_CFG": 2, 0x5024: TABLE, 0x5044: 0x10050, "ERDMA_CFG": 1}, "sums that are changed")):
            with self.subTest(why), self.assertRaisesRegex(Unsupported, why):
                rig, enable = self.new_rig(), self.FROM_CORE | (DPU_RDMA if "BS_CFG" in changed else 0)
                self.put_spread(rig, some(LANES))
                rig.run(enable, {**self.product(LANES, 16), **self.CORE_MAXIMA, **changed})

    def test_maxima_in_pieces_are_refused(self):
        with self.assertRaisesRegex(Unsupported, "in pieces"):
            self.rig.run(FROM_MEMORY, {**self.program(16), **self.HALVES, **self.MAXIMA, 0x40CC: 4})

    def test_products_whose_rounding_is_not_known_are_refused(self):
        with self.assertRaisesRegex(Unsupported, r"\(0x1024\) holds 0x02020007: sums of fp16 of more than 16 products"):
            self.rig.run(self.FROM_CORE, self.product(6, LANES, WEIGHT_SIZE2=0x2020007))
        with self.assertRaisesRegex(Unsupported, r"\(0x100c\) holds 0x00000120: neither int8 nor fp16"):
            self.rig.run(self.FROM_CORE, self.product(6, LANES, CONV_CON1=0x120))

    def test_fp16_of_int8(self):
        """As exDataConvert of files has it: what is rounded to a whole number, plus OFFSET, is 2^-14 of what comes out."""
        x = np.arange(-128, 128, dtype=np.int8).reshape(-1, ATOM)
        self.rig.put(SOURCE, x)
        self.rig.put(TABLE, np.array([2, 0], "<i4"))
        self.rig.run(FROM_MEMORY, {
            **self.program(256), "DST_SURF_STRIDE": 1, "RDMA_WIDTH": 0, "CUBE_WIDTH": 0, "WDMA_SIZE_1": 0, "BN_CFG": 0x920,
            0x5028: 2, 0x5030: TABLE, "DATA_FORMAT": 0x40000000, 0x5044: 9,
            "OUT_CVT_OFFSET": 1, "OUT_CVT_SCALE": 0x15F3B, 0x40B4: 0xE005})
        expected = [(round((q + 2) * 0x5F3B / 32) + 1) / 2**14 for q in range(-128, 128)]
        np.testing.assert_array_equal(self.numbers(256), np.array(expected, np.float32).astype(np.float16))


def size_of(kernels):
    """Of a DPU that takes a line of pixels from the core."""
    return {"CUBE_CHANNEL": kernels - 1, "CUBE_HEIGHT": 0, "CUBE_WIDTH": PIXELS - 1, "WDMA_SIZE_0": (kernels - 1) << 16,
            "WDMA_SIZE_1": PIXELS - 1, "DST_SURF_STRIDE": PIXELS, "DST_ADDR": TARGET_AT, "BS_CFG": 0x53, "BN_CFG": 0x903,
            "EW_CFG": 0x10041C1}


if __name__ == "__main__":
    sys.exit(unittest.main())
