#!/usr/bin/python3
"""rknnctl board-test: on a machine without an NPU, and with emulators that stand in for devices, good ones and bad ones."""
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import tarfile
import tempfile
import unittest

from support.service import BUILD, Daemon, wait_for

RKNNCTL = BUILD / "bin/rknnctl"
LONG = 300
CHIPS = ("rk3588", "rk3576", "rk3566", "rk3568", "rk3562", "rv1126b", "rv1103", "rv1106")
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Kit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-kit-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.journal = self.folder / "state/journal"

    def words(self, *words):
        return [RKNNCTL, *words, "-o", self.folder / "kit.tar.xz", "--journal", self.journal]

    def run_kit(self, *words, server=(), expect=0):
        """What it found, as the file to send has it."""
        done = subprocess.run(self.words(*server, "board-test", *words), capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, expect, done.stderr)
        self.said = done.stderr
        if expect:
            return None
        with tarfile.open(self.folder / "kit.tar.xz") as archive:
            self.names = sorted(archive.getnames())
            self.texts = {m.name: archive.extractfile(m).read().decode() for m in archive}
        return json.loads(self.texts["board-test/result.json"])

    def results(self, found, target):
        return {p["id"]: r for p in found["probes"] for r in p["results"] if r["target"] == target}

    def device(self, backend, *words):
        daemon = Daemon("--backend", backend, *words)
        self.addCleanup(daemon.stop)
        return "--server", daemon.uri


class WithoutNpu(Kit):
    def test_each_chip(self):
        for chip in CHIPS:
            with self.subTest(chip=chip):
                found = self.run_kit("--chip", chip)
                there = {t["name"] for t in found["targets"] if t["there"]}
                self.assertEqual(there, {"emulator", "software"})
                for target in there:
                    bad = {i: r for i, r in self.results(found, target).items() if r["is"] != "ok"}
                    self.assertEqual(bad, {})
                self.assertGreaterEqual(len(self.results(found, "software")), 6)

    def test_says_what_is_not_there(self):
        found = self.run_kit("--probe", "conv")
        self.assertEqual(found["chip"], "rk3588")
        self.assertIn("No chip was found", " ".join(found["facts"]["hints"]))
        why = {t["name"]: t.get("failed", "") for t in found["targets"]}
        self.assertIn("not a board", why["vendor"])
        self.assertIn("no node of the driver", why["rknpu"])
        self.assertIn("no node of the driver", why["rocket"])

    def test_files(self):
        self.run_kit("--probe", "conv")
        self.assertEqual(self.names, [f"board-test/{n}" for n in ("README.txt", "log.txt", "page.html", "result.json")])
        page = (self.folder / "kit.html").read_text()
        self.assertEqual(page, self.texts["board-test/page.html"])
        host = socket.gethostname()
        for name, text in self.texts.items():
            if len(host) > 3:
                self.assertNotIn(host, text, name)
            self.assertNotIn(str(self.folder), text, name)

    def test_unknown_names(self):
        self.run_kit("--probe", "nonsense", expect=2)
        self.assertIn('no probe "nonsense"', self.said)
        self.run_kit("--chip", "rk9999", expect=4)
        self.assertIn("no models for rk9999", self.said)

    def test_tables_that_are_none(self):
        bit = {"id": "A", "choice": 0, "tensors": []}
        for table, words in (([], "no probes"), ({"probes": 5}, "no probes"),
                             ({"probes": [7]}, "probe 1 has no id"), ({"probes": [{"id": "a"}, {}]}, "probe 2 has no id"),
                             ({"probes": [{"id": "x" * 400}]}, "probe 1 has no id"),
                             ({"probes": [{"id": "a", "switch": "tie-rule", "hypotheses": [bit]}]}, 'switch "tie-rule"'),
                             ({"probes": [{"id": "a", "hypotheses": [bit]}]}, 'switch ""'),
                             ({"probes": [{"id": "a", "switch": "out-zp", "hypotheses": [{**bit, "choice": 9}]}]}, "choice 9")):
            with self.subTest(words), tarfile.open(self.folder / "rk3588.tar.xz", "w:xz") as archive:
                data = json.dumps(table).encode()
                entry = tarfile.TarInfo("kit.json")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
                archive.close()
                self.run_kit("--chip", "rk3588", "--models", self.folder, "--probe", "a", expect=4)
                self.assertIn(words, self.said)
        (self.folder / "rk3588.tar.xz").write_bytes(b"none")
        self.run_kit("--chip", "rk3588", "--models", self.folder, expect=4)
        self.assertIn("archive", self.said)

    def test_unwritable_file_before_anything_is_tried(self):
        done = subprocess.run([RKNNCTL, "board-test", "-o", "/nowhere/kit.tar.xz", "--journal", self.journal],
                              capture_output=True, text=True, timeout=LONG)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(self.journal.exists() and self.journal.read_text())


