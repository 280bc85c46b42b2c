#!/usr/bin/python3
"""In the guest: npu/open on nodes of kernel drivers, those of a module of ours (tests/vm/module) whose jobs a program
computes on the emulator."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from board import kernel_complaints, run
from support.paths import SOURCE
from support.service import BUILD, PATIENCE, Daemon, wait_for

DIGITS = SOURCE / "examples/digits"
MODULE = pathlib.Path(os.environ["RKNND_NPU_MODULE"])
MODELS = BUILD / "tests/conformance/models"
DIRECT = BUILD / "tests/vm/dmabuf_direct"
WATCHED = pathlib.Path("/run/watched")
FOUND = pathlib.Path("/run/watched.found")
DIRECT_MODEL = MODELS / "three_outputs.rknn"
PARAMETERS = pathlib.Path("/sys/module/rknnd_npu/parameters")
KILLS = int(os.environ.get("RKNND_NPU_KILLS", "8"))
COMPATIBLE = pathlib.Path("/tmp/compatible")
PICTURES = sorted((DIGITS / "pictures").glob("*.png"))
DRM, MISC, ROCKET = "rknpu", "rknpu:/dev/rknpu", "rocket"
# As on the emulator in process (tests/conformance/CMakeLists.txt).
PROGRAMS = ("common", "benchmark", "multiple_input", "queries", "async", "cores", "old_demos", "misuse", "misuse_kinds",
            "threads", "zero_copy", "old_zero_copy", "memory", "custom_op", "custom_op_threads", "custom_op_misuse",
            "rknnd_fence", "rknnd_sizes")


def count(name):
    return int((PARAMETERS / name).read_text())


def backend(provider):
    return f"open:{provider}{'' if ':' in provider else ':'},compatible={COMPATIBLE}"


class OpenNpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        COMPATIBLE.write_bytes(b"our,board\0rockchip,rk3588\0")
        run("modprobe", "vgem")
        run("modprobe", "drm_shmem_helper")
        run("insmod", MODULE)
        cls.start_helper()

    @classmethod
    def start_helper(cls):
        cls.helper = subprocess.Popen([BUILD / "tests/vm/npu_helper", "rk3588", WATCHED])

    @classmethod
    def end_helper(cls):
        cls.helper.kill()
        cls.helper.wait()

    @classmethod
    def tearDownClass(cls):
        cls.end_helper()
        run("rmmod", "rknnd_npu")  # nothing holds it

    def tearDown(self):
        wait_for(lambda: f"{count('objects')} objects, {count('jobs')} jobs",
                 lambda: count("objects") == count("jobs") == count("imports") == 0)
        self.assertEqual(kernel_complaints(), [])

    def start(self, provider, *options):
        daemon = Daemon("--backend", backend(provider), *options)
        self.addCleanup(daemon.process.kill)
        return daemon

    def digit(self, daemon, picture, *words):
        """The scores of a picture, as text."""
        with tempfile.TemporaryDirectory() as out:
            ran = daemon.rknnctl("run", DIGITS / "digits.rknn", "-i", picture, "--raw", "-o", out, *words)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            return [p.read_bytes() for p in sorted(pathlib.Path(out).glob("*.npy"))]

    def check_programs(self, daemon, names):
        for name in names:
            done = subprocess.run([BUILD / "tests/conformance" / name, MODELS], env=daemon.env, text=True,
                                  capture_output=True, timeout=PATIENCE, check=False)
            with self.subTest(name):
                self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])

    def check_digits(self, daemon, pictures=PICTURES):
        reference = Daemon("--backend", "sim:rk3588")
        for picture in pictures:
            self.assertEqual(self.digit(daemon, picture), self.digit(reference, picture), picture)
        reference.stop()

    def check_whole(self, provider, isolation, programs=PROGRAMS):
        daemon = self.start(provider, "--isolation", isolation)
        self.check_digits(daemon, PICTURES[:: 1 if isolation == "process" else 5])
        self.check_programs(daemon, programs)
        self.assertEqual(daemon.status()["worker_deaths"], 0)
        daemon.stop()

    def test_1_node_of_drm(self):
        self.check_whole(DRM, "process")

    def test_1_node_of_drm_in_threads(self):
        self.check_whole(DRM, "thread")

    def test_2_dev_rknpu(self):
        for isolation in ("process", "thread"):
            self.check_whole(MISC, isolation, ("common", "async", "cores", "zero_copy"))

    def test_3_older_drivers(self):
        for version in (800, 808, 905, 906):
            (PARAMETERS / "version").write_text(str(version))
            for provider in (DRM, MISC):
                daemon = self.start(provider)
                self.assertIn(f"rknpu 0.{version // 100}.{version % 100}", daemon.rknnctl("info").stdout)
                self.check_digits(daemon, PICTURES[:1])
                daemon.stop()
        (PARAMETERS / "version").write_text("909")
        with self.assertRaises(AssertionError):
            self.start(DRM)
        (PARAMETERS / "version").write_text("908")

    def test_4_two_daemons(self):
        daemons = [self.start(DRM), self.start(MISC)]
        alone = [self.digit(daemons[0], p) for p in PICTURES[:2]]
        runs = [(daemon, i, subprocess.Popen([BUILD / "bin/rknnctl", "run", DIGITS / "digits.rknn", "-i", PICTURES[i],
                                              "--loop", "30"], env=daemon.env, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL))
                for daemon in daemons for i in range(2)]
        for daemon, i, _ in runs:
            self.assertEqual(self.digit(daemon, PICTURES[i]), alone[i])
        for _, _, process in runs:
            self.assertEqual(process.wait(PATIENCE), 0)
        for daemon in daemons:
            daemon.stop()

    def loop(self, daemon):
        return subprocess.Popen([BUILD / "bin/rknnctl", "run", DIGITS / "digits.rknn", "-i", PICTURES[0], "--loop",
                                 "1000000"], env=daemon.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_5_killed_with_jobs_in_flight(self):
        """Workers, by turns with whole daemons, while one job is being computed, and others may wait; one of the programs
        has its tensors in dma-bufs."""
        rng = random.Random(5)
        for i in range(KILLS):
            provider, threads = (DRM, MISC, ROCKET)[i % 3], i // 4 % 2 == 1
            daemon = self.start(provider, "--isolation", "thread" if threads else "process")
            expected = self.digit(daemon, PICTURES[1])
            loops = [self.loop(daemon), self.direct(daemon, "udmabuf", "on")]
            done = daemon.status()["jobs_done"]
            wait_for("jobs", lambda: daemon.status()["jobs_done"] > done + rng.randrange(3))
            self.hold_a_job()
            worker = i % 4 < 2 and not threads
            victims = daemon.children() if worker else [daemon.process.pid, *daemon.children()]
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            self.helper.send_signal(signal.SIGCONT)
            for process in loops:
                process.kill()
                process.communicate()
            if worker:
                self.assertEqual(self.digit(daemon, PICTURES[1]), expected)
                daemon.stop()
            else:
                daemon.process.wait(PATIENCE)
            wait_for(lambda: f"kill {i}: {count('objects')} objects, {count('jobs')} jobs",
                     lambda: count("objects") == count("jobs") == count("imports") == 0)

    def hold_a_job(self):
        """Stops what computes while it is about a job."""
        def is_held():
            self.helper.send_signal(signal.SIGSTOP)
            os.waitpid(self.helper.pid, os.WUNTRACED)  # until then it may still end the job
            if count("taken"):
                return True
            self.helper.send_signal(signal.SIGCONT)
            return False
        wait_for("a job that is being computed", is_held)

    def test_6_the_npu_does_not_end(self):
        """What computes is gone in the middle of a job: as a chip that hangs and is reset."""
        for provider in (DRM, MISC, ROCKET):
            daemon = self.start(provider)
            expected = self.digit(daemon, PICTURES[0])
            stuck = subprocess.Popen([BUILD / "bin/rknnctl", "run", DIGITS / "digits.rknn", "-i", PICTURES[0], "--loop",
                                      "1000000"], env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.hold_a_job()
            self.end_helper()
            self.start_helper()
            said, _ = stuck.communicate(timeout=PATIENCE)
            self.assertNotEqual(stuck.returncode, 0)
            self.assertIn("did not end its tasks", said)
            self.assertEqual(self.digit(daemon, PICTURES[0]), expected)
            daemon.stop()

    def test_8_mainline_s_driver(self):
        for isolation in ("process", "thread"):
            self.check_whole(ROCKET, isolation, PROGRAMS if isolation == "process" else ("common", "async"))

    def test_8_mainline_s_driver_leaves_to_the_cpu(self):
        daemon = self.start(ROCKET)
        model = json.loads(daemon.rknnctl("info", DIGITS / "digits.rknn", "--json").stdout)["model"]
        ran = daemon.rknnctl("run", DIGITS / "digits.rknn", "-i", PICTURES[0], "--perf", "--json")
        targets = {layer["name"]: layer["target"] for layer in json.loads(ran.stdout)["layers"]}
        left = {node["node"]: node["why"] for node in model["left_to_cpu"]}
        ops = {node["node"]: node["op"] for node in model["left_to_cpu"]}
        self.assertEqual({name for name in left if targets[name] != "CPU"}, set())
        self.assertIn("NPU", targets.values())
        self.assertEqual({"pooling" in why for name, why in left.items() if "Pool" in ops[name]}, {True})
        self.assertRegex(daemon.rknnctl("info", DIGITS / "digits.rknn").stdout, "left to the CPU")
        daemon.stop()

    def direct(self, daemon, kind, *more):
        return subprocess.Popen([DIRECT, DIRECT_MODEL, kind, WATCHED, *more], env=daemon.env, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def check_direct(self, provider, isolation, kind, copied):
        """A program whose tensors are in dma-bufs. Which are copied is in the log; how many memories of each job have
        the input's bytes, what computes has counted."""
        FOUND.unlink(missing_ok=True)
        with tempfile.TemporaryFile("w+") as log:
            daemon = Daemon("--backend", backend(provider), "--isolation", isolation, stderr=log)
            self.addCleanup(daemon.process.kill)
            program = self.direct(daemon, kind)
            said, _ = program.communicate(timeout=PATIENCE)
            self.assertEqual(program.returncode, 0, said)
            wait_for("imports to be given back", lambda: count("imports") == 0)
            daemon.stop()
            log.seek(0)
            text = log.read()
            words = re.findall(r"([a-z]+put) .* is copied, and not left in the program's dma-buf: (.*)", text)
        self.assertEqual("for intermediate results is not used" in text, provider == ROCKET)
        self.assertEqual({int(line) for line in FOUND.read_text().split()}, {1}, (provider, kind))
        self.assertEqual({what for what, _ in words}, copied, words)
        return {why for _, why in words}

    def bench_segments(self):
        """By hand (RKNND_NPU_TESTS=OpenNpu.bench_segments): what a segment costs beside the request."""
        bench = subprocess.run([BUILD / "tests/bench/bench_open", DIGITS / "digits.rknn", f"rknpu:,compatible={COMPATIBLE}"],
                               text=True, capture_output=True, timeout=PATIENCE, check=False)
        print(bench.stdout, bench.stderr)
        self.assertEqual(bench.returncode, 0)

    def test_9_dma_bufs_stay(self):
        card = next(n for n in sorted(pathlib.Path("/sys/class/drm").glob("card?")) if "vgem" in str(n.resolve())).name
        for provider in (DRM, MISC):
            for isolation in ("process", "thread"):
                for kind in (f"drm:/dev/dri/{card}", "udmabuf", "dma_heap") if provider == DRM else ("udmabuf",):
                    with self.subTest(f"{provider} {isolation} {kind}"):
                        self.check_direct(provider, isolation, kind, set())

    def test_9_dma_bufs_are_copied_with_words(self):
        why = self.check_direct(ROCKET, "process", "udmabuf", {"input", "output"})
        self.assertEqual(why, {"the driver rocket gives memory of others no address for the NPU"})
        daemon = self.start(ROCKET)
        self.assertIn("no address for the NPU", daemon.rknnctl("info", DIRECT_MODEL).stdout)
        daemon.stop()
        daemon = self.start(DRM)
        self.assertIn("in place as native", daemon.rknnctl("info", DIRECT_MODEL).stdout)
        daemon.stop()

    def test_9_programs_with_dma_bufs_are_killed(self):
        for provider, isolation in ((DRM, "process"), (DRM, "thread"), (MISC, "process")):
            daemon = self.start(provider, "--isolation", isolation)
            before = count("objects")
            for _ in range(3):
                program = self.direct(daemon, "udmabuf", "on")
                self.assertEqual(program.stdout.readline(), "ran\n")
                if provider == DRM:
                    wait_for("imports", lambda: count("imports") > 0)
                program.kill()
                program.communicate()
                wait_for(lambda: f"{count('imports')} imports", lambda: count("imports") == 0)
            wait_for("contexts to end", lambda: daemon.status()["contexts"] == 0)
            self.assertEqual(daemon.status()["worker_deaths"], 0)
            self.assertGreaterEqual(count("objects"), before)
            daemon.stop()

    def test_7_layers_one_by_one(self):
        self.check_layers(DRM)
        self.check_layers(ROCKET)

    def check_layers(self, provider):
        daemon = self.start(provider)
        whole = self.digit(daemon, PICTURES[0])
        self.assertEqual(self.digit(daemon, PICTURES[0], "--perf"), whole)
        ran = daemon.rknnctl("run", DIGITS / "digits.rknn", "-i", PICTURES[0], "--perf", "--json")
        self.assertIn("NPU", [layer["target"] for layer in json.loads(ran.stdout)["layers"]])
        daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=[sys.argv[0], *os.environ.get("RKNND_NPU_TESTS", "").split()])
