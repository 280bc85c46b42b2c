"""The public headers as programs and plugins of the SDK's kind use them (headers_use.c): they compile in C and C++
without a warning, link with the library, and a plugin that hides its symbols still shows get_rknn_custom_op."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[2] / "client/include"
LIBRARY = pathlib.Path(os.environ["RKNND_BUILD"]) / "lib/rknnd/client/librknnrt.so"
SHOWN = {"get_rknn_custom_op"}
CC, CXX = (shlex.split(os.environ.get(name, default)) for name, default in (("RKNND_CC", "cc"), ("RKNND_CXX", "c++")))
COMPILERS = [
    [*CC, "-x", "c", "-std=c99", "-Wpedantic"], [*CC, "-x", "c", "-std=gnu11"],
    [*CXX, "-x", "c++", "-std=c++11", "-Wpedantic"], [*CXX, "-x", "c++", "-std=c++17"],
]


def shown(path):
    lines = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return {line.split()[-1] for line in lines if " T " in line}


def builds(compiler, folder):
    out = folder / "librkcst_use.so"
    done = subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror", "-Wno-stringop-truncation", "-fPIC", "-shared",
                           "-fvisibility=hidden", "-I", str(INCLUDE), str(HERE / "headers_use.c"), "-x", "none",
                           "-Wl,--no-undefined", str(LIBRARY), "-o", str(out)], capture_output=True, text=True)
    if done.returncode:
        print(f"{' '.join(compiler)}:\n{done.stderr[:4000]}")
        return False
    found = shown(out)
    if found != SHOWN:
        print(f"{' '.join(compiler)}: the plugin shows {sorted(found)}")
    return found == SHOWN


def main():
    if not LIBRARY.exists():
        print(f"skipped: {LIBRARY} has not been built")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        there = [compiler for compiler in COMPILERS if shutil.which(compiler[0])]  # for boards, C++ may be missing
        good = [builds(compiler, pathlib.Path(folder)) for compiler in there]
    print(f"{sum(good)} of {len(good)} compilers take it")
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
