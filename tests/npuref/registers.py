"""The NPU's registers by name: where each generation has them, as public documents and files have it.

One table for this reference alone: the software NPU's own (npu/model/rknn/regs) is what it judges."""
from npuref import Unsupported
from npuref.integers import field

# Columns of the table. RV1126B has RK3576's registers.
RK3588, RK3568, RK3562, RK3576 = range(4)

# Name -> offset on RK3588, RK3566/RK3568, RK3562, RK3576. None: it has none, or nothing here reads it.
TABLE = {
    # CNA
    "CONV_CON1": (0x100C, 0x100C, 0x100C, 0x100C),
    "CONV_CON3": (0x1014, 0x1014, 0x1014, 0x1014),
    "DATA_SIZE0": (0x1020, 0x1020, 0x102C, 0x102C),
    "DATA_SIZE1": (0x1024, 0x1024, 0x1028, 0x1028),
    "DATA_CHANNEL_REAL": (None, None, 0x107C, 0x107C),
    "DMA_SIZE": (None, None, 0x1078, 0x1078),
    "WEIGHT_SIZE0": (0x1030, 0x1030, 0x101C, 0x101C),
    "WEIGHT_SIZE1": (0x1034, 0x1034, 0x1020, 0x1020),
    "WEIGHT_SIZE2": (0x1038, 0x1038, 0x1024, 0x1024),
    "WEIGHT_ZERO": (None, None, 0x1074, 0x1074),
    "CVT_CON0": (0x104C, 0x104C, 0x1048, 0x1048),
    "CVT_CON1": (0x1050, 0x1050, 0x104C, 0x104C),
    "CVT_OFFSET": (None, None, 0x1054, 0x1054),
    "PAD_CON0": (0x1068, 0x1068, 0x1080, 0x1080),
    "PAD_CON1": (0x1184, None, 0x1084, 0x1084),
    "FEATURE_ADDR": (0x1070, 0x1070, 0x1088, 0x1088),
    "LINE_STRIDE": (0x107C, 0x107C, 0x1090, 0x1090),
    "SURFACE_STRIDE": (0x1080, 0x1080, 0x1094, 0x1094),
    "WEIGHT_ADDR": (0x1110, 0x1110, 0x1110, 0x1110),
    # CORE
    "CORE_MISC": (0x3010, 0x300C, 0x3018, 0x3018),
    "CORE_SIZE0": (0x3014, 0x3010, 0x301C, 0x301C),
    "CORE_SIZE1": (0x3018, 0x3014, 0x3020, 0x3020),
    "CLIP_TRUNCATE": (0x301C, None, 0x3024, 0x3024),
    # DPU
    "DATA_FORMAT": (0x4010, 0x4010, 0x4010, 0x4010),
    "DST_ADDR": (0x4020, 0x4020, 0x4018, 0x4018),
    "DST_SURF_STRIDE": (0x4024, 0x4024, 0x401C, 0x401C),
    "CUBE_WIDTH": (0x4030, 0x4030, 0x4020, 0x4020),
    "CUBE_HEIGHT": (0x4034, 0x4034, 0x4024, 0x4024),
    "CUBE_NOTCH": (0x4038, 0x4038, 0x4028, 0x4028),
    "CUBE_CHANNEL": (0x403C, 0x403C, 0x402C, 0x402C),
    "BS_CFG": (0x4040, 0x4040, 0x4038, 0x4038),
    "BS_ALU_CFG": (0x4044, 0x4044, 0x4040, 0x4040),
    "BS_MUL_CFG": (0x4048, 0x4048, 0x4044, 0x4044),
    "BS_RELUX_CMP": (0x404C, 0x404C, None, None),
    "BS_OW_CFG": (0x4050, 0x4050, 0x4050, 0x4050),
    "BS_OW_OP": (0x4054, 0x4054, 0x4054, 0x4054),
    "BS_LOW_0": (None, None, 0x4048, 0x4048),
    "BS_HIGH_0": (None, None, 0x404C, 0x404C),
    "BS_LOW_1": (None, None, 0x4058, 0x4058),
    "BS_HIGH_1": (None, None, 0x405C, 0x405C),
    "WDMA_SIZE_0": (0x4058, None, 0x4030, 0x4030),
    "WDMA_SIZE_1": (0x405C, None, 0x4034, 0x4034),
    "BN_CFG": (0x4060, 0x4060, 0x4060, 0x4060),
    "BN_ALU_CFG": (0x4064, 0x4064, 0x4064, 0x4064),
    "BN_MUL_CFG": (0x4068, 0x4068, 0x4068, 0x4068),
    "BN_RELUX_CMP": (0x406C, 0x406C, None, None),
    "BN_LOW_0": (None, None, 0x406C, 0x406C),
    "BN_HIGH_0": (None, None, 0x4070, 0x4070),
    "BN_LOW_1": (None, None, 0x4074, 0x4074),
    "BN_HIGH_1": (None, None, 0x4078, 0x4078),
    "EW_CFG": (0x4070, 0x4070, 0x407C, 0x407C),
    "EW_CVT_OFFSET": (0x4074, 0x4074, 0x4080, 0x4080),
    "EW_CVT_SCALE": (0x4078, 0x4078, 0x4084, 0x4084),
    "EW_RELUX_CMP": (0x407C, 0x407C, None, None),
    "EW_LOW_0": (None, None, 0x4088, 0x4088),
    "EW_HIGH_0": (None, None, 0x408C, 0x408C),
    "EW_LOW_1": (None, None, 0x40A4, 0x40A4),
    "EW_HIGH_1": (None, None, 0x40A8, 0x40A8),
    "OUT_CVT_OFFSET": (0x4080, 0x4080, 0x40AC, 0x40AC),
    "OUT_CVT_SCALE": (0x4084, 0x4084, 0x40B0, 0x40B0),
    "OUT_CVT_SHIFT": (0x4088, 0x4088, 0x40B4, 0x40B4),
    "SURFACE_ADD": (0x40C0, 0x40C0, 0x40B8, 0x40B8),
    "LUT_ACCESS_CFG": (0x4100, 0x4100, 0x4100, 0x4100),
    "LUT_ACCESS_DATA": (0x4104, 0x4104, 0x4104, 0x4104),
    "LUT_CFG": (0x4108, 0x4108, 0x4108, None),
    "LUT_INFO": (0x410C, 0x410C, 0x410C, None),
    "LUT_LE_START": (0x4110, 0x4110, 0x4110, None),
    "LUT_LE_END": (0x4114, 0x4114, 0x4114, None),
    "LUT_LO_START": (0x4118, 0x4118, 0x4118, None),
    "LUT_LO_END": (0x411C, 0x411C, 0x411C, None),
    "LUT_LE_SLOPE_SCALE": (0x4120, 0x4120, 0x4120, None),
    "LUT_LE_SLOPE_SHIFT": (0x4124, 0x4124, 0x4124, None),
    "LUT_LO_SLOPE_SCALE": (0x4128, 0x4128, 0x4128, None),
    "LUT_LO_SLOPE_SHIFT": (0x412C, 0x412C, 0x412C, None),
    # DPU_RDMA
    "RDMA_WIDTH": (0x500C, 0x500C, 0x500C, 0x500C),
    "RDMA_HEIGHT": (0x5010, 0x5010, 0x5010, 0x5010),
    "RDMA_CHANNEL": (0x5014, 0x5014, 0x5014, 0x5014),
    "SRC_ADDR": (0x5018, 0x5018, 0x5018, 0x5018),
    "BRDMA_CFG": (0x501C, 0x501C, 0x501C, 0x501C),
    "BS_ADDR": (0x5020, 0x5020, 0x5020, 0x5020),
    "BS_CONFIG_ADDR": (None, None, None, 0x5024),
    "ERDMA_CFG": (0x5034, 0x5034, 0x5034, 0x5034),
    "EW_ADDR": (0x5038, 0x5038, 0x5038, 0x5038),
    "EW_SURF_STRIDE": (0x5040, 0x5040, 0x5040, 0x5040),
    "SRC_DMA_CFG": (0x5048, 0x5048, 0x5048, 0x5048),
    "SURF_NOTCH": (0x504C, 0x504C, 0x504C, 0x504C),
    "EW_SURF_NOTCH": (0x506C, 0x506C, 0x506C, 0x506C),
    "SRC_LINE_NOTCH": (None, None, 0x5078, 0x5078),
    # PPU and PPU_RDMA
    "POOL_IN_WIDTH": (0x600C,) * 4,
    "POOL_IN_HEIGHT": (0x6010,) * 4,
    "POOL_IN_CHANNEL": (0x6014,) * 4,
    "POOL_OUT_WIDTH": (0x6018,) * 4,
    "POOL_OUT_HEIGHT": (0x601C,) * 4,
    "POOL_OUT_CHANNEL": (0x6020,) * 4,
    "POOL_MODE": (0x6024,) * 4,
    "POOL_KERNEL": (0x6034,) * 4,
    "POOL_RECIP_WIDTH": (0x6038,) * 4,
    "POOL_RECIP_HEIGHT": (0x603C,) * 4,
    "POOL_PAD": (0x6040,) * 4,
    "POOL_PAD_VALUE": (0x6044,) * 4,
    "POOL_DST_ADDR": (0x6070,) * 4,
    "POOL_DST_SURF_STRIDE": (0x607C,) * 4,
    "POOL_FORMAT": (0x6084,) * 4,
    "POOL_SRC_ADDR": (0x701C,) * 4,
    "POOL_SRC_LINE_STRIDE": (0x7024,) * 4,
    "POOL_SRC_SURF_STRIDE": (0x7028,) * 4,
    "POOL_SRC_FORMAT": (0x7030,) * 4,
}

