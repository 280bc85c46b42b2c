#!/usr/bin/python3
"""In the guest: `rknnctl board-test` as a person runs it, on nodes of kernel drivers, those of a module of ours
(tests/vm/module) whose jobs a program computes on the emulator. The board is one with an RK3588S; its device tree is
a file here, which the daemons that the kit starts are told by a script in front of rknnd."""
import json
import os
import pathlib
import signal
import subprocess
import tarfile
import unittest

from board import kernel_complaints, run
from support.service import BUILD, PATIENCE, wait_for

COMPATIBLE, DAEMON, JOURNAL, KIT = (pathlib.Path(f"/tmp/{n}") for n in ("compatible", "rknnd", "journal", "kit.tar.xz"))
MODULE = pathlib.Path(os.environ["RKNND_NPU_MODULE"])
RISKY = ("cores-2", "cores-3", "barrier-2", "barrier-3")
PARAMETERS = pathlib.Path("/sys/module/rknnd_npu/parameters")
WRAPPER = f"""#!/bin/sh
for word; do
    case $word in
    open:*:*) word="$word,compatible={COMPATIBLE}" ;;
    open:*) word="$word:,compatible={COMPATIBLE}" ;;
    esac
    set -- "$@" "$word"
    shift
done
exec {BUILD}/bin/rknnd "$@"
"""


def count(name):
    return int((PARAMETERS / name).read_text())


def words(*options):
    return [BUILD / "bin/rknnctl", "board-test", "--chip", "rk3588s", "-o", KIT, "--journal", JOURNAL, *options]


