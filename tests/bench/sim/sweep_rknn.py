"""Nets of one kind of node each, as `.rknn` files of a chip that npu/write makes, in int8 and in fp16, through bench_sim: a
line each, the farthest from its bound first. None of them is a shared file, so they say how fast nodes are that nobody
has looked at. What the writer does not have is left out, what is refused is listed.

  PYTHONPATH=npu/write /usr/bin/python3 tests/bench/sim/sweep_rknn.py build/release/tests/bench/bench_sim \\
      [CHIP [WORD IN A NET'S NAME]]
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from rknnwriter import Model, Quant, ops

IMAGE = (1, 64, 56, 56)
Q = Quant.of_range(-4, 4)
FUSED = ("relu", "swish", "leaky_relu", "sigmoid", "hard_sigmoid", "tanh", "hard_swish", "gelu", "mish", "elu", "softplus")


class Net:
    def __init__(self, chip, half, shape=IMAGE):
        self.m, self.rng, self.half = Model(chip, "net"), np.random.default_rng(7), half
        self.q = None if half else Q
        self.x = self.m.input("x", shape, self.q)

    def conv(self, x, outputs=64, kernel=1, group=1, **how):
        w = self.rng.normal(0, .1, (outputs, x.shape[1] // group, *(kernel if isinstance(kernel, tuple) else (kernel,) * 2)))
        return ops.conv(self.m, x, w, self.rng.normal(size=outputs), group=group, out=self.q, **how)

    def out(self):
        return {} if self.half else {"out": self.q}


def conv(*args, **how):
    return lambda n, x: n.conv(x, *args, **how)


def node(function, *args, out=True, **how):
    """One node; `out`: it takes an output's quantization."""
    return lambda n, x: function(n.m, x, *args, **(n.out() if out else {}), **how)


def pair(function, **how):
    return lambda n, x: function(n.m, x, n.conv(x), **n.out(), **how)


def constant(function, shape):
    return lambda n, x: function(n.m, x, n.rng.normal(size=shape), **n.out())


def concat(n, x):
    return ops.concat(n.m, [x, n.conv(x)], axis=1, **n.out())


def split(n, x):
    a, b = ops.split(n.m, x, [32, 32])
    return ops.concat(n.m, [n.conv(a, 32), b], axis=1, **n.out())


def squeeze_excite(n, x):
    y = n.conv(n.conv(ops.global_average_pool(n.m, x), 16, act="relu"), 64, act="hard_sigmoid")
    return ops.mul(n.m, x, y, **n.out())


def ones(function, **how):
    return lambda n, x: function(n.m, x, np.ones(x.shape[1]), np.zeros(x.shape[1]), **n.out(), **how)


