#!/usr/bin/python3
"""Dumps of what a model's nodes compute: the values, and the manners of clients, workers and time."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import numpy as np

from support.service import BUILD, DIGITS, PATIENCE, SOURCE, Daemon, free_port, wait_for

import rknncases as cases
from rknnwriter import examples, ops, reference
from rknnwriter.model import Model, Quant

RKNNCTL = BUILD / "bin/rknnctl"
FRESH = ("--model-cache", "0", "--worker-idle", "0")


def chain(channels, size):
    """Convolutions one after the other, each with an output of channels[i] * size * size bytes."""
    rng, m = np.random.default_rng(5), Model("rk3588", "chain")
    q = Quant.of_range(-4, 4)
    x = m.input("image", (1, 3, size, size), Quant.of_range(-1, 1))
    for n in channels:
        weight = rng.normal(size=(n, x.shape[1], 1, 1)) * 0.3
        x = ops.conv(m, x, weight, rng.normal(size=n), act="relu", out=q)
    m.output(x, "out")
    return m


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dump-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def daemon(self, *options):
        d = Daemon(*options)
        self.addCleanup(d.stop)
        return d

    def save(self, model):
        """The model's file, options that set its inputs, and these."""
        rng = np.random.default_rng(1)
        arrays = [cases.random_input(t, rng) for t in model.inputs]
        path, options = self.folder / f"{model.name}.rknn", []
        model.save(path)
        for i, array in enumerate(arrays):
            np.save(self.folder / f"{model.name}{i}.npy", array)
            options += ["-i", f"{i}={self.folder}/{model.name}{i}.npy"]
        return path, options, arrays

    def dump(self, uri, *words, out="out"):
        """The tensors by name, as rknnctl tells of them, each with its "value"."""
        done = subprocess.run(
            [RKNNCTL, "--server", uri, "dump", *map(str, words), "-o", self.folder / out, "--json"],
            capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        tensors = json.loads(done.stdout)["tensors"]
        self.assertEqual([t["index"] for t in tensors], list(range(len(tensors))))
        for t in tensors:
            t["value"] = np.load(t["file"])
            self.assertEqual(list(t["value"].shape), t["dims"])
        return {t["name"]: t for t in tensors}


class Values(Case):
    def check(self, uri, model):
        path, inputs, arrays = self.save(model)
        values = reference.run(model, arrays)
        raw, real = self.dump(uri, path, *inputs, "--raw"), self.dump(uri, path, *inputs, out="real")
        computed = [t for node in model.nodes for t in node.outputs]
        self.assertEqual([t.name for t in computed], list(raw))
        for t in computed:
            got, expected = raw[t.name]["value"], values[t]
            self.assertEqual(got.dtype, expected.dtype, t.name)
            self.assertEqual(got.shape, expected.shape, t.name)
            difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
            allowed = 1 if got.dtype == np.int8 else 0.004 * np.abs(expected).max()
            self.assertLessEqual(difference.max(), allowed, t.name)
            self.assertEqual(real[t.name]["value"].dtype, np.float32)
            np.testing.assert_allclose(real[t.name]["value"], reference.load(t, got), rtol=1e-6,
                                       err_msg=t.name)

    def test_everything_that_is_computed_over_unix_and_tcp_in_both_isolation_modes(self):
        for isolation in ("process", "thread"):
            port = free_port()
            daemon = self.daemon("--isolation", isolation, "--listen", f"tcp:127.0.0.1:{port}")
            for uri in (daemon.uri, f"tcp:127.0.0.1:{port}"):
                for model in (examples.residual(), examples.float16(), examples.lite()):
                    with self.subTest(isolation=isolation, uri=uri, model=model.name):
                        self.check(uri, model)

    def test_a_tensor_that_is_larger_than_a_part(self):
        daemon = self.daemon("--max-payload", "1048576")
        self.check(daemon.uri, chain([16, 3], 300))
        self.check(self.daemon().uri, chain([48, 100], 300))

    def test_some_of_them(self):
        uri = self.daemon().uri
        picture = ["-i", SOURCE / "examples/digits/pictures/0_0.png"]
        every = self.dump(uri, DIGITS, *picture, out="every")
        one = self.dump(uri, DIGITS, *picture, "--only", "relu2", out="one")
        some = self.dump(uri, DIGITS, *picture, "--only", "*_out", out="some")
        self.assertEqual(list(one), ["relu2"])
        self.assertEqual(list(some), [name for name in every if name.endswith("_out")])
        self.assertGreater(len(every), len(some))
        none = subprocess.run([RKNNCTL, "--server", uri, "dump", DIGITS, *picture, "--only", "pool", "-o", self.folder / "none"],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(none.returncode, 2)
        self.assertIn("did you mean pool1?", none.stderr)
        for name, t in some.items():
            np.testing.assert_array_equal(t["value"], every[name]["value"])

    def test_the_null_backend(self):
        np.save(self.folder / "in.npy", np.arange(64, dtype=np.uint8))
        words = [DIGITS, "-i", self.folder / "in.npy"]
        got = self.dump(self.daemon("--backend", "null:64:80,delay_us=1").uri, *words, "--raw")
        np.testing.assert_array_equal(got["output"]["value"], np.arange(80, dtype=np.uint8) % 64)
        for isolation in ("process", "thread"):  # a device that never blocks cannot wait
            daemon = self.daemon("--backend", "null", "--isolation", isolation)
            done = daemon.rknnctl("dump", *map(str, words), "-o", str(self.folder / "no"))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("no layers", done.stderr)


class Manners(Case):
    def begin(self, daemon, n=40):
        """A dump that is under way: at least two tensors have come, most are still to come."""
        path, inputs, _ = self.save(chain(n * [32], 200))
        out = self.folder / "out"
        client = subprocess.Popen([RKNNCTL, "--server", daemon.uri, "dump", path, *inputs, "-o", out],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_for("two tensors", lambda: out.exists() and len(list(out.glob("*.npy"))) >= 2)
        client.send_signal(signal.SIGSTOP)
        self.assertLess(len(list(out.glob("*.npy"))), n, "it was too fast for this test")
        return client

    def test_a_client_that_is_killed_leaves_nothing(self):
        for isolation in ("process", "thread"):
            for number in (signal.SIGKILL, signal.SIGINT):
                daemon = self.daemon("--isolation", isolation, *FRESH)
                before = daemon.held()
                client = self.begin(daemon)
                client.send_signal(number)
                client.send_signal(signal.SIGCONT)
                client.communicate(timeout=PATIENCE)
                wait_for(lambda d=daemon, b=before: f"{d.held()} to be {b}",
                         lambda d=daemon, b=before: d.held() == b)
                for file in (self.folder / "out").iterdir():
                    file.unlink()

    def test_a_client_that_takes_no_part_is_late(self):
        for isolation in ("process", "thread"):
            daemon = self.daemon("--isolation", isolation, "--job-timeout-ms", "2000")
            client = self.begin(daemon)
            wait_for("the job to end", lambda d=daemon: sum(d.status()[n] for n in ("jobs_running", "jobs_waiting")) == 0)
            client.send_signal(signal.SIGCONT)
            _, err = client.communicate(timeout=PATIENCE)
            self.assertEqual(client.returncode, 1, err)
            self.assertIn("was not taken", err)
            self.assertEqual(daemon.status()["worker_deaths"], 0)
            for file in (self.folder / "out").iterdir():
                file.unlink()

    def test_a_worker_that_dies_is_not_asked_again(self):
        daemon = self.daemon()
        client = self.begin(daemon)
        os.kill(daemon.children()[0], signal.SIGKILL)
        wait_for("the death", lambda: daemon.status()["worker_deaths"] == 1)
        client.send_signal(signal.SIGCONT)
        _, err = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 3, err)
        self.assertEqual(daemon.status()["jobs_retried"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
