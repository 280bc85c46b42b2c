"""A pool of processes, each with an object of its own; what a child makes of its parent's object. Prints JSON."""
import json
import multiprocessing
import sys

import numpy as np
from rknnlite.api import RKNNLite

mine = None


def start(path):
    global mine
    mine = RKNNLite()
    assert mine.load_rknn(path) == 0 and mine.init_runtime() == 0


def infer(seed):
    picture = np.random.default_rng(seed).integers(0, 256, (1, 8, 8, 3), np.uint8)
    return float(mine.inference(inputs=[picture])[0].sum())


def parents_object(queue, lite):
    answer = lite.inference(inputs=[np.zeros((1, 8, 8, 3), np.uint8)])
    lite.release()
    again = lite.init_runtime()
    queue.put((answer is None, again, lite.inference(inputs=[np.zeros((1, 8, 8, 3), np.uint8)]) is not None))


if __name__ == "__main__":
    method, path, workers, n = sys.argv[1:]
    context = multiprocessing.get_context(method)
    said = {}
    if method == "fork":
        lite = RKNNLite()
        assert lite.load_rknn(path) == 0 and lite.init_runtime() == 0
        queue = context.SimpleQueue()
        child = context.Process(target=parents_object, args=(queue, lite))
        child.start()
        said["child"] = queue.get()
        child.join()
        said["exit"] = child.exitcode
        said["parent"] = lite.inference(inputs=[np.zeros((1, 8, 8, 3), np.uint8)]) is not None
    with context.Pool(int(workers), initializer=start, initargs=(path,)) as pool:
        said["sums"] = pool.map(infer, range(int(n)))
    print(json.dumps(said))
