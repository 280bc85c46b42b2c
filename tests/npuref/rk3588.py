"""The registers of RK3588, and those of RK3566/RK3568, which differ in few."""
import numpy as np

from npuref import registers
from npuref.conv import Shape
from npuref.dpu import HIGHEST, LOWEST, Cube, Multiply, Operand, Plan, Side, Tables
from npuref.integers import signed
from npuref.registers import Unit


def tables_of(unit, cfg):
    """The two tables, by the LUT registers that RK3588, RK3562 and RV1103/06 have."""
    if unit.get("LUT_CFG") != cfg:
        unit.refuse("LUT_CFG")
    le = Side(unit.tables[0], signed(unit.get("LUT_LE_START"), 32), signed(unit.get("LUT_LE_END"), 32),
              unit.get("LUT_INFO", 15, 8), signed(unit.get("LUT_LE_SLOPE_SCALE"), 16),
              unit.get("LUT_LE_SLOPE_SHIFT", 4, 0))
    lo = Side(unit.tables[1], signed(unit.get("LUT_LO_START"), 32), signed(unit.get("LUT_LO_END"), 32),
              unit.get("LUT_INFO", 23, 16), signed(unit.get("LUT_LO_SLOPE_SCALE", 31, 16), 16),
              unit.get("LUT_LO_SLOPE_SHIFT", 9, 5))
    return Tables(le, lo)


