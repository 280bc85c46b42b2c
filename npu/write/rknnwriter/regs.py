"""Register commands and tasks: the part of them that says how a node computes.

A command is u64 = target << 48 | value << 16 | register. Only what readers need is written: the
geometry that attributes may lack, the conversions of operands and results, tables, addresses.
"""

import struct
from dataclasses import dataclass, field, replace

import numpy as np

from .quantize import fixed_point

CNA, CORE, DPU, RDMA, PPU = 0x0201, 0x0801, 0x1001, 0x2001, 0x4001

# Where a task finds its tensors; the file's relocations name these commands.
ADDRESS = {
    False: {"input": (CNA, 0x1070), "weight": (CNA, 0x1110), "output": (DPU, 0x4020),
            "bias": (RDMA, 0x5020), "addend": (RDMA, 0x5038)},
    True: {"input": (CNA, 0x1088), "weight": (CNA, 0x1110), "output": (DPU, 0x4018),
           "bias": (RDMA, 0x5020), "addend": (RDMA, 0x5038),
           "bs_config": (RDMA, 0x5024), "bn_config": (RDMA, 0x5030)},
}


@dataclass
class Task:
    enable: int
    commands: list  # (target, register, value)
    interrupt: int = 0x300
    relocations: list = field(default_factory=list)  # (tensor, index of the command[, offset in the tensor])
    cores: int = 1  # that begin it together, each with a part

    def words(self):
        return [t << 48 | (v & 0xFFFFFFFF) << 16 | r for t, r, v in self.commands]


def unit_of(register):
    return {1: CNA, 3: CORE, 4: DPU, 5: RDMA, 6: PPU}[register >> 12]


def _dpu(pairs):
    return [(unit_of(register), register, value) for register, value in pairs]


@dataclass(frozen=True)
class Stages:
    """What the units behind a convolution's sums do: shifts and factors of values that are not
    negative, and of negative ones."""

    mul_shift: tuple
    bn: tuple = ((1, 0), (1, 0))
    out_shift: int = 0


def stages(chip, p):
    """A LeakyRelu of new chips keeps the multiplier's 14 bits, so that its slope is an integer; that of
    old ones here shifts itself."""
    leaky, plain = p.act == "leaky_relu", p.form == "plain"
    mul = 0 if plain else 14
    if not leaky:
        bn = ((p.gain, p.gain),) if p.gain else ()
        return Stages((mul, mul), *bn, p.shift) if bn else Stages((mul, mul), out_shift=p.shift)
    slope, own = round(p.alpha * 2**14), p.leaky_shift
    if chip.lite:
        mul = int(own > 0)
        return Stages((mul, mul + 14), ((1, own), (slope, own)), p.shift + 14 - mul - own)
    if chip.family == "rk3576" and not plain:
        return Stages((0, 14), ((1, own), (slope, own)), p.shift + 14 - own)
    return Stages((mul, mul), ((1, own), (slope, own + 14)), p.shift - own)


def _activation(p, shift=0):
    """Register 0x4068: the gain into a lookup table, or LeakyRelu's slope and its shift. `shift`: what
    the multiplier left to shift by."""
    if p.lut:
        return p.lut.gain + (shift << 8)
    if p.gain:
        return p.gain[0] << 16 | p.gain[1] << 8
    leaky = p.act == "leaky_relu"
    return round(p.alpha * 2**14) << 16 | p.leaky_shift << 8 if leaky else 0


def _slopes(p):
    """0x410c … 0x412c: where lookup tables lie, and how they go on beyond."""
    if not p.lut or not p.lut.slopes:
        return []
    (below, below_shift), (above, above_shift) = p.lut.slopes
    return [(0x410C, 0x50500), (0x4110, -16384), (0x4114, 0), (0x4118, 0), (0x411C, 16384),
            (0x4120, below & 0xFFFF), (0x4124, below_shift), (0x4128, above << 16),
            (0x412C, above_shift << 5)]


def _bn_shifts(p, rest=0):
    """Of the unit behind the bias, for positive and negative values: the way into a lookup table, or
    what a LeakyRelu shifts by. `rest`: what the multiplier left to shift by."""
    shift = p.leaky_shift if p.act == "leaky_relu" else p.gain[1] if p.gain else 0
    shift = (p.lut.gain >> 8 & 0x3F) + rest if p.lut else shift
    return shift, shift


