#!/usr/bin/python3
"""Clients that say right things in any order (stateful.c) against a daemon with the software NPU, while workers under it,
and such clients, are killed: no answer is wrong or missing, nothing is left, memory stays flat.

stateful.py [--seconds N] [--isolation process|thread|both] [--tally FILE]. RKNND_SEED repeats what is said (not the clocks)."""
import argparse
import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from conformance import models as conformance
from support.checks.expect import EXPECT
from support.seed import seed
from support.service import BUILD, DIGITS, SANITIZED, Daemon, wait_for
from soak.tally import EXACT_HEAP, begin, finish, is_back, memory

MESSAGES = 20000 if SANITIZED else 50000  # of one client process
NODE = 2 * 20 * 6 * 5 * 4  # bytes of the outputs of the custom operator
FRESH = ("--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0", "--job-timeout-ms", "3000")


class Crowd:
    """One client process at a time to judge, and one that is killed now and then."""

    def __init__(self, daemon, files, rng):
        self.daemon, self.files, self.rng = daemon, files, rng
        self.messages = self.killed = self.worker_kills = 0
        self.answers = collections.Counter()

    def client(self):
        command = [BUILD / "tests/stateful/stateful", self.daemon.uri[5:], str(self.rng.randrange(1 << 32)),
                   str(MESSAGES), *self.files]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def bury(self, client):
        out, err = client.communicate()
        assert self.daemon.process.poll() is None, f"rknnd ended with {self.daemon.process.returncode}"
        if "another seed" in err:
            return
        EXPECT.assertEqual(client.returncode, 0, err or client.returncode)
        said, answers = out.split(" messages;")
        self.messages += int(said)
        for word in answers.split():
            kind, numbers = word.split(":")
            self.answers[int(kind)] += int(numbers.split("/", maxsplit=1)[0])

    def disturb(self):
        chance = self.rng.random()
        children = self.daemon.children()
        if chance < 0.3 and children:
            try:
                os.kill(self.rng.choice(children), self.rng.choice([signal.SIGKILL, signal.SIGSEGV]))
                self.worker_kills += 1
            except ProcessLookupError:
                pass

    def run(self, seconds):
        end = time.monotonic() + seconds
        judged, victim = self.client(), self.client()
        while time.monotonic() < end:
            time.sleep(0.1)  # the pace of events, nothing is waited for
            self.disturb()
            if judged.poll() is not None:
                self.bury(judged)
                judged = self.client()
            if self.rng.random() < 0.15 or victim.poll() is not None:
                victim.kill()
                if victim.poll() is None:
                    self.killed += 1
                victim.communicate()
                victim = self.client()
        victim.kill()
        victim.communicate()
        self.killed += 1
        if seconds > 20 and self.messages:  # else this one's messages are all that there are
            judged.kill()
            judged.communicate()
        else:
            self.bury(judged)


def play(isolation, seconds, tally, files, rng, store):
    daemon = Daemon("--isolation", isolation, "--model-store", store, "--hold-timeout-ms", str(rng.choice([0, 5, 2000])), "--log-level",
                    os.environ.get("RKNN_SERVER_LOGLEVEL", "0"), *FRESH, environment=EXACT_HEAP)
    begin(tally, isolation)
    before = daemon.held()
    crowd = Crowd(daemon, files, rng)
    memories = []
    parts = 6 if seconds > 60 else 1
    for _ in range(parts):
        crowd.run(seconds / parts)
        wait_for(lambda: f"{daemon.held()} to be {before}", lambda: is_back(before, daemon.held()))
        memories.append(memory(daemon))
    finish(daemon, "stateful", isolation, tally, before, memories, seconds=seconds, messages=crowd.messages, clients_killed=crowd.killed,
           workers_killed=crowd.worker_kills, answers=dict(sorted(crowd.answers.items())))
    daemon.stop()
    EXPECT.assertGreater(crowd.messages, 0)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    options.add_argument("--seconds", type=float, default=12)
    options.add_argument("--isolation", default="both")
    options.add_argument("--tally")
    o = options.parse_args()
    rng = random.Random(seed())
    with tempfile.TemporaryDirectory(prefix="stateful-") as folder:
        custom = pathlib.Path(folder) / "custom.rknn"
        conformance.custom().save(custom)
        for isolation in ("process", "thread") if o.isolation == "both" else (o.isolation,):
            play(isolation, o.seconds, o.tally, [DIGITS, f"{custom}:{NODE}"], rng, pathlib.Path(folder) / isolation)


if __name__ == "__main__":
    sys.exit(main())
