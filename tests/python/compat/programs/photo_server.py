"""What a photo server does with RKNNLite beyond inference(): a pool with an object for each thread, the inputs' and outputs'
names and shapes, the model's custom string and its outputs in the NPU's own type through ctypes. Prints JSON."""
import ctypes
import json
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from rknnlite.api import RKNNLite, rknn_runtime

QUERY_OUTPUT, QUERY_CUSTOM, QUERY_CURRENT_OUTPUT = 2, 7, 15
KINDS = {0: np.float32, 1: np.float16, 2: np.int8}


class Text(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 1024)]


def open_model(path):
    lite = RKNNLite()
    lite.rknn_log.logger.setLevel(logging.ERROR)
    if lite.load_rknn(path) or lite.init_runtime(core_mask=RKNNLite.NPU_CORE_AUTO):
        raise RuntimeError("the model does not load")
    return lite


def ends(lite):
    """Names and shapes of inputs and outputs."""
    inner = lite.rknn_runtime
    listed = []
    for is_output, n in enumerate(inner.get_in_out_num()):
        attrs = [inner.get_tensor_attr(i, is_output=bool(is_output)) for i in range(n)]
        listed.append([[a.name.decode(), list(a.dims[:a.n_dims])] for a in attrs])
    return listed


def own_outputs(lite):
    """Outputs of the last run as the NPU has them."""
    inner = lite.rknn_runtime
    n = inner.get_in_out_num()[1]
    places = (rknn_runtime.RKNNOutput * n)()
    for i in range(n):
        places[i].index = i
    if inner.lib.rknn_outputs_get(inner.context, n, places, None):
        raise RuntimeError("no outputs")
    made = []
    for place in places:
        attr = rknn_runtime.RKNNTensorAttr(index=place.index)
        command = QUERY_CURRENT_OUTPUT if inner.is_dynamic_shape else QUERY_OUTPUT
        inner.lib.rknn_query(inner.context, command, ctypes.byref(attr), ctypes.sizeof(attr))
        data = ctypes.string_at(place.buf, place.size)
        made.append(np.frombuffer(data, KINDS[attr.type]).reshape(attr.dims[:attr.n_dims]))
    inner.lib.rknn_outputs_release(inner.context, n, places)
    return made


def custom(lite):
    found = Text()
    inner = lite.rknn_runtime
    inner.lib.rknn_query(inner.context, QUERY_CUSTOM, ctypes.byref(found), ctypes.sizeof(found))
    return found.text.decode()


def main(path, threads, n):
    pool = [open_model(path) for _ in range(int(threads))]
    turn, lock = iter(range(1 << 30)), threading.Lock()
    (name, shape), = ends(pool[0])[0]
    nchw = (shape[0], shape[3], shape[1], shape[2])
    picture = np.random.default_rng(1).normal(size=nchw).astype(np.float32)

    def once(_):
        with lock:
            lite = pool[next(turn) % len(pool)]
        return lite.inference(inputs=[picture], data_format="nchw")[0]

    with ThreadPoolExecutor(len(pool)) as executor:
        results = list(executor.map(once, range(int(n))))
    equal = all(np.array_equal(results[0], one) for one in results)
    pool[0].inference(inputs=[picture], data_format="nchw")
    native = own_outputs(pool[0])[0]
    print(json.dumps({"ends": ends(pool[0]), "custom": custom(pool[0]), "equal": equal, "sum": float(results[0].sum()),
                      "native": [str(native.dtype), float(native.astype(np.float64).sum())],
                      "float32_is_native": bool(np.array_equal(native.astype(np.float32), results[0]))}))
    for lite in pool:
        lite.release()


main(*sys.argv[1:])