def _old_conversion(chip, p):
    """0x4010 … 0x412c: RK3566, RK3568, RK3588. Negative values have shifts of their own."""
    bypass, leaky = p.form == "plain", p.act == "leaky_relu"
    negative = _bn_shifts(p)[1] + (14 if leaky else 0)
    old = chip.family == "rk356x"
    lut, slope = (0x48, 0x62) if old else (0x20040, 0x22)
    return _dpu([
        (0x4010, negative << 10 | (0 if bypass else 14) << 4),
        (0x4040, chip.bias_register | (0x10 if bypass else 0)),
        (0x4048, 0 if bypass else 14 << 8 | 1),
        (0x4050, 0x124 if bypass else 0x125),
        (0x4054, int(p.nz[0]) & 0xFFFF if bypass else 0),
        (0x4060, lut if p.lut else 0x12 if p.act == "relu" and not _relu_behind_addend(p) else
         slope if p.act == "leaky_relu" else 0x53),
        (0x4064, 0),
        (0x4068, _activation(p)),
        (0x4070, _old_addition(chip, p) if p.addend else 0x302 if p.lut else 0x383),
        (0x4074, p.addend.offset if p.addend else 0),
        (0x4078, p.addend.shift << 16 | p.addend.scale if p.addend else 1),
        (0x4080, p.out_offset),
        (0x4084, p.scale),
        (0x4088, p.shift - p.leaky_shift),
        *_slopes(p),
    ])


def _relu_behind_addend(p):
    return p.act == "relu" and p.addend is not None and not p.add_last


def _old_addition(chip, p):
    addition = 0x900000D0 if chip.family == "rk356x" else 0x904200C0
    return addition | (0 if _relu_behind_addend(p) else 0x200)


_RK3576_FORM = {"full": 0x80011011, "depthwise": 0x00013133, "plain": 0x80021011}
_RK3562_FORM = {"full": (0x120E80, 1, 0x800E0000), "depthwise": (0x100E92, 0x125, 0xE0000),
                "plain": (0x120080, 2, 0x80000000)}


def _output(p, shift=0):
    return [
        (0x407C, 0x8002C0C0 if p.addend else 0x01004140 if p.lut else 0x010041C1),
        (0x4080, p.addend.offset & 0xFFFF if p.addend else 0),
        (0x4084, p.addend.shift << 16 | p.addend.scale if p.addend else 1),
        (0x40AC, p.out_offset),
        (0x40B0, p.scale | 0x10000),
        (0x40B4, p.shift + shift - p.leaky_shift),
    ]


def _rk3562_conversion(p):
    config, form, nz = _RK3562_FORM[p.form]
    leaky = p.act == "leaky_relu"
    return _dpu([
        (0x3024, 0),
        (0x4010, _bn_shifts(p)[1] + (14 if leaky else 0) << 10),
        (0x4038, config),
        (0x4050, form),
        (0x4054, nz | (int(p.nz[0]) & 0xFFFF if p.form == "plain" else 0)),
        (0x4060, 0x13 if _relu_behind_addend(p) else 0x20000 if p.lut else 2 if p.gain else
         {"relu": 0x12, "leaky_relu": 0x22}.get(p.act, 0x13)),
        (0x4064, 0),
        (0x4068, _activation(p)),
        *_output(p),
    ])


def _rk3576_conversion(p):
    """RK3576, RV1126B: what other chips have in registers of the bias unit and the one behind it,
    they have in tensors (config_tensors)."""
    leaky = p.act == "leaky_relu"
    unit = 0x903 if _relu_behind_addend(p) else 0x20 if p.lut else 2 if p.gain else {"relu": 0x902, "leaky_relu": 0x402}.get(p.act, 0x903)
    return _dpu([
        (0x3024, p.sum_shift << 5 | p.sum_shift),
        (0x4010, 0),
        (0x4038, 0x100092 if p.form == "depthwise" else 0x120080),
        (0x4050, _RK3576_FORM[p.form]),
        (0x4060, unit),
        (0x5028, 0x1A if p.lut else 0x18 if leaky or p.gain else 0),
        *_output(p, 14 if leaky and p.form != "plain" else 0),
    ])


def config_tensors(p):
    """RK3576, RV1126B: (what the bias unit reads, what the unit behind it reads, or None)."""
    leaky, plain = p.act == "leaky_relu", p.form == "plain"
    bias_unit = bytearray(64)
    if plain:
        struct.pack_into("<h", bias_unit, 0, int(p.nz[0]))
    else:
        bias_unit[:2] = (0, 14) if leaky else (14, 14)
    if not leaky and not p.lut and not p.gain:
        return bytes(bias_unit), None
    at, unit = 32 if p.lut else 0, bytearray(128)
    struct.pack_into("<h", unit, at, _activation(p) >> 16)
    positive, negative = _bn_shifts(p)
    unit[at + 16 : at + 18] = positive, negative + (14 if leaky and plain else 0)
    return bytes(bias_unit), bytes(unit)


