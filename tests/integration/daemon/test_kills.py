#!/usr/bin/python3
"""Clients and workers killed at random moments: what they held is freed, others notice nothing."""
import os
import random
import signal
import sys
import tempfile
import time

from support.seed import seed
from support.service import DIGITS, Daemon, finish_client, wait_for

ROUNDS = 40


def kill_client_somewhere(daemon, model, rng):
    """Starts a client and kills it after a random time: in its upload, a run, a reply."""
    victim = daemon.client(model, rng.randrange(1000))
    time.sleep(rng.random() * 0.08)  # not to wait for anything: this is the random moment
    victim.kill()
    victim.communicate()


def kill_worker_somewhere(daemon, rng):
    """Kills a worker and waits until the daemon has seen it and work goes on."""
    children = daemon.children()
    if not children:
        return
    before = daemon.status()
    try:
        os.kill(rng.choice(children), signal.SIGKILL)
    except ProcessLookupError:
        return
    wait_for("work to go on after a worker's death",
             lambda: daemon.status()["jobs_done"] > before["jobs_done"] + 5)


def chaos(daemon, steady_models, victim_models, rng, kill_workers):
    before = daemon.held()
    steady = [daemon.client(model, seed) for seed, model in enumerate(steady_models)]
    for i in range(ROUNDS):
        kill_client_somewhere(daemon, rng.choice(victim_models), rng)
        if kill_workers and i % 4 == 0:
            kill_worker_somewhere(daemon, rng)
    for client in steady:
        print("  a client that stayed:", finish_client(client))
    wait_for(lambda: f"{daemon.held()} to be {before}", lambda: daemon.held() == before)
    status = daemon.status()
    print(f"  jobs {status['jobs_done']}, repeated {status['jobs_retried']}, "
          f"failed {status['jobs_failed']}, workers that died {status['worker_deaths']}")


def main():
    chosen = seed(1)
    fresh = ("--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0")
    with tempfile.NamedTemporaryFile(suffix=".rknn") as large:
        large.write(random.Random(chosen).randbytes(48 << 20))
        large.flush()
        for isolation in ("process", "thread"):
            rng = random.Random(chosen)
            print(isolation, "the software NPU")
            daemon = Daemon("--backend", "sim", "--isolation", isolation, *fresh)
            chaos(daemon, [DIGITS, DIGITS], [DIGITS, large.name], rng, isolation == "process")
            daemon.stop()
            print(isolation, "large replies")
            daemon = Daemon("--backend", "null:1228800:8568000", "--isolation", isolation, *fresh)
            chaos(daemon, [DIGITS], [DIGITS, large.name], rng, isolation == "process")
            daemon.stop()


if __name__ == "__main__":
    sys.exit(main())
