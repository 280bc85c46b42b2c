#!/usr/bin/python3
"""Many programs that open, run and close at random while they, and workers under them, are killed:
nothing leaks, and nothing fails that was not made to.

soak.py [--seconds N] [--clients N] [--contexts N]; contexts are those of all clients together."""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from support.checks.expect import EXPECT
from support.daemon import stalls
from support.seed import seed
from support.service import BUILD, DIGITS, PATIENCE, SOURCE, Daemon, resident_kb, wait_for
from support.wire import turn_cpu

MODELS = ("conv", "residual", "batch")
ROUNDS = 400  # of one program, before it ends by itself
WORKER_KILL_S = 1.0
HOLES_KB = 2048  # between what is allocated, which the daemon does not give back (HEAP_HOLES of server/heap.c)


def make_models(folder):
    subprocess.run([sys.executable, SOURCE / "tests/conformance/models.py", folder], check=True)
    return [DIGITS] + [pathlib.Path(folder) / f"{name}.rknn" for name in MODELS]


class Crowd:
    def __init__(self, daemon, models, options, rng):
        self.daemon, self.models, self.rng = daemon, models, rng
        self.n_clients = options.clients
        self.contexts = str(max(1, round(options.contexts / options.clients * 4 / 3)))
        self.clients, self.killed = [], set()
        self.ended = self.kills = self.worker_kills = self.runs = self.lost = 0

    def start_one(self):
        seed, rounds = self.rng.randrange(1 << 30), self.rng.randrange(1, ROUNDS)
        self.clients.append(subprocess.Popen(
            [BUILD / "tests/soak/soak_client", str(seed), str(rounds), self.contexts, *self.models],
            env=self.daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def bury(self, client):
        out, err = client.communicate(timeout=PATIENCE)
        if client in self.killed:
            self.killed.remove(client)
            return
        assert client.returncode == 0, f"not injected: {err or client.returncode}"
        runs, lost = map(int, out.split())
        self.ended, self.runs, self.lost = self.ended + 1, self.runs + runs, self.lost + lost

    def kill_one(self):
        victim = self.rng.choice(self.clients)
        if victim not in self.killed:
            victim.kill()
            self.killed.add(victim)
            self.kills += 1

    def kill_worker(self):
        children = self.daemon.children()
        if children:
            try:
                os.kill(self.rng.choice(children), signal.SIGKILL)
                self.worker_kills += 1
            except ProcessLookupError:
                pass

    def run(self, seconds):
        end = time.monotonic() + seconds
        next_worker = time.monotonic() + WORKER_KILL_S
        while time.monotonic() < end:
            for client in [c for c in self.clients if c.poll() is not None]:
                self.clients.remove(client)
                self.bury(client)
            for _ in range(min(8, self.n_clients - len(self.clients))):
                self.start_one()
            if self.rng.random() < 0.3:
                self.kill_one()
            if time.monotonic() > next_worker:
                self.kill_worker()
                next_worker += WORKER_KILL_S
            time.sleep(0.02)  # the pace of events, nothing is waited for
        for client in self.clients:
            if self.rng.random() < 0.5 and client.poll() is None:
                client.kill()
                self.killed.add(client)
            self.bury(client)
        self.clients = []


def settle(daemon, before):
    """What is held, and the memory of the daemon, when everybody has gone."""
    wait_for(lambda: f"{daemon.held()} to be {before}", lambda: daemon.held() == before)
    return resident_kb(daemon.process.pid)


def shared_files():
    return len(os.listdir("/dev/shm"))


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--clients", type=int, default=200)
    options.add_argument("--contexts", type=int, default=1000)
    options = options.parse_args()
    rng = random.Random(seed(1))
    shm = shared_files()
    stalls.watch()
    with tempfile.TemporaryDirectory() as folder:
        models = make_models(folder)
        daemon = Daemon("--backend", "sim:rk3588,paced,speed=0.005", "--log-level", "1",
                        "--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0")
        before = daemon.held()
        crowd = Crowd(daemon, models, options, rng)
        resident = []
        for _ in range(4):  # the first part fills pools and caches, the others may add nothing
            crowd.run(options.seconds / 4)
            resident.append(settle(daemon, before))
        status = daemon.status()
        daemon.stop()
    print(f"{crowd.ended} programs ended well, {crowd.kills} were killed; {crowd.runs} runs, "
          f"{crowd.lost} calls lost to {crowd.worker_kills} killed workers")
    print(f"jobs: {status['jobs_done']} done, {status['jobs_retried']} repeated, "
          f"{status['jobs_failed']} failed; longest turn {status['longest_turn_us']} us, "
          f"{status['longest_turn_cpu_us']} us of the processor; the daemon's memory after each quarter, KB: {resident}")
    assert status["longest_turn_cpu_us"] < turn_cpu(), f"a turn took {status['longest_turn_cpu_us']} us of the processor"
    EXPECT.assertLessEqual(max(resident[1:]), resident[0] * 1.1 + 1024 + HOLES_KB, "the daemon's memory grows")
    EXPECT.assertLessEqual(shared_files(), shm, "something is left in /dev/shm")


if __name__ == "__main__":
    sys.exit(main())
