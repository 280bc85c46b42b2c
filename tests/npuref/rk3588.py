"""The registers of RK3588, and those of RK3566/RK3568, which differ in few."""
import numpy as np

from npuref import Unsupported
from npuref.conv import Shape
from npuref.dpu import HIGHEST, LOWEST, Cube, Multiply, Operand, Plan, Side, Tables
from npuref.integers import field, signed


def tables_of(r, tables, cfg):
    """The two tables, by the LUT registers that RK3588, RK3562 and RV1103/06 have."""
    if r.get(0x4108, 0) != cfg:
        raise Unsupported(f"LUT_CFG {r.get(0x4108, 0):#x}")
    info = r.get(0x410C, 0)
    le = Side(tables[0], signed(r.get(0x4110, 0), 32), signed(r.get(0x4114, 0), 32), field(info, 15, 8),
              signed(r.get(0x4120, 0), 16), field(r.get(0x4124, 0), 4, 0))
    lo = Side(tables[1], signed(r.get(0x4118, 0), 32), signed(r.get(0x411C, 0), 32), field(info, 23, 16),
              signed(field(r.get(0x4128, 0), 31, 16), 16), field(r.get(0x412C, 0), 9, 5))
    return Tables(le, lo)


class RK3588:
    lanes, kernel_block, depthwise_block, group, pool_format = 16, 32, 64, 8, 1
    algorithm, ew_algorithm = (19, 16), (19, 16)

    def __init__(self, r, memory, tables):
        self.r, self.memory, self.tables = r, memory, tables

    def _get(self, register, high=31, low=0):
        return field(self.r.get(register, 0), high, low)

    def _refuse(self, register, name):
        raise Unsupported(f"{name} {self.r.get(register, 0):#x}")

    def _bytes(self, register):
        """A stride, of whole atoms."""
        return self._get(register) // self.lanes * self.lanes

    # ---- CNA and CORE

    def _size(self):
        """Output height, width and channels of the core; depthwise or not."""
        return (self._get(0x3014, 31, 16) + 1, self._get(0x3014, 15, 0) + 1,
                self._get(0x3018, 15, 0) + 1, {0: False, 3: True}.get(self._get(0x100C, 3, 0)))

    def _precision_is_int8(self):
        return self._get(0x100C, 9, 4) == 0 and self._get(0x301C) == 0

    def _pad_value(self):
        return signed(self._get(0x1184), 8)

    def _unsigned(self):
        if self._get(0x104C) != 0xB:
            self._refuse(0x104C, "CVT_CON0")
        return False

    def _feature(self, packed, width):
        lines = self._get(0x107C, 27, 0)
        if packed:
            return Cube(self._get(0x1070), 0, lines * packed, packed)
        # The step to the next surface counts from where the reader is: behind a line, or behind four.
        by_line = self._get(0x100C, 29, 29)
        step = signed(self._get(0x1080, 27, 0), 28) + (width if by_line else lines)
        return Cube(self._get(0x1070), step * self.lanes, (lines if by_line else lines // 4) * self.lanes,
                    self.lanes)

    def conv(self):
        if not self._precision_is_int8():
            self._refuse(0x100C, "not int8: CONV_CON1")
        if self._get(0x100C, 16, 16):
            self._refuse(0x100C, "a transposed convolution: CONV_CON1")
        out_height, out_width, out_channels, depthwise = self._size()
        if depthwise is None:
            self._refuse(0x100C, "CONV_CON1")
        packed = self._get(0x100C, 15, 12) and self._get(0x100C, 15, 12) - 7
        width, channels = self._get(0x1020, 26, 16), self._get(0x1024, 15, 0)
        real = packed or (channels - 1) // 64 * 64 + self._get(0x1024, 29, 16) + 1
        return Shape(
            channels, real, self._get(0x1020, 10, 0), width, self._feature(packed, width),
            self._unsigned(), depthwise, kernel=(self._get(0x1038, 20, 16), self._get(0x1038, 28, 24)),
            stride=(self._get(0x1014, 5, 3), self._get(0x1014, 2, 0)),
            dilation=(self._get(0x1014, 25, 21) + 1, self._get(0x1014, 20, 16) + 1),
            pad_top=self._get(0x1068, 3, 0), pad_left=self._get(0x1068, 7, 4),
            pad_value=self._pad_value(), out_height=out_height, out_width=out_width,
            out_channels=out_channels, kernels=self._get(0x1038, 13, 0), weights=self._get(0x1110),
            weight_bytes=self._get(0x1030), bytes_per_kernel=self._get(0x1034, 18, 0),
            kernel_block=self.kernel_block, depthwise_block=self.depthwise_block)

    # ---- DPU

    def _coefficients(self, channels):
        """A, B, C of each channel; None: not there."""
        use, base = self._get(0x501C, 3, 1), self._get(0x5020)
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
            self._refuse(0x501C, "RDMA_BRDMA_CFG")
        return [None if p is None else p[:channels].astype(np.int64)[:, None, None] for p in parts]

    def _algorithm(self, register, value, name):
        if self._get(register, *self.algorithm) != value:
            self._refuse(register, name)

    def _bs(self, channels, from_core):
        cfg, m = self._get(0x4040), Multiply()
        if cfg & 1:
            return m
        a, b, c = self._coefficients(channels)
        if not cfg >> 1 & 1:
            self._algorithm(0x4040, 2, "BS_CFG")
            m.add = a if cfg >> 8 & 1 else signed(self._get(0x4044), 32)
        if from_core and not self._get(0x4050, 1, 1):
            m.window = b if self._get(0x4050, 0, 0) else signed(self._get(0x4054), 16)
        if not cfg >> 4 & 1:
            m.factor = c if self._get(0x4048, 0, 0) else signed(self._get(0x4048, 31, 16), 16)
            m.shift, m.negative_shift = self._get(0x4048, 13, 8), self._get(0x4010, 9, 4)
        m.prelu = bool(cfg >> 5 & 1)
        if not cfg >> 6 & 1:
            m.low = 0
        if cfg >> 7 & 1:
            m.high = signed(self._get(0x404C), 32)
        return m

    def _bn(self):
        cfg, m = self._get(0x4060), Multiply()
        if cfg & 1:
            return m
        if not cfg >> 1 & 1:
            self._algorithm(0x4060, 2, "BN_CFG")
            if cfg >> 8 & 1:
                self._refuse(0x4060, "BN_CFG")
            m.add = signed(self._get(0x4064), 32)
        if not cfg >> 4 & 1:
            if self._get(0x4068, 0, 0):
                self._refuse(0x4068, "BN_MUL_CFG")
            m.factor = signed(self._get(0x4068, 31, 16), 16)
            m.shift, m.negative_shift = self._get(0x4068, 13, 8), self._get(0x4010, 15, 10)
        m.prelu = bool(cfg >> 5 & 1)
        if not cfg >> 6 & 1:
            m.low = 0
        if cfg >> 7 & 1:
            m.high = signed(self._get(0x406C), 32)
        return m

    def _operand_behind_core(self, shape):
        """Two readers share the operand's surfaces: even ones and odd ones."""
        channels, height, width = shape
        e, lanes = np.zeros(shape, np.int64), self.lanes
        for first, base, notch in ((0, 0x5018, 0x504C), (1, 0x5038, 0x506C)):
            step = width * height * lanes + signed(self._get(notch), 32)
            for i in range(first * lanes, channels, 2 * lanes):
                n = min(lanes, channels - i)
                cube = Cube(self._get(base) + i // (2 * lanes) * step, 0, width * lanes, lanes)
                e[i : i + n] = self.memory.at(cube.addresses(n, height, width))
        return e

    def _operand(self, shape, from_core):
        channels, height, width = shape
        if self._get(0x5034, 0, 0):
            self._refuse(0x5034, "no operand in memory: RDMA_ERDMA_CFG")
        mode, surface, base = self._get(0x4070, 29, 28), self._bytes(0x5040), self._get(0x5038)
        if mode == 0 and not from_core:
            shape, line = (channels, 1, 1), 0
        elif mode == 1 and from_core and self.lanes == 16:
            return self._operand_behind_core(shape)
        elif mode == 1:
            line = (width + self._get(0x5010, 28, 16)) * self.lanes
        else:
            self._refuse(0x4070, "EW_CFG")
        return self.memory.at(Cube(base, surface, line, self.lanes).addresses(*shape)).astype(np.int64)

    def _ew(self, shape, from_core):
        cfg = self._get(0x4070)
        if cfg & 1:
            return None
        if not cfg >> 7 & 1:
            return tables_of(self.r, self.tables, 0x68)
        if cfg >> 1 & 1:
            return None
        ops = {0: np.maximum, 1: np.minimum, 2: np.add, 4: np.subtract}
        op = np.multiply if cfg >> 2 & 1 else ops.get(self._get(0x4070, *self.ew_algorithm))
        if op is None:
            self._refuse(0x4070, "EW_CFG")
        operand = Operand(self._operand(shape, from_core), op)
        if not cfg >> 8 & 1:
            operand.offset, operand.factor = signed(self._get(0x4074), 32), signed(self._get(0x4078), 16)
            operand.shift = self._get(0x4078, 21, 16)
        return operand

    def _ew_clamp(self):
        cfg = self._get(0x4070)
        if cfg & 1:
            return LOWEST, HIGHEST
        return (LOWEST if cfg >> 9 & 1 else 0,
                signed(self._get(0x407C), 32) if cfg >> 10 & 1 else HIGHEST)

    def _source(self, shape):
        _, height, width = shape
        if self._get(0x5048, 13, 0):
            self._refuse(0x5048, "RDMA_SRC_DMA_CFG")
        line = width + self._get(0x5048, 31, 19)
        surface = ((height - 1) * line + width) * self.lanes + signed(self._get(0x504C), 32)
        return Cube(self._get(0x5018), surface, line * self.lanes, self.lanes)

    def _write_size(self):
        return self._get(0x405C, 28, 16) + 1, self._get(0x405C, 12, 0) + 1, self._get(0x4058, 12, 0) + 1

    def _target(self, shape):
        """Lines of atoms; or, where the writer is told of lines of one pixel, pixels with gaps between
        them (what a transposed convolution by parts makes)."""
        _, height, width = shape
        rows, columns, channels = self._write_size()
        notch, surface = self._get(0x4038, 12, 0), self._bytes(0x4024)
        if (rows, columns) == (height, width):
            return Cube(self._get(0x4020), surface, (width + notch) * self.lanes, self.lanes), channels
        if (rows, columns) == (height, 1):
            pixel = (1 + notch) * self.lanes
            return (Cube(self._get(0x4020), surface, self._bytes(0x40C0), self.lanes, pixel),
                    channels // width)
        self._refuse(0x405C, f"for {height} x {width}: WDMA_SIZE_1")

    def _sizes(self, from_core):
        registers = (0x403C, 0x4034, 0x4030) if from_core else (0x5014, 0x5010, 0x500C)
        return tuple(self._get(at, 12, 0) + 1 for at in registers)

    def plan(self, from_core):
        if self._get(0x4010, 31, 26) or self._get(0x4010, 2, 0):
            self._refuse(0x4010, "not int8: DATA_FORMAT")
        if self._get(0x4050, 27, 27):
            self._refuse(0x4050, "a transposed write: BS_OW_CFG")
        shape = self._sizes(from_core)
        target, channels = self._target(shape)
        return Plan(shape, None if from_core else self._source(shape), self._bs(shape[0], from_core),
                    self._bn(), self._ew(shape, from_core), self._ew_clamp(),
                    scale=signed(self._get(0x4084), 16), shift=self._get(0x4088, 5, 0),
                    offset=signed(self._get(0x4080), 32), away=bool(self._get(0x4088, 30, 30)),
                    target=target, channels=channels)


class RK3568(RK3588):
    lanes, kernel_block, depthwise_block, group, pool_format = 8, 16, 32, 4, 0
    algorithm, ew_algorithm = (3, 2), (4, 3)

    def _size(self):
        return (self._get(0x3010, 31, 16) + 1, self._get(0x3010, 15, 0) + 1,
                self._get(0x3014, 15, 0) + 1, {0: False, 3: True}.get(self._get(0x100C, 3, 0)))

    def _precision_is_int8(self):
        return self._get(0x100C, 10, 8) == 0 and self._get(0x300C) in (0, 2)

    def _pad_value(self):
        return signed(self._get(0x1068, 31, 16), 8)

    def _unsigned(self):
        if self._get(0x104C) == 0xA:
            return False
        if all(self._get(at) == 0x4000FF80 for at in (0x1050,)) and self._get(0x104C) & 1:
            return True  # (x - 128) * 0x4000 >> 14
        return self._refuse(0x104C, "CVT_CON0")

    def _feature(self, packed, width):
        line = self._get(0x107C, 27, 0) * self.lanes
        if packed:
            return Cube(self._get(0x1070), 0, line, packed)
        return Cube(self._get(0x1070), self._get(0x1080, 27, 0) * self.lanes, line, self.lanes)

    def _sizes(self, from_core):
        if from_core:
            return self._get(0x3014, 12, 0) + 1, self._get(0x3010, 28, 16) + 1, self._get(0x3010, 12, 0) + 1
        return super()._sizes(from_core)

    def _write_size(self):
        return self._get(0x4034, 12, 0) + 1, self._get(0x4030, 12, 0) + 1, self._get(0x403C, 12, 0) + 1
