"""Models with inputs and the reference's outputs, for whatever executes model files.

python3 -m rknncases OUT [GROUP]… writes OUT/GROUP/NAME.rknn, NAME.in<i>.bin (as a program
sets them: uint8 or float32, NHWC when 4-D), NAME.out<i>.bin (the output's own type, NCHW) and
OUT/GROUP/cases.txt, one line a case: NAME and the error allowed: in steps of an int8 output,
of the largest value of a float one.
"""

import pathlib

import numpy as np

from rknnwriter import reference

GROUPS = {}  # group -> {name: (function, error)}

STEP = "1"  # int8: ties may round either way
EXACT = "0"
HALF = "0.002"  # float16: two units in the last place of the largest value


def case(group, name, error=STEP):
    """Registers a function without arguments that describes a model."""

    def register(function):
        cases = GROUPS.setdefault(group, {})
        assert name not in cases, name
        cases[name] = (function, error)
        return function

    return register


def random_input(tensor, rng):
    """Values that cover a bit more than the tensor's range."""
    shape = tensor.shape
    if len(shape) == 4:
        shape = tuple(shape[i] for i in (0, 2, 3, 1))
    if tensor.preprocess["std"] != [1] * len(tensor.preprocess["std"]):
        return rng.integers(0, 256, shape, np.uint8)
    low, high = tensor.quant.limits if tensor.quant else (-2, 2)
    spread = (high - low) * 0.02
    return rng.uniform(low - spread, high + spread, shape).astype(np.float32)


def write(folder, name, model, error):
    """One case's files; its line."""
    rng = np.random.default_rng(len(name))
    batch = [[random_input(t, rng) for t in model.inputs] for _ in range(model.batch)]
    inputs = [np.concatenate(arrays) for arrays in zip(*batch)]
    values = [reference.run(model, arrays) for arrays in batch]
    model.save(folder / f"{name}.rknn")
    for i, array in enumerate(inputs):
        array.tofile(folder / f"{name}.in{i}.bin")
    for i, tensor in enumerate(model.outputs):
        np.concatenate([v[tensor] for v in values]).tofile(folder / f"{name}.out{i}.bin")
    return f"{name} {error}\n"


def write_group(out, group):
    folder = pathlib.Path(out) / group
    folder.mkdir(parents=True, exist_ok=True)
    models = ((name, function(), error) for name, (function, error) in GROUPS[group].items())
    lines = [write(folder, name, model, error) for name, model, error in models if model]
    (folder / "cases.txt").write_text("".join(lines))


from . import conv, cpu, deployed, edges, eltwise, float16, index, moves, nets  # noqa: E402,F401
from . import elsewhere  # noqa: E402,F401  behind those that it moves
