#!/usr/bin/python3
"""What the flight recorder costs: round trips with it, as a ratio to those without. bench_trace.py [ROUNDS [RUNS]]

Two daemons with a backend that does nothing, asked in turn; RKNND_BUILD says which build. The runs are as short as runs get, so the
ratio is the worst there is.
"""
import json
import statistics
import subprocess
import sys

from support.service import BUILD, DIGITS, Daemon

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 15
RUNS = sys.argv[2] if len(sys.argv) > 2 else "3000"
KINDS = {"without": "0", "with": "16384"}


def measure(daemon):
    done = subprocess.run([BUILD / "bin/rknnctl", "bench", DIGITS, "-n", RUNS, "--json"],
                          env=daemon.env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["latency_us"]["median"]


def main():
    daemons = {kind: Daemon("--backend", "null:64:64", "--isolation", "thread", "--trace-events",
                            events) for kind, events in KINDS.items()}
    times = {kind: [] for kind in KINDS}
    for _ in range(ROUNDS):
        for kind, daemon in daemons.items():
            times[kind].append(measure(daemon))
    ratios = [a / b for a, b in zip(times["with"], times["without"])]
    print("round trip %.1f us without, ratio with the recorder: median %.3f, quartiles %.3f to %.3f"
          % (statistics.median(times["without"]), statistics.median(ratios),
             *(statistics.quantiles(ratios, n=4)[i] for i in (0, 2))))
    for daemon in daemons.values():
        daemon.stop()


main()
