#!/usr/bin/python3
"""rknnctl against real daemons: what it writes and prints, its exit codes, its manners on a terminal."""
import csv
import json
import math
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import time
import unittest
import zlib

import numpy as np

from support.checks.expect import EXPECT
from support.paths import DIGITS, PICTURES, SHARED, SOURCE
from support.rknnctl import RKNNCTL, Case, OnDaemon, on_terminal, rknnctl
from support.service import PATIENCE, Daemon, free_port, wait_for

CHIPS = ("rk3562", "rk3566_rk3568", "rk3576", "rk3588", "rv1126b")


class Usage(Case):
    def test_mistakes_are_2(self):
        self.expect(2, "no command")
        self.expect(2, 'unknown command "walk"', "walk")
        self.expect(2, "unknown option --fast", "--fast", "ping")
        self.expect(2, "unknown option --fast", "ping", "--fast")
        self.expect(2, "--server", "ping", uri="ftp:nowhere")
        self.expect(2, "too few arguments", "run")
        self.expect(2, "unexpected argument", "info", "a", "b")
        self.expect(2, "--loop", "ping", "-n", "0")
        self.expect(2, "--layout", "run", "model", "--layout", "abc")
        self.expect(2, "--core-mask", "bench", "model", "--core-mask", "99")

    def test_no_server_is_3_and_says_what_was_tried(self):
        missing = f"unix:{self.folder}/none"
        model = self.file("model", b"x")
        for command in (["ping"], ["status"], ["info"], ["info", model], ["run", model],
                        ["bench", model]):
            self.expect(3, f"{self.folder}/none", *command, uri=missing)
        done = self.expect(3, "no server answers", "devices", env={"RKNND_SERVER": missing})
        self.assertIn(missing, done.stdout)
        self.assertIn(missing, done.stderr)

    def test_no_model_file_is_4(self):
        for command in ("run", "info", "bench"):
            self.expect(4, "model /none/model: No such file", command, "/none/model")


