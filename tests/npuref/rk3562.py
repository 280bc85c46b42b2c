"""The registers of RK3562, and those of RK3576 and RV1126B, which hold most sizes less one."""
import numpy as np

from npuref import Unsupported
from npuref.conv import Shape
from npuref.dpu import HIGHEST, LOWEST, Cube, Multiply, Operand, Plan
from npuref.integers import field, signed
from npuref.rk3588 import tables_of

LANES = 16
# BS_CFG: (add, multiply), each by what is in memory, by a register's value, or not at all.
TABLE, CONSTANT, NONE = range(3)
BS = {0x120080: (TABLE, TABLE), 0x120E80: (TABLE, TABLE), 0x100092: (TABLE, NONE),
      0x100090: (TABLE, NONE), 0x120090: (TABLE, NONE), 0x100012: (CONSTANT, CONSTANT)}


class RK3562:
    lanes, kernel_block, depthwise_block, group = LANES, 16, 32, 4
    less_one, pool_format = 0, 0x40

    def __init__(self, r, memory, tables):
        self.r, self.memory, self.tables = r, memory, tables

    def _get(self, register, high=31, low=0):
        return field(self.r.get(register, 0), high, low)

    def _refuse(self, register, name):
        raise Unsupported(f"{name} {self.r.get(register, 0):#x}")

    # ---- CNA and CORE

    def _kernel(self):
        """Kernels, and the size of one."""
        return self._get(0x1024, 13, 0), (self._get(0x1024, 20, 16), self._get(0x1024, 28, 24))

    def _mode(self):
        """(depthwise, channels of packed pixels or 0)."""
        mode = self._get(0x100C)
        packed = self._get(0x100C, 15, 12) and self._get(0x100C, 15, 12) - 7
        if self._get(0x100C, 9, 4) or mode & 0xF not in (0, 1, 2, 5):
            self._refuse(0x100C, "CONV_CON1")
        return mode & 0xF in (1, 5), packed  # 5: weights in pairs

    def _unsigned(self):
        if self._get(0x1048) == 0xB:
            return False
        if self._get(0x104C) == 0x40004000 and self._get(0x1054) == 0xFFFFFF80:
            return True  # (x - 128) * 0x4000 >> 14
        return self._refuse(0x1048, "CVT_CON0")

    def _feature(self, height):
        # Rows of the task before may still be in the chip: the tile begins that many lines earlier.
        kept = height - (self._get(0x1078, 15, 0) + self.less_one)
        line = self._get(0x1090) // (1 if self._get(0x100C, 29, 29) else 4) * LANES
        return Cube(self._get(0x1088) - kept * line, self._get(0x1094) * LANES, line, LANES)

    def _packed_feature(self, packed, width):
        return Cube(self._get(0x1088), 0, width * packed, packed)

    def conv(self):
        m = self.less_one
        depthwise, packed = self._mode()
        if self._get(0x1014, 27, 6):
            self._refuse(0x1014, "CONV_CON3")
        kernels, kernel = self._kernel()
        channels = 4 if packed else self._get(0x1028, 13, 0) + m
        width, height = self._get(0x102C, 31, 16) + m, self._get(0x102C, 15, 0) + m
        pads, weight_bytes = self._get(0x1080), self._get(0x101C)
        paired = depthwise and weight_bytes == 2 * self._get(0x1020, 15, 0)
        return Shape(
            channels, packed or self._get(0x107C) + m, height, width,
            self._packed_feature(packed, width) if packed else self._feature(height), self._unsigned(),
            depthwise, kernel, stride=(self._get(0x1014, 5, 3), self._get(0x1014, 2, 0)), dilation=(1, 1),
            pad_top=pads & 0xFF, pad_left=pads >> 8 & 0xFF, pad_value=signed(self._get(0x1084), 8),
            out_height=self._get(0x301C, 31, 16) + 1, out_width=self._get(0x301C, 15, 0) + 1,
            out_channels=self._get(0x3020, 15, 0) + 1, kernels=kernels, weights=self._get(0x1110),
            weight_bytes=weight_bytes, bytes_per_kernel=self._get(0x1020, 15, 0),
            kernel_block=self.kernel_block, depthwise_block=self.depthwise_block, paired=paired,
            weight_zero=signed(self._get(0x1074), 8),
            clip=self._get(0x3024, 4, 0), rows_of_16=packed and m == 1)

    # ---- DPU

    def _groups(self, channels, with_b):
        """Groups of A, B where it is there, C."""
        n, groups = self.group, -(-channels // self.group)
        sizes = [(4 * n, "<i4")] + ([(2 * n, "<i2")] if with_b else []) + [(2 * n, "<i2")]
        size = sum(s for s, _ in sizes)
        data = self.memory.read(self._get(0x5020), groups * size, np.uint8).reshape(groups, size)
        parts, at = [], 0
        for s, kind in sizes:
            parts.append(data[:, at : at + s].copy().view(kind).reshape(-1))
            at += s
        return parts if with_b else [parts[0], None, parts[1]]

    def _coefficients(self, channels):
        use, base = self._get(0x501C), self._get(0x5020)
        if use in (0, 1):
            return [None, None, None]
        if use == 0xE:
            parts = self._groups(channels, True)
        elif use == 0xA:
            parts = self._groups(channels, False)
        elif use == 2:
            parts = [self.memory.read(base, channels, "<i4"), None, None]
        else:
            self._refuse(0x501C, "RDMA_BRDMA_CFG")
        return [None if p is None else p[:channels].astype(np.int64)[:, None, None] for p in parts]

    def _shifts(self):
        return self._get(0x4038, 12, 8), self._get(0x4054, 21, 16)

    def _constants(self):
        """What a memory program adds and multiplies with (None: not)."""
        factor = self._get(0x4044, 31, 16)
        return signed(self._get(0x4040), 32), signed(factor, 16) if factor else None

    def _constant_shifts(self):
        return self._shifts()

    def _window(self, b):
        """What is multiplied with the sum of the inputs."""
        if self._get(0x4050, 1, 0) == 2 and not self._get(0x4054, 15, 0):
            return None
        return b if self._get(0x4050, 0, 0) else signed(self._get(0x4054), 16)

    def _bs(self, channels, from_core):
        cfg, m = self._get(0x4038), Multiply()
        m.low = max(signed(self._get(0x4048), 32), signed(self._get(0x4058), 32))
        m.high = min(signed(self._get(0x404C), 32), signed(self._get(0x405C), 32))
        if cfg & 1:
            return m
        if cfg & ~0x1F00 not in {c & ~0x1F00 for c in BS}:
            self._refuse(0x4038, "BS_CFG")
        add, multiply = next(v for c, v in BS.items() if c & ~0x1F00 == cfg & ~0x1F00)
        a, b, c = self._coefficients(channels) if TABLE in (add, multiply) else (None,) * 3
        m.add = a if add == TABLE else self._constants()[0]
        if from_core:
            m.window = self._window(b)
        if multiply == TABLE or add == TABLE and c is not None:
            m.factor = c
            m.shift, m.negative_shift = self._shifts()
        elif multiply == CONSTANT:
            m.factor = self._constants()[1]
            m.shift, m.negative_shift = self._constant_shifts()
        return m

    def _bn(self):
        m = Multiply()
        if self._get(0x4060) == 0x20000 and not self._get(0x4068, 0, 0):
            m.factor = signed(self._get(0x4068, 31, 16), 16)
            m.shift, m.negative_shift = self._get(0x4068, 13, 8), self._get(0x4010, 15, 10)
        elif self._get(0x4060) not in (0x903, 0x902, 0x13, 0x12):
            self._refuse(0x4060, "BN_CFG")
        m.low = max(signed(self._get(at), 32) for at in (0x406C, 0x4074))
        m.high = min(signed(self._get(at), 32) for at in (0x4070, 0x4078))
        return m

    def _operand(self, shape):
        channels, height, width = shape
        surface = self._get(0x5040) * LANES
        cube = Cube(self._get(0x5038), surface, width * LANES, LANES)
        return self.memory.at(cube.addresses(*shape)).astype(np.int64)

    def _tables(self):
        return tables_of(self.r, self.tables, 0x160)

    def _ew(self, shape):
        cfg = self._get(0x407C)
        if cfg == 0x10041C1:
            return None
        if cfg == 0x1004140:
            return self._tables()
        ops = {0x8002C0C0: np.add, 0x8000C0C4: np.multiply, 0x8000C0C0: np.maximum}
        if cfg not in ops:
            self._refuse(0x407C, "EW_CFG")
        return Operand(self._operand(shape), ops[cfg], signed(self._get(0x4080), 16),
                       signed(self._get(0x4084), 16), self._get(0x4084, 21, 16))

    def _gapped_line(self, width, notch):
        return self._get(0x40B8)

    def _target(self, shape):
        """Lines of atoms; or lines of pixels with gaps between them."""
        _, height, width = shape
        base, surface = self._get(0x4018), self._get(0x401C) * LANES
        notch, written = self._get(0x4028, 12, 0), self._get(0x4030, 31, 16) + 1
        size = self._get(0x4034, 28, 16) + 1, self._get(0x4034, 12, 0) + 1
        if size == (height, width):
            return Cube(base, surface, (width + notch) * LANES, LANES), written
        if size == (height, 1):
            line = self._gapped_line(width, notch) * LANES
            return Cube(base, surface, line, LANES, (1 + notch) * LANES), written // width
        return self._refuse(0x4034, f"for {height} x {width}: WDMA_SIZE_1")

    def plan(self, from_core):
        if self._get(0x4010, 31, 26) or self._get(0x4010, 2, 0):
            self._refuse(0x4010, "not int8: DATA_FORMAT")
        sizes = (0x402C, 0x4024, 0x4020) if from_core else (0x5014, 0x5010, 0x500C)
        shape = tuple(self._get(at, 12, 0) + 1 for at in sizes)
        channels, height, width = shape
        source = None
        if not from_core:
            line = width + self._get(0x5078)
            surface = (height - 1) * line + width + signed(self._get(0x504C), 28)
            source = Cube(self._get(0x5018), surface * LANES, line * LANES, LANES)
        target, written = self._target(shape)
        low = max(signed(self._get(at), 32) for at in (0x4088, 0x40A4))
        high = min(signed(self._get(at), 32) for at in (0x408C, 0x40A8))
        return Plan(shape, source, self._bs(channels, from_core), self._bn(), self._ew(shape),
                    (low, high), scale=signed(self._get(0x40B0), 16), shift=self._get(0x40B4, 5, 0),
                    offset=signed(self._get(0x40AC), 32), away=bool(self._get(0x40B4, 30, 30)),
                    target=target, channels=written)


class RK3576(RK3562):
    """Tables have registers of their own (0x4140 and on), which nothing here reads."""
    kernel_block, depthwise_block, group, less_one = 32, 64, 8, 1

    def _kernel(self):
        return (self._get(0x1024, 15, 0) + 1,
                (self._get(0x1024, 23, 16) + 1, self._get(0x1024, 31, 24) + 1))

    def _mode(self):
        mode = self._get(0x100C)
        packed = self._get(0x100C, 15, 12) and self._get(0x100C, 15, 12) - 7
        if self._get(0x100C, 11, 4) or mode & 0xF not in (0, 1, 6):
            self._refuse(0x100C, "CONV_CON1")
        return mode & 0xF == 1, packed

    def _packed_feature(self, packed, width):
        return Cube(self._get(0x1088), 0, self._get(0x1090) * LANES, packed)

    def _gapped_line(self, width, notch):
        return (width - 1) * (1 + notch) + 1 + self._get(0x40B8)

    def _tables(self):
        return self._refuse(0x407C, "a table: EW_CFG")

    def _words(self):
        """The configuration tensor: shifts of a convolution; what a memory program adds, multiplies
        with (byte 32) and shifts by (48, 49)."""
        return self.memory.read(self._get(0x5024), 64, np.uint8)

    def _shifts(self):
        words = self._words()
        return int(words[0] & 0x3F), int(words[1] & 0x3F)

    def _constants(self):
        words = self._words().view("<i2")
        return int(words[0]), int(words[16]) if self._get(0x501C, 3, 3) else None

    def _constant_shifts(self):
        words = self._words()
        return (int(words[48] & 0x3F), int(words[49] & 0x3F)) if self._get(0x501C, 3, 3) else (0, 0)

    def _window(self, b):
        if self._get(0x4050, 19, 16) == 2:
            return int(self._words().view("<i2")[0])
        return b

    def _coefficients(self, channels):
        use = self._get(0x501C)
        if use == 0x710:
            parts = self._groups(channels, True)
        elif use == 0x510:
            parts = self._groups(channels, False)
        elif use == 0x110:
            parts = [self.memory.read(self._get(0x5020), channels, "<i4"), None, None]
        else:
            self._refuse(0x501C, "RDMA_BRDMA_CFG")
        return [None if p is None else p[:channels].astype(np.int64)[:, None, None] for p in parts]