NAMED = [{offsets[g] for offsets in TABLE.values()} for g in range(4)]

# Registers that programs set and that change no result, with the reason.
WITHOUT_EFFECT = {
    0x1010: "rows that are fetched ahead",
    0x1040: "how the chip's buffer is divided",
    0x1044: "how the chip's buffer is divided",
    0x400C: "follows from what is enabled; lengths of bursts",
    0x5044: "follows from what is enabled; lengths of bursts",
    0x5068: "shares of the memory's bandwidth",
    0x60DC: "lengths of bursts",
    0x6048: "pad values of maxima, which never win; averages with pads are refused",
    0x604C: "as 0x6048",
    0x6050: "as 0x6048",
    0x700C: "the size that the pool's own registers say",
    0x7010: "the size that the pool's own registers say",
    0x7014: "the size that the pool's own registers say",
}
OLD_SIZES = {
    0x1028: "output width, as CORE_SIZE0 says",
    0x102C: "output pixels, as CORE_SIZE0 says",
    0x1054: "the input converter, which is bypassed, or subtracts 128 in all channels",
    0x1058: "as 0x1054",
    0x105C: "as 0x1054",
    0x1078: "lengths of bursts",
    0x1084: "the window of the DMA, inside which DATA_SIZE0 reads",
    0x1088: "channels once more",
}
NEW_SIZES = {
    0x1018: "how the chip's buffer is divided",
    0x1030: "output width, as CORE_SIZE0 says",
    0x1034: "output pixels, as CORE_SIZE0 says",
    0x1038: "how the chip's buffer is divided, and reused",
    0x103C: "how the chip's buffer is divided",
    0x1050: "the input converter, which is bypassed, or subtracts 128 in all channels",
    0x1058: "as 0x1050",
    0x105C: "as 0x1050",
    0x106C: "lengths of bursts",
    0x1070: "the pad value of PAD_CON1 as it is before the converter",
    0x108C: "lengths of bursts",
    0x1098: "rows that are read",
    0x118C: "the width once more",
    0x40C0: "which bytes of an atom are written",
    0x40D0: "which bytes of an atom are written",
}
# A table is only looked at by an EW_CFG that is refused; BN's operands only by a BN_CFG that is.
TABLES_3576 = dict.fromkeys(
    [0x4108, 0x410C, *range(0x4110, 0x4120, 4), *range(0x4140, 0x4198, 4)], "tables, which are off")
