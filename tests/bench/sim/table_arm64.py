"""Each model's run on arm64 in instructions, which QEMU counts, divided by those of plain NEON kernels
(instructions.c), with dot products and without, the farthest first. Times under emulation say nothing; instructions do
not depend on the machine or on its load.

  /usr/bin/python3 tests/bench/sim/table_arm64.py [--qemu qemu-aarch64] [--sysroot build/sysroot-arm64] \\
      build/arm64/tests/bench/bench_sim FILE|FOLDER…

qemu-aarch64 is that of Debian's qemu-user: the static one takes no plugins. A run is half of what three runs take more
than one. --functions N: where they are, with dot products: the N functions that take most, in units of the bound, of each file and on average.
"""
import argparse
import collections
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


def emulator_of(arguments, cpu):
    return [arguments.qemu, "-cpu", cpu, "-L", arguments.sysroot]


def functions_of(arguments, plugin, path):
    """Instructions of a run in each function, and those of the bound."""
    emulator = emulator_of(arguments, "cortex-a76")
    bound = sum(map(float, run([*emulator, arguments.bench, "--instructions", path]).stdout.split()[:3]))
    counts = []
    for rounds in 3, 1:
        done = run([*emulator, "-plugin", f"{plugin},functions=on", arguments.bench, "--rounds", path], f"{rounds}\n")
        counts.append(collections.Counter({name: int(n) for n, name in re.findall(r"(\d+) in (\S+)", done.stderr)}))
    return collections.Counter({name: (n - counts[1][name]) / 2 for name, n in counts[0].items()}), bound


def print_functions(name, functions, bound, most):
    print(f"{sum(functions.values()) / bound:6.2f} {name}")
    for function, n in functions.most_common(most):
        print(f"{n / bound:6.2f}   {function}")


def table_functions(arguments, plugin):
    everything, bounds = collections.Counter(), 0
    for path in files_of(arguments.paths):
        try:
            functions, bound = functions_of(arguments, plugin, path)
        except RuntimeError as e:
            print(f"refused: {path.name}: {e}")
            continue
        print_functions(f"{path.name}, bound {bound / 1e6:.2f} M", functions, bound, arguments.functions)
        # Each file weighs as much as any other: in units of its bound.
        everything.update({name: n / bound for name, n in functions.items()})
        bounds += 1
    if bounds > 1:
        print_functions(f"on average of {bounds} files", everything, bounds, arguments.functions)


def row_of(arguments, plugin, path):
    row = []
    for cpu, option in CPUS.items():
        emulator = emulator_of(arguments, cpu)
        convs, rest, products = map(float, run([*emulator, arguments.bench, option, path]).stdout.split()[:3])
        emulator += ["-plugin", plugin]
        n = (count(emulator, arguments.bench, path, 3) - count(emulator, arguments.bench, path, 1)) / 2
        row += [n / 1e6, n / (convs + rest), n / (convs + rest + products)]
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qemu", default="qemu-aarch64")
    parser.add_argument("--sysroot", default="build/sysroot-arm64")
    parser.add_argument("--functions", type=int, metavar="N")
    parser.add_argument("bench")
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    rows, refused = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        plugin = str(pathlib.Path(folder, "count.so"))
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, PLUGIN], check=True)
        if arguments.functions:
            table_functions(arguments, plugin)
            return
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
