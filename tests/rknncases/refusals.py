"""Operators, tensors and tables that are refused."""

import numpy as np

from rknnwriter import Model, Quant, ops
from rknnwriter.slots import Blob, Scalar, Table, Vector
from .conv import single
from .eltwise import A, SHAPE, one, two
from .float16 import one as half
from .spoil import added, attr, constant, conv, inputs, op, quant, refuse, shape, spoilt, unary, unread

# ---- names of operators ---------------------------------------------------------------------

for _name, _words in (
        ("Frobnicate", 'operator "Frobnicate" is not known'),
        ("ReluFrobnicate", 'operator "ReluFrobnicate" is not known'),
        *((name, f'operator "{name}" is not known') for name in (
            "exSoftmaxMask", "exWindow", "exGRU", "exLSTM",
            "exRMSNorm", "exProposal", "RoiAlign", "Reorg", "LpNormalization")),
        ("ReshapeRelu", 'operator "ReshapeRelu" is not known'),
        ("AddFrobnicate", '"Frobnicate" in it is not'),
        ("AddReluReluReluReluRelu", "more than 4 operators are fused"),
        ("AddSigmoidAdd", '"Add" in it is not')):
    refuse(f"name_{_name}", _words, lambda: two(ops.add), op(_name))
refuse("lstm_of_npu", "how the NPU's weights of it lie is not known",
       lambda: two(lambda m, a, b, **how: ops.attention(m, a, b, b, **how), shapes=((2, 8, 1, 5), (2, 8, 1, 9))), op("LSTM"))
refuse("attention_of_integers", "in what steps its products and weights are held",
       lambda: two(lambda m, a, b, **how: ops.attention(m, a, b, b, **how), shapes=((2, 8, 1, 5), (2, 8, 1, 9))), attr(scale=0.25))
refuse("pads_elsewhere", "its pads do not lead from 6 to 9 in dimension 2",
       unary(ops.pad, [0, 0, 1, 0, 0, 0, 1, 0], cpu=True), shape(1, 20, 9, 7))
refuse("cast_of_fewer", "of 120 elements it makes 840", unary(ops.relu, cpu=True), shape(1, 20, 6, 1, inputs=True))
refuse("name_of_a_pool", '"Frobnicate" in it is not', lambda: one(ops.max_pool, 2),
       op("MaxPoolFrobnicate"))
refuse("integers_fuse_nothing", '"Relu" is not fused into arithmetic of integers',
       lambda: _whole(lambda m, x: ops.add(m, x, [1])), op("AddRelu"))


def _whole(function):
    m = Model("rk3588")
    m.output(function(m, ops.cast(m, m.input("x", (1, 12), A), "int64")), "y")
    return m


# ---- tensors --------------------------------------------------------------------------------

refuse("zero_point", "zero point 200 is no INT8", unary(ops.relu), quant(1, 200))
refuse("zero_point_low", "zero point -129 is no INT8", unary(ops.relu), quant(1, -129))
refuse("scale_zero", "scale 0 is not a number above 0", unary(ops.relu), quant(0, 0))
refuse("scale_negative", "scale -1 is not a number above 0", unary(ops.relu), quant(-1, 0))
refuse("scale_infinite", "is not a number above 0", unary(ops.relu), quant(np.inf, 0))
refuse("scale_nan", "is not a number above 0", unary(ops.relu), quant(np.nan, 0))
for _name, _how in (("mean", {"mean": [0, np.nan, 0]}), ("deviation", {"std": [1, 1, np.inf]})):
    refuse(f"{_name}_of_pixels", "is no number", lambda: single("rk3588", 3, 8, picture=True),
           lambda m, node, how=_how: node.inputs[0].preprocess.update(how))
refuse("scale_of_floats", "a scale of type FP32 is not supported", unary(ops.relu),
       spoilt(0, dtype="float32"))
refuse("size_overflows", "its size overflows", unary(ops.relu),
       shape(1 << 20, 1 << 20, 1 << 20, 1 << 20))
refuse("element_type", "numbers of type uint64 are not computed with here", unary(ops.relu), spoilt(0, dtype="uint64"))
refuse("no_output", "it has no output", unary(ops.relu),
       lambda m, node: m.nodes.append(again(node, outputs=[])))
refuse("output_is_constant", "is a constant", lambda: two(ops.add),
       lambda m, node: node.outputs.__setitem__(0, m.constant("fixed", np.zeros(SHAPE), "float32")))
