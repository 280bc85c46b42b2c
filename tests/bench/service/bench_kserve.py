#!/usr/bin/python3
"""bench_kserve.py [SECONDS [ROUNDS [PART…]]]: rknnd-kserve on 16 connections. PART: small, tensor, image or frame: requests of such a size
beside those to servers that only take and give as many bytes (a bare libmicrohttpd with a thread for each connection, one with a thread for
each processor, bare sockets) and beside programs of the client library; or a number: what batching gains a model with so many MB of
weights, by the clock of this machine and by that of an NPU, against runs one by one on 16 contexts and on as many as batches have; an echo
bounds what there is to gain. All that is compared takes turns; ratios are medians, with the least and the
largest. Processor time is that of all processes but the load's, in microseconds a request: it hardly depends on what else the machine does."""
import contextlib
import json
import os
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
SIZES = {"small": (64, 40), "tensor": (4096, 4000), "image": (224 * 224 * 3, 4000), "frame": (640 * 640 * 3, 84 * 8400)}
ECHOES = "threads", "pool", "socket"
WEIGHTS = 1, 4, 16, 48  # MB
BATCH_CONTEXTS = 2  # of a model that batches, if nobody says how many


def request(path, model, name, array, datatype):
    text = json.dumps({"inputs": [{"name": name, "shape": list(array.shape), "datatype": datatype,
                                   "parameters": {"binary_data_size": array.nbytes}}],
                       "parameters": {"binary_data_output": True}}).encode()
    body = text + array.tobytes()
    path.write_bytes(HEAD.format(f"/v2/models/{model}/infer", len(body), HEADER, len(text)).encode() + body)


def processor_s(pids):
    ticks = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def load(port, seconds, path, pids=()):
    """Requests a second, p50, p99, and microseconds of processor time a request."""
    before = processor_s(pids)
    done = subprocess.run([LOAD, "load", str(port), str(CONNECTIONS), str(seconds), path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    rate, p50, p99 = (float(word) for word in done.stdout.split())
    return rate, p50, p99, (processor_s(pids) - before) / (rate * seconds) * 1e6


def spread(values):
    values = sorted(values)
    return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"


def medians(rows):
    return [statistics.median(column) for column in zip(*rows)]


@contextlib.contextmanager
def echo(way, given, path):
    port = free_port()
    server = subprocess.Popen([LOAD, "echo", str(port), str(given + 200), way], stdin=subprocess.PIPE)
    wait_for("the echo", lambda: subprocess.run([LOAD, "load", str(port), "1", "0.1", path], check=False,
                                                capture_output=True).returncode == 0)
    yield port, server.pid
    server.stdin.close()
    server.wait()


def beside_echoes(folder, what, seconds, rounds):
    taken, given = SIZES[what]
    daemon = Daemon("--backend", f"null:{taken}:{given}", "--log-level", "error")
    model, asked = folder / "null.rknn", folder / "request"
    model.write_bytes(b"anything")
    front = Front(daemon, folder, "--log-level", "error")
    request(asked, "null", "input", np.zeros(taken, np.uint8), "UINT8")
    load(front.port, 0.2, asked)
    ours, bare, library = [], {way: [] for way in ECHOES}, []
    with contextlib.ExitStack() as stack:
        echoes = {way: stack.enter_context(echo(way, given, asked)) for way in ECHOES}
        for _ in range(rounds):
            ours.append(load(front.port, seconds, asked, [front.process.pid, daemon.process.pid, *daemon.children()]))
            for way, (port, pid) in echoes.items():
                bare[way].append(load(port, seconds, asked, [pid]))
            done = daemon.rknnctl("bench", "--clients", str(CONNECTIONS), "-n", "1000", "--json", model)
            library.append(json.loads(done.stdout)["latency_us"]["p99"])
    rate, _, p99, processor = medians(ours)
    print(f"{what}: {rate:.0f}/s, {processor:.1f} us; p99 {p99:.0f} us, by the library's own {spread(o[2] / p for o, p in zip(ours, library))}")
    for way, rows in bare.items():
        rate, _, _, processor = medians(rows)
        print(f"  {way:8} {rate:.0f}/s, {processor:.1f} us: of its requests {spread(o[0] / b[0] for o, b in zip(ours, rows))}", flush=True)
    front.stop()
    daemon.stop()
    model.unlink()


def write_dense(folder, megabytes):
    layers = 3
    size = int((megabytes * 2 ** 20 / 4 / layers) ** 0.5) // 16 * 16
    random = np.random.default_rng(1)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name in ("x0", f"x{layers}")]
    weights = [numpy_helper.from_array(random.standard_normal((size, size)).astype(np.float32) / size, f"w{i}") for i in range(layers)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(layers)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "dense", ends[:1], ends[1:], weights),
                                opset_imports=[helper.make_opsetid("", 13)], ir_version=7), folder / "batch.onnx")
    (folder / "batch.options").write_text(f"shape x0=1x{size},4x{size},8x{size},16x{size}\n")
    (folder / "one.onnx").write_bytes((folder / "batch.onnx").read_bytes())
    (folder / "one.options").write_text(f"shape x0=1x{size}\n")
    return size


def gain_of_batches(folder, megabytes, backend, seconds, rounds):
    size = write_dense(folder, megabytes)
    daemon = Daemon("--backend", backend, "--log-level", "error")
    front, as_many = (Front(daemon, folder, "--log-level", "error", *more) for more in ((), ("--contexts", BATCH_CONTEXTS)))
    client, found = front.client(), {(front, "batch"): [], (front, "one"): [], (as_many, "one"): []}
    request(folder / "request", "one", "x0", np.zeros((1, size), np.float32), "FP32")
    with echo("threads", size * 4, folder / "request") as (port, pid):
        bare = [load(port, seconds, folder / "request", [pid]) for _ in range(rounds)]
    for i in range(rounds + 1):
        for (server, model), rows in found.items():
            request(folder / "request", model, "x0", np.zeros((1, size), np.float32), "FP32")
            row = load(server.port, seconds if i else 0.3, folder / "request", [server.process.pid, daemon.process.pid, *daemon.children()])
            rows += [row] if i else []
    stats = client.json("/v2/models/batch/stats")["model_stats"][0]
    client.close()
    batches, *singles = found.values()
    batch = medians(batches)
    print(f"{megabytes} MB, {backend}: batches {batch[0]:.0f}/s, {batch[3]:.1f} us, of {stats['inference_count'] / stats['execution_count']:.1f} samples; "
          f"an echo {medians(bare)[0]:.0f}/s")
    for contexts, rows in zip((16, BATCH_CONTEXTS), singles):
        one = medians(rows)
        print(f"  one by one, {contexts:2} contexts: {one[0]:.0f}/s, {one[3]:.1f} us: batches have {spread(b[0] / o[0] for b, o in zip(batches, rows))}, "
              f"the echo {medians(bare)[0] / one[0]:.1f}", flush=True)
    front.stop()
    as_many.stop()
    daemon.stop()


def main():
    seconds, rounds = (float(sys.argv[1]) if len(sys.argv) > 1 else 2), (int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    for part in sys.argv[3:] or (*SIZES, *WEIGHTS):
        with tempfile.TemporaryDirectory() as name:
            if part in SIZES:
                beside_echoes(pathlib.Path(name), part, seconds, rounds)
            else:
                for backend in "sim:rk3588", "sim:rk3588,paced":
                    gain_of_batches(pathlib.Path(name), float(part), backend, seconds, rounds)


if __name__ == "__main__":
    main()
