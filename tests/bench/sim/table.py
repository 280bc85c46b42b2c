"""Each model's run divided by its bound (bench_sim), with every instruction set that the aim names, as one table: the
farthest from its aim first, and how many are within it. docs/testing.md's numbers come from here.

  /usr/bin/python3 tests/bench/sim/table.py [--times N] [--prefix COMMAND] build/release/tests/bench/bench_sim FILE|FOLDER…

Each look measures bound and run one after the other. A model whose ratio is far below its aim is looked at once; the
others again, up to N times. Other programs only make times longer: the shortest run and the shortest bound of all looks
count. With `products` the bound has oneDNN's time for products of matrices and transposed convolutions, too.
"""
import argparse
import os
import pathlib
import shlex
import subprocess
import sys

AIMS = {"AVX512_CORE_VNNI": 1.15, "AVX2": 1.3}  # by the names that DNNL_MAX_CPU_ISA takes
FAR = .9  # times the aim: what was once below that is within it
SLOWER = 1.03  # a look whose times are both within this of the shortest adds nothing


def files_of(paths):
    for path in map(pathlib.Path, paths):
        found = sorted(p for p in path.rglob("*") if p.suffix in (".rknn", ".onnx")) if path.is_dir() else [path]
        yield from (p for p in found if p.stat().st_size)


def look(command, path, isa):
    """Microseconds of a run, of convolutions, of bytes and of products; or what it was refused with."""
    done = subprocess.run([*command, "--once", path], capture_output=True, text=True,
                          env=os.environ | {"DNNL_MAX_CPU_ISA": isa})
    if done.returncode:
        return (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
    words = done.stdout.splitlines()[-1].split()
    return [float(words[i]) for i in (0, 1, 2, 4)]


def measure(command, path, isa, times):
    best = None
    for _ in range(times):
        now = look(command, path, isa)
        if isinstance(now, str):
            return now
        settled = best and now[0] > best[0] / SLOWER and sum(now[1:]) > sum(best[1:]) / SLOWER
        settled = settled and now[0] < best[0] * SLOWER and sum(now[1:]) < sum(best[1:]) * SLOWER
        best = [min(column) for column in zip(best, now)] if best else now
        run, convs, rest, products = best
        if run / (convs + rest) < FAR * AIMS[isa] or settled:
            break
    return run, run / (convs + rest), run / (convs + rest + products)


def row_of(command, path, times):
    row = {}
    for isa in AIMS:
        row[isa] = measure(command, path, isa, times)
        if isinstance(row[isa], str):
            return row[isa]
    return row


def excess(row):
    return max(row[isa][1] / aim for isa, aim in AIMS.items())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--prefix", default="", help="what starts bench_sim: chrt -r 10")
    parser.add_argument("bench")
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    rows, refused = {}, {}
    for path in files_of(arguments.paths):
        row = row_of([*shlex.split(arguments.prefix), arguments.bench], path, arguments.times)
        (refused if isinstance(row, str) else rows)[path.name] = row
        print(f"{path.name}: {row}", file=sys.stderr)
    print("".join(f"{isa + ' us':>20} {'ratio':>6} {'products':>8}" for isa in AIMS), " model")
    for name, row in sorted(rows.items(), key=lambda item: -excess(item[1])):
        print("".join(f"{us:20.1f} {ratio:6.2f} {products:8.2f}" for us, ratio, products in row.values()), "", name)
    for name, words in refused.items():
        print(f"refused: {name}: {words}")
    for isa, aim in AIMS.items():
        print(f"{isa}: {sum(row[isa][1] <= aim for row in rows.values())} of {len(rows)} within {aim}")


if __name__ == "__main__":
    main()
