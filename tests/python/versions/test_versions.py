"""The tests of the Python package with the interpreter, the NumPy and the cffi of another Debian: test_versions.py SUITE.

They are unpacked into the build tree, and run beside this machine's programs. 77: the mirror does not have the suite."""
import os
import pathlib
import platform
import re
import subprocess
import sys

from support.paths import SOURCE
from support.service import BUILD

RUFF = "forky"  # the first Debian that has it
PACKAGES = ("python3", "python3-numpy", "python3-cffi-backend", "python3-pil", "python3-onnx")
TESTS = SOURCE / "tests/python"


def unpack(suite, folder):
    """The packages' files under folder/root, unless they are there; whether they are."""
    done = folder / "done"
    if not done.exists():
        more = ("ruff",) if suite == RUFF else ()
        command = [SOURCE / "tests/packages/debian.sh", "--depends", suite, folder, "amd64", *PACKAGES, *more]
        if subprocess.run(command, check=False).returncode:
            return False
        done.touch()
    return True


def with_libraries(root, name):
    """A program that is the unpacked one, with the libraries beside it. An interpreter says it as sys.executable."""
    below = [root / lib / "x86_64-linux-gnu" / more for lib in ("usr/lib", "lib") for more in ("", "blas", "lapack")]
    loaders = (root / "lib64/ld-linux-x86-64.so.2", root / "usr/lib64/ld-linux-x86-64.so.2")
    loader = next((p for p in loaders if p.exists()), pathlib.Path("/lib64/ld-linux-x86-64.so.2"))
    made = root / "usr/bin" / f"{name}-with-libraries"
    made.write_text(f'#!/bin/sh\nexec {loader} --argv0 "$0" --library-path {":".join(map(str, below))} {root}/usr/bin/{name} "$@"\n')
    made.chmod(0o755)
    return made


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
    if not unpack(suite, folder):
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
