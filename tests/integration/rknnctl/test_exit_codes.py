#!/usr/bin/python3
"""rknnctl's exit codes: every command in every kind of failure, as the manual's EXIT STATUS has them; and that
failures leave no broken file, and take nothing away that was measured before."""
import errno
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from support.service import BUILD, DIGITS, PATIENCE, SOURCE, Daemon, wait_for

RKNNCTL = BUILD / "bin/rknnctl"
PICTURE = SOURCE / "examples/digits/pictures/7_0.png"
FLOAT = SOURCE / "examples/digits/digits.onnx"
DONE, FAILED, USAGE, UNREACHABLE, MODEL, INPUT, GATE = range(7)

OF_MODELS = ("run", "info", "dump", "perf", "memory", "accuracy", "compare", "report", "bench")
WITH_INPUTS = ("run", "dump", "perf", "accuracy", "compare", "report", "bench")
OF_SERVER = ("ping", "status", "top", "stats", "kill", "log", "trace", "devices", "model")
OTHERS = ("record", "replay", "doctor", "quantize", "board-test")
ALL = OF_MODELS + OF_SERVER + OTHERS


def rknnctl(*words, env=None, **more):
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([RKNNCTL, *map(str, words)], stderr=subprocess.PIPE, text=True, errors="replace",
                          env={**os.environ, **(env or {})}, timeout=PATIENCE, check=False, **more)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnctl-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.recording = self.folder / "a.rec"

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def samples(self):
        return self.file("samples.txt", f"{PICTURE}\n".encode())

    def words(self, command, model=DIGITS, inputs=PICTURE):
        """A command line that succeeds, as far as it goes by these."""
        given = ["-i", inputs]
        return [command, *{
            "run": [model, *given], "info": [model], "dump": [model, *given, "-o", self.folder / "out"],
            "perf": [model, *given, "-n", 1], "memory": [model], "bench": [model, *given, "-n", 1],
            "accuracy": [model, "-g", FLOAT, *given], "compare": [model, "--with", "sim:", *given, "-n", 0],
            "report": [model, *given, "-n", 1, "-o", self.folder / "r.html"],
            "trace": ["-o", self.folder / "t.json"], "kill": [1], "model": ["list"], "top": ["--batch", "--interval", 50],
            "record": ["-o", self.folder / "b.rec", "--", RKNNCTL, "bench", model, "-n", 1],
            "quantize": [FLOAT, "--dataset", self.samples(), "-o", self.folder / "q.onnx"],
            "board-test": ["--probe", "conv", "-o", self.folder / "k.tar.xz", "--journal", self.folder / "k.journal"],
            "replay": [self.recording]}.get(command, [])]

    def check(self, code, *words, named="", **more):
        """Ends with this code, and with one line that begins with the program and the command."""
        done = rknnctl(*words, **more)
        shown = " ".join(map(str, words))
        self.assertEqual(done.returncode, code, f"{shown}: {done.stderr}")
        if code:
            last = done.stderr.splitlines()[-1]
            self.assertRegex(last, "^rknnctl: ", shown)
            self.assertIn(named, last, shown)
            self.assertNotRegex(last, r"(model [^:]+: )\1|rknn_\w+: |rknnd_\w+: ", shown)
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".tmp")], [])
        return done


class OnDaemon(Case):
    @classmethod
    def setUpClass(cls):
        cls.store = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        cls.addClassCleanup(cls.store.cleanup)
        cls.daemon = Daemon("--backend", "sim", "--model-store", cls.store.name)
        os.environ["RKNND_SERVER"] = cls.daemon.uri

    @classmethod
    def tearDownClass(cls):
        del os.environ["RKNND_SERVER"]
        cls.daemon.stop()

    def record_one(self):
        self.check(DONE, "record", "-o", self.recording, "--", RKNNCTL, "bench", DIGITS, "-n", 2)


