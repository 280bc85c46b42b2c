#!/usr/bin/python3
"""What Triton's own clients ask beside tensors: classes with their names, and how long a request may wait for its turn."""
import json
import os
import pathlib
import shutil
import signal
import tempfile
import threading
import unittest

import numpy as np

from kserve_front import HEADER, Front, Refused
from support.service import DIGITS, SOURCE, Daemon, wait_for
from test_kserve_batches import product

RANDOM = np.random.default_rng(1)


class Served(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.models = pathlib.Path(folder, "models")
        self.models.mkdir()
        self.store = pathlib.Path(folder, "store")
        self.daemon = Daemon("--backend", "sim:rk3588", "--model-store", self.store)
        self.addCleanup(self.daemon.stop)
        shutil.copy(DIGITS, self.models / "digits.rknn")

    def serve(self, *options):
        self.front = Front(self.daemon, self.models, *options)
        self.addCleanup(self.front.stop)
        return self.client()

    def client(self):
        client = self.front.client()
        self.addCleanup(client.close)
        return client


class Classes(Served):
    def ask(self, client, model, pictures, most, binary):
        """Of each picture (number, place, name)."""
        request = {"inputs": [{"name": "image", "shape": list(pictures.shape), "datatype": "UINT8", "data": pictures.ravel().tolist()}],
                   "outputs": [{"name": "probability", "parameters": {"classification": most, "binary_data": binary}}]}
        status, headers, data = client.ask("POST", f"/v2/models/{model}/infer", json.dumps(request))
        if status != 200:
            raise Refused(status, data)
        size = int(headers.get(HEADER, len(data)))
        output, = json.loads(data[:size])["outputs"]
        self.assertEqual(output["datatype"], "BYTES")
        texts = output.get("data", [])
        if binary:
            rest = data[size:]
            self.assertEqual(len(rest), output["parameters"]["binary_data_size"])
            while rest:
                n = int.from_bytes(rest[:4], "little")
                texts.append(rest[4:4 + n].decode())
                rest = rest[4 + n:]
        self.assertEqual(len(texts), np.prod(output["shape"]))
        self.assertEqual(output["shape"][0], len(pictures))
        found = [text.split(":", 2) for text in texts]
        return np.array([(float(f[0]), int(f[1])) for f in found]).reshape(*output["shape"], 2), [f[2] if len(f) > 2 else "" for f in found]

    def test_the_largest(self):
        client = self.serve()
        self.assertIn("classification", client.json("/v2")["extensions"])
        for samples, most in ((1, 1), (1, 10), (1, 99), (5, 3), (64, 4)):
            pictures = RANDOM.integers(0, 17, (samples, 8, 8, 1), np.uint8)
            _, arrays = client.infer("digits", {"image": pictures})
            for binary in (False, True):
                with self.subTest(samples=samples, most=most, binary=binary):
                    found, names = self.ask(client, "digits", pictures, most, binary)
                    for row, numbers in zip(found, arrays["probability"]):
                        order = np.argsort(-numbers, kind="stable")[:most]
                        np.testing.assert_array_equal(row[:, 1], order)
                        np.testing.assert_allclose(row[:, 0], numbers[order], atol=1e-6)
                    self.assertEqual(set(names), {""})

    def test_how_pictures_lie(self):
        """Clients for pictures send them as the configuration says, and give up where it does not."""
        product(self.models / "flat.onnx", "n")
        (self.models / "flat.options").write_text("shape x=1x8,4x8\n")
        client = self.serve()
        for model, wanted, dims in ("digits", "FORMAT_NHWC", [8, 8, 1]), ("flat", "FORMAT_NONE", [8]):
            told = client.json(f"/v2/models/{model}/config")["input"][0]
            self.assertEqual((told["format"], told["dims"]), (wanted, dims))

    def test_names(self):
        """From a file beside the model, which may change; fewer than there are classes, and strange ones."""
        labels = ["zero", "", 'thr"ee: 3', "vier\u20ac", "x" * 2000]
        (self.models / "digits.labels").write_text("\n".join(labels) + "\n")
        client = self.serve()
        picture = RANDOM.integers(0, 17, (1, 8, 8, 1), np.uint8)

        def names(binary):
            found, told = self.ask(client, "digits", picture, 10, binary)
            return {int(place): name for (_, place), name in zip(found[0], told)}
        for binary in (False, True):
            self.assertEqual(names(binary), {i: labels[i] if i < len(labels) else "" for i in range(10)})
        (self.models / "digits.labels").write_text("null\r\neins")
        os.kill(self.front.process.pid, signal.SIGHUP)
        wait_for("the new names", lambda: names(False)[0] == "null")
        self.assertEqual(names(True)[1], "eins")
        self.assertEqual(names(True)[2], "")

    def test_names_that_the_daemon_keeps(self):
        labels = self.store.with_name("labels")
        labels.write_text("".join(f"digit {i}\n" for i in range(10)))
        done = self.daemon.rknnctl("model", "push", DIGITS, "kept", "--labels", labels)
        self.assertEqual(done.returncode, 0, done.stderr)
        client = self.serve("--store")
        found, names = self.ask(client, "kept", RANDOM.integers(0, 17, (2, 8, 8, 1), np.uint8), 2, True)
        self.assertEqual(names, [f"digit {int(place)}" for place in found[..., 1].ravel()])

    def test_refused(self):
        client = self.serve()
        picture = np.zeros((1, 8, 8, 1), np.uint8)
        for most in (0, -1, 65537, 1.5, True, "3", None):
            with self.subTest(most), self.assertRaises(Refused) as refused:
                self.ask(client, "digits", picture, most, True)
            self.assertEqual(refused.exception.status, 400)
        os.mkfifo(self.models / "digits.labels")
        os.kill(self.front.process.pid, signal.SIGHUP)
        wait_for("it to be said what is wrong", lambda: "no file" in client.json("/v2/repository/index", "POST")[0]["reason"])
        self.ask(client, "digits", picture, 1, True)  # what there was goes on


class Waiting(Served):
    def infer(self, model, array, **parameters):
        client = self.client()
        return client.infer(model, {"x" if model == "batch" else "image": array}, binary=False, parameters=parameters)

    def status_of(self, *words, **parameters):
        try:
            self.infer(*words, **parameters)
        except Refused as refused:
            return refused.status
        return 200

    def test_priority_means_nothing(self):
        self.serve()
        picture = np.zeros((1, 8, 8, 1), np.uint8)
        self.assertEqual(self.status_of("digits", picture, priority=1, timeout=10**9), 200)
        for name in "priority", "timeout":
            for value in -1, 1.5, "1", None, True:
                with self.subTest(name, value=value):
                    self.assertEqual(self.status_of("digits", picture, **{name: value}), 400)

    def test_turns_that_come_late(self):
        """Behind a run that goes on, as its worker is stopped: who does not wait for so long is told, and all others are served."""
        product(self.models / "batch.onnx", "n")
        (self.models / "batch.options").write_text("shape x=1x8,4x8\n")
        shutil.copy(SOURCE / "examples/digits/digits.onnx", self.models / "beside.onnx")
        client = self.serve("--contexts", "1", "--explicit")
        client.json("/v2/repository/models/beside/load", "POST")
        for model, array in (("digits", np.zeros((1, 8, 8, 1), np.uint8)), ("batch", np.ones((1, 8), np.float32))):
            with self.subTest(model):
                before = set(self.daemon.children())
                client.json(f"/v2/repository/models/{model}/load", "POST")
                worker, = set(self.daemon.children()) - before
                os.kill(worker, signal.SIGSTOP)
                codes = []

                def ask(model=model, array=array, codes=codes, **parameters):
                    codes.append((self.status_of(model, array, **parameters), parameters.get("timeout")))
                threads = [threading.Thread(target=ask)]
                threads[0].start()
                wait_for("the run", lambda: self.daemon.status()["jobs_running"] > 0)
                for timeout in 1, 10**9, 1, 10**9:
                    threads.append(threading.Thread(target=ask, kwargs={"timeout": timeout}))
                    threads[-1].start()
                for _ in range(30):  # meanwhile those have come
                    self.infer("beside", np.zeros((1, 8, 8, 1), np.uint8))
                os.kill(worker, signal.SIGCONT)
                for thread in threads:
                    thread.join()
                self.assertEqual(sorted(codes, key=repr), [(200, 10**9), (200, 10**9), (200, None), (504, 1), (504, 1)])
                self.assertEqual(self.status_of(model, array), 200)


if __name__ == "__main__":
    unittest.main()
