"""Container 0x1004, of RV1103 and RV1106: a header of sizes, then tasks, register commands and
weights bare, then the flatbuffer. Convolutions carry no attributes: registers say all."""

import struct

from . import arena, programs, regs
from .container import (DTYPES, KIND_COMMANDS, KIND_TASKS, KINDS, LAYOUTS, attribute_table,
                        attrs_text, bson_of, preprocess, tail_json, union_of)
from .pack import align
from .slots import Blob, Scalar, Table, Vector, finish

_NOT_HEADER = b"\xa5" * 40  # the vendor's files have stack garbage there


def _padded(data):
    return data + bytes(-len(data) % 64)


class _File:
    def __init__(self, model):
        self.model = model
        self.whole = programs.complete(model)
        self.order = [None] + sorted(model.tensors, key=lambda t: not t.is_const)
        self.index = {t: i for i, t in enumerate(self.order) if t is not None}
        self.index[None] = -1
        self.offsets, self.internal = arena.place(model)
        self.weights = b""
        for t in self.order[1:]:
            if t.is_const:
                self.offsets[t] = len(self.weights)
                self.weights += _padded(t.data)


def _tensor(f, i, t):
    if t is None:
        return Table({3: Vector("i", []), 4: Vector("i", []), 5: "", 6: Vector("f", []),
                      7: Vector("i", []), 10: Scalar("i", -1)})
    return Table({
        0: Scalar("b", DTYPES[t.dtype]), 1: Scalar("b", LAYOUTS.get(t.layout, 0)),
        2: Scalar("b", KINDS[t.kind]), 3: Vector("i", t.native), 4: Vector("i", list(t.shape)),
        5: t.name, 6: Vector("f", [t.quant.scale] if t.quant else []),
        7: Vector("i", [t.quant.zero_point] if t.quant else []),
        8: Scalar("i", align(t.size, 64) if t.is_const else t.size),
        9: Scalar("i", f.offsets[t]), 10: Scalar("i", i - 1),
    })


def _command_tensor(name, kind, index):
    empty = Vector("i", [])
    return Table({0: Scalar("b", DTYPES["uint64"]), 2: Scalar("b", kind), 3: empty, 4: empty,
                  5: name, 6: Vector("f", []), 7: empty, 10: Scalar("i", index)})


def _node(f, node):
    inputs, outputs = ([f.index[t] for t in side] for side in (node.inputs, node.outputs))
    bare = node.op.startswith("Conv") and not node.op.startswith("ConvTranspose")
    union = None if bare else union_of(node)
    return Table({
        1: node.op, 2: node.name, 3: Scalar("b", 2 if node.device == "npu" else 0),
        4: Vector("i", inputs), 5: Vector("i", outputs),
        6: Scalar("B", union[0]) if union else None,
        7: attribute_table(node) if union else None,
        8: Blob(b"") if bare else bson_of(node),
        9: Vector("i", [len(node.tasks) + len(node.lut_tasks)]),
        10: Vector("i", [len(node.lut_tasks)]),
    })


def _end_node(f, op, t):
    inputs, outputs = ([], [f.index[t]]) if op == "InputOperator" else ([f.index[t]], [])
    zero = Vector("i", [0])
    return Table({1: op, 2: f"{op}:{t.name}", 4: Vector("i", inputs), 5: Vector("i", outputs),
                  8: Blob(b""), 9: zero, 10: zero})


def _meta(f):
    model = f.model
    tensors = [_tensor(f, i, t) for i, t in enumerate(f.order)]
    for name, kind in (("regcmd", KIND_COMMANDS), ("task", KIND_TASKS)):
        tensors.append(_command_tensor(name, kind, len(tensors) - 1))
    nodes = [_end_node(f, "InputOperator", t) for t in model.inputs]
    nodes += [_node(f, n) for n in model.nodes]
    nodes += [_end_node(f, "OutputOperator", t) for t in model.outputs]
    graph = Table({0: tensors, 1: nodes, 2: Vector("i", [f.index[t] for t in model.inputs]),
                   3: Vector("i", [f.index[t] for t in model.outputs]),
                   4: [preprocess(t) for t in model.inputs]})
    return finish(Table({
        0: Scalar("i", 6), 1: model.chip.runtime, 2: [graph], 3: attrs_text(model),
        4: Scalar("i", 10600), 5: "rknnwriter(compiler version: 1.6.0 (tests))",
        6: model.chip.name, 7: "ONNX",
    }), b"RKNN")


def _relocated(f, commands, tasks, starts):
    """Addresses are those in one block: commands, constants, the arena."""
    words = list(struct.unpack(f"<{len(commands) // 8}Q", commands))
    for task, start in zip(tasks, starts):
        for tensor, command, *offset in task.relocations:
            base = len(commands) + (0 if tensor.is_const else len(f.weights))
            words[start // 8 + command] |= base + f.offsets[tensor] + sum(offset) << 16
    return struct.pack(f"<{len(words)}Q", *words)


def to_bytes(model):
    f = _File(model)
    schedule = [(task, len(model.inputs) + i) for i, n in enumerate(model.nodes)
                for task in n.lut_tasks + n.tasks]
    tasks = [task for task, _ in schedule]
    ends = [len(tasks) - 1] if f.whole else range(len(tasks))  # programs that are not whole lead nowhere
    commands, starts = regs.blob(model.chip, tasks, ends)
    if f.whole:
        commands = _relocated(f, commands, tasks, starts)
    records = _padded(regs.records(tasks, starts, [i for _, i in schedule]))
    meta = _meta(f)
    sizes = (len(meta), len(records), len(schedule), len(commands), f.internal, len(f.weights))
    payload = struct.pack("<16I", *sizes, *[0] * 10) + records + commands + f.weights + meta
    header = struct.pack("<4sIQQ", b"RKNN", 0, 0x1004, len(payload)) + _NOT_HEADER
    tail = tail_json(model)
    return header + payload + struct.pack("<Q", len(tail)) + tail
