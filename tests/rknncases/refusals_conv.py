"""Convolutions and their inputs that are refused."""

import numpy as np

from rknnwriter import Model, Quant, ops
from rknnwriter.ops.activation import SUFFIXES
from .conv import IN, single, transposed
from .eltwise import A, two
from .float16 import _conv as half_conv
from .refusals import again
from .spoil import added, attr, command, conv, inputs, op, refuse, shape, spoilt, unary

# ---- convolutions ---------------------------------------------------------------------------

refuse("conv_size", "strides 1, 1, but the node has 3, 3", conv(), attr(strides=[3, 3]))
refuse("conv_stride_zero", "strides 0 is out of range", conv(), attr(strides=[0, 1]))
refuse("conv_pads_negative", "pads -1 is out of range", conv(), attr(pads=[-1, 0, 0, 0]))
refuse("conv_three_strides", "strides has 1 numbers, 2 are expected", conv(), attr(strides=[1]))
refuse("conv_group", "does not fit", conv(), attr(group=3))
refuse("conv_kernel", "does not fit", conv(), attr(kernel_shape=[5, 5]))
refuse("conv_wide", "is larger than 65536 on a side", conv(),
       shape(1, 20, 1, 1 << 21, inputs=True))
refuse("conv_types", "INT8 x INT8 -> FP16 is not supported", conv(),
       lambda m, node: setattr(node.outputs[0], "dtype", "float16")
       or setattr(node.outputs[0], "quant", None))
refuse("conv_no_scale", "its input or output has no scale", conv(),
       lambda m, node: setattr(node.outputs[0], "quant", None))
refuse("conv_three_dims", "only images (4 dimensions", conv(), shape(20, 8, 9, inputs=True))
refuse("conv_weight_computed", "its weight is not a constant", conv(),
       lambda m, node: node.inputs.__setitem__(1, node.inputs[0]))
refuse("conv_not_an_image", "is not laid out as one",
       lambda: single("rk3588", 20, 12), lambda m, node: _behind(m, node, layout="nchw"))
refuse("conv_bias_short", "its weight or bias does not fit", lambda: half_conv("rk3588", 20, 12),
       lambda m, node: setattr(node.inputs[2], "shape", (3,)) or setattr(
           node.inputs[2], "native", [3]))
refuse("conv_table_short", "its bias table has", conv(),
       lambda m, node: setattr(node.inputs[2], "data", bytes(64)))
refuse("conv_no_table", "its bias table has 0 bytes", conv(), inputs(2))
refuse("conv_addend", "has not the output's shape", lambda: _added(), shape(
    1, 12, 4, 9, which=3, inputs=True))
refuse("conv_no_addend", '"Add" in it is not', lambda: _added(), inputs(3))
refuse("conv_prelu", '"PRelu" in it is not', conv(), op("ConvPRelu"))
refuse("conv_packing_numbers", "a packing of 5 numbers is not known", conv(),
       spoilt(1, native=[1, 1, 3, 3, 32]))
refuse("conv_packing_kernel", "its packing is for a kernel of 5x5", conv(),
       spoilt(1, native=[1, 1, 5, 5, 32, 32]))
refuse("conv_packing_channels", "its packing does not hold", conv(),
       spoilt(1, native=[1, 1, 3, 3, 4, 32]))
refuse("conv_packing_bytes", "3000 bytes are there", conv(),
       spoilt(1, data=bytes(3000)))
refuse("conv_weight_layout", "layout 0", conv(), spoilt(1, layout=None))
refuse("conv_weight_twice", "is used in two different ways", conv(i=12, o=12),
       lambda m, node: _second_use(m, node))
refuse("conv_table_of_lut", "do not load the lookup table", conv(), op("ConvSigmoid"))
for _chip in ("rk3588", "rk3576"):
    refuse(f"half_leaky_{_chip}", "does not say the slope of its LeakyRelu",
           lambda chip=_chip: half_conv(chip, 20, 12), op("ConvLeakyRelu"))
    refuse(f"half_hard_sigmoid_{_chip}", "does not say the bounds of its HardSigmoid",
           lambda chip=_chip: half_conv(chip, 20, 12), op("ConvHardSigmoid"))
    refuse(f"half_clip_{_chip}", "does not say the bounds of its Clip",
           lambda chip=_chip: half_conv(chip, 20, 12), op("ConvClip"))
