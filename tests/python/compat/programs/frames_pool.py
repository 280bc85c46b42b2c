"""Video through a pool: an object for each thread, bound to a core in turn, results in the frames' order. Prints the sums
of the results, and how many models the server holds meanwhile."""
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import numpy as np
from rknnlite.api import RKNNLite

CORES = (RKNNLite.NPU_CORE_0, RKNNLite.NPU_CORE_1, RKNNLite.NPU_CORE_2)


def open_on(path, core):
    lite = RKNNLite()
    if lite.load_rknn(path) != 0 or lite.init_runtime(core_mask=core) != 0:
        sys.exit("the model does not open")
    return lite


class Pool:
    def __init__(self, path, workers, work):
        self.objects = [open_on(path, CORES[i % len(CORES)]) for i in range(workers)]
        self.executor, self.queue, self.work, self.n = ThreadPoolExecutor(workers), Queue(), work, 0

    def put(self, frame):
        chosen = self.objects[self.n % len(self.objects)]
        self.queue.put(self.executor.submit(self.work, chosen, frame))
        self.n += 1

    def get(self):
        return self.queue.get().result()

    def release(self):
        self.executor.shutdown()
        for one in self.objects:
            one.release()


def work(lite, frame):
    return float(lite.inference(inputs=[np.expand_dims(frame, 0)])[0].sum())


def main(path, workers, n, status=None):
    pool, rng = Pool(path, int(workers), work), np.random.default_rng(2)
    frames = [rng.integers(0, 256, (8, 8, 3), np.uint8) for _ in range(int(n))]
    sums = []
    for i, frame in enumerate(frames):
        pool.put(frame)
        if i >= int(workers):
            sums.append(pool.get())
    sums += [pool.get() for _ in range(len(frames) - len(sums))]
    held = json.loads(subprocess.run([status, "status", "--json"], capture_output=True, check=True).stdout) if status else {}
    pool.release()
    print(json.dumps({"sums": sums, "models": held.get("models"), "contexts": held.get("contexts")}))


main(*sys.argv[1:])
