#!/usr/bin/python3
"""ONNX's own tests of operators (Debian: libonnx-testdata) as a user would run them: the file as it is,
a .npy for each input, rknnctl run against the software NPU. At least LEAST cases must pass, and every other
one must be refused with words: wrong numbers are a failure.

    test_onnx_cases.py [--why] [CASE…]     CASE: node/test_add; --why: what the refused ones say"""
import collections
import concurrent.futures
import os
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

from support.service import Daemon

ROOT = pathlib.Path("/usr/share/libonnx-testdata/data")
GROUPS = ("node", "pytorch-converted", "pytorch-operator", "simple")
LEAST = 877
SKIPPED = 77
NARROWED = {np.dtype(np.float64): np.float32, np.dtype(np.uint64): np.int64}


class Refused(Exception):
    """The case did not run; the words say why."""


class Wrong(Exception):
    """It ran, and its outputs are not the expected ones, or it failed without words."""


def array(path):
    """The tensor of a file; None for what is none (a sequence, an optional)."""
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        value = numpy_helper.to_array(tensor)
    except Exception:  # whatever protobuf or numpy say of other messages
        return None
    return value if value.dtype != object else None


def files(folder, kind):
    found = sorted(folder.glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.rpartition("_")[2]))
    return [array(p) for p in found]


def has_default(model, name):
    return any(t.name == name for t in model.graph.initializer)


def compare(index, got, want):
    if want is None:
        raise Wrong(f"output {index} is no tensor, but the case ran")
    if want.dtype in NARROWED:  # which the RKNN API does not have
        want = want.astype(NARROWED[want.dtype])
    shape = want.shape or (1,)
    if got.dtype != want.dtype or got.shape != shape:
        raise Wrong(f"output {index} is {got.dtype}{got.shape}, expected {want.dtype}{shape}")
    want = want.reshape(shape)
    exact = want.dtype.kind != "f"
    with np.errstate(all="ignore"):
        same = got == want if exact else np.isclose(got, want, 1e-3, 1e-7, equal_nan=True)
    if not same.all():
        k = np.flatnonzero(~same.reshape(-1))[0]
        raise Wrong(f"output {index}, element {k} is {got.reshape(-1)[k]}, "
                    f"expected {want.reshape(-1)[k]}")


def run_set(daemon, case, model, folder, work):
    names = [v.name for v in model.graph.input]
    arguments = []
    for i, value in enumerate(files(folder, "input")):
        if value is None:
            raise Refused("an input is no tensor")
        np.save(work / f"in{i}.npy", value)
        arguments += ["-i", f"{names[i]}={work / f'in{i}.npy'}"]
    done = daemon.rknnctl("run", str(case / "model.onnx"), *arguments, "-l", "nchw", "--raw",
                          "-o", str(work))
    if done.returncode:
        if not done.stderr.strip() or done.returncode < 0 or "worker" in done.stderr:
            raise Wrong(f"ended with {done.returncode}: {done.stderr.strip()}")
        raise Refused(done.stderr.strip())
    for i, want in enumerate(files(folder, "output")):
        compare(i, np.load(work / f"out{i}.npy"), want)


def run_case(daemon, name):
    """"passed", "refused" or "wrong", and words."""
    case = ROOT / name
    model = onnx.load(case / "model.onnx")
    try:
        for folder in sorted(case.glob("test_data_set_*")):
            with tempfile.TemporaryDirectory() as work:
                run_set(daemon, case, model, folder, pathlib.Path(work))
    except Refused as e:
        return "refused", str(e)
    except Wrong as e:
        return "wrong", str(e)
    return "passed", ""


# Whose outputs are not what the operator says: of int8, what is beyond -128 wraps in onnx 1.17 (-236 is 20) and has to saturate.
# Of averages, ONNX Runtime, and a plain reading of a window, divide by the elements within the image; that one by the whole window, also beyond
# what is padded.
MISTAKEN = {"test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True",
            *(f"test_qlinearmatmul_{n}D_int8_float{bits}" for n in (2, 3) for bits in (16, 32))}


def all_cases():
    return [f"{g}/{p.name}" for g in GROUPS for p in sorted((ROOT / g).glob("*")) if p.is_dir() and p.name not in MISTAKEN]


def main():
    why = "--why" in sys.argv
    chosen = [w for w in sys.argv[1:] if not w.startswith("-")]
    if not ROOT.is_dir():
        print(f"skipped: {ROOT} is not there (Debian: libonnx-testdata)")
        return SKIPPED
    daemon = Daemon("--backend", "sim:rk3588", "--worker-idle", "0")
    names = chosen or all_cases()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(names, pool.map(lambda n: run_case(daemon, n), names)))
    daemon.stop()
    counts = collections.Counter(result for result, _ in results.values())
    for name, (result, words) in results.items():
        if result == "wrong" or (why and result == "refused"):
            print(f"{result} {name}: {words}")
    print(f"{counts['passed']} of {len(names)} pass, {counts['refused']} are refused, "
          f"{counts['wrong']} are wrong")
    return 1 if counts["wrong"] or (not chosen and counts["passed"] < LEAST) else 0


sys.exit(main())
