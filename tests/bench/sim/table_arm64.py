"""Each model's run on arm64 in instructions, which QEMU counts, with dot products and without, the farthest first, divided
by two bounds: convolutions as XNNPACK runs them (count_library, where it is built beside bench_sim), as the bound on x86
has oneDNN's; and plain NEON kernels by arithmetic (instructions.c), which nobody has written. What is no convolution is
by arithmetic in both. Times under emulation say nothing; instructions do not depend on the machine or on its load.

  /usr/bin/python3 tests/bench/sim/table_arm64.py [--qemu qemu-aarch64] [--sysroot build/sysroot-arm64] \\
      build/arm64/tests/bench/bench_sim FILE|FOLDER…

qemu-aarch64 is that of Debian's qemu-user: the static one takes no plugins. --functions N: where they
are, with dot products: the N functions that take most, in units of the bound of plain kernels, of each file and on average.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

from table import files_of

CPUS = {"cortex-a76": True, "cortex-a72": False}  # whether it has dot products
PLUGIN = pathlib.Path(__file__).with_name("count_plugin.c")


def run(command, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or f"status {done.returncode}").splitlines()[-1])
    return done


def count_rounds(command, rounds):
    return int(re.search(r"instructions: (\d+)", run(command, f"{rounds}\n").stderr)[1])


def count(command):
    """Instructions of one round: half of what three rounds take more than one."""
    return (count_rounds(command, 3) - count_rounds(command, 1)) / 2


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


def bounds_of(arguments, plugin, path, cpu, dot):
    """By the library, if it is there, and by arithmetic: convolutions and the rest, and products of matrices."""
    emulator, bounds = emulator_of(arguments, cpu), {}
    if arguments.library.exists():
        command = [arguments.library, *([] if dot else ["--no-dot"]), path]
        convs, rest, products = map(float, run([*emulator, *command]).stdout.split()[:3])
        bounds["library"] = count([*emulator, "-plugin", plugin, *command]) + convs + rest, products
    option = "--instructions" if dot else "--instructions-no-dot"
    convs, rest, products = map(float, run([*emulator, arguments.bench, option, path]).stdout.split()[:3])
    bounds["plain"] = convs + rest, products
    return bounds


def row_of(arguments, plugin, path):
    row = {}
    for cpu, dot in CPUS.items():
        n = count([*emulator_of(arguments, cpu), "-plugin", plugin, arguments.bench, "--rounds", path])
        row[cpu] = {"M": n / 1e6}
        for name, (bound, products) in bounds_of(arguments, plugin, path, cpu, dot).items():
            row[cpu] |= {name: n / bound, name + " with products": n / (bound + products)}
    return row


def print_rows(rows):
    columns = [(cpu, column) for cpu in CPUS for column in next(iter(rows.values()))[cpu]]
    print("  ".join(f"{cpu} {column}" for cpu, column in columns), " model")
    for name, row in sorted(rows.items(), key=lambda item: -list(item[1]["cortex-a76"].values())[1]):
        print("  ".join(f"{row[cpu][column]:{len(cpu) + len(column) + 1}.2f}" for cpu, column in columns), "", name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--qemu", default="qemu-aarch64")
    parser.add_argument("--sysroot", default="build/sysroot-arm64")
    parser.add_argument("--functions", type=int, metavar="N")
    parser.add_argument("bench")
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    arguments.library = pathlib.Path(arguments.bench).with_name("count_library")
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
    if rows:
        print_rows(rows)
    for name, words in refused.items():
        print(f"refused: {name}: {words}")


if __name__ == "__main__":
    main()
