#!/usr/bin/python3
"""What hours of disturbing the server have come to. Runs of chaos.py and stateful.py print a line each, and with --tally FILE
append it there as JSON, and before that that they have begun; tally.py FILE… adds them up, by isolation. One that has not come to
its end had a server that died, a wrong answer, or something that was not given back."""
import collections
import json
import pathlib
import re
import sys
import time

from support.checks.expect import EXPECT
from support.daemon import stalls
from support.service import PATIENCE, SANITIZED, resident_kb, rknnctl, wait_for
from support.wire import METRICS, Client, turn_cpu

SUMS = ("seconds", "messages", "runs", "lost", "clients_killed", "workers_killed")
FLAT = 0.02  # by which memory may have grown after the first part, beside a part that pages and arenas come in
ARENA_KB = 4096
REST = 20  # tenths of a second
RESIDENT_PARTS = 2  # what a crowd leaves in arenas comes and goes from one part to the next
# A thread keeps up to 236 KB of small pieces that it has freed, and mallinfo2() counts those as allocated.
EXACT_HEAP = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


def is_back(before, held):
    """Everything is as it was. On a busy machine a descriptor of the start may have been closed only after it was counted."""
    return {**held, "fds": max(held["fds"], before["fds"])} == before


def held_again(daemon, before):
    """What it has, if that is as it was. Asked again it may have a descriptor for a moment, of a connection that closes or a sensor."""
    held = daemon.held()
    return is_back(before, held) and held


def memory(daemon):
    """At rest: what it has of the machine, and what of its heap is allocated (0: a sanitizer has another heap), in kB. Holes in its
    heap go back with the last heartbeat, when nobody is connected."""
    resident = []
    for _ in range(REST):
        time.sleep(0.1)
        resident.append(resident_kb(daemon.process.pid))
    client = Client(daemon)
    failed, _ = client.call(METRICS)
    text = client.payload.decode()
    client.close()
    assert not failed
    return min(resident), int(re.search(r"^rknnd_heap_bytes (\d+)$", text, re.MULTILINE)[1]) / 1024


def filled(sizes):
    """After the first third, which fills pools, caches and the log."""
    return sizes[len(sizes) // 3]


def growth_kb(sizes, parts=1):
    """By the end, in all of so many last parts."""
    return min(sizes[-parts:]) - filled(sizes)


def slow_turns(daemon):
    """The log's lines about turns that took long."""
    return [line for line in rknnctl(daemon.uri, "log", "--lines", "1000").stdout.splitlines() if "a turn of the loop" in line]


def note(path, line):
    if path:
        with open(path, "a") as file:
            print(json.dumps(line), file=file)


def begin(path, isolation):
    stalls.watch()
    note(path, {"begun": True, "isolation": isolation, "sanitized": SANITIZED})


def finish(daemon, name, isolation, path, before, memories, settled=True, **counts):
    """Prints what has come of a run, and checks it. `memories`: memory() after each part. `settled`: what comes once, and
    stays, has come before."""
    resident, heap = ([round(m[i]) for m in memories] for i in (0, 1))
    status = daemon.status()
    held = wait_for(lambda: f"{daemon.held()} to be {before}", lambda: held_again(daemon, before), 2 * PATIENCE)
    line = {"name": name, "isolation": isolation, "sanitized": SANITIZED, "longest_turn_us": status["longest_turn_us"],
            "longest_turn_cpu_us": status["longest_turn_cpu_us"], "longest_stall_us": stalls.longest_us(), "resident_kb": resident, "heap_kb": heap, "fds": [before["fds"], held["fds"]], **counts}
    print(f"{name}, {isolation}:", json.dumps(line), flush=True)
    for words in slow_turns(daemon):
        print(" ", words, flush=True)
    note(path, line)
    EXPECT.assertLess(line["longest_turn_cpu_us"], turn_cpu())
    if len(resident) > 1 and settled and not SANITIZED:
        EXPECT.assertLessEqual(growth_kb(resident, RESIDENT_PARTS), FLAT * filled(resident) + ARENA_KB, "the daemon's memory grows")
        EXPECT.assertLessEqual(growth_kb(heap), FLAT * filled(heap), "the daemon's heap grows")


def add_up(paths):
    table = collections.defaultdict(lambda: dict.fromkeys(SUMS, 0) | {"begun": 0, "ended": 0, "longest_turn_cpu_us": 0, "growth_kb": [], "heap_growth": [], "fds_back": True})
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
            row["growth_kb"].append(growth_kb(line["resident_kb"], RESIDENT_PARTS))
            row["heap_growth"] += [growth_kb(line["heap_kb"]) / filled(line["heap_kb"])] if line.get("heap_kb", [0])[0] else []
            row["fds_back"] &= line["fds"][0] >= line["fds"][1]
    for key, row in sorted(table.items()):
        for name in "growth_kb", "heap_growth":
            row[name] = [round(f(row[name], default=0), 4) for f in (min, max)]
        print(f"{key}: " + ", ".join(f"{name} {value:.0f}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    add_up(sys.argv[1:])