# Slopes as integers have them, and bounds that are no floats.
refuse("half_leaky_integer_rk3562", "does not say the slope of its LeakyRelu",
       lambda: half_conv("rk3562", 20, 12, act="leaky_relu", alpha=0.1), added(0x4068, 0x06660000))
for _chip, _top in (("rk3562", 6 << 14), ("rk3576", 0x4600), ("rv1126b", 0x7FFFFFFF), ("rk3576", 0xC0C00000)):
    refuse(f"half_clip_{_chip}_{_top:x}", "does not say the bounds of its Clip",
           lambda chip=_chip: half_conv(chip, 20, 12, act="clip"), added(0x4078, _top))
# A gain into a table that is not looked at.
refuse("half_table_bypassed", 'its registers do not do all that "ConvHardSigmoid" says',
       lambda: half_conv("rk3588", 20, 12, act="hard_sigmoid"), added(0x4070, 0x383))
refuse("max_of_three", "it has 3 operands, two are known", lambda: two(ops.maximum), lambda m, node: node.inputs.append(node.inputs[0]))
for _name, _act, _register, _value in (
        ("leaky_bypassed", "leaky_relu", 0x4060, 0x63), ("leaky_plain", "leaky_relu", 0x4060, 0x42),
        ("leaky_unset", "leaky_relu", 0x4068, None), ("leaky_nan", "leaky_relu", 0x4068, 0x7E000000),
        ("clip_relu", "clip", 0x4060, 0x12), ("clip_bypassed", "clip", 0x4060, 0xD2),
        ("clip_unset", "clip", 0x406C, None), ("clip_zero", "clip", 0x406C, 0),
        ("clip_infinite", "clip", 0x406C, 0x7F800000)):
    refuse(f"half_{_name}", "the file does not say the", lambda act=_act: half_conv(
        "rk3588", 20, 12, act=act), command(_register, _value))
refuse("leaky_behind_add", "how it scales its sums is not known", lambda: _added(), op("ConvAddLeakyRelu"))
refuse("leaky_alone", "the slope of its LeakyRelu", unary(ops.leaky_relu, 0.1, out=A),
       lambda m, node: node.attrs.clear())
refuse("hard_sigmoid_alone", "the bounds of its HardSigmoid", unary(ops.sigmoid, out=A),
       op("HardSigmoid"))

for _chip, _register, _value, _words in (
        ("rk3588", 0x4084, None, "OUT_CVT_SCALE (0x4084), so its scale is not known"),
        ("rk3588", 0x4040, None, "do not set DPU_BS_CFG (0x4040)"),
        ("rk3588", 0x4040, 0x20150, "DPU_BS_OW_CFG (0x4050) holds 0x00000125"),
        ("rk3588", 0x4040, 0x20053, "DPU_BS_CFG (0x4040) holds 0x00020053"),
        ("rk3588", 0x4084, 0x8001, "OUT_CVT_SCALE (0x4084) holds 0x00008001"),
        ("rk3588", 0x4088, 0x40000012, "OUT_CVT_SHIFT (0x4088) holds 0x40000012"),
        ("rk3576", 0x4038, 0x130080, "DPU_BS_CFG (0x4038) holds 0x00130080"),
        ("rk3562", 0x4038, 0x120E91, "DPU_BS_CFG (0x4038) holds 0x00120e91"),
        ("rv1106", 0x4040, 0x121DC0, "DPU_BS_CFG (0x4040) holds 0x00121dc0"),
        ("rk3576", 0x40B0, None, "OUT_CVT_SCALE (0x40b0)"),
        ("rk3576", 0x4050, 0x80071011, "(0x4050) holds 0x80071011"),
        ("rk3576", 0x4060, 0x904, "DPU_BN_CFG (0x4060) holds 0x00000904"),
        ("rk3562", 0x4050, 0, "(0x4050) holds 0x00000000"),
        ("rk3562", 0x4054, 0xE0000, "DPU_BS_OW_OP (0x4054) holds 0x000e0000"),
        ("rv1106", 0x4050, 0, "(0x4050) holds 0x00000000"),
        ("rv1106", 0x1014, None, "neither attributes nor register commands"),
        ("rv1106", 0x1014, 0, "says stride 0")):
    _shown = "absent" if _value is None else f"{_value:x}"
    refuse(f"{_chip}_{_register:x}_{_shown}", _words, conv(_chip),
           command(_register, _value))
