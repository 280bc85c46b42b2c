"""The registers of RK3562, and those of RK3576 and RV1126B, which hold most sizes less one."""
import numpy as np

from npuref import registers
from npuref.conv import Shape
from npuref.dpu import Cube, Multiply, Operand, Plan
from npuref.integers import signed
from npuref.registers import Unit
from npuref.rk3588 import tables_of

LANES = 16
# BS_CFG: (add, multiply), each by what is in memory, by a register's value, or not at all.
TABLE, CONSTANT, NONE = range(3)
BS = {0x120080: (TABLE, TABLE), 0x120E80: (TABLE, TABLE), 0x100092: (TABLE, NONE),
      0x100090: (TABLE, NONE), 0x120090: (TABLE, NONE), 0x100012: (CONSTANT, CONSTANT)}


class RK3562(Unit):
    generation = registers.RK3562
    lanes, kernel_block, depthwise_block, group = LANES, 16, 32, 4
    less_one, pool_format = 0, 0x40


    # ---- CNA and CORE

    def _kernel(self):
        """Kernels, and the size of one."""
        return self.get("WEIGHT_SIZE2", 13, 0), (self.get("WEIGHT_SIZE2", 20, 16), self.get("WEIGHT_SIZE2", 28, 24))

    def _mode(self):
        """(depthwise, channels of packed pixels or 0)."""
        mode = self.get("CONV_CON1")
        packed = self.get("CONV_CON1", 15, 12) and self.get("CONV_CON1", 15, 12) - 7
        if self.get("CONV_CON1", 9, 4) or mode & 0xF not in (0, 1, 2, 5):
            self.refuse("CONV_CON1")
        return mode & 0xF in (1, 5), packed  # 5: weights in pairs

    def _unsigned(self):
        if self.get("CVT_CON0") == 0xB:
            return False
        if self.get("CVT_CON1") == 0x40004000 and self.get("CVT_OFFSET") == 0xFFFFFF80:
            return True  # (x - 128) * 0x4000 >> 14
        return self.refuse("CVT_CON0")

    def _feature(self, height):
        # Rows of the task before may still be in the chip: the tile begins that many lines earlier.
        kept = height - (self.get("DMA_SIZE", 15, 0) + self.less_one)
        line = self.get("LINE_STRIDE") // (1 if self.get("CONV_CON1", 29, 29) else 4) * LANES
        return Cube(self.get("FEATURE_ADDR") - kept * line, self.get("SURFACE_STRIDE") * LANES, line, LANES)

    def _packed_feature(self, packed, width, height):
        """LINE_STRIDE has the atoms of all lines together; in container 2 those of one."""
        line, rest = divmod(self.get("LINE_STRIDE"), height)
        if rest or line * LANES < width * packed:
            line = self.get("LINE_STRIDE")
        return Cube(self.get("FEATURE_ADDR"), 0, line * LANES, packed)

    def conv(self):
        m = self.less_one
        depthwise, packed = self._mode()
        if self.get("CONV_CON3", 27, 6):
            self.refuse("CONV_CON3")
        kernels, kernel = self._kernel()
        channels = 4 if packed else self.get("DATA_SIZE1", 13, 0) + m
        width, height = self.get("DATA_SIZE0", 31, 16) + m, self.get("DATA_SIZE0", 15, 0) + m
        pads, weight_bytes = self.get("PAD_CON0"), self.get("WEIGHT_SIZE0")
        paired = depthwise and weight_bytes == 2 * self.get("WEIGHT_SIZE1", 15, 0)
        return Shape(
            channels, packed or self.get("DATA_CHANNEL_REAL") + m, height, width,
            self._packed_feature(packed, width, height) if packed else self._feature(height), self._unsigned(),
            depthwise, kernel, stride=(self.get("CONV_CON3", 5, 3), self.get("CONV_CON3", 2, 0)), dilation=(1, 1),
            pad_top=pads & 0xFF, pad_left=pads >> 8 & 0xFF, pad_value=signed(self.get("PAD_CON1"), 8),
            out_height=self.get("CORE_SIZE0", 31, 16) + 1, out_width=self.get("CORE_SIZE0", 15, 0) + 1,
            out_channels=self.get("CORE_SIZE1", 15, 0) + 1, kernels=kernels, weights=self.get("WEIGHT_ADDR"),
            weight_bytes=weight_bytes, bytes_per_kernel=self.get("WEIGHT_SIZE1", 15, 0),
            kernel_block=self.kernel_block, depthwise_block=self.depthwise_block, paired=paired,
            weight_zero=signed(self.get("WEIGHT_ZERO"), 8),
            clip=self.get("CLIP_TRUNCATE", 4, 0), rows_of_16=packed and m == 1)

    # ---- DPU

    def _groups(self, channels, with_b):
        """Groups of A, B where it is there, C."""
        n, groups = self.group, -(-channels // self.group)
        sizes = [(4 * n, "<i4")] + ([(2 * n, "<i2")] if with_b else []) + [(2 * n, "<i2")]
        size = sum(s for s, _ in sizes)
        data = self.memory.read(self.get("BS_ADDR"), groups * size, np.uint8).reshape(groups, size)
        parts, at = [], 0
        for s, kind in sizes:
            parts.append(data[:, at : at + s].copy().view(kind).reshape(-1))
            at += s
        return parts if with_b else [parts[0], None, parts[1]]

    def _coefficients(self, channels):
        use, base = self.get("BRDMA_CFG"), self.get("BS_ADDR")
        if use in (0, 1):
            return [None, None, None]
        if use == 0xE:
            parts = self._groups(channels, True)
        elif use == 0xA:
            parts = self._groups(channels, False)
        elif use == 2:
            parts = [self.memory.read(base, channels, "<i4"), None, None]
        else:
            self.refuse("BRDMA_CFG")
        return [None if p is None else p[:channels].astype(np.int64)[:, None, None] for p in parts]

    def _shifts(self):
        return self.get("BS_CFG", 12, 8), self.get("BS_OW_OP", 21, 16)

    def _constants(self):
        """What a memory program adds and multiplies with (None: not)."""
        factor = self.get("BS_MUL_CFG", 31, 16)
        return signed(self.get("BS_ALU_CFG"), 32), signed(factor, 16) if factor else None

    def _constant_shifts(self):
        return self._shifts()

    def _window(self, b):
        """What is multiplied with the sum of the inputs."""
        if self.get("BS_OW_CFG", 1, 0) == 2 and not self.get("BS_OW_OP", 15, 0):
            return None
        return b if self.get("BS_OW_CFG", 0, 0) else signed(self.get("BS_OW_OP"), 16)

    def _bs(self, channels, from_core):
        cfg, m = self.get("BS_CFG"), Multiply()
        m.low = max(signed(self.get("BS_LOW_0"), 32), signed(self.get("BS_LOW_1"), 32))
        m.high = min(signed(self.get("BS_HIGH_0"), 32), signed(self.get("BS_HIGH_1"), 32))
        if cfg & 1:
            return m
        if cfg & ~0x1F00 not in {c & ~0x1F00 for c in BS}:
            self.refuse("BS_CFG")
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
        if self.get("BN_CFG") == 0x20000 and not self.get("BN_MUL_CFG", 0, 0):
            m.factor = signed(self.get("BN_MUL_CFG", 31, 16), 16)
            m.shift, m.negative_shift = self.get("BN_MUL_CFG", 13, 8), self.get("DATA_FORMAT", 15, 10)
        elif self.get("BN_CFG") not in (0x903, 0x902, 0x13, 0x12):
            self.refuse("BN_CFG")
        m.low = max(signed(self.get(at), 32) for at in ("BN_LOW_0", "BN_LOW_1"))
        m.high = min(signed(self.get(at), 32) for at in ("BN_HIGH_0", "BN_HIGH_1"))
        return m

    def _operand(self, shape):
        channels, height, width = shape
        surface = self.get("EW_SURF_STRIDE") * LANES
        cube = Cube(self.get("EW_ADDR"), surface, width * LANES, LANES)
        return self.memory.at(cube.addresses(*shape)).astype(np.int64)

    def _tables(self):
        return tables_of(self, 0x160)

    def _ew(self, shape):
        cfg = self.get("EW_CFG")
        if cfg == 0x10041C1:
            return None
        if cfg == 0x1004140:
            return self._tables()
        ops = {0x8002C0C0: np.add, 0x8000C0C4: np.multiply, 0x8000C0C0: np.maximum}
        if cfg not in ops:
            self.refuse("EW_CFG")
        return Operand(self._operand(shape), ops[cfg], signed(self.get("EW_CVT_OFFSET"), 16),
                       signed(self.get("EW_CVT_SCALE"), 16), self.get("EW_CVT_SCALE", 21, 16))

    def _gapped_line(self, width, notch):
        return self.get("SURFACE_ADD")

    def _target(self, shape):
        """Lines of atoms; or lines of pixels with gaps between them."""
        _, height, width = shape
        base, surface = self.get("DST_ADDR"), self.get("DST_SURF_STRIDE") * LANES
        notch, written = self.get("CUBE_NOTCH", 12, 0), self.get("WDMA_SIZE_0", 31, 16) + 1
        size = self.get("WDMA_SIZE_1", 28, 16) + 1, self.get("WDMA_SIZE_1", 12, 0) + 1
        if size == (height, width):
            return Cube(base, surface, (width + notch) * LANES, LANES), written
        if size == (height, 1):
            line = self._gapped_line(width, notch) * LANES
            return Cube(base, surface, line, LANES, (1 + notch) * LANES), written // width
        return self.refuse("WDMA_SIZE_1", f"for {height} x {width}")

    def plan(self, from_core):
        if self.get("DATA_FORMAT", 31, 26) or self.get("DATA_FORMAT", 2, 0):
            self.refuse("DATA_FORMAT", "not int8")
        sizes = ("CUBE_CHANNEL", "CUBE_HEIGHT", "CUBE_WIDTH") if from_core else ("RDMA_CHANNEL", "RDMA_HEIGHT", "RDMA_WIDTH")
        shape = tuple(self.get(at, 12, 0) + 1 for at in sizes)
        channels, height, width = shape
        source = None
        if not from_core:
            line = width + self.get("SRC_LINE_NOTCH")
            surface = (height - 1) * line + width + signed(self.get("SURF_NOTCH"), 28)
            source = Cube(self.get("SRC_ADDR"), surface * LANES, line * LANES, LANES)
        target, written = self._target(shape)
        low = max(signed(self.get(at), 32) for at in ("EW_LOW_0", "EW_LOW_1"))
        high = min(signed(self.get(at), 32) for at in ("EW_HIGH_0", "EW_HIGH_1"))
        return Plan(shape, source, self._bs(channels, from_core), self._bn(), self._ew(shape),
                    (low, high), scale=signed(self.get("OUT_CVT_SCALE"), 16), shift=self.get("OUT_CVT_SHIFT", 5, 0),
                    offset=signed(self.get("OUT_CVT_OFFSET"), 32), away=bool(self.get("OUT_CVT_SHIFT", 30, 30)),
                    target=target, channels=written)


class RK3576(RK3562):
    """Tables have registers of their own, which nothing here reads."""

    generation = registers.RK3576
    kernel_block, depthwise_block, group, less_one = 32, 64, 8, 1

    def _kernel(self):
        return (self.get("WEIGHT_SIZE2", 15, 0) + 1,
                (self.get("WEIGHT_SIZE2", 23, 16) + 1, self.get("WEIGHT_SIZE2", 31, 24) + 1))

    def _mode(self):
        mode = self.get("CONV_CON1")
        packed = self.get("CONV_CON1", 15, 12) and self.get("CONV_CON1", 15, 12) - 7
        if self.get("CONV_CON1", 11, 4) or mode & 0xF not in (0, 1, 6):
            self.refuse("CONV_CON1")
        return mode & 0xF == 1, packed

    def _packed_feature(self, packed, _width, _height):
        return Cube(self.get("FEATURE_ADDR"), 0, self.get("LINE_STRIDE") * LANES, packed)

    def _gapped_line(self, width, notch):
        return (width - 1) * (1 + notch) + 1 + self.get("SURFACE_ADD")

    def _tables(self):
        return self.refuse("EW_CFG", "a table")

    def _words(self):
        """The configuration tensor: shifts of a convolution; what a memory program adds, multiplies
        with (byte 32) and shifts by (48, 49)."""
        return self.memory.read(self.get("BS_CONFIG_ADDR"), 64, np.uint8)

    def _shifts(self):
        words = self._words()
        return int(words[0] & 0x3F), int(words[1] & 0x3F)

    def _constants(self):
        words = self._words().view("<i2")
        return int(words[0]), int(words[16]) if self.get("BRDMA_CFG", 3, 3) else None

    def _constant_shifts(self):
        words = self._words()
        return (int(words[48] & 0x3F), int(words[49] & 0x3F)) if self.get("BRDMA_CFG", 3, 3) else (0, 0)

    def _window(self, b):
        if self.get("BS_OW_CFG", 19, 16) == 2:
            return int(self._words().view("<i2")[0])
        return b

    def _coefficients(self, channels):
        use = self.get("BRDMA_CFG")
        if use == 0x710:
            parts = self._groups(channels, True)
        elif use == 0x510:
            parts = self._groups(channels, False)
        elif use == 0x110:
            parts = [self.memory.read(self.get("BS_ADDR"), channels, "<i4"), None, None]
        else:
            self.refuse("BRDMA_CFG")
        return [None if p is None else p[:channels].astype(np.int64)[:, None, None] for p in parts]