class RK3588(Unit):
    generation = registers.RK3588
    lanes, kernel_block, depthwise_block, group, pool_format = 16, 32, 64, 8, 1
    algorithm, ew_algorithm, size_register = (19, 16), (19, 16), "WDMA_SIZE_1"


    def _bytes(self, register):
        """A stride, of whole atoms."""
        return self.get(register) // self.lanes * self.lanes

    # ---- CNA and CORE

    def _size(self):
        """Output height, width and channels of the core; depthwise or not."""
        return (self.get("CORE_SIZE0", 31, 16) + 1, self.get("CORE_SIZE0", 15, 0) + 1,
                self.get("CORE_SIZE1", 15, 0) + 1, {0: False, 3: True}.get(self.get("CONV_CON1", 3, 0)))

    def _precision_is_int8(self):
        return self.get("CONV_CON1", 9, 4) == 0 and self.get("CLIP_TRUNCATE") == 0

    def _pad_value(self):
        return signed(self.get("PAD_CON1"), 8)

    def _unsigned(self):
        if self.get("CVT_CON0") != 0xB:
            self.refuse("CVT_CON0")
        return False

    def _feature(self, packed, width):
        lines = self.get("LINE_STRIDE", 27, 0)
        if packed:
            return Cube(self.get("FEATURE_ADDR"), 0, lines * packed, packed)
        # The step to the next surface counts from where the reader is: behind a line, or behind four.
        by_line = self.get("CONV_CON1", 29, 29)
        step = signed(self.get("SURFACE_STRIDE", 27, 0), 28) + (width if by_line else lines)
        return Cube(self.get("FEATURE_ADDR"), step * self.lanes, (lines if by_line else lines // 4) * self.lanes,
                    self.lanes)

    def _spread(self):
        if not self.get("CONV_CON1", 16, 16):
            return 1, 1
        return self.get("CONV_CON3", 13, 11) + 1, self.get("CONV_CON3", 10, 8) + 1

    def conv(self):
        if not self._precision_is_int8():
            self.refuse("CONV_CON1", "not int8")
        out_height, out_width, out_channels, depthwise = self._size()
        if depthwise is None:
            self.refuse("CONV_CON1")
        packed = self.get("CONV_CON1", 15, 12) and self.get("CONV_CON1", 15, 12) - 7
        width, channels = self.get("DATA_SIZE0", 26, 16), self.get("DATA_SIZE1", 15, 0)
        real = packed or (channels - 1) // 64 * 64 + self.get("DATA_SIZE1", 29, 16) + 1
        return Shape(
            channels, real, self.get("DATA_SIZE0", 10, 0), width, self._feature(packed, width),
            self._unsigned(), depthwise, kernel=(self.get("WEIGHT_SIZE2", 20, 16), self.get("WEIGHT_SIZE2", 28, 24)),
            stride=(self.get("CONV_CON3", 5, 3), self.get("CONV_CON3", 2, 0)),
            spread=self._spread(), dilation=(self.get("CONV_CON3", 25, 21) + 1, self.get("CONV_CON3", 20, 16) + 1),
            pad_top=self.get("PAD_CON0", 3, 0), pad_left=self.get("PAD_CON0", 7, 4),
            pad_value=self._pad_value(), out_height=out_height, out_width=out_width,
            out_channels=out_channels, kernels=self.get("WEIGHT_SIZE2", 13, 0), weights=self.get("WEIGHT_ADDR"),
            weight_bytes=self.get("WEIGHT_SIZE0"), bytes_per_kernel=self.get("WEIGHT_SIZE1", 18, 0),
            kernel_block=self.kernel_block, depthwise_block=self.depthwise_block)

    # ---- DPU

    def _coefficients(self, channels):
        """A, B, C of each channel; None: not there."""
        use, base = self.get("BRDMA_CFG", 3, 1), self.get("BS_ADDR")
        if use == 7:
            n, groups = self.group, -(-channels // self.group)
            data = self.memory.read(base, groups * n * 8, np.uint8).reshape(groups, n * 8)
            cuts = ((0, 4 * n, "<i4"), (4 * n, 6 * n, "<i2"), (6 * n, 8 * n, "<i2"))
            parts = [data[:, a:b].copy().view(kind).reshape(-1) for a, b, kind in cuts]
        elif use == 1:
            parts = [self.memory.read(base, channels, "<i4"), None, None]
        elif use == 0:
            parts = [None, None, None]
        else:
            self.refuse("BRDMA_CFG")
        return [None if p is None else p[:channels].astype(np.int64)[:, None, None] for p in parts]

    def _algorithm(self, register, value):
        if self.get(register, *self.algorithm) != value:
            self.refuse(register)

    def _bs(self, channels, from_core):
        cfg, m = self.get("BS_CFG"), Multiply()
        if cfg & 1:
            return m
        a, b, c = self._coefficients(channels)
        if not cfg >> 1 & 1:
            self._algorithm("BS_CFG", 2)
            m.add = a if cfg >> 8 & 1 else signed(self.get("BS_ALU_CFG"), 32)
        if from_core and not self.get("BS_OW_CFG", 1, 1):
            m.window = b if self.get("BS_OW_CFG", 0, 0) else signed(self.get("BS_OW_OP"), 16)
        if not cfg >> 4 & 1:
            m.factor = c if self.get("BS_MUL_CFG", 0, 0) else signed(self.get("BS_MUL_CFG", 31, 16), 16)
            m.shift, m.negative_shift = self.get("BS_MUL_CFG", 13, 8), self.get("DATA_FORMAT", 9, 4)
        m.prelu = bool(cfg >> 5 & 1)
        if not cfg >> 6 & 1:
            m.low = 0
        if cfg >> 7 & 1:
            m.high = signed(self.get("BS_RELUX_CMP"), 32)
        return m

    def _bn(self):
        cfg, m = self.get("BN_CFG"), Multiply(add_last=not self.get("BN_CFG", 4, 4))
        if cfg & 1:
            return m
        if not cfg >> 1 & 1:
            self._algorithm("BN_CFG", 2)
            if cfg >> 8 & 1:
                self.refuse("BN_CFG")
            m.add = signed(self.get("BN_ALU_CFG"), 32)
        if not cfg >> 4 & 1:
            if self.get("BN_MUL_CFG", 0, 0):
                self.refuse("BN_MUL_CFG")
            m.factor = signed(self.get("BN_MUL_CFG", 31, 16), 16)
            m.shift, m.negative_shift = self.get("BN_MUL_CFG", 13, 8), self.get("DATA_FORMAT", 15, 10)
        m.prelu = bool(cfg >> 5 & 1)
        if not cfg >> 6 & 1:
            m.low = 0
        if cfg >> 7 & 1:
            m.high = signed(self.get("BN_RELUX_CMP"), 32)
        return m

    def _operand_behind_core(self, shape):
        """Two readers share the operand's surfaces: even ones and odd ones."""
        channels, height, width = shape
        e, lanes = np.zeros(shape, np.int64), self.lanes
        for first, base, notch in ((0, "SRC_ADDR", "SURF_NOTCH"), (1, "EW_ADDR", "EW_SURF_NOTCH")):
            step = width * height * lanes + signed(self.get(notch), 32)
            for i in range(first * lanes, channels, 2 * lanes):
                n = min(lanes, channels - i)
                cube = Cube(self.get(base) + i // (2 * lanes) * step, 0, width * lanes, lanes)
                e[i : i + n] = self.memory.at(cube.addresses(n, height, width))
        return e

    def _operand(self, shape, from_core):
        channels, height, width = shape
        if self.get("ERDMA_CFG", 0, 0):
            self.refuse("ERDMA_CFG", "no operand in memory")
        mode, surface, base = self.get("EW_CFG", 29, 28), self._bytes("EW_SURF_STRIDE"), self.get("EW_ADDR")
        if mode == 0 and not from_core:
            shape, line = (channels, 1, 1), 0
        elif mode == 1 and from_core and self.lanes == 16:
            return self._operand_behind_core(shape)
        elif mode == 1:
            line = (width + self.get("RDMA_HEIGHT", 28, 16)) * self.lanes
        else:
            self.refuse("EW_CFG")
        return self.memory.at(Cube(base, surface, line, self.lanes).addresses(*shape)).astype(np.int64)

    def _ew(self, shape, from_core):
        cfg = self.get("EW_CFG")
        if cfg & 1:
            return None
        if not cfg >> 7 & 1:
            return tables_of(self, 0x68)
        if cfg >> 1 & 1:
            return None
        ops = {0: np.maximum, 1: np.minimum, 2: np.add, 4: np.subtract}
        op = np.multiply if cfg >> 2 & 1 else ops.get(self.get("EW_CFG", *self.ew_algorithm))
        if op is None:
            self.refuse("EW_CFG")
        operand = Operand(self._operand(shape, from_core), op)
        if not cfg >> 8 & 1:
            operand.offset, operand.factor = signed(self.get("EW_CVT_OFFSET"), 32), signed(self.get("EW_CVT_SCALE"), 16)
            operand.shift = self.get("EW_CVT_SCALE", 21, 16)
        return operand

    def _ew_clamp(self):
        cfg = self.get("EW_CFG")
        if cfg & 1:
            return LOWEST, HIGHEST
        return (LOWEST if cfg >> 9 & 1 else 0,
                signed(self.get("EW_RELUX_CMP"), 32) if cfg >> 10 & 1 else HIGHEST)

    def _source(self, shape):
        _, height, width = shape
        if self.get("SRC_DMA_CFG", 13, 0):
            self.refuse("SRC_DMA_CFG")
        line = width + self.get("SRC_DMA_CFG", 31, 19)
        surface = ((height - 1) * line + width) * self.lanes + signed(self.get("SURF_NOTCH"), 32)
        return Cube(self.get("SRC_ADDR"), surface, line * self.lanes, self.lanes)

    def _write_size(self):
        return self.get("WDMA_SIZE_1", 28, 16) + 1, self.get("WDMA_SIZE_1", 12, 0) + 1, self.get("WDMA_SIZE_0", 12, 0) + 1

    def _target(self, shape):
        """Lines of atoms; or, where the writer is told of lines of one pixel, pixels with gaps between
        them (what a transposed convolution by parts makes)."""
        _, height, width = shape
        rows, columns, channels = self._write_size()
        notch, surface = self.get("CUBE_NOTCH", 12, 0), self._bytes("DST_SURF_STRIDE")
        if (rows, columns) == (height, width):
            return Cube(self.get("DST_ADDR"), surface, (width + notch) * self.lanes, self.lanes), channels
        if (rows, columns) == (height, 1):
            pixel = (1 + notch) * self.lanes
            return (Cube(self.get("DST_ADDR"), surface, self._bytes("SURFACE_ADD"), self.lanes, pixel),
                    channels // width)
        self.refuse(self.size_register, f"for {height} x {width}")

    def _sizes(self, from_core):
        registers = ("CUBE_CHANNEL", "CUBE_HEIGHT", "CUBE_WIDTH") if from_core else ("RDMA_CHANNEL", "RDMA_HEIGHT", "RDMA_WIDTH")
        return tuple(self.get(at, 12, 0) + 1 for at in registers)

    def plan(self, from_core):
        if self.get("DATA_FORMAT", 31, 26) or self.get("DATA_FORMAT", 2, 0):
            self.refuse("DATA_FORMAT", "not int8")
        if self.get("BS_OW_CFG", 27, 27):
            self.refuse("BS_OW_CFG", "a transposed write")
        shape = self._sizes(from_core)
        target, channels = self._target(shape)
        return Plan(shape, None if from_core else self._source(shape), self._bs(shape[0], from_core),
                    self._bn(), self._ew(shape, from_core), self._ew_clamp(),
                    scale=signed(self.get("OUT_CVT_SCALE"), 16), shift=self.get("OUT_CVT_SHIFT", 5, 0),
                    offset=signed(self.get("OUT_CVT_OFFSET"), 32), away=bool(self.get("OUT_CVT_SHIFT", 30, 30)),
                    target=target, channels=channels)


class RK3568(RK3588):
    generation = registers.RK3568
    lanes, kernel_block, depthwise_block, group, pool_format = 8, 16, 32, 4, 0
    algorithm, ew_algorithm, size_register = (3, 2), (4, 3), "CUBE_WIDTH"

    def _precision_is_int8(self):
        return self.get("CONV_CON1", 10, 8) == 0 and self.get("CORE_MISC") in (0, 2)

    def _pad_value(self):
        return signed(self.get("PAD_CON0", 31, 16), 8)

    def _unsigned(self):
        if self.get("CVT_CON0") == 0xA:
            return False
        if all(self.get(at) == 0x4000FF80 for at in ("CVT_CON1",)) and self.get("CVT_CON0") & 1:
            return True  # (x - 128) * 0x4000 >> 14
        return self.refuse("CVT_CON0")

    def _feature(self, packed, width):
        line = self.get("LINE_STRIDE", 27, 0) * self.lanes
        if packed:
            return Cube(self.get("FEATURE_ADDR"), 0, line, packed)
        return Cube(self.get("FEATURE_ADDR"), self.get("SURFACE_STRIDE", 27, 0) * self.lanes, line, self.lanes)

    def _sizes(self, from_core):
        if from_core:
            height, width, channels, _ = self._size()
            return channels, height, width
        return super()._sizes(from_core)

    def _write_size(self):
        return self.get("CUBE_HEIGHT", 12, 0) + 1, self.get("CUBE_WIDTH", 12, 0) + 1, self.get("CUBE_CHANNEL", 12, 0) + 1
