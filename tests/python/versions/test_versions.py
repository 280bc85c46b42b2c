"""The tests of the Python package with the interpreter, the NumPy and the cffi of another Debian: test_versions.py SUITE.

They are unpacked into the build tree, and run beside this machine's programs. 77: the mirror does not have the suite."""
import os
import platform
import re
import subprocess
import sys

from packages.unpacked import unpack, with_libraries
from support.paths import SOURCE
from support.service import BUILD

RUFF = "forky"  # the first Debian that has it
PACKAGES = ("python3", "python3-numpy", "python3-cffi-backend", "python3-pil", "python3-onnx", "python3-flatbuffers")
TESTS = SOURCE / "tests/python"


def interpreter(root):
    names = [p.name for p in (root / "usr/bin").iterdir() if re.fullmatch(r"python3\.\d+", p.name)]
    return with_libraries(root, *names)


def check_style(root):
    return subprocess.run([with_libraries(root, "ruff"), "check", "--no-cache", SOURCE / "python"], check=False).returncode


def main(suite):
    if platform.machine() != "x86_64":
        print("skipped: only on amd64")
        return 77
    folder = BUILD / "python-versions" / suite
    if not unpack(suite, folder, "amd64", PACKAGES + (("ruff",) if suite == RUFF else ())):
        print(f"skipped: the packages of {suite} could not be fetched")
        return 77
    python = interpreter(folder / "root")
    print(subprocess.run([python, "-c", "import numpy, sys; print('Python', sys.version, 'NumPy', numpy.__version__)"],
                         check=True, text=True, capture_output=True).stdout)
    environment = {**os.environ, "PYTHONWARNINGS": "error::DeprecationWarning:rknnd"}
    failed = [test.name for test in sorted(TESTS.glob("test_*.py")) + sorted(TESTS.glob("compat/test_*.py"))
              if subprocess.run([python, test], env=environment, check=False).returncode]
    if suite == RUFF and check_style(folder / "root"):
        failed.append("ruff")
    print("failed:", *failed) if failed else print("all passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
