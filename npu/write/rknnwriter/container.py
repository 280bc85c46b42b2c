"""Puts a description into the bytes of a `.rknn` file, containers 6, 2 and 1; what container_lite
shares has no underscore."""

import json
import struct
from dataclasses import replace

import numpy as np

from . import arena, bson, pack, programs, regs
from .slots import Blob, Scalar, Table, Vector, finish

DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
          "float16": 10, "uint64": 13}
LAYOUTS = {"nchw": 2, "nc1hwc2": 64, "weight": 65}
KINDS = {"input": 1, "output": 2, "activation": 3, "npu_const": 4, "cpu_const": 5,
         "sub_task": 8}
_KIND_LUT, _KIND_BLOB2, KIND_COMMANDS, KIND_TASKS = 6, 7, 9, 10

# Attribute unions: op -> (type, {slot: attribute}). Fused convolutions share Conv's.
_UNIONS = {
    "Conv": (1, {0: "auto_pad", 1: "dilations", 2: "group", 3: "kernel_shape", 4: "pads",
                 5: "strides"}),
    "ConvTranspose": (2, {1: "dilations", 2: "group", 3: "kernel_shape", 6: "pads", 7: "strides"}),
    "MaxPool": (3, {0: "auto_pad", 2: "dilations", 3: "kernel_shape", 4: "pads", 6: "strides"}),
    "AveragePool": (5, {0: "auto_pad", 2: "count_include_pad", 3: "kernel_shape", 4: "pads",
                        5: "strides"}),
    "BatchNormalization": (17, {}),
    "BatchNormalizationRelu": (17, {}),
    "Concat": (19, {0: "axis"}),
    "Split": (20, {0: "axis", 1: "split"}),
    "Transpose": (25, {0: "perm"}),
    "Resize": (26, {0: "coordinate_transformation_mode", 1: "cubic_coeff_a", 2: "exclude_outside",
                    4: "mode", 5: "nearest_mode"}),
    "Pad": (30, {0: "mode"}),
    "ArgMax": (51, {0: "axis"}),
}


def union_of(node):
    op = next((op for op in ("ConvTranspose", "Conv") if node.op.startswith(op)), node.op)
    return _UNIONS.get(op)


def _attribute(name, value):
    if isinstance(value, float):
        return Scalar("f", value)
    if isinstance(value, int):
        return Scalar("i", 0 if name == "group" and value == 1 else value)
    return Vector("i", list(value)) if isinstance(value, list) else value


def attribute_table(node):
    kind, slots = union_of(node)
    attrs = {"auto_pad": "NOTSET", **node.attrs}
    return Table({s: _attribute(name, attrs[name]) for s, name in slots.items() if name in attrs})


def bson_of(node):
    attrs = {k: v for k, v in node.attrs.items() if k not in ("auto_pad", "split")}
    if node.op == "Resize" or node.fused or not attrs:
        return None
    return Blob(bson.attributes(attrs))


class _File:
    """What one file holds beside the description: buffers, indices, the arena."""

    def __init__(self, model):
        self.model, self.chip = model, model.chip
        self.whole = programs.complete(model)  # programs that are not lead nowhere
        self.buffers = [Table({})]
        self.order = [None] + sorted(model.tensors, key=lambda t: not t.is_const)
        self.index = {t: i for i, t in enumerate(self.order) if t is not None}
        self.index[None] = -1
        self.offsets, self.internal = arena.place(model)
        self.extra = []  # tensors that only the file has

    def buffer(self, data):
        self.buffers.append(Table({0: Blob(data, 64)}))
        return len(self.buffers) - 1

    def command_tensor(self, name, kind, data):
        empty = Vector("i", [])
        self.extra.append(Table({
            0: Scalar("b", DTYPES["uint64"]), 2: Scalar("b", kind), 3: empty, 4: empty, 5: name,
            6: "", 7: "", 8: Vector("f", []), 9: Vector("f", []), 10: Vector("f", []), 11: empty,
            15: empty, 16: empty, 17: empty, 18: Scalar("i", self.buffer(data)),
        }))
        return len(self.order) + len(self.extra) - 1


