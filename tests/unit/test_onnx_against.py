"""test_onnx_against.py ONNX_AGAINST WORK_FOLDER: models on the software NPU against ONNX Runtime.

Floats agree within 1e-5 of the largest value; quantized networks are equal. ONNX Runtime comes from
npm (onnxruntime-node, without its scripts); where that cannot be had the test is skipped."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import onnx_qdq_nets

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
NOT_KNOWN_TO_ORT = {"dual_residual.onnx"}


def install(work):
    modules = work / "node_modules"
    if (modules / "onnxruntime-node").exists():
        return modules
    if not shutil.which("npm") or not shutil.which("node"):
        return None
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund",
               "--fetch-retries=0", "--prefix", str(work), "onnxruntime-node"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        return None
    return modules if done.returncode == 0 else None


def shared_models():
    shared = pathlib.Path(os.environ.get("RKNND_SHARED", HERE.parents[1].parent / "shared"))
    models = sorted((shared / "models" / "onnx").glob("**/*.onnx"))
    return [m for m in models if m.name not in NOT_KNOWN_TO_ORT]


def compare(against, modules, work, model):
    """Words about what is wrong, or None."""
    folder = work / "data" / model.stem
    folder.mkdir(parents=True, exist_ok=True)
    ort = subprocess.run(["node", str(HERE / "onnx_ort.js"), str(modules), str(model), str(folder)],
                         capture_output=True, text=True, check=False)
    if ort.returncode:
        return f"ONNX Runtime: {ort.stderr.strip()}"
    ours = subprocess.run([against, str(model), str(folder)], capture_output=True, text=True,
                          check=False)
    print(f"{model.name}: {ours.stdout.strip()}")
    differences = [float(d) for d in re.findall(r"relative (\S+),", ours.stdout)]
    allowed = 0 if "qdq" in model.name else 1e-5
    if ours.returncode or not differences or not all(d <= allowed for d in differences):
        return f"{ours.stdout.strip()} {ours.stderr.strip()}"
    return None


def main():
    against, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    modules = install(work)
    if not modules:
        print("skipped: onnxruntime-node cannot be installed (npm is not at hand)")
        return SKIPPED
    models = shared_models() + list(onnx_qdq_nets.write_all(work))
    wrong = [(m.name, words) for m in models if (words := compare(against, modules, work, m))]
    for name, words in wrong:
        print(f"{name}: WRONG: {words}", file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
