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
import unittest.mock

from boardkit.__main__ import kit, save
from rknnwriter import container
from support.service import BUILD, Daemon, wait_for

RKNNCTL = BUILD / "bin/rknnctl"
LONG = 300
RISKY = ("cores-2", "cores-3", "barrier-2", "barrier-3")
CHIPS = ("rk3588", "rk3576", "rk3566", "rk3568", "rk3562", "rv1126b", "rv1103", "rv1106")
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Kit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-kit-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.journal = self.folder / "state/journal"
        (self.folder / "tmp").mkdir()
        self.environment = dict(os.environ, TMPDIR=str(self.folder / "tmp"))

    def words(self, *words):
        return [RKNNCTL, *words, "-o", self.folder / "kit.tar.xz", "--journal", self.journal]

    def run_kit(self, *words, server=(), expect=0):
        """What it found, as the file to send has it."""
        done = subprocess.run(self.words(*server, "board-test", *words), capture_output=True, text=True, timeout=LONG,
                              env=self.environment)
        self.assertEqual(done.returncode, expect, done.stderr)
        self.assertEqual(os.listdir(self.folder / "tmp"), [])
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

    def test_device_by_name(self):
        found = self.run_kit("--probe", "conv", "--way", "rknpu:/dev/dri/card77", "--way", "rocket:/dev/null", "--way", "software")
        why = {t["name"]: t.get("failed", "") for t in found["targets"]}
        self.assertEqual(list(why), ["rknpu:/dev/dri/card77", "rocket:/dev/null", "software"])
        self.assertIn("/dev/dri/card77: No such file", why["rknpu:/dev/dri/card77"])
        self.assertIn("not a node of the driver", why["rocket:/dev/null"])
        self.run_kit("--way", "rknpu:/dev/dri/card1,sram", expect=2)
        self.assertIn("rknpu[:DEVICE]", self.said)

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

    def test_standard_output(self):
        """ssh board rknnctl board-test -o - > kit.tar.xz"""
        words = [RKNNCTL, "board-test", "--way", "software", "--probe", "conv", "--journal", self.journal]
        done = subprocess.run([*words, "-o", "-", "--page", self.folder / "p.html"], capture_output=True, timeout=LONG, check=True)
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            self.assertEqual(len(archive.getnames()), 4)
        self.assertEqual(done.stdout[-2:], b"YZ")  # the end of an xz stream: nothing follows
        self.assertIn(b"to send: -", done.stderr)
        page = subprocess.run([*words, "-o", self.folder / "k.tar.xz", "--page", "-"], capture_output=True, timeout=LONG, check=True)
        self.assertTrue(page.stdout.rstrip().endswith(b"</html>"), page.stdout[-100:])
        for two in (("-o", "-", "-j"), ("-o", "-", "--page", "-")):
            done = subprocess.run([*words, *two], capture_output=True, text=True, timeout=LONG, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("standard output is for one", done.stderr)

    def test_boards_where_little_can_be_written(self):
        """A home and folders for temporary files that are read-only, or not there: /proc takes no files, not even root's."""
        place = pathlib.Path(f"/var/tmp/rknnd-board-test-{os.getuid()}")
        was_there = place.exists()
        words = [RKNNCTL, "board-test", "--way", "software", "--probe", "conv", "-o", self.folder / "k.tar.xz"]
        odd = dict(os.environ, HOME="/proc/home", XDG_STATE_HOME="/proc/state", TMPDIR="/proc/tmp")
        for environment in (odd, {"HOME": "/proc/home"}):
            done = subprocess.run(words, capture_output=True, text=True, timeout=LONG, env=environment, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, "conv +software +ok")
        self.assertIn(f"end {BOOT} software conv", place.read_text())
        if not was_there:
            place.unlink()

    def test_a_full_disk(self):
        """What was found is not thrown away."""
        temporary = self.folder / "tmp"
        done = subprocess.run([RKNNCTL, "board-test", "--way", "software", "--probe", "conv", "-o", "/dev/full", "--page",
                               self.folder / "p.html", "--journal", self.journal], capture_output=True, text=True,
                              timeout=LONG, env=self.environment, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left", done.stderr)
        (kept,) = temporary.glob("*.tar.xz")
        self.assertIn(f"what was found is in {kept} instead", done.stderr)
        with tarfile.open(kept) as archive:
            self.assertEqual(len(archive.getnames()), 4)
        kept.unlink()
        self.assertTrue((self.folder / "p.html").exists())
        found = self.run_kit("--way", "software", "--probe", "conv", "--page", "/dev/full", expect=1)
        self.assertIsNone(found)
        self.assertIn(f"the page is in {self.folder}/kit.tar.xz, too", self.said)

    def test_unknown_names(self):
        self.run_kit("--probe", "nonsense", expect=2)
        self.assertIn('no probe "nonsense"', self.said)
        self.run_kit("--chip", "rk9999", expect=4)
        self.assertIn("no models for rk9999", self.said)

    def test_variants_of_chips(self):
        for chip in ("rk3588s", "RK3588"):
            found = self.run_kit("--chip", chip, "--way", "software", "--probe", "conv")
            self.assertEqual((found["chip"], [t["name"] for t in found["targets"]]), ("rk3588", ["software"]))
            self.assertEqual(self.results(found, "software")["conv"]["is"], "ok")

    def test_targets_by_name(self):
        for words in (("--way", "device"), ("-s", "sim:", "--way", "rknpu"), ("--way", "")):
            self.run_kit(*words, expect=2)
            self.assertIn("is none of", self.said)
            self.assertFalse(self.journal.exists())

    def test_tables_that_are_none(self):
        bit = {"id": "A", "choice": 0, "tensors": []}
        for table, words in (([], "no probes"), ({"probes": 5}, "no probes"),
                             ({"probes": [7]}, "probe 1 has no id"), ({"probes": [{"id": "a"}, {}]}, "probe 2 has no id"),
                             ({"probes": [{"id": "x" * 400}]}, "probe 1 has no id"),
                             ({"probes": [{"id": "a\nend b c a"}]}, "probe 1 has no id"),
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
        with tarfile.open(self.folder / "rk3588.tar.xz", "w:xz") as archive:  # some kilobytes
            for i in range(5000):
                archive.addfile(tarfile.TarInfo(str(i)))
        self.run_kit("--chip", "rk3588", "--models", self.folder, expect=4)
        self.assertIn("more than 4096 files", self.said)
        (self.folder / "rk3588.tar.xz").write_bytes(b"none")
        self.run_kit("--chip", "rk3588", "--models", self.folder, expect=4)
        self.assertIn("archive", self.said)

    def test_a_journal_that_is_no_file(self):
        fifo, socket_ = self.folder / "fifo", self.folder / "socket"
        os.mkfifo(fifo)
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(socket_))
            for journal, words in ((fifo, "is no ordinary file"), ("/dev/null", "is no ordinary file"),
                                   (socket_, "--journal FILE"), (fifo / "below", f"{fifo} is no folder")):
                with self.subTest(journal):
                    self.journal = journal
                    self.run_kit("--chip", "rk3588", "--probe", "conv", expect=2 if words.startswith("is") else 1)
                    self.assertIn(words, self.said)

    def test_unwritable_file_before_anything_is_tried(self):
        done = subprocess.run([RKNNCTL, "board-test", "-o", "/nowhere/kit.tar.xz", "--journal", self.journal],
                              capture_output=True, text=True, timeout=LONG)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(self.journal.exists() and self.journal.read_text())


class Devices(Kit):
    def test_good(self):
        found = self.run_kit(server=self.device("emu:rk3588"))
        device = self.results(found, "device")
        self.assertEqual({i for i, r in device.items() if r["is"] != "ok"}, set(RISKY))
        self.assertIn("risky", device["cores-2"]["words"])
        self.assertGreater(device["chain"]["median_us"], 0)

    def test_risky_ones_by_name(self):
        found = self.run_kit(*(w for i in RISKY for w in ("--probe", i)), server=self.device("emu:rk3588", "--slice-us", "0"))
        self.assertEqual({i: r["is"] for i, r in self.results(found, "device").items()}, dict.fromkeys(RISKY, "ok"))

    def test_cores_that_wait(self):
        """Nothing is read too early, or changed too early, by the programs whose cores share rows."""
        found = self.run_kit("--probe", "barrier-2", "--probe", "barrier-3",
                             server=self.device("emu:rk3588,races", "--slice-us", "0"))
        self.assertEqual([r["is"] for r in self.results(found, "device").values()], ["ok", "ok"])

    def test_cores_that_run_on(self):
        """The programs do not say where cores begin together: to the emulator they are a chip whose cores do not wait."""
        with unittest.mock.patch.object(container, "CORES", (1,) * 6):
            save(self.folder / "rk3588.tar.xz", kit("rk3588"))
        barriers = ("--models", self.folder, "--probe", "barrier-2", "--probe", "barrier-3")
        device = self.results(self.run_kit(*barriers, server=self.device("emu:rk3588", "--slice-us", "0")), "device")
        self.assertEqual({(r["is"], r["hypothesis"], r["taken"]) for r in device.values()}, {("other", "run-on", "wait")}, device)
        device = self.results(self.run_kit(*barriers, server=self.device("emu:rk3588,races", "--slice-us", "0")), "device")
        self.assertEqual({r["is"] for r in device.values()}, {"failed"}, device)

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
        integers = {r["is"] for i, r in device.items() if i != "half" and i not in RISKY}
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
        found = self.run_kit(server=self.device("emu:rk3588,hang@0", "--job-timeout-ms", "5000"))
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

    def test_what_stopped_the_machine_behind_a_failure(self):
        """Each failure leads to the simplest model: where that stopped the machine it is not run again and again."""
        self.past("00000000-0000-0000-0000-000000000000", "device", "alive")
        found = self.run_kit("--way", "device", server=self.device("emu:rk3588,timeout@1"))
        device = self.results(found, "device")
        self.assertIn('"alive" was running on device, and the machine has been started again', " ".join(found["facts"]["hints"]))
        self.assertEqual(device["conv"]["is"], "failed")
        self.assertIn("stopped once", device["chain"]["words"])
        self.assertNotIn(f"{BOOT} device alive", self.journal.read_text())

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

    def test_ctrl_c(self):
        """The process of the probe and its daemon are killed; nothing of them is left."""
        temporary = self.folder / "tmp"
        kit = subprocess.Popen(self.words("board-test", "--way", "emulator"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               env=self.environment)
        wait_for("a daemon's socket", lambda: list(temporary.glob("*/s")))
        kit.send_signal(signal.SIGINT)
        kit.wait(LONG)
        self.assertEqual(os.listdir(temporary), [])

    def test_interrupted_twice_at_once(self):
        """As timeout(1) does, which signals the kit and its group: what was found is written all the same."""
        kit = subprocess.Popen(self.words("board-test", "--way", "emulator"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               text=True, env=self.environment)
        wait_for("a daemon's socket", lambda: list((self.folder / "tmp").glob("*/s")))
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):  # both wait for it to go on
            kit.send_signal(number)
        said = kit.communicate(timeout=LONG)[1]
        self.assertEqual(kit.returncode, 0, said)
        self.assertIn("stopped by Ctrl-C", said)
        with tarfile.open(self.folder / "kit.tar.xz") as archive:
            self.assertEqual(len(archive.getnames()), 4)

    def test_folders_of_killed_ones(self):
        """A kit that was killed has left one; the next one removes it when it is old, and none of others."""
        temporary = self.folder / "tmp"
        old, young, others = (temporary / n for n in ("rknnd-board-aaaaaa", "rknnd-board-bbbbbb", "rknnd-boards"))
        for made in (old, young, others):
            made.mkdir()
            (made / "s").touch()
        for made in (old, others):
            os.utime(made, (0, 0))
        done = subprocess.run(self.words("board-test", "--way", "software", "--probe", "conv"), capture_output=True, text=True,
                              timeout=LONG, env=self.environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(temporary)), [young.name, others.name])

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
