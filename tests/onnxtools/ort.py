"""ONNX Runtime of npm (onnxruntime-node, without its scripts), and the models to compare with it."""
import json
import pathlib
import shutil
import subprocess

from support.paths import SHARED

HERE = pathlib.Path(__file__).resolve().parent


def install(work):
    """The folder of node modules; None where npm cannot be had."""
    modules = work.resolve() / "node_modules"
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
    """The folder of public ONNX models; it need not be there."""
    return SHARED / "models/onnx"


class Runtime:
    """ort.js at the other end of a pipe."""

    def __init__(self, modules):
        self.process = subprocess.Popen(["node", str(HERE / "ort.js"), str(modules)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def _ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"ONNX Runtime: {answer['error']}")
        return answer

    def run(self, model, folder, integers=False, exact=False):
        """Writes what the model makes of FOLDER/inN.bin to FOLDER/outN.bin."""
        return self._ask(model=str(model), folder=str(folder), integers=integers,
                         exact=exact)["types"]

    def ranges(self, model):
        """Least and largest value of each of the model's outputs."""
        return self._ask(model=str(model), ranges=True)

    def times(self, model, runs):
        """Microseconds of each run."""
        return self._ask(model=str(model), runs=runs)["times"]