refuse("written_twice", "is written twice", unary(ops.relu),
       lambda m, node: m.nodes.append(again(node)))
refuse("read_before_written", "is read before anything has written it",
       unary(lambda m, x: ops.relu(m, ops.relu(m, x))), lambda m, node: m.nodes.reverse())
refuse("only_constants", "is a constant", unary(ops.softmax, out=Quant(1 / 256, -128)),
       lambda m, node: node.inputs.__setitem__(0, m.constant("fixed", np.zeros(SHAPE), "float32")))
refuse("packed_weights_elsewhere", "is packed as a convolution's weights", lambda: two(ops.add),
       lambda m, node: node.inputs.__setitem__(1, m.packed_constant(
           "packed", SHAPE, "int8", [1, 1, 6, 7, 32, 32], bytes(1 << 16), "weight")))
refuse("short_constant", "bytes of", lambda: one(ops.add, np.ones((1, 20, 1, 1)), out=A),
       lambda m, node: setattr(node.inputs[1], "data", b"12345678"))
refuse("edges", "tensors where at most", lambda: two(ops.add),
       lambda m, node: setattr(node, "inputs", node.inputs * 3000))
refuse("nothing_to_work_on", "or nothing to work on", unary(ops.softmax, out=A),
       lambda m, node: (shape(1, 0, 6, 7)(m, node), shape(1, 0, 6, 7, inputs=True)(m, node)))
refuse("working_memory", "bytes to work in", unary(ops.softmax, out=A),
       lambda m, node: [shape(1, 20, 1 << 14, 1 << 13, inputs=i)(m, node) for i in (False, True)])
refuse("tensors_too_large", "elements of INT8 are too much", unary(ops.relu),
       lambda m, node: [shape(1, 20, 1 << 14, 1 << 14, inputs=i)(m, node) for i in (False, True)])
refuse("plane_of_integers", "is not supported", lambda: one(lambda m, x: ops.compare(
    m, "Less", x, m.native_constant("c", np.ones((1, 20, 1, 1)), A))))
refuse("plane_shape", "its native shape is not known", lambda: _planes(),
       lambda m, node: setattr(node.inputs[1], "native", [1, 1, 1, 1, 1]))
refuse("plane_numbers", "its native shape is not known", lambda: _planes(),
       lambda m, node: setattr(node.inputs[1], "native", [1, 20, 1, 1]))
refuse("plane_short", "bytes are too few", lambda: _planes(),
       lambda m, node: setattr(node.inputs[1], "data", b"1234"))
refuse("plane_empty", "is empty", lambda: _planes(), shape(0, 20, 1, 1, which=1, inputs=True))


def _planes():
    return one(lambda m, x: ops.add(m, x, m.native_constant("c", np.ones((1, 20, 1, 1)), A), out=A))


def again(node, **changes):
    copy = type(node)(**{**vars(node), **changes})
    copy.name = node.name + "_again"
    return copy


# ---- the file's tables ----------------------------------------------------------------------


def tensor_slots(slots, which=0):
    return lambda m, node: node.inputs[which].slots.update(slots)


def node_slots(slots):
    return lambda m, node: node.slots.update(slots)


_WORDS = ((10, "f", [0.5] * 20), (11, "i", [0] * 20))
refuse("scale_per_channel", "quantization per channel is not supported", unary(ops.relu),
       tensor_slots({slot: Vector(kind, values) for slot, kind, values in _WORDS}))
refuse("compressed", "is compressed, which is not understood", conv(),
       lambda m, node: node.inputs[1].slots.update(
           {0: Scalar("b", 0), 14: Scalar("b", 1), 15: Vector("i", [7] * 16),
            16: Vector("i", [0] * 16), 17: Vector("i", [16] * 16)}))
refuse("buffer", "buffer 999 does not exist", conv(), tensor_slots({18: Scalar("i", 999)}, 1))
refuse("dimensions", "too many dimensions", unary(ops.relu), tensor_slots({4: Vector("i", [1] * 40)}))
refuse("place", "the chip's memory at 4 GB", unary(ops.relu), tensor_slots({13: Scalar("i", -64)}))
refuse("no_such_tensor", "tensor 999 does not exist", unary(ops.relu),
       node_slots({4: Vector("i", [999])}))
refuse("bson", "its attributes are damaged", unary(ops.leaky_relu, 0.1, out=A),
       node_slots({9: Blob(b"nonsense")}))
