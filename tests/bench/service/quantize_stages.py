#!/usr/bin/python3
"""Where a calibration's time goes: of each stage the time, the processor time of rknnctl and of the server (daemon and workers), and how
many processors that kept busy; then both ends' peaks of memory. quantize_stages.py MODEL.onnx... [--samples N...] [--rounds N] [--clients N]
[--words 'OPTIONS of rknnctl quantize']

Samples are made as in bench_quantize.py. Stages are rknnctl's own (--json), on the clock of all programs; the server's processor time is read
every 2 ms and taken between. Medians of rounds, stages by their order in the first one. Alone on the machine, or under `chrt -r 10`.
RKNND_BUILD says which build.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time

import numpy as np

from bench_quantize import FILES, write_samples
from support.service import BUILD, Daemon

EVERY = 0.002  # seconds


class Server(threading.Thread):
    """Reads the processor time of a daemon and its workers, and their peaks of memory, until it is told to end."""

    def __init__(self, daemon):
        super().__init__()
        self.daemon_pid, self.seen, self.peaks, self.ends = daemon.process.pid, {}, {}, threading.Event()
        self.times, self.spent, self.client_pid, self.most = [], [], 0, 0

    def run(self):
        count = 0
        while not self.ends.is_set():
            children = pathlib.Path(f"/proc/{self.daemon_pid}/task/{self.daemon_pid}/children").read_text().split()
            at_memory, all_of = count % 5 == 0, 0
            for pid in [self.daemon_pid, *map(int, children)]:
                self.seen[pid] = self.spent_by(pid)
                all_of += self.memory(pid) if at_memory else 0
            if at_memory and self.client_pid:
                self.memory(self.client_pid)
            self.most = max(self.most, all_of)
            self.times.append(time.monotonic())
            self.spent.append(sum(self.seen.values()))
            count += 1
            time.sleep(EVERY)

    def spent_by(self, pid):
        try:
            return time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid() makes it
        except OSError:
            return self.seen.get(pid, 0)  # it has ended

    def memory(self, pid):
        """What it has now; the most that it had is kept. MB."""
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            self.peaks[pid] = int(status.split("VmHWM:")[1].split()[0]) / 1000
            return int(status.split("VmRSS:")[1].split()[0]) / 1000
        except (OSError, IndexError):
            return 0  # it has ended

    def between(self, begin, end):
        return float(np.diff(np.interp([begin, end], self.times, self.spent))[0])


def run(model, listed, folder, words):
    """On a daemon of its own, which knows no model. Rows (stage, seconds, of rknnctl's processor, of the server's), the last of them the whole, and peaks in MB."""
    daemon = Daemon("--backend", "sim", stderr=subprocess.DEVNULL)
    server = Server(daemon)
    server.start()
    begun = time.monotonic()
    command = [BUILD / "bin/rknnctl", "quantize", model, "--dataset", listed, "-o", folder / "int8.onnx", "--json", *words]
    process = subprocess.Popen([*map(str, command)], env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    server.client_pid = process.pid
    out, words = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    ended = time.monotonic()
    server.ends.set()
    server.join()
    daemon.stop()
    if process.returncode:
        raise SystemExit(words.decode())
    rows = [(s["name"], s["ns"] / 1e9, s["processor_ns"] / 1e9, server.between(s["begun_ns"] / 1e9, (s["begun_ns"] + s["ns"]) / 1e9))
            for s in json.loads(out)["stages"]]
    rows.append(("whole", ended - begun, used.ru_utime + used.ru_stime, server.between(begun, ended)))
    client = server.peaks.pop(process.pid)
    return rows, [client, max(server.peaks.values()), server.most]


def joined(rows):
    """Stages of the same name become one."""
    all_of = {}
    for name, *values in rows:
        all_of[name] = np.array(values) + all_of.get(name, 0)
    return all_of


def table(title, rounds, peaks):
    print(f"{title}\n  {'stage':<26}{'ms':>9}{'rknnctl':>9}{'server':>9}{'busy':>7}")
    names = list(dict.fromkeys(name for one in rounds for name in one))
    for name in names:
        seconds, client, server = np.median([one[name] for one in rounds if name in one], axis=0)
        print(f"  {name:<26}{1000 * seconds:9.1f}{1000 * client:9.1f}{1000 * server:9.1f}{(client + server) / seconds:7.2f}")
    print("  peaks, MB: rknnctl %.0f, the largest of the server's processes %.0f, all of them together %.0f" % tuple(np.max(peaks, axis=0)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--samples", type=int, nargs="+", default=[32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--words", default="", help="options of rknnctl quantize, in one argument")
    args = parser.parse_args()
    words = [*args.words.split(), "--clients", args.clients]
    for model in args.models:
        with tempfile.TemporaryDirectory(prefix="quantize-stages-") as name:
            folder = pathlib.Path(name)
            write_samples(model, folder)
            for n in args.samples:
                listed = folder / "list.txt"
                listed.write_text("".join(f"{i % FILES}.npy\n" for i in range(n)))
                found = [run(model, listed, folder, words) for _ in range(args.rounds)]
                table(f"{model.stem}, {n} samples {args.words}", [joined(rows) for rows, _ in found], [p for _, p in found])


main()