def _lite_conversion(p):
    """RV1103, RV1106: registers as the old chips' but for the multiplier, whose shift is small for
    LeakyRelu; what comes behind it shifts by the rest."""
    leaky = p.act == "leaky_relu"
    if leaky and p.form == "plain":
        raise ValueError("whether the bias unit shifts what nothing multiplies, for a LeakyRelu, is not known of this chip")
    mul_shift = (p.leaky_shift > 0) if leaky else 0 if p.form == "plain" else 14
    negative = mul_shift + 14 if leaky else mul_shift
    rest = 14 - mul_shift if leaky else 0
    if p.form == "depthwise":
        form = [(0x4040, 0x100092 | mul_shift << 9), (0x4048, 0), (0x4050, 0x70000125),
                (0x4054, negative << 24)]
    elif p.form == "plain":
        form = [(0x4040, 0x120180), (0x4048, 0), (0x4050, 0x30000002),
                (0x4054, 0x80000000 | negative << 24 | int(p.nz[0]) & 0xFFFF)]
    else:
        form = [(0x4040, 0x120180 | mul_shift << 9), (0x4048, 1), (0x4050, 0x30000001),
                (0x4054, 0x80000000 | negative << 24)]
    multiplies = {"relu": 0x12, "leaky_relu": 0x22}.get(p.act, 0x20000 if p.lut else 0x13)
    return _dpu(form + [
        (0x4010, 0x800000 | _bn_shifts(p, rest)[1] << 10),
        (0x4060, multiplies),
        (0x4064, 0),
        (0x4068, _activation(p, rest)),
        (0x4070, 0x8002C0C0 if p.addend else 0x01004140 if p.lut else 0x010041C1),
        (0x4074, p.addend.offset & 0xFFFF if p.addend else 0),
        (0x4078, p.addend.shift << 16 | p.addend.scale if p.addend else 1),
        (0x4080, p.out_offset),
        (0x4084, p.scale),
        (0x4088, p.shift + (0 if p.lut else rest - p.leaky_shift)),
    ])


def conversion(chip, p):
    """The output conversion of an int8 convolution."""
    if chip.lite:
        return _lite_conversion(p)
    if chip.family == "rk3562":
        return _rk3562_conversion(p)
    return _rk3576_conversion(p) if chip.new_registers else _old_conversion(chip, p)


HALF_GAIN = 2048.0  # leads from real numbers into the lookup table of a float16 convolution
HALF_BY_TABLE = ("hard_sigmoid", "hard_sigmoid_5")  # those whose numbers only the table has


def scaling(chip, factor, zero_point):
    """The output conversion alone."""
    scale, shift = fixed_point(factor)
    base = 0x40AC if chip.new_registers else 0x4080
    return _dpu([(base, zero_point), (base + 4, scale), (base + 8, shift)])


def _float_activation(act, alpha, table=0x20040):
    """0x4060 … 0x406c: a slope is a half in the high 16 bits, the top of a Clip is a float."""
    if act == "leaky_relu":
        return [(0x4060, 0x62), (0x4068, int(np.float16(alpha).view(np.uint16)) << 16)]
    if act in HALF_BY_TABLE:
        gain = int(np.float16(HALF_GAIN).view(np.uint16))
        return [(0x4060, table), (0x4064, 0x80000000), (0x4068, gain << 16)]
    if act == "clip":
        return [(0x4060, 0x92), (0x406C, int(np.float32(6).view(np.uint32)))]
    return [(0x4060, 0x12 if act == "relu" else 0x53)]


def _new_float_activation(chip, act, alpha):
    """The same of newer chips, which have the top of a Clip among the bounds behind the unit."""
    old = chip.family == "rk3562"
    bounds = [(0x406C, 0), (0x4070, int(np.float32(6).view(np.uint32)))]
    bounds += [(at + 8, value) for at, value in bounds]
    if act == "clip":
        return [(0x4060, 0x12 if old else 0x902), *bounds]
    if old and act == "leaky_relu":
        return [(0x4060, 0x22), _float_activation(act, alpha)[1]]
    if old and act in HALF_BY_TABLE:
        return [(0x4060, 0x20000), *_float_activation(act, alpha)[1:]]
    if act in ("leaky_relu", *HALF_BY_TABLE):
        raise ValueError(f"the tensor in which {chip.name} has the numbers of a {act} is not written")
    relu, off = (0x12, 0x13) if old else (0x902, 0x903)
    return [(0x4060, relu if act == "relu" else off)]