class BoardKit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        COMPATIBLE.write_bytes(b"our,board\0rockchip,rk3588s\0")
        DAEMON.write_text(WRAPPER)
        DAEMON.chmod(0o755)
        os.environ["RKNND_DAEMON"] = str(DAEMON)
        run("modprobe", "drm_shmem_helper")
        run("insmod", MODULE)
        cls.start_helper()

    @classmethod
    def start_helper(cls):
        cls.helper = subprocess.Popen([BUILD / "tests/vm/npu_helper", "rk3588"])

    @classmethod
    def tearDownClass(cls):
        cls.helper.kill()
        cls.helper.wait()
        run("rmmod", "rknnd_npu")  # nothing holds it

    def setUp(self):
        JOURNAL.unlink(missing_ok=True)

    def tearDown(self):
        wait_for(lambda: f"{count('objects')} objects, {count('jobs')} jobs",
                 lambda: count("objects") == count("jobs") == count("imports") == 0)
        self.assertEqual(kernel_complaints(), [])

    def found(self, *options):
        """What a kit found, as the file to send has it: the targets by name, and {(probe, target): result}."""
        done = subprocess.run(words(*options), capture_output=True, text=True, timeout=PATIENCE * 4, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(KIT) as archive:
            result = json.loads(archive.extractfile("board-test/result.json").read())
        self.hints = " ".join(result["facts"]["hints"])
        return ({t["name"]: t for t in result["targets"]},
                {(p["id"], r["target"]): r for p in result["probes"] for r in p["results"]})

    def test_1_both_drivers(self):
        targets, results = self.found("--way", "rknpu", "--way", "rocket", "--way", "vendor")
        self.assertIn("Rockchip", targets["vendor"]["failed"])
        self.assertEqual([targets[t]["server"]["chip"] for t in ("rknpu", "rocket")], ["rk3588"] * 2)
        tried = {at: r for at, r in results.items() if r["is"] != "skipped"}
        self.assertEqual({at: r["is"] for at, r in tried.items()}, dict.fromkeys(tried, "ok"))
        self.assertEqual({at[0] for at in results if at not in tried}, {*RISKY, *(p for p, t in results if t == "vendor")})
        on_cpu = {layer["op"] for layer in results["depthwise", "rocket"]["layers"] if layer["target"] == "CPU"}
        self.assertIn("MaxPool", on_cpu)  # what mainline's driver cannot end
        self.assertNotIn("MaxPool", {layer["op"] for layer in results["depthwise", "rknpu"]["layers"] if layer["target"] == "CPU"})

    def test_2_cores_by_name(self):
        _, results = self.found("--way", "rknpu", "--way", "rocket", *(w for i in RISKY for w in ("--probe", i)))
        self.assertEqual({results[i, "rknpu"]["is"] for i in RISKY}, {"ok"}, results)
        for i in RISKY:
            self.assertRegex(results[i, "rocket"]["words"], "one core")

    def test_3_a_device_by_name(self):
        _, results = self.found("--way", "rknpu:/dev/rknpu", "--probe", "conv")
        self.assertEqual(results["conv", "rknpu:/dev/rknpu"]["is"], "ok")

    def test_3_dev_rknpu(self):
        """A board with an older kernel: no nodes of DRM."""
        gone = list(pathlib.Path("/dev/dri").glob("[rc]*"))  # nobody else has one here
        kept = [(path, path.stat()) for path in gone]
        self.assertTrue(gone)
        for path in gone:
            path.unlink()
        try:
            _, results = self.found("--way", "rknpu", "--probe", "conv", "--probe", "lut-in")
        finally:
            for path, old in kept:
                os.mknod(path, old.st_mode, old.st_rdev)
        self.assertEqual({r["is"] for r in results.values()}, {"ok"}, results)

    def hold(self, target, *options):
        """A kit one of whose jobs of the probe chain is being computed, and is not ended."""
        kit = subprocess.Popen(words("--way", target, *options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True)
        wait_for("the probe to begin", lambda: JOURNAL.exists() and f"{target} chain\n" in JOURNAL.read_text())
        while True:  # ctest and the guest's own limit end it
            self.helper.send_signal(signal.SIGSTOP)
            if count("taken"):
                return kit
            self.assertIsNone(kit.poll(), "it went by")
            self.helper.send_signal(signal.SIGCONT)

    def test_4_a_chip_that_hangs_once(self):
        kit = self.hold("rknpu", "--probe", "chain", "--probe", "depthwise")
        self.helper.kill()
        self.helper.wait()
        self.start_helper()
        _, said = kit.communicate(timeout=PATIENCE * 4)
        self.assertEqual(kit.returncode, 0, said)
        self.assertRegex(said, "chain +rknpu +failed .*did not end its tasks")
        self.assertRegex(said, "depthwise +rknpu +ok")  # the simplest one came right again

    def test_5_a_machine_that_stops(self):
        """The kit is gone in the middle of a probe: the next one says which it was, leaves it out, and does the rest."""
        kit = self.hold("rocket")
        kit.kill()
        kit.communicate()
        self.helper.send_signal(signal.SIGCONT)
        lines = JOURNAL.read_text().splitlines()
        begin, boot, *what = lines[-1].split()
        self.assertEqual((begin, what), ("begin", ["rocket", "chain"]))
        JOURNAL.write_text("\n".join(lines).replace(boot, "00000000-0000-0000-0000-000000000000") + "\n")
        kit = subprocess.Popen(words("--way", "rocket"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = []
        for line in kit.stderr:
            said.append(line)
            if line.startswith("depthwise "):
                kit.send_signal(signal.SIGINT)  # it is enough
        kit.communicate()
        self.assertEqual(kit.returncode, 0)
        said = "".join(said)
        self.assertIn('while "chain" was running on rocket, and the machine has been started again since', said)
        self.assertRegex(said, "chain +rocket +skipped not repeated: the machine was started again")
        self.assertRegex(said, "depthwise +rocket +ok")
        results = self.found("--way", "rocket", "--probe", "chain")[1]
        self.assertEqual(results["chain", "rocket"]["is"], "ok")
        self.found("--way", "rocket", "--probe", "conv")
        self.assertNotIn("An earlier", self.hints)


if __name__ == "__main__":
    unittest.main(verbosity=2)
