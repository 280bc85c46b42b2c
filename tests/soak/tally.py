#!/usr/bin/python3
"""What hours of disturbing the server have come to. Runs of chaos.py and stateful.py print a line each, and with --tally FILE
append it there as JSON, and before that that they have begun; tally.py FILE… adds them up, by isolation. One that has not come to
its end had a server that died, a wrong answer, or something that was not given back."""
import collections
import json
import pathlib
import sys

from support.checks.expect import EXPECT
from support.service import SANITIZED, rknnctl
from support.wire import TURN_CPU

SUMS = ("seconds", "messages", "runs", "lost", "clients_killed", "workers_killed")
FLAT = 0.02  # by which memory may have grown after the first part, beside a part that pages and arenas come in
ARENA_KB = 4096


def is_back(before, held):
    """Everything is as it was. On a busy machine a descriptor of the start may have been closed only after it was counted."""
    return {**held, "fds": max(held["fds"], before["fds"])} == before


def growth_kb(resident):
    """From the first part, which fills pools and caches, to the last."""
    return resident[-1] - resident[0]


def slow_turns(daemon):
    """The log's lines about turns that took long."""
    return [line for line in rknnctl(daemon.uri, "log", "--lines", "1000").stdout.splitlines() if "a turn of the loop" in line]


def note(path, line):
    if path:
        with open(path, "a") as file:
            print(json.dumps(line), file=file)


def begin(path, isolation):
    note(path, {"begun": True, "isolation": isolation, "sanitized": SANITIZED})


def finish(daemon, name, isolation, path, before, resident, settled=True, **counts):
    """Prints what has come of a run, and checks it. `settled`: the first part had everything in it, so that others add nothing."""
    status = daemon.status()
    held = daemon.held()
    line = {"name": name, "isolation": isolation, "sanitized": SANITIZED, "longest_turn_us": status["longest_turn_us"],
            "longest_turn_cpu_us": status["longest_turn_cpu_us"], "resident_kb": resident, "fds": [before["fds"], held["fds"]], **counts}
    print(f"{name}, {isolation}:", json.dumps(line), flush=True)
    for words in slow_turns(daemon)[-3:]:
        print(" ", words, flush=True)
    note(path, line)
    EXPECT.assertTrue(is_back(before, held), f"{held} is not {before}")
    EXPECT.assertLess(line["longest_turn_cpu_us"], TURN_CPU)
    if len(resident) > 1 and settled and not SANITIZED:
        EXPECT.assertLessEqual(growth_kb(resident), FLAT * resident[0] + ARENA_KB, "the daemon's memory grows")


def add_up(paths):
    table = collections.defaultdict(lambda: dict.fromkeys(SUMS, 0) | {"begun": 0, "ended": 0, "longest_turn_cpu_us": 0, "growth_kb": [], "fds_back": True})
    for line in (json.loads(text) for path in paths for text in pathlib.Path(path).read_text().splitlines()):
        for key in line["isolation"] + (" (asan)" if line["sanitized"] else ""), "all":
            row = table[key]
            if "begun" in line:
                row["begun"] += 1
                continue
            row["ended"] += 1
            for name in SUMS:
                row[name] += line.get(name, 0)
            row["longest_turn_cpu_us"] = max(row["longest_turn_cpu_us"], line["longest_turn_cpu_us"])
            row["growth_kb"].append(growth_kb(line["resident_kb"]))
            row["fds_back"] &= line["fds"][0] >= line["fds"][1]
    for key, row in sorted(table.items()):
        row["growth_kb"] = [min(row["growth_kb"], default=0), max(row["growth_kb"], default=0)]
        print(f"{key}: " + ", ".join(f"{name} {value:.0f}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    add_up(sys.argv[1:])
