#!/usr/bin/python3
"""bench_kserve.py [SECONDS [ROUNDS]]: requests to rknnd-kserve on 16 connections beside those to a bare libmicrohttpd that takes and
gives as many bytes (they take turns), beside what programs of the client library reach with as many clients; and what batching gains."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/kserve"))
from kserve_front import HEADER, Front, free_port  # noqa: E402 (found by the line above)
from support.service import BUILD, Daemon, wait_for  # noqa: E402

LOAD = BUILD / "tests/bench/http_load"
CONNECTIONS = 16
HEAD = "POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n{}: {}\r\n\r\n"


def request(path, model, name, array, datatype):
    text = json.dumps({"inputs": [{"name": name, "shape": list(array.shape), "datatype": datatype,
                                   "parameters": {"binary_data_size": array.nbytes}}],
                       "parameters": {"binary_data_output": True}}).encode()
    body = text + array.tobytes()
    path.write_bytes(HEAD.format(f"/v2/models/{model}/infer", len(body), HEADER, len(text)).encode() + body)


def load(port, seconds, path):
    done = subprocess.run([LOAD, "load", str(port), str(CONNECTIONS), str(seconds), path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [float(word) for word in done.stdout.split()]


def beside_echo(folder, what, taken, given, seconds, rounds):
    daemon = Daemon("--backend", f"null:{taken}:{given}", "--log-level", "error")
    (folder / "null.rknn").write_bytes(b"anything")
    front = Front(daemon, folder, "--log-level", "error")
    port = free_port()
    echo = subprocess.Popen([LOAD, "echo", str(port), str(given + 200)], stdin=subprocess.PIPE)
    request(folder / "request", "null", "input", np.zeros(taken, np.uint8), "UINT8")
    load(front.port, 0.2, folder / "request")
    wait_for("the echo", lambda: subprocess.run([LOAD, "load", str(port), "1", "0.1", folder / "request"], check=False,
                                                capture_output=True).returncode == 0)
    rows = []
    for _ in range(rounds):
        ours, bare = load(front.port, seconds, folder / "request"), load(port, seconds, folder / "request")
        done = daemon.rknnctl("bench", "--clients", str(CONNECTIONS), "-n", "1000", "--json", folder / "null.rknn")
        library = json.loads(done.stdout)
        rows.append((ours, bare, library))
    ratio = statistics.median(row[0][0] / row[1][0] for row in rows)
    ours, bare = (statistics.median(row[i][0] for row in rows) for i in range(2))
    p99, theirs = (statistics.median(found) for found in zip(*((row[0][2], row[2]["latency_us"]["p99"]) for row in rows)))
    print(f"{what:6} {ours:8.0f}/s, bare {bare:8.0f}/s: {ratio:.2f}; p99 {p99:.0f} us, of the library {theirs:.0f} us: {p99 / theirs:.2f}")
    front.stop()
    echo.stdin.close()
    echo.wait()
    daemon.stop()


def gain_of_batches(folder, seconds, rounds):
    """Weights that do not fit a cache: a run reads all of them, for one sample or for sixteen."""
    size, layers = 2048, 3
    random = np.random.default_rng(1)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name in ("x0", f"x{layers}")]
    weights = [numpy_helper.from_array(random.standard_normal((size, size)).astype(np.float32) / size, f"w{i}") for i in range(layers)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(layers)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "dense", ends[:1], ends[1:], weights),
                                opset_imports=[helper.make_opsetid("", 13)], ir_version=7), folder / "batch.onnx")
    (folder / "batch.options").write_text(f"shape x0=1x{size},4x{size},8x{size},16x{size}\n")
    (folder / "one.onnx").write_bytes((folder / "batch.onnx").read_bytes())
    (folder / "one.options").write_text(f"shape x0=1x{size}\n")
    (folder / "null.rknn").unlink()
    daemon = Daemon("--backend", "sim:rk3588", "--log-level", "error")
    front = Front(daemon, folder, "--log-level", "error", "--batch-delay", "1000")
    rates = {"one": [], "batch": []}
    for _ in range(rounds):
        for model, found in rates.items():
            request(folder / "request", model, "x0", np.zeros((1, size), np.float32), "FP32")
            found.append(load(front.port, seconds, folder / "request")[0])
    one, batch = (statistics.median(found) for found in rates.values())
    print(f"batches {batch:.0f}/s, one by one {one:.0f}/s: {batch / one:.2f}")
    front.stop()
    daemon.stop()


def main():
    seconds, rounds = (float(sys.argv[1]) if len(sys.argv) > 1 else 2), (int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        beside_echo(folder, "small", 64, 40, seconds, rounds)
        beside_echo(folder, "image", 224 * 224 * 3, 4000, seconds, rounds)
        gain_of_batches(folder, seconds, rounds)


if __name__ == "__main__":
    main()