refuse("input_is_constant", "is a constant", lambda: one(ops.add, np.ones((1, 20, 1, 1)), out=A),
       lambda m, node: m.graph_slots.update({2: Vector("i", [1])}))
refuse("output_is_no_tensor", "is no tensor", unary(ops.relu),
       lambda m, node: m.graph_slots.update({3: Vector("i", [-1])}))
refuse("two_graphs", "the file has 2 graphs", unary(ops.relu),
       lambda m, node: m.root_slots.update({2: [Table({}), Table({})]}))
refuse("build_attributes", "attributes", unary(ops.relu),
       lambda m, node: m.root_slots.update({3: "{'dynamic_shapes': [1, "}))
refuse("shapes_of_another_kind", "of its shapes, where", unary(ops.relu),
       lambda m, node: m.root_slots.update({16: "dynamic_shape"}))
refuse("root_slot_of_no_text", "number 17 of the root table has 3 bytes", unary(ops.relu),
       lambda m, node: m.root_slots.update({17: "a\0b"}))
refuse("two_texts_in_the_root", "number 18 of the root table has 3 bytes", unary(ops.relu),
       lambda m, node: m.root_slots.update({11: "one", 18: "two"}))
refuse("unknown_attribute", 'its attribute "new_mode" is not understood', unary(ops.leaky_relu, 0.1, out=A),
       attr(new_mode=3))
refuse("unknown_typed_attribute", "number 1 of its attributes (of type 50) holds 0x7", unary(ops.gather, [3, 0]),
       node_slots({7: Scalar("B", 50), 8: Table({0: Scalar("i", 1), 1: Scalar("i", 7)}), 9: None}))
for _name, _text, _words in (
        ("build_key", "'weight_form': 'w4'", 'have "weight_form", which is not understood'),
        ("build_swap", "'attrs': {'x': {'rgb2bgr': True}}", 'say "rgb2bgr" of x, which its tables do not'),
        ("build_dynamic", "'attrs': {'x': {'origin_dynamic': True}}", 'say "origin_dynamic" of x')):
    refuse(_name, _words, unary(ops.relu),
           lambda m, node, text=_text: m.root_slots.update({3: "{" + text + "}"}))
refuse("exNorm_of_nothing", "it has 0 inputs, 1 are expected", lambda: half(ops.norm), inputs(0))
for _name in ("Concat", "exSoftmax13", "Softmax", "Split", "TopK", "exGlu", "ArgMax", "Reshape",
              "Resize", "Relu", "MaxPool", "exNorm", "ReduceMean", "ReduceMax", "Cast", "Tile",
              "LogSoftmax", "DepthToSpace"):
    refuse(f"no_inputs_{_name}", "it has 0 inputs, 1 are expected" if _name != "MaxPool"
           else "only images", unary(ops.relu), lambda m, node, name=_name: (
               op(name)(m, node), inputs(0)(m, node)))

# ---- pools ----------------------------------------------------------------------------------

refuse("pool_three_dims", "only images (4 dimensions) can be pooled", unary(ops.max_pool, 2),
       shape(20, 6, 7, inputs=True))
refuse("pool_kernel", "its kernel's size is not known", unary(ops.max_pool, 2),
       lambda m, node: node.attrs.pop("kernel_shape"))
refuse("pool_size", "an image of 6 does not give one of", unary(ops.max_pool, 2),
       attr(strides=[1, 1]))
refuse("pool_channels", "not images of as many channels", unary(ops.max_pool, 2),
       shape(1, 21, 3, 3))

# What no file has: a pool by the DPU (averages by a convolution), and something else by the pool's unit.
refuse("pool_of_the_dpu", "how the DPU computes AveragePool is not known", unary(ops.average_pool, 2), added(0x400C, 5))
refuse("relu_of_the_pool", "how the pool's unit computes Relu is not known", unary(ops.relu),
       lambda m, node: node.tasks[0].commands.append((0x8001, 0x7030, 1)))

# ---- the others: operator, how it is spoilt, words ------------------------------------------

_CONCAT = lambda: two(lambda m, a, b, out: ops.concat(m, [a, b], out=out))
_SPLIT = lambda: one(lambda m, x: ops.split(m, x, (8, 12))[0])
_SLICE = unary(ops.slice_, [2, 1], [17, 6], [1, 3])
_PAD = unary(ops.pad, [0, 0, 1, 2, 0, 0, 3, 1])
_TOP = lambda: one(lambda m, x: ops.top_k(m, x, 3)[0])
_MATMUL = lambda: two(ops.matmul, shapes=((1, 12, 1, 5), (1, 12, 1, 9)))
_NORM = unary(ops.batch_norm, np.ones(20), np.zeros(20), np.zeros(20), np.ones(20), out=A)
_LAYER = lambda: half(ops.layer_norm, np.ones(24), np.zeros(24), shape=(1, 9, 24))


