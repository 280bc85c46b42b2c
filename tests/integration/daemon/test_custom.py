#!/usr/bin/python3
"""Custom operators of the program: real models, and what happens when somebody dies in a callback."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import numpy as np

from support.paths import SHARED
from support.service import BUILD, PATIENCE, Daemon, wait_for

from conformance import models as conformance
import rknncases as cases

CLIENT = BUILD / "tests/integration/custom_client"
MODELS = SHARED / "models"
FRESH = ("--model-cache", "0", "--worker-idle", "0", "--upload-ttl", "0")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="custom-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def daemon(self, *options, **more):
        d = Daemon(*options, **more)
        self.addCleanup(d.stop)
        return d

    def run_plain(self, daemon, name):
        done = subprocess.run([CLIENT, self.folder, name], env=daemon.env, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stdout}{done.stderr}")


class RealModels(Case):
    """Models that the vendor's toolkit made."""

    def setUp(self):
        super().setUp()
        if not MODELS.is_dir():
            self.skipTest(f"no folder of shared models ({MODELS})")

    def put(self, chip_file, inputs, outputs):
        name = chip_file.name[:-5]
        os.symlink(chip_file, self.folder / chip_file.name)
        for kind, arrays in (("in", inputs), ("out", outputs)):
            for i, array in enumerate(arrays):
                array.tofile(self.folder / f"{name}.{kind}{i}.bin")
        return name

    def dual_residual(self):
        """The convolutions in front of the operator, which the toolkit adds, change nothing."""
        rng = np.random.default_rng(3)
        for path in sorted((MODELS / "rknn").glob("dual_residual_custom.*.rknn")):
            a, b = rng.uniform(-4, 4, (2, 1, 10, 10, 3)).astype(np.float16).astype(np.float32)
            y, z = (v.transpose(0, 3, 1, 2).astype(np.float16) for v in (a + b / 2, b - a / 2))
            yield self.put(path, [a, b], [y, z])

    def segmentation(self):
        """ArgMax, which the runtime knows, computed by the program."""
        for path in sorted((MODELS / "rknn").glob("pp_human_segv2_custom_argmax.*.rknn")):
            golden = str(MODELS / "golden" / path.name[:-5])
            yield self.put(path, [np.load(golden + ".in0.npy")],
                           [np.load(golden + ".out0.npy").astype(np.int64)])

    def test_they_run_everywhere(self):
        names = [*self.dual_residual(), *self.segmentation()]
        self.assertEqual(len(names), 9)
        for transport in ("unix", "tcp"):
            for isolation in ("process", "thread"):
                daemon = self.daemon("--isolation", isolation, transport=transport)
                for name in names:
                    with self.subTest(transport=transport, isolation=isolation, model=name):
                        self.run_plain(daemon, name)


class InTheMiddle(Case):
    def setUp(self):
        super().setUp()
        cases.write(self.folder, "custom", conformance.custom(), cases.STEP)

    def begin(self, daemon, code):
        """A client whose callback waits."""
        client = subprocess.Popen([CLIENT, self.folder, "custom", str(code)], env=daemon.env,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(client.kill)
        self.expect_call(client)
        return client

    def expect_call(self, client):
        self.assertEqual(client.stdout.readline(), "computing\n")

    def go_on(self, client):
        client.stdin.write("\n")
        client.stdin.flush()

    def end(self, client):
        self.go_on(client)
        out, _ = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 0, out)
        return out

    def test_a_worker_that_dies_costs_a_second_call(self):
        daemon = self.daemon()
        client = self.begin(daemon, 0)
        os.kill(daemon.children()[0], signal.SIGKILL)
        wait_for("the death", lambda: daemon.status()["worker_deaths"] == 1)
        self.go_on(client)
        self.expect_call(client)
        self.assertIn("attempts 2", self.end(client))

    def test_a_worker_that_dies_twice(self):
        daemon = self.daemon()
        client = self.begin(daemon, -3)
        for deaths in (1, 2):
            os.kill(daemon.children()[0], signal.SIGKILL)
            wait_for("the death", lambda n=deaths: daemon.status()["worker_deaths"] == n)
            if deaths == 1:
                self.go_on(client)
                self.expect_call(client)
        self.assertIn("tried 2 times", self.end(client))

    def test_the_answer_to_the_first_call_comes_during_the_second_attempt(self):
        """The first call is answered when the second worker already waits for the same node."""
        daemon = self.daemon()
        client = self.begin(daemon, 0)
        first = daemon.children()[0]
        os.kill(first, signal.SIGKILL)
        wait_for("another worker that runs the job", lambda: daemon.status()["worker_deaths"] == 1
                 and daemon.children() and daemon.children()[0] != first
                 and daemon.status()["jobs_retried"] == 1)
        self.go_on(client)
        self.expect_call(client)
        self.assertIn("attempts 2", self.end(client))

    def test_a_client_that_dies_leaves_nothing(self):
        for isolation in ("process", "thread"):
            for transport in ("unix", "tcp"):
                daemon = self.daemon("--isolation", isolation, *FRESH, transport=transport)
                before = daemon.held()
                client = self.begin(daemon, 0)
                client.kill()
                client.communicate(timeout=PATIENCE)
                wait_for(lambda d=daemon, b=before: f"{d.held()} to be {b}",
                         lambda d=daemon, b=before: d.held() == b)
                self.assertEqual(daemon.status()["worker_deaths"], 0)

    def test_a_callback_that_takes_too_long(self):
        for isolation in ("process", "thread"):
            daemon = self.daemon("--isolation", isolation, "--job-timeout-ms", "2000")
            client = self.begin(daemon, -2)
            wait_for("the job to end", lambda d=daemon: sum(d.status()[n] for n in ("jobs_running", "jobs_waiting")) == 0)
            self.assertIn("cstDualResidual", self.end(client))
            self.assertEqual(daemon.status()["worker_deaths"], 0)
            self.run_plain(daemon, "custom")

    def test_a_worker_whose_client_is_gone_serves_the_others(self):
        daemon = self.daemon()
        first, second = self.begin(daemon, 0), self.begin(daemon, 0)
        first.kill()
        first.communicate(timeout=PATIENCE)
        self.end(second)
        self.run_plain(daemon, "custom")


