#!/usr/bin/python3
"""rknnctl record and replay: programs of many kinds, recorded on one server and replayed on another."""
import json
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

from support.seed import seed
from support.service import BUILD, DIGITS, PATIENCE, SOURCE, Daemon, wait_for

RKNNCTL = BUILD / "bin/rknnctl"
PICTURES = sorted((SOURCE / "examples/digits/pictures").glob("*.png"))
DIGITS_PROGRAM = BUILD / "bin/digits"
# Zero copy, memory that comes and goes, dynamic shapes, custom operators in the middle of runs, runs that nobody waits for, threads,
# products of matrices.
CONFORMANCE = ("zero_copy", "dynamic_zero_copy", "memory", "custom_op", "custom_op_threads", "async", "threads", "matmul_dynamic")


def run(*words, env=None, **more):
    return subprocess.run([str(w) for w in words], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False, **more)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-record-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "a.rec"

    def daemon(self, *options, **more):
        daemon = Daemon("--backend", *(options or ["sim:rk3588"]), **more)
        self.addCleanup(daemon.stop)
        return daemon

    def record(self, daemon, *program, code=0):
        done = run(RKNNCTL, "record", "-o", self.file, "--", *program, env=daemon.env)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def replay(self, daemon, code=0):
        done = run(RKNNCTL, "replay", self.file, "--json", env=daemon.env)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if done.stdout else {}, done.stderr


class Programs(Case):
    def test_the_same_program_again(self):
        daemon = self.daemon()
        self.record(daemon, DIGITS_PROGRAM, DIGITS, *PICTURES)
        daemon.rknnctl("status")
        again, _ = self.replay(daemon)
        self.assertEqual(again["runs"], len(PICTURES))
        self.assertEqual((again["different"], again["cut"]), (0, False))
        self.assertEqual(again["answers"], again["requests"])
        self.assertEqual(daemon.status()["contexts"], 0)

    def test_every_kind_on_another_transport(self):
        models = self.folder / "models"
        made = run("/usr/bin/python3", SOURCE / "tests/conformance/models.py", models)
        self.assertEqual(made.returncode, 0, made.stderr)
        unix, tcp = self.daemon(), self.daemon(transport="tcp")
        for name in CONFORMANCE:
            with self.subTest(name):
                self.record(unix, BUILD / "tests/conformance" / name, models)
                again, _ = self.replay(tcp)
                self.assertGreater(again["runs"], 0)
                self.assertEqual(again["different"], 0, again["first_difference"])

    def test_one_wrong_bit_is_found(self):
        self.record(self.daemon(), DIGITS_PROGRAM, DIGITS, *PICTURES[:4])
        again, err = self.replay(self.daemon("sim:rk3588,wrong@3"), 1)
        self.assertEqual(again["different"], 1)
        self.assertIn("INFER number 3 ", again["first_difference"])
        self.assertRegex(again["first_difference"], r"byte \d+ of 10 is 0x..,? recorded is 0x..")
        self.assertIn("1 of 6 answers", err)

    def test_another_chip_differs_from_the_beginning(self):
        self.record(self.daemon(), DIGITS_PROGRAM, DIGITS, PICTURES[0])
        again, err = self.replay(self.daemon("sim:rk3566"), 1)
        self.assertIn("CONTEXT_OPEN number 1", again["first_difference"])
        self.assertIn("another chip", err)