def _tensor(f, t):
    if t is None:
        t_slots = {3: [], 4: [], 8: [], 9: [], 10: [], 11: [], 15: [], 16: [], 17: []}
        return Table({**{s: Vector("i", v) for s, v in t_slots.items()}, 5: "", 6: "", 7: ""})
    floats = lambda values: Vector("f", [float(v) for v in values])
    quantized = t.quant is not None
    low, high = t.quant.limits if quantized else (0, 0)
    is_plane = t.layout == "nc1hwc2" and not t.is_const and t.kind != "input"
    return Table({
        0: Scalar("b", DTYPES[t.dtype]), 1: Scalar("b", LAYOUTS.get(t.layout, 0)),
        2: Scalar("b", KINDS[t.kind]), 3: Vector("i", t.native), 4: Vector("i", list(t.shape)),
        5: t.name, 6: "layer" if quantized else "", 7: "int8" if quantized else "",
        8: floats([low] if quantized else []), 9: floats([high] if quantized else []),
        10: floats([t.quant.scale] if quantized else []),
        11: Vector("i", [t.quant.zero_point] if quantized else []),
        12: Scalar("i", t.size), 13: Scalar("i", f.offsets.get(t, 0)),
        15: Vector("i", []), 16: Vector("i", []), 17: Vector("i", []),
        18: Scalar("i", f.buffer(t.data) if t.data else 0),
        19: Scalar("i", 4 if is_plane and np.prod(t.shape[2:]) > 1 else 0),
        20: Scalar("i", t.stride), **t.slots,
    })


# ---- nodes ----------------------------------------------------------------------------------


def _columns(chip, node):
    """Node slots 10 and 11."""
    shared = node.op.startswith("Conv")
    pattern = chip.conv_columns if shared else chip.other_columns
    luts = [len(node.lut_tasks) * used for used in pattern]
    counts = [(len(node.tasks) + len(node.lut_tasks)) * used for used in pattern]
    if not chip.lut_in_columns:
        counts[0] -= luts[0]
    return counts, [luts[0]] + [0] * (len(luts) - 1)


def _core_bytes(chip, node):
    if not chip.core_bytes or not node.outputs:
        return Vector("i", [0] * chip.core_bytes) if chip.core_bytes else None
    total = sum(t.size for t in node.outputs if t is not None)
    return Vector("i", [total] + [0] * (chip.core_bytes - 1))


def _node(f, node):
    inputs, outputs = ([f.index[t] for t in side] for side in (node.inputs, node.outputs))
    union = union_of(node)
    slots = {
        1: node.op, 2: node.name, 3: Scalar("b", 2 if node.device == "npu" else 0),
        4: Vector("i", inputs), 5: Vector("i", outputs),
        7: Scalar("B", union[0]) if union else None,
        8: attribute_table(node) if union else None, 9: bson_of(node),
    }
    if f.model.blobs:
        slots[6] = _blob_tasks(f, node)
        return Table(slots)
    counts, luts = _columns(f.chip, node)
    slots.update({10: Vector("i", counts), 11: Vector("i", luts), 12: _core_bytes(f.chip, node),
                  13: Scalar("b", int(union is not None and union[0] == 1)), **node.slots})
    return Table(slots)


def _end_node(f, op, tensor):
    is_input = op == "InputOperator"
    slots = {1: op, 2: f"{op}:{tensor.name}",
             4: Vector("i", [] if is_input else [f.index[tensor]]),
             5: Vector("i", [f.index[tensor]] if is_input else []), 9: Blob(b"")}
    if f.model.blobs:
        slots[6] = []
    else:
        columns = len(f.chip.conv_columns)
        slots.update({10: Vector("i", [0] * columns), 11: Vector("i", [0] * columns)})
        if f.chip.core_bytes:
            slots[12] = Vector("i", [0] * f.chip.core_bytes)
    return Table(slots)


