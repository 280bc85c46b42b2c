"""test_onnx_random.py WORK_FOLDER COUNT ONNX_AGAINST…: random ONNX models in floats, each quantized and in newer operator sets as well, on the
software NPU against ONNX Runtime. By hand with another count, and RKNND_SEED.

Real numbers agree within a thousandth of the largest one of a tensor: sums of other orders are divided, and raised to powers, further on.
Stored numbers may be three steps apart: each of up to ten nodes may round a half to the other side. What is wrong in earnest is off by far more."""
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx

from onnxtools import ort
from onnxtools.random_nets import grow, newer, quantized
from support.seed import seed

SKIPPED = 77
RELATIVE, STEPS = 1e-3, 3
NOISE = 1e-7  # ONNX Runtime's Sigmoid is off by a third of this where it is 1e-6, which may be all that a tensor has
FEWEST_RUN = .97  # of the models that ONNX Runtime takes; others are refused in words
KINDS = {"float32": np.float32, "int64": np.int64, "int32": np.int32, "bool": np.bool_, "uint8": np.uint8, "int8": np.int8}
# ONNX Runtime's Softmax of bytes is wrong where there are several rows behind its axis, or the axis counts from the end; QuantizeLinear after
# these has nothing near it in floats. Its means of bytes count taps that only ceil_mode adds, where padding counts; those of floats do not.
NOT_QUANTIZED = {"Softmax", "LogSoftmax", "LSTM", "GRU", "RNN", "Div", "Pow", "Mod", "Reciprocal", "CumSum", "Floor", "Ceil", "Round", "Sign",
                 "ThresholdedRelu", "Cast", "Not", "OneHot", "ScatterND", "ScatterElements", "GatherND", "ArgMax", "ArgMin",
                 "InstanceNormalization", "LayerNormalization", "GroupNormalization"}


def can_be_quantized(net):
    def told(node, name):
        return any(a.name == name and a.i for a in node.attribute)

    return net.opset >= 13 and not any(  # scales by axis
        node.op_type in NOT_QUANTIZED or told(node, "ceil_mode") and told(node, "count_include_pad") for node in net.nodes)


class Comparison:
    def __init__(self, runtime, work, against):
        self.runtime, self.work, self.against = runtime, work, against
        self.run = self.refused = 0
        self.wrong = []

    def inputs_of(self, net, folder):
        folder.mkdir(parents=True, exist_ok=True)
        values = {}
        for i, (name, shape) in enumerate(net.inputs):
            values[name] = net.rng.uniform(-2, 2, shape).astype(np.float32)
            values[name].tofile(folder / f"in{i}.bin")
        return values

    def values_of(self, net, folder):
        """Each tensor of the net in a run of ONNX Runtime. None: it does not take the model."""
        values = self.inputs_of(net, folder)
        names = [name for name in net.shapes if name not in values]
        path = self.work / "all.onnx"
        onnx.save(net.model(names), path)
        try:
            types = self.runtime.run(path, folder)
        except RuntimeError:
            return None
        for i, (name, kind) in enumerate(zip(names, types)):
            values[name] = np.fromfile(folder / f"out{i}.bin", KINDS[kind])
        return values

    def judge(self, name, model, folder, within):
        """`within`: a number of the words that onnx_against says of an output, and the most that it may be."""
        path = self.work / f"{name}.onnx"
        onnx.save(model, path)
        try:
            self.runtime.run(path, folder)
        except RuntimeError:
            return
        done = subprocess.run([*self.against, str(path), str(folder)], capture_output=True, text=True, check=False)
        if done.stdout.startswith("refused"):
            self.refused += 1
            print(f"{name}: {done.stdout.strip()}")
            return
        self.run += 1
        word, most = within
        off = [float(number) for number in re.findall(rf"{word} (\S+?),? ", done.stdout)]
        apart = [float(number) for number in re.findall(r"difference (\S+) ", done.stdout)]
        if done.returncode or len(off) != len(model.graph.output) or not all(d <= most or a <= NOISE for d, a in zip(off, apart, strict=True)):
            self.wrong.append(f"{path}: {done.stdout.strip()} {done.stderr.strip()}")
        else:
            path.unlink()

    def take(self, number):
        net = grow(number)
        folder = self.work / "data"
        values = self.values_of(net, folder) if net.nodes else None
        if values is None or not all(np.isfinite(v).all() and v.size for v in values.values()):
            return
        self.judge(f"float_{number}", net.model(), folder, ("relative", RELATIVE))
        if net.opset >= 13:
            self.judge(f"newer_{number}", newer(net.model(), number), folder, ("relative", RELATIVE))
        if can_be_quantized(net):
            self.judge(f"quantized_{number}", quantized(net, values, number), folder, ("difference", STEPS))


def main():
    work, count, against = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    work.mkdir(parents=True, exist_ok=True)
    modules = ort.install()
    if not modules:
        print("skipped: onnxruntime-node cannot be installed (npm is not at hand)")
        return SKIPPED
    first = seed()
    with ort.Runtime(modules) as runtime:
        comparison = Comparison(runtime, work, against)
        for number in range(first, first + count):
            comparison.take(number)
    run, refused = comparison.run, comparison.refused
    print(f"{run} models compared, {refused} refused")
    for words in comparison.wrong:
        print(f"WRONG: {words}", file=sys.stderr)
    return 1 if comparison.wrong or run < FEWEST_RUN * (run + refused) or not run else 0


sys.exit(main())
