#!/usr/bin/python3
"""Everybody at once: some polite programs, and of what attack_list.py has some at a time, which are killed and followed by
others, as are workers. The polite ones have only right answers, and when all have gone nothing is left.

chaos.py [--seconds N] [--isolation process|thread] [--at-once N] [--tally FILE]. RKNND_SEED repeats who comes when (not the clocks)."""
import argparse
import collections
import contextlib
import multiprocessing
import os
import random
import signal
import sys
import time

from attack_list import ATTACKS, INPUT, Scene, run_of
from beside import ATTACKER, Attacker, start, start_daemon
from support.checks.expect import EXPECT
from support.seed import seed
from support.service import PATIENCE, wait_for
from support.wire import CLOSE, INFER, message
from tally import EXACT_HEAP, begin, finish, is_back, memory

POLITE = (1001, 1003, 1004)  # users
TICK = 0.05
# Who is started meanwhile would have its file, too, and could not end.
NAMES = [name for name in ATTACKS if name != "files_that_are_silent"]
PARTS = 6
LONG = 60  # seconds from which on memory is judged
SERIES = 140  # more models than a user has series of metrics for
FIRST = 0.5  # seconds of each attack, before anything is measured


def run_for_ever(scene, runs, lost):
    """Workers are killed: a run may be lost with two of them, and no answer is wrong."""
    c = scene.unix()
    context, right = None, None
    while context is None:  # its worker may be killed twice while it starts
        context = scene.open(c)
        lost.value += context is None
    while True:
        failed, fields = c.call(INFER, run_of(context), payload=INPUT)
        if failed:
            lost.value += 1
            continue
        right = right or c.payload
        assert c.payload == right, f"a wrong answer: {fields}, {c.payload}"
        runs.value += 1


def open_many(scene, connect):
    """Counters of models stay, up to a number for each user: as many as that."""
    for i in range(SERIES):
        with contextlib.closing(connect()) as c, contextlib.suppress(OSError, AssertionError):
            context = scene.open(c, b"series %d" % i)
            c.call(CLOSE, message(f1=context or 0))


class Chaos:
    def __init__(self, daemon, port, rng, at_once):
        self.daemon, self.port, self.rng, self.at_once = daemon, port, rng, at_once
        self.attackers, self.done = [], collections.Counter()
        self.killed = self.workers = 0
        self.counts = [[multiprocessing.Value("L", 0, lock=False) for _ in range(2)] for _ in POLITE]

    def fill(self):
        """What comes once, and stays, comes now: libraries' tables, a user's counters."""
        scene = Scene(self.daemon, self.port, lambda: None)
        for connect in scene.unix, scene.tcp:
            p = start(open_many, scene, connect, user=ATTACKER)
            p.join()
            EXPECT.assertEqual(p.exitcode, 0)
        for name in NAMES:
            attacker = Attacker(name, scene)
            time.sleep(FIRST)  # of its time
            attacker.end()

    def attack(self):
        name = self.rng.choice(NAMES)
        self.done[name] += 1
        self.attackers.append(Attacker(name, Scene(self.daemon, self.port, lambda: None)))

    def kill_attacker(self):
        self.attackers.pop(self.rng.randrange(len(self.attackers))).end()
        self.killed += 1

    def kill_worker(self):
        children = self.daemon.children()
        with contextlib.suppress(ProcessLookupError):
            if children:
                os.kill(self.rng.choice(children), self.rng.choice([signal.SIGKILL, signal.SIGSEGV]))
                self.workers += 1

    def run(self, seconds):
        polite = [start(run_for_ever, Scene(self.daemon, self.port, None), *count, user=user)
                  for user, count in zip(POLITE, self.counts)]
        before = [runs.value for runs, _ in self.counts]
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                time.sleep(TICK)  # the pace of events, nothing is waited for
                EXPECT.assertIsNone(self.daemon.process.poll(), "rknnd has ended")
                EXPECT.assertTrue(all(p.is_alive() for p in polite), "a polite program has ended")
                if len(self.attackers) < self.at_once:
                    self.attack()
                elif self.rng.random() < 0.1:
                    self.kill_attacker()
                if self.rng.random() < 0.05:
                    self.kill_worker()
        finally:
            while self.attackers:
                self.kill_attacker()
        more = [runs.value for runs, _ in self.counts]
        wait_for("every polite program to have run", lambda: all(r.value > n for (r, _), n in zip(self.counts, before)))
        for p in polite:
            p.kill()
            p.join()
        return [m - b for m, b in zip(more, before)]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    options.add_argument("--seconds", type=float, default=15)
    options.add_argument("--isolation", default="process")
    options.add_argument("--at-once", type=int, default=5)
    options.add_argument("--tally")
    o = options.parse_args()
    rng = random.Random(seed())
    begin(o.tally, o.isolation)
    with start_daemon("--isolation", o.isolation, "--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0",
                      "--job-timeout-ms", "3000", environment=EXACT_HEAP) as (daemon, port):
        before = daemon.held()
        chaos = Chaos(daemon, port, rng, o.at_once)
        memories = []
        if o.seconds >= LONG:
            chaos.fill()
        for _ in range(PARTS):
            chaos.run(o.seconds / PARTS)
            wait_for(lambda: f"{daemon.held()} to be {before}", lambda: is_back(before, daemon.held()), 2 * PATIENCE)
            memories.append(memory(daemon))
        runs, lost = (sum(count[i].value for count in chaos.counts) for i in (0, 1))
        finish(daemon, "chaos", o.isolation, o.tally, before, memories, o.seconds >= LONG, seconds=o.seconds, runs=runs, lost=lost, clients_killed=chaos.killed,
               workers_killed=chaos.workers, attacks=dict(sorted(chaos.done.items())))


if __name__ == "__main__":
    sys.exit(main())