class Devices(Kit):
    def test_good(self):
        found = self.run_kit(server=self.device("emu:rk3588"))
        device = self.results(found, "device")
        self.assertEqual({i for i, r in device.items() if r["is"] != "ok"}, {"cores-2", "cores-3"})
        self.assertIn("risky", device["cores-2"]["words"])
        self.assertGreater(device["chain"]["median_us"], 0)

    def test_risky_ones_by_name(self):
        found = self.run_kit("--probe", "cores-2", "--probe", "cores-3", server=self.device("emu:rk3588"))
        self.assertEqual({i: r["is"] for i, r in self.results(found, "device").items()}, {"cores-2": "ok", "cores-3": "ok"})

    def test_other_hypotheses(self):
        switches = ("out-zp", "ew-shift", "lut-in", "lut-line", "lut-slope")
        found = self.run_kit(server=self.device("emu:rk3588," + ",".join(f"{s}=1" for s in switches)))
        device = self.results(found, "device")
        for name in switches:
            with self.subTest(probe=name):
                self.assertEqual(device[name]["is"], "other", device[name])
                self.assertEqual(device[name]["switch"], name)
                self.assertNotEqual(device[name]["hypothesis"], device[name]["taken"])
        self.assertEqual(device["out-zp"]["hypothesis"], "behind")
        self.assertEqual(device["conv"]["is"], "ok")

    def test_other_hypotheses_of_sums(self):
        device = self.results(self.run_kit("--probe", "sum-shift", server=self.device("emu:rk3576,sum-shift=1")), "device")
        self.assertEqual((device["sum-shift"]["is"], device["sum-shift"]["hypothesis"]), ("other", "down"))

    def test_one_wrong_bit(self):
        found = self.run_kit(server=self.device("emu:rk3588,wrong@0"))
        device = self.results(found, "device")
        integers = {r["is"] for i, r in device.items() if i != "half" and not i.startswith("cores")}
        self.assertEqual(integers, {"wrong"})  # the last bit of a half is within its rounding
        first = device["chain"]["first"]
        self.assertEqual((first["tensor"], first["node"], first["index"]), ("conv_out", "Conv:conv", 0))
        self.assertEqual(abs(first["expected"] - first["seen"]), 1)
        self.assertIn("of node Conv:conv, value 0", self.said)

    def test_dies(self):
        found = self.run_kit(server=self.device("emu:rk3588,crash@0"))
        device = self.results(found, "device")
        self.assertEqual(device["conv"]["is"], "failed")
        self.assertIn("left alone", device["chain"]["words"])
        self.assertEqual(self.results(found, "emulator")["chain"]["is"], "ok")

    def test_hangs(self):
        found = self.run_kit(server=self.device("emu:rk3588,hang@0", "--job-timeout-ms", "1500"))
        device = self.results(found, "device")
        self.assertEqual(device["conv"]["is"], "failed")
        self.assertIn("left alone", device["chain"]["words"])

    def test_times_out_once(self):
        found = self.run_kit(server=self.device("emu:rk3588,timeout@1"))
        device = self.results(found, "device")
        self.assertEqual(device["conv"]["is"], "failed")
        self.assertIn("without its interrupt", device["conv"]["words"])


class Journal(Kit):
    def past(self, boot, target="software", probe="chain"):
        self.journal.parent.mkdir(exist_ok=True)
        self.journal.write_text(f"begin {boot} {target} conv\nend {boot} {target} conv\nbegin {boot} {target} {probe}\n")

    def test_what_a_reboot_cut_is_not_repeated(self):
        self.past("00000000-0000-0000-0000-000000000000")
        found = self.run_kit()
        software = self.results(found, "software")
        self.assertEqual(software["chain"]["is"], "skipped")
        self.assertIn("started again", software["chain"]["words"])
        self.assertEqual(software["conv"]["is"], "ok")
        self.assertEqual(self.results(found, "emulator")["chain"]["is"], "ok")
        again = self.results(self.run_kit("--probe", "chain"), "software")
        self.assertEqual(again["chain"]["is"], "ok")
        self.assertEqual(self.results(self.run_kit(), "software")["chain"]["is"], "ok")

    def test_kit_that_was_killed(self):
        server = self.device("emu:rk3588,hang@0", "--job-timeout-ms", "60000")
        kit = subprocess.Popen(self.words(*server, "board-test", "--probe", "conv"), stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
        wait_for("the probe to begin", lambda: self.journal.exists() and "device conv" in self.journal.read_text())
        kit.send_signal(signal.SIGKILL)
        kit.wait()
        self.assertTrue(self.journal.read_text().endswith(f"begin {BOOT} device conv\n"))
        found = self.run_kit(server=self.device("emu:rk3588"))
        self.assertIn("ended without a word", self.results(found, "device")["conv"]["words"])

    def test_two_at_a_time(self):
        server = self.device("emu:rk3588,hang@0", "--job-timeout-ms", "60000")
        kit = subprocess.Popen(self.words(*server, "board-test", "--probe", "conv"), stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
        try:
            wait_for("the probe to begin", lambda: self.journal.exists() and "device conv" in self.journal.read_text())
            self.run_kit(expect=1)
            self.assertIn("another board-test is running", self.said)
        finally:
            kit.kill()
            kit.wait()


if __name__ == "__main__":
    os.environ.pop("RKNND_SERVER", None)
    unittest.main()
