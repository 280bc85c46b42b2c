"""Models of forms that exporters and converters write and other tests of ours do not have."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def model_of(nodes, inputs, outputs, constants=(), opset=17):
    def values(shapes):
        return [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]

    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()]
    graph = helper.make_graph(nodes, "strange", values(inputs), values(outputs), constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    return model


def unsorted():
    """Nodes in the opposite order."""
    nodes = [helper.make_node("Abs", ["c"], ["y"]), helper.make_node("Sub", ["b", "a"], ["c"]),
             helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Abs", ["x"], ["a"])]
    return model_of(nodes, {"x": [1, 6]}, {"y": [1, 6]})


def lstm_in_bytes():
    """What ONNX Runtime's quantizer makes of an LSTM: weights [direction, inputs, gates] in 8 bits."""
    rng = np.random.default_rng(3)
    inputs, hidden, directions = 6, 8, 2
    constants = {"w": rng.integers(-127, 128, (directions, inputs, 4 * hidden)).astype(np.int8),
                 "r": rng.integers(-127, 128, (directions, hidden, 4 * hidden)).astype(np.int8),
                 "b": rng.uniform(-.5, .5, (directions, 8 * hidden)).astype(np.float32)}
    for name in "wr":
        constants[name + "_scale"] = rng.uniform(.002, .005, directions).astype(np.float32)
        constants[name + "_zp"] = np.zeros(directions, np.int8)
    names = ["x", "w", "r", "b", "", "", "", "", "w_scale", "w_zp", "r_scale", "r_zp"]
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "h", "c"], domain="com.microsoft",
                            hidden_size=hidden, direction="bidirectional")
    state = [directions, 1, hidden]
    return model_of([node], {"x": [5, 1, inputs]}, {"y": [5, directions, 1, hidden], "h": state, "c": state}, constants)


def normalized():
    nodes = [helper.make_node("LpNormalization", ["x"], ["a"], axis=1, p=2),
             helper.make_node("LpNormalization", ["x"], ["b"], axis=-1, p=1),
             helper.make_node("MeanVarianceNormalization", ["x"], ["c"], axes=[2, 3]),
             helper.make_node("MeanVarianceNormalization", ["x"], ["d"])]
    shape = [2, 5, 4, 3]
    return model_of(nodes, {"x": shape}, dict.fromkeys("abcd", shape))


def known_places():
    """Old exporters make masks of constants, and look for what is set."""
    constants = {"mask": np.array([[0, 1, 0, 2], [-3, 0, 0, 4]], np.float32), "chosen": np.array([False, True, True]),
                 "lengths": np.array([2, 3], np.int64)}
    nodes = [helper.make_node("NonZero", ["mask"], ["at"]), helper.make_node("Transpose", ["at"], ["pairs"], perm=[1, 0]),
             helper.make_node("GatherND", ["x", "pairs"], ["y"]),
             helper.make_node("Compress", ["x", "chosen"], ["z"], axis=1),
             helper.make_node("ReverseSequence", ["x", "lengths"], ["v"], batch_axis=0, time_axis=1)]
    return model_of(nodes, {"x": [2, 4]}, {"y": [4], "z": [2, 2], "v": [2, 4]}, constants)


def resampled():
    """With antialias, which ONNX Runtime weighs as Pillow does."""
    sizes = {"down": [1, 2, 5, 7], "mixed": [1, 2, 5, 30]}
    constants = {name: np.array(size, np.int64) for name, size in sizes.items()}
    nodes, outputs = [], {}
    for name, size in sizes.items():
        for mode in ("linear", "cubic"):
            for how in ("half_pixel", "align_corners", "asymmetric"):
                outputs[f"{name}_{mode}_{how}"] = size
                nodes.append(helper.make_node("Resize", ["x", "", "", name], [f"{name}_{mode}_{how}"], mode=mode, antialias=1,
                                              coordinate_transformation_mode=how))
    return model_of(nodes, {"x": [1, 2, 13, 17]}, outputs, constants, 18)


def deformed():
    rng = np.random.default_rng(4)
    constants = {"w": rng.uniform(-1, 1, (6, 2, 3, 3)).astype(np.float32)}
    node = helper.make_node("DeformConv", ["x", "w", "o", "", "m"], ["y"], pads=[1, 1, 1, 1], group=2, offset_group=2)
    return model_of([node], {"x": [2, 4, 7, 9], "o": [2, 36, 7, 9], "m": [2, 18, 7, 9]}, {"y": [2, 6, 7, 9]}, constants, 19)


def attended():
    """Queries that share keys, behind a cache."""
    nodes = [helper.make_node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "keys", "values"], is_causal=1, softcap=3.)]
    inputs = {"q": [2, 4, 3, 8], "k": [2, 2, 3, 8], "v": [2, 2, 3, 6], "pk": [2, 2, 5, 8], "pv": [2, 2, 5, 6]}
    return model_of(nodes, inputs, {"y": [2, 4, 3, 6], "keys": [2, 2, 8, 8], "values": [2, 2, 8, 6]}, opset=23)


def write_all():
    for maker in (unsorted, lstm_in_bytes, normalized, known_places, resampled, deformed, attended):
        yield "strange_" + maker.__name__, maker()