refuse("rk3576_shifts_missing", "what register 0x5024 points to is missing", conv("rk3576"),
       lambda m, node: _without_relocation(node, 0x5024))
refuse("rk3576_slope_missing", "what register 0x5030 points to is missing",
       conv("rk3576", act="leaky_relu"), lambda m, node: _without_relocation(node, 0x5030))
refuse("rk3576_addend_in_front", "something is added in front of its lookup table",
       conv("rk3576", act="sigmoid", out=Quant.of_range(0, 1)),
       lambda m, node: _in_front(node, 0x5030))
refuse("rk3588_sums_shifted", "CORE_CLIP_TRUNCATE (0x301c) holds 0x00000021", conv(),
       added(0x301C, 0x21))
refuse("rv1106_output", "its output is too large", conv("rv1106"), shape(1, 12, 8, 9000))
refuse("leaky_without_slope", "do not set DPU_BN_MUL_CFG (0x4068)", conv(act="leaky_relu"), command(0x4068, None))


refuse("rv1106_groups", "does not fit", lambda: single("rv1106", 32, 24, group=2, pad=1))


def _without_relocation(node, register):
    task = node.tasks[0]
    task.relocations = [r for r in task.relocations if task.commands[r[1]][1] != register]


def _in_front(node, register):
    """The first number of what a register points to is 1."""
    task = node.tasks[0]
    tensor = next(t for t, k in task.relocations if task.commands[k][1] == register)
    tensor.data = b"\1" + tensor.data[1:]


def _behind(m, node, **fields):
    """A second convolution reads what the first writes."""
    middle = node.outputs[0]
    middle.kind = "activation"
    m.outputs.clear()
    m.output(ops.relu(m, middle), "z")
    node.inputs[0], m.nodes[-1].inputs[0] = node.inputs[0], middle
    for name, value in fields.items():
        setattr(middle, name, value)


def _second_use(m, node):
    other = m.input("other", (1, 1, 8, 9), IN)
    y = m.activation("second", (1, 12, 8, 9), IN)
    m.nodes.append(again(node, inputs=[other, *node.inputs[1:]], outputs=[y]))
    node.inputs[1].shape = (1, 12, 3, 3)


def _added():
    m = Model("rk3588")
    x, other = m.input("x", (1, 20, 8, 9), IN), m.input("other", (1, 12, 8, 9), IN)
    weight = np.random.default_rng(1).normal(size=(12, 20, 3, 3))
    m.output(ops.conv(m, x, weight, np.zeros(12), pad=1, addend=other, out=IN), "y")
    return m


for _name, _words, _spoil in (
        ("strides", "does not say its strides", lambda m, node: node.attrs.pop("strides")),
        ("size", "does not give one of", shape(1, 12, 14, 12)),
        ("small", "does not give one of", shape(1, 12, 6, 12))):
    refuse(f"deconv_{_name}", _words, lambda: transposed("rk3588", 20, 12), _spoil)
refuse("deconv_pads", "its padding is larger than its kernel",
       lambda: transposed("rk3588", 20, 12, 2, (9, 9), pad=3))

# ---- packings that are not known ------------------------------------------------------------


def _depthwise(chip, kernel=3):
    return lambda: single(chip, 24, 24, kernel, pad=kernel // 2, group=24)


def _weight(**fields):
    return spoilt(1, **fields)


def _cut(m, node):
    """Half of a depthwise weight's data: without the zero points."""
    weight = node.inputs[1]
    weight.size //= 2
    weight.data = weight.data[: weight.size]


def _flip(which, at):
    """A byte of a constant, from a multiple of its size on, is another one."""
    def spoil(m, node):
        data = node.inputs[which].data
        node.inputs[which].data = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1:]

    return spoil


