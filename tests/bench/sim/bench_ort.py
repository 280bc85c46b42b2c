#!/usr/bin/python3
"""bench_ort.py BENCH_SIM WORK_FOLDER [ROUNDS]: the software NPU against ONNX Runtime, one thread each.

They take turns. Prints the median time of a run of each and ours divided by theirs; beside it the
same of their fastest runs, which a busy machine disturbs less. WORK_FOLDER keeps
ONNX Runtime (onnxruntime-node of npm) and the models, which are made of those in ../shared."""
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import onnx

from onnxtools import dynamic, ort, quantize, topologies

FLOATS = {
    "mobilenetv2": ("mobilenetv2-12-qdq.onnx", topologies.without_quantization),
    "squeezenet": ("squeezenet_f32.onnx", topologies.plain),
    "resnet50": ("light/light_resnet50.onnx", topologies.seeded),
}
FORMS = {"u8": (np.uint8, np.int8, False), "s8": (np.int8, np.int8, True)}
DYNAMIC = {"dynamic_s8": np.int8, "dynamic_u8": np.uint8}  # quantized while they run
RUNS = 10


class Ours:
    """bench_sim --rounds at the other end of a pipe."""

    def __init__(self, bench_sim, model):
        self.process = subprocess.Popen([bench_sim, "--rounds", str(model)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def times(self, runs):
        self.process.stdin.write(f"{runs}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("bench_sim ended")
        return [float(t) for t in line.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def make_models(runtime, work):
    for name, (file, make) in FLOATS.items():
        paths = {form: work / f"{name}_{form}.onnx" for form in ("f32", *FORMS, *DYNAMIC)}
        if not all(p.exists() for p in paths.values()):
            model = make(ort.shared_models() / file)
            ranges = quantize.measure(runtime, model, work / "ranges.onnx")
            onnx.save(model, paths["f32"])
            for form, kinds in FORMS.items():
                onnx.save(quantize.quantize(model, ranges, *kinds), paths[form])
            for form, weight in DYNAMIC.items():
                onnx.save(dynamic.quantize(model, weight), paths[form])
        yield from paths.values()


def compare(runtime, bench_sim, model, rounds):
    try:
        ours, times = Ours(bench_sim, model), ([], [])
        for i in range(rounds + 1):
            pair = ours.times(RUNS), runtime.times(model, RUNS)
            for kept, new in zip(times, pair):
                kept.extend(new if i else [])  # the first round warms up
        ours.close()
    except RuntimeError as e:
        print(f"{model.stem}: {e}", flush=True)
        return
    us, them = map(statistics.median, times)
    fastest = min(times[0]) / min(times[1])
    print(f"{us / 1e3:9.3f} {them / 1e3:9.3f} {us / them:6.2f} {fastest:8.2f}  {model.stem}",
          flush=True)


def main():
    bench_sim, work = sys.argv[1], pathlib.Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    work.mkdir(parents=True, exist_ok=True)
    modules = ort.install()
    if not modules or not ort.shared_models().is_dir():
        print("skipped: " + ("the models are not in ../shared" if modules else
                             "onnxruntime-node cannot be installed (npm is not at hand)"))
        return 77
    with ort.Runtime(modules) as runtime:
        print(f"{'ours ms':>9} {'ORT ms':>9} {'ratio':>6} {'fastest':>8}  model")
        for model in make_models(runtime, work):
            compare(runtime, bench_sim, model, rounds)
    return 0


sys.exit(main())
