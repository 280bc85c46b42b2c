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
PADDED_LINES = ("rk3566", "rk3568", "rk3576", "rv1126b")
PACKED_CHANNELS = 4  # at most that many, without lanes
NO_DUMP = "its outputs are not in the dump"


MODEL_INPUT = 1


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
    """RK3588's packed pixels are stored as they are, others' plus 128, or (uint8) as the chip's converter
    takes them; the lines of RK3566, RK3568, RK3576 and RV1126B are padded."""
    pixels = values[0].transpose(1, 2, 0)
    if chip != "rk3588" and values.dtype == np.int8:
        pixels = pixels ^ np.int8(-128)
    if chip in PADDED_LINES:
        more = -pixels.shape[1] % max(tensor.stride, 1)
        pixels = np.pad(pixels, ((0, 0), (0, more), (0, 0)))
    memory.write(memory.bases[tensor.name], pixels)


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
    if shape[0] == shape[1] == 1 and shape[-1] == values.shape[1] <= PACKED_CHANNELS:
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
    """Of the output's type; of fp16, at the size of the larger one."""
    if expected.dtype == np.int8:
        return np.abs(got.astype(int) - expected)
    a, b = got.astype(np.float64), expected.astype(np.float64)
    size = np.maximum(np.maximum(np.abs(a), np.abs(b)), 2.0**-14).astype(np.float16)
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
        return None if path is None else np.load(path)

    def _put_inputs(self, node):
        for tensor in (self.file.tensors[i] for i in node.inputs):
            if (values := self._values(tensor)) is not None:
                put(self.memory, tensor, values, self.file.chip)

    def _run(self, node):
        """All tasks, for later ones build on the registers of these; words where one is refused."""
        refused = ""
        for task in self.tasks[node.index]:
            try:
                self.machine.run(task)
            except Unsupported as e:
                refused = refused or str(e)
        return refused

    def _compare(self, verdict):
        for tensor in (self.file.tensors[i] for i in verdict.node.outputs):
            expected = self._values(tensor)
            if expected is None:
                raise Unsupported(NO_DUMP)
            difference = steps_between(get(self.memory, tensor, expected.shape), expected)
            verdict.values += difference.size
            verdict.differing += int((difference > 0).sum())
            verdict.largest = max(verdict.largest, int(difference.max()))
        if not verdict.values:
            raise Unsupported("a node without outputs")

    def node(self, node):
        verdict = Verdict(node)
        if node.op == "InputOperator":
            verdict.refused = "it works on the model's input where that is"
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
        return [self.node(n) for n in self.file.nodes if self.tasks[n.index]]
