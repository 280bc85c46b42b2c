"""A model as a description: tensors, nodes, quantization. The operators in ops/ add to it."""

from dataclasses import dataclass, field

import numpy as np

from . import pack
from .chips import CHIPS, LITE_CHIPS


@dataclass(frozen=True)
class Quant:
    """int8, asymmetric: real = (stored - zero_point) * scale. The scale is a float32."""

    scale: float
    zero_point: int = 0

    def __post_init__(self):
        object.__setattr__(self, "scale", float(np.float32(self.scale)))

    @staticmethod
    def of_range(low, high):
        """The parameters that a toolkit picks for values in [low, high]; 0 is always exact."""
        low, high = min(float(low), 0.0), max(float(high), 0.0)
        scale = np.float32((high - low) / 255 or 1.0)
        return Quant(scale, int(np.clip(np.rint(-128 - low / scale), -128, 127)))

    @property
    def limits(self):
        return [(-128 - self.zero_point) * self.scale, (127 - self.zero_point) * self.scale]

    def store(self, real):
        steps = np.rint(np.asarray(real, np.float64) / self.scale + self.zero_point)
        return np.clip(steps, -128, 127).astype(np.int8)

    def load(self, stored):
        return (stored.astype(np.float64) - self.zero_point) * self.scale


@dataclass(eq=False)
class Tensor:
    name: str
    shape: tuple
    dtype: str
    quant: Quant = None
    kind: str = "activation"  # "input", "output", "npu_const", "cpu_const", "sub_task"
    layout: str = None  # "nc1hwc2", "weight", "nchw" or None
    native: list = None
    size: int = None  # bytes; of an activation: in the arena
    stride: int = 0  # alignment of an input's rows, elements
    value: np.ndarray = None  # of a constant, logical
    data: bytes = None  # of a constant, as in the file
    preprocess: dict = None  # of an input: mean, std, rgb2bgr, passed
    alias: "Tensor" = None  # shares this tensor's place
    slots: dict = field(default_factory=dict)  # of the file's table, instead of what it would hold

    @property
    def is_const(self):
        return self.data is not None


@dataclass(eq=False)
class Node:
    op: str
    name: str
    inputs: list
    outputs: list
    attrs: dict = field(default_factory=dict)
    device: str = "npu"
    tasks: list = field(default_factory=list)  # of the single-core mode, regs.Task
    lut_tasks: list = field(default_factory=list)
    params: object = None  # what the reference needs beyond attrs
    fused: bool = False  # fused ops carry no BSON
    whole: bool = False  # its tasks are whole programs
    shares: dict = field(default_factory=dict)  # {cores: (first row and the one behind the last) of each core}
    core_tasks: dict = field(default_factory=dict)  # {column of node slot 10: tasks}, where they are not `tasks`
    slots: dict = field(default_factory=dict)  # as a tensor's