def _blob_tasks(f, node):
    """Tables are loaded by a blob that the task behind it names."""
    tables = []
    luts = [f.command_tensor("", _KIND_LUT, regs.version2_blob(t)) for t in node.lut_tasks]
    for task in node.tasks:
        index = f.command_tensor("", _KIND_BLOB2, regs.version2_blob(task))
        words = [w for t, command, *offset in task.relocations
                 for w in (f.index[t] << 32 | task.commands[command][1], sum(offset), 0)]
        tables.append(Table({0: Scalar("i", index), 1: Scalar("i", luts[0]) if luts else None,
                             2: Scalar("i", len(task.commands)), 3: Scalar("i", task.enable),
                             4: Scalar("i", task.interrupt), 5: Vector("Q", words, 3), 7: Scalar("i", 1),
                             8: Scalar("i", 1)}))
    return tables


CORES = (1, 2, 2, 3, 3, 3)  # of a column; convolutions are begun by all of them together


def _schedule(f):
    """All tasks in file order, column by column of the core modes: [(task, node index)], and where the columns begin."""
    schedule, starts = [], []
    for column in range(len(f.chip.conv_columns)):
        starts.append(len(schedule))
        for i, node in enumerate(f.model.nodes):
            pattern = f.chip.conv_columns if node.op.startswith("Conv") else f.chip.other_columns
            if pattern[column]:
                at = len(f.model.inputs) + i
                together = CORES[column] if node.op.startswith("Conv") else 1
                tasks = [replace(t, cores=together) for t in node.core_tasks.get(column, node.tasks)]
                schedule += [(task, at) for task in node.lut_tasks + tasks]
    return schedule, starts


def _firsts(f, starts):
    """Graph slot 10: the first task of each program. One core's is there once for each core; then two, three."""
    several = {6: [1, 3], 3: [1]}.get(len(starts), [])
    return [0] * (len(several) + 1) + [starts[i] for i in several] if several else None


