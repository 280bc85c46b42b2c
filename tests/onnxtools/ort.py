"""ONNX Runtime of npm (onnxruntime-node, without its scripts), and the models to compare with it."""
import json
import os
import pathlib
import shutil
import subprocess

from support.made import fetch_once
from support.paths import SHARED

HERE = pathlib.Path(__file__).resolve().parent


def install():
    """The folder of node modules; None where npm cannot be had."""
    def fetch(here):
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund",
                   "--fetch-retries=0", "--prefix", str(here), "onnxruntime-node"]
        try:
            return subprocess.run(command, capture_output=True, timeout=90, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    if not shutil.which("npm") or not shutil.which("node"):
        return None
    folder = fetch_once(pathlib.Path(os.environ["RKNND_BUILD"]).resolve().parent / "ort", fetch)
    return folder and folder / "node_modules"


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
