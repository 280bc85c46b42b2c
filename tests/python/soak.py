"""Long use of the Python package, by hand: what is left afterwards in the process and at the server.

soak.py [RUNS [OPENS [THREADS]]]: 100000 runs, 1000 loads and releases, 64 threads with an object each, of rknnd.Session and of
rknnlite.api.RKNNLite. Ends with 1 if resident memory grows by more than 1 MiB over the second half of the runs or 2 MiB
over the second half of the loads, if a descriptor or context is left, or if a model is at the server more than once."""
import gc
import os
import sys
import threading

import numpy as np
import rknnd

from support.compat import use_packages
from support.paths import DIGITS
from support.service import Daemon

use_packages()
from rknnlite.api import RKNNLite  # noqa: E402 (its folder was just added)

PICTURE = np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1) * 4


def resident():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class Session:
    def __init__(self, uri):
        self.session = rknnd.Session(DIGITS, uri)

    def run(self):
        return self.session.run(PICTURE)[0]

    def close(self):
        self.session.close()


class Lite:
    def __init__(self, uri):
        self.lite = RKNNLite()
        assert self.lite.load_rknn(str(DIGITS)) == 0 and self.lite.init_runtime(device_id=uri) == 0

    def run(self):
        return self.lite.inference(inputs=[PICTURE])[0]

    def close(self):
        self.lite.release()


class Soak:
    def __init__(self, kind, daemon):
        self.kind, self.daemon, self.wrong = kind, daemon, []

    def say(self, what, **numbers):
        print(f"{self.kind.__name__:8} {what}:", ", ".join(f"{name} {value}" for name, value in numbers.items()), flush=True)

    def grown(self, what, count, once, allowed):
        """Memory that the second half of `count` calls has taken."""
        for _ in range(count // 2):
            once()
        gc.collect()
        before, fds = resident(), descriptors()
        for _ in range(count // 2):
            once()
        gc.collect()
        rss, left = resident() - before, descriptors() - fds
        self.say(f"{count} {what}", grown_bytes=rss, descriptors_left=left)
        if rss > allowed or left:
            self.wrong.append(what)

    def open_and_close(self):
        held = self.kind(self.daemon.uri)
        held.run()
        held.close()

    def threads(self, count, runs):
        kept = [self.kind(self.daemon.uri) for _ in range(count)]
        expected, answers = kept[0].run(), []

        def work(one):
            for _ in range(runs):
                if not np.array_equal(one.run(), expected):
                    self.wrong.append("a thread's answer")
            answers.append(1)
        threads = [threading.Thread(target=work, args=(one,)) for one in kept]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        status = rknnd.status(self.daemon.uri)
        self.say(f"{count} threads, an object each", ended=len(answers), contexts=status.contexts, models=status.models,
                 model_bytes=status.model_bytes)
        if len(answers) != count or status.models != 1 or status.contexts != count:
            self.wrong.append("threads")
        for one in kept:
            one.close()

    def all(self, runs, opens, threads):
        one = self.kind(self.daemon.uri)
        self.grown("runs", runs, one.run, 1 << 20)
        one.close()
        self.grown("loads and releases", opens, self.open_and_close, 2 << 20)
        self.threads(threads, max(1, runs // 1000))
        left = rknnd.status(self.daemon.uri).contexts
        self.say("afterwards", contexts=left)
        return self.wrong + (["contexts"] if left else [])


def main(runs=100000, opens=1000, threads=64):
    daemon, wrong = Daemon(), []
    for kind in Session, Lite:
        wrong += Soak(kind, daemon).all(runs, opens, threads)
    daemon.stop()
    print("wrong:", *wrong) if wrong else print("nothing is left")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
