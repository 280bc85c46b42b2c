"""What differs from chip to chip in a model file: blocks, alignments, registers, task columns."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Chip:
    name: str
    family: str  # "rk3588", "rk356x", "rk3562", "rk3576", "rv110x": how conversions are written
    runtime: str  # root slot 1
    c2: dict  # channels of an activation block
    o2: dict  # output channels of a weight block
    i2: dict  # input channels of a weight block
    bias_group: int  # channels of one record of the full int8 bias table
    bias_align: int  # channels the table is padded to
    new_registers: bool  # output conversion at 0x40ac instead of 0x4080
    conv_columns: tuple  # tasks per core mode (node slot 10) of a node that the cores share
    other_columns: tuple  # … of a node that runs on the first core
    core_bytes: int  # values in node slot 12
    first_i2: int = 0  # input channels of a weight block at the picture's side; 0: the usual rule
    first_o_align: dict = None  # … and what its output channels are rounded up to
    o_align: dict = None  # what the output channels outside full blocks are rounded up to
    lut_in_columns: bool = False  # column 0 of slot 10 counts the lookup-table tasks
    conv_enable: int = 0x1D
    bias_register: int = 0x20140  # register 0x4040 without the bypass bit
    depthwise_block: int = 32  # channels of a block of depthwise weights; RK3588: of int8, half as many of float16
    depthwise_out: int = 0  # channels that a depthwise convolution writes at once; 0: o2
    depthwise_nz: int = 0  # depthwise weights carry nz: that many weights, then as many nz

    def round_o(self, dtype, count, first):
        table = self.first_o_align if first and self.first_o_align else self.o_align
        step = table[dtype] if table else 1
        return -(-count // step) * step

    @property
    def lite(self):
        """Has files of container 0x1004 only, int8 only."""
        return self.family == "rv110x"


def _sizes(int8, float16):
    return {"int8": int8, "float16": float16}


_RK3588 = Chip(
    "rk3588", "rk3588", "RKNPU v2", _sizes(16, 8), _sizes(32, 16), _sizes(32, 32), 8, 32, False,
    (1, 1, 1, 1, 1, 1), (1, 1, 0, 1, 0, 0), 9, o_align=_sizes(2, 1), depthwise_block=64, depthwise_out=64,
)
_RK3576 = dict(
    family="rk3576", c2=_sizes(16, 8), o2=_sizes(32, 32), i2=_sizes(32, 16), bias_group=8,
    bias_align=32, new_registers=True, first_i2=4, first_o_align=_sizes(16, 8),
    o_align=_sizes(2, 2), depthwise_block=64, depthwise_out=64, depthwise_nz=2,
)
_RK356X = dict(
    family="rk356x", runtime="RKNPU lite", c2=_sizes(8, 4), o2=_sizes(16, 8),
    i2=_sizes(32, 16), bias_group=4, bias_align=16, new_registers=False,
    conv_columns=(1,), other_columns=(1,), core_bytes=0,
    lut_in_columns=True, conv_enable=0x1F, bias_register=0x148,
)
_RV110X = dict(
    family="rv110x", runtime="RKNPU t3", c2=_sizes(16, 8), o2=_sizes(16, 8), i2=_sizes(32, 16),
    bias_group=4, bias_align=16, new_registers=False, conv_columns=(1,), other_columns=(1,),
    core_bytes=0, first_i2=4, lut_in_columns=True, depthwise_out=32, depthwise_nz=1,
)

CHIPS = {  # whose files are of containers 2 and 6
    chip.name: chip
    for chip in (
        _RK3588,
        Chip("rk3576", runtime="RKNPU f2", conv_columns=(1, 1, 1), other_columns=(1, 1, 0),
             core_bytes=4, **_RK3576),
        Chip("rv1126b", runtime="RKNPU f3", conv_columns=(1, 0, 0, 0, 0),
             other_columns=(1, 0, 0, 0, 0), core_bytes=0, **_RK3576),
        Chip("rk3566", **_RK356X),
        Chip("rk3568", **_RK356X),
        Chip("rk3562", "rk3562", "RKNPU t4", _sizes(16, 8), _sizes(16, 8), _sizes(32, 32), 4, 16,
             True, (1,), (1,), 0, first_i2=4, first_o_align=_sizes(4, 4), o_align=_sizes(2, 1), depthwise_out=32,
             depthwise_nz=2, lut_in_columns=True),
    )
}
LITE_CHIPS = {name: Chip(name, **_RV110X) for name in ("rv1103", "rv1106")}  # 0x1004
