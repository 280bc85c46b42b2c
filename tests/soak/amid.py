#!/usr/bin/python3
"""Upgrades (SIGUSR2) amid attacks: while one of attack_list.py goes on another rknnd takes over. A polite program that comes and goes
has right answers from whoever serves and loses none, and each daemon that was replaced ends when the attacker has gone.

amid.py [--seconds N] [--isolation process|thread] [--some N] [ATTACK…]. `--some`: as many by chance; RKNND_SEED repeats them."""
import argparse
import multiprocessing
import os
import random
import signal
import sys
import time

from attack_list import ATTACKS, INPUT, Scene, run_of
from beside import POLITE, Attacker, start, start_daemon
from support.checks.expect import EXPECT
from support.seed import seed
from support.service import ended, successor, wait_for
from support.wire import INFER

RUNS = 50  # of a connection
NAMES = [name for name in ATTACKS if name != "files_that_are_silent"]  # whoever is started meanwhile would have its file, too


def come_and_go(scene, runs):
    right = None
    while True:
        c = scene.unix()
        context = scene.open(c)
        for _ in range(RUNS):
            failed, fields = c.call(INFER, run_of(context), payload=INPUT)
            assert not failed, fields
            right = right or c.payload
            assert c.payload == right, f"a wrong answer: {c.payload}"
            runs.value += 1
        c.close()


class Amid:
    def __init__(self, daemon, port, seconds):
        self.daemon, self.seconds = daemon, seconds
        self.scene = Scene(daemon, port, lambda: None)
        self.pids = [daemon.process.pid]
        self.runs = multiprocessing.Value("L", 0, lock=False)
        self.polite = start(come_and_go, self.scene, self.runs, user=POLITE)

    def more_runs(self):
        before = self.runs.value
        wait_for("the polite program to run", lambda: self.runs.value > before + 2 * RUNS or not self.polite.is_alive())
        EXPECT.assertTrue(self.polite.is_alive(), "the polite program has ended")

    def upgrade_amid(self, name):
        self.more_runs()
        attacker, old = Attacker(name, self.scene), self.pids[-1]
        time.sleep(self.seconds)  # of its time
        os.kill(old, signal.SIGUSR2)
        self.pids.append(wait_for("another one to start", lambda: successor(old)))
        time.sleep(self.seconds)
        self.more_runs()
        attacker.end()
        wait_for(f"the one before to end, beside {name}", lambda: ended(old))
        EXPECT.assertFalse(ended(self.pids[-1]), "the one that took over")
        print(f"{name:30} {self.runs.value} runs", flush=True)

    def stop(self):
        self.polite.kill()
        self.polite.join()
        for pid in self.pids:
            if not ended(pid):
                os.kill(pid, signal.SIGTERM)
        wait_for("all of them to end", lambda: all(ended(pid) for pid in self.pids))


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    options.add_argument("--seconds", type=float, default=0.7)
    options.add_argument("--isolation", default="process")
    options.add_argument("--some", type=int)
    options.add_argument("attacks", nargs="*", default=NAMES)
    o = options.parse_args()
    names = random.Random(seed()).sample(o.attacks, o.some) if o.some else o.attacks
    with start_daemon("--isolation", o.isolation, "--model-cache", "0", "--worker-idle", "0", "--job-timeout-ms", "3000") as (daemon, port):
        amid = Amid(daemon, port, o.seconds)
        try:
            for name in names:
                amid.upgrade_amid(name)
        finally:
            amid.stop()


if __name__ == "__main__":
    sys.exit(main())
