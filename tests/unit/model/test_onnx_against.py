"""test_onnx_against.py WORK_FOLDER ONNX_AGAINST…: models on the software NPU against ONNX Runtime.

Real numbers agree within 1e-5 of the largest one. Stored 8-bit numbers are equal: one step would
be far more. ONNX Runtime comes from npm (onnxruntime-node, without its scripts); where that cannot be
had the test is skipped."""
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx

from onnxtools import dynamic, nets, ort, picture, qoperators, quantize, strange, topologies

SKIPPED = 77
SANITIZED = bool(os.environ.get("RKNND_SANITIZE"))
QUANTIZED = "mobilenetv2-12-qdq.onnx"
SIGNED = ("mobilenet_int8.onnx", "squeezenet_int8.onnx")
# ONNX Runtime refuses these with exact sums, and needs none for them.
NOT_EXACT = {*SIGNED, "qdq_arithmetic_int8_int8.onnx", "qdq_arithmetic_int8_int8_inside.onnx", "qoperators_int8_int8.onnx",
             "qoperators_int8_int8_channels.onnx"}
EGYPTIAN_CAT = 285
# Where oneDNN's own 8-bit sums would be wrong. What these kernels do to memory is looked at by test_sim_cases.
OTHER_ISAS = () if SANITIZED else ("AVX2", "SSE41")
NOT_KNOWN_TO_ORT = {"dual_residual.onnx"}
# A softmax over sums of 5e9, all alike but for their rounding: only on this processor is the order in
# which oneDNN adds that of ONNX Runtime.
ORDER_OF_SUMS = {"light_squeezenet.onnx"}


def shared_models(left_out):
    models = sorted(ort.shared_models().glob("**/*.onnx"))
    return [m for m in models if m.name not in NOT_KNOWN_TO_ORT | left_out]


def topologies_of(runtime, work, shared):
    """Well-known networks with seeded weights, in floats and quantized."""
    for name in ("resnet50", "shufflenet", "squeezenet"):
        path = work / f"{name}.onnx"
        if not path.exists():
            onnx.save(topologies.seeded(shared / f"light/light_{name}.onnx", fold=False), path)
        yield path
    models = {"mobilenet": topologies.without_quantization(shared / QUANTIZED),
              "squeezenet": topologies.plain(shared / "squeezenet_f32.onnx")}
    for name, model in models.items():
        ranges = quantize.measure(runtime, model, work / "ranges.onnx")
        for activation, per_channel in ((np.uint8, False), (np.int8, True)):
            path = work / f"{name}_{activation.__name__}.onnx"
            quantized = quantize.quantize(model, ranges, activation, np.int8, per_channel)
            onnx.save(quantize.with_quantized_outputs(quantized), path)
            yield path
        for weight in (np.int8, np.uint8):
            path = work / f"{name}_dynamic_{weight.__name__}.onnx"
            onnx.save(dynamic.quantize(model, weight), path)
            yield path


def cat(work, shared):
    """The official MobileNetV2 sees a cat; each quantized tensor is an output."""
    path, folder = work / QUANTIZED, work / "data" / pathlib.Path(QUANTIZED).stem
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(quantize.with_quantized_outputs(onnx.load(shared / QUANTIZED)), path)
    picture.classifier_input(shared / "cat.png").tofile(folder / "in0.bin")
    yield path


def models_of(runtime, work, emulated):
    shared = ort.shared_models()
    if shared.is_dir():
        yield from shared_models(ORDER_OF_SUMS if emulated else set())
        if not SANITIZED:  # the same kernels as in the other models; what differs are the numbers
            yield from topologies_of(runtime, work, shared)
        yield from cat(work, shared)
    yield from nets.write_all(work)
    for name, model in (*qoperators.write_all(), *strange.write_all()):
        path = work / f"{name}.onnx"
        onnx.save(model, path)
        yield path


def run_ours(against, model, folder, isa):
    """Words about what is wrong, or None."""
    environment = dict(os.environ, **({"DNNL_MAX_CPU_ISA": isa} if isa else {}))
    ours = subprocess.run([*against, str(model), str(folder)], capture_output=True, text=True,
                          check=False, env=environment)
    print(f"{model.name} {isa or ''}: {ours.stdout.strip()}")
    differences = [float(d) for d in re.findall(r"relative (\S+),", ours.stdout)]
    if ours.returncode or not differences or not all(d <= 1e-5 for d in differences):
        return f"{isa or ''} {ours.stdout.strip()} {ours.stderr.strip()}"
    return None


def compare(against, runtime, work, model):
    folder = work / "data" / model.stem
    folder.mkdir(parents=True, exist_ok=True)
    try:
        runtime.run(model, folder, integers=model.name in SIGNED,
                    exact=model.name not in NOT_EXACT)
    except RuntimeError as e:
        return str(e)
    own = model.name.startswith(("qdq_", "qoperators_")) or model.name in (QUANTIZED, "reals.onnx")
    isas = ("", *OTHER_ISAS) if own else ("",)
    for isa in isas:
        if words := run_ours(against, model, folder, isa):
            return words
    return None


def sees_the_cat(work):
    scores = max((work / "data" / pathlib.Path(QUANTIZED).stem).glob("out*.bin"),
                 key=lambda path: int(path.stem[3:]))
    return np.fromfile(scores, np.float32).argmax() == EGYPTIAN_CAT


def main():
    work, against = pathlib.Path(sys.argv[1]), sys.argv[2:]
    work.mkdir(parents=True, exist_ok=True)
    modules = ort.install()
    if not modules:
        print("skipped: onnxruntime-node cannot be installed (npm is not at hand)")
        return SKIPPED
    with ort.Runtime(modules) as runtime:
        models = models_of(runtime, work, emulated=len(against) > 1)
        wrong = [(m.name, words) for m in models if (words := compare(against, runtime, work, m))]
    if ort.shared_models().is_dir() and not sees_the_cat(work):
        wrong.append((QUANTIZED, "the picture of a cat is something else"))
    for name, words in wrong:
        print(f"{name}: WRONG: {words}", file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
