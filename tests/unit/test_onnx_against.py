"""test_onnx_against.py ONNX_AGAINST WORK_FOLDER: models on the software NPU against ONNX Runtime.

Real numbers agree within 1e-5 of the largest one. Stored 8-bit numbers are equal: one step would
be far more. ONNX Runtime comes from npm (onnxruntime-node, without its scripts); where that cannot be
had the test is skipped."""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from onnxtools import nets, ort  # noqa: E402

SKIPPED = 77
NOT_KNOWN_TO_ORT = {"dual_residual.onnx"}


def shared_models():
    models = sorted(ort.shared_models().glob("**/*.onnx"))
    return [m for m in models if m.name not in NOT_KNOWN_TO_ORT]


def compare(against, runtime, work, model):
    """Words about what is wrong, or None."""
    folder = work / "data" / model.stem
    folder.mkdir(parents=True, exist_ok=True)
    try:
        runtime.run(model, folder)
    except RuntimeError as e:
        return str(e)
    ours = subprocess.run([against, str(model), str(folder)], capture_output=True, text=True,
                          check=False)
    print(f"{model.name}: {ours.stdout.strip()}")
    differences = [float(d) for d in re.findall(r"relative (\S+),", ours.stdout)]
    if ours.returncode or not differences or not all(d <= 1e-5 for d in differences):
        return f"{ours.stdout.strip()} {ours.stderr.strip()}"
    return None


def main():
    against, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    modules = ort.install(work)
    if not modules:
        print("skipped: onnxruntime-node cannot be installed (npm is not at hand)")
        return SKIPPED
    models = shared_models() + list(nets.write_all(work))
    with ort.Runtime(modules) as runtime:
        wrong = [(m.name, words) for m in models if (words := compare(against, runtime, work, m))]
    for name, words in wrong:
        print(f"{name}: WRONG: {words}", file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
