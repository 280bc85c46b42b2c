"""Each model's run on arm64 in instructions, which QEMU counts, divided by those of plain NEON kernels
(instructions.c), with dot products and without, the farthest first. Times under emulation say nothing; instructions do
not depend on the machine or on its load.

  /usr/bin/python3 tests/bench/sim/table_arm64.py [--qemu qemu-aarch64] [--sysroot build/sysroot-arm64] \\
      build/arm64/tests/bench/bench_sim FILE|FOLDER…

qemu-aarch64 is that of Debian's qemu-user: the static one takes no plugins. A run is half of what three runs take more
than one.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

from table import files_of

CPUS = {"cortex-a76": "--instructions", "cortex-a72": "--instructions-no-dot"}  # with dot products, and without
PLUGIN = pathlib.Path(__file__).with_name("count_plugin.c")


def run(command, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or f"status {done.returncode}").splitlines()[-1])
    return done


def count(emulator, bench, path, rounds):
    done = run([*emulator, bench, "--rounds", path], f"{rounds}\n")
    return int(re.search(r"instructions: (\d+)", done.stderr)[1])


def row_of(arguments, plugin, path):
    row = []
    for cpu, option in CPUS.items():
        emulator = [arguments.qemu, "-cpu", cpu, "-L", arguments.sysroot]
        convs, rest, products = map(float, run([*emulator, arguments.bench, option, path]).stdout.split()[:3])
        emulator += ["-plugin", plugin]
        n = (count(emulator, arguments.bench, path, 3) - count(emulator, arguments.bench, path, 1)) / 2
        row += [n / 1e6, n / (convs + rest), n / (convs + rest + products)]
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qemu", default="qemu-aarch64")
    parser.add_argument("--sysroot", default="build/sysroot-arm64")
    parser.add_argument("bench")
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    rows, refused = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        plugin = str(pathlib.Path(folder, "count.so"))
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, PLUGIN], check=True)
        for path in files_of(arguments.paths):
            try:
                rows[path.name] = row_of(arguments, plugin, path)
                print(f"{path.name}: {rows[path.name]}", file=sys.stderr)
            except RuntimeError as e:
                refused[path.name] = e
    print("".join(f"{'M, ' + cpu:>16} {'ratio':>6} {'products':>8}" for cpu in CPUS), " model")
    for name, row in sorted(rows.items(), key=lambda item: -item[1][1]):
        print("".join(f"{row[i]:16.2f} {row[i + 1]:6.2f} {row[i + 2]:8.2f}" for i in (0, 3)), "", name)
    for name, words in refused.items():
        print(f"refused: {name}: {words}")


if __name__ == "__main__":
    main()