class Model:
    def __init__(self, chip="rk3588", name="model", container=None):
        """`container`: 1, 2 or 6 (the default); RV1103 and RV1106 have 0x1004 only."""
        self.chip = {**CHIPS, **LITE_CHIPS}[chip]
        self.name = name
        self.container = container or (0x1004 if self.chip.lite else 6)
        self.blobs = self.container in (1, 2)  # of commands, one for each task
        if (self.container == 0x1004) != self.chip.lite:
            raise ValueError(f"{chip} has no container {self.container:#x}")
        self.tensors, self.nodes, self.inputs, self.outputs = [], [], [], []
        self.runs = True  # an NPU is to run it: nodes get whole programs, where these are known
        self.apart = False  # tensors share no memory
        self.batch = 1  # rknn_batch_size: tensors are those of one
        self.dynamic_shapes = {}  # as the file's attributes say them; input name -> shapes
        self.graph_slots, self.root_slots = {}, {}  # as a tensor's
        self._counts = {}

    # ---- tensors

    def input(self, name, shape, quant=None, dtype=None, mean=None, std=None, rgb2bgr=False):
        """An input, logical NCHW (or N-D). `mean` and `std` per channel, as config() takes them."""
        t = self.activation(name, shape, quant, dtype)
        t.kind = "input"
        channels = t.shape[1] if len(t.shape) == 4 else t.shape[-1]
        t.preprocess = {
            "mean": list(mean if mean is not None else [0] * channels),
            "std": list(std if std is not None else [1] * channels),
            "rgb2bgr": rgb2bgr,
        }
        self.inputs.append(t)
        self._place(t)
        if len(t.shape) == 4 and pack.is_picture(t.shape):
            t.stride = self.chip.c2[t.dtype]
        return t

    def activation(self, name, shape, quant=None, dtype=None, block=1):
        """What an operator writes: int8 with `quant`, else float16 unless told; `block` channels
        at a time."""
        dtype = dtype or ("int8" if quant else "float16")
        if dtype == "float16" and self.chip.lite:
            raise ValueError(f"{self.chip.name} computes int8 only")
        t = Tensor(name, tuple(int(d) for d in shape), dtype, quant)
        self.tensors.append(t)
        self._place(t, block)
        return t

    def _place(self, t, block=1):
        four = len(t.shape) == 4 and t.dtype in ("int8", "float16")
        is_input = t.kind == "input"
        t.layout = "nc1hwc2" if four else "nchw" if len(t.shape) == 4 else None
        t.native = (
            pack.activation_shape(self.chip, t.dtype, t.shape, is_input) if four else list(t.shape)
        )
        t.size = (
            pack.activation_bytes(self.chip, t.dtype, t.shape, is_input, block)
            if four or len(t.shape) != 4
            else int(np.prod(t.shape)) * pack.itemsize(t.dtype)
        )

    def constant(self, name, value, dtype, quant=None):
        """A constant that the file holds as a plain array (kind 5)."""
        value = np.asarray(value, pack.DTYPES[dtype])
        t = Tensor(name, value.shape or (1,), dtype, quant, "cpu_const", value=value,
                   data=value.tobytes())
        t.native, t.size = list(t.shape), len(t.data)
        self.tensors.append(t)
        return t

    def native_constant(self, name, value, quant=None):
        """A 4-D constant in the layout of activations (kind 4, layout 64)."""
        dtype = "int8" if quant else "float16"
        stored = quant.store(value) if quant else np.asarray(value, "<f2")
        packed = pack.to_nc1hwc2(stored, self.chip.c2[dtype])
        t = Tensor(name, stored.shape, dtype, quant, "npu_const", "nc1hwc2", list(packed.shape),
                   packed.nbytes, value=stored, data=packed.tobytes())
        self.tensors.append(t)
        return t

    def packed_constant(self, name, shape, dtype, native, data, layout=None, kind="npu_const"):
        t = Tensor(name, tuple(shape), dtype, None, kind, layout, list(native), len(data),
                   data=data)
        self.tensors.append(t)
        return t

    def output(self, tensor, name=None):
        tensor.kind = "output"
        for t in self.tensors:
            if name and t.name.startswith((tensor.name + "_BS", tensor.name + "_Bs", tensor.name + "_Bn")):
                t.name = name + t.name[len(tensor.name):]
        tensor.name = name or tensor.name
        self.outputs.append(tensor)
        return tensor

    # ---- nodes

    def unique(self, stem):
        """`stem`, then `stem_1`, …"""
        n = self._counts.get(stem, 0)
        self._counts[stem] = n + 1
        return stem if n == 0 else f"{stem}_{n}"

    def add(self, op, inputs, outputs, **fields):
        node = Node(op, self.unique(fields.pop("name", None) or op.lower()), list(inputs),
                    list(outputs), **fields)
        self.nodes.append(node)
        return node

    def to_bytes(self):
        from . import container, container_lite

        return (container_lite if self.chip.lite else container).to_bytes(self)

    def save(self, path):
        with open(path, "wb") as f:
            f.write(self.to_bytes())
