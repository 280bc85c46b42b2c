"""Well-known networks as float models of operator set 13, with seeded weights where there are none."""
import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter


def _constants(graph):
    return {t.name: numpy_helper.to_array(t) for t in graph.initializer}


def _set_constants(graph, constants):
    used = {name for node in graph.node for name in node.input}
    del graph.initializer[:]
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items() if k in used)
    inputs = [i for i in graph.input if i.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)


def _converted(path):
    model = onnx.load(path)
    del model.opset_import[1:]
    model = version_converter.convert_version(model, 13)
    model.ir_version = 8
    return model


def _replace_nodes(graph, nodes):
    del graph.node[:]
    graph.node.extend(nodes)


def _seed(rng, node, position, shape):
    if node.op_type == "BatchNormalization":
        low, high = ((.8, 1.2), (-.2, .2), (-.2, .2), (.6, 1.4))[position - 1]
        return rng.uniform(low, high, shape)
    if len(shape) < 2:
        return rng.uniform(-.2, .2, shape)
    fan_in = np.prod(shape[1:])
    return rng.normal(0, np.sqrt(2 / fan_in), shape)


def _simplify(graph, constants):
    """Batch normalization into the convolution before it; sums of two become Add; Dropout goes;
    constants are no nodes."""
    maker = {n.output[0]: n for n in graph.node}
    nodes, same = [], {}
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = same.get(name, name)
        if node.op_type == "BatchNormalization":
            conv = maker[node.input[0]]
            scale, bias, mean, var = (constants[i].astype(np.float64) for i in node.input[1:5])
            factor = scale / np.sqrt(var + 1e-5)
            weight = constants[conv.input[1]] * factor.reshape(-1, 1, 1, 1)
            constants[conv.input[1]] = weight.astype(np.float32)
            constants[conv.output[0] + "_b"] = (bias - mean * factor).astype(np.float32)
            conv.input.append(conv.output[0] + "_b")
            same[node.output[0]] = conv.output[0]
        elif node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        elif node.op_type == "Dropout":
            same[node.output[0]] = node.input[0]
        else:
            node.op_type = "Add" if node.op_type == "Sum" and len(node.input) == 2 else node.op_type
            nodes.append(node)
    _replace_nodes(graph, nodes)


def seeded(path, fold=True):
    """A topology whose weights are ConstantOfShape, with random ones of a fixed seed."""
    model = _converted(path)
    graph, rng = model.graph, np.random.default_rng(3)
    constants = _constants(graph)
    shapes = {n.output[0]: constants[n.input[0]] for n in graph.node
              if n.op_type == "ConstantOfShape"}
    _replace_nodes(graph, [n for n in graph.node if n.op_type != "ConstantOfShape"])
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name in shapes and name not in constants:
                constants[name] = _seed(rng, node, i, shapes[name]).astype(np.float32)
    if fold:
        _simplify(graph, constants)
    _set_constants(graph, constants)
    return model


def plain(path):
    """A float model that has its weights."""
    model = _converted(path)
    constants = _constants(model.graph)
    _simplify(model.graph, constants)
    _set_constants(model.graph, constants)
    return model


def _dequantized(constants, node):
    q, scale, zp = (constants[i] for i in node.input)
    return ((q.astype(np.int32) - zp.astype(np.int32)) * scale).astype(np.float32)


# A zero point of 0 is what is left of a Clip(0, 6) behind a convolution.
def _is_clipped(constants, nodes, node):
    return constants[node.input[2]] == 0 and nodes and nodes[-1].op_type == "Conv"


def _clipped(constants, nodes, node):
    name = node.input[0] + "_clipped"
    constants.update({"zero": np.float32(0), "six": np.float32(6)})
    nodes.append(helper.make_node("Clip", [node.input[0], "zero", "six"], [name]))
    return name


def without_quantization(path):
    """The float model behind the QDQ file of MobileNetV2; its last Reshape becomes Flatten."""
    model = _converted(path)
    graph = model.graph
    constants, same, nodes = _constants(graph), {}, []
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = same.get(name, name)
        if node.op_type == "DequantizeLinear" and node.input[0] in constants:
            constants[node.output[0]] = _dequantized(constants, node)
        elif node.op_type == "QuantizeLinear" and _is_clipped(constants, nodes, node):
            same[node.output[0]] = _clipped(constants, nodes, node)
        elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            same[node.output[0]] = node.input[0]
        elif node.op_type == "Reshape":
            nodes.append(helper.make_node("Flatten", [node.input[0]], [node.output[0]]))
        elif node.op_type not in ("Shape", "Gather", "Unsqueeze", "Concat", "Constant"):
            nodes.append(node)
    _replace_nodes(graph, nodes)
    _set_constants(graph, constants)
    return model
