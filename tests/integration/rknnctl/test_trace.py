#!/usr/bin/python3
"""rknnctl trace against daemons with clients at work."""
import collections
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from support import trace_format
from support.service import BUILD, DIGITS, PATIENCE, SOURCE, Daemon, wait_for

SEVEN = SOURCE / "examples/digits/pictures/7_0.png"


def trace(daemon, *words):
    done = daemon.rknnctl("trace", "-o", "-", *words)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    trace_format.check(said)
    return said["traceEvents"]


def named(events, ph, name):
    return [e for e in events if e["ph"] == ph and e["name"] == name]


class Trace(unittest.TestCase):
    def daemon(self, *options):
        daemon = Daemon("--backend", "sim:rk3588", *options)
        self.addCleanup(daemon.stop)
        return daemon

    def test_shows_clients_cores_and_layers(self):
        daemon = self.daemon()
        done = daemon.rknnctl("bench", str(DIGITS), "--clients", "2", "-n", "10", "-w", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = daemon.rknnctl("run", str(DIGITS), "-i", str(SEVEN), "--perf")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = trace(daemon)
        phases = collections.Counter(e["name"] for e in events if e["ph"] == "b" and e["pid"] == 1)
        n = phases["digits.rknn"]
        self.assertGreaterEqual(n, 21)
        self.assertEqual([phases[p] for p in ("inputs", "queue", "run", "outputs")], [n] * 4)
        self.assertEqual(len([e for e in events if e["ph"] == "e" and e["pid"] == 1]), 5 * n)
        work = named(events, "X", "digits.rknn")
        self.assertEqual(len(work), n)
        layer, = (e for e in events if e["ph"] in "Xi" and e["name"] == "Conv:conv1")
        run, = (e for e in work if e["args"]["run"] == layer["args"]["run"])
        self.assertEqual(run["tid"], layer["tid"])
        self.assertLessEqual(run["ts"], layer["ts"])
        self.assertLessEqual(layer["ts"] + layer.get("dur", 0), run["ts"] + run["dur"])
        self.assertEqual(len(named(events, "b", "upload digits.rknn")), 1)
        self.assertEqual(len(named(events, "e", "load digits.rknn")), 1)
        tracks = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
        self.assertTrue(any(t.startswith("client 2 rknnctl ") for t in tracks), tracks)
        self.assertIn("core 0", tracks)
        self.assertLessEqual(len([t for t in tracks if t.startswith("client ")]), 8, tracks)

    def test_of_one_core_no_two_runs_overlap(self):
        daemon = self.daemon()
        done = daemon.rknnctl("bench", str(DIGITS), "--clients", "4", "-n", "20", "--core-mask",
                              "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        work = sorted(named(trace(daemon), "X", "digits.rknn"), key=lambda e: e["ts"])
        self.assertGreaterEqual(len(work), 80)
        self.assertEqual({e["tid"] for e in work}, {1})
        for before, after in zip(work, work[1:]):
            self.assertLessEqual(before["ts"] + before["dur"], after["ts"])

    def test_layers_lie_inside_their_runs_and_all_ends(self):
        daemon = self.daemon()
        clients = [subprocess.Popen([BUILD / "bin/rknnctl", "perf", DIGITS, "--loop", "50", "--core-mask", mask],
                                    env=daemon.env, stdout=subprocess.DEVNULL) for mask in ("0", "0,1,2", "1", "auto")]
        for client in clients:
            self.assertEqual(client.wait(PATIENCE), 0)
        done = daemon.rknnctl("trace", "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(trace_format.check(json.loads(done.stdout)), [])

    def test_the_server_keeps_no_more_than_it_says(self):
        daemon = self.daemon("--trace-events", "64")
        daemon.rknnctl("bench", str(DIGITS), "-n", "100")
        events = trace(daemon)
        self.assertLessEqual(len(named(events, "X", "digits.rknn")), 64 // 5 + 1)
        self.assertGreaterEqual(len(events), 64)

    def test_a_server_that_records_nothing(self):
        daemon = self.daemon("--trace-events", "0")
        daemon.rknnctl("bench", str(DIGITS), "-n", "3")
        self.assertEqual(named(trace(daemon), "X", "digits.rknn"), [])

    def test_a_dead_worker_is_seen(self):
        daemon = self.daemon()
        client = daemon.client(DIGITS, 1)
        wait_for("a worker", daemon.children)
        for pid in daemon.children():
            subprocess.run(["kill", "-9", str(pid)], check=False)
        wait_for("its death", lambda: daemon.status()["worker_deaths"] > 0)
        client.communicate(timeout=PATIENCE)
        self.assertTrue(named(trace(daemon), "i", "worker died: digits.rknn"))

    def test_watching_ends_with_ctrl_c_and_a_file(self):
        daemon = self.daemon()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.json"
            watcher = subprocess.Popen(
                [BUILD / "bin/rknnctl", "trace", "--seconds", "600", "-o", path], env=daemon.env,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            wait_for("it to look", lambda: daemon.status()["sessions"] > 1)
            daemon.rknnctl("bench", str(DIGITS), "-n", "5", "-w", "0")
            watcher.send_signal(signal.SIGINT)
            out, err = watcher.communicate(timeout=PATIENCE)
            self.assertEqual((watcher.returncode, err), (0, ""))
            self.assertIn("ui.perfetto.dev", out)
            events = json.loads(path.read_text())["traceEvents"]
            self.assertGreaterEqual(len(named(events, "X", "digits.rknn")), 5)

    def test_refuses(self):
        daemon = self.daemon()
        self.assertEqual(daemon.rknnctl("trace", "--seconds", "0").returncode, 2)
        self.assertEqual(daemon.rknnctl("trace", "-o", "/nowhere/t").returncode, 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