class Codes(OnDaemon):
    def test_0_done(self):
        self.record_one()
        for command in ALL:
            if command != "kill":
                self.check(FAILED if command == "doctor" and self.adb_is_wrong() else DONE, *self.words(command))

    def adb_is_wrong(self):
        return rknnctl("doctor").returncode != 0

    def test_1_failed(self):
        self.check(FAILED, "kill", 123456, named="123456")
        for command in ("report", "trace", "record"):
            words = self.words(command)
            at = words.index("-o") + 1
            words[at] = "/nowhere/file"
            self.check(FAILED, *words, named="/nowhere")
            words[at] = self.folder
            self.check(USAGE if command == "record" else FAILED, *words, named=str(self.folder))
        for command in ("run", "dump"):
            for folder in ("/nowhere/folder", PICTURE, "/dev/null"):
                self.check(FAILED, command, DIGITS, "-i", PICTURE, "-o", folder, named=f"folder {folder}: ")

    def test_1_no_room_for_what_is_printed(self):
        self.record_one()
        with open("/dev/full", "w", encoding="utf8") as full:
            for command in ALL:
                if command in ("kill", "record", "log"):
                    continue
                done = self.check(FAILED, *self.words(command), stdout=full)
                if command != "doctor":
                    self.assertIn(os.strerror(errno.ENOSPC), done.stderr, command)

    def test_2_usage(self):
        for command in ALL:
            self.check(USAGE, command, "--no-such-option", named="unknown option --no-such-option")
            self.check(USAGE, command, "--server", named="--server needs a value")
            if command == "bench":
                self.check(USAGE, *self.words(command), "more", named="--input is for one model")
                self.check(USAGE, *self.words(command), *["more"] * 16, named="unexpected argument")
            elif command not in ("record", "kill"):
                self.check(USAGE, *self.words(command), "more", "than", "wanted", named="unexpected argument")
            if command in OF_MODELS and command != "info" or command in ("kill", "replay", "record", "quantize"):
                self.check(USAGE, command)
        for command in WITH_INPUTS:
            words = self.words(command)
            self.check(USAGE, *words, "--core-mask", "x", named="--core-mask")
            self.check(USAGE, *words, "--layout", "x", named="--layout")
            self.check(USAGE, *words, "-i", PICTURE, named="more files than")
            self.check(USAGE, *self.words(command, inputs=f"x={PICTURE}"), named='no input "x"')
            self.check(USAGE, *words, "--shape-set", 7, named="--shape-set")
        for command in OF_MODELS:
            for shape in ("nonsense", "image=1xx", "image=0", "image=1x8x8x1"):
                if command != "info" or shape == "nonsense":
                    self.check(USAGE, *self.words(command), "--shape", shape)
        self.check(USAGE, *self.words("dump"), "--only", "relu", named="did you mean relu1")
        self.check(USAGE, *self.words("accuracy"), "--map", "rellu1=x", named="did you mean relu1")
        self.check(USAGE, *self.words("accuracy"), "--map", "relu1=conv11", named="did you mean conv1")
        self.check(USAGE, *self.words("accuracy"), "--fail-above", "1,5", named="1.5")

    def test_2_a_server_that_is_none(self):
        self.record_one()
        for command in ALL:
            self.check(USAGE, *self.words(command)[:1], "--server", "bogus", *self.words(command)[1:],
                       named='"bogus" is not the URI of a server')
            if command in ("doctor", "record", "compare", "accuracy", "board-test"):
                continue  # the doctor explains it; the program of record says it; the others have servers of their own
            if command == "devices" and rknnctl("devices").returncode == 0:
                continue  # it finds this machine's own server
            self.check(USAGE, *self.words(command), env={"RKNND_SERVER": "bogus"},
                       named='"bogus" is not the URI of a server')
        for option in ("--with", "--golden-server"):
            command = "compare" if option == "--with" else "accuracy"
            self.check(USAGE, *self.words(command), option, "bogus", named='"bogus"')

    def test_3_no_server(self):
        self.record_one()
        nobody = f"unix:{self.folder}/nobody"
        for command in OF_MODELS + OF_SERVER + ("replay",):
            self.check(UNREACHABLE, "--server", nobody, *self.words(command))
        self.check(UNREACHABLE, *self.words("compare"), "--with", nobody, named=nobody)
        self.check(UNREACHABLE, "--server", "sim:rk9999", "ping", named="rk3588")
        self.check(FAILED, "--server", nobody, "doctor")
        found = json.loads(self.check(FAILED, "doctor", "--json", "--server", "sim:rk9999").stdout)
        greeting, = [check for check in found if check["check"] == "greeting"]
        self.assertIn("rk3588", greeting["found"])
        self.assertIn("any chip", greeting["advice"])

    def test_4_no_model(self):
        (self.folder / "dir").mkdir()
        onnx = FLOAT.read_bytes()
        bad = {self.folder / "none": "No such file", self.folder / "dir": "not a file", "/dev/null": "not a file",
               self.file("empty", b""): "empty", self.file("text", b"hello\n"): "neither a .rknn nor an .onnx model",
               self.file("cut.onnx", onnx[:len(onnx) // 2]): "cut off or damaged",
               self.file("cut.rknn", DIGITS.read_bytes()[:1000]): "cut off"}
        for model, words in bad.items():
            for command in OF_MODELS:
                done = self.check(MODEL, *self.words(command, model=model), named=str(model))
                self.assertIn(words, done.stderr, f"{command} {model}")
        name = os.fsdecode(b"no\xff.rknn")
        self.check(MODEL, "run", name)
        self.check(MODEL, *self.words("run", model=self.file(name, DIGITS.read_bytes()[:100])))
        self.check(DONE, *self.words("run", model=self.file(name, DIGITS.read_bytes())))

    def test_4_info_says_what_it_can(self):
        broken = self.file("broken.onnx", FLOAT.read_bytes().replace(b"Conv", b"Cunv"))
        said = json.loads(self.check(MODEL, "info", broken, "--json", named="Cunv").stdout)
        self.assertIn("Cunv", said["model"]["refused"])
        self.assertEqual(said["model"]["container"], "onnx")

    def test_5_no_input(self):
        (self.folder / "dir").mkdir()
        np.save(self.folder / "large.npy", np.zeros((1, 9, 9, 1), np.uint8))
        np.save(self.folder / "whole.npy", np.zeros((1, 8, 8, 1), np.uint8))
        cut = self.file("cut.npy", (self.folder / "whole.npy").read_bytes()[:-1])
        for given in (self.folder / "none", self.folder / "dir", self.file("empty", b""), "/dev/null",
                      self.file("text", b"hello"), self.folder / "large.npy", cut,
                      self.file("cut.png", PICTURE.read_bytes()[:60])):
            for command in WITH_INPUTS:
                self.check(INPUT, *self.words(command, inputs=given), named=str(given))

    def test_5_no_recording(self):
        self.record_one()
        whole = self.recording.read_bytes()
        for content in (b"", b"hello", whole[:20], whole[:-10], whole[:16] + bytes(200)):
            self.check(INPUT, "replay", self.file("bad.rec", content), named="bad.rec")
        for path in (self.folder / "none", self.folder, "/dev/null"):
            self.check(INPUT, "replay", path, named=str(path))

    def test_6_gates(self):
        bench = self.words("bench")
        self.check(DONE, *bench, "--fail-below", "0.5", "--fail-p99-above", "100000")
        done = self.check(GATE, *bench, "--json", "--fail-below", "1000000000", named="--fail-below")
        self.assertEqual(json.loads(done.stdout)["runs"], 1)
        self.check(GATE, *bench, "--fail-p99-above", "0.0001", named="--fail-p99-above")
        noisy = ("compare", DIGITS, FLOAT, "-n", 0, "-i", PICTURE)
        said = json.loads(self.check(DONE, *noisy, "--json").stdout)
        error = 100 * max(row["error"] for row in said["layers"])
        self.assertGreater(error, 0)
        self.check(DONE, *noisy, "--fail-above", f"{error * 1.01:.6f}")
        self.check(GATE, *noisy, "--fail-above", f"{error * 0.99:.6f}", named="--fail-above")
        self.check(GATE, *self.words("accuracy"), "--fail-above", f"{error * 0.99:.6f}", named="--fail-above")
        self.check(DONE, *self.words("compare"), "--fail-above", "0")

    def test_6_nothing_to_compare_is_not_good_enough(self):
        onnx = FLOAT.read_bytes()
        for name in (b"relu1", b"pool1", b"relu2", b"\x02fc", b"probability"):
            onnx = onnx.replace(name, name.replace(b"r", b"s").replace(b"p", b"q").replace(b"c", b"d"))
        self.check(GATE, "compare", DIGITS, self.file("other.onnx", onnx), "-n", 0, "-i", PICTURE,
                   "--fail-above", "1000", named="no tensor")


class Lost(Case):
    """The server is killed in the middle."""

    def kill_in(self, *words, when, backend="sim:rk3588,slow%100"):
        daemon = Daemon("--backend", backend, "--isolation", "thread")
        self.addCleanup(daemon.folder.cleanup)
        self.client = client = subprocess.Popen([RKNNCTL, "--server", daemon.uri, *map(str, words)], stdout=subprocess.PIPE,
                                                stderr=subprocess.PIPE, text=True)
        wait_for("the command to be at work", lambda: when(daemon))
        daemon.process.kill()
        daemon.process.wait()
        out, err = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, UNREACHABLE, f"{words}: {err}")
        self.assertRegex(err.splitlines()[-1], f"^rknnctl: {words[0]}: ")
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".tmp")], [])
        return out, err

    def waited(self):
        """How often the command has: once at least for each answer, of which it counts them in hundreds and the server does not."""
        status = pathlib.Path(f"/proc/{self.client.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\t(\d+)", status, re.M)[1])

    @staticmethod
    def runs(n):
        return lambda daemon: daemon.status()["jobs_done"] >= n

    def test_runs(self):
        out = self.folder / "out"
        self.kill_in("run", DIGITS, "-i", PICTURE, "-n", 100000, "-o", out, when=self.runs(3))
        self.assertEqual(list(out.glob("*")), [])
        out, err = self.kill_in("perf", DIGITS, "-n", 100000, "--json", when=self.runs(10))
        said = json.loads(out)
        self.assertIn(f"ended after {said['runs']} run", err)
        self.assertEqual(said["layers"][0]["op"], "ConvRelu")
        out, _ = self.kill_in("perf", DIGITS, "-n", 100000, when=self.runs(10))
        self.assertIn("Conv:conv1", out)

    def test_bench_prints_what_it_has(self):
        out, err = self.kill_in("bench", DIGITS, "--clients", 2, "-n", 100000, "--json", when=self.runs(20))
        said = json.loads(out)
        self.assertGreater(said["runs"], 5)
        self.assertIn(f"ended after {said['runs']} runs", err)
        out, _ = self.kill_in("bench", DIGITS, "-n", 100000, when=self.runs(20))
        self.assertRegex(out, r"\n\d+ runs by 1 client in .* runs/s\n")

    def test_bench_before_its_first_run(self):
        out, _ = self.kill_in("bench", DIGITS, "-w", 100000, when=self.runs(5))
        self.assertEqual(out, "")

    def test_trace_writes_what_it_has(self):
        file, asks = self.folder / "t.json", []

        def recorded(daemon):
            if not asks and daemon.status()["connections"] > 1:
                daemon.rknnctl("bench", str(DIGITS), "-n", "3")
                asks.append(self.waited())
            return asks and self.waited() > asks[0] + 9  # it asks again and again

        _, err = self.kill_in("trace", "--seconds", 600, "-o", file, when=recorded, backend="sim")
        self.assertIn("ends where the server was lost", err)
        self.assertGreater(len(json.loads(file.read_text())["traceEvents"]), 3)

    def test_ping_prints_what_it_has(self):
        out, _ = self.kill_in("ping", "-n", 1000000, "--json", when=lambda daemon: self.waited() > 1000)
        self.assertGreater(json.loads(out)["count"], 0)

    def test_watchers(self):
        connected = lambda daemon: daemon.status()["connections"] > 1
        self.kill_in("top", "--batch", "-n", 1000, "--interval", 50, when=lambda daemon: daemon.status()["uptime_ms"] > 500)
        self.kill_in("log", "--follow", when=connected)

    def test_replay(self):
        with_server = Daemon("--backend", "sim")
        self.addCleanup(with_server.stop)
        done = rknnctl("record", "-o", self.recording, "--", RKNNCTL, "bench", DIGITS, "-n", 300,
                       env={"RKNND_SERVER": with_server.uri})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.kill_in("replay", self.recording, when=self.runs(10))


