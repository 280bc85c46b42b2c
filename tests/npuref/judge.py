"""Judges the software NPU: each NPU node of a file alone, its tasks run by this reference on the inputs that
the software NPU gave it, and what comes out against what the software NPU computed."""
import collections
import dataclasses
import re

import numpy as np

from npuref import Unsupported, program
from npuref.machine import Machine
from support import rknn_reader

TYPES = {3: np.int8, 10: np.float16}
LINES_OF = {"rk3566": 8, "rk3568": 8}  # bytes that lines of packed pixels are whole times of; elsewhere whole strides of pixels
PACKED_CHANNELS = 4  # at most that many, without lanes
NO_DUMP = "its outputs are not in the dump"
FP32 = np.dtype("<f4")


MODEL_INPUT = 1
ATOM = 16
SOME = 77  # a byte that nothing here makes


def plane(tensor, height, width):
    """Atoms from a block of channels to the next one: whole fours, but for single pixels and the model's inputs."""
    return height * width if height * width == 1 or tensor.kind == MODEL_INPUT else -(-height * width // 4) * 4


def is_plain(tensor):
    """Stored as the shape says, without blocks of channels."""
    return list(tensor.native) == list(tensor.shape)


def plain(memory, tensor):
    kind, base = np.dtype(TYPES[tensor.type]), memory.bases[tensor.name]
    return memory.bytes[base : base + int(np.prod(tensor.native)) * kind.itemsize].view(kind)


def cube(memory, tensor):
    """A view of a tensor's memory, [batches * blocks, bytes of a plane], and the shape of what is in it."""
    shape = tensor.native
    if len(shape) != 5 or tensor.type not in TYPES:
        raise Unsupported(f"a tensor of shape {shape}, type {tensor.type}")
    batches, blocks, height, width, lanes = shape
    kind = np.dtype(TYPES[tensor.type])
    step, base = plane(tensor, height, width) * lanes, memory.bases[tensor.name]
    view = memory.bytes[base : base + batches * blocks * step * kind.itemsize].view(kind).reshape(batches * blocks, step)
    return view, (batches, blocks, height, width, lanes)


def put_packed(memory, tensor, values, chip):
    """RK3588's packed pixels are stored as they are, others' plus 128, or (uint8) as the chip's converter takes them, in
    lines that are padded."""
    pixels = values[0].transpose(1, 2, 0)
    if chip != "rk3588" and values.dtype == np.int8:
        pixels = pixels ^ np.int8(-128)
    lines = np.ascontiguousarray(pixels).view(np.uint8).reshape(len(pixels), -1)
    if chip != "rk3588":
        unit = LINES_OF.get(chip, lines.shape[1] // pixels.shape[1] * max(tensor.stride, 1))
        lines = np.pad(lines, ((0, 0), (0, -lines.shape[1] % unit)))
    memory.write(memory.bases[tensor.name], lines)


def four(values):
    """NCHW, whatever has fewer dimensions."""
    return values.reshape(values.shape + (1,) * (4 - values.ndim))


def put(memory, tensor, values, chip):
    """values: NCHW."""
    shape = tensor.native
    if tensor.type in TYPES and is_plain(tensor):
        plain(memory, tensor)[:] = values.reshape(-1)
        return
    if values.ndim > 4:
        raise Unsupported(f"values of shape {values.shape}")
    values = four(values)
    if len(tensor.shape) == 4 and shape[0] == shape[1] == 1 and shape[-1] == values.shape[1] <= PACKED_CHANNELS:
        put_packed(memory, tensor, values, chip)
        return
    view, (batches, blocks, height, width, lanes) = cube(memory, tensor)
    padded = np.zeros((batches, blocks * lanes, height, width), view.dtype)
    padded[:, : values.shape[1]] = values
    rows = padded.reshape(batches * blocks, lanes, height, width).transpose(0, 2, 3, 1)
    view[:, : height * width * lanes] = rows.reshape(batches * blocks, -1)


def get(memory, tensor, shape):
    if tensor.type in TYPES and is_plain(tensor):
        return plain(memory, tensor).reshape(shape)
    view, (batches, blocks, height, width, lanes) = cube(memory, tensor)
    data = view[:, : height * width * lanes].reshape(batches, blocks, height, width, lanes)
    channels = data.transpose(0, 1, 4, 2, 3).reshape(batches, blocks * lanes, height, width)
    return channels[:, : shape[1]].reshape(shape)


def steps_between(got, expected):
    """Of the output's type; of real numbers, at the size of the larger one."""
    if expected.dtype == np.int8:
        return np.abs(got.astype(int) - expected)
    a, b = got.astype(np.float64), expected.astype(np.float64)
    kind = np.dtype(expected.dtype).newbyteorder("=")
    size = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.finfo(kind).tiny).astype(kind)
    steps = np.abs(a - b) / np.spacing(size).astype(np.float64)
    return np.where(a == b, 0, np.where(np.isfinite(steps), np.ceil(steps), 1 << 16)).astype(int)


@dataclasses.dataclass
class Verdict:
    node: object
    refused: str = ""  # why it could not be judged
    values: int = 0
    differing: int = 0
    largest: int = 0  # difference, in steps of the output


class Judge:
    """path: a .rknn file; dump: a folder of `rknnctl dump --raw`, with the model's inputs as in_N.npy (int8,
    NCHW)."""

    def __init__(self, path, dump, cores=1):
        self.file = rknn_reader.read(path.read_bytes())
        self.memory = program.Memory(self.file)
        self.tasks = collections.defaultdict(list)
        one = cores == 1
        for t in program.tasks(self.file, self.memory) if one else program.core_tasks(self.file, self.memory, cores):
            self.tasks[t.node].append(t)
        self.machine = self.machine_for()
        self.known = {p.stem.split("_", 1)[1]: p for p in dump.glob("[0-9]*_*.npy")}
        for i, t in enumerate(self.file.inputs):
            pixels = dump / f"pixels_{i}.npy"
            self.known[self._plain(t.name)] = pixels if pixels.exists() else dump / f"in_{i}.npy"

    def machine_for(self):
        return Machine(self.file.chip, self.memory)

    @staticmethod
    def _plain(name):
        return re.sub(r"[^\w.-]", "_", name)

    def _values(self, tensor):
        path = self.known.get(self._plain(tensor.name))
        return None if path is None else np.load(path)[: tensor.shape[0] if tensor.shape else None]  # of a batch the first

    def _put_inputs(self, node):
        for tensor in (self.file.tensors[i] for i in node.inputs):
            if (values := self._values(tensor)) is not None:
                put(self.memory, tensor, values, self.file.chip)

    def _fill_lines(self, node, verdict):
        """RK3588: the ends of lines, in memory whose lines are of whole atoms, times a mask and plus a number for each byte:
        pixels stay, and what is behind them becomes known."""
        tensor, (mask, bias) = self.file.tensors[node.outputs[0]], (self.file.tensors[i].array() for i in node.inputs)
        values, at = self._values(tensor)[0].transpose(1, 2, 0), self.memory.bases[tensor.name]
        expected = np.pad(values, ((0, 0), (0, -values.shape[1] % ATOM), (0, 0)), constant_values=SOME).reshape(len(values), -1)
        lines = self.memory.bytes[at : at + expected.size].view(np.int8).reshape(expected.shape)
        lines[:] = expected
        expected[:, -len(mask) :] = expected[:, -len(mask) :] * mask + bias
        verdict.refused = self._run(node)
        if not verdict.refused:
            self._compare_with(verdict, lines, expected)

    def _run(self, node):
        """All tasks, for later ones build on the registers of these; words where one is refused."""
        refused = ""
        apart = node.op == "OutputOperator" and self.file.container == program.LITE
        for task in program.outputs_apart(self.memory, self.tasks[node.index]) if apart else self.tasks[node.index]:
            try:
                self.machine.run(task)
            except Unsupported as e:
                refused = refused or str(e)
        return refused

    def _compare_with(self, verdict, got, expected):
        difference = steps_between(got, expected)
        verdict.values += difference.size
        verdict.differing += int((difference > 0).sum())
        verdict.largest = max(verdict.largest, int(difference.max()))

    def _place_made(self, first, last, channels_last):
        if self.file.container == program.LITE:
            return self.memory.outputs
        return self.memory.bases[(first if channels_last else last).name]

    def _compare_made(self, verdict):
        """What an OutputOperator makes of its first tensor for programs: fp32, one behind the other, as the shape of its last
        one says (NHWC, or NCHW); factors are scales in fp16. It stands where the node's tasks have written last."""
        first, last = (self.file.tensors[verdict.node.inputs[i]] for i in (0, -1))
        stored = self._values(first)
        if stored is None:
            raise Unsupported(NO_DUMP)
        real = (stored.astype(FP32) - first.zero_points[0]) * np.float16(first.scales[0]).astype(FP32)
        channels_last = list(last.shape[1:3]) == list(first.shape[2:4])
        expected = real.transpose(0, 2, 3, 1) if channels_last else real
        base = self._place_made(first, last, channels_last)
        got = self.memory.bytes[base : base + int(np.prod(last.shape)) * FP32.itemsize].view(FP32).reshape(last.shape)
        self._compare_with(verdict, got[..., : expected.shape[-1]], expected)

    def _compare(self, verdict):
        if verdict.node.op == "OutputOperator":
            self._compare_made(verdict)
            return
        for tensor in (self.file.tensors[i] for i in verdict.node.outputs):
            expected = self._values(tensor)
            if expected is None:
                raise Unsupported(NO_DUMP)
            self._compare_with(verdict, get(self.memory, tensor, expected.shape), expected)
        if not verdict.values:
            raise Unsupported("a node without outputs")

    def node(self, node):
        verdict = Verdict(node)
        if node.op == "InputOperator" and node.inputs:
            self._fill_lines(node, verdict)
            return verdict
        try:
            self._put_inputs(node)
        except Unsupported as e:
            verdict.refused = str(e)
        verdict.refused = self._run(node) or verdict.refused
        if not verdict.refused:
            try:
                self._compare(verdict)
            except Unsupported as e:
                verdict.refused = str(e)
        return verdict

    def all(self):
        return [self.node(n) for n in self.file.nodes if any(t.writes for t in self.tasks[n.index])]