NETS = {f"conv3_{act}": conv(64, 3, pad=1, act=act) for act in FUSED} | {
    f"conv1_{act}": conv(64, act=act) for act in FUSED} | {
    f"depthwise3_{act}": conv(64, 3, group=64, pad=1, act=act) for act in FUSED} | {
    f"alone_{act}": node(ops.activation, act) for act in FUSED if act not in ("leaky_relu", "hard_sigmoid", "gelu")} | {
    "conv3": conv(64, 3, pad=1), "conv1": conv(64), "conv3_s2": conv(64, 3, pad=1, stride=2), "conv5": conv(32, 5, pad=2),
    "conv7": conv(16, 7, pad=3), "conv1_to_8": conv(8), "conv1_to_1": conv(1), "conv1_to_256": conv(256), "conv3x1": conv(64, (3, 1), pad=(1, 0)),
    "grouped": conv(64, 3, group=4, pad=1), "dilated": conv(64, 3, pad=2, dilation=2), "depthwise3": conv(64, 3, group=64, pad=1),
    "depthwise3_s2": conv(64, 3, group=64, pad=1, stride=2), "depthwise5": conv(64, 5, group=64, pad=2),
    "depthwise7": conv(64, 7, group=64, pad=3), "depthwise3x1": conv(64, (3, 1), group=64, pad=(1, 0)),
    "conv_addend": lambda n, x: n.conv(x, addend=x), "conv_addend_relu": lambda n, x: n.conv(x, addend=x, act="relu"),
    "swish_add": lambda n, x: n.conv(x, addend=x, act="swish", add_last=True),
    "add": pair(ops.add), "add_relu": pair(ops.add, act="relu"), "mul": pair(ops.mul), "sub": pair(ops.sub), "max": pair(ops.maximum),
    "add_channels": constant(ops.add, (1, 64, 1, 1)), "mul_channels": constant(ops.mul, (1, 64, 1, 1)),
    "leaky_relu": node(ops.leaky_relu, .1), "hard_sigmoid": node(ops.hard_sigmoid, 1 / 6, .5), "gelu": node(ops.gelu),
    "clip": node(ops.clip, 0, 6), "prelu": lambda n, x: ops.prelu(n.m, x, np.linspace(0, 1, 64).reshape(64, 1, 1), **n.out()),
    "maxpool": node(ops.max_pool, 3, stride=2, pad=1, out=False), "maxpool2": node(ops.max_pool, 2, out=False),
    "maxpool5": node(ops.max_pool, 5, stride=1, pad=2, out=False), "avgpool": node(ops.average_pool, 3, stride=1),
    "global_average": node(ops.global_average_pool), "squeeze_excite": squeeze_excite,
    "resize_nearest": node(ops.resize, (112, 112), mode="nearest", coordinates="asymmetric", out=False),
    "resize_linear": node(ops.resize, (112, 112), out=False), "depth_to_space": node(ops.depth_to_space, 2, out=False),
    "space_to_depth": node(ops.space_to_depth, 2, out=False), "concat": concat, "split": split,
    "transpose": node(ops.transpose, [0, 2, 3, 1], out=False), "reshape": node(ops.reshape, (1, 8, 448, 56), out=False),
    "pad": node(ops.pad, [0, 0, 1, 1, 0, 0, 1, 1], out=False), "softmax": node(ops.softmax), "argmax": node(ops.argmax, out=False),
    "reduce_mean": node(ops.reduce_mean, [2, 3]), "reduce_mean_c": node(ops.reduce_mean, [1]),
    "layer_norm": lambda n, x: ops.layer_norm(n.m, x, np.ones(56), np.zeros(56), **n.out()),
    "norm": ones(ops.norm), "instance_norm": ones(ops.instance_norm), "batch_norm": lambda n, x: ops.batch_norm(n.m, x, *(np.ones(64),) * 4, **n.out()),
    "glu": node(ops.glu), "deconv2": lambda n, x: ops.conv_transpose(n.m, x, n.rng.normal(0, .1, (64, 64, 2, 2)), stride=2, **n.out()),
    "deconv4": lambda n, x: ops.conv_transpose(n.m, x, n.rng.normal(0, .1, (64, 64, 4, 4)), stride=2, pad=1, **n.out()),
}


def behind(build):
    """Between two convolutions."""
    def net(n):
        y = build(n, n.conv(n.x))
        return n.conv(y, 32) if len(y.shape) == 4 and y.dtype == n.x.dtype else y

    return net


def write(chip, name, half, folder):
    """None: the writer does not have it."""
    path = pathlib.Path(folder, f"{name}_{'fp16' if half else 'int8'}.{chip}.rknn")
    net = Net(chip, half)
    try:
        net.m.output(behind(NETS[name])(net), "out")
        net.m.save(path)
    except (ValueError, KeyError, TypeError, NotImplementedError) as e:
        print(f"not written: {path.name}: {e!r}", file=sys.stderr)
        return None
    return path


def ratio(line):
    words = line.split()
    return -float(words[5]) if words[0] != "refused:" else 0


def main(bench, chip="rk3588", word=""):
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in NETS:
            for half in (False, True):
                path = write(chip, name, half, folder) if word in name else None
                if not path:
                    continue
                run = subprocess.run([bench, "--once", path], capture_output=True, text=True)
                lines.append(run.stdout.splitlines()[-1] if run.returncode == 0 else f"refused: {run.stderr.strip()}")
    for line in sorted(lines, key=ratio):
        print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