class Files(OnDaemon):
    """What is written is whole or not there."""

    def no_room(self, *words):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        return self.check(FAILED, *words, preexec_fn=limit)

    def large(self):
        """A model whose output has more bytes than there is room for."""
        helper = __import__("onnx").helper
        net = helper.make_model(helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])], "net",
            [helper.make_tensor_value_info("x", 1, [1, 5000])],
            [helper.make_tensor_value_info("y", 1, [1, 5000])]), opset_imports=[helper.make_opsetid("", 13)])
        np.save(self.folder / "x.npy", np.ones((1, 5000), np.float32))
        return self.file("large.onnx", net.SerializeToString()), self.folder / "x.npy"

    def test_a_full_disk_leaves_what_was_there(self):
        model, given = self.large()
        for command, name in (("run", "out/out0.npy"), ("dump", "out/0000_y.npy"), ("report", "r.html"),
                              ("trace", "t.json")):
            words = [*self.words(command, model, given)]
            if command == "run":
                words += ["-o", self.folder / "out"]
            target = self.folder / name
            target.parent.mkdir(exist_ok=True)
            target.write_text("before")
            done = self.no_room(*words)
            self.assertIn(str(target), done.stderr, command)
            self.assertIn(os.strerror(errno.EFBIG), done.stderr, command)
            self.assertEqual(target.read_text(), "before", command)
            self.assertEqual(os.listdir(target.parent).count(target.name), 1)
            self.assertFalse([n for n in os.listdir(target.parent) if "tmp" in n], command)
            self.check(DONE, *words)
            self.assertNotEqual(target.read_bytes(), b"before", command)

    def test_snapshots_on_a_full_disk(self):
        model, given = self.large()
        self.no_room("compare", model, "--with", self.daemon.uri, "-n", 0, "-i", given, "--dump", self.folder / "snap")
        self.assertEqual([p for p in (self.folder / "snap").rglob("*") if p.is_file()], [])

    def test_devices_are_written_to(self):
        for command in ("report", "trace"):
            done = self.check(FAILED, *self.words(command), "-o", "/dev/full", named="/dev/full")
            self.assertIn(os.strerror(errno.ENOSPC), done.stderr)
            self.check(DONE, *self.words(command), "-o", "/dev/null")
            self.assertTrue(pathlib.Path("/dev/null").is_char_device())
            self.assertIn("{" if command == "trace" else "<html",
                          self.check(DONE, *self.words(command), "-o", "-").stdout)
        self.check(USAGE, "record", "-o", "/dev/null", "true", named="no ordinary file")

    def test_links_modes_and_old_files(self):
        target, link = self.folder / "real.json", self.folder / "link.json"
        target.write_text("before")
        target.chmod(0o640)
        link.symlink_to(target.name)
        self.check(DONE, "trace", "-o", link)
        self.assertTrue(link.is_symlink())
        self.assertIn("traceEvents", json.loads(target.read_text()))
        self.assertEqual(target.stat().st_mode & 0o777, 0o640)

    def test_record_replaces_only_with_a_recording(self):
        self.recording.write_text("before")
        done = self.check(FAILED, "record", "-o", self.recording, "true")
        self.assertIn("LD_LIBRARY_PATH", done.stderr)
        self.assertEqual(self.recording.read_text(), "before")
        self.record_one()
        self.check(DONE, "replay", self.recording)

    @unittest.skipUnless(os.geteuid() == 0 and pathlib.Path("/proc/sys").is_dir(), "needs root")
    def test_record_blames_the_folder(self):
        """One that even root cannot write to."""
        done = self.check(FAILED, "record", "-o", "/proc/sys/a.rec", "--", "touch", self.folder / "ran")
        self.assertIn("/proc/sys", done.stderr)
        self.assertFalse((self.folder / "ran").exists())

    def test_a_closed_pipe(self):
        for words in (["stats", "--json"], ["help"], ["info", DIGITS, "--json"]):
            read, write = os.pipe()
            os.close(read)
            done = rknnctl(*words, stdout=write)
            os.close(write)
            self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""), words)

    def test_closed_standard_output(self):
        done = subprocess.run(["sh", "-c", f"exec {RKNNCTL} status >&-"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, FAILED)
        self.assertRegex(done.stderr, "standard output: ")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
