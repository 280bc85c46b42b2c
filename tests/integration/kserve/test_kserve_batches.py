#!/usr/bin/python3
"""Requests that are run together: models with a batch dimension of several sizes, or of one; what each gets is its own."""
import os
import pathlib
import signal
import tempfile
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kserve_front import Front, Refused, WithFront
from support.service import Daemon, wait_for

WEIGHTS = (np.arange(32).reshape(8, 4) % 7 - 3).astype(np.float32)


def product(path, first):
    """y = x · WEIGHTS, of whole numbers, so that nobody rounds."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [first, n]) for name, n in (("x", 8), ("y", 4))]
    weights = numpy_helper.from_array(WEIGHTS, "w")
    onnx.save(helper.make_model(helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product", ends[:1], ends[1:],
                                                  [weights]), opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


WIDE = 1500  # of a sample: bytes of eight are few, floats are many


def wide(path):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDE]) for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "wide", ends[:1], ends[1:]),
                                opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


class Batches(WithFront):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        models = pathlib.Path(cls.folder.name)
        product(models / "sizes.onnx", "n")
        (models / "sizes.options").write_text("shape x=1x8,2x8,4x8,8x8\n")
        product(models / "eight.onnx", 8)
        product(models / "shapes.onnx", "n")
        (models / "shapes.options").write_text("shape x=3x8,5x8\n")
        wide(models / "wide.onnx")
        (models / "wide.options").write_text(f"shape x=1x{WIDE},2x{WIDE},8x{WIDE}\n")
        product(models / "bad.onnx", "n")
        (models / "bad.options").write_text("shape z=1x8\n")
        product(models / "pipe.onnx", "n")
        os.mkfifo(models / "pipe.options")
        cls.daemon = Daemon("--backend", "sim:rk3588")
        cls.front = Front(cls.daemon, models, "--contexts", "2", "--batch-delay", "20000")

    def stats(self, model):
        return self.client.json(f"/v2/models/{model}/stats")["model_stats"][0]

    def crowd(self, model, clients, runs):
        wrong = []

        def go(seed):
            random = np.random.default_rng(seed)
            client = self.front.client()
            for i in range(runs):
                x = random.integers(-50, 50, (1 + (seed + i) % 3, 8)).astype(np.float32)
                _, arrays = client.infer(model, {"x": x}, binary=bool(i % 2))
                if not np.array_equal(arrays["y"], x @ WEIGHTS):
                    wrong.append((seed, i))
            client.close()
        threads = [threading.Thread(target=go, args=(i,)) for i in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_every_size(self):
        for model in ("sizes", "eight", "shapes"):
            self.assertEqual(self.client.json(f"/v2/models/{model}")["inputs"][0]["shape"], [-1, 8])
            most = 5 if model == "shapes" else 8
            for n in range(1, most + 1):
                x = np.arange(8 * n, dtype=np.float32).reshape(n, 8)
                _, arrays = self.client.infer(model, {"x": x})
                np.testing.assert_array_equal(arrays["y"], x @ WEIGHTS)
            with self.assertRaises(Refused) as refused:
                self.client.infer(model, {"x": np.zeros((most + 1, 8), np.float32)})
            self.assertEqual(refused.exception.status, 400)
            self.assertEqual(self.client.json(f"/v2/models/{model}/config")["max_batch_size"], most)

    def test_who_is_alone_does_not_wait(self):
        """Not even with the longest delay that there is."""
        longest = 10  # seconds
        front = Front(self.daemon, self.folder.name, "--batch-delay", str(longest * 1000000))
        client = front.client()
        for _ in range(20):
            client.infer("sizes", {"x": np.ones((1, 8), np.float32)})
        queued = client.json("/v2/models/sizes/stats")["model_stats"][0]["inference_stats"]["queue"]
        self.assertEqual(queued["count"], 20)
        self.assertLess(queued["ns"], longest * 10**9, "not one of them has waited for others")
        client.close()
        front.stop()

    def test_crowds(self):
        for model in ("sizes", "eight"):
            before = self.stats(model)
            self.crowd(model, 12, 20)
            after = self.stats(model)
            inferences, executions = (after[k] - before[k] for k in ("inference_count", "execution_count"))
            self.assertEqual(inferences, sum(1 + (seed + i) % 3 for seed in range(12) for i in range(20)))
            self.assertLess(executions, 240)  # as many as requests, if none were run with others
            for what in "success", "queue":  # of all, whoever's run they were in
                self.assertEqual(after["inference_stats"][what]["count"] - before["inference_stats"].get(what, {"count": 0})["count"], 240)
            self.assertGreater(max(b["batch_size"] for b in after["batch_stats"]), 3)

    def test_large_samples(self):
        """Of every number and type in turn, at once from several: what was there before is nobody's."""
        wrong = []

        def go(seed):
            random = np.random.default_rng(seed)
            client = self.front.client()
            for i in range(24):
                dtype = (np.float32, np.float16, np.uint8)[i % 3]
                x = random.integers(0, 200, (1 + (seed * 5 + i) % 8, WIDE)).astype(dtype)
                _, arrays = client.infer("wide", {"x": x})
                if not np.array_equal(arrays["y"], x.astype(np.float32)):
                    wrong.append((seed, i, x.shape[0], dtype))
            client.close()
        threads = [threading.Thread(target=go, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_one_that_is_refused_harms_no_other(self):
        stop = threading.Event()

        def refuse():
            client = self.front.client()
            while not stop.is_set():
                for x in (np.zeros((1, 8), np.int64), np.zeros((9, 8), np.float32), np.zeros((1, 7), np.float32)):
                    with self.assertRaises(Refused):
                        client.infer("sizes", {"x": x})
            client.close()
        thread = threading.Thread(target=refuse)
        thread.start()
        try:
            self.crowd("sizes", 6, 20)
        finally:
            stop.set()
            thread.join()

    def test_options_that_do_not_fit(self):
        found = {m["name"]: m for m in self.client.json("/v2/repository/index", "POST")}
        self.assertEqual(found["bad"]["state"], "UNAVAILABLE")
        self.assertIn("z", found["bad"]["reason"])
        self.assertIn("pipe.options is no file", found["pipe"]["reason"])

    def test_workers_that_die(self):
        """Runs whose worker is killed are run again by the daemon: nobody is told."""
        stop = threading.Event()

        def kill():
            while not stop.wait(0.3):
                for pid in self.daemon.children():
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                wait_for("a worker", self.daemon.children)
                return
        thread = threading.Thread(target=kill)
        thread.start()
        try:
            self.crowd("sizes", 6, 60)
        finally:
            stop.set()
            thread.join()


if __name__ == "__main__":
    unittest.main()