class Null(OnDaemon):
    OPTIONS = ("--backend", "null:64:100")

    def setUp(self):
        super().setUp()
        self.model = self.file("model.bin", os.urandom(5000))

    def test_outputs_are_written(self):
        data = np.arange(64, dtype=np.uint8)
        given = self.save("in.npy", data)
        expected = np.resize(data, 100)
        out = self.folder / "out"
        self.ok("run", self.model, "-i", given, "-o", out, uri=self.uri)
        real = np.load(out / "out0.npy")
        self.assertEqual(real.dtype, np.float32)
        np.testing.assert_array_equal(real, expected)
        self.ok("run", self.model, "-i", f"input={given}", "-o", out, "--raw", uri=self.uri)
        raw = np.load(out / "out0.npy")
        self.assertEqual(raw.dtype, np.uint8)
        np.testing.assert_array_equal(raw, expected)
        self.assertEqual(os.listdir(out), ["out0.npy"])

    def test_json_says_everything(self):
        given = self.save("in.npy", np.arange(64, dtype=np.uint8))
        said = json.loads(self.ok("run", self.model, "-i", f"0={given}", "--loop", 5, "--top", 2, "--perf",
                                  "--json", uri=self.uri))
        self.assertEqual(said["server"]["uri"], self.uri)
        self.assertEqual(said["inputs"][0]["shape"], [64])
        self.assertEqual(said["inputs"][0]["type"], "UINT8")
        output = said["outputs"][0]
        self.assertEqual(output["top"], [{"index": 63, "value": 63.0}, {"index": 62, "value": 62.0}])
        self.assertEqual((output["min"], output["max"], output["file"]), (0, 63, None))
        self.assertEqual(said["times"]["runs"], 5)
        self.assertLessEqual(said["times"]["total_us"]["min"], said["times"]["total_us"]["max"])
        self.assertEqual(said["layers"][0]["op"], "Repeat")
        self.assertEqual(said["memory"]["internal_bytes"], 164)

    def test_uploads_are_told_from_models_that_are_held(self):
        given = self.save("in.npy", np.zeros(64, dtype=np.uint8))
        first, second = (json.loads(self.ok("run", self.model, "-i", given, "--json", uri=self.uri))
                         for _ in range(2))
        self.assertEqual(first["times"]["upload_bytes"], 5000)
        self.assertEqual(second["times"]["upload_bytes"], 0)

    def test_wrong_inputs_are_refused(self):
        def refused(code, words, *options):
            self.expect(code, words, "run", self.model, *options, uri=self.uri)
        refused(2, "no file for input 0 \"input\"")
        good = self.save("good.npy", np.zeros(64, dtype=np.uint8))
        refused(2, "more files", "-i", good, "-i", good)
        refused(2, "no input \"other\"", "-i", f"other={good}")
        refused(5, "No such file", "-i", self.folder / "none.npy")
        refused(5, "shape 8x8, but the input is 64", "-i", self.save("s.npy", np.zeros((8, 8), np.uint8)))
        refused(5, "c16", "-i", self.save("d.npy", np.zeros(64, np.complex128)))
        refused(5, "not a .npy array", "-i", self.model)
        refused(5, "takes no picture", "-i", PICTURES / "0_0.png")
        refused(1, "Not a directory", "-i", good, "-o", good)

    def test_standard_output_that_is_full_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([RKNNCTL, "--server", self.uri, "status"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output: No space left", done.stderr)

    def test_status_counts(self):
        before = json.loads(self.ok("status", "--json", uri=self.uri))
        given = self.save("in.npy", np.zeros(64, dtype=np.uint8))
        self.ok("run", self.model, "-i", given, "--loop", 7, uri=self.uri)
        after = json.loads(self.ok("status", "--json", uri=self.uri))
        self.assertEqual(after["jobs_done"] - before["jobs_done"], 7)
        self.assertIn("jobs", self.ok("status", uri=self.uri))

    def test_ping(self):
        said = json.loads(self.ok("ping", "-n", 25, "--json", uri=self.uri))
        self.assertEqual(said["count"], 25)
        times = said["round_trip_us"]
        self.assertTrue(0 < times["min"] <= times["median"] <= times["p99"] <= times["max"], times)
        self.assertIn("25 round trips", self.ok("ping", "-n", 25, uri=self.uri))

    def test_ping_ends_with_ctrl_c_and_what_it_has(self):
        client = subprocess.Popen([RKNNCTL, "--server", self.uri, "ping", "-n", "1000000"], stdout=subprocess.PIPE,
                                  text=True)
        wait_for("it to connect", lambda: f"rknnctl {client.pid}" in self.ok("stats", "--json", uri=self.uri))
        client.send_signal(signal.SIGINT)
        out, _ = client.communicate(timeout=PATIENCE)
        self.assertEqual(client.returncode, 0)
        self.assertRegex(out, r"\n\d{3,6} round trips: min")

    def test_nobody_uses_it(self):
        self.assertRegex(self.ok("stats", uri=self.uri), r"^up .*\n\nno clients\n\n(no models|MODEL .*)")

    def test_devices(self):
        said = json.loads(rknnctl("devices", "--json", env={"RKNND_SERVER": self.uri}).stdout)
        ours = [device for device in said if device["uri"] == self.uri]
        self.assertEqual([(d["state"], d["backend"], d["cores"]) for d in ours], [("up", "null", 3)])
        table = self.ok("devices", uri=self.uri).splitlines()
        self.assertEqual(table[0].split(), ["URI", "CHIP", "CORES", "BACKEND", "VERSION", "STATE"])
        self.assertEqual(table[1].split()[0], self.uri)

    def test_info(self):
        said = json.loads(self.ok("info", self.model, "--json", uri=self.uri))
        self.assertEqual(said["server"]["backend"], "null")
        self.assertEqual(said["model"]["file_size"], 5000)
        self.assertNotIn("model", json.loads(self.ok("info", "--json", uri=self.uri)))
        self.assertRegex(self.ok("info", self.model, uri=self.uri), r"file .*; 4\.88 KiB\n")

    def test_bench_counts_every_run(self):
        before = json.loads(self.ok("status", "--json", uri=self.uri))["jobs_done"]
        said = json.loads(self.ok("bench", self.model, "--clients", 5, "--loop", 40, "--warmup", 2,
                                  "--json", uri=self.uri))
        after = json.loads(self.ok("status", "--json", uri=self.uri))["jobs_done"]
        self.assertEqual(said["runs"], 200)
        self.assertEqual(after - before, 5 * 42)
        self.assertGreater(said["runs_per_second"], 0)
        self.assertLessEqual(said["latency_us"]["median"], said["latency_us"]["p99"])
        self.assertIn("runs by 1 client in", self.ok("bench", self.model, "--loop", 3, uri=self.uri))

    def test_bench_goes_through_clients(self):
        before = json.loads(self.ok("status", "--json", uri=self.uri))["jobs_done"]
        samples = f"{self.folder}/samples.csv"
        said = json.loads(self.ok("bench", self.model, "--concurrency", "1:8:3", "--loop", 20, "--warmup", 1, "--json",
                                  "--samples", samples, uri=self.uri))
        after = json.loads(self.ok("status", "--json", uri=self.uri))["jobs_done"]
        self.assertEqual([(p["clients"], p["runs"]) for p in said["points"]], [(1, 20), (4, 80), (7, 140)])
        self.assertEqual(after - before, (1 + 4 + 7) * 21)
        rows = list(csv.DictReader(open(samples, encoding="utf-8")))
        for point in said["points"]:
            latencies = sorted(float(r["Latency(us)"]) for r in rows if int(r["Clients"]) == point["clients"])
            self.assertEqual(len(latencies), point["runs"])
            for name, part in (("min", 0), ("median", .5), ("p90", .9), ("p99", .99), ("p99.9", .999), ("max", 1)):
                rank = max(math.ceil(round(part * len(latencies), 6)), 1)
                self.assertAlmostEqual(point["latency_us"][name], latencies[rank - 1], places=2)
        self.assertRegex(self.ok("bench", self.model, "--concurrency", "2:3", "-n", 2, uri=self.uri), r"P99\.9.*\n +2 .*\n +3 ")
        for words in ("0:2", "2:1", "1:2:0", "1:2x", "1:2000", "x", ""):
            self.expect(2, "--concurrency", "bench", self.model, "--concurrency", words)
        self.expect(2, "--concurrency", "bench", self.model, "--concurrency", "1:2", "--clients", "3")
        for option in ("--rate", "--duration", "--fail-below", "--fail-p99-above"):
            self.expect(2, f"{option} is to be more than 0", "bench", self.model, option, "0")
        self.expect(2, "in place of --loop", "bench", self.model, "--duration", "1", "--loop", "5")

    def test_bench_samples_in_json(self):
        samples, other = f"{self.folder}/samples.json", self.other_model()
        self.ok("bench", self.model, other, "--concurrency", "1:2", "--loop", 5, "--samples", samples, uri=self.uri)
        rows = json.load(open(samples, encoding="utf-8"))["samples"]
        self.assertEqual(len(rows), (1 + 2) * 2 * 5)
        self.assertEqual({(row["clients"], row["model"]) for row in rows}, {(n, model) for n in (1, 2) for model in (0, 1)})
        self.assertTrue(all(row["latency_us"] >= row["run_us"] >= 0 for row in rows))

    def test_bench_asks_at_random_times(self):
        """Whatever the answers take: the times are those of the random numbers, which are computed here once more."""
        rate, seed, state, at, expected = 50000, 5, (5 + 1) * 0x9e3779b97f4a7c15 % 2**64, 0.0, []
        for _ in range(400):
            state ^= state << 13 & 2**64 - 1
            state ^= state >> 7
            state ^= state << 17 & 2**64 - 1
            at -= math.log(((state >> 11) + 1) / 2**53) / rate
            expected.append(at * 1e6)
        samples = f"{self.folder}/asked.csv"
        said = json.loads(self.ok("bench", self.model, "--rate", rate, "--seed", seed, "--loop", 400, "--json",
                                  "--samples", samples, uri=self.uri))
        self.assertEqual(said["asked_per_second"], rate)
        rows = list(csv.DictReader(open(samples, encoding="utf-8")))
        self.assertEqual(len(rows), 400)
        for row, asked in zip(rows, expected):
            self.assertAlmostEqual(float(row["Start(us)"]), asked, delta=0.01)
        ends = [float(r["Start(us)"]) + float(r["Latency(us)"]) for r in rows]
        self.assertEqual(ends, sorted(ends), "one client does one after the other, and latency counts from the question")

    def test_bench_ends_by_the_clock(self):
        """Of a million runs a second no server does half: those that are still asked for when the time is over are not begun."""
        said = json.loads(self.ok("bench", self.model, "--rate", 10**6, "--duration", "0.2", "--json", uri=self.uri))
        self.assertLess(said["runs"], 100000)

    def test_bench_says_which_number_of_clients_is_overrun(self):
        said = self.ok("bench", self.model, "--rate", 10**6, "--loop", 10000, "--concurrency", "1:2", uri=self.uri)
        self.assertEqual(said.count("1000000 runs/s were asked for"), 1)
        self.assertRegex(said, r"\nWith 1 client that is more than could be done.*\nWith 2 clients that is more")

    def test_bench_loses_no_file_with_another(self):
        """/dev/full: a disk that fills while files are written to it."""
        samples, page = f"{self.folder}/kept.csv", f"{self.folder}/kept.html"
        words = "bench", self.model, "--loop", 7
        self.expect(1, "No space left", *words, "--samples", "/dev/full", "--report", page, uri=self.uri)
        self.expect(1, "No space left", *words, "--samples", samples, "--report", "/dev/full", uri=self.uri)
        self.assertEqual(len(pathlib.Path(samples).read_text(encoding="utf-8").splitlines()), 1 + 7)
        self.assertIn("</html>", pathlib.Path(page).read_text(encoding="utf-8"))
        self.expect(2, "the same file", *words, "--samples", samples, "--report", samples, uri=self.uri)

    def other_model(self):
        path = f"{self.folder}/other.rknn"
        with open(path, "wb") as file:
            file.write(b"another model" * 100)
        return path

    def test_bench_of_several_models(self):
        samples, other = f"{self.folder}/mixed.csv", self.other_model()
        before = json.loads(self.ok("status", "--json", uri=self.uri))["jobs_done"]
        said = json.loads(self.ok("bench", self.model, other, self.model, "--clients", 2, "--loop", 30, "--warmup", 1, "--json",
                                  "--samples", samples, uri=self.uri))
        after = json.loads(self.ok("status", "--json", uri=self.uri))["jobs_done"]
        self.assertEqual(after - before, 3 * 2 * 31)
        self.assertEqual([(m["model"], m["clients"], m["runs"]) for m in said["models"]],
                         [(str(self.model), 2, 60), (other, 2, 60), (str(self.model), 2, 60)])
        self.assertEqual((said["clients"], said["runs"]), (6, 180))
        self.assertNotIn("model", said)
        rows = list(csv.DictReader(open(samples, encoding="utf-8")))
        for i, model in enumerate(said["models"]):
            latencies = sorted(float(r["Latency(us)"]) for r in rows if int(r["Model"]) == i)
            self.assertEqual(len(latencies), 60)
            self.assertAlmostEqual(model["latency_us"]["max"], latencies[-1], places=2)
        self.assertAlmostEqual(said["latency_us"]["max"], max(m["latency_us"]["max"] for m in said["models"]), places=2)
        text = self.ok("bench", self.model, other, "-n", 2, uri=self.uri)
        self.assertRegex(text, r"2 models on .*\n +Model +Clients .*\n.* 1 .*\n.*other\.rknn +1 .*\n +all +2 ")
        lines = list(csv.DictReader(self.ok("bench", self.model, other, "-n", 2, "--concurrency", "1:2", "--csv", uri=self.uri).splitlines()))
        self.assertEqual([(r["Model"], r["Clients"]) for r in lines],
                         [(str(self.model), "1"), (other, "1"), ("all", "2"), (str(self.model), "2"), (other, "2"), ("all", "4")])
        self.expect(2, "--input", "bench", self.model, other, "-i", other)

    def test_bench_asked_for_too_much(self):
        asked = 10 ** 6
        said = json.loads(self.ok("bench", self.model, "--rate", asked, "--loop", 10000, "--json", uri=self.uri))
        self.assertEqual((said["asked_per_second"], said["overrun"]), (asked, True))
        self.assertIn("That is more than could be done", self.ok("bench", self.model, "--rate", asked, "--loop", 10000, uri=self.uri))

    def test_bench_for_some_time(self):
        samples = f"{self.folder}/duration.csv"
        self.ok("bench", self.model, "--duration", "0.2", "--clients", 3, "--samples", samples, uri=self.uri)
        rows = list(csv.DictReader(open(samples, encoding="utf-8")))
        self.assertGreater(len(rows), 0)
        self.assertLess(max(float(r["Start(us)"]) for r in rows), 200000)

    def test_ctrl_c_ends_a_bench_with_its_numbers(self):
        bench = subprocess.Popen([RKNNCTL, "--server", self.uri, "bench", self.model, "--loop",
                                  "10000000", "--json"], stdout=subprocess.PIPE)
        start = json.loads(self.ok("status", "--json", uri=self.uri))["jobs_done"]
        end = time.monotonic() + PATIENCE
        while json.loads(self.ok("status", "--json", uri=self.uri))["jobs_done"] < start + 100:
            self.assertLess(time.monotonic(), end)
        bench.send_signal(signal.SIGINT)
        said = json.loads(bench.communicate(timeout=PATIENCE)[0])
        self.assertEqual(bench.returncode, 0)
        self.assertTrue(0 < said["runs"] < 10000000, said)

    def test_a_server_that_dies_in_a_bench_is_3(self):
        daemon = Daemon("--backend", "null:64:64", "--isolation", "thread")
        self.addCleanup(daemon.folder.cleanup)
        bench = subprocess.Popen([RKNNCTL, "--server", daemon.uri, "bench", self.model, "--clients", "4",
                                  "--loop", "10000000"], stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + PATIENCE
        while daemon.status()["jobs_done"] < 100:
            self.assertLess(time.monotonic(), end)
        daemon.process.kill()
        daemon.process.wait()
        error = bench.communicate(timeout=PATIENCE)[1]
        self.assertEqual(bench.returncode, 3, error)
        self.assertRegex(error, r"rknnctl: bench: ended after \d+ runs: client \d: ")


class Terminal(OnDaemon):
    OPTIONS = ("--backend", "null:64:64", "--isolation", "thread", "--model-cache", "0")

    def test_colour_only_where_it_is_wanted(self):
        words = ("--server", self.uri, "status")
        self.assertIn("\033[1m", on_terminal(words)[0])
        self.assertNotIn("\033[", on_terminal(words, env={"NO_COLOR": "1"})[0])
        self.assertNotIn("\033[", on_terminal(words, env={"TERM": "dumb"})[0])
        self.assertNotIn("\033[", self.ok("status", uri=self.uri))

    def test_progress_is_drawn_and_erased(self):
        model = self.file("model.bin", os.urandom(24 << 20))
        given = self.save("in.npy", np.zeros(64, dtype=np.uint8))
        words = ("run", model, "-i", given)
        text, code = on_terminal(("--server", self.uri, *words))
        self.assertEqual(code, 0)
        self.assertIn("100%  24.0 MiB of 24.0 MiB", text)
        bars = [part for part in re.split(r"\r|\n", text) if "%  " in part]
        self.assertLess(max(len(bar.replace("\033[K", "")) for bar in bars), 80)
        self.assertIn("\r\033[K", text.split("100%")[-1])
        self.assertEqual(rknnctl(*words, uri=self.uri).stderr, "")

    def test_ctrl_c_in_an_upload_leaves_the_terminal_clean(self):
        model = self.file("model.bin", os.urandom(256 << 20))
        text, code = on_terminal(("--server", self.uri, "run", model), until=rb"\d%  ")
        self.assertEqual(code, -signal.SIGINT)
        self.assertTrue(text.endswith("\r\033[K"), repr(text[-80:]))

    def test_tables_fit_the_terminal(self):
        given = self.save("a-file-with-a-name-that-is-long-enough-for-a-line.npy",
                          np.zeros(64, dtype=np.uint8))
        model = self.file("model.bin", b"x")
        text, code = on_terminal(("--server", self.uri, "run", model, "-i", given, "--perf"),
                                 env={"NO_COLOR": "1"})
        self.assertEqual(code, 0)
        rows = [line for line in text.replace("\r", "").splitlines() if line.startswith("  ")]
        self.assertLessEqual(max(map(len, rows)), 80, text)


class LongWork(OnDaemon):
    """What takes long shows that it goes on, on a terminal; Ctrl-C keeps what is there."""
    OPTIONS = ("--backend", "null:64:64,delay_us=2000", "--isolation", "thread")

    def check(self, until, result, *words):
        words = ("--server", self.uri, *words)
        text, code = on_terminal(words, until=until)
        self.assertEqual(code, 0, text)
        self.assertRegex(text, result)
        self.assertIn("\r\033[K", re.split(until.decode(), text)[-1])
        drawn = [part.replace("\033[K", "").replace("^C", "") for part in re.split(r"[\r\n]", text) if re.search(until.decode(), part)]
        self.assertLess(max(map(len, drawn)), 80)

    def test_loops_are_counted_and_keep_their_numbers(self):
        model = self.file("model.bin", b"model")
        given = self.save("in.npy", np.zeros(64, dtype=np.uint8))
        self.check(rb"runs .*[1-9]\d* of 200000 ", r"\n\d+ runs by 2 clients", "bench", model, "-n", "100000", "--clients", "2")
        self.check(rb"runs .*\d+ of 100000 ", r"median", "run", model, "-i", given, "-n", "100000")
        self.check(rb"runs .*\d+ of 100000 ", r"runs", "perf", model, "-n", "100000")
        self.check(rb"round trips .*\d+ of 1000000 ", r"\n\d+ round trips: min", "ping", "-n", "1000000")

    def test_waiting_shows_for_how_long(self):
        model = self.file("model.bin", os.urandom(100))
        given = self.save("in.npy", np.zeros(64, dtype=np.uint8))
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(RKNNCTL, [str(RKNNCTL), "-s", self.uri, "run", str(model), "-i", str(given)],
                          {**os.environ, "TERM": "xterm"})
            text = b""
            while not re.search(rb"model.bin: hashing and loading  \d\.\d s", text):
                self.assertTrue(select.select([terminal], [], [], PATIENCE)[0])
                text += os.read(terminal, 65536)
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        rest = b""
        while select.select([terminal], [], [], PATIENCE)[0]:
            try:
                rest += os.read(terminal, 65536)
            except OSError:
                break
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertIn(b"\r\033[K", rest)
        self.assertIn(b"Times", rest.split(b"\r\033[K")[-1])

    def test_nothing_of_it_in_pipes(self):
        model = self.file("model.bin", b"model")
        for words in (("bench", model, "-n", "100"), ("perf", model, "-n", "100"), ("ping", "-n", "100")):
            self.ok(*words, uri=self.uri)


class Digits(OnDaemon):
    OPTIONS = ("--backend", "sim")

    def top(self, *options):
        said = json.loads(self.ok("run", DIGITS, "--json", *options, uri=self.uri))
        return [value["index"] for value in said["outputs"][0]["top"]]

    def test_pictures_are_recognised(self):
        right = sum(self.top("-i", picture)[0] == int(picture.name[0])
                    for picture in sorted(PICTURES.glob("*.png")))
        self.assertGreaterEqual(right, 19)

    def test_arrays_say_the_same_as_the_picture(self):
        picture = PICTURES / "3_0.png"
        expected = json.loads(self.ok("run", DIGITS, "-i", picture, "--json", uri=self.uri))["outputs"]
        pixels = read_gray_png(picture)
        for name, array, options in (("nhwc", pixels.reshape(1, 8, 8, 1), ()),
                                     ("plane", pixels, ()),
                                     ("float", pixels.reshape(1, 8, 8, 1).astype(np.float32), ()),
                                     ("nchw", pixels.reshape(1, 1, 8, 8), ("--layout", "nchw"))):
            given = self.save(f"{name}.npy", array)
            said = json.loads(self.ok("run", DIGITS, "-i", given, "--json", *options, uri=self.uri))
            self.assertEqual(said["outputs"], expected, name)

    def test_layers_and_memory(self):
        text = self.ok("run", DIGITS, "-i", PICTURES / "3_0.png", "--perf", uri=self.uri)
        self.assertRegex(text, r"ConvRelu +INT8 +NPU .* Conv:conv1")
        self.assertRegex(text, r"weights +[\d.]+ KiB")

    def test_cores(self):
        run = ("run", DIGITS, "-i", PICTURES / "3_0.png", "--json", "--perf")
        said = json.loads(self.ok(*run, "--core-mask", "1", uri=self.uri))
        self.assertEqual({layer["core_mask"] for layer in said["layers"]}, {2})

    def test_wrong_models_and_inputs(self):
        broken = self.file("broken.rknn", DIGITS.read_bytes()[:1000])
        self.expect(4, "broken.rknn", "run", broken, uri=self.uri)
        large = self.file("large.png", (SOURCE / "examples/digits/digits.png").read_bytes())
        self.expect(5, "the model takes 8x8", "run", DIGITS, "-i", large, uri=self.uri)
        int64 = self.save("i.npy", np.zeros((1, 8, 8, 1), np.int64))
        self.expect(5, "INT64", "run", DIGITS, "-i", int64, uri=self.uri)

    def test_a_private_server(self):
        said = json.loads(self.ok("run", DIGITS, "-i", PICTURES / "7_0.png", "--json", uri="sim:rk3588"))
        self.assertEqual(said["server"]["chip"], "rk3588")
        self.assertEqual(said["outputs"][0]["top"][0]["index"], 7)
        self.expect(4, "rk3588", "run", DIGITS, "-i", PICTURES / "7_0.png", uri="sim:rk3568")


def read_gray_png(path):
    """The pixels of a PNG without filters' help: through the tool's own way would prove nothing."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, bits, colour = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    EXPECT.assertEqual((bits, colour), (8, 0))
    rows, above = [], np.zeros(width, int)
    raw = zlib.decompress(packed)
    for y in range(height):
        filter_type, *line = raw[y * (width + 1):(y + 1) * (width + 1)]
        row = unfilter(filter_type, line, above)
        rows.append(row)
        above = row
    return np.array(rows, dtype=np.uint8)


def unfilter(filter_type, line, above):
    row = np.zeros(len(line), int)
    for x, value in enumerate(line):
        left, up, corner = (row[x - 1] if x else 0), above[x], (above[x - 1] if x else 0)
        p = left + up - corner
        paeth = min((abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner))[2]
        row[x] = (value + (0, left, up, (left + up) // 2, paeth)[filter_type]) & 255
    return row


@unittest.skipUnless((SHARED / "models/rknn").is_dir(), f"{SHARED}/models is not there")
class SharedModels(Case):
    """multiple_input_demo of each chip: within a quantization step of the golden output."""

    def check(self, uri, chip):
        golden = SHARED / "models/golden" / f"multiple_input_demo.{chip}"
        model = SHARED / "models/rknn" / f"multiple_input_demo.{chip}.rknn"
        said = json.loads(self.ok("run", model, "-i", f"{golden}.in0.npy", "-i", f"{golden}.in1.npy", "-o",
                                  self.folder, "--json", uri=uri))
        wrong = np.abs(np.load(self.folder / "out0.npy") - np.load(f"{golden}.out0.npy")).max()
        self.assertLessEqual(wrong, said["outputs"][0]["scale"] * 1.001, f"{chip} over {uri}")

    def test_over_unix_and_tcp_in_both_isolation_modes(self):
        for isolation in ("process", "thread"):
            tcp = f"tcp:127.0.0.1:{free_port()}"
            daemon = Daemon("--backend", "sim", "--isolation", isolation, "--listen", tcp)
            try:
                for chip in CHIPS:
                    self.check(daemon.uri, chip)
                    self.check(tcp, chip)
            finally:
                daemon.stop()

    def test_over_sim(self):
        for chip in CHIPS:
            self.check("sim:" + chip.split("_")[0], chip)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