BN_3576 = dict.fromkeys((0x5028, 0x502C, 0x5030), "BN's operands, which are off")
WITHOUT_EFFECT_BY_CHIP = [
    {**OLD_SIZES, 0x1180: "the converter's channels, while it is bypassed"},
    {**OLD_SIZES, 0x1018: "lengths of bursts", 0x200C: "as CONV_CON1", 0x5024: "channels once more",
     0x5028: "BN's operands: off", 0x503C: "gaps of the operand, as EW_SURF_STRIDE says",
     0x7018: "lengths of bursts"},
    NEW_SIZES,
    {**NEW_SIZES, **TABLES_3576, **BN_3576},
]


class Unit:
    """The registers of one task, read by name."""

    generation = None

    def __init__(self, values, memory, tables):
        self.values, self.memory, self.tables = values, memory, tables

    def get(self, name, high=31, low=0):
        offset = TABLE[name][self.generation]
        if offset is None:
            raise KeyError(f"{name} is no register of this generation")
        return field(self.values.get(offset, 0), high, low)

    def refuse(self, name, why=""):
        raise Unsupported(f"{why}{': ' if why else ''}{name} {self.get(name):#x}")

    def refuse_unread(self):
        """Whatever a program sets that the table does not name must be known to change no result."""
        known = NAMED[self.generation] | WITHOUT_EFFECT.keys() | WITHOUT_EFFECT_BY_CHIP[self.generation].keys()
        for offset, value in self.values.items():
            if value and offset not in known:
                raise Unsupported(f"register {offset:#06x} holds {value:#x}, which nothing here reads")