def _relocations(schedule, starts):
    """Graph slot 7: tensor name -> (offset in the tensor, index of the command) pairs."""
    pairs = {}
    for (task, _), start in zip(schedule, starts):
        for tensor, command, *offset in task.relocations:
            pairs.setdefault(tensor.name, []).append((start // 8 + command) << 32 | sum(offset))
    return [Table({0: name, 1: Vector("Q", v)}) for name, v in sorted(pairs.items())]


# ---- the graph and what surrounds it --------------------------------------------------------


def preprocess(t):
    p = t.preprocess
    count = max(4, len(p["mean"]))
    order = list(range(count))
    if p["rgb2bgr"]:
        order[:3] = [2, 1, 0]
    mean = [float(v) for v in p["mean"]] + [0.0] * (count - len(p["mean"]))
    std = [float(v) for v in p["std"]] + [1.0] * (count - len(p["std"]))
    return Table({0: Vector("f", mean), 1: Vector("f", std), 2: Vector("i", order)})


def _graph(f):
    model = f.model
    nodes = [_end_node(f, "InputOperator", t) for t in model.inputs]
    nodes += [_node(f, n) for n in model.nodes]
    nodes += [_end_node(f, "OutputOperator", t) for t in model.outputs]
    tensors = [_tensor(f, t) for t in f.order]
    slots = {2: Vector("i", [f.index[t] for t in model.inputs]),
             3: Vector("i", [f.index[t] for t in model.outputs]),
             4: [preprocess(t) for t in model.inputs], 6: []}
    if model.container == 6:
        schedule, columns = _schedule(f)
        ends = [at - 1 for at in (*columns, len(schedule))] if f.whole else range(len(schedule))
        data, starts = regs.blob(f.chip, [task for task, _ in schedule], ends)
        f.command_tensor("regcmd", KIND_COMMANDS, data)
        f.command_tensor("task", KIND_TASKS,
                         regs.records([t for t, _ in schedule], starts, [i for _, i in schedule]))
        last = {t.name: len(schedule) - 1 for t in model.outputs}
        firsts = _firsts(f, columns) if f.whole else None
        slots.update({7: _relocations(schedule, starts), 8: [], 9: [],
                      10: Vector("i", firsts) if firsts else None,
                      12: [Table({0: n, 1: Scalar("i", i)}) for n, i in last.items()]})
    return Table({0: tensors + f.extra, 1: nodes, **slots, **model.graph_slots})


def attrs_text(model):
    """Root slot 3, as a Python literal."""
    attrs, table = {}, {}
    for i, t in enumerate(model.inputs):
        attrs[t.name] = {"idx": i, "shape": list(t.shape), "layout": "nchw",
                         "layout_ori": "nchw", "is_output": False, "range": [0, 1],
                         "origin_dynamic": False, "dtype": "float32", **t.preprocess}
    for i, t in enumerate(model.outputs):
        attrs[t.name] = {"is_output": True, "idx": i, "shape": list(t.shape),
                         "dtype": "float32", "layout": "nchw"}
    for t in (*model.inputs, *model.outputs):
        low, high = ([[v] for v in t.quant.limits] if t.quant else ([], []))
        table[t.name] = {"name": t.name, "dtype": "float32", "qmethod": "layer",
                         "qtype": "asymmetric_quantized", "min": low, "max": high, "scale": [],
                         "zero_point": [], "ori_min": low, "ori_max": high}
    return repr({"attrs": attrs, "quant_tab": table, "dynamic_shapes": model.dynamic_shapes})


def _ends_json(tensors, layout):
    return json.dumps({t.name: {"dtype": t.dtype, "layout": layout if len(t.shape) == 4
                                else "UNDEFINED"} for t in tensors})


def tail_json(model):
    ends = list(model.inputs) + list(model.outputs)
    norm = [{"dim_num": len(t.shape), "size": list(t.shape), "tensor_id": i, "url": t.name,
             "dtype": {"qnt_method": "layer" if t.quant else "", "vx_type": t.dtype,
                       "qnt_type": t.dtype if t.quant else ""}} for i, t in enumerate(ends)]
    sides = ["input"] * len(model.inputs) + ["output"] * len(model.outputs)
    ids = [*range(len(model.inputs)), *range(len(model.outputs))]
    graph = [{"left": side, "left_tensor_id": i, "right": "norm_tensor", "right_tensor_id": k}
             for k, (side, i) in enumerate(zip(sides, ids))]
    return json.dumps({
        "graph": graph, "input_num": len(model.inputs), "name": model.name,
        "network_platform": "ONNX", "norm_tensor": norm, "norm_tensor_num": len(norm),
        "ori_network_platform": "ONNX", "output_num": len(model.outputs),
        "target_platform": [model.chip.name], "version": "2.3.2",
    }, separators=(",", ":")).encode()


def _weight_bytes(model):
    return sum(pack.align(len(t.data), 64) for t in model.tensors if t.is_const)


def _root(f):
    model = f.model
    outputs = _ends_json(model.outputs, "NCHW")
    graph = _graph(f)
    slots = {
        0: Scalar("i", 1 if model.blobs else 6), 1: model.chip.runtime, 2: [graph],
        3: attrs_text(model), 6: Scalar("i", 10401 if model.blobs else 20302),
        7: "rknnwriter(compiler version: 2.3.2 (tests))", 8: model.chip.name, 9: "ONNX",
        11: "", 12: _ends_json(model.inputs, "NHWC"), 13: outputs,
    }
    if model.blobs:
        return Table({**slots, 4: f.buffers, 10: Scalar("B", 1)})
    custom = sorted({n.op for n in model.nodes if n.op.startswith("cst")})
    sizes = Table({0: Scalar("Q", _weight_bytes(model)), 1: Scalar("Q", f.internal)})
    return Table({**slots, 10: Scalar("B", 2), 14: str(model.batch if model.batch > 1 else 0), 15: "", 16: "static_shape", 17: "",
                  18: "", 19: sizes, 20: f.buffers, 21: custom, **model.root_slots})


def to_bytes(model):
    payload = finish(_root(_File(model)), b"RKNN")
    header = struct.pack("<4sIQQ", b"RKNN", 0, model.container, len(payload))
    header += bytes(0 if model.container == 1 else 40)
    tail = tail_json(model)
    return header + payload + struct.pack("<Q", len(tail)) + tail
