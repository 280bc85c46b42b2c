"""Whole programs: a value for each register of the blocks that a task starts, in the order of the toolkit's files, so
that an NPU can run them. What ops wrote of a task (geometry, conversion, addresses) is kept. A module for each layout of
registers, with convolution(node), add(node, model), tables(node), pool(node) and perhaps product(node); None: not written.
Where several cores share a convolution (RK3588): part(node, first, end, cores), a core's rows.

On RK3588 float16 and pixels, too; on the others int8 convolutions of tensors that are no pictures, with a fused Add,
activation or lookup table, depthwise ones with an activation, Add, and pools (averages without padding); on RK3588, RK3566 and
RK3568 Mul by a number for each channel, and on the last two float16 of up to 16 channels without bias and activation.
Other nodes keep what readers of files need."""
import numpy as np

from ..ops.pool import by_unit
from ..pack import is_picture
from . import on_rk356x, on_rk3562, on_rk3576, on_rk3588, on_rv110x
from .parts import written

_LAYOUTS = {
    "rk3588": on_rk3588, "rk356x": on_rk356x, "rk3562": on_rk3562, "rk3576": on_rk3576, "rv110x": on_rv110x,
}


def _is_plane(t):
    return t is not None and not t.is_const and len(t.shape) == 4 and t.shape[0] == 1 and t.dtype in ("int8", "float16")


def _is_packed(t):
    """Pixels, which only convolutions are known to fetch."""
    return t is not None and t.kind == "input" and is_picture(t.shape)


def _is_convolution(layout, node, taken):
    x, group, several = node.inputs[0], node.attrs["group"], len(node.inputs) > 3
    if not taken <= set(layout.CONVOLUTION) or any(map(_is_packed, node.inputs[3:])):
        return False
    if layout is on_rk356x and x.dtype == "float16":
        # No file shows what one with a bias or an activation sets, nor how several kernels of more than 16 channels lie.
        plain = len(node.inputs) == 2 and group == 1 and not node.params.act
        return plain and x.shape[1] <= 16 and not _is_packed(x)
    if len(node.inputs) < 3:
        return False
    if layout is on_rk3588:
        # No file shows a LeakyRelu of int8, and tables of float16 are not written.
        act = node.params.act
        unknown = several or act not in (None, "relu", "leaky_relu", "clip") if x.dtype == "float16" else act == "leaky_relu"
        return group in (1, x.shape[1]) and not unknown
    if x.dtype != "int8" or _is_packed(x):
        return False
    if group > 1 and (group != x.shape[1] or several or node.lut_tasks or node.params.form == "plain"):
        return False  # no file shows a table behind a depthwise one, an addend, or one factor for all channels
    return True


def _is_addition(layout, node):
    y = node.outputs[0]
    same = len(node.inputs) == 2 and all(_is_plane(t) and t.shape == y.shape and t.dtype == y.dtype for t in node.inputs)
    return same and np.prod(y.shape) and (layout is on_rk3588 or y.dtype == "int8")


def _is_product(layout, node):
    """Of an image and a number for each of its channels."""
    a, b, y = *node.inputs[:2], node.outputs[0]
    planes = len(node.inputs) == 2 and all(_is_plane(t) and t.dtype == "int8" for t in (a, b, y))
    return hasattr(layout, "product") and planes and a.shape == y.shape and tuple(b.shape) == (1, a.shape[1], 1, 1)


def _program(layout, node, model):
    """The node's whole program; None: how it would be is not known here."""
    ends = [*node.inputs[:1], *node.outputs[:1]]
    if node.device != "npu" or len(node.tasks) != 1 or not all(map(_is_plane, ends)):
        return None
    taken = written(node.tasks[0])[0].keys()
    if node.op.startswith("Conv") and not node.op.startswith("ConvTranspose"):
        return layout.convolution(node) if _is_convolution(layout, node, taken) else None
    if len(taken) > 2 or any(map(_is_packed, node.inputs)):  # others' tasks have pointers alone, unless a test spoils them
        return None
    if node.op in ("MaxPool", "AveragePool"):
        return layout.pool(node) if by_unit(node) else None
    if node.op == "Mul" and _is_product(layout, node):
        return layout.product(node)
    return layout.add(node, model) if node.op in ("Add", "AddRelu") and _is_addition(layout, node) else None


def complete(model):
    """Gives nodes their whole programs, where they are known. Whether that is so of all that the NPU is to compute."""
    if not model.runs or model.container not in (6, 0x1004):
        return False
    layout = _LAYOUTS[model.chip.family]
    for node in model.nodes:
        program = None if node.whole else _program(layout, node, model)
        if program:
            node.tasks, node.whole = [program], True
            node.lut_tasks = [layout.tables(node)] if node.lut_tasks else []
            for cores, parts in node.shares.items():
                first = cores * (cores - 1) // 2  # one column for one core, two for two, three for three
                node.core_tasks |= {first + i: [layout.part(node, *rows, cores)] for i, rows in enumerate(parts)}
    return all(node.whole or not node.tasks for node in model.nodes)