def float_conversion(chip, act, alpha=0.0):
    """… of a float16 one: everything bypassed but the activation."""
    if chip.new_registers:
        return _dpu([*_new_float_activation(chip, act, alpha), (0x40AC, 0), (0x40B0, 1), (0x40B4, 0)])
    return _dpu([(0x4040, chip.bias_register | 0x10), (0x4048, 0), (0x4050, 0x126), (0x4054, 0),
                 *_float_activation(act, alpha, 0x48 if chip.family == "rk356x" else 0x20040), (0x4080, 0), (0x4084, 0x10001), (0x4088, 0)])


def geometry(chip, stride, dilation, pads, zero_point=0):
    """Strides, dilations and pads of a convolution; (y, x) pairs, pads top, left. zero_point: of its input."""
    walk = stride[1] | stride[0] << 3 | (dilation[1] - 1) << 16 | (dilation[0] - 1) << 21
    if chip.new_registers:
        padding = [(CNA, 0x1080, pads[1] << 8 | pads[0])]
    else:
        beside = (zero_point & 0xFFFF) << 16 if chip.name in ("rk3566", "rk3568") else 0
        padding = [(CNA, 0x1068, beside | pads[1] << (8 if chip.lite else 4) | pads[0])]
    return [(CNA, 0x1014, walk), *padding]


def _addresses(chip, tensors):
    table = ADDRESS[chip.new_registers]
    return [(tensor, *table[role], 0) for role, tensor in tensors.items() if tensor is not None]


def conv_task(chip, commands, tensors):
    """`tensors`: role -> tensor, for the relocations."""
    places = _addresses(chip, tensors)
    head = [(DPU, 0x4004, 0xE), (RDMA, 0x5004, 0xE)]
    commands = head + commands + [p[1:] for p in places]
    first = len(commands) - len(places)
    return Task(chip.conv_enable, commands,
                relocations=[(p[0], first + k) for k, p in enumerate(places)])


def simple_task(chip, tensors, enable=0x18):
    """A task of the element-wise unit (0x18) or of the pooling unit (0x60)."""
    if enable == 0x60:
        return Task(enable, [(PPU, 0x6004, 0xE), (PPU, 0x600C, 1)], 0xC00)
    return replace(conv_task(chip, [], tensors), enable=enable)


def lut_task(tables):
    """Loads both lookup tables: which one, then its entries."""
    commands = []
    for which, entries in enumerate(tables):
        commands.append((DPU, 0x4100, 1 << 17 | which << 16))
        commands += [(DPU, 0x4104, int(v) & 0xFFFF) for v in entries]
    return Task(0x18, commands)


_TRAILER = 4  # words


def _link(chip, task, at):
    """Of a trailer: where the next program is, and how long."""
    words = len(task.commands) + _TRAILER
    amount = words - 1 if chip.family == "rk356x" else (words + 1) // 2 - 1
    return [0x0101 << 48 | at << 16 | 0x10, 0x0101 << 48 | amount << 16 | 0x14]


def blob(chip, tasks, last):
    """The register commands (kind 9) and where each task's begin: 64-byte aligned, with the four
    commands that lead to the next task behind. `last`: numbers of tasks behind which no other is to come."""
    sizes = [-(-(len(t.commands) + _TRAILER) * 8 // 64) * 64 for t in tasks]
    starts, data = [sum(sizes[:i]) for i in range(len(tasks))], b""
    for i, task in enumerate(tasks):
        link = [0, 0] if i in last else _link(chip, tasks[i + 1], starts[i + 1])
        if task.cores > 1:
            link[1] |= 0x0101 << 48 | (task.cores - 1) << 32 | 0x14
        together = (task.cores > 1 and chip.family == "rk3576") << 24
        words = task.words() + link + [0x0041 << 48, 0x0081 << 48 | (task.enable | together) << 16 | 0x08]
        chunk = struct.pack(f"<{len(words)}Q", *words)
        data += chunk + bytes(-len(chunk) % 64)
    return data, starts


def records(tasks, starts, op_indices):
    """The task array (kind 10)."""
    return b"".join(
        struct.pack("<8IQ", 0, op, t.enable, t.interrupt, 0x1FFFF, 0, len(t.commands), 0, start)
        for t, start, op in zip(tasks, starts, op_indices)
    )


def version2_blob(task):
    """The same commands as container 2 holds them (kind 7): value << 32 | register << 16."""
    words = [(v & 0xFFFFFFFF) << 32 | r << 16 for _, r, v in task.commands]
    return struct.pack(f"<{len(words)}Q", *words)
