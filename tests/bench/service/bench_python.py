"""What Session.run() costs beside the three C calls that it makes, and what importing the package takes, on this machine.

bench_python.py [RUNS]: processor time of this thread, medians of alternating rounds; in a pass a run each way."""
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import rknnd
from rknnd._capi import ffi, lib

DIGITS = pathlib.Path(__file__).resolve().parents[3] / "examples/digits/digits.rknn"


def c_calls(session, picture):
    """The same run by the C library's functions, with all records made beforehand."""
    handle = session.context.handle
    inputs, outputs = ffi.new("rknn_input[]", 1), ffi.new("rknn_output[]", 1)
    answer = np.empty((1, 10), np.float32)
    kept = ffi.from_buffer(picture), ffi.from_buffer(answer, require_writable=True)
    inputs[0].buf, inputs[0].size = kept[0], picture.nbytes
    inputs[0].type, inputs[0].fmt = lib.RKNN_TENSOR_UINT8, lib.RKNN_TENSOR_NHWC
    outputs[0].buf, outputs[0].size, outputs[0].is_prealloc, outputs[0].want_float = kept[1], answer.nbytes, 1, 1

    def run():
        lib.rknn_inputs_set(handle, 1, inputs)
        lib.rknn_run(handle, ffi.NULL)
        lib.rknn_outputs_get(handle, 1, outputs, ffi.NULL)
        return kept
    return run


def per_call(call, count):
    begin = time.thread_time_ns()
    for _ in range(count):
        call()
    return (time.thread_time_ns() - begin) / count / 1000


def import_ms():
    program = "import numpy, time; t = time.process_time(); import rknnd; print((time.process_time() - t) * 1e3)"
    return min(float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout)
               for _ in range(9))


def main(runs=20000):
    picture = np.zeros((1, 8, 8, 1), np.uint8)
    with rknnd.Session(DIGITS, "sim:") as session:
        ways = {"Session.run()": lambda: session.run(picture), "C calls": c_calls(session, picture)}
        times = {name: [] for name in ways}
        for _ in range(20):
            for name, call in ways.items():
                times[name].append(per_call(call, max(1, runs // 20)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        print(f"{name:14} {value:7.1f} us of processor time")
    print(f"{'overhead':14} {medians['Session.run()'] - medians['C calls']:7.1f} us")
    print(f"{'import':14} {import_ms():7.1f} ms of processor time, beside NumPy's (least of 9)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