# The 21st of 32 input channels that there is room for; the high byte of the first zero point, behind eight biases.
refuse("weight_beside_channels", "channels that its input does not have are padded with", conv(), _flip(1, 20))
refuse("weight_zero_point", "is no int8", conv(), _flip(2, 33))

for _chip in ("rk3588", "rk3566", "rk3562"):
    refuse(f"depthwise_twice_{_chip}", "a packing that takes", _depthwise(_chip, 5),
           lambda m, node: setattr(node.inputs[1], "data", node.inputs[1].data * 2))
for _chip in ("rk3576", "rv1126b", "rv1106"):
    refuse(f"depthwise_once_{_chip}", "what its bias table holds is not known",
           _depthwise(_chip, 5), _cut)
refuse("weight_data_long", "a packing that takes", conv(),
       lambda m, node: setattr(node.inputs[1], "data", node.inputs[1].data + bytes(64)))
refuse("groups_as_one", "it is packed for more than the 16 input channels", conv(i=32, o=24),
       lambda m, node: (attr(group=2)(m, node), _weight(shape=(24, 16, 3, 3))(m, node)))
refuse("groups_of_one", "how the weights of 20 groups are packed is not known", conv(o=40),
       lambda m, node: (attr(group=20)(m, node), _weight(shape=(40, 1, 3, 3))(m, node)))
refuse("deconv_groups", "how the weights of 4 groups are packed is not known",
       lambda: transposed("rk3588", 20, 12), attr(group=4))
refuse("deconv_turned", "channels that its input does not have are padded with",
       lambda: transposed("rk3588", 20, 20), _weight(shape=(1, 20, 4, 4)))
refuse("lut_range_rk3562", "its lookup table covers a range that is not known",
       conv("rk3562", act="sigmoid", out=Quant.of_range(0, 1)), added(0x410C, 0x60600))
for _register, _value in ((0x410C, 0x60600), (0x4110, 0xFFFF8000), (0x411C, 0x8000)):
    refuse(f"lut_range_{_register:x}", "its lookup table covers a range that is not known",
           conv(act="sigmoid", out=Quant.of_range(0, 1)), added(_register, _value))

# ---- what the registers say of scales that is not known ----------------------------------------

for _act in ("sigmoid", "hard_swish", "swish"):
    refuse(f"lut_behind_add_{_act}", "how a lookup table behind something else is used",
           lambda: _added(), op("ConvAdd" + SUFFIXES[_act]))
for _name, _register, _value in (
        ("negatives", 0x4040, 0x20160), ("shifts_in_table", 0x4048, 0xE03),
        ("addend", 0x4060, 0x20150), ("relu", 0x4060, 0x12),
        ("leaky_factor", 0x4060, 0x22)):
    refuse(f"registers_{_name}", "how it scales its sums is not known", conv(),
           command(_register, _value))
for _chip in ("rk3588", "rk3566", "rv1106"):
    refuse(f"leaky_of_all_{_chip}", "how it scales its sums is not known",
           conv(_chip, act="leaky_relu"), command(0x4060, 0x02))
    refuse(f"leaky_bypassed_{_chip}", "how it scales its sums is not known",
           conv(_chip, act="leaky_relu"), command(0x4060, 0x32))
refuse("shifts_of_negatives", "how it scales its sums is not known", conv(),
       added(0x4010, 13 << 4))

# ---- what is done to inputs -----------------------------------------------------------------


def _prepared(shape, **how):
    m = Model("rk3588")
    m.output(ops.relu(m, m.input("x", shape, A, **how)), "y")
    return m


for _name, _how in (("mean", {"mean": [0.5] * 5 + [0.25]}), ("std", {"std": [2.0] * 5 + [4.0]}),
                    ("last_mean", {"mean": [0.0] * 5 + [1.0]}), ("swapped", {"rgb2bgr": True})):
    refuse(f"input_{_name}", "of at most 4 channels only",
           lambda how=_how: _prepared((1, 6, 4, 5), **how))
refuse("input_rows", "of at most 4 channels only", lambda: _prepared((1, 9, 3), mean=[1, 2, 3]))
