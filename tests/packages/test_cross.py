"""The packages for a board, cross-built: of the right architecture, with what those of this machine depend on, and their programs
run: under QEMU, a daemon and its clients. test_cross.py ARCHITECTURE"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HERE = SOURCE / "build/packages"
# Triplet, what readelf calls it, packages (the software NPU is for 64 bits), the emulator.
ARCHITECTURES = {"arm64": ("aarch64-linux-gnu", "AArch64", 6, "qemu-aarch64-static"),
                 "armhf": ("arm-linux-gnueabihf", "ARM", 5, "qemu-arm-static")}
PATIENCE = 120  # seconds


def field(package, name):
    return subprocess.run(["dpkg-deb", "-f", package, name], capture_output=True, text=True, check=True).stdout.strip()


def names(relations):
    return {re.split(r"[ (|]", r.strip())[0] for r in relations.split(",")}


class Cross(unittest.TestCase):
    def setUp(self):
        self.triplet, self.machine, self.n, self.emulator = ARCHITECTURES[ARCHITECTURE]
        self.packages = {field(p, "Package"): p for p in (SOURCE / f"build/packages-{ARCHITECTURE}").glob("*.deb")}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        for package in self.packages.values():
            subprocess.run(["dpkg-deb", "-x", package, self.top], check=True)

    def test_control(self):
        self.assertEqual(len(self.packages), self.n)
        for name, package in self.packages.items():
            self.assertEqual(field(package, "Architecture"), ARCHITECTURE, name)
        depends = {name: names(field(package, "Depends")) for name, package in self.packages.items()}
        self.assertIn("librknnrt-rknnd", depends["rknnd-tools"])
        if "rknnd-npu-sim" in depends:
            self.assertLessEqual({"rknnd", "libdnnl2"}, depends["rknnd-npu-sim"])
        self.assertNotIn("libdnnl2", depends["rknnd"])
        for package in (p for p in HERE.glob("*.deb") if field(p, "Package") in depends):
            self.assertEqual(names(field(package, "Depends")), depends[field(package, "Package")], package.name)

    def test_programs(self):
        library = f"usr/lib/{self.triplet}/rknnd"
        for path in ["usr/bin/rknnd", "usr/bin/rknnctl", f"{library}/npu-vendor.so", f"{library}/client/librknnrt.so"]:
            said = subprocess.run(["readelf", "-h", self.top / path], capture_output=True, text=True, check=True).stdout
            self.assertRegex(said, f"Machine: +{self.machine}\n", path)
        pkgconfig = (self.top / f"usr/lib/{self.triplet}/pkgconfig/rknnrt.pc").read_text()
        self.assertIn(f"-Wl,-rpath,/usr/lib/{self.triplet}/rknnd/client ", pkgconfig)

    def words(self, program, *words):
        return [self.emulator, "-L", str(SOURCE / f"build/sysroot-{ARCHITECTURE}"), str(self.top / "usr/bin" / program), *map(str, words)]

    def must(self, words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def test_a_daemon_and_its_clients(self):
        """Of the board's architecture both, and this machine's rknnctl with the board's daemon."""
        for program in ("rknnd", "rknnctl", "rknnd-kserve"):
            self.assertIn(field(self.packages["rknnd"], "Version"), self.must(self.words(program, "--version")))
        uri = f"unix:{self.top}/socket"
        daemon = subprocess.Popen(self.words("rknnd", "--backend", "null:784:40", "--isolation", "thread", "--module-dir",
                                             self.top / f"usr/lib/{self.triplet}/rknnd", "--listen", uri))
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        deadline = time.monotonic() + PATIENCE
        while not (self.top / "socket").exists():
            self.assertIsNone(daemon.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        model = SOURCE / "examples/digits/digits.rknn"
        for rknnctl in (self.words("rknnctl"), [str(SOURCE / "build/release/bin/rknnctl")]):
            self.assertIn("20 runs", self.must([*rknnctl, "-s", uri, "bench", "-n", "20", str(model)]))
            self.assertIn("null", self.must([*rknnctl, "-s", uri, "status"]))


if __name__ == "__main__":
    ARCHITECTURE = sys.argv.pop(1)
    needed = ["dpkg-buildpackage", f"{ARCHITECTURES[ARCHITECTURE][0]}-gcc", ARCHITECTURES[ARCHITECTURE][3]]
    if os.geteuid() != 0 or not all(map(shutil.which, needed)):
        print(f"skipped: needs root, {', '.join(needed)}")
        sys.exit(77)
    for script in ("packages.sh", "sysroot.sh"):
        # Warnings are errors: sizes of 64 bits that become others are seen here alone.
        code = subprocess.run([SOURCE / "cross" / script, ARCHITECTURE], env={**os.environ, "RKNND_WERROR": "ON"}, check=False).returncode
        if code:
            sys.exit(code)
    unittest.main(verbosity=2)