class Processes(Case):
    def test_each_process_has_a_file(self):
        daemon = self.daemon()
        script = f"{DIGITS_PROGRAM} {DIGITS} {PICTURES[0]} && {DIGITS_PROGRAM} {DIGITS} {PICTURES[1]}"
        done = run("sh", "-c", script, env=dict(daemon.env, RKNND_RECORD=str(self.folder / "%p.rec")))
        self.assertEqual(done.returncode, 0, done.stderr)
        files = list(self.folder.glob("*.rec"))
        self.assertEqual(len(files), 2)
        for self.file in files:
            self.assertEqual(self.replay(daemon)[0]["runs"], 1)

    def test_a_forked_process_has_a_file_too(self):
        daemon = self.daemon()
        done = run(BUILD / "tests/integration/fork_client", DIGITS, env=dict(daemon.env, RKNND_RECORD=str(self.folder / "%p.rec")))
        self.assertEqual(done.returncode, 0, done.stderr)
        runs = []
        for self.file in self.folder.glob("*.rec"):
            again, _ = self.replay(daemon)
            self.assertEqual(again["different"], 0)
            runs.append(again["runs"])
        self.assertEqual(sorted(runs), [1, 2])

    def test_two_processes_do_not_share_one(self):
        daemon = self.daemon()
        script = f"{DIGITS_PROGRAM} {DIGITS} {PICTURES[0]} && {DIGITS_PROGRAM} {DIGITS} {PICTURES[1]}"
        done = run("sh", "-c", script, env=dict(daemon.env, RKNND_RECORD=str(self.file), RKNN_LOG_LEVEL="1"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is there already", done.stdout + done.stderr)
        self.assertEqual(self.replay(daemon)[0]["runs"], 1)

    def test_a_program_that_is_killed(self):
        daemon = self.daemon()
        client = subprocess.Popen([BUILD / "tests/integration/loop_client", DIGITS, "3"], stdin=subprocess.PIPE,
                                  env=dict(daemon.env, RKNND_RECORD=str(self.file)), stdout=subprocess.PIPE)
        wait_for("runs", lambda: daemon.status()["jobs_done"] > 20)
        client.kill()
        client.communicate()
        again, _ = self.replay(daemon)
        self.assertGreaterEqual(again["runs"], 20)
        self.assertEqual(again["different"], 0)

    def run_limited(self, size, daemon, *program, **env):
        """What a program says whose files may have so many bytes: the signal that comes otherwise would end it."""
        done = run(*program, env=dict(daemon.env, RKNN_LOG_LEVEL="1", **env),
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        self.assertGreater(done.returncode, 0, done)
        return done.stdout + done.stderr

    def test_a_recording_that_is_too_large(self):
        for size in 0, 100, DIGITS.stat().st_size + 500:
            with self.subTest(size=size):
                said = self.run_limited(size, self.daemon(), DIGITS_PROGRAM, DIGITS, *PICTURES, RKNND_RECORD=str(self.file))
                self.assertIn(str(self.file), said)
                self.assertLessEqual(self.file.stat().st_size, size)
                self.file.unlink()

    def test_memory_that_is_too_large_for_a_file(self):
        models = self.folder / "models"
        made = run("/usr/bin/python3", SOURCE / "tests/conformance/models.py", models)
        self.assertEqual(made.returncode, 0, made.stderr)
        said = self.run_limited(10, self.daemon(transport="tcp"), BUILD / "tests/conformance/zero_copy", models)
        self.assertIn("more than a file may have here (ulimit -f", said)


class Refusals(Case):
    def test_what_is_no_recording(self):
        daemon = self.daemon("null:64:64")
        for content in (b"", b"RKNN", b"RKNNDREC" + bytes([2]) + bytes(30), b"RKNNDREC" + bytes([1]) + bytes(100)):
            self.file.write_bytes(content)
            _, err = self.replay(daemon, 5)
            self.assertIn(str(self.file), err)
        self.file.unlink()
        self.assertIn("No such file", self.replay(daemon, 5)[1])

    def test_a_file_that_is_cut(self):
        daemon = self.daemon()
        self.record(daemon, DIGITS_PROGRAM, DIGITS, *PICTURES[:3])
        whole = self.file.read_bytes()
        self.file.write_bytes(whole[:-70])
        again, err = self.replay(daemon, 5)
        self.assertTrue(again["cut"])
        self.assertEqual(again["different"], 0)
        self.assertIn("ends in the middle of a frame", err)
        self.assertEqual(run(RKNNCTL, "replay", "--allow-cut", self.file, env=daemon.env).returncode, 0)

    def test_a_file_with_nothing_in_it(self):
        """Only the head is left: that nothing differs says nothing."""
        daemon = self.daemon()
        self.record(daemon, DIGITS_PROGRAM, DIGITS, *PICTURES[:3])
        self.file.write_bytes(self.file.read_bytes()[:20])
        for words in ((), ("--allow-cut",)):
            done = run(RKNNCTL, "replay", *words, self.file, env=daemon.env)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("no request in it", done.stderr)

    def test_damaged_recordings_are_survived(self):
        daemon, rng = self.daemon("null:4:4", "--isolation", "thread"), random.Random(seed(7))
        model = self.folder / "model"
        model.write_text("any bytes")
        self.record(daemon, RKNNCTL, "bench", model, "-n", "2", "-w", "0")
        whole = self.file.read_bytes()
        for _ in range(60):
            damaged = bytearray(whole)
            for _ in range(rng.randint(1, 3)):
                damaged[rng.randrange(16, len(damaged))] = rng.randrange(256)
            self.file.write_bytes(damaged)
            done = run(RKNNCTL, "replay", self.file, env=daemon.env)
            self.assertIn(done.returncode, (0, 1, 3, 4, 5), done.stderr)
        self.file.write_bytes(whole)
        self.assertEqual(self.replay(daemon)[0]["different"], 0)

    def test_a_program_that_records_nothing(self):
        done = self.record(self.daemon("null:64:64"), "true", code=1)
        self.assertIn("LD_LIBRARY_PATH", done.stderr)
        self.assertEqual(run(RKNNCTL, "record", "true").returncode, 2)
        self.assertEqual(run(RKNNCTL, "record", "-o", self.folder, "true").returncode, 2)
        self.assertEqual(run(RKNNCTL, "record", "-o", self.file, "/no/such/program").returncode, 127)

    def test_ctrl_c_leaves_nothing(self):
        daemon = self.daemon("sim:rk3588,slow%100")
        self.record(daemon, DIGITS_PROGRAM, DIGITS, *PICTURES[:8])
        before = daemon.status()["jobs_done"]
        client = subprocess.Popen([RKNNCTL, "replay", self.file], env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for("a run", lambda: daemon.status()["jobs_done"] > before)
        client.send_signal(signal.SIGINT)
        client.communicate(timeout=PATIENCE)
        wait_for("its context to be gone", lambda: daemon.status()["contexts"] == 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