def _grid():
    m = Model("rk3588")
    x, grid = m.input("x", SHAPE), m.input("grid", (1, 4, 5, 2), None, "float16")
    m.output(ops.grid_sample(m, x, grid), "y")
    return m


for _name, _words, _build, _spoil in (
        ("inputs", "it has 1 inputs, 2 are expected", lambda: two(ops.add), inputs(1)),
        ("input_missing", "its input 1 is missing", lambda: two(ops.add),
         lambda m, node: node.inputs.__setitem__(1, None)),
        ("add_shapes", "does not fit its output", lambda: two(ops.add),
         shape(1, 20, 5, 7, which=1, inputs=True)),
        ("concat_sum", "do not add up to its output", _CONCAT, shape(1, 99, 6, 7)),
        ("concat_axis", "it has no valid axis", _CONCAT, attr(axis=4)),
        ("concat_fits", "does not fit in dimension 2", _CONCAT, shape(1, 40, 5, 7)),
        ("concat_dims", "dimensions", _CONCAT, shape(1, 20, 6, 7, 1, which=1, inputs=True)),
        ("concat_packed", "part 1 is a packed constant", lambda: one(
            lambda m, x: ops.concat(m, [x, m.native_constant("c", np.ones(SHAPE), A)], out=A)),
         lambda m, node: None),
        ("split_sum", "its parts do not make up the whole", _SPLIT,
         shape(1, 11, 6, 7, which=1)),
        ("split_too_much", "does not fit along axis 1", _SPLIT, shape(1, 13, 6, 7, which=1)),
        ("split_missing", "part 0 is missing, and the file does not say its size", _SPLIT,
         lambda m, node: (unread(0, 1)(m, node), node.attrs.pop("split"))),
        ("split_missing_size", "part 0 is missing, and the file does not say its size", _SPLIT,
         lambda m, node: (unread(0)(m, node), attr(split=[21, 12])(m, node))),
        ("split_unread", "it has no output", _SPLIT, lambda m, node: node.outputs.clear()),
        ("top_k_unread", "its input or both outputs are missing", _TOP, unread(0, 1)),
        ("top_k_outputs", "it has 3 outputs", _TOP, lambda m, node: node.outputs.append(None)),
        ("resize_scales", "its scales do not give its output in dimension 3",
         unary(ops.resize, scales=(2, 1.5)), shape(1, 20, 12, 11)),
        ("slice_lists", "do not fit together", _SLICE, constant(3, [1])),
        ("slice_axis", "axis or step 1 is out of range", _SLICE, constant(3, [1, 4])),
        ("slice_step", "axis or step 0 is out of range", _SLICE, constant(4, [0, 1])),
        ("slice_dims", "differ in dimensions", _SLICE, shape(15, 6, 5)),
        ("slice_outside", "reaches outside its input", _SLICE, shape(1, 19, 6, 5)),
        ("slice_computed", "is not a constant", _SLICE,
         lambda m, node: node.inputs.__setitem__(1, node.inputs[0])),
        ("slice_long", "is not a constant of at most 16 integers", _SLICE, constant(1, [0] * 17)),
        ("expand", "cannot be expanded", unary(ops.expand, SHAPE, shape=(1, 20, 1, 1)),
         shape(1, 21, 6, 7)),
        ("perm", "no permutation", unary(ops.transpose, (0, 2, 1, 3)), attr(perm=[0, 2, 2, 3])),
        ("perm_range", "no permutation", unary(ops.transpose, (0, 2, 1, 3)),
         attr(perm=[0, 2, 1, 4])),
        ("perm_short", "no permutation of 4 dimensions", unary(ops.transpose, (0, 2, 1, 3)),
         attr(perm=[1, 0])),
        ("transpose_dims", "differ in dimensions", unary(ops.transpose, (0, 2, 1, 3)),
         shape(6, 20, 7)),
        ("transpose_shape", "is not its transposed input", unary(ops.transpose, (0, 2, 1, 3)),
         shape(1, 20, 6, 7)),
        ("reshape", "differ in size", unary(ops.reshape, (1, 10, 12, 7)), shape(1, 10, 12, 8)),
        ("pads", "6 pads for 4 dimensions", _PAD, constant(1, [0] * 6)),
        ("pad_axes", "6 pads for 4 dimensions", _PAD,
         lambda m, node: (constant(1, [0] * 6)(m, node), node.inputs.append(
             m.constant("axes", [1, 2, 3], "int64")))),
        ("pad_other_axes", "8 pads for 4 dimensions, some of which it names", _PAD,
         lambda m, node: node.inputs.append(m.constant("axes", [3, 2, 1, 0], "int64"))),
        ("pad_negative", "pads of -1 and 0 are out of range", _PAD, constant(1, [0, 0, -1, 0, 0, 0, 0, 0])),
        ("pad_mode", 'mode "mirror" is not supported', _PAD, attr(mode="mirror")),
        ("pad_value", "padding value is not a constant", _PAD,
         lambda m, node: node.inputs.__setitem__(2, node.inputs[0])),
        ("pad_dims", "differ in dimensions", _PAD, shape(20, 10, 10)),
        ("pad_small", "its pads do not lead from 6 to 6 in dimension 2", _PAD, shape(1, 20, 6, 10)),
        ("resize_mode", 'mode "lanczos" is not supported', unary(ops.resize, (9, 11)),
         attr(mode="lanczos")),
        ("resize_nearest", "nearest_mode", unary(ops.resize, (9, 11)), attr(nearest_mode="best")),
        ("resize_crop", "coordinate_transformation_mode", unary(ops.resize, (9, 11)),
         attr(coordinate_transformation_mode="tf_crop_and_resize")),
        ("resize_channels", "only height and width", unary(ops.resize, (9, 11)),
         shape(1, 10, 9, 11)),
        ("argmax_last", "select_last_index is not known of the NPU", unary(ops.argmax),
         lambda m, node: (attr(select_last_index=1)(m, node), setattr(node, "device", "npu"))),
        ("perm_missing", "no permutation of 4 dimensions", unary(ops.transpose, (0, 2, 1, 3)),
         lambda m, node: node.attrs.pop("perm")),
        ("argmax_axis", "it has no valid axis", unary(ops.argmax), attr(axis=7)),
        ("argmax_size", "has not the size of its reduced input", unary(ops.argmax),
         shape(1, 2, 6, 7)),
        ("softmax_size", "differ in size", unary(ops.softmax, out=A), shape(1, 20, 6, 8)),
        ("mean_unnamed", "does not say what it reduces",
         unary(ops.reduce_mean, (2, 3), keep=False, out=A), lambda m, node: node.attrs.pop("axes")),
        ("mean_axis", "axis 9 is out of range",
         unary(ops.reduce_mean, (2, 3), keep=False, out=A), attr(axes=[9])),
        ("mean_size", "has not the size of its reduced input",
         unary(ops.reduce_mean, (2, 3), out=A), shape(1, 2, 1, 1)),
        ("reduces_nothing", "it reduces nothing",
         unary(lambda m, x: ops.reduce(m, "ReduceMax", x, (2,), out=A), shape=(2, 20, 6, 7)),
         shape(2, 20, 6, 7)),
        ("reduce_size", "does not fit its reduced input",
         unary(lambda m, x: ops.reduce(m, "ReduceMax", x, (2,), out=A)), shape(1, 20, 3, 7)),
        ("tile", "is not a multiple of its input", unary(ops.tile, [1, 2, 1, 3]),
         shape(1, 41, 6, 21)),
        ("where_types", "its types do not fit together", lambda: one(lambda m, x: ops.where(
            m, ops.compare(m, "Greater", x, [0.5]), x, [-1.0], out=A)),
         lambda m, node: node.inputs.__setitem__(0, node.inputs[1])),
        ("top_k_size", "its outputs do not fit its input", _TOP, shape(1, 20, 6, 9)),
        ("top_k_axis", "it has no valid axis", _TOP, attr(axis=4)),
        ("gather_size", "its output does not fit its input", unary(ops.gather, [3, 0, 19]),
         shape(1, 4, 6, 7)),
        ("elements_size", "its indices do not fit its input",
         unary(ops.gather_elements, np.zeros((1, 20, 3, 7)), axis=2), shape(1, 20, 4, 7)),
        ("matmul", "do not fit together", _MATMUL, shape(1, 6, 1, 9)),
        ("matmul_form", 'c_type "div" is not known', _MATMUL, attr(c_type="div")),
        ("grid", "image, grid and output do not fit", _grid, shape(1, 20, 4, 6)),
        ("grid_mode", 'mode "bicubic" is not supported', _grid, attr(mode="bicubic")),
        ("norm_channels", "is not a constant of 20 channels", _NORM, constant(1, np.ones(19))),
        ("norm_shape", "differ in shape", _NORM, shape(1, 20, 7, 6)),
        ("layer_scale", "it has 1 inputs, 2 are expected", _LAYER, inputs(1)),
        ("layer_image_missing", "its input 0 is missing", _LAYER,
         lambda m, node: node.inputs.__setitem__(0, None)),
        ("layer_size", "is not a constant of 24 channels", _LAYER, constant(1, np.ones(23))),
        ("layer_shape", "do not fit together", _LAYER, shape(1, 9, 25)),
        ("norm_mode", 'mode "pixel" is not supported', lambda: half(ops.norm), attr(mode="pixel")),
        ("norm_axes", "its axes are neither", lambda: half(ops.norm), attr(axes=[2])),
        ("norm_without_image", "with image layout only", lambda: half(ops.norm, shape=(1, 9, 24)),
         lambda m, node: None),
        ("norm_parameter", "is not a constant of 20 channels", lambda: half(ops.norm, np.ones(20)),
         constant(1, np.ones((1, 7, 1, 1)))),
        ("norm_output", "do not fit together", lambda: half(ops.norm), shape(1, 20, 7, 6)),
        ("glu_half", "is not half of its input", lambda: half(ops.glu), shape(1, 20, 3, 7)),
        ("glu_rows", "only the channels can be halved", lambda: half(ops.glu, axis=2),
         lambda m, node: None),
        ("glu_axis", "it has no valid axis", lambda: half(ops.glu), attr(axis=4)),
        ("matmul_third", "its third input does not fit", lambda: two(
            lambda m, a, b, out: ops.matmul(m, a, b, addend=[[[[1.0, 2.0]]]], out=out),
            shapes=((1, 12, 1, 5), (1, 12, 1, 9))), lambda m, node: None),
        ("matmul_no_third", "it has 2 inputs, 3 are expected", _MATMUL, attr(c_type="mul")),
        ("log_softmax_inner", "over more than its axis", unary(ops.log_softmax, axis=1, out=A),
         lambda m, node: None),
        ("log_softmax_axis", "it has no valid axis", unary(ops.log_softmax, out=A), attr(axis=-5)),
        ("hardmax_size", "input and output differ", unary(ops.hardmax, out=A), shape(1, 20, 6, 8)),
        ("argmin_size", "has not the size of its reduced input", unary(ops.argmin),
         shape(1, 2, 6, 7)),
        ("instance_norm", "do not fit together",
         unary(ops.instance_norm, np.ones(20), np.ones(20), out=A), constant(1, np.ones(19))),
        ("instance_norm_bias", "it has 2 inputs, 3 are expected",
         unary(ops.instance_norm, np.ones(20), np.ones(20), out=A), inputs(2)),
        ("depth_mode", 'mode "RDC" is not known', unary(ops.depth_to_space, 2), attr(mode="RDC")),
        ("depth_block", "do not fit its blocks", unary(ops.depth_to_space, 2), attr(blocksize=3)),
        ("depth_block_absent", "do not fit its blocks", unary(ops.depth_to_space, 2),
         lambda m, node: node.attrs.pop("blocksize")),
        ("depth_size", "do not fit its blocks", unary(ops.depth_to_space, 2), shape(1, 5, 12, 13)),
        ("space_size", "do not fit its blocks",
         unary(ops.space_to_depth, 2, shape=(1, 3, 6, 8)), shape(1, 12, 3, 5)),
        ("mat_mul_shapes", "do not fit together",
         unary(ops.mat_mul, np.ones((24, 7)), shape=(1, 9, 24), out=A),
         constant(1, np.ones((23, 7)))),
        ("clip_computed", "the bounds of its Clip", unary(ops.clip, None, None, out=A),
         lambda m, node: node.inputs.__setitem__(1, node.inputs[0])),
        ("clip_bounds", "the bounds of its Clip", lambda: two(ops.add),
         lambda m, node: (op("AddClip")(m, node),
                          setattr(node.outputs[0], "dtype", "float16"),
                          setattr(node.outputs[0], "quant", None)))):
    refuse(_name, _words, _build, _spoil)