class Plugins(Case):
    def setUp(self):
        super().setUp()
        cases.write(self.folder, "custom", conformance.custom(), cases.STEP)
        self.plugins = self.folder / "plugins"
        self.plugins.mkdir()

    def put(self, kind, name=None, mode=0o644):
        path = self.plugins / (name or f"librkcst_{kind}.so")
        shutil.copy(BUILD / f"tests/integration/libplugin_{kind}.so", path)
        path.chmod(mode)
        return path

    def with_plugins(self, *options, **more):
        return self.daemon("--plugin-dir", self.plugins, *options, **more)

    def run_it(self, daemon, code=0):
        done = subprocess.run([CLIENT, self.folder, "custom", str(code), "plugin"], env=daemon.env,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_good_one(self):
        self.put("good")
        self.put("nothing", "another.so")  # not a plugin's name
        for isolation in ("process", "thread"):
            for transport in ("unix", "tcp"):
                daemon = self.with_plugins("--isolation", isolation, *FRESH, transport=transport)
                before = daemon.held()
                # In threads the folder stays open, once.
                before["fds"] += isolation == "thread"
                for _ in range(2):
                    self.run_it(daemon)
                    wait_for("everything to be freed", lambda d=daemon, b=before: d.held() == b)
                maps = pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text()
                self.assertEqual("librkcst_good" in maps, isolation == "thread")

    def test_the_program_comes_first(self):
        self.put("crash")
        self.run_plain(self.with_plugins(), "custom")

    def test_unusable_ones(self):
        for kind, words in (("nothing", "get_rknn_custom_op"), ("version2", "version 2"),
                            ("failing", "compute() answered -8"), ("init", "does not know")):
            path = self.put(kind)
            for isolation in ("process", "thread"):
                daemon = self.with_plugins("--isolation", isolation)
                said = self.run_it(daemon, -8 if kind == "failing" else -1)
                self.assertIn(words, said)
                self.assertIn(path.name, said)
                self.assertEqual(daemon.status()["worker_deaths"], 0)
            path.unlink()
        (self.plugins / "librkcst_text.so").write_text("no library")
        self.assertIn("librkcst_text.so", self.run_it(self.with_plugins(), -1))
        self.put("good")  # after all the others, and works
        self.run_it(self.with_plugins())

    def test_one_that_others_may_write(self):
        self.put("good", mode=0o666)
        self.assertIn("nobody else may write", self.run_it(self.with_plugins(), -1))

    def test_a_folder_that_others_may_write(self):
        """Who can put files there can put another one in a good one's place."""
        self.put("good")
        self.plugins.chmod(0o777)
        for isolation in ("process", "thread"):
            self.assertIn("nobody else may write to it", self.run_it(self.with_plugins("--isolation", isolation), -1))

    def test_two_of_them(self):
        """Each is the file that was checked, although they are opened one after the other."""
        self.put("good", "librkcst_b.so")
        self.put("nothing", "librkcst_a.so")
        self.put("version2", "librkcst_c.so")
        self.run_it(self.with_plugins())

    def test_one_with_a_library_beside_it(self):
        self.put("origin")
        self.put("beside", "libplugin_beside.so")
        for isolation in ("process", "thread"):
            self.run_it(self.with_plugins("--isolation", isolation))

    def test_none(self):
        self.assertIn(str(self.plugins), self.run_it(self.with_plugins(), -1))
        self.assertIn("/nonexistent", self.run_it(self.daemon("--plugin-dir", "/nonexistent"), -1))

    def test_deadly_ones(self):
        """The worker dies, its death is told with the plugin's name, and the daemon goes on. (A sanitizer turns a
        segmentation fault into an exit code.)"""
        for kind, code, words in (("crash", -3, "its worker "), ("abort", -3, "Aborted"),
                                  ("hang", -2, "took too long")):
            path = self.put(kind)
            daemon = self.with_plugins("--job-timeout-ms", "3000")
            said = self.run_it(daemon, code)
            self.assertIn(words, said)
            self.assertIn(path.name, said)
            self.assertEqual(daemon.status()["worker_deaths"], 2)
            self.run_plain(daemon, "custom")
            path.unlink()


if __name__ == "__main__":
    unittest.main(verbosity=2)
